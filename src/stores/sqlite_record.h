/* src/stores/sqlite_record.h - the records of a SQLite file: what is read and written, and when.
 *
 * All processes that share the file share a kernel, so they share its clock: CLOCK_BOOTTIME, which
 * nobody can set and which counts through suspend. It begins anew at each boot, so a record names
 * the boot it belongs to. A record of another boot was left by a machine that has restarted since,
 * and its holder is dead; unless the file lies on a network disk, contrary to its purpose, and the
 * machine is another one: then, as nothing is known of that clock, a whole lease must pass without
 * any change before our own eyes.
 *
 * The token is the row number of the audit trail, which SQLite never gives out twice
 * (AUTOINCREMENT), also after rows were deleted. A grant is on the disk before it is answered;
 * renewals and releases may be lost in a power failure, which ends all leaderships anyway (the
 * trail then says "died" of one that had resigned just before).
 *
 * These functions wait for the disk and for other writers, up to CV_SQLITE_BUSY_MS. */
#ifndef CV_STORES_SQLITE_RECORD_H
#define CV_STORES_SQLITE_RECORD_H

#include "stores/store.h"

#include <sqlite3.h>

#define CV_SQLITE_BUSY_MS 1000
#define CV_SQLITE_PATH_BYTES 4096
#define CV_BOOT_BYTES 40
#define CV_MACHINE_BYTES 40

#define CV_SQLITE_STATEMENTS 4

struct cv_sqlite {
    sqlite3 *db;
    sqlite3_stmt *statement[CV_SQLITE_STATEMENTS]; /* prepared once; NULL: not yet */
    char path[CV_SQLITE_PATH_BYTES];
    char election[CV_ELECTION_BYTES];
    char node[CV_NODE_BYTES];
    uint64_t label;
    char boot[CV_BOOT_BYTES];       /* this boot of this kernel */
    char machine[CV_MACHINE_BYTES]; /* empty: it has no name */
    int64_t (*now_ns)(void);        /* CLOCK_BOOTTIME; tests have their own */

    int held; /* the lifeline of the present grant, or -1 */
    uint64_t held_token;
    bool is_ready; /* to take over: see make_ready() */
    int log_pages; /* as of our latest commit, and not written back since */

    /* A record of another machine: since when it has been seen unchanged. */
    uint64_t strange_token;
    int64_t strange_expires_ns, strange_since_ns;
};

/* Opens the file, and makes it if need be. `path` may be relative. */
CV_NODISCARD int cv__sqlite_open(struct cv_sqlite *s, const char *path, const char *election,
                                 const char *node, uint64_t label, struct cv_errtext *reterr);
/* Also for one that could not be opened. Lets go of the lifeline. */
void cv__sqlite_close(struct cv_sqlite *s);

/* Carries out one request. *ret_record is written unless the verdict is FAILED; then *reterr is. */
void cv__sqlite_do(struct cv_sqlite *s, const struct cv_store_request *request,
                   struct cv_store_answer *ret_answer, struct cv_store_record *ret_record,
                   struct cv_errtext *reterr);

/* Leaves a wish with the holder, and wakes it. */
void cv__sqlite_wish(struct cv_sqlite *s, const char *heir, struct cv_store_answer *ret_answer,
                     struct cv_store_record *ret_record, struct cv_errtext *reterr);

/* The folder of the lifelines, and the one that belongs to a token. */
void cv__sqlite_folder(const struct cv_sqlite *s, char ret_path[CV_SQLITE_PATH_BYTES]);
void cv__sqlite_lifeline(const struct cv_sqlite *s, uint64_t token,
                         char ret_path[CV_SQLITE_PATH_BYTES]);
/* Is this file name, from that folder, a lifeline of our election? */
bool cv__sqlite_is_ours(const struct cv_sqlite *s, const char *name);

/* Every election of the file. */
CV_NODISCARD int cv__sqlite_names(struct cv_sqlite *s, void (*name)(void *user, const char *name),
                                  void *user, struct cv_errtext *reterr);

CV_NODISCARD int cv__sqlite_history(struct cv_sqlite *s,
                                    void (*past)(void *user, const struct cv_store_past *past),
                                    void *user, struct cv_errtext *reterr);

#endif
