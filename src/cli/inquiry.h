/* src/cli/inquiry.h - one request to a store, for commands that ask once and end. */
#ifndef CV_CLI_INQUIRY_H
#define CV_CLI_INQUIRY_H

#include "stores/store.h"

#define CV_INQUIRY_MS 5000 /* how long to wait for the answer */

#define CV_ALIKE_BYTES 300

#define CV_RESIGN_WAIT_NS (10 * INT64_C(1000000000)) /* how long `resign` waits by default */

struct cv_inquiry {
    enum cv_store_verdict verdict;
    struct cv_store_record record;
};

/* The value of --via, or else $CONCLAVE_VIA; NULL: neither is set. */
const char *cv__inquiry_via(const char *given);

/* The kind of store for an address (NULL: $CONCLAVE_VIA, or the user's own file), and the address
 * itself, which the caller frees. Returns NULL after a complaint. */
const struct cv_store_kind *cv__inquiry_kind(const char *via, char **ret_address);

/* Is the address valid, with the files and passwords that it names, and is the lease long enough
 * for such a store? Asks it nothing. CV_OK, or a code and why. */
CV_NODISCARD int cv__inquiry_check(const struct cv_store_kind *kind, const char *address,
                                   int64_t lease_ns, struct cv_errtext *reterr);

/* Is the address itself valid? What it names may be missing here. False: *reterr says why. */
bool cv__inquiry_is_written_right(const struct cv_store_kind *kind, const char *address,
                                  struct cv_errtext *reterr);

/* Reads the record, or (asks_to_resign) asks the holder to resign. CV_OK, or a code and why. */
CV_NODISCARD int cv__inquire(const struct cv_store_kind *kind, const char *address,
                             const char *election, bool asks_to_resign, const char *heir,
                             struct cv_inquiry *ret_inquiry, struct cv_errtext *reterr);

/* Reads the record; fails as soon as stop_fd can be read. */
CV_NODISCARD int cv__inquire_or_stop(const struct cv_store_kind *kind, const char *address,
                                     const char *election, int stop_fd,
                                     struct cv_inquiry *ret_inquiry, struct cv_errtext *reterr);

/* An inquiry that began then has failed: because the store is silent? Another one would wait as
 * long, so a command that asks for many elections asks no more. */
bool cv__inquiry_was_silent(int64_t began_ns);

/* Reads or writes the record of the runs of a job (`runs` in stores/store.h). Waits at most
 * patience_ms. CV_OK: *ret_verdict is the store's answer. */
CV_NODISCARD int cv__inquire_runs(const struct cv_store_kind *kind, const char *address,
                                  const char *election, struct cv_store_runs *runs, int patience_ms,
                                  enum cv_store_verdict *ret_verdict, struct cv_errtext *reterr);

/* Fills in a list; list->of says of what. */
CV_NODISCARD int cv__inquire_list(const struct cv_store_kind *kind, const char *address,
                                  const char *election, struct cv_store_list *list,
                                  struct cv_errtext *reterr);

/* Removes an election from the store, waiting at most patience_ms. *ret_is_held: it is held, and
 * nothing was removed. */
CV_NODISCARD int cv__inquire_forget(const struct cv_store_kind *kind, const char *address,
                                    const char *election, int patience_ms, bool *ret_is_held,
                                    struct cv_errtext *reterr);

/* Calls `name` for each election of the store. */
CV_NODISCARD int cv__inquire_names(const struct cv_store_kind *kind, const char *address,
                                   void (*name)(void *user, const char *name), void *user,
                                   struct cv_errtext *reterr);

/* Calls `past` for each leadership that the trail knows. */
CV_NODISCARD int cv__inquire_trail(const struct cv_store_kind *kind, const char *address,
                                   const char *election,
                                   void (*past)(void *user, const struct cv_store_past *past),
                                   void *user, struct cv_errtext *reterr);

/* The path, if the store is a file that does not exist; otherwise NULL. Commands that only ask do
 * not create the file: it would belong to their user, and contenders of other users could not write
 * to it. */
const char *cv__inquiry_absent_file(const struct cv_store_kind *kind, const char *address);

/* "; did you mean 'NAME'?", if the store has no election of this name but one with a similar name;
 * otherwise an empty text. Points into `text`. */
const char *cv__inquire_alike(const struct cv_store_kind *kind, const char *address,
                              const char *election, char text[CV_ALIKE_BYTES]);

/* The same text, whether the store lists this name, and whether the names could be asked for. */
CV_NODISCARD int cv__inquire_similar(const struct cv_store_kind *kind, const char *address,
                                     const char *election, char text[CV_ALIKE_BYTES],
                                     bool *ret_is_known, struct cv_errtext *reterr);

/* An instant of the wall clock in local time; 0 is "unknown". May point into `buffer`. */
#define CV_INQUIRY_WALL_BYTES 32
const char *cv__inquiry_wall_text(int64_t wall_ns, char buffer[CV_INQUIRY_WALL_BYTES]);

/* Prints the outcome of `conclave resign`: who leads now (NULL: nobody). EXIT_FINE, or EXIT_NO if
 * an heir was named (otherwise NULL) and does not lead. */
int cv__inquiry_tell_resigned(const char *name, const char *leader, uint64_t token,
                              const char *heir);

#endif
