/* tests/system/peers_claims.c - a member that records when it may act as the leader, and a judge of
 * what several of them recorded.
 *
 *   peers_claims member ELECTION FILE NODE LOG [allows-two]
 *                                takes part until it is killed; SIGTERM: closes the election
 *   peers_claims contender ELECTION ADDRESS NODE LOG LEASE_MS
 *                                the same for any address. SIGUSR1: resigns if it leads; SIGUSR2:
 *                                is not a candidate for a moment
 *   peers_claims judge LOG...    one log for each member, in the order of their ids
 *
 * The member asks cv_leads() again and again, as an application would, and writes one line for each
 * change: "claim PID T TOKEN UNTIL" (from T on it may act, until UNTIL at least), "end PID T". It
 * also asks in the handler of SIGCONT: at the first instant after a stop, when the library's own
 * threads may not have noticed the time yet. All processes are on one host, so the instants
 * (CLOCK_BOOTTIME) are of one clock. A test that kills a member adds its "end" line, if others need
 * not wait for its lease. The judge joins the claims of one process with one token, and has
 * src/properties look at them in the order in which they began: at-most-one-leader and
 * token-monotonic. Exit status 1: one of them is broken. */
#include "core/types.h"
#include "os/clock.h"
#include "properties/properties.h"

#include <conclave/conclave.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LOOK_MS 2
#define GIVEN_UP_NS (50 * NS_PER_MS)
#define CLAIMS_MAX 65536u

/* ---- A member -------------------------------------------------------------------------------- */

static volatile sig_atomic_t is_over, must_resign, must_give_up;
static int64_t candidate_ns; /* it is not a candidate until then; 0: it is one */
static int log_fd;
static uint64_t claimed; /* the token of the claim that was written last; 0: it has ended */
static int64_t until_ns;

static void on_terminate(int unused)
{
    (void)unused;
    is_over = 1;
}

static void on_request(int signo)
{
    if (signo == SIGUSR1) {
        must_resign = 1;
    } else {
        must_give_up = 1;
    }
}

static void write_line(const char *line)
{
    if (write(log_fd, line, strlen(line)) < 0) { /* one call: a kill leaves whole lines */
        exit(3);
    }
}

static void log_trouble(void *unused, enum cv_log_level level, const char *text)
{
    (void)unused;
    if (level >= CV_LOG_NOTICE) {
        (void)fprintf(stderr, "%s\n", text);
    }
}

static void write_end(void)
{
    char line[80];
    claimed = 0;
    until_ns = 0;
    (void)snprintf(line, sizeof line, "end %ld %" PRId64 "\n", (long)getpid(), cv__clock_now_ns());
    write_line(line);
}

/* Writes whom it follows, and why it does not take part: the test waits for these lines. */
static void look_at_others(struct cv_election *e)
{
    static char shown[CV_ERRTEXT_BYTES + 256];
    char line[sizeof shown];
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    cv_status(e, &status);
    (void)snprintf(line, sizeof line, "sees %ld %" PRIu64 " %s %s\n", (long)getpid(), status.token,
                   status.leader[0] != '\0' ? status.leader : "-", status.trouble);
    if (strcmp(line, shown) != 0) {
        memcpy(shown, line, sizeof shown);
        write_line(line);
    }
    if (status.is_resign_requested && claimed != 0) {
        write_end();                     /* an application stops its work first */
        (void)cv_resign(e, status.heir); /* it has no work to stop */
    }
}

/* What the signals have asked for. */
static void obey(struct cv_election *e)
{
    const bool gives_up = must_give_up, resigns = must_resign || gives_up;
    if (resigns) {
        must_resign = must_give_up = 0; /* not otherwise: a signal may come just now */
    }
    if (resigns && claimed != 0) {
        write_end(); /* an application stops its work first */
        (void)cv_resign(e, NULL);
    }
    if (gives_up) {
        candidate_ns = cv__clock_now_ns() + GIVEN_UP_NS;
        (void)cv_campaign(e, /* is_candidate= */ false);
    } else if (candidate_ns != 0 && cv__clock_now_ns() >= candidate_ns) {
        candidate_ns = 0;
        (void)cv_campaign(e, /* is_candidate= */ true);
    }
}

