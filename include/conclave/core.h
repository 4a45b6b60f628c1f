/* conclave/core.h - protocol cores, for programs with their own event loop.
 *
 * A core is a deterministic state machine: one event in, some effects out. It reads no clock, opens
 * nothing, allocates nothing and draws no random number; time and chance come from the host. The
 * same core runs in `conclave run`, in the simulator and in your own program. A host
 *
 *   1. finds a protocol (cv_protocol_find), fills a configuration (cv_config_init, cv_config_set)
 *      and has it checked (cv_core_configure),
 *   2. gives the core a block of cv_core_size() bytes and calls cv_core_init(),
 *   3. calls cv_core_step() for each event and carries out the effects, in their order.
 *
 * The host must keep these rules. A send never overtakes a persist issued before it, in that step
 * or an earlier one, unless the message type promises nothing (is_free). A failed persist comes
 * back as CV_EVENT_PERSIST_FAILED. A timer fires once, not before its earliest instant. Messages
 * have passed cv_message_decode().
 *
 * The state is one flat block: a snapshot is memcpy. Its only pointers are to the embedding
 * program's own oracles, if the configuration has some. A core has one thread.
 *
 * The structs below have no size in them, unlike those of conclave/election.h, and may grow with a
 * minor version. A program that hosts cores must run with the version that it was compiled with:
 * compare cv_version() with CV_VERSION once, at the start. */
#ifndef CONCLAVE_CORE_H
#define CONCLAVE_CORE_H

#include <conclave/errors.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Members are numbered 1..member_count, the same everywhere. */
typedef uint32_t cv_id;
#define CV_ID_NONE 0u
#define CV_MEMBERS_MAX 4096u
/* A leader without an id, because the protocol has no member list. Its label identifies it. */
#define CV_ID_ANONYMOUS UINT32_MAX

/* ---- Messages ------------------------------------------------------------------------------ */

#define CV_FIELDS_MAX 12u /* scalars of one message */
#define CV_LISTS_MAX 3u   /* sets and lists of one message */

/* Borrowed words: the bits of a set (bit i of word i/64 is member i+1) or values. */
struct cv_list {
    const uint64_t *word;
    uint32_t word_count;
};

/* A decoded message: its type's scalars, then its lists, in the order of the type's field table. */
struct cv_message {
    uint32_t type;
    uint64_t field[CV_FIELDS_MAX];
    struct cv_list list[CV_LISTS_MAX];
};

enum cv_field_kind {
    CV_FIELD_END = 0, /* closes the table */
    CV_FIELD_U64,     /* any number */
    CV_FIELD_FLAG,    /* 0 or 1 */
    CV_FIELD_ID,      /* 1..member_count */
    CV_FIELD_ID_NONE, /* 0..member_count */
    CV_FIELD_SET,     /* a set of members; word_count is always the full width */
    CV_FIELD_VALUES,  /* at most member_count numbers */
};

struct cv_field {
    const char *name;
    enum cv_field_kind kind;
};

struct cv_message_type {
    const char *name; /* stable: scenarios, traces and counts use it */
    struct cv_field fields[CV_FIELDS_MAX + CV_LISTS_MAX + 1];
    bool is_free; /* promises nothing: it is sent even while an earlier record is being saved */
};

/* ---- Leadership ---------------------------------------------------------------------------- */

#define CV_REASON_MAP(X)                                                               \
    X(STARTED, "started")       /* nothing is known yet */                             \
    X(ELECTED, "elected")       /* a new leader */                                     \
    X(RENEWED, "renewed")       /* the same leadership, prolonged */                   \
    X(EXPIRED, "expired")       /* the lease ran out before it was renewed */          \
    X(SUSPECTED, "suspected")   /* the leader fell silent */                           \
    X(SUPERSEDED, "superseded") /* another contender made a newer or stronger claim */ \
    X(RESIGNED, "resigned")     /* the leader resigned by request */                   \
    X(LOST_QUORUM, "lost-quorum")                                                      \
    X(STORE_UNREACHABLE, "store-unreachable")                                          \
    X(STOPPED, "stopped")         /* this node no longer takes part */                 \
    X(NO_PROGRESS, "no-progress") /* the leader's work was stuck: see progress_ns */   \
    X(DIED, "died")               /* the leader's process and its children are gone */ \
    X(FINISHED, "finished")       /* the leader's work is done, and it resigned */     \
    X(GONE, "gone")               /* it ended, and the store does not record why */

