/* src/explore/world.h - the explored world: nodes, messages in flight, and the properties.
 *
 * A world is one flat block. It is copied with memcpy, changed by one choice at a time (choices.h),
 * brought into its canonical form (canonical.h) and then compared as bytes.
 *
 * TIME. Clocks do not advance. The clock of actor j always shows explore_now_ns(j); when time
 * passes, every stored instant is moved back instead. So two worlds that differ only in their time
 * have the same bytes. In the cores and in messages, instants are found by their value: each clock
 * shows numbers that no other value looks like ((j + 1) << 48 and above). The instants of the host
 * and of the properties are listed field by field. docs/explore.md says what is covered;
 * docs/adr/0030 says why instants are found this way.
 *
 * The cores are hosted by src/host, as in the simulator and in a real process, and judged by
 * src/properties.
 *
 * Memory: the model has pointers and scratch and exists once; a world has none. */
#ifndef CV_EXPLORE_WORLD_H
#define CV_EXPLORE_WORLD_H

#include "core/failaware.h"
#include "host/node.h"
#include "host/record.h"
#include "properties/properties.h"

#include <setjmp.h>

#define EXPLORE_NODES_MAX 4u
#define EXPLORE_SERVICE 6u       /* the store or sequencer, an actor with its own clock */
#define EXPLORE_REAL 7u          /* the clock of real time, beside those of the actors */
#define EXPLORE_CLOCKS 8u        /* actors and real time */
#define EXPLORE_MESSAGES_MAX 96u /* in flight at once */
#define EXPLORE_TOKENS 32u       /* slots of the table of token owners, a power of two */
#define EXPLORE_TOKENS_MAX 12u   /* of them in use; see cv_properties.owner */
#define EXPLORE_INBOX_MAX 4u    /* messages that wait for a paused node; further ones are dropped */
#define EXPLORE_TYPES_MAX 16u   /* message types of one protocol */
#define EXPLORE_DEFERRED_MAX 8u /* effects that wait for a slow disk; further sends are dropped */
#define EXPLORE_REBOOT_TICKS 12 /* a reboot sets a clock back by this */
#define EXPLORE_DRIFT_PARTS 11  /* a drifting clock is too fast or slow by one part in so many */
#define EXPLORE_WITNESS_SHARE 50 /* as the host of members: see start_witness() in peers.c */

#define EXPLORE_BUDGET_MAP(X)                                                  \
    X(CRASH, "crash")         /* also between a record and its message */      \
    X(RECOVER, "recover")     /* of a crashed node */                          \
    X(LOSS, "loss")           /* of a message */                               \
    X(LATE, "late")           /* a message comes at any later time */          \
    X(DUPLICATE, "duplicate") /* a message comes again, at any time */         \
    X(REORDER, "reorder")     /* a message overtakes those before it */        \
    X(PAUSE, "pause")         /* of a node, for any time */                    \
    X(PARTITION, "partition") /* any split into two, for any time */           \
    X(RESIGN, "resign")       /* the leader is asked to */                     \
    X(RESTART, "restart")     /* of the store or the sequencer */              \
    X(WITNESS, "witness")     /* of a crash: tells the others, any time */     \
    X(ONE_WAY, "one-way")     /* a split of which one side hears nothing */    \
    X(REBOOT, "reboot")       /* of a crashed node, whose clock starts anew */ \
    X(DISK, "disk")           /* a save fails */                               \
    X(SLOW, "slow")           /* a save takes any time */

enum explore_budget {
#define EXPLORE_BUDGET_ENUM(name, text) EXPLORE_##name,
    EXPLORE_BUDGET_MAP(EXPLORE_BUDGET_ENUM)
#undef EXPLORE_BUDGET_ENUM
        EXPLORE_BUDGET_COUNT
};

const char *explore_budget_name(enum explore_budget budget);

/* How many scalars and lists (each of one word: members are few) a message type has. */
struct explore_shape {
    uint32_t scalar_count, list_count;
};

