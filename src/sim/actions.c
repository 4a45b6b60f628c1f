/* src/sim/actions.c - what the scenario does to its world, and the random faults drawn from the
 * seed.
 *
 * Random faults are drawn before the run and then are actions like any other, each with its end
 * (`for`), so that a failing run can be written down without chance and shrunk by leaving actions
 * out. */
#include "sim/memory.h"
#include "sim/world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void trace_action(struct cv_world *w, const struct cv_action *a)
{
    const struct cv_record record = {
        .at_ns = w->now_ns, .kind = CV_RECORD_ACTION, .node = 0, .what = a->kind};
    if (w->trace.file == NULL) {
        cv__trace_add(&w->trace, &record, NULL);
        return;
    }
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out != NULL) {
        cv__action_print(a, w->node_count, out);
        (void)fclose(out);
    }
    cv__trace_add(&w->trace, &record, text);
    free(text);
}

static void fire(struct cv_world *w, const struct cv_action *a)
{
    const bool is_link_up = a->kind == CV_ACTION_LINK && a->flag; /* the end of a fault, not one */
    w->fired[a->kind] += !is_link_up && a->at_ns != CV_SETUP;
    if (a->kind == CV_ACTION_OVERLAY) {
        w->fired[CV_ACTION_COUNT + a->overlay]++;
    } else if (a->kind == CV_ACTION_LINK && !a->flag && a->link.is_one_way) {
        w->fired[CV_FIRED_ONEWAY]++;
    }
    w->fault_count++;
    trace_action(w, a);
    cv__watch_disturb(w);
    if (w->options.keeps_history && a->at_ns != CV_SETUP) {
        w->deed = cv__grow(w->deed, &w->deed_capacity, w->deed_count, sizeof *w->deed);
        w->deed[w->deed_count++] = (struct cv_deed){w->now_ns, *a};
    }
}

/* Schedules the undoing of an action that lasts; `value` carries the fault's number, so that a
 * later fault of the same kind is not ended by the end of an earlier one. */
static void end_later(struct cv_world *w, const struct cv_action *a, enum cv_action_kind kind,
                      cv_id node)
{
    if (a->for_ns == 0) {
        return;
    }
    struct cv_action end = {
        .at_ns = w->now_ns + a->for_ns,
        .kind = kind,
        .node = node,
        .overlay = a->overlay,
        .flag = true, /* an end, not an action of its own */
        .value = (int64_t)w->fault_count,
        .link = a->link,
        .sequencer = a->sequencer,
        .store = a->store,
    };
    end.link.link.is_down = false;
    cv__world_schedule_action(w, &end);
}

static void loses_leader(struct cv_world *w, cv_id id)
{
    if (cv__world_holds(w, id)) {
        cv__world_open_election(w, id);
    }
}

static void do_crash(struct cv_world *w, const struct cv_action *a, cv_id id)
{
    struct cv_node *n = &w->node[id - 1];
    if (!n->is_up) {
        return;
    }
    loses_leader(w, id);
    fire(w, a);
    n->fault = w->fault_count;
    cv__world_crash_node(w, id);
    end_later(w, a, CV_ACTION_RECOVER, id);
}

static void do_recover(struct cv_world *w, const struct cv_action *a, cv_id id)
{
    struct cv_node *n = &w->node[id - 1];
    const bool is_end_of_another = a->flag && n->fault != (uint64_t)a->value;
    if (n->is_up || is_end_of_another) {
        return;
    }
    fire(w, a);
    cv__world_start_node(w, id);
}

static void do_pause(struct cv_world *w, const struct cv_action *a, cv_id id)
{
    struct cv_node *n = &w->node[id - 1];
    if (!n->is_up || n->is_paused) {
        return;
    }
    loses_leader(w, id);
    fire(w, a);
    n->fault = w->fault_count;
    n->is_paused = true;
    cv__world_note_life(w, id, CV_LIFE_PAUSED);
    end_later(w, a, CV_ACTION_RESUME, id);
}

