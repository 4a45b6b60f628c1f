/* src/properties/properties.h - the properties of docs/properties.md, judged during a run.
 *
 * The host observes all nodes of a run. It is the simulator, the exhaustive search, or a checker of
 * claims that real processes recorded. It reports the time, what each node believes and what
 * happens to it, in the order of the run's time: this code has no network and no clock.
 *
 * Safety is judged at every instant and remembers the whole run: at-most-one-leader looks at every
 * leadership that begins, token-monotonic compares with the largest token ever, leader-order with
 * every leader that ever had the same token. Liveness is judged when the protocol's assumptions
 * have held for its settling time: the host says when something disturbs them
 * (cv__properties_disturb), and calls cv__properties_judge() when they have held long enough. Then
 * all nodes of a part must follow the same leader (termination, agreement), and until the next
 * disturbance no node may change its leader (stability).
 *
 * Memory: what belongs to the present state (`now`, `node`, `holder`, `member_word`, connections)
 * is flat and is copied or compared as bytes: the struct `now`, the block of block_bytes at `node`,
 * and the block of the connections. The history of the run is kept apart: the owners of tokens,
 * which grow with the number of leaderships, and the broken properties. */
#ifndef CV_PROPERTIES_PROPERTIES_H
#define CV_PROPERTIES_PROPERTIES_H

#include "core/types.h"
#include "properties/connections.h"

/* Which properties are judged, and by which bounds. */
struct cv_properties_setting {
    uint32_t node_count;
    uint32_t promises, assumes; /* CV_PROP(...); bits of cv_assume */
    bool is_anonymous;
    enum cv_rightful rightful;
    int64_t settle_ns;   /* after this long without a disturbance all agree on a leader */
    int64_t delta_ns;    /* a message that takes longer is a disturbance; 0: no bound */
    int64_t sequence_ns; /* the same for the sequencer's answers; 0: it is not asked */
    int64_t store_ns;    /* the same for the store's answers */
    int64_t timely_ns;   /* two nodes are not connected while a message between them takes longer */
    int64_t fast_ns;     /* a message that takes at most this shows that two are not disconnected */
    int64_t kappa_ns;    /* bound of timeliness and bounded-inconsistency; 0: there is none */
    int64_t graph_ns;    /* like settle_ns, while links are down; 0: nothing is promised */
};

/* What a node reports. All instants are of the run's time, not of its own clock. */
struct cv_belief {
    cv_id named;  /* as the node names its leader; CV_ID_ANONYMOUS: it has only a label */
    cv_id leader; /* the process behind that name, in any of its lives; CV_ID_NONE: none */
    uint64_t token, label;
    bool is_self;     /* it says that it leads */
    int64_t until_ns; /* INT64_MAX: no end of its own */
    /* the set of its supporters; empty: the protocol does not report them */
    struct cv_list members;
};

/* What one node believes, and the leadership that it holds, if any. */
struct cv_property_node {
    bool has_started;  /* ever */
    bool takes_part;   /* it is up, and its disk has not failed */
    bool is_candidate; /* it wants to lead */
    bool has_resigned; /* it was asked to resign since it started or last led */
    bool has_members;  /* it has reported its supporters */
    bool holds;        /* a leadership, possibly one that has expired */
    uint16_t part;     /* nodes with the same number reach each other */
    cv_id leader;
    uint64_t token, label; /* label: of an anonymous leader, otherwise 0 */
    uint64_t token_max;    /* the largest it saw in this life, ... */
    uint64_t label_max;    /* ... with the largest label among equal ones */
    uint64_t held_token;
    int64_t held_from_ns, held_until_ns;
    int64_t led_ns; /* when it last led; -1: never */
    /* It crashed while it held this leadership, and its application may act on it until then. */
    uint64_t left_token;
    int64_t left_until_ns; /* 0: there is none */
};

struct cv_broken {
    bool is_broken;
    int64_t at_ns;
    char detail[160];
};

struct cv_token_owner {
    uint64_t token;
    cv_id leader; /* the first leader seen with this token; an anonymous one has a label too */
    uint64_t label;
};

/* The slot of a token in a table of that capacity, a power of two: its own, or the empty one where
 * it belongs. The table is never full. */
struct cv_token_owner *cv__token_owner_at(struct cv_token_owner *owner, uint32_t capacity,
                                          uint64_t token);

/* Called the first time that each property breaks. */
typedef void cv_on_break(void *context, enum cv_property property, const char *detail);

struct cv_properties {
    struct cv_properties_setting setting;
    cv_on_break *on_break;
    void *context;

    /* ---- The present state ---- */
    struct {
        int64_t now_ns;
        int64_t disturbed_ns;
        int64_t looked_ns; /* when timeliness was last looked at */
        uint64_t token_max;
        uint32_t holder_count;
        int64_t left_until_ns; /* the latest of all nodes */
        bool has_token;
        bool is_settled;
    } now;
    size_t block_bytes;            /* of the three arrays that follow, in one block at `node` */
    struct cv_property_node *node; /* by id - 1 */
    uint64_t *member_word;         /* by node: the set of its supporters */
    cv_id *holder; /* holders of leaderships, with expired ones until the next check */
    struct cv_connections connections;