/* Called with one line of a trace; at_ns is counted from the beginning. */
typedef void explore_say(void *context, int64_t at_ns, const char *line);

/* Why a path ended: a property that is judged is broken, or a bound of this program was hit. */
struct explore_end {
    bool is_broken, is_bound;
    enum cv_property property;
    char detail[200];
};

struct explore_world;

/* The service that the cores ask. */
enum explore_service_kind { EXPLORE_NO_SERVICE, EXPLORE_STORE, EXPLORE_SEQUENCER };

/* All that stays the same during a search, and scratch. */
struct explore_model {
    const struct cv_protocol *protocol;
    uint32_t node_count;
    enum explore_service_kind service;
    struct cv_config config[EXPLORE_NODES_MAX];
    int64_t tick_ns;                    /* of a node's own clock */
    int64_t period_ns[EXPLORE_CLOCKS];  /* real time of a tick of each clock */
    int64_t delay_min_ns, delay_max_ns; /* of a message, real time */
    int64_t horizon_ns;                 /* instants older than this are not told apart */
    uint32_t judged;                    /* CV_PROP bits: these end the search */
    bool judges_liveness;               /* after the settling time */
    bool uses_bounds;                   /* cores use the bound on a message's delay, ... */
    int64_t bound_ns;                   /* ... and do not distinguish bounds above this */
    bool is_raw;                        /* no canonical form: for testing it */
    bool is_symmetric;                  /* nodes may change places; see symmetry.h */
    bool has_every_moment;              /* tries faults even at instants that make no difference */
    int64_t witness_ns; /* for so long the witness of a restarted process gives only hints */
    int64_t slow_ns;    /* the longest save, in the node's own time; 0: any time */
    uint8_t budget[EXPLORE_BUDGET_COUNT]; /* at the beginning */
    void (*canonical)(const struct explore_model *model, struct explore_world *world);
    bool (*is_beyond)(const struct explore_model *model, struct explore_world *world);
    const char *beyond;        /* describes the worlds that are not explored */
    bool has_been_beyond;      /* some of these were met */
    const char *const *timers; /* the names of the protocol's timers; some may be NULL */
    uint32_t spent;            /* a bit for each kind of fault that has happened in any world */

    struct explore_shape shape[EXPLORE_TYPES_MAX];
    size_t core_bytes, node_bytes, fixed_bytes, message_bytes;
    uint32_t message_words;
    bool numbers_messages;   /* each message has a number after its words, which is not compared */
    size_t compared_bytes;   /* of a message */
    uint64_t message_number; /* the last one given */

    /* Scratch of the step that runs. */
    struct explore_world *world;
    uint32_t actor;
    bool crashes_at_record; /* no effect leaves after the first record of this step */
    bool fails_at_record;   /* this step's record cannot be saved */
    bool writes_at_failure; /* it fails, but is durable */
    bool waits_at_record;   /* this step's record takes any time */
    bool has_saved;
    bool has_turned; /* the turn of the last choice is over */
    struct explore_end end;
    struct cv_properties properties;
    struct cv_property_node *own_block; /* the block that cv__properties_init() has allocated */
    struct cv_node_host host;
    struct cv_effects effects;
    struct cv_deferred deferred[CV_EFFECTS_MAX];
    struct cv_note note[CV_NOTES_MAX];
    /* CV_EFFECTS_MAX of the running step, and one for a deferred entry */
    struct explore_kept *kept;
    uint32_t kept_count;
    jmp_buf on_assert;
    struct explore_trap {
        struct cv_assert_trap trap;
        struct explore_model *model;
    } trap;

    /* Not NULL while a path is replayed. */
    explore_say *say;
    void *say_context;
    int64_t elapsed_ns;
};

