/* src/explore/canonical_pole.c - numbers of heartbeats, and instants that have passed; see
 * canonical.h.
 *
 * Heartbeats are numbered without end, and the send times of the latest are kept in a ring. The
 * latest heartbeat whose answer counts is always SEQ here; earlier ones count down from it, and the
 * ring is rotated accordingly. */
#include "explore/canonical.h"
#include "protocols/pole.h"

#include <string.h>

const char *const explore_pole_timers[CV_TIMERS_MAX] = {
    [POLE_TIMER_RETRY] = "retry", [POLE_TIMER_ELECT] = "elect", [POLE_TIMER_SILENCE] = "silence",
    [POLE_TIMER_BEAT] = "beat",   [POLE_TIMER_CLAIM] = "claim", [POLE_TIMER_PROMISE] = "promise",
    [POLE_TIMER_PROBE] = "probe", [POLE_TIMER_BACK] = "back",
};

#define EPOCHS_APART_MAX 24u        /* as EXPLORE_POLE_BEYOND says */
#define SEQ 192u                    /* a multiple of the ring's size, larger than it */
#define OLD (SEQ - POLE_BEATS_KEPT) /* of a heartbeat whose answer does not count */
_Static_assert(SEQ % POLE_BEATS_KEPT == 0, "it always has the same slot of the ring");
_Static_assert(SEQ > POLE_BEATS_KEPT, "heartbeats older than the ring have a number too");

static struct pole *pole_at(const struct explore_model *model, struct explore_world *w,
                            uint32_t node)
{
    return (struct pole *)explore_node_at(model, w, node)->core;
}

/* The new numbers of a node's latest heartbeats, by how many were sent since. */
struct numbers {
    uint64_t latest, of[POLE_BEATS_KEPT];
};

/* A heartbeat that the ring has forgotten is only known to be old. */
static uint64_t turned(uint64_t seq, const struct numbers *numbers)
{
    const uint64_t age = numbers->latest - seq;
    return age < POLE_BEATS_KEPT ? numbers->of[age] : OLD;
}

/* An answer to a heartbeat matters only by the end of that heartbeat's lease. Heartbeats whose
 * lease is over are all OLD, those whose leases end together get one number, and the others count
 * down from the latest. Only profile=auto uses the numbers themselves. */
static void number_beats(const struct pole *p, struct numbers *ret)
{
    uint64_t next = SEQ;
    int64_t last_ns = 0;
    ret->latest = p->seq;
    for (uint32_t age = 0; age < POLE_BEATS_KEPT; age++) {
        const int64_t ends_ns = p->ends_ns[(p->seq - age) % POLE_BEATS_KEPT];
        ret->of[age] = OLD;
        if (age >= p->seq) {
            continue; /* there was no such heartbeat */
        }
        if (p->tuning.is_auto) {
            ret->of[age] = SEQ - age;
        } else if (ends_ns != 0) {
            next -= last_ns != 0 && ends_ns != last_ns;
            ret->of[age] = next;
            last_ns = ends_ns;
        }
    }
}

static void turn_ring(int64_t ring_ns[POLE_BEATS_KEPT], const struct numbers *numbers)
{
    int64_t turned_ns[POLE_BEATS_KEPT] = {0};
    for (uint32_t age = 0; age < POLE_BEATS_KEPT; age++) {
        if (numbers->of[age] != OLD) {
            turned_ns[numbers->of[age] % POLE_BEATS_KEPT] =
                ring_ns[(numbers->latest - age) % POLE_BEATS_KEPT];
        }
    }
    memcpy(ring_ns, turned_ns, sizeof turned_ns);
}

static void turn_rings(struct pole *p, int64_t now_ns, struct numbers *ret_numbers)
{
    for (uint32_t i = 0; i < POLE_BEATS_KEPT; i++) {
        /* An answer to it prolongs nothing: its lease is over. */
        p->ends_ns[i] = p->ends_ns[i] <= now_ns ? 0 : p->ends_ns[i];
        /* Only profile=auto still measures with it. */
        p->sent_ns[i] = p->ends_ns[i] == 0 && !p->tuning.is_auto ? 0 : p->sent_ns[i];
    }
    number_beats(p, ret_numbers);
    turn_ring(p->sent_ns, ret_numbers);
    turn_ring(p->ends_ns, ret_numbers);
    p->seq = SEQ;
}