static void do_resume(struct cv_world *w, const struct cv_action *a, cv_id id)
{
    struct cv_node *n = &w->node[id - 1];
    const bool is_end_of_another = a->flag && n->fault != (uint64_t)a->value;
    if (!n->is_up || !n->is_paused || is_end_of_another) {
        return;
    }
    fire(w, a);
    cv__world_wake_node(w, id);
}

static void do_partition(struct cv_world *w, const struct cv_action *a)
{
    for (cv_id id = 1; id <= w->node_count; id++) {
        loses_leader(w, id);
    }
    fire(w, a);
    w->partition_fault = w->fault_count;
    cv__network_partition(w->network, a->group);
    end_later(w, a, CV_ACTION_HEAL, CV_ID_NONE);
}

static void do_heal(struct cv_world *w, const struct cv_action *a)
{
    if (!a->flag) {
        fire(w, a);
        cv__network_heal(w->network);
    } else if (w->partition_fault == (uint64_t)a->value) {
        fire(w, a);
        uint16_t *group = cv__allocate(w->node_count, sizeof *group);
        cv__network_partition(w->network, group); /* links that are down stay so */
        free(group);
    }
}

static void do_link(struct cv_world *w, const struct cv_action *a)
{
    fire(w, a);
    cv__network_change(w->network, &a->link);
    if (a->link.link.is_down) {
        end_later(w, a, CV_ACTION_LINK, CV_ID_NONE);
    }
}

static void do_overlay(struct cv_world *w, const struct cv_action *a)
{
    if (a->flag) {
        if (w->overlay_fault[a->overlay] == (uint64_t)a->value) {
            cv__network_overlay(w->network, a->overlay, 0);
            cv__watch_disturb(w);
            struct cv_action end = *a;
            end.value = 0;
            trace_action(w, &end);
        }
        return;
    }
    fire(w, a);
    w->overlay_fault[a->overlay] = w->fault_count;
    cv__network_overlay(w->network, a->overlay, a->value);
    end_later(w, a, CV_ACTION_OVERLAY, CV_ID_NONE);
}

static void do_sequencer(struct cv_world *w, const struct cv_action *a)
{
    const enum cv_sequencer_verb verb = a->sequencer.verb;
    if (a->flag) {
        if (w->sequencer_fault[verb] == (uint64_t)a->value) {
            cv__sequencer_restore(&w->sequencer, verb);
            cv__watch_disturb(w);
        }
        return;
    }
    fire(w, a);
    w->sequencer_fault[verb] = w->fault_count;
    cv__sequencer_change(&w->sequencer, &a->sequencer, a->for_ns > 0);
    end_later(w, a, CV_ACTION_SEQUENCER, CV_ID_NONE);
}

/* The node meant, or CV_ID_NONE if nobody leads. */
static cv_id resolve(const struct cv_world *w, cv_id id)
{
    if (id != CV_NODE_LEADER) {
        return id;
    }
    for (cv_id at = 1; at <= w->node_count; at++) {
        if (cv__world_holds(w, at)) {
            return at;
        }
    }
    return CV_ID_NONE;
}

/* One node loses its way to the store, or finds it again. */
static void do_store_cut(struct cv_world *w, const struct cv_action *a)
{
    struct cv_node *n = &w->node[a->node - 1];
    const bool is_cut = a->store.verb == CV_SIMSTORE_CUT;
    if (a->flag) {
        if (n->cut_fault == (uint64_t)a->value) {
            n->is_cut = false;
            cv__watch_disturb(w);
        }
        return;
    }
    if (is_cut) {
        loses_leader(w, a->node);
    }
    fire(w, a);
    n->is_cut = is_cut;
    n->cut_fault = w->fault_count;
    end_later(w, a, CV_ACTION_STORE, a->node);
}

