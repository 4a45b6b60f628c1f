/* src/os/realtime.c - see realtime.h. */
#include "os/realtime.h"

#include "core/errors.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define PRIORITY 10 /* above usual threads, below those that serve the hardware (50) */

static int set_fifo(struct cv_errtext *reterr)
{
    const struct sched_param wanted = {.sched_priority = PRIORITY};
    /* 0 is this thread, not the process. */
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &wanted) != 0) {
        return cv__fail(reterr, CV_E_LIMIT,
                        "real-time scheduling is not permitted: %s (LimitRTPRIO)", strerror(errno));
    }
    return CV_OK;
}

int cv__realtime_begin(struct cv_errtext *reterr)
{
    const int code = set_fifo(reterr);
    /* With a finite limit a later allocation could fail because of it; so only without one. A page
     * is locked when it is first used: the process does not grow by what it never needs. */
    struct rlimit limit;
    if (code == CV_OK && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
        limit.rlim_cur == RLIM_INFINITY) {
        (void)mlockall(MCL_CURRENT | MCL_FUTURE |
                       MCL_ONFAULT); /* swapping is rare: no more than that */
    }
    return code;
}

int cv__realtime_is_permitted(struct cv_errtext *reterr)
{
    struct sched_param before;
    const int policy = sched_getscheduler(0);
    if (policy < 0 || sched_getparam(0, &before) != 0) {
        return cv__fail(reterr, CV_E_LIMIT, "the scheduling policy cannot be read: %s",
                        strerror(errno));
    }
    const int code = set_fifo(reterr);
    if (code == CV_OK) {
        (void)sched_setscheduler(0, policy, &before); /* what it was before is permitted */
    }
    return code;
}
