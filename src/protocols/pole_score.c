/* src/protocols/pole_score.c - the inputs of scores: measuring and exchanging them, asking the
 * oracle; and resigning in favour of a better process [Becker11, sec. 3.3 and 5].
 *
 * The core measures round trips itself, on its own clock: every process sends PROBE to all each
 * period, ECHO returns the stamp. So no host needs code for this, the same code measures simulated
 * and real networks, and a replay of the events replays the scores. PROBE and ECHO carry the
 * sender's request rate and history length, so that RTT_i and F_i are two columns of one table
 * here; a member that does not answer for three periods leaves it. Nothing is sent if neither the
 * score nor resignation needs it. */
#include "protocols/pole.h"

#include <string.h>

#define PROBES_MISSED_MAX 3
#define RTT_UNKNOWN (-1)
#define RTT_WEIGHT 8 /* a new sample moves the mean by one eighth */

/* A member that has not answered for so long counts as absent. */
static int64_t patience_ns(const struct pole *p)
{
    CV_ASSERT(p->probe_ns > 0);
    CV_ASSERT(p->delta_ns > 0);
    return PROBES_MISSED_MAX * p->probe_ns + 2 * p->delta_ns;
}

static bool is_fresh(const struct pole *p, const struct pole_peer *peer, int64_t now_ns)
{
    CV_ASSERT(peer->echoed_ns <= now_ns);
    return peer->echoed_ns != 0 && now_ns - peer->echoed_ns <= patience_ns(p);
}

static void fill_inputs(struct pole *p, int64_t now_ns)
{
    struct cv_oracle_peer *input = pole_inputs(p);
    for (cv_id id = 1; id <= p->member_count; id++) {
        const struct pole_peer *peer = pole_peer(p, id);
        const bool counts = is_fresh(p, peer, now_ns) && id != p->suspect;
        input[id - 1] = (struct cv_oracle_peer){.rtt_ns = counts ? peer->rtt_ns : RTT_UNKNOWN,
                                                .rate = peer->rate,
                                                .history = peer->history};
    }
    input[p->self - 1] =
        (struct cv_oracle_peer){.rtt_ns = 0, .rate = p->rate, .history = p->history};
}

void cv__pole_get_score(struct pole *p, uint64_t epoch, int64_t now_ns, struct cv_score *ret_score)
{
    CV_ASSERT(epoch <= POLE_EPOCH_MAX * 2);
    CV_ASSERT(p->suspect != p->self);
    fill_inputs(p, now_ns);
    const struct cv_oracle_view view = {
        .epoch = epoch,
        .peer = pole_inputs(p),
        .self = p->self,
        .member_count = p->member_count,
        .preference = p->preference,
        .capacity = p->capacity,
        .load = p->load,
        .reported = p->reported,
        .history_unit_bytes = p->history_unit_bytes,
        .window_bytes = p->window_bytes,
        .bandwidth_bytes = p->bandwidth_bytes,
    };
    cv__scoring_score(&p->scoring, &view, ret_score);
    memset(pole_inputs(p), 0, p->member_count * sizeof(struct cv_oracle_peer)); /* only scratch */
}

/* The data of all members, not only of a quorum: near members answer first, and a score from these
 * alone is too good. Members that do not answer are waited for at most `first-wait`. */
bool cv__pole_has_data(struct pole *p, int64_t now_ns)
{
    uint32_t known = 1;
    for (cv_id id = 1; id <= p->member_count; id++) {
        known += id != p->self && is_fresh(p, pole_peer(p, id), now_ns);
    }
    CV_ASSERT(known <= p->member_count);
    return !p->needs_peers || known == p->member_count;
}

/* ---- Resignation ----------------------------------------------------------------------------- */

/* A follower that has been better by the margin for the whole hold becomes the heir. The leadership
 * is not cut short, because the host was not asked to stop the work: it is not renewed any more,
 * and the heir is named when its time is over. */
static void consider_resigning(struct pole *p, int64_t now_ns)
{
    CV_ASSERT(p->role == POLE_LEADING);
    CV_ASSERT(p->suspect == CV_ID_NONE); /* scores before a resignation count all members */
    struct cv_score own;
    cv__pole_get_score(p, p->leader_epoch, now_ns, &own);
    const struct cv_score *best = NULL;
    for (cv_id id = 1; id <= p->member_count; id++) {
        struct pole_peer *peer = pole_peer(p, id);
        const bool is_better =
            id != p->self && peer->has_score && is_fresh(p, peer, now_ns) &&
            now_ns < peer->carries_ns &&
            cv__scoring_is_better_by(&p->scoring, &peer->score, &own, p->resign_margin);
        if (!is_better) {
            peer->better_since_ns = 0;
            continue;
        }
        peer->better_since_ns = peer->better_since_ns != 0 ? peer->better_since_ns : now_ns;
        const bool is_better_than_best =
            best == NULL || cv__scoring_compare(&p->scoring, &peer->score, best) > 0;
        if (now_ns - peer->better_since_ns >= p->resign_hold_ns && is_better_than_best) {
            best = &peer->score;
            p->heir = id;
        }
    }
    if (best != NULL) {
        CV_ASSERT(p->heir != CV_ID_NONE);
        CV_ASSERT(p->heir != p->self);
        cv__pole_become(p, POLE_LEAVING, p->self);
    }
}

