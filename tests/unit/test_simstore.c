/* tests/unit/test_simstore.c - the simulated store keeps a store's four promises; and its lines in
 * scenarios. */
#include "scenario/scenario.h"
#include "sim/network.h"
#include "sim/store.h"
#include "support/scenarios.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

/* ---- the store ------------------------------------------------------------------------------- */

static struct cv_model_answer ask(struct sim_store *s, enum cv_store_verb verb, uint64_t label,
                                  uint64_t attempt, int64_t now_ns)
{
    const struct cv_model_query query = {verb, label, attempt, NS_PER_S};
    struct cv_model_answer answer;
    (void)sim_store_serve(s, &query, now_ns, &answer);
    return answer;
}

static void is_exclusive_until_the_end_of_the_lease(void **unused)
{
    (void)unused;
    struct sim_store s;
    sim_store_init(&s);
    assert_int_equal(ask(&s, CV_STORE_READ, 7, 1, 0).verdict, CV_STORE_FREE);
    const struct cv_model_answer won = ask(&s, CV_STORE_ACQUIRE, 7, 1, 0);
    assert_int_equal(won.verdict, CV_STORE_GRANTED);
    assert_int_equal(won.duration_ns, NS_PER_S);
    const struct cv_model_answer held = ask(&s, CV_STORE_ACQUIRE, 8, 1, NS_PER_S / 4);
    assert_int_equal(held.verdict, CV_STORE_HELD);
    assert_int_equal(held.holder, 7);
    assert_int_equal(held.token, won.token);
    assert_int_equal(held.duration_ns, NS_PER_S - NS_PER_S / 4);
    assert_int_equal(ask(&s, CV_STORE_ACQUIRE, 7, 2, NS_PER_S / 4).verdict, CV_STORE_HELD);
    assert_int_equal(ask(&s, CV_STORE_ACQUIRE, 8, 1, NS_PER_S - 1).verdict, CV_STORE_HELD);
    const struct cv_model_answer next = ask(&s, CV_STORE_ACQUIRE, 8, 1, NS_PER_S);
    assert_int_equal(next.verdict, CV_STORE_GRANTED);
    assert_true(next.token > won.token);
    assert_int_equal(ask(&s, CV_STORE_RENEW, 7, 1, NS_PER_S).verdict, CV_STORE_HELD);
}

static void the_same_attempt_is_the_same_grant(void **unused)
{
    (void)unused;
    struct sim_store s;
    sim_store_init(&s);
    const uint64_t token = ask(&s, CV_STORE_ACQUIRE, 7, 1, 0).token;
    const struct cv_model_answer again = ask(&s, CV_STORE_ACQUIRE, 7, 1, NS_PER_S / 2);
    assert_int_equal(again.verdict, CV_STORE_GRANTED);
    assert_int_equal(again.token, token);
    assert_int_equal(s.grant_count, 1);
    assert_int_equal(sim_store_end_ns(&s), NS_PER_S + NS_PER_S / 2);
}

static void a_release_is_for_the_holder_only_and_notifies(void **unused)
{
    (void)unused;
    struct sim_store s;
    struct cv_model_answer answer;
    sim_store_init(&s);
    (void)ask(&s, CV_STORE_ACQUIRE, 7, 2, 0);
    const struct cv_model_query wrong[] = {{CV_STORE_RELEASE, 8, 2, 0},
                                           {CV_STORE_RELEASE, 7, 1, 0}};
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_false(sim_store_serve(&s, &wrong[i], 1, &answer));
        assert_int_equal(answer.verdict, CV_STORE_HELD);
    }
    const struct cv_model_query right = {CV_STORE_RELEASE, 7, 2, 0};
    assert_true(sim_store_serve(&s, &right, 1, &answer));
    assert_int_equal(answer.verdict, CV_STORE_FREE);
    assert_false(sim_store_serve(&s, &right, 2, &answer)); /* a second release is not an error */
    assert_int_equal(answer.verdict, CV_STORE_FREE);
    assert_int_equal(ask(&s, CV_STORE_RENEW, 7, 2, 3).verdict, CV_STORE_FREE);
}

/* A clock that is too fast ends a lease early in real time, by exactly its drift. */
static void its_own_clock_decides(void **unused)
{
    (void)unused;
    struct sim_store s;
    struct sim_rng rng;
    sim_rng_init(&rng, 1, 1);
    sim_store_init(&s);
    const struct sim_store_change fast = {.mask = SIM_STORE_DRIFT, .drift.ppb = 50000000};
    sim_store_change(&s, &rng, 0, &fast, false);
    (void)ask(&s, CV_STORE_ACQUIRE, 7, 1, 0);
    const int64_t end_ns = sim_store_end_ns(&s);
    assert_in_range(end_ns, 952380000, 952381000);
    assert_false(sim_store_expire(&s, end_ns - 2));
    assert_true(sim_store_expire(&s, end_ns));
    assert_int_equal(sim_store_end_ns(&s), INT64_MAX);
}

