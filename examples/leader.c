/* examples/leader.c - do something, but only on one of the processes that run this.
 *
 * usage: leader NAME [ADDRESS]      e.g. start it three times: leader tick sqlite:tick.db
 * build: cc leader.c $(pkg-config --cflags --libs conclave) */
#include <conclave/conclave.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static volatile sig_atomic_t is_over;

static void on_signal(int signo)
{
    (void)signo;
    is_over = 1;
}

/* The work. It takes the token along, so that the receiver can refuse the work of a former
 * leader. */
static void tick(uint64_t token)
{
    printf("tick, token %llu\n", (unsigned long long)token);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct cv_election *election;
    struct cv_errtext error;
    if (argc < 2) {
        fprintf(stderr, "usage: leader NAME [ADDRESS]\n");
        return 2;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (cv_open(&election, argv[1], argc > 2 ? argv[2] : NULL, NULL, &error) != CV_OK) {
        fprintf(stderr, "leader: %s\n", error.text);
        return 1;
    }
    while (!is_over) {
        uint64_t token;
        int64_t left_ns;
        /* A tick takes a millisecond: with less than a tenth of a second left it is too late. */
        if (cv_leads(election, &token, &left_ns) && left_ns > 100000000) {
            tick(token);
        }
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    cv_close(election); /* resigns: another process leads at once */
    return 0;
}
