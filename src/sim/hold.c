/* src/sim/hold.c - what each node believes, and who holds a leadership from when to when. */
#include "sim/hold.h"

#include "base/memory.h"
#include "core/nodeset.h"
#include "sim/query.h"
#include "sim/world.h"

bool sim_world_holds(const struct sim_world *w, cv_id id)
{
    const struct sim_node *n = &w->node[id - 1];
    return n->is_up && n->holds && n->held_until_ns > w->now_ns;
}

void sim_hold_end(struct sim_world *w, cv_id id, const char *reason)
{
    struct sim_node *n = &w->node[id - 1];
    CV_ASSERT(n->holds);
    n->holds = false;
    const bool has_expired = n->held_until_ns <= w->now_ns;
    n->led_ns = cv__min64(n->held_until_ns, w->now_ns);
    if (w->options.keeps_history) {
        w->span = cv__grow(w->span, &w->span_capacity, w->span_count, sizeof *w->span);
        w->span[w->span_count++] = (struct sim_leadership_span){
            .node = id,
            .from_ns = n->held_from_ns,
            .to_ns = has_expired ? n->held_until_ns : w->now_ns,
            .token = n->held_token,
            .reason = has_expired ? cv_reason_name(CV_REASON_EXPIRED) : reason,
        };
    }
    cv__watch_end(w, id);
}

static void begin_hold(struct sim_world *w, cv_id id, uint64_t token, int64_t until_ns)
{
    struct sim_node *n = &w->node[id - 1];
    n->holds = true;
    n->held_token = token;
    n->held_from_ns = w->now_ns;
    n->held_until_ns = until_ns;
    w->begun_count++;
    for (uint32_t i = 0; i < w->scenario->expect_count; i++) {
        const struct sim_expect *e = &w->scenario->expect[i];
        if (e->kind == SIM_EXPECT_CHANGES && w->now_ns >= e->from_ns && w->now_ns <= e->at_ns) {
            w->expect_seen[i]++;
        }
    }
    for (uint32_t i = w->election_count; i > 0 && w->election[i - 1].elected_ns < 0; i--) {
        w->election[i - 1].elected_ns = w->now_ns;
    }
    cv__watch_begin(w, id, token);
}

void sim_world_open_election(struct sim_world *w, cv_id leader)
{
    if (!w->options.keeps_history) {
        return;
    }
    w->election =
        cv__grow(w->election, &w->election_capacity, w->election_count, sizeof *w->election);
    w->election[w->election_count++] = (struct sim_election){w->now_ns, -1, -1, leader};
}

void sim_hold_life(struct sim_world *w, cv_id id, enum sim_life life)
{
    if (w->options.keeps_history) {
        w->life = cv__grow(w->life, &w->life_capacity, w->life_count, sizeof *w->life);
        w->life[w->life_count++] = (struct sim_life_change){w->now_ns, id, life};
    }
}

void sim_world_note_life(struct sim_world *w, cv_id id, enum sim_life life)
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
    for (uint32_t i = w->election_count; i > 0 && w->election[i - 1].elected_ns < 0; i--) {
        struct sim_election *e = &w->election[i - 1];
        if (e->detected_ns < 0 && e->of != CV_ID_NONE && e->of == old_leader && id != e->of) {
            e->detected_ns = w->now_ns;
        }
    }
}

/* Who is behind an anonymous leader? Known from outside only; nobody, if no process has that label
 * or was given that number, which lemma 1 of [Wiesmann07] excludes. */
static cv_id name_leader(struct sim_world *w, cv_id id, const struct cv_leadership *l)
{
    const cv_id named = sim_query_find(w, l->token, l->label);
    if (named == CV_ID_NONE) {
        cv__watch_break(w, CV_PROPERTY_VALIDITY,
                        "node %u follows label %llx with token %llu, which no process was given",
                        id, (unsigned long long)l->label, (unsigned long long)l->token);
    }
    return named;
}

void sim_hold_believe(struct sim_world *w, cv_id id, const struct cv_leadership *told)
{
    struct cv_leadership named = *told;
    const struct cv_leadership *l = &named;
    if (w->protocol->is_anonymous && told->leader != CV_ID_NONE) {
        named.leader = name_leader(w, id, told);
    }
    /* What the host of a real process goes by. A core that says of itself what is true of another
     * makes a follower act as the leader. */
    const bool leads = told->is_self;
    if (leads != (told->leader == id)) {
        cv__watch_break(w, CV_PROPERTY_VALIDITY, "node %u says that it %s, and names %u as leader",
                        id, leads ? "leads" : "does not lead", told->leader);
    }
    struct sim_node *n = &w->node[id - 1];
    const int64_t until_ns =
        l->valid_until_ns == 0 ? INT64_MAX : sim_clock_real(&n->clock, l->valid_until_ns);
    if (n->leader != l->leader || n->token != l->token || n->label != l->label) {
        sim_world_note(w, CV_RECORD_BELIEF, id, l->leader, l->reason, l->token,
                       until_ns == INT64_MAX ? 0 : until_ns);
        if (w->options.keeps_history) {
            w->view = cv__grow(w->view, &w->view_capacity, w->view_count, sizeof *w->view);
            w->view[w->view_count++] = (struct sim_view){w->now_ns, id, l->leader, l->token};
        }
        if (n->leader != l->leader) {
            note_detection(w, id, n->leader);
        }
        cv__watch_belief(w, id, l);
        n->leader = l->leader;
        n->token = l->token;
        n->label = l->label;
        if (l->token > n->token_max || (l->token == n->token_max && l->label > n->label_max)) {
            n->token_max = l->token;
            n->label_max = l->label;
        }
    }
    const bool is_renewal = leads && sim_world_holds(w, id) && n->held_token == l->token;
    if (leads && l->members.word_count > 0) {
        if (n->members == NULL) {
            n->members = cv__allocate(cv__set_words(w->node_count), sizeof *n->members);
        }
        cv__set_copy(n->members, l->members.word, w->node_count);
    }
    if (is_renewal) {
        n->held_until_ns = until_ns;
        cv__watch_support(w, id);
        return;
    }
    if (n->holds) {
        sim_hold_end(w, id, cv_reason_name(leads ? CV_REASON_SUPERSEDED : l->reason));
    }
    /* What waited for the disk, and the node then slept, may be over before anybody hears of it. */
    if (leads && until_ns > w->now_ns) {
        begin_hold(w, id, l->token, until_ns);
        cv__watch_support(w, id);
    }
}
