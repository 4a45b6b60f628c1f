/* src/sim/actions.c - carries out the actions of a scenario, and draws its random faults.
 *
 * Random faults are drawn from the seed before the run and then are actions like any other, each
 * with its end (`for`). So a failing run can be written as plain actions, and shrunk by leaving
 * some out. */
#include "base/memory.h"
#include "sim/hold.h"
#include "sim/world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void trace_action(struct sim_world *w, const struct sim_action *a)
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
        sim_action_print(a, w->node_count, out);
        (void)fclose(out);
    }
    cv__trace_add(&w->trace, &record, text);
    free(text);
}

static void record_action(struct sim_world *w, const struct sim_action *a)
{
    const bool is_link_up = a->kind == SIM_ACTION_LINK && a->ends != 0; /* the end of a fault */
    w->fired[a->kind] += !is_link_up && a->at_ns != SIM_SETUP;
    if (a->kind == SIM_ACTION_OVERLAY) {
        w->fired[SIM_ACTION_COUNT + a->overlay.kind]++;
    } else if (a->kind == SIM_ACTION_LINK && a->ends == 0 && a->link.is_one_way) {
        w->fired[SIM_FIRED_ONEWAY]++;
    }
    w->faults.count++;
    trace_action(w, a);
    sim_properties_disturb(w);
    if (w->options.keeps_history && a->at_ns != SIM_SETUP) {
        w->history.done_action =
            cv__grow(w->history.done_action, &w->history.done_action_capacity,
                     w->history.done_action_count, sizeof *w->history.done_action);
        w->history.done_action[w->history.done_action_count++] =
            (struct sim_done_action){w->now_ns, *a};
    }
}

/* Schedules the end of an action that lasts. The end has the fault's number, so that the end of an
 * earlier fault does not end a later one of the same kind. */
static void end_later(struct sim_world *w, const struct sim_action *a, enum sim_action_kind kind,
                      cv_id node)
{
    if (a->for_ns == 0) {
        return;
    }
    struct sim_action end = {0};
    if (kind == a->kind) {
        end = *a; /* with its link, overlay or verb */
    }
    end.at_ns = w->now_ns + a->for_ns;
    end.for_ns = 0;
    end.kind = kind;
    end.line = 0;
    end.node = node;
    end.ends = w->faults.count;
    if (kind == SIM_ACTION_LINK) {
        end.link.link.is_down = false;
    } else if (kind == SIM_ACTION_OVERLAY) {
        end.overlay.amount = 0;
    }
    sim_world_schedule_action(w, &end);
}

static void loses_leader(struct sim_world *w, cv_id id)
{
    if (sim_world_holds(w, id)) {
        sim_hold_open_election(w, id);
    }
}

/* The process ends, or the whole machine goes down. */
static void do_crash(struct sim_world *w, const struct sim_action *a, cv_id id)
{
    struct sim_node *n = &w->node[id - 1];
    if (!n->is_up) {
        return;
    }
    loses_leader(w, id);
    record_action(w, a);
    n->fault = w->faults.count;
    if (a->kind == SIM_ACTION_REBOOT) {
        sim_node_reboot(w, id);
    } else {
        /* The witness waits until no process of the node is left: its leadership has ended when
         * another node hears of it. */
        const bool is_over = a->is_witnessed && sim_message_bequeath(w, id);
        sim_node_crash(w, id);
        if (is_over) {
            cv__properties_bury(&w->properties, id);
        }
    }
    end_later(w, a, SIM_ACTION_RECOVER, id);
}

void sim_actions_crash(struct sim_world *w)
{
    const cv_id id = w->crashing;
    w->crashing = CV_ID_NONE;
    do_crash(w, &(struct sim_action){.at_ns = w->now_ns, .kind = SIM_ACTION_CRASH, .node = id}, id);
    sim_properties_update(w);
}