    /* ---- The history of the run ---- */
    struct cv_broken broken[CV_PROPERTY_COUNT]; /* by property */
    uint64_t judged[CV_PROPERTY_COUNT];         /* how often each was tested */
    struct cv_token_owner *owner; /* open addressing by token; leader CV_ID_NONE: empty */
    uint32_t owner_count, owner_capacity;
};

/* The properties and bounds of a protocol with this configuration. */
struct cv_properties_setting cv__properties_setting(const struct cv_protocol *protocol,
                                                    const struct cv_config *config,
                                                    uint32_t promises, uint32_t assumes);

/* `on_break` may be NULL: then only `broken` shows it. */
void cv__properties_init(struct cv_properties *properties,
                         const struct cv_properties_setting *setting, cv_on_break *on_break,
                         void *context);
void cv__properties_fini(struct cv_properties *properties);

/* Counts a property as broken; the first time is kept. Also for what only the host can see. */
void cv__properties_break(struct cv_properties *properties, enum cv_property property,
                          const char *format, ...) CV_PRINTF(3, 4);

/* ---- Reports of the host ---- */

/* Sets the present time; it never goes back. */
static inline void cv__properties_time(struct cv_properties *properties, int64_t now_ns)
{
    CV_ASSERT(now_ns >= properties->now.now_ns);
    properties->now.now_ns = now_ns;
}

/* Judges timeliness: is a partition without a leader for too long? To be called whenever time has
 * passed. It looks often enough to see a violation that lasts an eighth of kappa. */
void cv__properties_look_now(struct cv_properties *properties);
static inline void cv__properties_look(struct cv_properties *properties)
{
    if (cv__connections_is_kept(&properties->connections) &&
        properties->now.now_ns >= properties->now.looked_ns + properties->setting.kappa_ns / 8) {
        cv__properties_look_now(properties);
    }
}

/* start: a node starts as a candidate that knows nothing; `remembers`: it must not go back to an
 * older leader than those of its earlier lives. crash: a node is gone, with its belief; its
 * leadership counts until its valid-until, as the application may still act on it. bury: its
 * witness has told another node that the application is dead too, and the leadership counts no
 * longer. stop: its disk failed, and it takes no part until it starts again. */
void cv__properties_start(struct cv_properties *properties, cv_id node, bool remembers);
void cv__properties_crash(struct cv_properties *properties, cv_id node);
void cv__properties_bury(struct cv_properties *properties, cv_id node);
void cv__properties_stop(struct cv_properties *properties, cv_id node);

enum { CV_HOLD_ENDED = 1u, CV_HOLD_BEGUN = 2u };

/* A node reports its leader. Updates its belief and the leadership it holds; returns the bits
 * above. */
unsigned cv__properties_believe(struct cv_properties *properties, cv_id node,
                                const struct cv_belief *belief);
/* Is that another leader, token or label than the node has on record? */
bool cv__properties_is_new_belief(const struct cv_properties *properties, cv_id node,
                                  const struct cv_belief *belief);

/* Only leaderships, for a host that knows no beliefs. A node holds one at a time. */
void cv__properties_begin(struct cv_properties *properties, cv_id node, uint64_t token,
                          int64_t until_ns);
void cv__properties_renew(struct cv_properties *properties, cv_id node, int64_t until_ns);
void cv__properties_end(struct cv_properties *properties, cv_id node);

/* A node has sent a message to another. */
void cv__properties_send(struct cv_properties *properties, cv_id node);
/* A message arrives so long after it was sent. True: that is too late, which is a disturbance. */
bool cv__properties_arrive(struct cv_properties *properties, cv_id from, cv_id to,
                           int64_t delay_ns);
/* A message between nodes that are up is lost, or is known to come too late: a disturbance. */
void cv__properties_lose(struct cv_properties *properties, cv_id from, cv_id to);

/* An event that the protocol's assumptions exclude, or after which it needs time to settle. */
void cv__properties_disturb(struct cv_properties *properties);
/* When liveness can be judged, unless a disturbance comes before. */
int64_t cv__properties_due_ns(const struct cv_properties *properties);
/* The assumptions have held until that instant, and hold now. */
void cv__properties_judge(struct cv_properties *properties);

/* The same while links are down. `graph`: which nodes are connected, in both directions; see
 * properties/graph.h. */
int64_t cv__properties_graph_due_ns(const struct cv_properties *properties);
void cv__properties_judge_graph(struct cv_properties *properties, const uint64_t *graph);

/* ---- Questions of the host ---- */

/* Does this node hold a leadership that is valid at that instant, which is not in the past? */
bool cv__properties_holds(const struct cv_properties *properties, cv_id node, int64_t at_ns);
/* The set of the node's supporters; NULL: it has not reported them. */
const uint64_t *cv__properties_members(const struct cv_properties *properties, cv_id node);

#endif
