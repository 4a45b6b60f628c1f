/* tests/unit/test_timers.c - the kernel's timer wakes the loop when a host is due. */
#include "core/types.h"
#include "os/clock.h"
#include "runtime/timers.h"
#include "support/support.h"

#include <poll.h>

struct fixture {
    uv_loop_t loop;
    struct cv_timers *timers;
    struct cv_timers_user user[2];
    int told[2];
};

static void on_first(void *self)
{
    ((struct fixture *)self)->told[0]++;
}

static void on_second(void *self)
{
    ((struct fixture *)self)->told[1]++;
}

static void begin(struct fixture *f)
{
    *f = (struct fixture){0};
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(cv__timers_new(&f->loop, &f->timers, NULL), CV_OK);
    f->user[0] = (struct cv_timers_user){.due = on_first, .self = f};
    f->user[1] = (struct cv_timers_user){.due = on_second, .self = f};
    cv__timers_add(f->timers, &f->user[0]);
    cv__timers_add(f->timers, &f->user[1]);
    (void)uv_run(&f->loop, UV_RUN_NOWAIT); /* now the kernel's timer is set */
}

static void end(struct fixture *f)
{
    cv__timers_remove(f->timers, &f->user[0]);
    cv__timers_remove(f->timers, &f->user[1]);
    cv__timers_free(f->timers, NULL, NULL);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
}

/* Would the loop wake up within that time? */
static bool wakes(struct fixture *f, int ms)
{
    struct pollfd wait = {.fd = uv_backend_fd(&f->loop), .events = POLLIN};
    return poll(&wait, 1, ms) == 1;
}

static void set_in(struct fixture *f, int user, int64_t ms)
{
    cv__timers_set(f->timers, &f->user[user], cv__clock_now_ns() + ms * NS_PER_MS);
}

static void loop_sleeps_after_the_last_timer(void **unused)
{
    (void)unused;
    struct fixture f;
    begin(&f);
    set_in(&f, 0, 1);
    assert_true(wakes(&f, 10000));
    (void)uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(f.told[0], 1);
    assert_false(wakes(&f, 0)); /* the descriptor was not read, and yet is no longer readable */
    end(&f);
}

static void timer_that_is_moved_away_does_not_wake(void **unused)
{
    (void)unused;
    struct fixture f;
    begin(&f);
    set_in(&f, 0, 30);
    set_in(&f, 0, 60000);
    assert_false(wakes(&f, 60));
    end(&f);
}

static void moving_one_timer_leaves_the_others(void **unused)
{
    (void)unused;
    struct fixture f;
    begin(&f);
    set_in(&f, 0, 20);
    set_in(&f, 1, 40);
    set_in(&f, 0, 60000);
    while (f.told[1] == 0) {
        assert_true(wakes(&f, 10000));
        (void)uv_run(&f.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(f.told[0], 0);
    /* The host for which the kernel's timer was set is freed; the other is still woken. */
    set_in(&f, 1, 30);
    set_in(&f, 0, 20);
    cv__timers_remove(f.timers, &f.user[0]);
    cv__timers_add(f.timers, &f.user[0]);
    while (f.told[1] == 1) {
        assert_true(wakes(&f, 10000));
        (void)uv_run(&f.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(f.told[0], 0);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loop_sleeps_after_the_last_timer),
        cmocka_unit_test(timer_that_is_moved_away_does_not_wake),
        cmocka_unit_test(moving_one_timer_leaves_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
