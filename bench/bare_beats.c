/* bench/bare_beats.c HEARTBEAT_MS SECONDS - what idle members cost the kernel, without Conclave.
 *
 * Three processes on loopback: one sends a datagram to each of the others every HEARTBEAT_MS, and
 * they answer. They use the same system calls as members of a cluster with `pole` (epoll, a timerfd
 * that a follower sets again with every second heartbeat, recvmmsg, sendto), datagrams of the same
 * length, and real-time scheduling where it is permitted; but neither encryption nor a protocol nor
 * libuv. Prints the processor time that all three used, in per cent of one processor: a lower bound
 * for any implementation. */
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MEMBERS 3
#define HEARTBEAT_BYTES 157
#define ANSWER_BYTES 143
#define PRIORITY 10
#define TICK_MS 250
#define NS_PER_S INT64_C(1000000000)

static struct sockaddr_in address[MEMBERS];
static int socket_fd[MEMBERS];
static uint8_t buffer[8192];

static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now); /* the clock exists */
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void set_timer(int timer_fd, int64_t due_ns)
{
    const struct itimerspec due = {
        .it_value = {.tv_sec = due_ns / NS_PER_S, .tv_nsec = due_ns % NS_PER_S}};
    (void)timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &due, NULL); /* the time is a valid one */
}

static void send_to(int self, int to, size_t byte_count)
{
    (void)sendto(socket_fd[self], buffer, byte_count, MSG_DONTWAIT, (struct sockaddr *)&address[to],
                 sizeof address[to]); /* a failure counts as a loss */
}

static bool receive(int self)
{
    struct sockaddr_in from;
    struct iovec part = {.iov_base = buffer, .iov_len = sizeof buffer};
    struct mmsghdr message = {
        .msg_hdr = {
            .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1}};
    return recvmmsg(socket_fd[self], &message, 1, MSG_DONTWAIT, NULL) == 1;
}

/* Process 0 leads. */
static _Noreturn void live(int self, int64_t heartbeat_ns)
{
    const struct sched_param first = {.sched_priority = PRIORITY};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sched_setscheduler(0, SCHED_FIFO, &first); /* as members do: where it is permitted */
    const int timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    const int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event timer = {.events = EPOLLIN, .data.fd = timer_fd};
    struct epoll_event datagram = {.events = EPOLLIN, .data.fd = socket_fd[self]};
    if (timer_fd < 0 || poll_fd < 0 || epoll_ctl(poll_fd, EPOLL_CTL_ADD, timer_fd, &timer) != 0 ||
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, socket_fd[self], &datagram) != 0) {
        _exit(1);
    }
    if (self == 0) {
        set_timer(timer_fd, now_ns(CLOCK_BOOTTIME) + heartbeat_ns);
    }
    for (uint64_t heard = 0;;) {
        struct epoll_event event[2];
        const int count = epoll_wait(poll_fd, event, 2, TICK_MS);
        for (int i = 0; i < count; i++) {
            if (event[i].data.fd == timer_fd) {
                set_timer(timer_fd, now_ns(CLOCK_BOOTTIME) + heartbeat_ns);
                for (int to = 1; to < MEMBERS; to++) {
                    send_to(self, to, HEARTBEAT_BYTES);
                }
            } else if (receive(self) && self != 0) {
                if (++heard % 2 == 0) { /* far away: it never fires */
                    set_timer(timer_fd, now_ns(CLOCK_BOOTTIME) + NS_PER_S);
                }
                send_to(self, 0, ANSWER_BYTES);
            }
        }
    }
}

static bool open_socket(int i)
{
    socklen_t length = sizeof address[i];
    address[i] =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socket_fd[i] = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return socket_fd[i] >= 0 && bind(socket_fd[i], (struct sockaddr *)&address[i], length) == 0 &&
           getsockname(socket_fd[i], (struct sockaddr *)&address[i], &length) == 0;
}

int main(int argc, char *argv[])
{
    const double heartbeat_ms = argc == 3 ? atof(argv[1]) : 0;
    const double seconds = argc == 3 ? atof(argv[2]) : 0;
    pid_t member[MEMBERS];
    if (heartbeat_ms <= 0 || seconds <= 0) {
        (void)fprintf(stderr, "usage: bare_beats HEARTBEAT_MS SECONDS\n");
        return 2;
    }
    for (int i = 0; i < MEMBERS; i++) {
        if (!open_socket(i)) {
            perror("bare_beats");
            return 1;
        }
    }
    const int64_t begin_ns = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < MEMBERS; i++) {
        member[i] = fork();
        if (member[i] == 0) {
            live(i, (int64_t)(heartbeat_ms * 1e6));
        }
    }
    (void)usleep((useconds_t)(seconds * 1e6)); /* the exact time is measured */
    for (int i = 0; i < MEMBERS; i++) {
        if (member[i] < 0 || kill(member[i], SIGKILL) != 0 || waitpid(member[i], NULL, 0) < 0) {
            perror("bare_beats");
            return 1;
        }
    }
    const double wall_s = (double)(now_ns(CLOCK_MONOTONIC) - begin_ns) / 1e9;
    struct rusage used;
    (void)getrusage(RUSAGE_CHILDREN, &used); /* cannot fail */
    const double used_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                          (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    (void)printf("%.2f\n", 100 * used_s / wall_s);
    return 0;
}
