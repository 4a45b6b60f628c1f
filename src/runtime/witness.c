/* src/runtime/witness.c - see witness.h. */
#include "runtime/witness.h"

#include "core/errors.h"
#include "os/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long it waits before each round: a datagram may be lost. Until it ends, the member's port is
 * in use. */
static const int wait_ms[CV_WITNESS_ROUNDS] = {0, 2, 6};

/* The descriptors of the process; it has no other. */
enum { PIPE_FD, MEMBER_FD, SOCKET_FD, FD_COUNT };

struct frame {
    struct cv_udp_address to;
    uint32_t byte_count;
    uint8_t bytes[CV_WITNESS_FRAME_BYTES_MAX];
};

/* In memory that member and witness share. The member writes the other half of `frame`, then
 * `half`. */
struct page {
    _Atomic uint32_t half; /* 0 or 1 */
    uint32_t frame_max;
    uint32_t frame_count[2];
    struct frame frame[]; /* 2 frame_max */
};

struct cv_witness {
    struct page *page;
    size_t page_bytes;
    int pipe_fd[2];
    int member_fd; /* a pidfd of this process */
    int socket_fd; /* lent */
    pid_t pid;     /* 0: none */
    uint32_t adding_count;
};

/* ---- The process ----------------------------------------------------------------------------- */

static void speak(const struct page *page, uint32_t round)
{
    const uint32_t half = atomic_load(&page->half);
    const uint32_t count = page->frame_count[half] / CV_WITNESS_ROUNDS;
    const struct frame *frame = &page->frame[half * page->frame_max + round * count];
    for (uint32_t i = 0; i < count; i++) {
        (void)sendto(SOCKET_FD, frame[i].bytes, frame[i].byte_count, MSG_DONTWAIT | MSG_NOSIGNAL,
                     &frame[i].to.any, frame[i].to.bytes); /* a failure is a lost datagram */
    }
}

/* Returns when the member is dead and no process holds its pipe. */
static void await_death(void)
{
    struct pollfd waits[] = {{.fd = PIPE_FD, .events = POLLIN},
                             {.fd = MEMBER_FD, .events = POLLIN}};
    bool is_cut = false;
    bool is_dead = false;
    while (!is_cut || !is_dead) {
        (void)poll(waits, COUNT_OF(waits), -1);
        is_cut = is_cut || (waits[0].revents & POLLHUP) != 0;
        is_dead = is_dead || (waits[1].revents & POLLIN) != 0;
        waits[0].fd = is_cut ? -1 : PIPE_FD; /* both would stay ready */
        waits[1].fd = is_dead ? -1 : MEMBER_FD;
    }
}

/* The wanted descriptors get the first numbers, and all others are closed: a process that waits
 * until one of them is closed must not wait for us. */
static bool keep_only(const int fd[FD_COUNT])
{
    for (int i = 0; i < FD_COUNT; i++) {
        if (dup2(fd[i], i) != i) {
            return false;
        }
    }
    return syscall(SYS_close_range, (unsigned)FD_COUNT, ~0u, 0) == 0;
}

/* All signals are blocked, and stay so. */
static _Noreturn void watch(const struct page *page, const int fd[FD_COUNT])
{
    const struct sched_param first = {.sched_priority = 1};
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "cv-witness");
    if (!keep_only(fd) || chdir("/") != 0) {
        _exit(1);
    }
    (void)sched_setscheduler(0, SCHED_RR, &first); /* best effort: without it we are later */
    await_death();
    for (uint32_t round = 0; round < CV_WITNESS_ROUNDS; round++) {
        if (wait_ms[round] > 0) {
            (void)poll(NULL, 0, wait_ms[round]);
        }
        speak(page, round);
    }
    _exit(0);
}

/* ---- The member ------------------------------------------------------------------------------ */

static int start(struct cv_witness *w, struct cv_errtext *reterr)
{
    const int fd[FD_COUNT] = {w->pipe_fd[0], w->member_fd, w->socket_fd};
    sigset_t all, before;
    CV_ASSERT(w->pid == 0);
    for (int i = 0; i < FD_COUNT; i++) {
        if (fd[i] < FD_COUNT) { /* it would be overwritten by another */
            return cv__fail(reterr, CV_E_IO, "standard input, output or error is closed");
        }
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    /* Like fork(), but the parent gets no signal when it ends. */
    const long pid = syscall(SYS_clone, 0, 0, 0, 0, 0);
    if (pid == 0) {
        watch(w->page, fd);
    }
    const int failed_errno = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        return cv__fail(reterr, CV_E_IO, "no process: %s", strerror(failed_errno));
    }
    w->pid = (pid_t)pid;
    return CV_OK;
}