struct answer {
    bool leads;
    uint64_t token;
    int64_t asked_ns, left_ns;
};

static struct answer ask(struct cv_election *e)
{
    struct answer a = {.asked_ns = cv__clock_now_ns()};
    a.leads = cv_leads(e, &a.token, &a.left_ns);
    return a;
}

static struct cv_election *woken_election;
static struct answer woken; /* the answer that the handler got; the loop writes it */
static volatile sig_atomic_t has_woken;

static void on_continue(int unused)
{
    (void)unused;
    if (woken_election != NULL && !has_woken) {
        woken = ask(woken_election);
        has_woken = 1;
    }
}

/* Until when it may act after an answer. That counts from the question, since the process may have
 * been stopped meanwhile. A process that is told that it leads acts at that instant at least. */
static int64_t end_of(const struct answer *a)
{
    if (a->left_ns >= INT64_MAX / 2) { /* a leadership without an end of its own */
        return INT64_MAX;
    }
    return a->asked_ns + cv__max64(a->left_ns, 1);
}

static void record(const struct answer *a)
{
    char line[160];
    const int64_t from_ns = a->left_ns > 0 ? cv__clock_now_ns() : a->asked_ns;
    if (a->leads && (a->token != claimed || end_of(a) > until_ns)) {
        if (from_ns >= end_of(a)) {
            return; /* it was stopped since it asked, and has not acted */
        }
        claimed = a->token;
        until_ns = end_of(a);
        (void)snprintf(line, sizeof line, "claim %ld %" PRId64 " %" PRIu64 " %" PRId64 "\n",
                       (long)getpid(), from_ns, a->token, until_ns);
        write_line(line);
    } else if (!a->leads && claimed != 0) {
        write_end();
    }
}

static int take_part(const char *election, const char *address,
                     const struct cv_election_options *options, const char *log)
{
    struct cv_election *e;
    struct cv_errtext why;
    (void)signal(SIGUSR1, on_request);
    (void)signal(SIGUSR2, on_request);
    log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0 || cv_open(&e, election, address, options, &why) != CV_OK) {
        (void)fprintf(stderr, "%s\n", log_fd < 0 ? "no log" : why.text);
        return 2;
    }
    (void)signal(SIGTERM, on_terminate);
    woken_election = e;
    (void)signal(SIGCONT, on_continue);
    while (!is_over) {
        if (has_woken) {
            record(&woken);
            has_woken = 0;
        }
        const struct answer now = ask(e);
        record(&now);
        look_at_others(e);
        obey(e);
        struct pollfd wait = {.fd = cv_fd(e), .events = POLLIN};
        (void)poll(&wait, 1, LOOK_MS);
    }
    if (claimed != 0) {
        write_end();
    }
    (void)signal(SIGCONT, SIG_DFL);
    cv_close(e);
    return 0;
}

static int member(char **argument, bool allows_two)
{
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    char address[4096];
    options.node = argument[2];
    options.log = log_trouble;
    options.accepts_two_leaders = allows_two;
    (void)snprintf(address, sizeof address, "peers:%s", argument[1]);
    return take_part(argument[0], address, &options, argument[3]);
}

static int contender(char **argument)
{
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    options.node = argument[2];
    options.log = log_trouble;
    options.lease_ns = strtoll(argument[4], NULL, 10) * NS_PER_MS;
    return take_part(argument[0], argument[1], &options, argument[3]);
}

/* ---- The judge ------------------------------------------------------------------------------- */

struct claim {
    cv_id node;
    long pid;
    uint64_t token;
    int64_t from_ns, until_ns;
};

static struct claim claims[CLAIMS_MAX];
static uint32_t claim_count;