/* The store or the sequencer; all zero if there is none. */
struct explore_service {
    struct cv_model_record record; /* of a store */
    uint64_t counter, boots;       /* of a sequencer */
    int64_t next_tick_ns;          /* real time; it acts only at its ticks */
    uint32_t waiting;              /* bit i: node i is notified when the record becomes free */
    uint32_t has_acted;            /* in this turn */
};

/* What a partition cuts. */
enum explore_way {
    EXPLORE_BOTH_WAYS,
    EXPLORE_FROM_GROUP, /* messages from the second group */
    EXPLORE_TO_GROUP,   /* messages to the second group */
};

/* What a partition has done in this instant. A partition that cuts nothing off in its first instant
 * is equivalent to one that begins later; and a partition may end only just after it has cut
 * something off. So begin and end are explored only where they make a difference. */
enum explore_cut {
    EXPLORE_CUT_BEGAN = 1,
    EXPLORE_CUT_ACTED = 2, /* a message was cut off; for the environment: in the previous instant */
};

/* No padding: the bytes are compared. */
struct explore_header {
    uint16_t message_count;
    uint8_t turn;      /* the actor whose choices come next: 0 the environment, then the nodes */
    uint8_t partition; /* bit i: node i is in the second group; 0: no partition */
    uint32_t owner_count;
    uint8_t budget[EXPLORE_BUDGET_COUNT];
    /* In which nodes take turns in this instant: two bits for each, the first one in the lowest. 0:
     * in the order of their ids. Only if nodes are alike; see symmetry.h. */
    uint8_t order;
    struct cv_token_owner owner[EXPLORE_TOKENS];
    /* properties.now, without the fields that are the same in every world */
    int64_t disturbed_ns, left_until_ns;
    uint64_t token_max;
    uint32_t holder_count;
    uint8_t has_token, is_settled;
    uint8_t way; /* of the partition: enum explore_way */
    uint8_t cut; /* of the partition: bits of enum explore_cut */
    struct explore_service service;
};

struct explore_node {
    struct cv_node host;              /* due_ns: the earliest instant of each timer, ... */
    int64_t latest_ns[CV_TIMERS_MAX]; /* ... and the latest */
    int64_t next_tick_ns;             /* real time; the node acts only at its ticks */
    uint64_t disk[CV_PERSIST_WORDS_MAX];
    struct cv_echo echo[EXPLORE_NODES_MAX];
    int64_t certain_ns;    /* local clock; from then on a witness can be certain; 0: it can now */
    int64_t slow_until_ns; /* local clock: a slow save ends by then; 0: none, or any time */
    uint32_t disk_count;
    uint32_t life;
    uint32_t boot; /* how often its clock has started */
    uint8_t is_up, is_paused;
    uint8_t has_acted; /* in this turn */
    uint8_t zero;
    uint64_t core[]; /* then, with slow disks, EXPLORE_DEFERRED_MAX slots of a gate (disk.h) */
};

enum explore_message_kind {
    EXPLORE_PEER,         /* from one node to another */
    EXPLORE_HINT,         /* from a witness: the sender is down */
    EXPLORE_CERTAIN,      /* from a witness: it is down, and its work as a leader has ended */
    EXPLORE_FAREWELL,     /* the same, with its last message (`farewell` of struct cv_protocol) */
    EXPLORE_MEMBERS,      /* not a message: the members of a leadership that waits for the disk */
    EXPLORE_QUERY,        /* from a node to the service: words as in service.h */
    EXPLORE_ANSWER,       /* to a query */
    EXPLORE_NOTIFICATION, /* the record has become free */
};

struct explore_message {
    uint8_t from, to, type;
    uint8_t is_late;   /* paid from the budget: it arrives at any time, or never */
    uint8_t kind;      /* enum explore_message_kind */
    uint8_t life;      /* query, answer: of the node; with witnesses: of the sender; otherwise 0 */
    uint8_t is_repeat; /* it was delivered before; a repeated query gets no second answer */
    uint8_t deferred; /* 0: in flight; otherwise it waits for its sender's disk, in this slot + 1 */
    int64_t sent_ns;  /* real time */
    struct cv_stamp stamp; /* zero if it is not used */
    uint64_t word[];       /* scalars, then lists; perhaps a number */
};