static void do_recover(struct sim_world *w, const struct sim_action *a, cv_id id)
{
    struct sim_node *n = &w->node[id - 1];
    const bool is_end_of_another = a->ends != 0 && n->fault != a->ends;
    if (n->is_up || is_end_of_another) {
        return;
    }
    record_action(w, a);
    if (a->back_ns > 0) {
        sim_node_set_back(w, id, a->back_ns);
    }
    sim_node_start(w, id);
}

static void do_pause(struct sim_world *w, const struct sim_action *a, cv_id id)
{
    struct sim_node *n = &w->node[id - 1];
    if (!n->is_up || n->is_paused) {
        return;
    }
    loses_leader(w, id);
    record_action(w, a);
    n->fault = w->faults.count;
    n->is_paused = true;
    sim_hold_note_life(w, id, SIM_LIFE_PAUSED);
    end_later(w, a, SIM_ACTION_RESUME, id);
}

static void do_resume(struct sim_world *w, const struct sim_action *a, cv_id id)
{
    struct sim_node *n = &w->node[id - 1];
    const bool is_end_of_another = a->ends != 0 && n->fault != a->ends;
    if (!n->is_up || !n->is_paused || is_end_of_another) {
        return;
    }
    record_action(w, a);
    sim_node_wake(w, id);
}

static void do_partition(struct sim_world *w, const struct sim_action *a)
{
    for (cv_id id = 1; id <= w->node_count; id++) {
        loses_leader(w, id);
    }
    record_action(w, a);
    w->faults.partition = w->faults.count;
    sim_network_partition(w->network, a->group);
    end_later(w, a, SIM_ACTION_HEAL, CV_ID_NONE);
}

static void do_heal(struct sim_world *w, const struct sim_action *a)
{
    if (a->ends == 0) {
        record_action(w, a);
        sim_network_heal(w->network);
    } else if (w->faults.partition == a->ends) {
        record_action(w, a);
        uint16_t *group = cv__allocate(w->node_count, sizeof *group);
        sim_network_partition(w->network, group); /* links that are down stay down */
        free(group);
    }
}

static void do_link(struct sim_world *w, const struct sim_action *a)
{
    record_action(w, a);
    sim_network_change(w->network, &a->link);
    if (a->link.link.is_down) {
        end_later(w, a, SIM_ACTION_LINK, CV_ID_NONE);
    }
}

enum phase { BEGINS, ENDS, IS_REPLACED };

/* A fault begins, and is recorded; or it ends, unless a later fault of its kind has begun since and
 * replaced it. *latest is the number of the latest fault. */
static enum phase phase_of(struct sim_world *w, const struct sim_action *a, uint64_t *latest)
{
    if (a->ends == 0) {
        record_action(w, a);
        *latest = w->faults.count;
        return BEGINS;
    }
    if (*latest != a->ends) {
        return IS_REPLACED;
    }
    sim_properties_disturb(w);
    return ENDS;
}

static void do_overlay(struct sim_world *w, const struct sim_action *a)
{
    const enum sim_overlay kind = a->overlay.kind;
    const enum phase phase = phase_of(w, a, &w->faults.overlay[kind]);
    if (phase != IS_REPLACED) {
        sim_network_overlay(w->network, kind, a->overlay.amount);
    }
    if (phase == BEGINS) {
        end_later(w, a, SIM_ACTION_OVERLAY, CV_ID_NONE);
    } else if (phase == ENDS) {
        trace_action(w, a);
    }
}

/* The node that `id` stands for; CV_ID_NONE: `leader`, and no node leads. */
static cv_id resolve(const struct sim_world *w, cv_id id)
{
    if (id != SIM_NODE_LEADER) {
        return id;
    }
    for (cv_id at = 1; at <= w->node_count; at++) {
        if (sim_world_holds(w, at)) {
            return at;
        }
    }
    return CV_ID_NONE;
}