enum cv_reason {
#define CV_REASON_ENUM(name, text) CV_REASON_##name,
    CV_REASON_MAP(CV_REASON_ENUM)
#undef CV_REASON_ENUM
        CV_REASON_COUNT
};

/* The stable name of a reason. */
const char *cv_reason_name(enum cv_reason reason);

/* What one node believes about the leader. */
struct cv_leadership {
    bool is_self;   /* this node leads; true exactly while it may act as the leader */
    cv_id leader;   /* CV_ID_NONE: not known; CV_ID_ANONYMOUS: the process with this label */
    uint64_t label; /* nonce of the leader if the protocol is anonymous; otherwise 0 */
    enum cv_reason reason;
    uint64_t token;         /* for fencing; the protocol says whether tokens grow */
    int64_t valid_until_ns; /* local clock; 0: the protocol gives no such guarantee */
    bool has_majority;      /* a majority of the members is known to support this leader */
    struct cv_list members; /* set of the supporters; no words: not known */
};

/* ---- Events -------------------------------------------------------------------------------- */

enum cv_event_kind {
    CV_EVENT_START,          /* first event after each start of the process */
    CV_EVENT_MESSAGE,        /* a message arrived */
    CV_EVENT_TIMER,          /* a timer that was armed is due */
    CV_EVENT_PEER_DOWN,      /* a hint that a peer is dead; proof if is_certain */
    CV_EVENT_REPORT,         /* the application reports a score input */
    CV_EVENT_RESIGN,         /* the operator asks the leader to hand over */
    CV_EVENT_CAMPAIGN,       /* begin or cease to be a candidate */
    CV_EVENT_PERSIST_FAILED, /* durable storage failed: stop taking part */
    CV_EVENT_SEQUENCE,       /* an answer of the sequencer, perhaps late, or its failure */
    CV_EVENT_STORE,          /* an answer of the store, perhaps late, or a notification */
};

/* Numbers of a sequencer are below 2^63. */
#define CV_SEQUENCE_NONE UINT64_MAX

/* Requests to a store. It keeps one record for each election: the holder, its token, and the end of
 * its lease by the store's own clock. A holder is identified by its label, the nonce of its start,
 * and by an attempt, which grows with each leadership that it tries for. */
enum cv_store_verb {
    CV_STORE_READ,    /* who holds it? */
    CV_STORE_ACQUIRE, /* hold it if it is free; repeating an attempt gives the same grant */
    CV_STORE_RENEW,   /* hold it for another lease, if this attempt still holds it */
    CV_STORE_RELEASE, /* give it up, or leave its queue; no error if it was in neither */
};

enum cv_store_verdict {
    CV_STORE_GRANTED, /* ACQUIRE, RENEW: you hold it, for at least duration_ns of the store's clock
                         since the request was made */
    CV_STORE_HELD,    /* another contender or attempt holds it; do not ask again for
                         duration_ns, unless a notification comes first */
    CV_STORE_FREE,    /* it is free: READ or RENEW found it so, or RELEASE freed it */
    CV_STORE_FAILED,  /* whether it was carried out is not known */
    CV_STORE_CHANGED, /* a notification, not an answer: ask again */
};

#define CV_PERSIST_WORDS_MAX 8u

/* Inputs of scores that an application may report. */
#define CV_INPUT_MAP(X)                 \
    X(HISTORY_LENGTH, "history-length") \
    X(REQUEST_RATE, "request-rate")     \
    X(CAPACITY, "capacity")             \
    X(LOAD, "load")                     \
    X(SCORE, "score")

enum cv_input {
#define CV_INPUT_ENUM(name, text) CV_INPUT_##name,
    CV_INPUT_MAP(CV_INPUT_ENUM)
#undef CV_INPUT_ENUM
        CV_INPUT_COUNT
};

