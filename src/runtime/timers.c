/* src/runtime/timers.c - one timer of the kernel for all hosts of a loop; see timers.h. */
#include "runtime/timers.h"

#include "core/errors.h"
#include "core/types.h"
#include "os/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define SPENT (-1) /* it has gone off, and its descriptor is readable until it is set again */
/* A useless wake-up costs more than setting the timer while awake. So the timer is set again when
 * the time left on it is less than 1/LEFT_SHARE of the time until the user is due. */
#define LEFT_SHARE 2

/* Invariant: outside of run_due() the kernel's timer is set to the earliest of the users', or to an
 * instant before that. Moving a timer to later, as each heartbeat does for a follower, costs a
 * system call only every few times. */
struct cv_timers {
    uv_poll_t poll; /* its data is this */
    int fd;
    int64_t set_ns; /* what the kernel's timer is set to; 0: nothing; or SPENT */
    const struct cv_timers_user *set_for; /* the user that it was set for; NULL: none */
    struct cv_timers_user *first;
    uint64_t round;
    bool is_telling;
    void (*closed)(void *data);
    void *closed_data;
};

static struct cv_timers_user *earliest(const struct cv_timers *t, uint64_t but_round)
{
    struct cv_timers_user *found = NULL;
    for (struct cv_timers_user *user = t->first; user != NULL; user = user->next) {
        if (user->due_ns != 0 && user->round != but_round &&
            (found == NULL || user->due_ns < found->due_ns)) {
            found = user;
        }
    }
    return found;
}

static void set_kernel_timer(struct cv_timers *t)
{
    const struct cv_timers_user *next = earliest(t, UINT64_MAX);
    const int64_t next_ns = next != NULL ? next->due_ns : 0;
    if (t->is_telling || next_ns == t->set_ns) {
        return;
    }
    cv__clock_arm(t->fd, next != NULL ? next_ns : INT64_MAX);
    t->set_ns = next_ns;
    t->set_for = next;
}

/* The user for which the kernel's timer is set is now due later, at due_ns. */
static bool would_wake_in_vain(const struct cv_timers *t, int64_t due_ns)
{
    const int64_t now_ns = cv__clock_now_ns();
    return t->set_ns > 0 && (t->set_ns - now_ns) * LEFT_SHARE < due_ns - now_ns;
}

void cv__timers_set(struct cv_timers *t, struct cv_timers_user *user, int64_t due_ns)
{
    CV_ASSERT(user->link != NULL); /* it was added */
    CV_ASSERT(due_ns >= 0);
    user->due_ns = due_ns;
    if (due_ns != 0 && (t->set_ns == 0 || due_ns < t->set_ns ||
                        (user == t->set_for && would_wake_in_vain(t, due_ns)))) {
        set_kernel_timer(t);
    }
}

void cv__timers_add(struct cv_timers *t, struct cv_timers_user *user)
{
    CV_ASSERT(user->link == NULL);
    user->due_ns = 0;
    user->next = t->first;
    user->link = &t->first;
    if (t->first != NULL) {
        t->first->link = &user->next;
    }
    t->first = user;
}

void cv__timers_remove(struct cv_timers *t, struct cv_timers_user *user)
{
    cv__timers_set(t, user, 0);
    t->set_for = t->set_for != user ? t->set_for : NULL;
    *user->link = user->next;
    if (user->next != NULL) {
        user->next->link = user->link;
    }
    user->next = NULL;
    user->link = NULL;
}

/* Calls each user at most once: one that sets its timer to the past must not starve the network. */
static void run_due(struct cv_timers *t)
{
    CV_ASSERT(!t->is_telling);
    t->is_telling = true;
    t->round++;
    for (;;) {
        struct cv_timers_user *user = earliest(t, t->round);
        if (user == NULL || user->due_ns > cv__clock_now_ns()) {
            break;
        }
        user->round = t->round;
        user->due_ns = 0;
        user->due(user->self);
    }
    t->is_telling = false;
    set_kernel_timer(t);
}

static void on_kernel_timer(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct cv_timers *t = poll->data;
    t->set_ns = SPENT; /* setting it again, even to nothing, replaces reading it */
    run_due(t);
}

int cv__timers_new(uv_loop_t *loop, struct cv_timers **ret_timers, struct cv_errtext *reterr)
{
    struct cv_timers *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory for a timer");
    }
    t->poll.data = t;
    t->fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    int result = CV_OK;
    if (t->fd < 0) {
        result = cv__fail(reterr, CV_E_LIMIT, "cannot create a timer: %s", strerror(errno));
        goto failed;
    }
    int uv_result = uv_poll_init(loop, &t->poll, t->fd);
    if (uv_result != 0) {
        result = cv__fail(reterr, CV_E_LIMIT, "cannot watch a timer: %s", uv_strerror(uv_result));
        goto failed;
    }
    uv_result = uv_poll_start(&t->poll, UV_READABLE, on_kernel_timer);
    CV_ASSERT(uv_result == 0); /* fails for a closed handle only */
    *ret_timers = t;
    return CV_OK;
failed:
    if (t->fd >= 0) {
        (void)close(t->fd); /* nothing was written to it */
    }
    free(t);
    return result;
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct cv_timers *t = handle->data;
    void (*closed)(void *data) = t->closed;
    void *data = t->closed_data;
    (void)close(t->fd); /* nothing was written to it */
    free(t);
    if (closed != NULL) {
        closed(data);
    }
}

void cv__timers_free(struct cv_timers *t, void (*closed)(void *data), void *data)
{
    if (t == NULL) {
        if (closed != NULL) {
            closed(data);
        }
        return;
    }
    CV_ASSERT(t->first == NULL);
    t->closed = closed;
    t->closed_data = data;
    uv_close((uv_handle_t *)&t->poll, on_poll_closed);
}
