/* tests/unit/test_witness.c - the witness speaks when its member and all descendants of it are
 * dead, and at no other time.
 *
 * The member is a child of the test. It tells through a pipe when its witness is ready. Silence is
 * proved by a later event that is sure to come: a witness is made to speak, or it is gone. */
#include "runtime/witness.h"
#include "support/support.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 30000
/* A witness that speaks does so in less; a slower one does not fail the test. */
#define SILENCE_MS 50

enum life {
    LIFE_LIVES,  /* until it is killed */
    LIFE_CLOSES, /* closes its end of the pipe, and lives on */
    LIFE_WORKS,  /* has a child that holds the pipe and outlives it */
    LIFE_FREES,  /* frees its witness, and lives on */
    LIFE_LOOKS,  /* looks in vain for its witness, which was killed */
};

struct member {
    pid_t pid;
    pid_t witness, worker; /* as the member told them; 0: none */
};

static int heard_fd; /* where the witness sends its datagrams */
static struct cv_udp_address heard_at;

static int set_up(void **unused)
{
    (void)unused;
    struct cv_errtext why;
    struct cv_udp_address any;
    assert_int_equal(cv__udp_resolve("127.0.0.1", 0, AF_INET, &any, &why), CV_OK);
    assert_int_equal(cv__udp_open(&any, &heard_fd, &why), CV_OK);
    heard_at.bytes = sizeof heard_at.v4;
    assert_int_equal(getsockname(heard_fd, &heard_at.any, &heard_at.bytes), 0);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    (void)close(heard_fd);
    return 0;
}

static void prepare(struct cv_witness *w, const char *text)
{
    cv__witness_begin(w);
    for (uint32_t i = 0; i < CV_WITNESS_ROUNDS; i++) {
        cv__witness_add(w, &heard_at, (const uint8_t *)text, strlen(text));
    }
    cv__witness_commit(w);
}

/* The member, in a process of its own. */
static _Noreturn void live(enum life life, int tell_fd, int socket_fd)
{
    struct cv_witness *w;
    struct member is = {.pid = getpid()};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a killed test leaves no process behind */
    if (cv__witness_new(socket_fd, 1, &w, NULL) != CV_OK) {
        _exit(1);
    }
    prepare(w, "first");
    prepare(w, "second");
    is.witness = cv__witness_pid(w);
    if (life == LIFE_WORKS && (is.worker = fork()) == 0) {
        (void)alarm(PATIENCE_MS / 1000); /* a failed test leaves no process behind */
        (void)close(tell_fd);
        (void)close(STDOUT_FILENO); /* a reader of our output must not wait for this process */
        (void)close(STDERR_FILENO);
        for (;;) {
            (void)pause();
        }
    }
    if (life == LIFE_CLOSES) {
        (void)close(cv__witness_lifeline(w));
    } else if (life == LIFE_FREES) {
        cv__witness_free(w);
    } else if (life == LIFE_LOOKS) {
        (void)kill(is.witness, SIGKILL);
        while (cv__witness_look(w) && cv__witness_pid(w) == is.witness) {
            (void)poll(NULL, 0, 1);
        }
        is.witness = cv__witness_pid(w);
    }
    (void)!write(tell_fd, &is, sizeof is);
    for (;;) {
        (void)pause();
    }
}

static struct member begin(enum life life)
{
    struct member is = {0};
    struct cv_errtext why;
    struct cv_udp_address any;
    int ends[2], socket_fd;
    assert_int_equal(cv__udp_resolve("127.0.0.1", 0, AF_INET, &any, &why), CV_OK);
    assert_int_equal(cv__udp_open(&any, &socket_fd, &why), CV_OK);
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        live(life, ends[1], socket_fd);
    }
    (void)close(ends[1]);
    (void)close(socket_fd);
    assert_int_equal(read(ends[0], &is, sizeof is), sizeof is);
    (void)close(ends[0]);
    assert_int_equal(is.pid, pid);
    return is;
}

static void end(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Waits for a datagram with this text; false: none came within that time. */
static bool hears(const char *text, int timeout_ms)
{
    struct pollfd wait = {.fd = heard_fd, .events = POLLIN};
    char bytes[64];
    if (poll(&wait, 1, timeout_ms) != 1) {
        return false;
    }
    const ssize_t got = recv(heard_fd, bytes, sizeof bytes, 0);
    assert_int_equal(got, strlen(text));
    assert_memory_equal(bytes, text, strlen(text));
    return true;
}

static void hears_all_rounds(const char *text)
{
    for (uint32_t i = 0; i < CV_WITNESS_ROUNDS; i++) {
        assert_true(hears(text, PATIENCE_MS));
    }
    assert_false(hears(text, 0));
}

static void speaks_when_the_member_was_killed(void **unused)
{
    (void)unused;
    const struct member is = begin(LIFE_LIVES);
    end(is.pid);
    hears_all_rounds("second"); /* the latest text counts */
}

static void is_silent_while_the_member_lives(void **unused)
{
    (void)unused;
    const struct member is = begin(LIFE_CLOSES); /* even without its pipe */
    assert_false(hears("second", SILENCE_MS));
    end(is.pid);
    hears_all_rounds("second");
}

static void is_silent_while_the_member_is_stopped(void **unused)
{
    (void)unused;
    const struct member is = begin(LIFE_LIVES);
    assert_int_equal(kill(is.pid, SIGSTOP), 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)is.pid, &info, WSTOPPED | WNOWAIT), 0);
    assert_false(hears("second", SILENCE_MS));
    end(is.pid);
    hears_all_rounds("second");
}

static void is_silent_while_a_descendant_holds_the_pipe(void **unused)
{
    (void)unused;
    const struct member is = begin(LIFE_WORKS);
    end(is.pid);
    assert_false(hears("second", SILENCE_MS)); /* the member's work still goes on */
    assert_int_equal(kill(is.worker, SIGKILL), 0);
    hears_all_rounds("second");
}

static void says_nothing_after_a_proper_end(void **unused)
{
    (void)unused;
    const struct member is = begin(LIFE_FREES);
    assert_int_equal(kill(is.witness, 0), -1); /* the witness is gone, not only silent */
    end(is.pid);
    assert_false(hears("second", 0));
}

static void killed_witness_is_replaced(void **unused)
{
    (void)unused;
    const struct member is = begin(LIFE_LOOKS);
    end(is.pid);
    hears_all_rounds("second");
}

/* With the name of a test as argument, runs only that one. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speaks_when_the_member_was_killed),
        cmocka_unit_test(is_silent_while_the_member_lives),
        cmocka_unit_test(is_silent_while_the_member_is_stopped),
        cmocka_unit_test(is_silent_while_a_descendant_holds_the_pipe),
        cmocka_unit_test(says_nothing_after_a_proper_end),
        cmocka_unit_test(killed_witness_is_replaced),
    };
    if (getenv("CV_TEST_VALGRIND") != NULL) {
        (void)printf("1..0 # SKIP valgrind does not know this way to make a process\n");
        return 0;
    }
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
