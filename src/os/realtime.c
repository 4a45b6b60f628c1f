/* src/os/realtime.c - see realtime.h. */
#include "os/realtime.h"

#include "core/errors.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define PRIORITY 10 /* above usual threads, below those that serve the hardware (50) */
#define MEMBER_BYTES ((size_t)1 << 20) /* what a member maps more than other commands */

int cv__realtime_begin(struct cv_errtext *reterr)
{
    const struct sched_param wanted = {.sched_priority = PRIORITY};
    /* 0 is this thread, not the process. */
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &wanted) != 0) {
        return cv__fail(reterr, CV_E_LIMIT, "real-time scheduling is not permitted%s%s",
                        errno != EPERM ? ": " : "", errno != EPERM ? strerror(errno) : "");
    }
    return CV_OK;
}

int cv__realtime_is_permitted(struct cv_errtext *reterr)
{
    struct sched_param before;
    const int policy = sched_getscheduler(0);
    if (policy < 0 || sched_getparam(0, &before) != 0) {
        return cv__fail(reterr, CV_E_LIMIT, "the scheduling policy cannot be read: %s",
                        strerror(errno));
    }
    const int code = cv__realtime_begin(reterr);
    if (code == CV_OK) {
        (void)sched_setscheduler(0, policy, &before); /* what it was before is permitted */
    }
    return code;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* With MCL_FUTURE every later allocation counts, and fails when the limit is reached: so that is
 * used only if there is no limit. With a limit, each mapping that the process has now is locked by
 * itself. Not mlockall(MCL_CURRENT): it includes the stack of the main thread, and a locked stack
 * that has to grow beyond the limit is a SIGSEGV; it counts address space that is only reserved;
 * and it would end a MCL_FUTURE of the program that embeds us. What is allocated later is not
 * locked, but the thread that elects allocates little once it takes part.
 *
 * A page is locked when it is first used: the process does not grow by what it never needs. */

/* Does the kernel permit this many bytes more? It alone knows all rules (limit, what is locked
 * already, CAP_IPC_LOCK), so it is asked with address space that is never used. */
static bool may_lock(size_t bytes)
{
    void *space = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) {
        return false;
    }
    const bool may = mlock2(space, bytes, MLOCK_ONFAULT) == 0;
    (void)munmap(space, bytes); /* as it was mapped: cannot fail */
    return may;
}

/* A line of /proc/self/maps: "55d0c0e000-55d0c10000 r-xp 00000000 08:01 42   /usr/bin/conclave". */
static bool parse_mapping(const char *line, uintptr_t *ret_begin, uintptr_t *ret_end)
{
    char access[5], name[8] = "";
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %7s", ret_begin, ret_end, access,
               name) < 3) {
        return false;
    }
    const bool is_reserved_only = strncmp(access, "---", 3) == 0;
    const bool is_special = name[0] == '[' && strcmp(name, "[heap]") != 0; /* [stack], [vdso] */
    return !is_reserved_only && !is_special;
}

/* Returns how many bytes there are to lock; locks them if is_for_real. */
static int each_mapping(bool is_for_real, size_t *ret_bytes, struct cv_errtext *reterr)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t line_bytes = 0;
    *ret_bytes = 0;
    if (maps == NULL) {
        return cv__fail(reterr, CV_E_IO, "memory is not locked: cannot read /proc/self/maps: %s",
                        strerror(errno));
    }
    while (getline(&line, &line_bytes, maps) > 0) {
        uintptr_t begin, end;
        if (parse_mapping(line, &begin, &end)) {
            *ret_bytes += end - begin;
            if (is_for_real) {
                /* It may be gone by now; that there is room was checked. */
                (void)mlock2((const void *)begin, end - begin, MLOCK_ONFAULT);
            }
        }
    }
    free(line);
    (void)fclose(maps); /* it was only read */
    return CV_OK;
}

static int refuse(size_t bytes, struct cv_errtext *reterr)
{
    struct rlimit limit = {0};
    (void)getrlimit(RLIMIT_MEMLOCK, &limit); /* only for the text */
    return cv__fail(reterr, CV_E_LIMIT,
                    "memory is not locked: the limit is %" PRIu64 " KiB, and %zu KiB are needed",
                    (uint64_t)limit.rlim_cur / 1024, bytes / 1024);
}

static bool is_unlimited(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

int cv__realtime_lock_memory(struct cv_errtext *reterr)
{
    if (is_unlimited()) {
        if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
            return cv__fail(reterr, CV_E_LIMIT, "memory is not locked: %s", strerror(errno));
        }
        return CV_OK;
    }
    size_t bytes;
    const int code = each_mapping(/* is_for_real= */ false, &bytes, reterr);
    if (code != CV_OK) {
        return code;
    }
    return may_lock(bytes) ? each_mapping(/* is_for_real= */ true, &bytes, reterr)
                           : refuse(bytes, reterr);
}

int cv__realtime_may_lock_memory(struct cv_errtext *reterr)
{
    size_t bytes;
    if (is_unlimited()) {
        return CV_OK;
    }
    const int code = each_mapping(/* is_for_real= */ false, &bytes, reterr);
    if (code != CV_OK) {
        return code;
    }
    bytes += MEMBER_BYTES;
    return may_lock(bytes) ? CV_OK : refuse(bytes, reterr);
}
