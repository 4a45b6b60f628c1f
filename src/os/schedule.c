/* src/os/schedule.c - see schedule.h. */
#include "os/schedule.h"

#include "core/errors.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#define PRIORITY 10 /* above usual threads, below those that serve the hardware (50) */

int cv__schedule_realtime(struct cv_errtext *reterr)
{
    const struct sched_param wanted = {.sched_priority = PRIORITY};
    /* 0 is this thread, not the process. */
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &wanted) != 0) {
        return cv__fail(reterr, CV_E_LIMIT,
                        "real-time scheduling is not permitted: %s (LimitRTPRIO)", strerror(errno));
    }
    /* A page is locked when it is first used: the process does not grow by what it never needs. */
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
        return cv__fail(reterr, CV_E_LIMIT, "memory cannot be locked: %s (LimitMEMLOCK)",
                        strerror(errno));
    }
    return CV_OK;
}
