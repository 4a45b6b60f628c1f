/* tests/property/prop_pole_scores.c - [Becker11, sec. 3.3 and 5]: with resignation on, `pole` ends
 * with a leader that no other beats by the margin.
 *
 * docs/adr/0034 says why this is a test and not a property of every run: it holds only where scores
 * are known and do not change. Here each process reports numbers of its own, which change while
 * faults of every kind happen; from 3.5 s on there are neither changes nor faults. The oracle is
 * the list of the last reports. */
#include "support/cluster.h"
#include "support/support.h"

#include <stdio.h>

#define RUNS 160u /* `make test` runs a quarter of them */
#define NODES_MAX 7u
#define QUIET_MS 3500
/* By then a leader was elected, has seen for 200 ms that another beats it, its lease of 50 ms has
 * ended and its heir leads; and all that once more, if the first heir stood back. */
#define SETTLED_MS 6500

struct electorate {
    uint32_t nodes;
    uint32_t margin_percent;
    uint32_t score[NODES_MAX + 1];
};

static struct cluster *start(struct electorate *e, uint64_t seed)
{
    static const uint32_t margins[] = {1, 20, 100};
    uint64_t random = seed;
    char reports[4000];
    size_t bytes = 0;
    e->nodes = 3 + test_random_below(&random, NODES_MAX - 2);
    e->margin_percent = margins[test_random_below(&random, COUNT_OF(margins))];
    for (uint32_t round = 0; round < 4; round++) {
        for (cv_id id = 1; id <= e->nodes; id++) {
            const uint32_t at_ms =
                round == 3 ? QUIET_MS : 100 + 1000 * round + test_random_below(&random, 900);
            e->score[id] = 100 + test_random_below(&random, 300);
            bytes += (size_t)snprintf(reports + bytes, sizeof reports - bytes,
                                      "at %ums report %u score %u\n", at_ms, id, e->score[id]);
            assert_true(bytes < sizeof reports);
        }
    }
    return cluster_start(
        "protocol pole oracle=reported resign-margin=%u resign-hold=200ms probe=50ms\nnodes %u\n"
        "seed %llu\nlink * delay 0.3ms jitter 60%%\nclock * drift random 100ppm\n%s"
        "random faults rate 8/s kinds crash,reboot,pause,partition,link,oneway,loss,slow,duplicate,"
        "reorder,resign until 3s lasting 5ms..300ms\nrun %us\n",
        e->margin_percent, e->nodes, (unsigned long long)seed, reports, SETTLED_MS / 1000 + 1);
}

static void nobody_beats_the_leader_by_the_margin_when_scores_stay(void **unused)
{
    (void)unused;
    uint32_t best = 0;
    const uint32_t runs = (uint32_t)test_scale(RUNS);
    for (uint64_t seed = 1; seed <= runs; seed++) {
        struct electorate e;
        struct cluster *c = start(&e, seed);
        cluster_run_until(c, SETTLED_MS);
        const cv_id leader = cluster_leader(c);
        if (leader == CV_ID_NONE) {
            fail_msg("seed %llu: nobody leads", (unsigned long long)seed);
        }
        bool is_best = true;
        for (cv_id id = 1; id <= e.nodes; id++) {
            const uint32_t beats = e.score[leader] * (100 + e.margin_percent);
            if (id != leader && e.score[id] * 100 >= beats && e.score[id] > e.score[leader]) {
                fail_msg("seed %llu: %u leads with score %u, and %u has %u (margin %u %%)",
                         (unsigned long long)seed, leader, e.score[leader], id, e.score[id],
                         e.margin_percent);
            }
            is_best = is_best && e.score[id] <= e.score[leader];
        }
        best += is_best;
        cluster_end(c);
    }
    assert_true(2 * best > runs); /* the margins are small: most often the best of all leads */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_beats_the_leader_by_the_margin_when_scores_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
