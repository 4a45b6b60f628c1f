/* src/protocols/anon.c - anonymous stabilizing leader election with a network sequencer
 * [Wiesmann07]: no ids, no member list, no point-to-point messages, and constant memory.
 *
 * Who misses a leader takes a number from the sequencer and broadcasts it (a proposal). Numbers
 * fall into rounds of R; a round is closed once a number of a later round has been seen. The leader
 * is the owner of the largest number below the open round. It alone then sends, every eta; who does
 * not hear it for eps takes a number again. The whole state is two numbers with their owners, and
 * it travels in every message, so that one message is enough for a newcomer [sec. 6].
 *
 * Why all see leaders in the same order (lemma 8): the leader is a function of the set of tokens
 * seen, whatever the order of their arrival, and larger sets have larger leaders. Tokens compare by
 * (number, label): equal numbers are possible when a sequencer lost its memory twice (sequence.h).
 *
 * Ours, each with a failing run behind it:
 * - The closed number is the largest below the open round, however many rounds below; [fig. 1] only
 *   looks at the round just below and splits the processes after a gap of R.
 * - The piggybacked number travels with its owner's label; one leadership event per message.
 * - "Mine" is a bit that moves along with the number. Labels and the latest number do not matter.
 * - Every token of the leader with a larger send count renews trust, not only the first [fig. 2];
 *   duplicates and late copies do not.
 * - A proposal is repeated until the leader is heard to lead: the sender's own piggybacked number
 *   must be of a later round, or it may not know yet that its round is closed.
 * - Stubborn proposals: no leader within eps, so propose again; fewer than R living processes still
 *   make progress. `stubborn=no` is the paper's rule, and needs R suspecting processes (lemma 4).
 * - A number that comes while a leader is trusted is dropped; one not above the closed is useless.
 * - Stale tokens: who hears one below its closed number broadcasts its state (STATE, which renews
 *   no trust), unless another did. Otherwise a deposed leader that cannot hear its successor leads
 *   for ever.
 * - Pauses: timers that fire late prove one. Then listen first.
 * - Resigning (GONE), and standing aside for 2 eps after it. A wished successor cannot be heeded:
 *   nobody has a name.
 *
 * Assumed: numbers grow (src/core/sequence.h), labels differ. Nothing else for leader-order and
 * validity; timely links, no loss, prompt processes and a sequencer that answers for the rest. Two
 * leaders are possible for a while, so a resource fences on the largest token it has seen. */
#include "core/effects.h"
#include "core/options.h"
#include "core/sequence.h"
#include "core/types.h"
#include "protocols/registry.h"

enum {
    OPTION_ETA,
    OPTION_EPS,
    OPTION_R,
    OPTION_ORACLE,
    OPTION_STUBBORN,
    OPTION_PERSIST,
    OPTION_START,
};

static const struct cv_option anon_options[] = {
    [OPTION_ETA] = {"eta", CV_OPTION_TIME, 50 * NS_PER_MS, 100 * NS_PER_US, 60 * NS_PER_S, NULL,
                    "the leader sends this often"},
    [OPTION_EPS] = {"eps", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_MS, 600 * NS_PER_S, NULL,
                    "so long a silence is suspicion (default: 3 eta)"},
    [OPTION_R] = {"R", CV_OPTION_COUNT, 5, 1, 1000000, NULL, "numbers of a round"},
    [OPTION_ORACLE] = {"oracle", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US, 60 * NS_PER_S, NULL,
                       "the sequencer's usual time for an answer (default: eps/3)"},
    [OPTION_STUBBORN] = {"stubborn", CV_OPTION_FLAG, 1, 0, 1, NULL,
                         "no leader within eps after a proposal: propose again"},
    [OPTION_PERSIST] = {"persist", CV_OPTION_FLAG, 0, 0, 1, NULL,
                        "save both numbers: leader-order then holds across restarts, too"},
    [OPTION_START] = {"start", CV_OPTION_CHOICE, 0, 0, 1, "half|paper",
                      "first listen for eps/2 to eps; the paper's 0 to eps disturbs leaders"},
    {0},
};

enum { TOKEN, STATE, GONE, MESSAGE_COUNT };
enum { NUMBER, LABEL, SENT_COUNT, OPEN_NUMBER, OPEN_LABEL, ROUND_SIZE };