/* A whole message in words. */
#define EXPLORE_MESSAGE_WORDS_MAX \
    ((sizeof(struct explore_message) / sizeof(uint64_t)) + CV_FIELDS_MAX + CV_LISTS_MAX + 1)

struct explore_world {
    struct explore_header h;
    uint64_t block[]; /* of the properties; then nodes with their cores; then messages */
};

/* The last summand keeps bits 39 to 47 the same in all instants within four minutes, so a word may
 * combine (XOR) an instant and a nonce, which has only these bits. */
static inline int64_t explore_now_ns(uint32_t clock)
{
    return ((int64_t)(clock + 1) << 48) + (INT64_C(1) << 46) + (INT64_C(1) << 38);
}

/* Is this word an instant, and of which clock? */
static inline bool explore_is_instant(uint64_t word, uint32_t *ret_clock)
{
    *ret_clock = (uint32_t)(word >> 48) - 1;
    return word >> 48 >= 1 && word >> 48 <= EXPLORE_CLOCKS;
}

/* The number of actors that take turns: the nodes, and the service if there is one. */
static inline uint32_t explore_actor_count(const struct explore_model *model)
{
    return model->node_count + (model->service != EXPLORE_NO_SERVICE);
}

/* The nonce is also the label of an anonymous process. */
static inline uint64_t explore_nonce(uint32_t node, uint32_t life)
{
    return (uint64_t)(node + 1) << 44 | (uint64_t)life << 40 | UINT64_C(1) << 39;
}

/* Is this word a nonce? No other value looks like one. */
static inline bool explore_is_nonce(uint64_t word, uint32_t *ret_node, uint32_t *ret_life)
{
    const uint64_t node = (word >> 44) - 1;
    const uint64_t life = word >> 40 & 15u;
    *ret_node = (uint32_t)node;
    *ret_life = (uint32_t)life;
    return node < EXPLORE_NODES_MAX && life > 0 &&
           word == explore_nonce((uint32_t)node, (uint32_t)life);
}

/* The nonce that is combined with this instant of the same node, as in a PROBE of pole; or 0. */
static inline uint64_t explore_nonce_in(uint64_t word, uint32_t clock)
{
    const uint64_t nonce = (word ^ (uint64_t)explore_now_ns(clock)) >> 39 << 39;
    uint32_t node;
    uint32_t life;
    return explore_is_nonce(nonce, &node, &life) && node == clock ? nonce : 0;
}

static inline cv_id explore_label_owner(uint64_t label)
{
    return (cv_id)(label >> 44);
}

/* The node with that turn, from 1. */
static inline uint32_t explore_node_of_turn(const struct explore_world *world, uint32_t turn)
{
    return world->h.order == 0 ? turn - 1 : world->h.order >> 2 * (turn - 1) & 3u;
}

static inline struct explore_node *explore_node_at(const struct explore_model *model,
                                                   struct explore_world *world, uint32_t node)
{
    return (struct explore_node *)((uint8_t *)world->block + model->properties.block_bytes +
                                   node * model->node_bytes);
}

static inline struct cv_property_node *explore_judged_at(struct explore_world *world, uint32_t node)
{
    return (struct cv_property_node *)(void *)world->block + node;
}

static inline struct explore_message *explore_message_at(const struct explore_model *model,
                                                         struct explore_world *world,
                                                         uint32_t index)
{
    return (struct explore_message *)((uint8_t *)world + model->fixed_bytes +
                                      index * model->message_bytes);
}

/* The slots of a node's gate, if disks may be slow. */
static inline struct cv_deferred *explore_deferred_at(const struct explore_model *model,
                                                      struct explore_node *n)
{
    return (struct cv_deferred *)((uint8_t *)n->core + model->core_bytes);
}