static void read_claim(cv_id node, const char *line)
{
    struct claim c = {.node = node};
    if (sscanf(line, "claim %ld %" SCNd64 " %" SCNu64 " %" SCNd64, &c.pid, &c.from_ns, &c.token,
               &c.until_ns) == 4) {
        struct claim *last = claim_count > 0 ? &claims[claim_count - 1] : NULL;
        if (last != NULL && last->node == node && last->pid == c.pid && last->token == c.token) {
            last->until_ns = cv__max64(last->until_ns, c.until_ns);
        } else if (claim_count < CLAIMS_MAX) {
            claims[claim_count++] = c;
        } else {
            (void)printf("more than %u claims\n", CLAIMS_MAX);
            exit(2);
        }
    } else if (sscanf(line, "end %ld %" SCNd64, &c.pid, &c.until_ns) == 2 && claim_count > 0) {
        struct claim *last = &claims[claim_count - 1];
        if (last->node == node && last->pid == c.pid) {
            last->until_ns = cv__min64(last->until_ns, c.until_ns);
        }
    }
}

static int by_start(const void *a, const void *b)
{
    const struct claim *one = a, *two = b;
    return one->from_ns < two->from_ns ? -1 : one->from_ns > two->from_ns;
}

static void on_break(void *unused, enum cv_property property, const char *detail)
{
    (void)unused;
    (void)printf("broken: %s: %s\n", cv_property_name(property), detail);
}

static int judge(uint32_t node_count, char **path)
{
    char line[512];
    for (uint32_t i = 0; i < node_count; i++) {
        FILE *file = fopen(path[i], "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            read_claim(i + 1, line);
        }
        if (file != NULL) {
            (void)fclose(file); /* only read */
        }
    }
    qsort(claims, claim_count, sizeof claims[0], by_start);
    const struct cv_properties_setting setting = {
        .node_count = node_count,
        .promises = CV_PROP(AT_MOST_ONE_LEADER) | CV_PROP(TOKEN_MONOTONIC),
    };
    struct cv_properties properties;
    cv__properties_init(&properties, &setting, on_break, NULL);
    for (cv_id id = 1; id <= node_count; id++) {
        cv__properties_start(&properties, id, /* remembers= */ false);
    }
    for (uint32_t i = 0; i < claim_count; i++) {
        const struct claim *c = &claims[i];
        cv__properties_time(&properties, c->from_ns);
        if (properties.node[c->node - 1].holds) {
            cv__properties_end(&properties, c->node);
        }
        cv__properties_begin(&properties, c->node, c->token, c->until_ns);
    }
    const bool is_fine = !properties.broken[CV_PROPERTY_AT_MOST_ONE_LEADER].is_broken &&
                         !properties.broken[CV_PROPERTY_TOKEN_MONOTONIC].is_broken;
    cv__properties_fini(&properties);
    for (uint32_t i = 0; i < claim_count && !is_fine; i++) {
        const struct claim *c = &claims[i];
        (void)printf("node %u, process %ld: token %" PRIu64 " from %.6f to %.6f s\n", c->node,
                     c->pid, c->token, (double)(c->from_ns - claims[0].from_ns) / NS_PER_S,
                     (double)(c->until_ns - claims[0].from_ns) / NS_PER_S);
    }
    (void)printf("%u claims\n", claim_count);
    return is_fine ? 0 : 1;
}

int main(int argc, char **argv)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a killed test leaves no process behind */
    const bool allows_two = argc == 7 && strcmp(argv[6], "allows-two") == 0;
    if ((argc == 6 || allows_two) && strcmp(argv[1], "member") == 0) {
        return member(argv + 2, allows_two);
    }
    if (argc == 7 && strcmp(argv[1], "contender") == 0) {
        return contender(argv + 2);
    }
    if (argc > 2 && strcmp(argv[1], "judge") == 0) {
        return judge((uint32_t)argc - 2, argv + 2);
    }
    return 2;
}
