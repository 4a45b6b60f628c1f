/* tests/unit/test_worker.c - a thread that does one piece of work after the other. */
#include "os/worker.h"
#include "support/support.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define WORKS 5

struct scene {
    struct cv_worker *worker;
    struct one {
        struct scene *of;
        struct cv_work work;
        bool is_elsewhere; /* it ran on another thread than the loop's */
        uint32_t times;
    } one[WORKS];
    pthread_t loop_thread;
    uint32_t done_count;
    uint32_t order[WORKS];
    bool frees_at_last, is_closed;
};

static void on_closed(void *data)
{
    ((struct scene *)data)->is_closed = true;
}

static void run(void *data)
{
    struct one *one = data;
    one->is_elsewhere = !pthread_equal(pthread_self(), one->of->loop_thread);
    one->times++;
}

static void done(void *data)
{
    struct one *one = data;
    struct scene *s = one->of;
    assert_true(pthread_equal(pthread_self(), s->loop_thread));
    assert_false(s->is_closed);
    s->order[s->done_count++] = (uint32_t)(one - s->one);
    if (s->frees_at_last && s->done_count == WORKS) {
        cv__worker_free(s->worker, on_closed, s);
    }
}

static void begin(struct scene *s, uv_loop_t *loop)
{
    struct cv_errtext error;
    memset(s, 0, sizeof *s);
    s->loop_thread = pthread_self();
    assert_int_equal(uv_loop_init(loop), 0);
    assert_int_equal(cv__worker_new(loop, &s->worker, &error), CV_OK);
    for (uint32_t i = 0; i < WORKS; i++) {
        s->one[i].of = s;
        s->one[i].work = (struct cv_work){.run = run, .done = done, .data = &s->one[i]};
        cv__worker_do(s->worker, &s->one[i].work);
    }
}

static void end(struct scene *s, uv_loop_t *loop)
{
    assert_int_equal(uv_run(loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(loop), 0);
    assert_true(s->is_closed);
    assert_int_equal(s->done_count, WORKS);
    for (uint32_t i = 0; i < WORKS; i++) {
        assert_int_equal(s->order[i], i);
        assert_int_equal(s->one[i].times, 1);
        assert_true(s->one[i].is_elsewhere);
    }
}

static void queued_work_is_done_before_the_end(void **unused)
{
    (void)unused;
    struct scene s;
    uv_loop_t loop;
    begin(&s, &loop);
    cv__worker_free(s.worker, on_closed, &s);
    end(&s, &loop);
}

static void the_last_work_may_free_its_worker(void **unused)
{
    (void)unused;
    struct scene s;
    uv_loop_t loop;
    begin(&s, &loop);
    s.frees_at_last = true;
    end(&s, &loop);
}

/* With real-time priority, a loop that waits for the thread that has just woken it, on the same
 * processor, would spin until the kernel takes the processor away: for 0.95 s. */
static void loop_with_real_time_priority_does_not_spin(void **unused)
{
    (void)unused;
    struct scene s;
    uv_loop_t loop;
    cpu_set_t before, one;
    const struct sched_param usual = {0}, high = {.sched_priority = 10};
    struct timespec used[2];
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &high) != 0) {
        (void)sched_setaffinity(0, sizeof before, &before);
        skip(); /* not permitted */
    }
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used[0]), 0);
    begin(&s, &loop);
    s.frees_at_last = true;
    end(&s, &loop);
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used[1]), 0);
    assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &usual), 0);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    const double used_s = (double)(used[1].tv_sec - used[0].tv_sec) +
                          (double)(used[1].tv_nsec - used[0].tv_nsec) / 1e9;
    if (used_s > 0.5) {
        fail_msg("%u pieces of work took %.2f s of the loop's processor time", WORKS, used_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queued_work_is_done_before_the_end),
        cmocka_unit_test(the_last_work_may_free_its_worker),
        cmocka_unit_test(loop_with_real_time_priority_does_not_spin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
