/* src/runtime/trail.h - the audit trail of elections whose store keeps none.
 *
 * A file in the user's state folder. Contenders of this machine record each leadership that they
 * see begin and end. So it has no records of times without a contender on this machine. Stores with
 * their own trail (stores/store.h: history) record every leadership. */
#ifndef CV_RUNTIME_TRAIL_H
#define CV_RUNTIME_TRAIL_H

#include "stores/store.h"

struct cv_trail;

/* The elections of a loop share one, with a thread that writes. CV_OK, CV_E_MEMORY or
 * CV_E_LIMIT. */
CV_NODISCARD int cv__trail_open(uv_loop_t *loop, struct cv_shared_list *list,
                                struct cv_trail **ret_trail, struct cv_errtext *reterr);
void cv__trail_close(struct cv_trail *trail); /* NULL is fine */

/* A leadership began (why is NULL) or ended, ago_ns ago. Returns at once; it is written some
 * milliseconds later. A record that cannot be written is lost; an election does not depend on
 * it. */
void cv__trail_note(struct cv_trail *trail, const char *address, const char *election,
                    const char *node, uint64_t token, const char *why, int64_t ago_ns);

/* Reads the store's own trail, or ours. */
CV_NODISCARD int cv__trail_read(const struct cv_store_kind *kind, const char *address,
                                const char *election,
                                void (*past)(void *user, const struct cv_store_past *past),
                                void *user, struct cv_errtext *reterr);

/* Removes an election from our trail. */
CV_NODISCARD int cv__trail_forget(const char *address, const char *election,
                                  struct cv_errtext *reterr);

#endif