struct cv_event {
    enum cv_event_kind kind;
    int64_t now_ns; /* the local clock, always > 0: never set back, counts through suspend */
    cv_id peer;     /* MESSAGE: sender (CV_ID_NONE if the protocol is anonymous); PEER_DOWN: the
                       dead member; RESIGN: requested successor, or none */

    /* MESSAGE */
    const struct cv_message *message; /* lent until the step returns */
    int64_t delay_ns_max;             /* upper bound on its delay; INT64_MAX: unknown */

    /* TIMER */
    uint32_t timer;

    /* PEER_DOWN */
    bool is_certain; /* the dead member's own host saw it die: not a guess */

    /* REPORT */
    enum cv_input input;
    int64_t value;

    /* CAMPAIGN */
    bool is_candidate;

    /* START */
    const uint64_t *persisted; /* the latest saved record; lent until the step returns */
    uint32_t persisted_count;  /* 0: nothing was ever saved */
    uint64_t nonce;            /* differs between any two starts of any process */

    /* SEQUENCE, STORE: at most one for each request */
    uint64_t request;  /* as in CV_EFFECT_ASK_SEQUENCE or CV_EFFECT_ASK_STORE; 0: a notification */
    uint64_t sequence; /* the number; CV_SEQUENCE_NONE: the request failed */

    /* STORE */
    enum cv_store_verdict verdict;
    uint64_t token;        /* of the leadership; grows with each, never repeats; FREE: of the last
                            * leadership, 0: not known */
    uint64_t holder;       /* HELD: its label */
    int64_t duration_ns;   /* GRANTED, HELD: see enum cv_store_verdict */
    enum cv_reason reason; /* FREE: why the last leadership ended; CV_REASON_STARTED: not known */
};

/* ---- Effects ------------------------------------------------------------------------------- */

enum cv_effect_kind {
    CV_EFFECT_SEND,
    CV_EFFECT_ARM,          /* (re-)arm a timer; the host chooses the instant within a range */
    CV_EFFECT_DISARM,       /* cancel a timer */
    CV_EFFECT_PERSIST,      /* replace the durable record; later sends wait, unless is_free */
    CV_EFFECT_LEADERSHIP,   /* this node's belief has changed, or was prolonged */
    CV_EFFECT_ASK_SEQUENCE, /* ask the sequencer for a number; the answer is an event */
    CV_EFFECT_ASK_STORE,    /* ask the store; the answer is an event */
};

#define CV_TIMERS_MAX 8u   /* timers of one core: 0..7 */
#define CV_EFFECTS_MAX 24u /* effects of one step; a core that needs more is wrong */

struct cv_effect {
    enum cv_effect_kind kind;

    /* SEND: to every member first..last, to the sender itself only with to_self.
     * 1..CV_MEMBERS_MAX: all. An anonymous protocol always sends to all members of its group. */
    cv_id first, last;
    bool to_self;
    struct cv_message message;

    /* ARM, DISARM */
    uint32_t timer;
    int64_t earliest_ns, latest_ns; /* local clock */

    /* PERSIST */
    uint32_t persist_count;
    uint64_t persist[CV_PERSIST_WORDS_MAX];

    /* LEADERSHIP */
    struct cv_leadership leadership;

    /* ASK_SEQUENCE: `reference` is a number that the answer must exceed, if the sequencer kept its
     * memory; CV_SEQUENCE_NONE: none is known. */
    uint64_t request;
    uint64_t reference;

    /* ASK_STORE: `request` is never 0 */
    enum cv_store_verb verb;
    uint64_t attempt;
    uint64_t token;   /* RENEW, RELEASE: what was granted; 0: the answer to ACQUIRE is not known */
    int64_t lease_ns; /* ACQUIRE, RENEW: the lease; the store keeps it in the record */
};

/* Why a core ignored or refused a message or a timer. Notes are for traces; hosts ignore them. */
struct cv_note {
    const char *text; /* a literal; {peer}, {time} and {number} stand for the values below */
    cv_id peer;
    int64_t time_ns; /* local clock */
    uint64_t number;
};

#define CV_NOTES_MAX 8u /* notes of one step; further notes are dropped */

