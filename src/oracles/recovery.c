/* src/oracles/recovery.c - how long until a quorum is in sync under this leader [ours].
 *
 * The paper leaves this open (sec. 4.4, sec. 7): the longest history alone is not best when the
 * leader has to bring others up to date over a slow link (fig. 8b). The score estimates the work of
 * a new leader (sec. 2.3): it asks everybody, and knows enough when a quorum has answered; it
 * fetches the updates it lacks from the nearest peer that has them all; then it sends each follower
 * the updates which that one lacks, and may serve when a quorum, itself included, has everything. A
 * transfer takes one round trip, and the bytes divided by the bandwidth. The bandwidth is what a
 * window allows on that round trip, limited by that of the line (fig. 3). All three parts are
 * needed: without the asking, a leader far from a quorum scored as well as one near it, and in one
 * random network of twenty it was worse than the leader by longest history. */
#include "oracles/oracle.h"

#define NEVER_NS CV_SCORE_MAX

static int64_t transfer_ns(const struct cv_oracle_view *view, uint64_t entries, int64_t rtt_ns)
{
    CV_ASSERT(rtt_ns >= 0); /* nothing is sent to a suspected member */
    if (entries == 0) {
        return rtt_ns; /* to find that nothing is missing */
    }
    const __int128 bytes = (__int128)entries * view->history_unit_bytes;
    __int128 bandwidth = view->bandwidth_bytes;
    if (rtt_ns > 0) {
        const __int128 by_window = (__int128)view->window_bytes * NS_PER_S / rtt_ns;
        bandwidth = by_window < bandwidth ? by_window : bandwidth;
    }
    bandwidth = bandwidth > 0 ? bandwidth : 1;
    const __int128 ns = rtt_ns + bytes * NS_PER_S / bandwidth;
    CV_ASSERT(ns >= rtt_ns);
    return ns < NEVER_NS ? (int64_t)ns : NEVER_NS;
}

static uint64_t longest_history(const struct cv_oracle_view *view)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct cv_oracle_peer *peer = &view->peer[i];
        longest = peer->rtt_ns >= 0 && peer->history > longest ? peer->history : longest;
    }
    CV_ASSERT(longest >= view->peer[view->self - 1].history); /* its own history counts too */
    return longest;
}

/* When the synchronisation of followers begins, and the history length they get. */
struct sync {
    const struct cv_oracle_view *view;
    int64_t ready_ns;
    uint64_t longest;
};

/* When that member has everything: it gets the missing updates after it has answered. */
static int64_t synced_ns(const void *context, cv_id id)
{
    const struct sync *sync = context;
    CV_ASSERT(id >= 1);
    CV_ASSERT(id <= sync->view->member_count);
    const struct cv_oracle_peer *peer = &sync->view->peer[id - 1];
    if (peer->rtt_ns < 0) {
        return CV_SCORE_UNKNOWN;
    }
    if (id == sync->view->self) {
        return sync->ready_ns;
    }
    CV_ASSERT(peer->history <= sync->longest); /* the longest of all living members */
    const int64_t from_ns = cv__max64(sync->ready_ns, peer->rtt_ns);
    const int64_t ns = transfer_ns(sync->view, sync->longest - peer->history, peer->rtt_ns);
    return cv__min64(cv__min64(from_ns, NEVER_NS) + ns, NEVER_NS);
}

/* From the nearest peer that has everything; this process does not. */
static int64_t fetch_ns(const struct cv_oracle_view *view, uint64_t longest)
{
    CV_ASSERT(view->peer[view->self - 1].history <= longest);
    const uint64_t missing = longest - view->peer[view->self - 1].history;
    int64_t least_ns = NEVER_NS;
    if (missing == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct cv_oracle_peer *peer = &view->peer[i];
        if (peer->rtt_ns >= 0 && peer->history == longest) {
            least_ns = cv__min64(least_ns, transfer_ns(view, missing, peer->rtt_ns));
        }
    }
    CV_ASSERT(least_ns >= 0);
    return least_ns;
}

static int64_t recovery_score(const struct cv_oracle_view *view)
{
    const int64_t asked_ns = cv__oracle_consensus_ns(view);
    if (asked_ns == CV_SCORE_UNKNOWN) {
        return CV_SCORE_UNKNOWN;
    }
    CV_ASSERT(asked_ns >= 0);
    struct sync sync = {.view = view, .longest = longest_history(view)};
    sync.ready_ns = cv__min64(asked_ns + fetch_ns(view, sync.longest), NEVER_NS);
    CV_ASSERT(sync.ready_ns >= asked_ns);
    return cv__oracle_nth(view->member_count, view->member_count / 2 + 1, synced_ns, &sync);
}

const struct cv_oracle cv__oracle_recovery = {
    .name = "recovery",
    .formula = "time to ask a quorum + to fetch what we miss + until a quorum has what it "
               "misses; lower wins",
    .inputs =
        "round trips, measured; report history-length; options history-unit, window, bandwidth",
    .use = "the service must be back soon after a crash, also across data centres",
    .order = CV_SCORE_LOWER_WINS,
    .is_time = true,
    .needs_peers = true,
    .score = recovery_score,
};