static inline size_t explore_world_bytes(const struct explore_model *model,
                                         const struct explore_world *world)
{
    return model->fixed_bytes + world->h.message_count * model->message_bytes;
}

/* The model's configuration, shapes and budgets are set by the caller; the rest is computed.
 * CV_E_INVALID: this protocol cannot be explored, or not with so many nodes. */
CV_NODISCARD int explore_model_init(struct explore_model *model, struct cv_errtext *reterr);
void explore_model_fini(struct explore_model *model);

struct explore_world *explore_world_new(const struct explore_model *model);
void explore_world_copy(const struct explore_model *model, struct explore_world *to,
                        const struct explore_world *from);

/* All nodes start. */
void explore_world_begin(struct explore_model *model, struct explore_world *world);

/* Events at one node. A failed assertion in any of them is reported in model->end. */
void explore_world_fire(struct explore_model *model, uint32_t node, uint32_t timer);
/* `keeps`: the message stays in flight, to arrive again. */
void explore_world_deliver(struct explore_model *model, uint32_t index, bool keeps);
void explore_world_crash(struct explore_model *model, uint32_t node);
/* Before the crash: its witness will tell the others, each at any time or never. */
void explore_world_bequeath(struct explore_model *model, uint32_t node);
void explore_world_recover(struct explore_model *model, uint32_t node);
/* Its clock has started again: instants that it showed before look like future ones. */
void explore_world_reboot(struct explore_model *model, uint32_t node);
void explore_world_resign(struct explore_model *model, uint32_t node);
/* Adds a message that is sent now; the caller fills it in. */
struct explore_message *explore_message_add(struct explore_model *model);
/* Only if messages have numbers. */
static inline uint64_t explore_message_number(const struct explore_model *model,
                                              const struct explore_message *m)
{
    return m->word[model->message_words];
}
/* Does the partition cut what one actor sends to another? The service is in the first group. */
static inline bool explore_is_cut(const struct explore_world *world, uint32_t from, uint32_t to)
{
    const uint32_t is_from_group = world->h.partition >> from & 1u;
    const uint32_t is_to_group = world->h.partition >> to & 1u;
    return is_from_group != is_to_group && (world->h.way == EXPLORE_BOTH_WAYS ||
                                            is_from_group == (world->h.way == EXPLORE_FROM_GROUP));
}
/* Is a message lost in the partition? Asked when it is sent. */
static inline bool explore_cuts_off(struct explore_world *world, uint32_t from, uint32_t to)
{
    const bool is_cut = explore_is_cut(world, from, to);
    world->h.cut |= is_cut ? EXPLORE_CUT_ACTED : 0;
    return is_cut;
}
/* Does the message come from a witness? */
static inline bool explore_is_of_witness(const struct explore_message *m)
{
    return m->kind >= EXPLORE_HINT && m->kind <= EXPLORE_FAREWELL;
}
/* Is it a message from or to the store or the sequencer? */
static inline bool explore_is_of_service(const struct explore_message *m)
{
    return m->kind >= EXPLORE_QUERY;
}
/* Makes this node the acting one, before an event. */
struct explore_node *explore_world_enter(struct explore_model *model, uint32_t node);
void explore_message_remove(struct explore_model *model, uint32_t index);
/* A fault, after which liveness needs time to settle. */
void explore_world_disturb(struct explore_model *model);
/* Lets real time pass: every stored instant moves back. No actor has a tick before the end of
 * it. */
void explore_world_pass(struct explore_model *model, int64_t real_ns);
/* Ends leaderships whose time is over, and judges liveness if it is due. */
void explore_world_look(struct explore_model *model);

/* Lets the properties of src/properties use this world; and ends that. */
void explore_world_lend(struct explore_model *model, struct explore_world *world);
void explore_world_take(struct explore_model *model);

/* Reports a line of the trace while a path is replayed. */
void explore_tell(struct explore_model *model, const char *format, ...) CV_PRINTF(2, 3);

#endif