static void do_store(struct cv_world *w, const struct cv_action *a)
{
    const enum cv_simstore_verb verb = a->store.verb;
    if (verb == CV_SIMSTORE_CUT || verb == CV_SIMSTORE_MEND) {
        struct cv_action resolved = *a;
        resolved.node = resolve(w, a->node);
        if (resolved.node != CV_ID_NONE) {
            do_store_cut(w, &resolved);
        }
        return;
    }
    if (a->flag) {
        if (w->store_fault[verb] == (uint64_t)a->value) {
            cv__simstore_restore(&w->store, verb);
            cv__watch_disturb(w);
        }
        return;
    }
    fire(w, a);
    w->store_fault[verb] = w->fault_count;
    cv__simstore_change(&w->store, &w->wake_rng, w->now_ns, &a->store, a->for_ns > 0);
    cv__errand_changed(w, verb == CV_SIMSTORE_RESTART);
    end_later(w, a, CV_ACTION_STORE, CV_ID_NONE);
}

static void do_clock(struct cv_world *w, const struct cv_action *a)
{
    for (cv_id id = 1; id <= w->node_count; id++) {
        if (a->node == CV_ID_NONE || a->node == id) {
            const int64_t drift_ppb =
                a->flag ? cv__rng_range(&w->wake_rng, -a->value, a->value) : a->value;
            cv__world_set_drift(w, id, drift_ppb);
        }
    }
    fire(w, a);
}

static void do_disk(struct cv_world *w, const struct cv_action *a)
{
    for (cv_id id = 1; id <= w->node_count; id++) {
        if (a->node == CV_ID_NONE || a->node == id) {
            w->node[id - 1].disk_fails = a->flag;
            w->node[id - 1].disk_ns = a->value;
        }
    }
    fire(w, a);
}

/* What waits already keeps its turn. */
static void do_cost(struct cv_world *w, const struct cv_action *a)
{
    w->cost_ns = a->value;
    fire(w, a);
}

/* Something is said to a node that listens: not to one that is down or paused. */
static void do_event(struct cv_world *w, const struct cv_action *a, cv_id id,
                     struct cv_event *event)
{
    struct cv_node *n = &w->node[id - 1];
    if (!n->is_up || n->is_paused) {
        return;
    }
    if (event->kind == CV_EVENT_CAMPAIGN) {
        n->is_candidate = event->is_candidate;
    }
    if (event->kind == CV_EVENT_RESIGN ||
        (event->kind == CV_EVENT_CAMPAIGN && !event->is_candidate)) {
        loses_leader(w, id);
    }
    fire(w, a);
    cv__world_step(w, id, event);
}

static void do_node_action(struct cv_world *w, const struct cv_action *a, cv_id id)
{
    struct cv_event event = {0};
    switch (a->kind) {
    case CV_ACTION_CRASH:
        do_crash(w, a, id);
        break;
    case CV_ACTION_RECOVER:
        do_recover(w, a, id);
        break;
    case CV_ACTION_PAUSE:
        do_pause(w, a, id);
        break;
    case CV_ACTION_RESUME:
        do_resume(w, a, id);
        break;
    case CV_ACTION_RESIGN:
        event.kind = CV_EVENT_RESIGN;
        event.peer = a->other;
        do_event(w, a, id, &event);
        break;
    case CV_ACTION_CAMPAIGN:
        event.kind = CV_EVENT_CAMPAIGN;
        event.is_candidate = a->flag;
        do_event(w, a, id, &event);
        break;
    case CV_ACTION_REPORT:
        event.kind = CV_EVENT_REPORT;
        event.input = a->input;
        event.value = a->value;
        do_event(w, a, id, &event);
        break;
    case CV_ACTION_PEER_DOWN:
        event.kind = CV_EVENT_PEER_DOWN;
        event.peer = a->other == CV_NODE_LEADER ? w->node[id - 1].leader : a->other;
        event.is_certain = a->flag;
        if (event.peer != CV_ID_NONE) {
            do_event(w, a, id, &event);
        }
        break;
    default:
        CV_ASSERT(!"an action of no node");
    }
}