#define ANON_FIELDS                                                                               \
    {                                                                                             \
        {"number", CV_FIELD_U64}, {"label", CV_FIELD_U64}, {"sent", CV_FIELD_U64},                \
            {"open_number", CV_FIELD_U64}, {"open_label", CV_FIELD_U64}, {"round", CV_FIELD_U64}, \
    }

static const struct cv_message_type anon_messages[MESSAGE_COUNT] = {
    [TOKEN] = {"TOKEN", ANON_FIELDS}, /* of its owner: a proposal or a heartbeat */
    [STATE] = {"STATE", ANON_FIELDS}, /* of anybody: the closed and the open number */
    [GONE] = {"GONE", ANON_FIELDS},   /* of its owner, who has resigned */
};

enum { TIMER_HEARTBEAT, TIMER_SUSPECT, TIMER_QUERY, TIMER_TELL, TIMER_ASIDE };

#define GONE_COUNT 3u       /* how often a resignation is said */
#define QUERY_FACTOR_MAX 8u /* the time-out of queries doubles up to this */

/* A number, its owner's label, and is the owner this process? number CV_SEQUENCE_NONE: none. */
struct pair {
    uint64_t number, label;
    uint32_t is_mine, zero;
};

enum view { VIEW_NONE, VIEW_OTHER, VIEW_SELF };

/* Invariants: without an open number there is no closed one; the closed one is of an earlier round;
 * who owns the closed number trusts nobody else; the size does not depend on the configuration. */
struct anon {
    cv_id self; /* only to say to the host that oneself leads; never sent */
    uint32_t is_stubborn, is_persistent, is_early;
    uint64_t round_size; /* R */
    int64_t eta_ns, eps_ns, query_ns;

    uint64_t label;
    struct pair open, closed;
    uint64_t sent_count; /* n of the paper's sends; and the largest heard from the leader */
    uint64_t heard_count;
    uint64_t proposal; /* the own number that is being repeated; CV_SEQUENCE_NONE: none */

    uint64_t request;      /* how often the sequencer was asked */
    uint64_t open_request; /* 0: nothing asked */
    int64_t query_wait_ns;
    int64_t heartbeat_due_ns, suspect_due_ns, aside_due_ns; /* the latest instants asked for */
    int64_t rest_until_ns;                                  /* has resigned: proposes not before */

    uint32_t trusts;       /* the owner of the closed number, another process */
    uint32_t has_heard;    /* it was heard to lead */
    uint32_t has_proposed; /* since there last was a new leader, or one was heard */
    uint32_t is_aside;     /* owns the closed number but has slept */
    uint32_t is_telling;   /* STATE is due */
    uint32_t gone_left;    /* so often GONE is still to be said */
    uint32_t is_candidate, is_stopped;

    uint32_t view; /* what the host was told last */
    uint32_t zero;
    uint64_t view_number, view_label;
    uint64_t refused_count; /* messages of other rounds or without sense */
};

_Static_assert(sizeof(struct anon) <= 320, "constant memory, and little of it");

/* ---- Configuration --------------------------------------------------------------------------- */

static int64_t query_ns(const struct cv_config *config)
{
    return cv__max64(config->option[OPTION_EPS], 2 * config->option[OPTION_ORACLE]);
}

/* What clocks drift apart within a time of eps, with room to spare. */
static int64_t drift_ns(const struct cv_config *config)
{
    return config->option[OPTION_EPS] / NS_PER_US * 4 * config->drift_ppb / NS_PER_MS + 1;
}

/* A starting process listens for eps/2 at least and must hear the leader meanwhile. */
static int64_t anon_timely_ns(const struct cv_config *config)
{
    return config->option[OPTION_EPS] / 2 - config->option[OPTION_ETA] - drift_ns(config);
}

static int anon_configure(struct cv_config *config, struct cv_errtext *reterr)
{
    const int64_t *o = config->option;
    cv__config_derive(config, OPTION_EPS, 3 * o[OPTION_ETA]);
    cv__config_derive(config, OPTION_ORACLE, o[OPTION_EPS] / 3);
    if (anon_timely_ns(config) <= 0) { /* [sec. 6] one lost heartbeat is not suspicion */
        return cv__config_broken(reterr, "eps/2 > eta + 4 rho eps", o[OPTION_EPS] / 2,
                                 o[OPTION_ETA] + drift_ns(config));
    }
    if (o[OPTION_EPS] <= o[OPTION_ORACLE]) { /* [sec. 6] suspicions no faster than numbers */
        return cv__config_broken(reterr, "eps > oracle", o[OPTION_EPS], o[OPTION_ORACLE]);
    }
    return CV_OK;
}

