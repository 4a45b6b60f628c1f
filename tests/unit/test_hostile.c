/* tests/unit/test_hostile.c - a core survives whatever a peer or a store may say.
 *
 * An assertion is for our own mistakes; what others say is checked, counted and answered. So no
 * message that the codec lets through, and no answer of a store, may trip an assertion of a core,
 * whatever its numbers are and in whatever state the core is. */
#include "support/draw.h"
#include "support/host.h"
#include "support/solo.h"
#include "support/support.h"

#define NODES 5u

/* After some steps of the run, somebody sends a strange message to that node. */
static void say_something(struct host *host, uint64_t *seed)
{
    struct cv_message message;
    uint64_t word[DRAW_WORDS(NODES)];
    const cv_id to = 1 + test_random_below(seed, NODES);
    const cv_id from = to % NODES + 1;
    if (!host->node[to].is_up) {
        return;
    }
    if (host->protocol->message_count == 0) {
        struct cv_event event = {0};
        draw_answer(DRAW_ANYTHING, seed, test_random_below(seed, 64), &event);
        host_step(host, to, &event);
        return;
    }
    draw_message(host->protocol, NODES, DRAW_ANYTHING, seed, word, &message);
    host_step(host, to,
              &(struct cv_event){.kind = CV_EVENT_MESSAGE,
                                 .peer = from,
                                 .message = &message,
                                 .delay_ns_max = INT64_MAX});
}

/* Runs the protocol with strange messages and answers in between; fails with the assertion that
 * tripped. */
static void run_among_strangers(const struct cv_protocol *protocol, uint64_t seed)
{
    struct host *host = host_new(protocol, NODES, seed);
    host->loss_pct = 5;
    for (cv_id id = 1; id <= NODES; id++) {
        host_start(host, id);
    }
    const int64_t end_ns = host->now_ns + 5 * NS_PER_S;
    while (host_next(host, end_ns)) {
        if (test_random_below(&seed, 10) == 0) {
            say_something(host, &seed);
        }
        if (test_random_below(&seed, 500) == 0) {
            const cv_id node = 1 + test_random_below(&seed, NODES);
            host_crash(host, node);
            host_start(host, node);
        }
    }
    host_free(host);
}

static void no_message_of_a_peer_trips_an_assertion(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        for (uint64_t seed = 1; seed <= test_scale(100); seed++) {
            run_among_strangers(protocol, seed);
        }
    }
}

/* A word of a record that belongs to another group, or that somebody has changed. */
static uint64_t strange_word(uint64_t *seed)
{
    static const uint64_t words[] = {
        0, 1, NODES, NODES + 1, UINT32_MAX, UINT64_C(1) << 62, INT64_MAX, UINT64_MAX};
    const uint32_t which = test_random_below(seed, COUNT_OF(words) + 1);
    return which < COUNT_OF(words) ? words[which] : test_random(seed);
}

static void no_saved_record_trips_an_assertion(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol;
    uint64_t seed = 1;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        for (uint32_t turn = 0; turn < test_scale(100) + 20; turn++) {
            struct solo *s = solo_new(protocol->name, 1, NODES, "");
            s->persisted_count = turn % (CV_PERSIST_WORDS_MAX + 1);
            for (uint32_t k = 0; k < s->persisted_count; k++) {
                s->persisted[k] = strange_word(&seed);
            }
            solo_restart(s);
            solo_wait_until(s, s->now_ns + 2 * NS_PER_S);
            solo_free(s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_message_of_a_peer_trips_an_assertion),
        cmocka_unit_test(no_saved_record_trips_an_assertion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
