/* tests/system/peers_fenced.c - a member that writes to a fenced resource while it leads.
 *
 *     peers_fenced ELECTION FILE NODE INDEX RESOURCE
 *
 * The resource is a file that all members map: the largest token that it was given, and counts. It
 * accepts a write with that token or a larger one, and refuses a smaller one. Each member asks
 * again and again whether it leads, and reads the largest token *before* it asks. If it is told
 * that it leads, with a smaller token, then another leads or has led since: that answer came too
 * late. Besides, a member also writes with its old token when it no longer leads, like a thread
 * that was stopped between asking and writing. */
#include <conclave/conclave.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MEMBERS_MAX 8

/* test_peers.py knows the order. */
struct resource {
    _Atomic uint64_t token; /* the largest so far */
    _Atomic uint64_t accepted, refused;
    _Atomic uint64_t too_late; /* answers that came too late: see above */
    struct member {
        _Atomic uint64_t asked; /* how often it asked */
        _Atomic uint64_t token; /* the latest token that was accepted from it */
    } member[MEMBERS_MAX];
};

static void write_to(struct resource *r, struct member *member, uint64_t token)
{
    uint64_t largest = atomic_load(&r->token);
    while (largest < token && !atomic_compare_exchange_weak(&r->token, &largest, token)) {
    }
    if (largest > token) {
        (void)atomic_fetch_add(&r->refused, 1);
        return;
    }
    (void)atomic_fetch_add(&r->accepted, 1);
    atomic_store(&member->token, token);
}

/* No answer that it leads may have a token below `largest`. */
static bool is_too_late(struct cv_election *e, uint64_t largest, uint64_t *ret_token)
{
    const bool is_leader = cv_is_leader(e);
    if (cv_leads(e, ret_token, NULL)) {
        return *ret_token < largest;
    }
    *ret_token = 0;
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    cv_status(e, &status);
    return is_leader && status.token < largest; /* it ended in between */
}

static void take_part(struct cv_election *e, struct resource *r, struct member *member)
{
    uint64_t own = 0, token;
    for (;;) {
        const uint64_t largest = atomic_load(&r->token);
        if (is_too_late(e, largest, &token)) {
            (void)atomic_fetch_add(&r->too_late, 1);
        }
        own = token != 0 ? token : own;
        if (token != 0 || (own != 0 && own < largest)) {
            write_to(r, member, own);
        }
        (void)atomic_fetch_add(&member->asked, 1);
        (void)poll(NULL, 0, /* timeout_ms= */ 1);
    }
}

int main(int argc, char **argv)
{
    struct cv_election *e;
    struct cv_errtext why;
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    char address[4096];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a killed test leaves no process behind */
    if (argc != 6 || atoi(argv[4]) < 0 || atoi(argv[4]) >= MEMBERS_MAX) {
        return 2;
    }
    const int fd = open(argv[5], O_RDWR | O_CLOEXEC);
    struct resource *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    options.node = argv[3];
    (void)snprintf(address, sizeof address, "peers:%s", argv[2]);
    if (r == MAP_FAILED || cv_open(&e, argv[1], address, &options, &why) != CV_OK) {
        (void)fprintf(stderr, "%s\n", r == MAP_FAILED ? "no resource" : why.text);
        return 2;
    }
    take_part(e, r, &r->member[atoi(argv[4])]);
    return 0;
}