/* Waits that are left from before: a query's longest time-out, a rest, a pause. Then, in the worst
 * case, a single process proposes alone: R + 1 numbers close a round, but the leader of that one
 * may be dead; as many again close the next. */
static int64_t anon_settle_ns(const struct cv_config *config)
{
    const int64_t eps_ns = config->option[OPTION_EPS];
    const int64_t wait_ns = (int64_t)QUERY_FACTOR_MAX * query_ns(config) + 6 * eps_ns;
    return wait_ns + 2 * (config->option[OPTION_R] + 2) * (eps_ns + query_ns(config));
}

static void anon_contract(const struct cv_config *config, uint32_t *promises, uint32_t *assumes)
{
    (void)assumes;
    if (!config->option[OPTION_STUBBORN]) {
        /* With fewer than R suspecting processes nobody may ever be elected [lemma 4], and they
         * repeat their proposals all the time. */
        *promises &=
            ~(CV_PROP(AGREEMENT) | CV_PROP(TERMINATION) | CV_PROP(COMMUNICATION_EFFICIENT));
    }
    if (config->option[OPTION_START] != 0) {
        *promises &= ~CV_PROP(STABILITY);
    }
}

static size_t anon_size(const struct cv_config *config)
{
    (void)config;
    return sizeof(struct anon);
}

static const struct pair no_pair = {.number = CV_SEQUENCE_NONE};

static void anon_init(void *state, const struct cv_config *config)
{
    struct anon *a = state;
    const int64_t *o = config->option;
    a->self = config->self;
    a->is_stubborn = (uint32_t)o[OPTION_STUBBORN];
    a->is_persistent = (uint32_t)o[OPTION_PERSIST];
    a->is_early = (uint32_t)o[OPTION_START];
    a->round_size = (uint64_t)o[OPTION_R];
    a->eta_ns = o[OPTION_ETA];
    a->eps_ns = o[OPTION_EPS];
    a->query_ns = query_ns(config);
    a->query_wait_ns = a->query_ns;
    a->open = no_pair;
    a->closed = no_pair;
    a->proposal = CV_SEQUENCE_NONE;
    a->is_candidate = true;
}

/* ---- Numbers, rounds and the closed one ------------------------------------------------------ */

static bool is_none(const struct pair *pair)
{
    return pair->number == CV_SEQUENCE_NONE;
}

static bool is_same(const struct pair *a, const struct pair *b)
{
    return a->number == b->number && a->label == b->label;
}

/* None is below everything. */
static bool is_below(const struct pair *a, const struct pair *b)
{
    if (is_none(a) || is_none(b)) {
        return is_none(a) && !is_none(b);
    }
    return a->number != b->number ? a->number < b->number : a->label < b->label;
}

static uint64_t round_of(const struct anon *a, uint64_t number)
{
    CV_ASSERT(number < CV_SEQUENCE_END);
    return number / a->round_size;
}

static void anon_check(const void *state)
{
    const struct anon *a = state;
    if (!is_none(&a->closed)) {
        CV_ASSERT(!is_none(&a->open));
        CV_ASSERT(round_of(a, a->closed.number) < round_of(a, a->open.number));
    }
    CV_ASSERT(!a->closed.is_mine || !a->trusts);
    CV_ASSERT(!a->trusts || !is_none(&a->closed));
    CV_ASSERT(a->view != VIEW_SELF || (a->closed.is_mine && !a->is_aside && !a->is_stopped));
    CV_ASSERT(a->open_request <= a->request);
}

/* [fig. 1, listen; the gap rule is ours] The open number is the largest seen, the closed one the
 * largest seen of an earlier round. The first closes nothing. */
static void take(struct anon *a, const struct pair *seen)
{
    CV_ASSERT(!is_none(seen));
    if (is_below(&a->open, seen)) {
        if (!is_none(&a->open) && round_of(a, seen->number) > round_of(a, a->open.number)) {
            a->closed = a->open;
        }
        a->open = *seen;
    } else if (round_of(a, seen->number) < round_of(a, a->open.number) &&
               is_below(&a->closed, seen)) {
        a->closed = *seen;
    }
}