/* The effects of one step, in order. The host owns the storage and reuses it for every step. */
struct cv_effects {
    struct cv_effect *item; /* capacity CV_EFFECTS_MAX */
    uint64_t *word;         /* storage for the lists of messages and leaderships */
    uint32_t item_count;
    uint32_t word_count;
    uint32_t word_capacity; /* cv_effects_words(config) */
    struct cv_note *note;   /* capacity CV_NOTES_MAX; NULL: no notes are written */
    uint32_t note_count;
};

/* ---- Configuration ------------------------------------------------------------------------- */

#define CV_OPTIONS_MAX 24u
#define CV_OPTION_DERIVED INT64_MIN /* default: computed from the other options */

enum cv_option_kind {
    CV_OPTION_TIME,   /* nanoseconds; written 250ms, 2s */
    CV_OPTION_COUNT,  /* a number */
    CV_OPTION_FLAG,   /* yes or no */
    CV_OPTION_CHOICE, /* one of the words in `choices`; its index */
    CV_OPTION_TEXT,   /* text that the protocol parses; the value is the index in cv_config.text */
};

#define CV_TEXTS_MAX 2u   /* options of that kind in one protocol */
#define CV_TEXT_BYTES 128 /* with the final zero */

struct cv_option {
    const char *name; /* NULL closes the table */
    enum cv_option_kind kind;
    int64_t initial, min, max;
    const char *choices; /* CHOICE: words separated by '|'; TEXT: the default */
    const char *help;    /* one line; for a derived default also the formula */
};

struct cv_oracle;

/* Invariant after cv_core_configure(): no option is CV_OPTION_DERIVED, all inequalities hold. */
struct cv_config {
    cv_id self;            /* 1..member_count */
    uint32_t member_count; /* 1..CV_MEMBERS_MAX */
    int64_t drift_ppb;     /* bound on any clock's drift, in 1e-9; default 100000 (1e-4) */
    int64_t option[CV_OPTIONS_MAX];
    char text[CV_TEXTS_MAX][CV_TEXT_BYTES];
    /* Scores of the embedding program (conclave/oracle.h). Table and functions must exist as long
     * as the configuration or a core made from it is used. */
    const struct cv_oracle *const *oracles;
    uint32_t oracle_count;
};

/* ---- Protocols ----------------------------------------------------------------------------- */

#define CV_PROPERTY_MAP(X)                                \
    X(VALIDITY, "validity")                               \
    X(AGREEMENT, "agreement")                             \
    X(TERMINATION, "termination")                         \
    X(AT_MOST_ONE_LEADER, "at-most-one-leader")           \
    X(TOKEN_MONOTONIC, "token-monotonic")                 \
    X(LEADER_ORDER, "leader-order")                       \
    X(STABILITY, "stability")                             \
    X(COMMUNICATION_EFFICIENT, "communication-efficient") \
    X(SUPPORT_ONE, "support-one")                         \
    X(LEADER_SELF_SUPPORT, "leader-self-support")         \
    X(BOUNDED_INCONSISTENCY, "bounded-inconsistency")     \
    X(TIMELINESS, "timeliness")                           \
    X(PARTITIONS_DISJOINT, "partitions-disjoint")         \
    X(RIGHTFUL_LEADER, "rightful-leader")                 \
    X(ASSERTIONS, "assertions")

enum cv_property {
#define CV_PROPERTY_ENUM(name, text) CV_PROPERTY_##name,
    CV_PROPERTY_MAP(CV_PROPERTY_ENUM)
#undef CV_PROPERTY_ENUM
        CV_PROPERTY_COUNT
};

/* The stable name of a property. */
const char *cv_property_name(enum cv_property property);

#define CV_PROP(name) (1u << CV_PROPERTY_##name)

#define CV_ASSUME_MAP(X)                                                                       \
    X(BOUNDED_DELAY, "every message arrives on time")                                          \
    X(NO_LOSS, "no message is lost between processes that are up")                             \
    X(PROMPT_PROCESSES, "no process pauses for long")                                          \
    X(BOUNDED_DRIFT, "no clock drifts by more than the bound")                                 \
    X(TRANSITIVE_LINKS, "links are transitive: processes that reach a third reach each other") \
    X(MAJORITY, "a majority of the members is connected")                                      \
    X(SEQUENCER, "the sequencer answers every process within its time")                        \
    X(STORE, "the store answers every process within its time")