/* One node loses its connection to the store or the sequencer, or gets it back (`cut` is 0). */
static void do_cut(struct sim_world *w, const struct sim_action *of, uint32_t cut)
{
    struct sim_action a = *of;
    a.node = resolve(w, of->node);
    if (a.node == CV_ID_NONE) {
        return;
    }
    struct sim_node *n = &w->node[a.node - 1];
    if (a.ends == 0 && cut != 0 && a.kind == SIM_ACTION_STORE) {
        loses_leader(w, a.node);
    }
    const enum phase phase = phase_of(w, &a, &n->cut_fault);
    if (phase == ENDS) {
        n->cut = 0;
    } else if (phase == BEGINS) {
        n->cut = cut;
        end_later(w, &a, a.kind, a.node);
    }
}

static void do_sequencer(struct sim_world *w, const struct sim_action *a)
{
    const enum sim_sequencer_verb verb = a->sequencer.verb;
    if (verb == SIM_SEQUENCER_CUT || verb == SIM_SEQUENCER_MEND) {
        do_cut(w, a, a->sequencer.cut);
        return;
    }
    const enum phase phase = phase_of(w, a, &w->faults.sequencer[verb]);
    if (phase == ENDS) {
        sim_sequencer_restore(&w->sequencer, verb);
    } else if (phase == BEGINS) {
        sim_sequencer_change(&w->sequencer, &a->sequencer, a->for_ns > 0);
        end_later(w, a, SIM_ACTION_SEQUENCER, CV_ID_NONE);
    }
}

static void do_store(struct sim_world *w, const struct sim_action *a)
{
    const enum sim_store_verb verb = a->store.verb;
    if (verb == SIM_STORE_CUT || verb == SIM_STORE_MEND) {
        do_cut(w, a, a->store.cut);
        return;
    }
    const enum phase phase = phase_of(w, a, &w->faults.store[verb]);
    if (phase == ENDS) {
        sim_store_restore(&w->store, verb);
    } else if (phase == BEGINS) {
        sim_store_change(&w->store, &w->wake_rng, w->now_ns, &a->store, a->for_ns > 0);
        sim_store_request_changed(w, &a->store);
        end_later(w, a, SIM_ACTION_STORE, CV_ID_NONE);
    }
}

static void do_clock(struct sim_world *w, const struct sim_action *a)
{
    for (cv_id id = 1; id <= w->node_count; id++) {
        if (a->node == CV_ID_NONE || a->node == id) {
            const int64_t ppb = a->clock.ppb;
            sim_node_set_drift(w, id,
                               a->clock.is_random ? sim_rng_range(&w->wake_rng, -ppb, ppb) : ppb,
                               a->clock.parts);
        }
    }
    record_action(w, a);
}

/* Counts a step of a `manual` scenario, and whether there was something to do. */
static bool count_step(struct sim_world *w, const struct sim_action *a, bool has_happened)
{
    struct sim_manual *m = &w->manual;
    m->step_count++;
    if (!has_happened) {
        m->idle_line = m->idle_count == 0 ? a->line : m->idle_line;
        m->idle_count++;
    }
    w->fired[a->kind] += has_happened;
    return has_happened;
}

/* Not counted as a fault, because it would have happened anyway. */
static void do_step(struct sim_world *w, const struct sim_action *a)
{
    if (a->kind == SIM_ACTION_FIRE) {
        (void)count_step(w, a, sim_manual_fire(w, a->node, a->timer));
    } else {
        (void)count_step(w, a, sim_manual_deliver(w, &a->pick));
    }
}

static void do_trouble(struct sim_world *w, const struct sim_action *a)
{
    const bool has_happened =
        a->kind == SIM_ACTION_LOSE ? sim_manual_lose(w, &a->pick) : sim_manual_delay(w, &a->pick);
    if (count_step(w, a, has_happened)) {
        trace_action(w, a);
        sim_properties_disturb(w);
    }
}

