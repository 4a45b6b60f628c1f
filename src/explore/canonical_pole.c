/* src/explore/canonical_pole.c - numbers of heartbeats, and times that are over; see canonical.h.
 *
 * Heartbeats are numbered without end, and the send times of the latest are kept in a ring. The
 * latest that an answer counts for is always SEQ here; those before count down, and the ring turns
 * along. */
#include "explore/canonical.h"
#include "protocols/pole.h"

#include <string.h>

#define EPOCHS_APART_MAX 24u        /* as EXPLORE_POLE_BEYOND says */
#define SEQ 192u                    /* a multiple of the ring's size, larger than it */
#define OLD (SEQ - POLE_BEATS_KEPT) /* of one whose answer counts for nothing */
_Static_assert(SEQ % POLE_BEATS_KEPT == 0, "the ring has a fixed place for it");
_Static_assert(SEQ > POLE_BEATS_KEPT, "what is older than the ring has a number too");

static struct pole *pole_at(const struct explore_model *model, struct explore_world *w,
                            uint32_t node)
{
    return (struct pole *)explore_node_at(model, w, node)->core;
}

/* What the numbers of a node's latest heartbeats become, by how many were sent since. */
struct numbers {
    uint64_t latest, of[POLE_BEATS_KEPT];
};

/* Of heartbeats that the ring has forgotten it is only known that they are old. */
static uint64_t turned(uint64_t seq, const struct numbers *numbers)
{
    const uint64_t age = numbers->latest - seq;
    return age < POLE_BEATS_KEPT ? numbers->of[age] : OLD;
}

/* An answer to a heartbeat counts by when that lease ends, and by nothing else: those that are over
 * are as old as any, those that end at once are one, and the others are counted from the latest.
 * Only profile=auto looks at the numbers. */
static void number_beats(const struct pole *p, struct numbers *ret)
{
    uint64_t next = SEQ;
    int64_t last_ns = 0;
    ret->latest = p->seq;
    for (uint32_t age = 0; age < POLE_BEATS_KEPT; age++) {
        const int64_t ends_ns = p->ends_ns[(p->seq - age) % POLE_BEATS_KEPT];
        ret->of[age] = OLD;
        if (age >= p->seq) {
            continue; /* there was none */
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
        /* Whoever follows it now prolongs nothing: the lease that was in it has passed since. */
        p->ends_ns[i] = p->ends_ns[i] <= now_ns ? 0 : p->ends_ns[i];
        /* Only profile=auto measures by it, also when it is too late to count. */
        p->sent_ns[i] = p->ends_ns[i] == 0 && !p->tuning.is_auto ? 0 : p->sent_ns[i];
    }
    number_beats(p, ret_numbers);
    turn_ring(p->sent_ns, ret_numbers);
    turn_ring(p->ends_ns, ret_numbers);
    p->seq = SEQ;
}

/* Numbers of heartbeats that were answered; they are kept with profile=auto only. */
static void turn_answers(struct pole *p, const struct numbers *numbers)
{
    for (cv_id id = 1; id <= p->member_count; id++) {
        struct pole_peer *peer = pole_peer(p, id);
        peer->trip_seq = peer->trip_seq != 0 ? turned(peer->trip_seq, numbers) : 0;
    }
}

/* Can somebody still answer a heartbeat of this node with that epoch (seq 0: any of it), or has
 * somebody? */
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

/* What is remembered of heartbeats and claims for their answers, of which none will come. */
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
    p->established_ns = 0; /* nobody reads it */
    if (p->role != POLE_SELECTING) {
        p->retry_ns = p->round_ns; /* a new selection begins with this */
    }
    if (!p->tuning.is_auto) { /* note_slow(): what was later than this counts as this */
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

/* Epochs, and tokens, which are epochs. An epoch that a score is made from is looked at. */
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

/* A process that hears nobody who hears it may elect without end, and its epoch runs away from
 * those of the others. How far it is ahead does matter: so many elections later they have reached
 * it. */
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
        if (is_beat || m->type == POLE_FOLLOW) { /* epoch, nonce and seq come first in both */
            const uint32_t of = is_beat ? m->from : m->to;
            m->word[2] = m->word[1] == nonce[of] ? turned(m->word[2], &numbers[of]) : 0;
        }
    }
    canonical_epochs(model, w);
    bool has_probes = false; /* whose stamps are nonces and instants in one */
    for (uint32_t i = 0; i < model->node_count; i++) {
        has_probes = has_probes || pole_at(model, w, i)->has_probes;
    }
    if (!has_probes) {
        explore_canonical_lives(model, w);
    }
}
