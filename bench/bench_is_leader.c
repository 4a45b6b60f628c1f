/* bench/bench_is_leader.c - the cost of asking, before each action, whether this process leads.
 *
 * Usage: bench_is_leader [--tiny]. A leader on a SQLite file of its own calls cv_is_leader() and
 * cv_leads(), and reads the bare clock, which both have to read. Each round measures all three
 * after each other, so that a slower machine slows all of them. The ratio is computed in each
 * round, and the figure is the median of all rounds. Linked with the shared library, like an
 * application. Tiny: the same in miniature, to check that it still works; its figures mean
 * nothing. */
#include "figures.h"

#include <conclave/conclave.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS_MAX 51

enum subject { CLOCK, IS_LEADER, LEAD, SUBJECTS };

static const char *const names[SUBJECTS] = {"clock_gettime", "cv_is_leader", "cv_leads"};

static uint64_t asked_count, yes_count; /* every answer is counted */

/* Nanoseconds for one call. */
static double measure(enum subject subject, const struct cv_election *election, int calls)
{
    const int64_t begin_ns = figures_now_ns();
    for (int i = 0; i < calls; i++) {
        struct timespec now;
        uint64_t token;
        int64_t left_ns;
        switch (subject) {
        case CLOCK:
            yes_count += clock_gettime(CLOCK_BOOTTIME, &now) == 0;
            break;
        case IS_LEADER:
            yes_count += cv_is_leader(election);
            break;
        default:
            yes_count += cv_leads(election, &token, &left_ns);
            break;
        }
    }
    asked_count += (uint64_t)calls;
    return (double)(figures_now_ns() - begin_ns) / calls;
}

static bool await_leading(struct cv_election *election)
{
    const int64_t give_up_ns = figures_now_ns() + INT64_C(10000000000);
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    while (!cv_is_leader(election) && figures_now_ns() < give_up_ns) {
        struct pollfd wait = {.fd = cv_fd(election), .events = POLLIN};
        (void)poll(&wait, 1, 100);
        cv_status(election, &status);
    }
    return cv_is_leader(election);
}

static void bench(struct cv_election *election, int rounds, int calls)
{
    static double ns[SUBJECTS][ROUNDS_MAX], ratio[SUBJECTS][ROUNDS_MAX];
    for (int round = -1; round < rounds; round++) { /* one round to warm up */
        const size_t at = round < 0 ? 0 : (size_t)round;
        for (int subject = 0; subject < SUBJECTS; subject++) {
            ns[subject][at] = measure((enum subject)subject, election, calls);
            ratio[subject][at] = ns[subject][at] / ns[CLOCK][at];
        }
    }
    for (int subject = 0; subject < SUBJECTS; subject++) {
        const double middle_ns = figures_median(ns[subject], (size_t)rounds);
        const double middle = figures_median(ratio[subject], (size_t)rounds);
        (void)printf("ask call=%s rounds=%d calls=%d p50_ns=%.1f min_ns=%.1f max_ns=%.1f "
                     "ratio_p50=%.2f ratio_max=%.2f asked_ratio=2\n",
                     names[subject], rounds, calls, middle_ns, ns[subject][0],
                     ns[subject][rounds - 1], middle, ratio[subject][rounds - 1]);
    }
}

int main(int argc, char **argv)
{
    const bool is_tiny = argc > 1 && strcmp(argv[1], "--tiny") == 0;
    char folder[] = "/tmp/conclave-bench-XXXXXX";
    char address[64];
    char command[64];
    if (mkdtemp(folder) == NULL) {
        perror("mkdtemp");
        return 1;
    }
    (void)snprintf(address, sizeof address, "sqlite:%s/elections", folder);
    struct cv_election *election = NULL;
    struct cv_errtext error;
    int status = 1;
    if (cv_open(&election, "bench", address, NULL, &error) != CV_OK) {
        (void)fprintf(stderr, "bench_is_leader: %s\n", error.text);
    } else if (!await_leading(election)) {
        (void)fprintf(stderr, "bench_is_leader: not elected\n");
    } else {
        (void)printf("# bench=is_leader version=%s cc=%s clock=real library=shared%s\n",
                     cv_version(), __VERSION__, is_tiny ? " tiny" : "");
        bench(election, is_tiny ? 3 : ROUNDS_MAX, is_tiny ? 1000 : 200000);
        status = yes_count == asked_count ? 0 : 1; /* it led all the time */
        (void)printf("ask answers=%llu yes=%llu ok=%s\n", (unsigned long long)asked_count,
                     (unsigned long long)yes_count, status == 0 ? "yes" : "NO");
    }
    cv_close(election);
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 ? status : 1;
}