/* The numbers of answered heartbeats, which are kept only with profile=auto. */
static void turn_answers(struct pole *p, const struct numbers *numbers)
{
    for (cv_id id = 1; id <= p->member_count; id++) {
        struct pole_peer *peer = pole_peer(p, id);
        peer->trip_seq = peer->trip_seq != 0 ? turned(peer->trip_seq, numbers) : 0;
    }
}

/* Can a heartbeat of this node with that epoch (seq 0: any heartbeat of it) still be answered, or
 * is an answer in flight? */
static bool is_answerable(const struct explore_model *model, struct explore_world *w, uint32_t node,
                          uint64_t epoch, uint64_t seq)
{
    const uint64_t nonce = pole_at(model, w, node)->nonce;
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, w, i);
        const bool is_of_it = (m->type == POLE_HEARTBEAT && m->from == node) ||
                              (m->type == POLE_FOLLOW && m->to == node);
        if (is_of_it && m->kind == EXPLORE_PEER && m->word[1] == nonce &&
            (seq != 0 ? m->word[2] == seq : m->word[0] == epoch)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < model->node_count; i++) {
        const struct pole *p = pole_at(model, w, i);
        const struct pole_claim *claim = &p->pending_claim;
        if (explore_node_at(model, w, i)->is_up && p->pending == node + 1 &&
            claim->nonce == nonce && (seq != 0 ? claim->seq == seq : claim->epoch == epoch)) {
            return true;
        }
    }
    return false;
}

/* Forgets heartbeats and claims to which no answer will come. */
static void forget_unanswered(const struct explore_model *model, struct explore_world *w,
                              uint32_t node)
{
    struct pole *p = pole_at(model, w, node);
    for (uint64_t seq = p->seq; !p->tuning.is_auto && seq > 0 && seq + POLE_BEATS_KEPT > p->seq;
         seq--) {
        const uint32_t at = (uint32_t)(seq % POLE_BEATS_KEPT);
        if (p->ends_ns[at] != 0 && !is_answerable(model, w, node, 0, seq)) {
            p->sent_ns[at] = 0;
            p->ends_ns[at] = 0;
        }
    }
    if (p->vain_epoch != 0 && !is_answerable(model, w, node, p->vain_epoch, 0)) {
        p->vain_epoch = 0;
    }
    if (p->vain_epoch == 0 && p->role != POLE_BOUND && p->role != POLE_CLAIMING) {
        p->stood_ns = 0;
    }
}

static void forget_past(struct pole *p, int64_t now_ns)
{
    if (p->quarantine_ns <= now_ns) {
        p->quarantine_ns = 0;
    }
    for (cv_id id = 1; id <= p->member_count; id++) {
        struct pole_peer *peer = pole_peer(p, id);
        if (peer->carries_ns <= now_ns) {
            peer->carries_ns = 0;
        }
    }
    if (p->pending == CV_ID_NONE || now_ns - p->pending_ns >= p->epsilon_ns) {
        p->pending = CV_ID_NONE;
        p->pending_claim = (struct pole_claim){0};
        p->pending_ns = 0;
    }
    if (p->role != POLE_SELECTING) {
        p->retry_ns = p->round_ns; /* a new selection begins with this */
    }
    if (!p->tuning.is_auto) { /* note_slow() cuts larger values to this */
        const int64_t slow_ns = POLE_SLOW_LEASES * p->lease_ns;
        if (p->awaited != CV_ID_NONE) {
            p->awaited_ns = cv__max64(p->awaited_ns, now_ns - p->wait_ns / 2 - slow_ns);
        }
        if (p->stood_ns != 0) {
            p->stood_ns = cv__max64(p->stood_ns, now_ns - 2 * slow_ns);
        }
    }
    if (!pole_is_leading(p)) {
        p->valid_until_ns = 0;
    }
    if (p->role != POLE_BOUND && p->role != POLE_CLAIMING) {
        p->claim_until_ns = 0;
    }
    if (p->awaited == CV_ID_NONE) {
        p->awaited_ns = 0;
    }
    memset(pole_inputs(p), 0, p->member_count * sizeof *pole_inputs(p)); /* scratch */
}

