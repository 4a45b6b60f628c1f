/* src/runtime/peers_trail.h - the audit trail of a cluster: what each member saw.
 *
 * Each member appends a line to STATE/CLUSTER.MEMBER@ELECTION.trail whenever a leadership begins
 * or ends for it. No election waits for this: a separate thread writes the line, and does not wait
 * for the disk, so a crash of the host may cost the latest lines. When the file has
 * CV_PEERS_TRAIL_BYTES_MAX, it replaces FILE.old.
 *
 * A line: a check sum (16 hexadecimal digits), "begin" or "end", the wall clock in nanoseconds, the
 * token, the leader's name; for an end the reason, "own" (recorded by the leader itself) or "seen",
 * and when the leader was last heard (0: not known); the election. A line with a wrong sum is left
 * out and reported; the other lines still count. No promise is ever read from here. */
#ifndef CV_RUNTIME_PEERS_TRAIL_H
#define CV_RUNTIME_PEERS_TRAIL_H

#include "net/cluster.h"
#include "stores/store.h"

#define CV_PEERS_TRAIL_BYTES_MAX (128u * 1024u) /* of each of the two files */

struct cv_peers_trail;

/* `log` gets a line when the trail is found to be damaged, and when it cannot be written for the
 * first time; on the loop's thread. CV_OK, CV_E_INVALID, CV_E_MEMORY or CV_E_LIMIT. */
CV_NODISCARD int cv__peers_trail_open(uv_loop_t *loop, const struct cv_cluster *cluster, cv_id self,
                                      const char *election,
                                      void (*log)(void *user, const char *line), void *user,
                                      struct cv_peers_trail **ret_trail, struct cv_errtext *reterr);
/* Writes what was noted. `closed` is called by the loop, and logs nothing after that. NULL is none,
 * and closed at once. */
void cv__peers_trail_close(struct cv_peers_trail *trail, void (*closed)(void *data), void *data);

/* How a leadership ended, as this member knows it. */
struct cv_peers_trail_end {
    enum cv_reason why;
    bool is_own;      /* it was this member's */
    int64_t over_ns;  /* how long ago it was over: a process that was stopped learns of it late */
    int64_t heard_ns; /* how long ago the leader was heard last; negative: not known */
};

/* A leadership has begun, or ended (not NULL). Returns at once; what cannot be written is lost. */
void cv__peers_trail_note(struct cv_peers_trail *trail, const char *leader, uint64_t token,
                          const struct cv_peers_trail_end *end);

/* What the trails in the state folder say together, by token: of the member of that name, or (NULL)
 * of all members of this host. The leader's own word on the end of its leadership counts; without
 * it the latest that was seen, but not beyond the beginning of the next. `log` gets a line for each
 * file with damaged lines. CV_E_STORE: there is no such file, or it cannot be read. */
CV_NODISCARD int cv__peers_trail_read(const struct cv_cluster *cluster, const char *member,
                                      const char *election,
                                      void (*past)(void *user, const struct cv_store_past *past),
                                      void (*log)(void *user, const char *line), void *user,
                                      struct cv_errtext *reterr);

#endif