/* How one record is saved. */
static void do_save(struct sim_world *w, const struct sim_action *a)
{
    if (a->disk.verb == SIM_DISK_NEXT) {
        w->node[a->node - 1].disk.next = a->disk.save;
        record_action(w, a);
    } else if (sim_node_end_save(w, a->node, a->disk.save)) {
        record_action(w, a);
    }
}

static void do_timers(struct sim_world *w, const struct sim_action *a)
{
    for (cv_id id = 1; id <= w->node_count; id++) {
        if (a->node == CV_ID_NONE || a->node == id) {
            w->node[id - 1].late_ns = a->late_ns; /* for timers armed from now on */
        }
    }
    record_action(w, a);
}

static void do_disk(struct sim_world *w, const struct sim_action *a)
{
    if (a->disk.verb != SIM_DISK_SET) {
        do_save(w, a);
        return;
    }
    for (cv_id id = 1; id <= w->node_count; id++) {
        if (a->node == CV_ID_NONE || a->node == id) {
            w->node[id - 1].disk.fails = a->disk.fails;
            w->node[id - 1].disk.delay_ns = a->disk.delay_ns;
        }
    }
    record_action(w, a);
}

/* Messages that already wait keep the time that was set for them. */
static void do_cost(struct sim_world *w, const struct sim_action *a)
{
    w->cost_ns = a->cost_ns;
    record_action(w, a);
}

/* Gives an event to a node, unless it is down or paused. */
static void do_event(struct sim_world *w, const struct sim_action *a, cv_id id,
                     struct cv_event *event)
{
    struct sim_node *n = &w->node[id - 1];
    if (!n->is_up || n->is_paused) {
        return;
    }
    if (event->kind == CV_EVENT_CAMPAIGN) {
        w->properties.node[id - 1].is_candidate = event->is_candidate;
    }
    if (event->kind == CV_EVENT_RESIGN ||
        (event->kind == CV_EVENT_CAMPAIGN && !event->is_candidate)) {
        loses_leader(w, id);
        w->properties.node[id - 1].has_resigned = true;
    }
    record_action(w, a);
    sim_node_step(w, id, event);
}

static void do_node_action(struct sim_world *w, const struct sim_action *a, cv_id id)
{
    struct cv_event event = {0};
    switch (a->kind) {
    case SIM_ACTION_CRASH:
    case SIM_ACTION_REBOOT:
        do_crash(w, a, id);
        break;
    case SIM_ACTION_RECOVER:
        do_recover(w, a, id);
        break;
    case SIM_ACTION_PAUSE:
        do_pause(w, a, id);
        break;
    case SIM_ACTION_RESUME:
        do_resume(w, a, id);
        break;
    case SIM_ACTION_RESIGN:
        event.kind = CV_EVENT_RESIGN;
        event.peer = a->resign.to;
        do_event(w, a, id, &event);
        break;
    case SIM_ACTION_CAMPAIGN:
        event.kind = CV_EVENT_CAMPAIGN;
        event.is_candidate = a->campaign.is_on;
        do_event(w, a, id, &event);
        break;
    case SIM_ACTION_REPORT:
        event.kind = CV_EVENT_REPORT;
        event.input = a->report.input;
        event.value = a->report.value;
        do_event(w, a, id, &event);
        break;
    case SIM_ACTION_PEER_DOWN:
        event.kind = CV_EVENT_PEER_DOWN;
        event.peer = a->peer_down.peer == SIM_NODE_LEADER ? w->properties.node[id - 1].leader
                                                          : a->peer_down.peer;
        event.is_certain = a->peer_down.is_certain;
        if (event.peer != CV_ID_NONE) {
            if (event.is_certain && !w->node[event.peer - 1].is_up) {
                cv__properties_bury(&w->properties, event.peer);
            }
            do_event(w, a, id, &event);
        }
        break;
    default:
        CV_ASSERT(!"not an action of a node");
    }
}

