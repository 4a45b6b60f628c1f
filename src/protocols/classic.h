/* src/protocols/classic.h - the common part of the five classical protocols of [NITR].
 *
 * The coordinator sends a heartbeat every `heartbeat`; the other processes suspect it when it falls
 * silent (detector=fixed|phi). Each protocol has its own way to find a new coordinator: it provides
 * a table of rules, and cv__classic_step() drives it.
 *
 * Ours: claims are ordered. A coordinator claims leadership in a term; claims compare by term, then
 * by id, and no process accepts a smaller claim than the largest it has accepted. A stale claim (of
 * a coordinator that slept through its successor's election) is answered by REFUSE with the newer
 * term, so that its sender can claim again in a larger one. An older claim of the followed
 * coordinator itself is only late: refusing it would depose a healthy coordinator. The term is the
 * token. It is saved before it is used, so tokens do not start again at 1 when all processes
 * restart; but two partitions may use the same one, so tokens are not promised to be monotonic.
 *
 * Ours too: resigning. The coordinator sends RESIGN, the other processes elect, and the process
 * that resigned is not a candidate until its successor falls silent or none appears in time.
 * Elections go by id, so a requested successor is ignored. A process that does not campaign is
 * never a candidate.
 *
 * Assumed: a synchronous system (delays within `delta`, no loss, no pauses). Without it two
 * coordinators are possible, and `conclave lab classic` shows them. */
#ifndef CV_PROTOCOLS_CLASSIC_H
#define CV_PROTOCOLS_CLASSIC_H

#include "core/detector.h"
#include "core/effects.h"
#include "core/message.h"
#include "core/types.h"

/* Indices of cv__classic_options, which all five use. */
enum {
    CLASSIC_OPTION_HEARTBEAT,
    CLASSIC_OPTION_TIMEOUT,
    CLASSIC_OPTION_DELTA,
    CLASSIC_OPTION_ANSWER,
    CLASSIC_OPTION_COORDINATOR,
    CLASSIC_OPTION_DETECTOR,
    CLASSIC_OPTION_PHI,
};
extern const struct cv_option cv__classic_options[];

#define CLASSIC_PROMISES                                                                  \
    (CV_PROP(VALIDITY) | CV_PROP(AGREEMENT) | CV_PROP(TERMINATION) | CV_PROP(STABILITY) | \
     CV_PROP(RIGHTFUL_LEADER))
#define CLASSIC_ASSUMES                                                                        \
    (BIT(CV_ASSUME_BOUNDED_DELAY) | BIT(CV_ASSUME_NO_LOSS) | BIT(CV_ASSUME_PROMPT_PROCESSES) | \
     BIT(CV_ASSUME_BOUNDED_DRIFT) | BIT(CV_ASSUME_TRANSITIVE_LINKS))

/* The first message types, timers and roles of each of them; its own follow. Every message begins
 * with the sender's term, so that classic_term_read() reads any of them. */
#define CLASSIC_TERM_FIELDS(FIELD) FIELD(U64, term)
CV_MESSAGE_VIEW(classic_term, CLASSIC_TERM_FIELDS)

#define CLASSIC_HEARTBEAT_FIELDS(FIELD) FIELD(U64, term) FIELD(ID_NONE, heir)
CV_MESSAGE_VIEW(classic_heartbeat, CLASSIC_HEARTBEAT_FIELDS)

enum {
    CLASSIC_HEARTBEAT, /* the coordinator is alive, and names its heir */
    CLASSIC_REFUSE,    /* a larger claim was accepted already */
    CLASSIC_RESIGN,    /* the coordinator steps down */
    CLASSIC_MESSAGE_COUNT,
};
#define CLASSIC_MESSAGES                                                          \
    [CLASSIC_HEARTBEAT] = CV_MESSAGE_TYPE("HEARTBEAT", CLASSIC_HEARTBEAT_FIELDS), \
    [CLASSIC_REFUSE] = CV_MESSAGE_TYPE("REFUSE", CLASSIC_TERM_FIELDS),            \
    [CLASSIC_RESIGN] = CV_MESSAGE_TYPE("RESIGN", CLASSIC_TERM_FIELDS)

/* No cluster elects that often: messages with larger terms are ignored. A broken peer may send this
 * one. Then terms cannot grow any more, and elections continue as in [NITR], without an order in
 * time: a process that knows no coordinator follows any that claims. */
#define CLASSIC_TERM_MAX (UINT64_C(1) << 62)

enum {
    CLASSIC_TIMER_HEARTBEAT, /* coordinator: send the next one */
    CLASSIC_TIMER_SUSPECT,   /* others: the coordinator has been silent for too long */
    CLASSIC_TIMER_ELECTION,  /* of the present role: the awaited message did not come */
    CLASSIC_TIMER_COUNT,
};

enum {
    CLASSIC_FOLLOWING, /* has a coordinator, or waits to hear of one */
    CLASSIC_LEADING,
    CLASSIC_STOPPED, /* takes no further part; final, and every role may change to it */
    CLASSIC_ROLE_COUNT,
};

/* The beginning of every classical state. Invariants: claim_term <= term; leader is CV_ID_NONE or
 * claim_leader; the role is LEADING if and only if leader is self. Beside the role there are two
 * flags, which outlive changes of the role: is_candidate, set by the operator, and has_resigned:
 * this process has handed over and must not be elected again at once. */
struct classic {
    cv_id self;
    uint32_t member_count;
    int64_t heartbeat_ns, timeout_ns, delta_ns, answer_ns, coordinator_ns;

