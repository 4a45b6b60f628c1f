/* src/sim/hold.c - what each node believes, and the begin and end of each leadership. */
#include "sim/hold.h"

#include "base/memory.h"
#include "sim/sequencer_request.h"
#include "sim/world.h"

/* The reported reason for the end of a leadership that its node did not end itself. If its time was
 * over already, that is the reason. */
static const char *reason_to_end(const struct sim_world *w, const struct cv_property_node *held,
                                 const char *reason)
{
    return held->held_until_ns <= w->now_ns ? cv_reason_name(CV_REASON_EXPIRED) : reason;
}

/* For the report: a leadership ends now, or ended when its lease ran out. */
static void record_end(struct sim_world *w, cv_id id, const struct cv_property_node *held,
                       const char *reason)
{
    if (!w->options.keeps_history) {
        return;
    }
    w->history.span = cv__grow(w->history.span, &w->history.span_capacity, w->history.span_count,
                               sizeof *w->history.span);
    w->history.span[w->history.span_count++] = (struct sim_leadership_span){
        .node = id,
        .from_ns = held->held_from_ns,
        .to_ns = cv__min64(held->held_until_ns, w->now_ns),
        .token = held->held_token,
        .reason = reason,
        .score = w->history.score != NULL ? w->history.score[id - 1] : (struct sim_score){0},
    };
}

void sim_hold_end(struct sim_world *w, cv_id id, const char *reason)
{
    const struct cv_property_node *held = &w->properties.node[id - 1];
    record_end(w, id, held, reason_to_end(w, held, reason));
    cv__properties_end(&w->properties, id);
}

void sim_hold_crash(struct sim_world *w, cv_id id)
{
    const struct cv_property_node *n = &w->properties.node[id - 1];
    if (n->holds) {
        record_end(w, id, n, reason_to_end(w, n, "crashed"));
    }
    cv__properties_crash(&w->properties, id);
}

/* For the report and the expectations: a leadership has begun. */
static void record_begin(struct sim_world *w)
{
    w->begun_count++;
    for (uint32_t i = 0; i < w->scenario->expect_count; i++) {
        const struct sim_expect *e = &w->scenario->expect[i];
        if (e->kind == SIM_EXPECT_CHANGES && w->now_ns >= e->from_ns && w->now_ns <= e->at_ns) {
            w->expect_seen[i]++;
        }
    }
    for (uint32_t i = w->history.election_count; i > 0 && w->history.election[i - 1].elected_ns < 0;
         i--) {
        w->history.election[i - 1].elected_ns = w->now_ns;
    }
}

void sim_hold_open_election(struct sim_world *w, cv_id leader)
{
    if (!w->options.keeps_history) {
        return;
    }
    w->history.election = cv__grow(w->history.election, &w->history.election_capacity,
                                   w->history.election_count, sizeof *w->history.election);
    w->history.election[w->history.election_count++] =
        (struct sim_election){w->now_ns, -1, -1, leader};
}

void sim_hold_life(struct sim_world *w, cv_id id, enum sim_life life)
{
    if (w->options.keeps_history) {
        w->history.life = cv__grow(w->history.life, &w->history.life_capacity,
                                   w->history.life_count, sizeof *w->history.life);
        w->history.life[w->history.life_count++] = (struct sim_life_change){w->now_ns, id, life};
    }
}

void sim_hold_note_life(struct sim_world *w, cv_id id, enum sim_life life)
{
    static const enum cv_record_kind kinds[] = {
        [SIM_LIFE_UP] = CV_RECORD_START,
        [SIM_LIFE_DOWN] = CV_RECORD_CRASH,
        [SIM_LIFE_PAUSED] = CV_RECORD_PAUSE,
    };
    const bool wakes = life == SIM_LIFE_UP && w->node[id - 1].is_paused;
    sim_world_note(w, wakes ? CV_RECORD_WAKE : kinds[life], id, CV_ID_NONE, 0, 0, 0);
    sim_hold_life(w, id, life);
}

/* The first other node that drops the lost leader has detected the fault. */
static void note_detection(struct sim_world *w, cv_id id, cv_id old_leader)
{
    for (uint32_t i = w->history.election_count; i > 0 && w->history.election[i - 1].elected_ns < 0;
         i--) {
        struct sim_election *e = &w->history.election[i - 1];
        if (e->detected_ns < 0 && e->of != CV_ID_NONE && e->of == old_leader && id != e->of) {
            e->detected_ns = w->now_ns;
        }
    }
}

/* The process behind an anonymous leader, which only an observer of all of them can know. There is
 * none if no process has that label or was given that number, which lemma 1 of [Wiesmann07]
 * excludes. */
static cv_id name_leader(struct sim_world *w, cv_id id, const struct cv_leadership *l)
{
    const cv_id named = sim_known_find(w, l->token, l->label);
    if (named == CV_ID_NONE) {
        cv__properties_break(&w->properties, CV_PROPERTY_VALIDITY,
                             "node %u follows label %llx with token %llu, which no process got", id,
                             (unsigned long long)l->label, (unsigned long long)l->token);
    }
    return named;
}

static void record_belief(struct sim_world *w, cv_id id, const struct cv_belief *belief,
                          enum cv_reason reason)
{
    sim_world_note(w, CV_RECORD_BELIEF, id, belief->leader, reason, belief->token,
                   belief->until_ns == INT64_MAX ? 0 : belief->until_ns);
    if (w->options.keeps_history) {
        w->history.view = cv__grow(w->history.view, &w->history.view_capacity,
                                   w->history.view_count, sizeof *w->history.view);
        w->history.view[w->history.view_count++] =
            (struct sim_view){w->now_ns, id, belief->leader, belief->token};
    }
    const cv_id old_leader = w->properties.node[id - 1].leader;
    if (old_leader != belief->leader) {
        note_detection(w, id, old_leader);
    }
}

void sim_hold_believe(struct sim_world *w, cv_id id, const struct cv_leadership *l)
{
    const bool is_anonymous = w->protocol->is_anonymous && l->leader != CV_ID_NONE;
    const struct sim_clock *clock = &w->node[id - 1].clock;
    const struct cv_belief belief = {
        .named = l->leader,
        .leader = is_anonymous ? name_leader(w, id, l) : l->leader,
        .token = l->token,
        .label = l->label,
        .is_self = l->is_self,
        .until_ns = l->valid_until_ns == 0 ? INT64_MAX : sim_clock_real(clock, l->valid_until_ns),
        .members = l->members,
    };
    if (cv__properties_is_new_belief(&w->properties, id, &belief)) {
        record_belief(w, id, &belief, l->reason);
    } else if (belief.is_self && w->trace.file != NULL) { /* renewals would fill the tail */
        sim_world_note(w, CV_RECORD_RENEW, id, belief.leader, 0, belief.token,
                       belief.until_ns == INT64_MAX ? 0 : belief.until_ns);
    }
    const struct cv_property_node before = w->properties.node[id - 1];
    const unsigned change = cv__properties_believe(&w->properties, id, &belief);
    if ((change & CV_HOLD_ENDED) != 0) {
        const char *superseded = cv_reason_name(CV_REASON_SUPERSEDED);
        record_end(w, id, &before,
                   l->is_self ? reason_to_end(w, &before, superseded) : cv_reason_name(l->reason));
    }
    if ((change & CV_HOLD_BEGUN) != 0) {
        record_begin(w);
    }
}