/* T27 */
static void a_restart_keeps_the_record_and_may_extend_it(void **unused)
{
    (void)unused;
    struct sim_store s;
    struct sim_rng rng;
    sim_rng_init(&rng, 1, 1);
    sim_store_init(&s);
    (void)ask(&s, CV_STORE_ACQUIRE, 7, 1, 0);
    struct sim_store_change restart = {.verb = SIM_STORE_RESTART};
    sim_store_change(&s, &rng, NS_PER_S / 2, &restart, false);
    assert_int_equal(sim_store_end_ns(&s), NS_PER_S);
    restart.extends = true;
    sim_store_change(&s, &rng, NS_PER_S / 2, &restart, false);
    assert_int_equal(sim_store_end_ns(&s), NS_PER_S + NS_PER_S / 2);
    assert_int_equal(s.boot, 2);
    sim_store_change(&s, &rng, 5 * NS_PER_S, &restart, false); /* too late to extend */
    assert_int_equal(sim_store_end_ns(&s), INT64_MAX);
}

static void each_way_has_its_own_delays_and_losses(void **unused)
{
    (void)unused;
    struct sim_store s;
    struct sim_rng rng;
    int64_t at_ns;
    sim_rng_init(&rng, 1, 1);
    sim_store_init(&s);
    assert_true(sim_store_travel(&s, &rng, SIM_STORE_QUERY, 0, &at_ns));
    assert_int_equal(at_ns, NS_PER_MS);
    const struct sim_store_change trouble = {
        .mask = SIM_STORE_ANSWER_DELAY | SIM_STORE_QUERY_LOSS,
        .trouble = {.answer_delay_ns = 7 * NS_PER_MS, .query_loss_ppb = SIM_PPB_ONE},
    };
    sim_store_change(&s, &rng, 0, &trouble, /* for_a_while= */ true);
    assert_false(sim_store_travel(&s, &rng, SIM_STORE_QUERY, 0, &at_ns));
    assert_true(sim_store_travel(&s, &rng, SIM_STORE_ANSWER, 0, &at_ns));
    assert_int_equal(at_ns, 8 * NS_PER_MS);
    sim_store_restore(&s, SIM_STORE_SET);
    assert_true(sim_store_travel(&s, &rng, SIM_STORE_QUERY, 0, &at_ns));
    assert_int_equal(s.lost_query_count, 1);
}

/* ---- scenarios ------------------------------------------------------------------------------- */

static void lines_read_back_as_they_are_written(void **unused)
{
    (void)unused;
    const char *const lines[][2] = {
        {"at 1s store restart", NULL},
        {"at 1s store restart extend", NULL},
        {"at 1s store down", NULL},
        {"at 1s store down for 2s", NULL},
        {"at 1s store up", NULL},
        {"at 1s store cut 3 for 2s", NULL},
        {"at 1s store cut leader", NULL},
        {"at 1s store mend 3", NULL},
        {"at 1s store delay 2ms jitter 1ms", NULL},
        {"at 1s store query-delay 2ms answer-delay 1s for 300ms", NULL},
        {"at 1s store query-loss 5% answer-loss 7% notification-loss 100% for 300ms", NULL},
        {"at 1s store loss=5%", "at 1s store query-loss 5% answer-loss 5%"},
        {"store drift -80ppm", NULL},
        {"store drift random 80ppm", NULL},
        {"store cut 2", NULL},
    };
    for (uint32_t i = 0; i < COUNT_OF(lines); i++) {
        const char *written = lines[i][1] != NULL ? lines[i][1] : lines[i][0];
        assert_action_written("lease", lines[i][0], written);
    }
}

static void mistakes_are_pointed_at(void **unused)
{
    (void)unused;
    const struct {
        const char *protocol, *line, *says;
    } wrong[] = {
        {"bully", "store delay 2ms", "protocol 'bully' does not use a store"},
        {"bully", "random faults rate 1/s kinds store", "protocol 'bully' does not use a store"},
        {"lease", "store", "write what to change about the store"},
        {"lease", "store dealy 2ms", "did you mean 'delay'?"},
        {"lease", "store delay 2", "no unit"},
        {"lease", "store delay 2ms delay 3ms", "same attribute twice"},
        {"lease", "store loss 5% query-loss 1%", "same attribute twice"},
        {"lease", "store drift fast", "written like 80ppm"},
        {"lease", "store drift random -3ppm", "not negative"},
        {"lease", "store cut leader", "not a whole number"},
        {"lease", "at 1s store cut", "node is missing"},
        {"lease", "at 1s store cut 7", "nodes are 1..6"},
        {"lease", "at 1s store restart for 1s",
         "'for' is only for 'down', 'cut', losses, query-delay"},
        {"lease", "at 1s store delay 2ms for 1s",
         "'for' is only for 'down', 'cut', losses, query-delay"},
        {"lease", "at 1s store restart now", "nothing is expected after this"},
        {"lease", "random faults rate 1/s kinds stroe", "did you mean 'store'?"},
        {"lease renew=4.5s", "", "lease (1 - 2 rho) > max(renew, timeout) + timeout + retry"},
    };
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_line_refused(wrong[i].protocol, wrong[i].line, wrong[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_exclusive_until_the_end_of_the_lease),
        cmocka_unit_test(the_same_attempt_is_the_same_grant),
        cmocka_unit_test(a_release_is_for_the_holder_only_and_notifies),
        cmocka_unit_test(its_own_clock_decides),
        cmocka_unit_test(a_restart_keeps_the_record_and_may_extend_it),
        cmocka_unit_test(each_way_has_its_own_delays_and_losses),
        cmocka_unit_test(lines_read_back_as_they_are_written),
        cmocka_unit_test(mistakes_are_pointed_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