/* ---- Probes ---------------------------------------------------------------------------------- */

void cv__pole_on_probe_time(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(p->has_probes);
    if (p->role == POLE_LEADING && p->resign_margin > 0) {
        consider_resigning(p, now_ns);
    }
    struct cv_score score;
    cv__pole_get_score(p, p->epoch, now_ns, &score);
    p->probed_ns = now_ns;
    p->first_probed_ns = p->first_probed_ns != 0 ? p->first_probed_ns : now_ns;
    const struct pole_probe probe = {.stamp = (uint64_t)now_ns ^ p->nonce,
                                     .rate = p->rate,
                                     .history = p->history,
                                     POLE_SCORE_INIT(score)};
    pole_probe_write(cv__effect_send_all(out, POLE_PROBE), probe);
    /* Frequent until the first scores are known; then at random, so that members do not probe
     * together. */
    const int64_t period_ns = p->is_ready ? p->probe_ns : cv__min64(p->probe_ns, p->eta_ns);
    pole_arm(p, POLE_TIMER_PROBE, now_ns + period_ns - period_ns / 8, now_ns + period_ns, out);
}

void cv__pole_on_probe(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const struct pole_probe probe = pole_probe_read(event->message);
    CV_ASSERT(event->peer != p->self);
    struct pole_peer *peer = pole_peer(p, event->peer);
    peer->has_score = POLE_SCORE_READ(probe, &peer->score);
    if (!peer->has_score) {
        cv__effect_note(out, "score in PROBE of {peer} ignored: it is out of range", event->peer, 0,
                        0);
    }
    peer->rate = probe.rate;
    peer->history = probe.history;
    pole_echo_write(
        cv__effect_send(out, event->peer, POLE_ECHO),
        (struct pole_echo){.stamp = probe.stamp, .rate = p->rate, .history = p->history});
}

/* The echo of any probe of this life counts once, unless a later probe was answered before: a round
 * trip may be longer than the period. An echo that comes after the patience is over does not count:
 * it would measure queues in the network. */
static bool is_measure(const struct pole *p, const struct pole_peer *peer, uint64_t stamp,
                       int64_t now_ns)
{
    CV_ASSERT(p->first_probed_ns <= p->probed_ns);
    CV_ASSERT(p->probed_ns <= now_ns);
    if (stamp < (uint64_t)p->first_probed_ns || stamp > (uint64_t)p->probed_ns) {
        return false; /* not ours; before the first probe both are 0, and so is peer->stamp_ns */
    }
    return (int64_t)stamp > peer->stamp_ns && now_ns - (int64_t)stamp <= patience_ns(p);
}

void cv__pole_on_echo(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const struct pole_echo echo = pole_echo_read(event->message);
    struct pole_peer *peer = pole_peer(p, event->peer);
    peer->rate = echo.rate;
    peer->history = echo.history;
    /* for an echo of another life: not one of our instants */
    const uint64_t stamp = echo.stamp ^ p->nonce;
    if (!is_measure(p, peer, stamp, event->now_ns)) {
        cv__effect_note(out, "ECHO of {peer} measures nothing: late, repeated or not ours",
                        event->peer, 0, echo.stamp);
        return;
    }
    const int64_t rtt_ns = event->now_ns - (int64_t)stamp;
    CV_ASSERT(rtt_ns >= 0);
    peer->rtt_ns = is_fresh(p, peer, event->now_ns)
                       ? peer->rtt_ns + (rtt_ns - peer->rtt_ns) / RTT_WEIGHT
                       : rtt_ns;
    peer->stamp_ns = (int64_t)stamp;
    peer->echoed_ns = event->now_ns;
}

void cv__pole_on_report(struct pole *p, const struct cv_event *event)
{
    CV_ASSERT(event->kind == CV_EVENT_REPORT);
    CV_ASSERT(event->input < CV_INPUT_COUNT);
    const uint64_t value = event->value > 0 ? (uint64_t)event->value : 0;
    switch (event->input) {
    case CV_INPUT_HISTORY_LENGTH:
        p->history = value;
        break;
    case CV_INPUT_REQUEST_RATE:
        p->rate = value;
        break;
    case CV_INPUT_CAPACITY:
        p->capacity = value;
        break;
    case CV_INPUT_LOAD:
        p->load = value;
        break;
    case CV_INPUT_SCORE:
        p->reported = value;
        break;
    case CV_INPUT_COUNT:
        CV_ASSERT(!"an input of no kind");
    }
}