static bool stands(const struct anon *a, int64_t now_ns)
{
    return a->is_candidate && !a->is_stopped && now_ns >= a->rest_until_ns;
}

/* ---- Effects --------------------------------------------------------------------------------- */

/* At the end of a step: what is believed now, if it is news. */
static void tell(struct anon *a, enum cv_reason lost, struct cv_effects *out)
{
    enum view view = VIEW_NONE;
    if (!a->is_stopped && a->closed.is_mine) {
        view = a->is_aside ? VIEW_NONE : VIEW_SELF;
    } else if (!a->is_stopped && a->trusts) {
        view = VIEW_OTHER;
    }
    const struct pair seen = {a->view_number, a->view_label, 0, 0};
    if (view == a->view && (view == VIEW_NONE || is_same(&seen, &a->closed))) {
        return;
    }
    const bool is_again = view != VIEW_NONE && is_same(&seen, &a->closed);
    const bool is_loss = view == VIEW_NONE || a->view == VIEW_SELF;
    const struct cv_leadership leadership = {
        .is_self = view == VIEW_SELF,
        .leader = view == VIEW_NONE   ? CV_ID_NONE
                  : view == VIEW_SELF ? a->self
                                      : CV_ID_ANONYMOUS,
        .label = view != VIEW_NONE ? a->closed.label : 0,
        .token = view != VIEW_NONE ? a->closed.number : 0,
        .reason = is_loss    ? lost
                  : is_again ? CV_REASON_RENEWED
                             : CV_REASON_ELECTED,
    };
    a->view = view;
    if (view != VIEW_NONE) {
        a->view_number = a->closed.number;
        a->view_label = a->closed.label;
    }
    cv__effect_leadership(out, &leadership);
}

static void send(struct anon *a, uint32_t type, struct cv_effects *out)
{
    CV_ASSERT(!is_none(&a->open));
    const bool is_closed = type != TOKEN || a->closed.is_mine;
    CV_ASSERT(!is_closed || !is_none(&a->closed));
    struct cv_message *m = cv__effect_send_all(out, type);
    m->field[NUMBER] = is_closed ? a->closed.number : a->proposal;
    m->field[LABEL] = is_closed ? a->closed.label : a->label;
    m->field[SENT_COUNT] = ++a->sent_count;
    m->field[OPEN_NUMBER] = a->open.number;
    m->field[OPEN_LABEL] = a->open.label;
    m->field[ROUND_SIZE] = a->round_size;
}

static void arm_suspect(struct anon *a, int64_t earliest_ns, int64_t latest_ns,
                        struct cv_effects *out)
{
    a->suspect_due_ns = latest_ns;
    cv__effect_arm(out, TIMER_SUSPECT, earliest_ns, latest_ns);
}

/* epsilon_0: in the upper half of eps, so that a heartbeat of a sitting leader comes first. */
static void listen_first(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    arm_suspect(a, now_ns + a->eps_ns / 2, now_ns + a->eps_ns, out);
}

static void send_token(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    send(a, TOKEN, out);
    a->heartbeat_due_ns = now_ns + a->eta_ns;
    cv__effect_arm(out, TIMER_HEARTBEAT, a->heartbeat_due_ns, a->heartbeat_due_ns);
}

/* Owns the closed number but has slept: silent for epsilon_0, then again if it still does. */
static void stand_aside(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(a->closed.is_mine);
    a->is_aside = true;
    a->aside_due_ns = now_ns + a->eps_ns;
    cv__effect_disarm(out, TIMER_HEARTBEAT);
    cv__effect_arm(out, TIMER_ASIDE, now_ns + a->eps_ns / 2, a->aside_due_ns);
}

static void save(const struct anon *a, struct cv_effects *out)
{
    if (a->is_persistent) {
        const uint64_t record[] = {a->closed.number, a->closed.label, a->open.number,
                                   a->open.label};
        cv__effect_persist(out, record, COUNT_OF(record));
    }
}

/* ---- Leaders come and go --------------------------------------------------------------------- */