/* What the process needs, with high numbers: see os/descriptor.h. */
static int open_parts(struct cv_witness *w, struct cv_errtext *reterr)
{
    if (pipe2(w->pipe_fd, O_CLOEXEC) != 0) {
        w->pipe_fd[0] = w->pipe_fd[1] = -1;
        return cv__fail(reterr, CV_E_IO, "no pipe: %s", strerror(errno));
    }
    w->pipe_fd[0] = cv__descriptor_raise(w->pipe_fd[0]);
    w->pipe_fd[1] = cv__descriptor_raise(w->pipe_fd[1]);
    const int member_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (member_fd < 0) {
        return cv__fail(reterr, CV_E_IO, "no pidfd: %s", strerror(errno));
    }
    w->member_fd = cv__descriptor_raise(member_fd);
    void *page =
        mmap(NULL, w->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return cv__fail(reterr, CV_E_IO, "no shared memory: %s", strerror(errno));
    }
    w->page = page;
    return CV_OK;
}

int cv__witness_new(int socket_fd, uint32_t peer_max, struct cv_witness **ret_witness,
                    struct cv_errtext *reterr)
{
    struct cv_witness *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory for a witness");
    }
    const uint32_t frame_max = peer_max * CV_WITNESS_ROUNDS;
    w->page_bytes = sizeof(struct page) + (size_t)2 * frame_max * sizeof(struct frame);
    w->member_fd = -1;
    w->socket_fd = socket_fd;
    int code = open_parts(w, reterr);
    if (code == CV_OK) {
        w->page->frame_max = frame_max;
        code = start(w, reterr);
    }
    if (code != CV_OK) {
        cv__witness_free(w);
        return code;
    }
    *ret_witness = w;
    return CV_OK;
}

static bool is_gone(pid_t pid, int options)
{
    pid_t got;
    do {
        got = waitpid(pid, NULL, options | __WCLONE); /* a child without a signal */
    } while (got < 0 && errno == EINTR);
    return got != 0; /* reaped here or elsewhere */
}

void cv__witness_free(struct cv_witness *w)
{
    if (w == NULL) {
        return;
    }
    if (w->pid != 0) {
        (void)kill(w->pid, SIGKILL); /* before its pipe closes; not reaped yet, so it is its pid */
        (void)is_gone(w->pid, 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (w->pipe_fd[i] >= 0) {
            (void)close(w->pipe_fd[i]); /* nothing is ever written */
        }
    }
    if (w->member_fd >= 0) {
        (void)close(w->member_fd); /* not a file */
    }
    if (w->page != NULL) {
        (void)munmap(w->page, w->page_bytes); /* was mapped with this length */
    }
    free(w);
}

void cv__witness_begin(struct cv_witness *w)
{
    w->adding_count = 0;
}

void cv__witness_add(struct cv_witness *w, const struct cv_udp_address *to, const uint8_t *bytes,
                     size_t byte_count)
{
    struct page *page = w->page;
    const uint32_t half = 1 - atomic_load(&page->half); /* the one that is not in use */
    CV_ASSERT(w->adding_count < page->frame_max);
    CV_ASSERT(byte_count <= CV_WITNESS_FRAME_BYTES_MAX);
    struct frame *frame = &page->frame[half * page->frame_max + w->adding_count++];
    frame->to = *to;
    frame->byte_count = (uint32_t)byte_count;
    memcpy(frame->bytes, bytes, byte_count);
}

void cv__witness_commit(struct cv_witness *w)
{
    struct page *page = w->page;
    const uint32_t half = 1 - atomic_load(&page->half);
    CV_ASSERT(w->adding_count % CV_WITNESS_ROUNDS == 0);
    page->frame_count[half] = w->adding_count;
    atomic_store(&page->half, half);
}

bool cv__witness_look(struct cv_witness *w)
{
    if (w->pid != 0 && is_gone(w->pid, WNOHANG)) {
        w->pid = 0;
    }
    return w->pid != 0 || start(w, NULL) == CV_OK;
}

int cv__witness_lifeline(const struct cv_witness *w)
{
    return w->pipe_fd[1];
}

pid_t cv__witness_pid(const struct cv_witness *w)
{
    return w->pid;
}