static void do_action(struct cv_world *w, const struct cv_action *a)
{
    switch (a->kind) {
    case CV_ACTION_PARTITION:
        do_partition(w, a);
        break;
    case CV_ACTION_HEAL:
        do_heal(w, a);
        break;
    case CV_ACTION_LINK:
        do_link(w, a);
        break;
    case CV_ACTION_OVERLAY:
        do_overlay(w, a);
        break;
    case CV_ACTION_CLOCK:
        do_clock(w, a);
        break;
    case CV_ACTION_DISK:
        do_disk(w, a);
        break;
    case CV_ACTION_SEQUENCER:
        do_sequencer(w, a);
        break;
    case CV_ACTION_STORE:
        do_store(w, a);
        break;
    case CV_ACTION_COST:
        do_cost(w, a);
        break;
    default: {
        struct cv_action resolved = *a;
        resolved.node = resolve(w, a->node);
        if (resolved.node != CV_ID_NONE) {
            do_node_action(w, &resolved, resolved.node);
        }
        break;
    }
    }
}

void cv__action_do(struct cv_world *w, uint32_t index)
{
    const struct cv_action action = w->action[index]; /* a copy: the array may grow meanwhile */
    do_action(w, &action);
    cv__connect_update(w);
}

/* ---- Chance ---------------------------------------------------------------------------------- */

/* Whole milliseconds and percents, so that what is written down reads back as the same. */
static int64_t draw_ms(struct cv_rng *rng, int64_t low_ns, int64_t high_ns)
{
    const int64_t low = (low_ns + NS_PER_MS - 1) / NS_PER_MS;
    const int64_t high = cv__max64(low, high_ns / NS_PER_MS);
    return cv__rng_range(rng, cv__max64(low, 1), cv__max64(high, 1)) * NS_PER_MS;
}

static int64_t draw_percent(struct cv_rng *rng, int64_t low, int64_t high)
{
    return cv__rng_range(rng, low, high) * (CV_PPB_ONE / 100);
}

static void draw_groups(struct cv_rng *rng, uint32_t node_count, struct cv_action *a)
{
    a->group = cv__allocate(node_count, sizeof *a->group);
    const int64_t parts = node_count > 3 ? cv__rng_range(rng, 2, 3) : 2;
    uint16_t number[4] = {0}; /* of each part drawn, in the order of appearance: none is empty */
    uint16_t count = 0;
    for (uint32_t i = 0; i < node_count; i++) {
        const int64_t part = cv__rng_range(rng, 1, parts);
        number[part] = number[part] != 0 ? number[part] : ++count;
        a->group[i] = number[part];
    }
    if (count == 1) {
        a->group[cv__rng_range(rng, 0, node_count - 1)] = 2;
    }
}

static void draw_pair(struct cv_rng *rng, uint32_t node_count, struct cv_link_change *change)
{
    change->first = (cv_id)cv__rng_range(rng, 1, node_count);
    do {
        change->second = (cv_id)cv__rng_range(rng, 1, node_count);
    } while (change->second == change->first);
    change->mask = CV_LINK_DOWN;
    change->link.is_down = true;
}