/* The closed number has changed. A new leader that is another is trusted for eps, to begin with. */
static void adopt(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    a->heard_count = 0;
    a->has_heard = false;
    a->has_proposed = false;
    a->gone_left = 0;
    a->is_aside = false;
    cv__effect_disarm(out, TIMER_ASIDE);
    const struct pair own = {a->proposal, a->label, 0, 0};
    if (a->closed.is_mine || !is_below(&a->closed, &own)) {
        a->proposal = CV_SEQUENCE_NONE;
    }
    if (a->closed.is_mine) {
        a->trusts = false;
        cv__effect_disarm(out, TIMER_SUSPECT);
        send_token(a, now_ns, out);
        return;
    }
    a->trusts = true;
    arm_suspect(a, now_ns + a->eps_ns, now_ns + a->eps_ns, out);
    if (a->proposal == CV_SEQUENCE_NONE) {
        cv__effect_disarm(out, TIMER_HEARTBEAT);
    }
}

static void ask(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    a->open_request = ++a->request;
    cv__effect_ask_sequence(out, a->request, a->open.number);
    cv__effect_arm(out, TIMER_QUERY, now_ns + a->query_wait_ns, now_ns + a->query_wait_ns);
}

/* [fig. 1, suspector] Nobody is trusted: take a number, unless one is on its way. */
static void suspect(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!a->closed.is_mine);
    a->trusts = false;
    a->has_heard = false;
    if (a->is_candidate && now_ns < a->rest_until_ns) {
        arm_suspect(a, a->rest_until_ns, a->rest_until_ns, out);
        return;
    }
    const bool may_propose = a->is_stubborn || !a->has_proposed;
    if (stands(a, now_ns) && may_propose && a->open_request == 0) {
        ask(a, now_ns, out);
    }
}

/* No longer the owner of anything: what it once took, others may still follow for a while. */
static void give_up(struct anon *a, struct cv_effects *out)
{
    a->open.is_mine = false;
    a->closed.is_mine = false;
    a->proposal = CV_SEQUENCE_NONE;
    a->is_aside = false;
    cv__effect_disarm(out, TIMER_HEARTBEAT);
    cv__effect_disarm(out, TIMER_ASIDE);
}