    uint64_t term;        /* the largest ever seen */
    uint64_t claim_term;  /* the largest claim accepted, ... */
    cv_id claim_leader;   /* ... and its owner */
    cv_id leader;         /* the leader that this process follows; itself: it leads */
    int64_t announced_ns; /* when a coordinator last announced itself, if the protocol uses it */
    cv_id heir;           /* named in the coordinator's heartbeats, if the protocol has heirs */
    uint32_t role;

    uint32_t is_candidate; /* flags of 32 bits, so that the block has no hidden padding */
    uint32_t has_resigned;
    struct cv_detector detector;
};

/* The rules in which the protocols differ. `c` is the beginning of the protocol's state. */
struct classic_rules {
    const uint32_t *role_next; /* for each role, the roles it may change to, as bits */
    uint32_t role_count;
    bool listens_first; /* on starting, wait for a heartbeat before electing */
    bool contests;      /* a claim of a lower id is contested, not followed */

    /* Find a coordinator. This process is a candidate and knows of none. `dead`: a process just
     * found dead, or CV_ID_NONE. */
    void (*elect)(struct classic *c, cv_id dead, int64_t now_ns, struct cv_effects *out);
    /* The coordinator is suspected and already forgotten; NULL: elect. */
    void (*on_orphaned)(struct classic *c, cv_id dead, int64_t now_ns, struct cv_effects *out);
    /* A message of the protocol's own types; its own timers and TIMER_ELECTION; a hint (or
     * NULL). */
    void (*on_message)(struct classic *c, const struct cv_event *event, struct cv_effects *out);
    void (*on_timer)(struct classic *c, uint32_t timer, int64_t now_ns, struct cv_effects *out);
    void (*on_peer_down)(struct classic *c, const struct cv_event *event, struct cv_effects *out);
};

/* Derived options and inequalities. `coordinator_ns`: the protocol's default for that option. */
int cv__classic_configure(struct cv_config *config, int64_t coordinator_ns,
                          struct cv_errtext *reterr);
/* T, as given or by default; for computing other defaults from it. */
int64_t cv__classic_answer_ns(const struct cv_config *config);
/* For settle_ns: the longest time from the last heartbeat to suspicion, resignations included. */
int64_t cv__classic_detection_ns(const struct cv_config *config);

/* The record is one word, the largest term. */
uint64_t cv__classic_floor(const uint64_t *word, uint32_t word_count);
uint32_t cv__classic_restore(const uint64_t *word, uint32_t word_count, uint64_t floor,
                             uint64_t ret_word[CV_PERSIST_WORDS_MAX]);
/* delta */
int64_t cv__classic_timely_ns(const struct cv_config *config);

/* The entries that are the same in the tables of all five. */
#define CLASSIC_TABLE                                               \
    .assumes = CLASSIC_ASSUMES, .options = cv__classic_options,     \
    .timely_ns = cv__classic_timely_ns, .floor = cv__classic_floor, \
    .restore = cv__classic_restore, .identity = cv__classic_identity

void cv__classic_init(struct classic *c, const struct cv_config *config);
void cv__classic_identity(const void *state, cv_id *ret_self, uint32_t *ret_member_count);
void cv__classic_check(const struct classic *c);
void cv__classic_step(struct classic *c, const struct classic_rules *rules,
                      const struct cv_event *event, struct cv_effects *out);

/* May this process become coordinator now? */
bool cv__classic_stands(const struct classic *c);
/* Notes why this process did not answer that peer as a candidate would. */
void cv__classic_note_passive(const struct classic *c, const char *if_resigned,
                              const char *if_no_candidate, cv_id peer, struct cv_effects *out);

/* The only place where the role changes. Disarms the timer of the old role. */
void cv__classic_become(struct classic *c, const struct classic_rules *rules, uint32_t role,
                        struct cv_effects *out);
/* The same, with TIMER_ELECTION after wait_ns. */
void cv__classic_await(struct classic *c, const struct classic_rules *rules, uint32_t role,
                       int64_t now_ns, int64_t wait_ns, struct cv_effects *out);

/* Forget the leader and elect; a process that is not a candidate waits to hear of a new leader. */
void cv__classic_elect(struct classic *c, const struct classic_rules *rules, int64_t now_ns,
                       struct cv_effects *out);

/* The term of the next claim: above the largest ever seen, up to CLASSIC_TERM_MAX. */
uint64_t cv__classic_next_term(const struct classic *c);

/* Claim leadership in `term` and begin to send heartbeats. */
void cv__classic_lead(struct classic *c, const struct classic_rules *rules, uint64_t term,
                      int64_t now_ns, struct cv_effects *out);

/* How a claim compares with the largest one accepted. */
enum classic_age { CLASSIC_STALE, CLASSIC_CURRENT, CLASSIC_NEWER };
static inline enum classic_age cv__classic_age(const struct classic *c, uint64_t term, cv_id leader)
{
    CV_ASSERT(leader != CV_ID_NONE);
    CV_ASSERT(leader <= c->member_count); /* checked by the codec */
    if (term != c->claim_term) {
        return term < c->claim_term ? CLASSIC_STALE : CLASSIC_NEWER;
    }
    if (term == CLASSIC_TERM_MAX && c->leader == CV_ID_NONE) {
        return CLASSIC_NEWER; /* there is no larger term: see CLASSIC_TERM_MAX */
    }
    if (leader != c->claim_leader) {
        return leader < c->claim_leader ? CLASSIC_STALE : CLASSIC_NEWER;
    }
    return CLASSIC_CURRENT;
}

/* A claim was received: follow it, contest it, or refuse it to `from`. */
void cv__classic_claim(struct classic *c, const struct classic_rules *rules, uint64_t term,
                       cv_id leader, cv_id from, int64_t now_ns, struct cv_effects *out);

#endif