/* Down or losing for a while; or at once another counter. */
static void draw_sequencer(struct cv_rng *rng, struct cv_action *a)
{
    static const enum cv_sequencer_verb verbs[] = {CV_SEQUENCER_DOWN, CV_SEQUENCER_SET,
                                                   CV_SEQUENCER_RESET, CV_SEQUENCER_WIPE,
                                                   CV_SEQUENCER_SKIP};
    struct cv_sequencer_change *change = &a->sequencer;
    a->kind = CV_ACTION_SEQUENCER;
    a->node = CV_ID_NONE;
    change->verb = verbs[cv__rng_range(rng, 0, COUNT_OF(verbs) - 1)];
    if (change->verb == CV_SEQUENCER_SET) {
        change->mask = CV_SEQUENCER_QUERY_LOSS | CV_SEQUENCER_ANSWER_LOSS;
        change->query_loss_ppb = draw_percent(rng, 1, 60);
        change->answer_loss_ppb = draw_percent(rng, 1, 60);
    } else if (change->verb == CV_SEQUENCER_SKIP) {
        change->skip = (uint64_t)cv__rng_range(rng, 1, 100);
    }
    if (change->verb != CV_SEQUENCER_DOWN && change->verb != CV_SEQUENCER_SET) {
        a->for_ns = 0;
    }
}

/* Down, losing, slow or out of one node's reach for a while; or it restarts. */
static void draw_store(struct cv_rng *rng, struct cv_action *a)
{
    static const enum cv_simstore_verb verbs[] = {
        CV_SIMSTORE_DOWN, CV_SIMSTORE_SET, CV_SIMSTORE_SET, CV_SIMSTORE_RESTART, CV_SIMSTORE_CUT};
    struct cv_simstore_change *change = &a->store;
    a->kind = CV_ACTION_STORE;
    change->verb = verbs[cv__rng_range(rng, 0, COUNT_OF(verbs) - 1)];
    if (change->verb == CV_SIMSTORE_SET && cv__rng_range(rng, 0, 1) == 0) {
        change->mask = CV_SIMSTORE_QUERY_LOSS | CV_SIMSTORE_ANSWER_LOSS | CV_SIMSTORE_NEWS_LOSS;
        change->trouble.query_loss_ppb = draw_percent(rng, 1, 60);
        change->trouble.answer_loss_ppb = draw_percent(rng, 1, 60);
        change->trouble.news_loss_ppb = draw_percent(rng, 1, 100);
    } else if (change->verb == CV_SIMSTORE_SET) {
        change->mask = CV_SIMSTORE_QUERY_DELAY | CV_SIMSTORE_ANSWER_DELAY;
        change->trouble.query_delay_ns = draw_ms(rng, NS_PER_MS, 500 * NS_PER_MS);
        change->trouble.answer_delay_ns = draw_ms(rng, NS_PER_MS, 500 * NS_PER_MS);
    } else if (change->verb == CV_SIMSTORE_RESTART) {
        change->extends = cv__rng_range(rng, 0, 1) == 0;
        a->for_ns = 0;
    }
    if (change->verb != CV_SIMSTORE_CUT) {
        a->node = CV_ID_NONE;
    }
}