static void resign(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    if (!a->closed.is_mine) {
        return;
    }
    give_up(a, out);
    a->rest_until_ns = now_ns + 2 * a->eps_ns;
    arm_suspect(a, a->rest_until_ns, a->rest_until_ns, out);
    send(a, GONE, out);
    a->gone_left = GONE_COUNT - 1;
    cv__effect_arm(out, TIMER_HEARTBEAT, now_ns + a->eta_ns, now_ns + a->eta_ns);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* A token of the owner of the closed number. */
static void on_leader(struct anon *a, const struct cv_message *m, int64_t now_ns,
                      struct cv_effects *out)
{
    if (a->closed.is_mine || m->field[SENT_COUNT] <= a->heard_count) {
        return; /* a copy, or one that was overtaken, is no sign of life */
    }
    a->heard_count = m->field[SENT_COUNT];
    if (m->type == GONE) {
        suspect(a, now_ns, out);
        return;
    }
    a->trusts = true;
    arm_suspect(a, now_ns + a->eps_ns, now_ns + a->eps_ns, out);
    if (round_of(a, m->field[NUMBER]) < round_of(a, m->field[OPEN_NUMBER])) {
        a->has_heard = true; /* it knows that its round is closed: it leads */
        a->has_proposed = false;
        a->proposal = CV_SEQUENCE_NONE;
        cv__effect_disarm(out, TIMER_HEARTBEAT);
    }
}

static void on_message(struct anon *a, const struct cv_message *m, int64_t now_ns,
                       struct cv_effects *out)
{
    const struct pair owned = {m->field[NUMBER], m->field[LABEL], 0, 0};
    const struct pair open = {m->field[OPEN_NUMBER], m->field[OPEN_LABEL], 0, 0};
    if (m->field[ROUND_SIZE] != a->round_size || owned.number >= CV_SEQUENCE_END ||
        open.number >= CV_SEQUENCE_END || is_below(&open, &owned)) {
        a->refused_count++;
        return;
    }
    if (m->type != STATE && owned.label == a->label) {
        return; /* our own, come back to us */
    }
    const struct pair open_before = a->open;
    const struct pair closed_before = a->closed;
    take(a, &open);
    take(a, &owned);
    const bool is_news = !is_same(&closed_before, &a->closed);
    if (is_news || !is_same(&open_before, &a->open)) {
        save(a, out);
    }
    if (is_news) {
        adopt(a, now_ns, out);
    }
    if (is_same(&owned, &a->closed)) {
        if (m->type == STATE) {
            a->is_telling = false; /* another did */
        } else {
            on_leader(a, m, now_ns, out);
        }
    } else if (m->type == TOKEN && is_below(&owned, &a->closed) && !a->is_telling) {
        a->is_telling = true;
        cv__effect_arm(out, TIMER_TELL, now_ns + 1, now_ns + a->eta_ns);
    }
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void propose(struct anon *a, uint64_t number, int64_t now_ns, struct cv_effects *out)
{
    const struct pair own = {number, a->label, /* is_mine= */ true, 0};
    const struct pair closed_before = a->closed;
    a->proposal = number;
    a->has_proposed = true;
    a->has_heard = false;
    take(a, &own);
    save(a, out);
    if (!is_same(&closed_before, &a->closed)) {
        adopt(a, now_ns, out);
    } else {
        arm_suspect(a, now_ns + a->eps_ns, now_ns + a->eps_ns, out);
    }
    if (!a->closed.is_mine) {
        send_token(a, now_ns, out);
    }
}

/* An answer to any request will do while a number is wanted: late ones count. */
static void on_sequence(struct anon *a, const struct cv_event *event, struct cv_effects *out)
{
    const uint64_t number = event->sequence;
    if (a->open_request == 0 || event->request > a->request || number >= CV_SEQUENCE_END) {
        return; /* failed: the time-out stands, so that failures do not become a storm */
    }
    const bool is_useless = (!is_none(&a->closed) && number <= a->closed.number) ||
                            (a->proposal != CV_SEQUENCE_NONE && number <= a->proposal);
    if (is_useless && event->request != a->open_request) {
        return; /* the better one is still on its way */
    }
    a->open_request = 0;
    a->query_wait_ns = a->query_ns;
    cv__effect_disarm(out, TIMER_QUERY);
    if (a->closed.is_mine || a->trusts || !stands(a, event->now_ns)) {
        return;
    }
    if (is_useless) {
        ask(a, event->now_ns, out);
    } else {
        propose(a, number, event->now_ns, out);
    }
}

/* ---- Timers ---------------------------------------------------------------------------------- */

static void on_heartbeat(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    if (a->closed.is_mine) {
        if (now_ns - a->heartbeat_due_ns > a->eps_ns) {
            stand_aside(a, now_ns, out);
        } else if (!a->is_aside) {
            send_token(a, now_ns, out);
        }
    } else if (a->gone_left > 0) {
        a->gone_left--;
        send(a, GONE, out);
        cv__effect_arm(out, TIMER_HEARTBEAT, now_ns + a->eta_ns, now_ns + a->eta_ns);
    } else if (a->proposal != CV_SEQUENCE_NONE && !a->has_heard) {
        send_token(a, now_ns, out);
    }
}

static void on_suspect(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    if (a->closed.is_mine) {
        return;
    }
    if (now_ns - a->suspect_due_ns > a->eta_ns) {
        listen_first(a, now_ns, out); /* slept: what was missed may be waiting to be read */
    } else {
        suspect(a, now_ns, out);
    }
}

static void on_query_timeout(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    a->open_request = 0;
    a->query_wait_ns = cv__min64(2 * a->query_wait_ns, QUERY_FACTOR_MAX * a->query_ns);
    if (!a->closed.is_mine && !a->trusts) {
        suspect(a, now_ns, out);
    }
}

static void on_aside(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    if (!a->closed.is_mine || !a->is_aside) {
        return;
    }
    if (now_ns - a->aside_due_ns > a->eps_ns) {
        stand_aside(a, now_ns, out); /* slept again */
        return;
    }
    a->is_aside = false;
    send_token(a, now_ns, out);
}

static void on_timer(struct anon *a, uint32_t timer, int64_t now_ns, struct cv_effects *out)
{
    switch (timer) {
    case TIMER_HEARTBEAT:
        on_heartbeat(a, now_ns, out);
        break;
    case TIMER_SUSPECT:
        on_suspect(a, now_ns, out);
        break;
    case TIMER_QUERY:
        on_query_timeout(a, now_ns, out);
        break;
    case TIMER_TELL:
        if (a->is_telling) {
            a->is_telling = false;
            send(a, STATE, out);
        }
        break;
    case TIMER_ASIDE:
        on_aside(a, now_ns, out);
        break;
    default:
        CV_ASSERT(!"a timer that was never armed");
    }
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void on_start(struct anon *a, const struct cv_event *event, struct cv_effects *out)
{
    a->label = event->nonce;
    if (a->is_persistent && event->persisted_count == 4) {
        for (uint32_t i = 0; i < 4; i += 2) {
            const struct pair pair = {event->persisted[i], event->persisted[i + 1], 0, 0};
            if (pair.number < CV_SEQUENCE_END) {
                take(a, &pair); /* the label is new: neither of them is ours */
            }
        }
    }
    if (a->is_early) {
        arm_suspect(a, event->now_ns + 1, event->now_ns + a->eps_ns, out);
    } else {
        listen_first(a, event->now_ns, out);
    }
}

static void on_campaign(struct anon *a, const struct cv_event *event, struct cv_effects *out)
{
    const bool was_candidate = a->is_candidate;
    a->is_candidate = event->is_candidate;
    if (!a->is_candidate) {
        resign(a, event->now_ns, out);
        if (a->gone_left == 0) {
            give_up(a, out);
        }
    } else if (!was_candidate && !a->closed.is_mine && !a->trusts) {
        listen_first(a, event->now_ns, out);
    }
}

static void stop(struct anon *a, struct cv_effects *out)
{
    give_up(a, out);
    a->is_stopped = true;
    a->trusts = false;
    for (uint32_t timer = TIMER_HEARTBEAT; timer <= TIMER_ASIDE; timer++) {
        cv__effect_disarm(out, timer);
    }
}

static void anon_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    struct anon *a = state;
    enum cv_reason lost = CV_REASON_SUSPECTED;
    if (a->is_stopped) {
        return;
    }
    switch (event->kind) {
    case CV_EVENT_START:
        on_start(a, event, out);
        break;
    case CV_EVENT_MESSAGE:
        on_message(a, event->message, event->now_ns, out);
        lost = event->message->type == GONE ? CV_REASON_RESIGNED : CV_REASON_SUPERSEDED;
        break;
    case CV_EVENT_TIMER:
        on_timer(a, event->timer, event->now_ns, out);
        lost = a->is_aside ? CV_REASON_EXPIRED : CV_REASON_SUSPECTED;
        break;
    case CV_EVENT_SEQUENCE:
        on_sequence(a, event, out);
        break;
    case CV_EVENT_RESIGN:
        resign(a, event->now_ns, out);
        lost = CV_REASON_RESIGNED;
        break;
    case CV_EVENT_CAMPAIGN:
        on_campaign(a, event, out);
        lost = CV_REASON_RESIGNED;
        break;
    case CV_EVENT_PERSIST_FAILED:
        stop(a, out);
        lost = CV_REASON_STOPPED;
        break;
    case CV_EVENT_PEER_DOWN: /* it has no name here; its silence will tell */
    case CV_EVENT_REPORT:
    case CV_EVENT_STORE:
        break;
    }
    tell(a, lost, out);
}

const struct cv_protocol cv__proto_anon = {
    .name = "anon",
    .summary = "anonymous: numbers from a sequencer; the largest of the last closed round leads",
    .leads = "owner of the largest number of the last closed round",
    .cites = "[Wiesmann07]",
    .promises = CV_PROP(VALIDITY) | CV_PROP(AGREEMENT) | CV_PROP(TERMINATION) |
                CV_PROP(LEADER_ORDER) | CV_PROP(STABILITY) | CV_PROP(COMMUNICATION_EFFICIENT),
    .assumes = BIT(CV_ASSUME_BOUNDED_DELAY) | BIT(CV_ASSUME_NO_LOSS) |
               BIT(CV_ASSUME_PROMPT_PROCESSES) | BIT(CV_ASSUME_BOUNDED_DRIFT) |
               BIT(CV_ASSUME_TRANSITIVE_LINKS) | BIT(CV_ASSUME_SEQUENCER),
    .contract = anon_contract,
    .is_anonymous = true,
    .options = anon_options,
    .messages = anon_messages,
    .message_count = MESSAGE_COUNT,
    .configure = anon_configure,
    .size = anon_size,
    .init = anon_init,
    .step = anon_step,
    .check = anon_check,
    .settle_ns = anon_settle_ns,
    .timely_ns = anon_timely_ns,
    .sequence_ns = query_ns,
};