static void do_action(struct sim_world *w, const struct sim_action *a)
{
    switch (a->kind) {
    case SIM_ACTION_PARTITION:
        do_partition(w, a);
        break;
    case SIM_ACTION_HEAL:
        do_heal(w, a);
        break;
    case SIM_ACTION_LINK:
        do_link(w, a);
        break;
    case SIM_ACTION_OVERLAY:
        do_overlay(w, a);
        break;
    case SIM_ACTION_CLOCK:
        do_clock(w, a);
        break;
    case SIM_ACTION_DISK:
        do_disk(w, a);
        break;
    case SIM_ACTION_TIMERS:
        do_timers(w, a);
        break;
    case SIM_ACTION_SEQUENCER:
        do_sequencer(w, a);
        break;
    case SIM_ACTION_STORE:
        do_store(w, a);
        break;
    case SIM_ACTION_COST:
        do_cost(w, a);
        break;
    case SIM_ACTION_FIRE:
    case SIM_ACTION_DELIVER:
        do_step(w, a);
        break;
    case SIM_ACTION_LOSE:
    case SIM_ACTION_LATE:
        do_trouble(w, a);
        break;
    default: {
        struct sim_action resolved = *a;
        resolved.node = resolve(w, a->node);
        if (resolved.node != CV_ID_NONE) {
            do_node_action(w, &resolved, resolved.node);
        }
        break;
    }
    }
}

void sim_actions_do(struct sim_world *w, uint32_t index)
{
    const struct sim_action action = w->action[index]; /* a copy: the array may grow meanwhile */
    do_action(w, &action);
    sim_properties_update(w);
}

/* ---- Chance ---------------------------------------------------------------------------------- */

/* Whole milliseconds and percents, so that a drawn fault can be printed and read back unchanged. */
static int64_t draw_ms(struct sim_rng *rng, int64_t low_ns, int64_t high_ns)
{
    const int64_t low = (low_ns + NS_PER_MS - 1) / NS_PER_MS;
    const int64_t high = cv__max64(low, high_ns / NS_PER_MS);
    return sim_rng_range(rng, cv__max64(low, 1), cv__max64(high, 1)) * NS_PER_MS;
}

static int64_t draw_percent(struct sim_rng *rng, int64_t low, int64_t high)
{
    return sim_rng_range(rng, low, high) * (SIM_PPB_ONE / 100);
}

static void draw_groups(struct sim_rng *rng, uint32_t node_count, struct sim_action *a)
{
    a->group = cv__allocate(node_count, sizeof *a->group);
    const int64_t parts = node_count > 3 ? sim_rng_range(rng, 2, 3) : 2;
    uint16_t number[4] = {0}; /* of each drawn part, in the order of appearance, so none is empty */
    uint16_t count = 0;
    for (uint32_t i = 0; i < node_count; i++) {
        const int64_t part = sim_rng_range(rng, 1, parts);
        number[part] = number[part] != 0 ? number[part] : ++count;
        a->group[i] = number[part];
    }
    if (count == 1) {
        a->group[sim_rng_range(rng, 0, node_count - 1)] = 2;
    }
}

static void draw_pair(struct sim_rng *rng, uint32_t node_count, struct sim_link_change *change)
{
    change->first = (cv_id)sim_rng_range(rng, 1, node_count);
    do {
        change->second = (cv_id)sim_rng_range(rng, 1, node_count);
    } while (change->second == change->first);
    change->mask = SIM_LINK_DOWN;
    change->link.is_down = true;
}

