/* src/os/realtime.c - see realtime.h. */
#include "os/realtime.h"

#include "core/errors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PRIORITY 10     /* above usual threads, below those that serve the hardware (50) */
#define LINE_BYTES 8192 /* of /proc/self/maps: a path has at most 4096 */
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

/* A hexadecimal number and what ends it, as in /proc/self/maps. */
static uintptr_t parse_address(const char **at)
{
    char *end;
    const uintptr_t address = (uintptr_t)strtoull(*at, &end, 16);
    *at = *end != '\0' ? end + 1 : end;
    return address;
}

/* A line of /proc/self/maps: "55d0c0e000-55d0c10000 r-xp 00000000 08:01 42   /usr/bin/conclave". */
static bool parse_mapping(const char *line, uintptr_t *ret_begin, uintptr_t *ret_end)
{
    const char *at = line;
    *ret_begin = parse_address(&at);
    *ret_end = parse_address(&at);
    const bool is_reserved_only = strncmp(at, "---", 3) == 0;
    const char *name = strchr(at, '[');
    const bool is_special = name != NULL && strcmp(name, "[heap]") != 0; /* [stack], [vdso] */
    return *ret_begin < *ret_end && !is_reserved_only && !is_special;
}

/* Adds what one line names; locks it if is_for_real. */
static void each_line(const char *line, bool is_for_real, size_t *bytes)
{
    uintptr_t begin, end;
    if (!parse_mapping(line, &begin, &end)) {
        return;
    }
    *bytes += end - begin;
    if (is_for_real) {
        if (strstr(line, " r-xp ") != NULL && strchr(line, '/') != NULL) {
            /* Code of a file is never written to. What only the start needed is not kept; the rest
             * comes back from the page cache when it is used. */
            (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
        }
        /* It may be gone by now; that there is room was checked. */
        (void)mlock2((const void *)begin, end - begin, MLOCK_ONFAULT);
    }
}

/* Returns how many bytes there are to lock; locks them if is_for_real. Reads without stdio, whose
 * pages of the C library a member does not need otherwise. */
static int each_mapping(bool is_for_real, size_t *ret_bytes, struct cv_errtext *reterr)
{
    char text[LINE_BYTES];
    size_t kept = 0;
    ssize_t more = 0;
    *ret_bytes = 0;
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (more = read(fd, text + kept, sizeof text - 1 - kept)) > 0) {
        kept += (size_t)more;
        text[kept] = '\0';
        char *line = text;
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            each_line(line, is_for_real, ret_bytes);
        }
        kept -= (size_t)(line - text);
        memmove(text, line, kept);
    }
    const int why = errno;
    if (fd >= 0) {
        (void)close(fd); /* it was only read */
    }
    return fd >= 0 && more == 0 && kept == 0
               ? CV_OK
               : cv__fail(reterr, CV_E_IO, "memory is not locked: cannot read /proc/self/maps: %s",
                          fd < 0 || more < 0 ? strerror(why) : "a line is too long");
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