static void draw_fault(struct cv_world *w, const struct cv_random_faults *faults, int64_t at_ns,
                       enum cv_fault fault)
{
    struct cv_rng *rng = &w->fault_rng;
    const uint32_t node_count = w->node_count;
    struct cv_action a = {
        .at_ns = at_ns,
        .for_ns = draw_ms(rng, faults->lasting_min_ns, faults->lasting_max_ns),
        .line = faults->line,
        .node = (cv_id)cv__rng_range(rng, 1, node_count),
    };
    if (cv__rng_range(rng, 0, 2) == 0) {
        a.node = CV_NODE_LEADER; /* where it hurts most */
    }
    switch (fault) {
    case CV_FAULT_CRASH:
        a.kind = CV_ACTION_CRASH;
        break;
    case CV_FAULT_PAUSE:
        a.kind = CV_ACTION_PAUSE;
        break;
    case CV_FAULT_PARTITION:
        if (node_count < 2) {
            return;
        }
        a.kind = CV_ACTION_PARTITION;
        draw_groups(rng, node_count, &a);
        break;
    case CV_FAULT_LINK:
    case CV_FAULT_ONEWAY:
        if (node_count < 2) {
            return;
        }
        a.kind = CV_ACTION_LINK;
        draw_pair(rng, node_count, &a.link);
        a.link.is_one_way = fault == CV_FAULT_ONEWAY;
        break;
    case CV_FAULT_LOSS:
        a.kind = CV_ACTION_OVERLAY;
        a.overlay = CV_OVERLAY_LOSS;
        a.value = draw_percent(rng, 1, 60);
        break;
    case CV_FAULT_SLOW:
        a.kind = CV_ACTION_OVERLAY;
        a.overlay = CV_OVERLAY_SLOW;
        a.value = draw_ms(rng, NS_PER_MS, 500 * NS_PER_MS);
        break;
    case CV_FAULT_DUPLICATE:
        a.kind = CV_ACTION_OVERLAY;
        a.overlay = CV_OVERLAY_DUPLICATE;
        a.value = draw_percent(rng, 1, 60);
        break;
    case CV_FAULT_REORDER:
        a.kind = CV_ACTION_OVERLAY;
        a.overlay = CV_OVERLAY_REORDER;
        a.value = draw_percent(rng, 1, 60);
        break;
    case CV_FAULT_RESIGN:
        a.kind = CV_ACTION_RESIGN;
        a.for_ns = 0;
        break;
    case CV_FAULT_JOIN:
        a.kind = CV_ACTION_RECOVER;
        a.for_ns = 0;
        a.node = (cv_id)cv__rng_range(rng, 1, node_count); /* never a leader: it is down */
        break;
    case CV_FAULT_SEQUENCER:
        draw_sequencer(rng, &a);
        break;
    case CV_FAULT_STORE:
        draw_store(rng, &a);
        break;
    case CV_FAULT_COUNT:
        CV_ASSERT(!"a fault of no kind");
    }
    cv__world_schedule_action(w, &a);
}

static enum cv_fault draw_kind(struct cv_rng *rng, uint32_t kinds)
{
    int64_t skip = cv__rng_range(rng, 0, __builtin_popcount(kinds) - 1);
    for (uint32_t kind = 0; kind < CV_FAULT_COUNT; kind++) {
        if ((kinds & BIT(kind)) != 0 && skip-- == 0) {
            return (enum cv_fault)kind;
        }
    }
    CV_ASSERT(!"one of them was meant");
    return CV_FAULT_CRASH;
}

/* A Poisson process: the gaps between faults are exponentially distributed. */
static void draw_faults(struct cv_world *w, const struct cv_random_faults *faults)
{
    const double mean_gap_ms = 1e3 * (double)CV_PPB_ONE / (double)faults->rate_ppb;
    int64_t at_ns = faults->from_ns;
    for (;;) {
        const double gap_ms = -log(cv__rng_unit(&w->fault_rng)) * mean_gap_ms;
        if (gap_ms > 1e12) {
            return;
        }
        at_ns += cv__max64((int64_t)gap_ms, 1) * NS_PER_MS;
        if (at_ns > faults->until_ns) {
            return;
        }
        draw_fault(w, faults, at_ns, draw_kind(&w->fault_rng, faults->kinds));
    }
}

void cv__actions_schedule(struct cv_world *w)
{
    const struct cv_scenario *s = w->scenario;
    for (uint32_t i = 0; i < s->action_count; i++) {
        w->action = cv__grow(w->action, &w->action_capacity, w->action_count, sizeof *w->action);
        w->action[w->action_count++] =
            s->action[i]; /* first the scenario's: see cv__world_free() */
    }
    for (uint32_t i = 0; i < s->action_count; i++) {
        if (s->action[i].at_ns == CV_SETUP) {
            do_action(w, &s->action[i]);
            cv__connect_update(w);
        } else {
            cv__world_queue_action(w, i);
        }
    }
    for (uint32_t i = 0; i < s->random_count; i++) {
        draw_faults(w, &s->random[i]);
    }
}
