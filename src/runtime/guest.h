/* src/runtime/guest.h - asks the members of a cluster, without being a member.
 *
 * For commands that ask once and end. A guest has the cluster's key and its own socket, and is not
 * counted as a member. Each member answers with its own view: members that cannot hear each other
 * answer differently. */
#ifndef CV_RUNTIME_GUEST_H
#define CV_RUNTIME_GUEST_H

#include "net/cluster.h"
#include "net/peers.h"

/* Kinds of items between members, and between members and guests. */
enum {
    CV_ITEM_CORE = 1, /* a message of the core */
    CV_ITEM_ASK,      /* what do you remember? number of the question */
    CV_ITEM_MEMORY,   /* the answer: that number, has-state, floor */
    CV_ITEM_RESIGN,   /* token of the leader that is asked to resign, heir */
    CV_ITEM_QUESTION, /* from a guest: what is your status? */
    CV_ITEM_STATUS,   /* the answer, also to a report */
    CV_ITEM_REPORT,   /* from a guest: a score input and its value */
    CV_ITEM_DOWN,     /* from a witness: the sender is dead; 1: certain, 0: a hint */
};
#define CV_ITEM_RESIGN_BYTES 10u
#define CV_ITEM_REPORT_BYTES 9u

/* How one member is heard by another. */
struct cv_guest_link {
    bool is_heard; /* in this life of both */
    bool differs;  /* refused: it has another generation, protocol, options or members */
    int64_t ago_ns;
    int64_t delay_ns;  /* the latest bound; INT64_MAX: none */
    int64_t round_ns;  /* mean round trip; 0: not known */
    int64_t drift_ppb; /* how much faster its clock runs; INT64_MIN: not known */
    uint32_t received, lost;
};

/* What one member reports of itself. */
struct cv_guest_status {
    bool has_answered;
    bool has_joined;
    bool is_leading;
    bool has_majority;
    cv_id leader; /* the leader that it follows */
    uint64_t token;
    int64_t left_ns; /* if it leads: for how long still */
    uint64_t life;
    uint32_t generation;
    char version[16];
    struct cv_guest_link link[CV_CLUSTER_MEMBERS_MAX]; /* of member i + 1 */
};

#define CV_GUEST_STATUS_BYTES_MAX (64u + CV_CLUSTER_MEMBERS_MAX * 41u)

size_t cv__guest_encode(const struct cv_guest_status *status, uint32_t member_count,
                        uint8_t ret_bytes[CV_GUEST_STATUS_BYTES_MAX]);
/* False: it is not such an answer. */
bool cv__guest_decode(const uint8_t *bytes, size_t byte_count, uint32_t member_count,
                      struct cv_guest_status *ret_status);

struct cv_guest;

CV_NODISCARD int cv__guest_open(const struct cv_cluster *cluster, const char *election,
                                struct cv_guest **ret_guest, struct cv_errtext *reterr);
void cv__guest_close(struct cv_guest *guest); /* NULL is fine */

/* What a member has told of its file in its latest answer. False: nothing, or it is the same as the
 * guest's. Its answer may then be one that the guest cannot read. */
bool cv__guest_differs(const struct cv_guest *guest, cv_id member, struct cv_peers_same *ret_said);

/* Asks all, and waits until all have answered, or for wait_ns. Returns how many did; status[i] is
 * of member i + 1. */
uint32_t cv__guest_ask(struct cv_guest *guest, int64_t wait_ns,
                       struct cv_guest_status status[CV_CLUSTER_MEMBERS_MAX]);

/* Reports a score input to a member (cv_report()). False: it did not answer within wait_ns. */
bool cv__guest_report(struct cv_guest *guest, cv_id member, enum cv_input input, int64_t value,
                      int64_t wait_ns);

/* Asks the leader with that token to resign. There is no answer: cv__guest_ask() shows the
 * outcome. */
void cv__guest_request_resign(struct cv_guest *guest, cv_id leader, uint64_t token, cv_id heir);

/* The leader according to these answers: the member that claims it with the largest token, or
 * none. */
cv_id cv__guest_leader(const struct cv_guest_status *status, uint32_t member_count);

#endif