enum cv_assume {
#define CV_ASSUME_ENUM(name, text) CV_ASSUME_##name,
    CV_ASSUME_MAP(CV_ASSUME_ENUM)
#undef CV_ASSUME_ENUM
        CV_ASSUME_COUNT
};

/* The sentence for an assumption. */
const char *cv_assume_text(enum cv_assume assume);

/* Which member should lead in quiet times, if a protocol promises rightful-leader. */
enum cv_rightful {
    CV_RIGHTFUL_ANY, /* any member */
    CV_RIGHTFUL_HIGHEST_ID,
    CV_RIGHTFUL_LOWEST_ID,
};

struct cv_protocol {
    const char *name;    /* stable: addresses, scenarios, traces and tests use it */
    const char *summary; /* one line for lists */
    const char *leads;   /* who leads, in a few words */
    const char *cites;   /* the sources of its rules */
    uint32_t promises;   /* CV_PROP(...): simulator and explorer fail if one of these breaks */
    uint32_t assumes;    /* bits of cv_assume: the assumptions of these promises */
    /* Not NULL: promises and assumptions depend on the configuration; use cv_core_contract(). */
    void (*contract)(const struct cv_config *config, uint32_t *promises, uint32_t *assumes);
    bool is_anonymous; /* no member list: messages have no sender, leaders have a label */
    const struct cv_option *options;
    const char *const *renamed; /* pairs: an option's former and current name; then NULL */
    const struct cv_message_type *messages;
    uint32_t message_count; /* 0: it sends none */

    /* Computes derived options and checks the rest; on failure names the inequality broken. */
    int (*configure)(struct cv_config *config, struct cv_errtext *reterr);
    size_t (*size)(const struct cv_config *config);
    void (*init)(void *state, const struct cv_config *config);
    void (*step)(void *state, const struct cv_event *event, struct cv_effects *out);
    void (*check)(const void *state); /* asserts the invariants of one node */
    /* Which member this core is, and of how many; NULL: it has no peers. */
    void (*identity)(const void *state, cv_id *ret_self, uint32_t *ret_member_count);

    /* Within this time after the assumptions began to hold, all nodes agree on a leader. */
    int64_t (*settle_ns)(const struct cv_config *config);
    /* A message is on time if it takes no longer than this; NULL: it sends none. */
    int64_t (*timely_ns)(const struct cv_config *config);
    /* A message that takes longer is certainly slow; NULL: the protocol does not distinguish. */
    int64_t (*fast_ns)(const struct cv_config *config);
    /* The bound of timeliness and bounded-inconsistency; NULL: they are not promised. */
    int64_t (*kappa_ns)(const struct cv_config *config);
    /* Promise for networks in which some links are down: within this time after the remaining
     * links became timely, the nodes that should lead do so. 0 or NULL: no such promise. */
    int64_t (*graph_ns)(const struct cv_config *config);
    /* The sequencer is assumed to answer within this; NULL: it is not used. */
    int64_t (*sequence_ns)(const struct cv_config *config);
    /* The store is assumed to answer within this; NULL: it is not used. */
    int64_t (*store_ns)(const struct cv_config *config);
    enum cv_rightful rightful; /* of the candidates that are connected to each other */

    /* For hosts whose members may lose their durable record; NULL: the protocol cannot run there.
     * floor() returns the largest token, epoch or term of a record. restore() makes a record that
     * refuses everything up to `floor` and keeps the promises of `word` (NULL: no record); it
     * returns how many words it wrote. */
    uint64_t (*floor)(const uint64_t *word, uint32_t word_count);
    uint32_t (*restore)(const uint64_t *word, uint32_t word_count, uint64_t floor,
                        uint64_t ret_word[CV_PERSIST_WORDS_MAX]);
    /* A leadership that is not renewed is over after this; NULL: only a message ends it. If leases
     * vary, lease_ns is the longest and lease_ns_min the shortest (NULL: they do not vary). */
    int64_t (*lease_ns)(const struct cv_config *config);
    int64_t (*lease_ns_min)(const struct cv_config *config);
    /* The message that a witness may send to all members after this process is dead and its work as
     * a leader has ended. The host may ask after any step whose record is durable. False: no
     * message now; NULL: never. The other members may also get a PEER_DOWN with is_certain. */
    bool (*farewell)(const void *state, int64_t now_ns, struct cv_message *ret_message);
};

