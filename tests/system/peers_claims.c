/* tests/system/peers_claims.c - a member that records when it may act as the leader, and a judge of
 * what several of them recorded.
 *
 *   peers_claims member ELECTION FILE NODE LOG [allows-two]
 *                                takes part until it is killed; SIGTERM: closes the election
 *   peers_claims judge LOG...    one log for each member, in the order of their ids
 *
 * The member asks cv_leads() again and again, as an application would, and writes one line for each
 * change: "claim PID T TOKEN UNTIL" (from T on it may act, until UNTIL at least), "end PID T". All
 * processes are on one host, so the instants (CLOCK_BOOTTIME) are of one clock. The judge joins the
 * claims of one process with one token, and has src/properties look at them in the order in which
 * they began: at-most-one-leader and token-monotonic. Exit status 1: one of them is broken. */
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
#define CLAIMS_MAX 65536u

/* ---- A member -------------------------------------------------------------------------------- */

static volatile sig_atomic_t is_over;
static int log_fd;
static uint64_t claimed; /* the token of the claim that was written last; 0: it has ended */
static int64_t until_ns;

static void on_terminate(int unused)
{
    (void)unused;
    is_over = 1;
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

/* Whom it follows, and why it does not take part: for those who wait for that. */
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

/* A leadership without an end of its own: adding to what is left of it would not be a number. */
static int64_t end_of(int64_t now_ns, int64_t left_ns)
{
    return left_ns < INT64_MAX / 2 ? now_ns + left_ns : INT64_MAX;
}

static int member(char **argument, bool allows_two)
{
    struct cv_election *e;
    struct cv_errtext why;
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    char address[4096], line[160];
    options.node = argument[2];
    options.log = log_trouble;
    options.accepts_two_leaders = allows_two;
    log_fd = open(argument[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)snprintf(address, sizeof address, "peers:%s", argument[1]);
    if (log_fd < 0 || cv_open(&e, argument[0], address, &options, &why) != CV_OK) {
        (void)fprintf(stderr, "%s\n", log_fd < 0 ? "no log" : why.text);
        return 2;
    }
    (void)signal(SIGTERM, on_terminate);
    while (!is_over) {
        uint64_t token;
        int64_t left_ns;
        const bool leads = cv_leads(e, &token, &left_ns);
        const int64_t now_ns = cv__clock_now_ns();
        if (leads && (token != claimed || end_of(now_ns, left_ns) > until_ns)) {
            claimed = token;
            until_ns = end_of(now_ns, left_ns);
            (void)snprintf(line, sizeof line, "claim %ld %" PRId64 " %" PRIu64 " %" PRId64 "\n",
                           (long)getpid(), now_ns, token, until_ns);
            write_line(line);
        } else if (!leads && claimed != 0) {
            write_end();
        }
        look_at_others(e);
        struct pollfd wait = {.fd = cv_fd(e), .events = POLLIN};
        (void)poll(&wait, 1, LOOK_MS);
    }
    if (claimed != 0) {
        write_end();
    }
    cv_close(e);
    return 0;
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
    (void)printf("%u claims\n", claim_count);
    return is_fine ? 0 : 1;
}

int main(int argc, char **argv)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is left of a test that is killed */
    const bool allows_two = argc == 7 && strcmp(argv[6], "allows-two") == 0;
    if ((argc == 6 || allows_two) && strcmp(argv[1], "member") == 0) {
        return member(argv + 2, allows_two);
    }
    if (argc > 2 && strcmp(argv[1], "judge") == 0) {
        return judge((uint32_t)argc - 2, argv + 2);
    }
    return 2;
}