static bool is_rotating(const struct pole *p)
{
    uint32_t rotating;
    const bool is_there = cv__oracle_named("rotating", strlen("rotating"), &rotating) != NULL;
    for (uint32_t i = 0; is_there && i < p->scoring.part_count; i++) {
        if (p->scoring.oracle[i] == rotating) {
            return true;
        }
    }
    return false;
}

/* Epochs, and tokens, which are epochs. If a score depends on the epoch, its size matters. */
static void canonical_epochs(const struct explore_model *model, struct explore_world *w)
{
    struct explore_tokens tokens = {.count = 0};
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct explore_node *n = explore_node_at(model, w, i);
        struct pole *p = pole_at(model, w, i);
        explore_tokens_add_records(&tokens, n, 0);
        explore_tokens_add_records(&tokens, n, 3);
        tokens.is_fixed = tokens.is_fixed || explore_tokens_may_begin(model, w, i);
        if (!n->is_up) {
            continue;
        }
        tokens.is_fixed = tokens.is_fixed || p->epoch == 0 || is_rotating(p);
        uint64_t *const place[] = {
            &p->epoch,         &p->leader_epoch,        &p->vain_epoch, &p->followed_epoch,
            &p->claimed_epoch, &p->reserved_epoch,      &p->token,      &p->token_max,
            &p->view_token,    &p->pending_claim.epoch,
        };
        for (uint32_t j = 0; j < COUNT_OF(place); j++) {
            explore_tokens_add(&tokens, place[j]);
        }
        for (cv_id id = 1; id <= p->member_count; id++) {
            explore_tokens_add(&tokens, &pole_peer(p, id)->released_epoch);
            explore_tokens_add(&tokens, &pole_peer(p, id)->vote_epoch);
        }
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        const bool is_farewell = m->kind == EXPLORE_FAREWELL;
        if (is_farewell || (m->kind == EXPLORE_PEER && m->type < POLE_PROBE)) {
            explore_tokens_add(&tokens, &m->word[0]);
        }
        if (m->kind == EXPLORE_PEER && m->type == POLE_HEARTBEAT) {
            explore_tokens_add(&tokens, &m->word[4]);
        }
    }
    explore_canonical_tokens(model, w, &tokens);
}

/* A process that is not heard by any process it hears may elect for ever, and its epoch grows ahead
 * of the others. The distance matters, because the others may reach that epoch later. */
bool explore_pole_is_beyond(const struct explore_model *model, struct explore_world *w)
{
    uint64_t least = UINT64_MAX;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < model->node_count; i++) {
        if (explore_node_at(model, w, i)->is_up) {
            least = cv__min_u64(least, pole_at(model, w, i)->epoch);
            largest = cv__max_u64(largest, pole_at(model, w, i)->epoch);
        }
    }
    return largest > least && largest - least > EPOCHS_APART_MAX;
}

void explore_canonical_pole(const struct explore_model *model, struct explore_world *w)
{
    struct numbers numbers[EXPLORE_NODES_MAX];
    uint64_t nonce[EXPLORE_NODES_MAX] = {0};
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct pole *p = pole_at(model, w, i);
        if (explore_node_at(model, w, i)->is_up) {
            forget_unanswered(model, w, i);
            nonce[i] = p->nonce;
            turn_rings(p, explore_now_ns(i), &numbers[i]);
            turn_answers(p, &numbers[i]);
            forget_past(p, explore_now_ns(i));
        }
    }
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct pole *p = pole_at(model, w, i);
        if (explore_node_at(model, w, i)->is_up && p->pending != CV_ID_NONE) {
            const uint32_t of = p->pending - 1;
            struct pole_claim *claim = &p->pending_claim;
            claim->seq = claim->nonce == nonce[of] ? turned(claim->seq, &numbers[of]) : 0;
        }
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        const bool is_beat = m->type == POLE_HEARTBEAT;
        if (is_beat || m->type == POLE_FOLLOW) { /* both begin with epoch, nonce and seq */
            const uint32_t of = is_beat ? m->from : m->to;
            m->word[2] = m->word[1] == nonce[of] ? turned(m->word[2], &numbers[of]) : 0;
        }
    }
    canonical_epochs(model, w);
    bool has_probes = false; /* their stamps combine a nonce and an instant */
    for (uint32_t i = 0; i < model->node_count; i++) {
        has_probes = has_probes || pole_at(model, w, i)->has_probes;
    }
    if (!has_probes) {
        explore_canonical_lives(model, w);
    }
}