/* The protocol of that name, or NULL. cv_protocol_at() returns each of them; NULL past the last. */
const struct cv_protocol *cv_protocol_find(const char *name);
const struct cv_protocol *cv_protocol_at(uint32_t index);

/* A configuration with the protocol's defaults. */
void cv_config_init(struct cv_config *config, const struct cv_protocol *protocol, cv_id self,
                    uint32_t member_count);

/* Sets one option from text. CV_E_UNKNOWN: no such option; CV_E_INVALID: not a value for it. */
CV_NODISCARD int cv_config_set(struct cv_config *config, const struct cv_protocol *protocol,
                               const char *name, const char *value, struct cv_errtext *reterr);

/* Computes derived options and checks a configuration. Cores need a configuration that passed. */
CV_NODISCARD int cv_core_configure(const struct cv_protocol *protocol, struct cv_config *config,
                                   struct cv_errtext *reterr);

/* The promises (CV_PROP bits) and assumptions of the protocol with this configuration.
 * CV_E_INVALID: an argument is NULL, or the configuration did not pass cv_core_configure(). */
int cv_core_contract(const struct cv_protocol *protocol, const struct cv_config *config,
                     uint32_t *ret_promises, uint32_t *ret_assumes);

/* Bytes of one core's state. 0: an argument is NULL, or the configuration did not pass. */
size_t cv_core_size(const struct cv_protocol *protocol, const struct cv_config *config);

/* Makes a core in the caller's storage, aligned for any type. The next event must be START.
 * CV_E_INVALID: an argument is NULL, or the configuration did not pass; nothing is written. */
int cv_core_init(const struct cv_protocol *protocol, void *state, const struct cv_config *config);

/* One event in, its effects out. `out` is emptied first; its pointers are valid until the next
 * step.
 *
 * CV_E_INVALID leaves the core unchanged: an argument is NULL; `out` has no items, or fewer words
 * than cv_effects_words(); the clock is not above 0; the kind of event, or a field that the kind
 * uses, is out of range; the peer is not another member; the message does not belong to this
 * protocol.
 *
 * Three mistakes cannot be checked here. A core that notices one aborts the program, because
 * continuing could make two leaders: a state that cv_core_init() did not make for this protocol, a
 * clock that was set back, and wrong events: START twice or not first, a timer that is not armed.
 * The sizes of `out->item` and `out->note` cannot be checked either. */
int cv_core_step(const struct cv_protocol *protocol, void *state, const struct cv_event *event,
                 struct cv_effects *out);

/* Words of list storage that the effects of one step may need. 0: the configuration is not
 * valid. */
uint32_t cv_effects_words(const struct cv_config *config);

/* ---- Codec --------------------------------------------------------------------------------- */

/* The length of the longest encoding. */
size_t cv_message_bytes_max(const struct cv_protocol *protocol, uint32_t member_count);

/* Writes a message; returns its length. The buffer holds at least cv_message_bytes_max(). 0: an
 * argument is NULL, or the number of members, the type or a field of the message is out of range;
 * nothing is written. */
size_t cv_message_encode(const struct cv_protocol *protocol, uint32_t member_count,
                         const struct cv_message *message, uint8_t *ret_bytes);

/* Words that decoding may need for lists. 0: the number of members is out of range. */
uint32_t cv_message_words_max(uint32_t member_count);

/* Reads a message from a peer. Checks the range of every field; no byte may be missing or left
 * over, and each message has exactly one encoding. Lists are written to `word`, which holds
 * cv_message_words_max() words. CV_E_MALFORMED: the bytes are not a message; CV_E_INVALID: an
 * argument is NULL, or the number of members is out of range. On failure *ret_message is
 * unspecified. */
CV_NODISCARD int cv_message_decode(const struct cv_protocol *protocol, uint32_t member_count,
                                   const uint8_t *bytes, size_t byte_count, uint64_t *word,
                                   struct cv_message *ret_message);

#ifdef __cplusplus
}
#endif
#endif
