/* tests/unit/test_realtime.c - what src/os/realtime.h promises under each limit. Each test locks in
 * a process of its own, since a lock stays. */
#include "os/realtime.h"

#include "support/support.h"

#include <conclave/conclave.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1024L * 1024)
#define NOBODY 65534u

enum { PASSED, FAILED, NOT_PERMITTED };

/* A line of /proc/self/status, in KiB. */
static long status_kib(const char *key)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    long value = -1;
    while (file != NULL && value < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            value = strtol(line + strlen(key) + 1, NULL, 10);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return value;
}

static bool set_limit(rlim_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
        return false;
    }
    limit.rlim_cur = bytes;
    limit.rlim_max =
        limit.rlim_max == RLIM_INFINITY || limit.rlim_max > bytes ? limit.rlim_max : bytes;
    return setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
}

/* root may lock what it wants. */
static bool drop_privileges(void)
{
    return getuid() != 0 || setuid(NOBODY) == 0;
}

/* Sanitizers and valgrind map more than any sensible limit. */
static bool is_alone_in_its_memory(void)
{
    return status_kib("VmSize:") < 60 * 1024;
}

/* The steps return PASSED, FAILED or NOT_PERMITTED. */
static int in_a_child(int (*steps)(void))
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(steps());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status)) {
        fail_msg("ended by signal %d", WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}

static void judge(int (*steps)(void))
{
    const int verdict = is_alone_in_its_memory() ? in_a_child(steps) : NOT_PERMITTED;
    if (verdict == NOT_PERMITTED) { /* not skip(): meson takes what cmocka prints for a failure */
        (void)printf("# left out: it needs rights or limits that this process does not have\n");
        return;
    }
    assert_int_equal(verdict, PASSED);
}

#define EXPECT(condition)                                                   \
    do {                                                                    \
        if (!(condition)) {                                                 \
            (void)fprintf(stderr, "# line %d: %s\n", __LINE__, #condition); \
            return FAILED;                                                  \
        }                                                                   \
    } while (0)

/* Fills memory that was allocated after the lock, far beyond the limit. */
static bool can_allocate(size_t bytes)
{
    char *block = malloc(bytes);
    if (block == NULL) {
        return false;
    }
    memset(block, 1, bytes);
    const bool is_there = block[bytes - 1] == 1;
    free(block);
    return is_there;
}

/* Uses more and more of the stack. */
static int dig(uint32_t depth) /* NOLINT(misc-no-recursion) */
{
    volatile char block[4096];
    block[0] = (char)depth;
    return depth == 0 ? block[0] : dig(depth - 1) + block[0];
}

static int with_a_small_limit(void)
{
    struct cv_errtext why = {""};
    if (!set_limit(64 * 1024) || !drop_privileges()) {
        return NOT_PERMITTED;
    }
    EXPECT(cv__realtime_may_lock_memory(&why) == CV_E_LIMIT);
    EXPECT(strstr(why.text, "memory is not locked: the limit is 64 KiB, and ") == why.text);
    EXPECT(cv__realtime_lock_memory(&why) == CV_E_LIMIT);
    EXPECT(strstr(why.text, "memory is not locked: the limit is 64 KiB, and ") == why.text);
    EXPECT(status_kib("VmLck:") == 0);
    return PASSED;
}

static void small_limit_is_refused_and_nothing_is_locked(void **unused)
{
    (void)unused;
    judge(with_a_small_limit);
}

static int with_a_large_limit(void)
{
    struct cv_errtext why = {""};
    if (!set_limit(8 * MIB) || !drop_privileges()) {
        return NOT_PERMITTED;
    }
    EXPECT(cv__realtime_may_lock_memory(&why) == CV_OK);
    EXPECT(status_kib("VmLck:") == 0); /* a question locks nothing */
    EXPECT(cv__realtime_lock_memory(&why) == CV_OK);
    const long locked_kib = status_kib("VmLck:");
    EXPECT(locked_kib > 1024); /* the C library alone is larger */
    EXPECT(can_allocate(200 * MIB));
    EXPECT(dig(1000) >= -128 * 1001); /* 4 MiB of stack */
    EXPECT(status_kib("VmLck:") <= locked_kib);
    EXPECT(cv__realtime_lock_memory(&why) == CV_OK); /* for another election */
    return PASSED;
}

static void later_allocations_and_the_stack_may_exceed_a_limit(void **unused)
{
    (void)unused;
    judge(with_a_large_limit);
}

/* What another part of the process has locked before counts, and stays. */
static int with_a_limit_that_is_used_up(void)
{
    struct cv_errtext why = {""};
    if (!set_limit(8 * MIB) || !drop_privileges()) {
        return NOT_PERMITTED;
    }
    void *own = mmap(NULL, 7 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(own != MAP_FAILED && mlock2(own, 7 * MIB, MLOCK_ONFAULT) == 0);
    EXPECT(cv__realtime_lock_memory(&why) == CV_E_LIMIT);
    EXPECT(status_kib("VmLck:") == 7 * 1024);
    return PASSED;
}

static void what_was_locked_before_counts(void **unused)
{
    (void)unused;
    judge(with_a_limit_that_is_used_up);
}

static int without_a_limit(void)
{
    struct cv_errtext why = {""};
    if (!set_limit(RLIM_INFINITY)) {
        return NOT_PERMITTED;
    }
    EXPECT(drop_privileges());
    EXPECT(cv__realtime_may_lock_memory(&why) == CV_OK);
    EXPECT(cv__realtime_lock_memory(&why) == CV_OK);
    const long locked_kib = status_kib("VmLck:");
    EXPECT(locked_kib > 1024);
    void *later = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(later != MAP_FAILED);
    EXPECT(status_kib("VmLck:") >= locked_kib + 8 * 1024);
    EXPECT(status_kib("VmRSS:") < locked_kib); /* what is not used costs nothing */
    return PASSED;
}

static void without_a_limit_later_memory_is_locked_too(void **unused)
{
    (void)unused;
    judge(without_a_limit);
}

static int as_root(void)
{
    struct cv_errtext why = {""};
    if (getuid() != 0 || !set_limit(64 * 1024)) {
        return NOT_PERMITTED;
    }
    void *probe = mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(probe != MAP_FAILED);
    if (mlock2(probe, MIB, MLOCK_ONFAULT) != 0) {
        return NOT_PERMITTED; /* root of a container */
    }
    EXPECT(cv__realtime_may_lock_memory(&why) == CV_OK);
    EXPECT(cv__realtime_lock_memory(&why) == CV_OK);
    EXPECT(status_kib("VmLck:") > 1024);
    EXPECT(setuid(NOBODY) == 0); /* from now on the limit counts */
    EXPECT(can_allocate(200 * MIB));
    EXPECT(dig(1000) >= -128 * 1001);
    return PASSED;
}

static void root_needs_no_limit_and_may_drop_its_rights_later(void **unused)
{
    (void)unused;
    judge(as_root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_limit_is_refused_and_nothing_is_locked),
        cmocka_unit_test(later_allocations_and_the_stack_may_exceed_a_limit),
        cmocka_unit_test(what_was_locked_before_counts),
        cmocka_unit_test(without_a_limit_later_memory_is_locked_too),
        cmocka_unit_test(root_needs_no_limit_and_may_drop_its_rights_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
