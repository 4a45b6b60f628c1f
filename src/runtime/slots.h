/* src/runtime/slots.h - the durable record of a member of a cluster, in a file with two slots.
 *
 * A save writes one block of 512 bytes over the older of the two slots and returns when it is on
 * the disk (O_DSYNC): one system call, no new file. The file is created once, when the member
 * joins; joining.h needs this to tell a member that joined from one without a state.
 *
 * A slot is whole or was never written. Anything else is damage, even if the other slot is whole:
 * the damaged slot may have been the newer one, and a member that may have forgotten a promise must
 * not make another. Such a file is reported and never replaced; if an operator removes it, the
 * member joins again. A file of another member, cluster, protocol or a later generation is refused,
 * too.
 *
 * PATH.lock is locked as long as this is open: a member that is started twice is refused. */
#ifndef CV_RUNTIME_SLOTS_H
#define CV_RUNTIME_SLOTS_H

#include "core/types.h"

/* Whose state it is. */
struct cv_slots_owner {
    const char *cluster;
    const char *protocol;
    cv_id self;
    uint32_t member_count;
    uint32_t generation;
    int64_t lease_ns; /* a promise in this record binds at most this long */
};

/* What was saved last; the words are lent until the next save. */
struct cv_slots_record {
    const uint64_t *word;
    uint32_t word_count;
    uint32_t generation; /* may be an earlier one */
    bool is_of_protocol; /* false: of another protocol; its words cannot be used */
    int64_t lease_ns;
};

struct cv_slots;

/* Renames the state that an earlier version wrote for one election of the member, unless `path`
 * exists. CV_OK, also if neither exists; CV_E_STORE: the old state is in use, or cannot be
 * renamed. */
CV_NODISCARD int cv__slots_adopt(const char *old_path, const char *path, struct cv_errtext *reterr);

/* Opens and reads. CV_E_STORE (it cannot be used, or is in use), CV_E_MALFORMED (damaged, or of
 * another owner), CV_E_INVALID or CV_E_MEMORY. */
CV_NODISCARD int cv__slots_open(const char *path, const struct cv_slots_owner *owner,
                                struct cv_slots **ret_slots, struct cv_errtext *reterr);
void cv__slots_close(struct cv_slots *slots); /* NULL is fine */

/* False: there is no file, this member has not joined. */
bool cv__slots_latest(const struct cv_slots *slots, struct cv_slots_record *ret_record);

/* Creates the file with its first record. */
CV_NODISCARD int cv__slots_create(struct cv_slots *slots, const uint64_t *word, uint32_t word_count,
                                  struct cv_errtext *reterr);
/* Replaces the record. After a failure the file must not be used any more. */
CV_NODISCARD int cv__slots_save(struct cv_slots *slots, const uint64_t *word, uint32_t word_count,
                                struct cv_errtext *reterr);

#endif
