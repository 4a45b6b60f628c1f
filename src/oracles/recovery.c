/* src/oracles/recovery.c - how long until a quorum is in sync under this leader [ours].
 *
 * The paper leaves it open (sec. 4.4, sec. 7): the longest history alone is not best when somebody
 * has to bring others up to date over a slow link, fig. 8b. The new leader first fetches what it
 * misses from the best peer that has it, then sends each follower what that one misses; it may
 * serve when a quorum, itself included, has everything. A transfer takes one round trip and the
 * bytes over the bandwidth, which is what a window allows on that round trip, up to the line's
 * (fig. 3). */
#include "oracles/oracle.h"

#define NEVER_NS CV_SCORE_MAX

static int64_t transfer_ns(const struct cv_oracle_view *view, uint64_t entries, int64_t rtt_ns)
{
    if (entries == 0) {
        return rtt_ns; /* to learn that nothing is missing */
    }
    const __int128 bytes = (__int128)entries * view->history_unit_bytes;
    __int128 bandwidth = view->bandwidth_bytes;
    if (rtt_ns > 0) {
        const __int128 by_window = (__int128)view->window_bytes * NS_PER_S / rtt_ns;
        bandwidth = by_window < bandwidth ? by_window : bandwidth;
    }
    bandwidth = bandwidth > 0 ? bandwidth : 1;
    const __int128 ns = rtt_ns + bytes * NS_PER_S / bandwidth;
    return ns < NEVER_NS ? (int64_t)ns : NEVER_NS;
}

static uint64_t longest_history(const struct cv_oracle_view *view)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct cv_oracle_peer *peer = &view->peer[i];
        longest = peer->rtt_ns >= 0 && peer->history > longest ? peer->history : longest;
    }
    return longest;
}

static int64_t sync_ns(const struct cv_oracle_view *view, cv_id id)
{
    const struct cv_oracle_peer *peer = &view->peer[id - 1];
    if (peer->rtt_ns < 0) {
        return CV_SCORE_UNKNOWN;
    }
    return id == view->self
               ? 0
               : transfer_ns(view, longest_history(view) - peer->history, peer->rtt_ns);
}

static int64_t recovery_score(const struct cv_oracle_view *view)
{
    const uint64_t longest = longest_history(view);
    const uint64_t missing = longest - view->peer[view->self - 1].history;
    int64_t fetch_ns = missing > 0 ? NEVER_NS : 0;
    for (uint32_t i = 0; i < view->member_count && missing > 0; i++) {
        const struct cv_oracle_peer *peer = &view->peer[i];
        if (peer->rtt_ns >= 0 && peer->history == longest) {
            fetch_ns = cv__min64(fetch_ns, transfer_ns(view, missing, peer->rtt_ns));
        }
    }
    const int64_t quorum_ns = cv__oracle_nth(view, view->member_count / 2 + 1, sync_ns);
    return quorum_ns == CV_SCORE_UNKNOWN ? CV_SCORE_UNKNOWN
                                         : cv__min64(fetch_ns + quorum_ns, CV_SCORE_MAX);
}

const struct cv_oracle cv__oracle_recovery = {
    .name = "recovery",
    .formula = "time to fetch what we miss + until a quorum has what it misses; lower wins",
    .inputs =
        "round trips, measured; report history-length; options history-unit, window, bandwidth",
    .use = "the service must be back soon after a crash, also across data centres",
    .order = CV_SCORE_LOWER_WINS,
    .is_time = true,
    .needs_peers = true,
    .score = recovery_score,
};