/* The sequencer is down or loses messages for a while, or its counter jumps. */
static void draw_sequencer(struct sim_rng *rng, struct sim_action *a)
{
    static const enum sim_sequencer_verb verbs[] = {SIM_SEQUENCER_DOWN, SIM_SEQUENCER_SET,
                                                    SIM_SEQUENCER_RESET, SIM_SEQUENCER_WIPE,
                                                    SIM_SEQUENCER_SKIP};
    struct sim_sequencer_change *change = &a->sequencer;
    a->kind = SIM_ACTION_SEQUENCER;
    a->node = CV_ID_NONE;
    change->verb = verbs[sim_rng_range(rng, 0, COUNT_OF(verbs) - 1)];
    if (change->verb == SIM_SEQUENCER_SET) {
        change->mask = SIM_SEQUENCER_QUERY_LOSS | SIM_SEQUENCER_ANSWER_LOSS;
        change->query_loss_ppb = draw_percent(rng, 1, 60);
        change->answer_loss_ppb = draw_percent(rng, 1, 60);
    } else if (change->verb == SIM_SEQUENCER_SKIP) {
        change->skip = (uint64_t)sim_rng_range(rng, 1, 100);
    }
    if (change->verb != SIM_SEQUENCER_DOWN && change->verb != SIM_SEQUENCER_SET) {
        a->for_ns = 0;
    }
}

/* The store is down, slow, loses messages or is cut off from one node for a while; or restarts. */
static void draw_store(struct sim_rng *rng, struct sim_action *a)
{
    static const enum sim_store_verb verbs[] = {SIM_STORE_DOWN, SIM_STORE_SET, SIM_STORE_SET,
                                                SIM_STORE_RESTART, SIM_STORE_CUT};
    struct sim_store_change *change = &a->store;
    a->kind = SIM_ACTION_STORE;
    change->verb = verbs[sim_rng_range(rng, 0, COUNT_OF(verbs) - 1)];
    if (change->verb == SIM_STORE_SET && sim_rng_range(rng, 0, 1) == 0) {
        change->mask = SIM_STORE_QUERY_LOSS | SIM_STORE_ANSWER_LOSS | SIM_STORE_NOTIFICATION_LOSS;
        change->trouble.query_loss_ppb = draw_percent(rng, 1, 60);
        change->trouble.answer_loss_ppb = draw_percent(rng, 1, 60);
        change->trouble.notification_loss_ppb = draw_percent(rng, 1, 100);
    } else if (change->verb == SIM_STORE_SET) {
        change->mask = SIM_STORE_QUERY_DELAY | SIM_STORE_ANSWER_DELAY;
        change->trouble.query_delay_ns = draw_ms(rng, NS_PER_MS, 500 * NS_PER_MS);
        change->trouble.answer_delay_ns = draw_ms(rng, NS_PER_MS, 500 * NS_PER_MS);
    } else if (change->verb == SIM_STORE_RESTART) {
        change->extends = sim_rng_range(rng, 0, 1) == 0;
        a->for_ns = 0;
    }
    if (change->verb == SIM_STORE_CUT) {
        change->cut = SIM_CUT_BOTH;
    } else {
        a->node = CV_ID_NONE;
    }
}

static void draw_overlay(struct sim_rng *rng, enum sim_fault fault, struct sim_action *a)
{
    a->kind = SIM_ACTION_OVERLAY;
    switch (fault) {
    case SIM_FAULT_SLOW:
        a->overlay.kind = SIM_OVERLAY_SLOW;
        a->overlay.amount = draw_ms(rng, NS_PER_MS, 500 * NS_PER_MS);
        return;
    case SIM_FAULT_DUPLICATE:
        a->overlay.kind = SIM_OVERLAY_DUPLICATE;
        break;
    case SIM_FAULT_REORDER:
        a->overlay.kind = SIM_OVERLAY_REORDER;
        break;
    default:
        CV_ASSERT(fault == SIM_FAULT_LOSS);
        a->overlay.kind = SIM_OVERLAY_LOSS;
    }
    a->overlay.amount = draw_percent(rng, 1, 60);
}

