/* examples/leader_epoll.c - the same in a program that already has an event loop.
 *
 * The election's descriptor becomes readable when something has changed; no callback comes from
 * another thread, and the loop may be as slow as it likes.
 *
 * usage: leader_epoll NAME [ADDRESS]
 * build: cc leader_epoll.c $(pkg-config --cflags --libs conclave) */
#include <conclave/conclave.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int epoll_fd;

static void attend(int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void on_change(struct cv_election *election)
{
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    cv_status(election, &status);     /* makes the descriptor unreadable again */
    if (status.is_resign_requested) { /* nothing to stop here, so hand over at once */
        cv_resign(election, status.heir[0] != '\0' ? status.heir : NULL);
    }
    if (status.trouble[0] != '\0') {
        fprintf(stderr, "leader_epoll: %s\n", status.trouble);
    }
    if (status.reason != CV_REASON_RENEWED) {
        printf("%s leads (%s)\n", status.leader[0] != '\0' ? status.leader : "nobody",
               cv_reason_name(status.reason));
        fflush(stdout);
    }
}

static void on_tick(struct cv_election *election)
{
    uint64_t token;
    if (cv_leads(election, &token, NULL)) {
        printf("tick, token %llu\n", (unsigned long long)token);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    struct cv_election *election;
    struct cv_errtext error;
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    if (argc < 2 || cv_open(&election, argv[1], argc > 2 ? argv[2] : NULL, NULL, &error) != CV_OK) {
        fprintf(stderr, "leader_epoll: %s\n", argc < 2 ? "usage: NAME [ADDRESS]" : error.text);
        return 1;
    }
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    const int signal_fd = signalfd(-1, &ends, SFD_CLOEXEC);
    const int timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    const struct itimerspec every = {{.tv_nsec = 50000000}, {.tv_nsec = 50000000}};
    timerfd_settime(timer_fd, 0, &every, NULL);
    attend(cv_fd(election));
    attend(signal_fd);
    attend(timer_fd);
    for (;;) {
        struct epoll_event event;
        if (epoll_wait(epoll_fd, &event, 1, -1) != 1) {
            continue;
        }
        if (event.data.fd == signal_fd) {
            break;
        }
        if (event.data.fd == timer_fd) {
            uint64_t count;
            (void)!read(timer_fd, &count, sizeof count);
            on_tick(election);
        } else {
            on_change(election);
        }
    }
    cv_close(election);
    return 0;
}