static void draw_fault(struct sim_world *w, const struct sim_random_faults *faults, int64_t at_ns,
                       enum sim_fault fault)
{
    struct sim_rng *rng = &w->fault_rng;
    const uint32_t node_count = w->node_count;
    struct sim_action a = {
        .at_ns = at_ns,
        .for_ns = draw_ms(rng, faults->lasting_min_ns, faults->lasting_max_ns),
        .line = faults->line,
        .node = (cv_id)sim_rng_range(rng, 1, node_count),
    };
    if (sim_rng_range(rng, 0, 2) == 0) {
        a.node = SIM_NODE_LEADER; /* a fault of the leader has the largest effect */
    }
    switch (fault) {
    case SIM_FAULT_CRASH:
        a.kind = SIM_ACTION_CRASH;
        break;
    case SIM_FAULT_REBOOT:
        a.kind = SIM_ACTION_REBOOT;
        break;
    case SIM_FAULT_PAUSE:
        a.kind = SIM_ACTION_PAUSE;
        break;
    case SIM_FAULT_PARTITION:
        if (node_count < 2) {
            return;
        }
        a.kind = SIM_ACTION_PARTITION;
        draw_groups(rng, node_count, &a);
        break;
    case SIM_FAULT_LINK:
    case SIM_FAULT_ONEWAY:
        if (node_count < 2) {
            return;
        }
        a.kind = SIM_ACTION_LINK;
        draw_pair(rng, node_count, &a.link);
        a.link.is_one_way = fault == SIM_FAULT_ONEWAY;
        break;
    case SIM_FAULT_LOSS:
    case SIM_FAULT_SLOW:
    case SIM_FAULT_DUPLICATE:
    case SIM_FAULT_REORDER:
        draw_overlay(rng, fault, &a);
        break;
    case SIM_FAULT_RESIGN:
        a.kind = SIM_ACTION_RESIGN;
        a.for_ns = 0;
        break;
    case SIM_FAULT_JOIN:
        a.kind = SIM_ACTION_RECOVER;
        a.for_ns = 0;
        /* never the leader: a node that is down does not lead */
        a.node = (cv_id)sim_rng_range(rng, 1, node_count);
        break;
    case SIM_FAULT_SEQUENCER:
        draw_sequencer(rng, &a);
        break;
    case SIM_FAULT_STORE:
        draw_store(rng, &a);
        break;
    case SIM_FAULT_COUNT:
        CV_ASSERT(!"an unknown kind of fault");
    }
    sim_world_schedule_action(w, &a);
}

static enum sim_fault draw_kind(struct sim_rng *rng, uint32_t kinds)
{
    int64_t skip = sim_rng_range(rng, 0, __builtin_popcount(kinds) - 1);
    for (uint32_t kind = 0; kind < SIM_FAULT_COUNT; kind++) {
        if ((kinds & BIT(kind)) != 0 && skip-- == 0) {
            return (enum sim_fault)kind;
        }
    }
    CV_ASSERT(!"the number is below the count of kinds");
    return SIM_FAULT_CRASH;
}

/* A Poisson process: the gaps between faults are exponentially distributed. */
static void draw_faults(struct sim_world *w, const struct sim_random_faults *faults)
{
    const double mean_gap_ms = 1e3 * (double)SIM_PPB_ONE / (double)faults->rate_ppb;
    int64_t at_ns = faults->from_ns;
    for (;;) {
        const double gap_ms = -log(sim_rng_unit(&w->fault_rng)) * mean_gap_ms;
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

void sim_actions_schedule(struct sim_world *w)
{
    const struct sim_scenario *s = w->scenario;
    for (uint32_t i = 0; i < s->action_count; i++) {
        w->action = cv__grow(w->action, &w->action_capacity, w->action_count, sizeof *w->action);
        w->action[w->action_count++] =
            s->action[i]; /* the scenario's actions come first: sim_world_free() relies on it */
    }
    for (uint32_t i = 0; i < s->action_count; i++) {
        if (s->action[i].at_ns == SIM_SETUP) {
            do_action(w, &s->action[i]);
            sim_properties_update(w);
        } else {
            sim_queue_push(&w->queue, w->action[i].at_ns, SIM_EVENT_ACTION, i);
        }
    }
    for (uint32_t i = 0; i < s->random_count; i++) {
        draw_faults(w, &s->random[i]);
    }
}
