/* src/cli/cmd_sequencer.c - `conclave sequencer ADDRESS`: asks a real sequencer for numbers, and
 * reports how it answers [Wiesmann07, Table 1].
 *
 * Each client asks again as soon as it has its answer. A request that is not answered in time is
 * given up; its number, if there was one, becomes a gap. */
#include "cli/cli.h"
#include "lab/lab.h"

#include "base/json.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/loop.h"
#include "sequencers/sequencer.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS_MAX 256u
#define PATIENCE_MS 2000u

struct measurement;

struct client {
    struct measurement *all;
    struct cv_counter sequencer;
    uint64_t request; /* the latest */
    int64_t asked_ns;
};

struct measurement {
    uv_loop_t loop;
    uv_timer_t patience;
    struct client *client;
    uint32_t client_count;
    uint64_t wanted, asked;
    uint64_t *number;
    uint32_t number_count, number_capacity;
    uint64_t largest;      /* CV_SEQUENCE_NONE: none yet */
    uint64_t failed;       /* requests without a number */
    uint64_t answers_then; /* numbers, when the timer was started */
    struct cv_samples response_ms;
    int64_t begin_ns, end_ns;
    uint32_t busy_count; /* clients that have something to do */
    bool is_over;
};

static void ask(struct client *c)
{
    struct measurement *m = c->all;
    if (m->asked == m->wanted || m->is_over) {
        m->busy_count--;
        if (m->busy_count == 0) {
            m->end_ns = cv__clock_now_ns();
            uv_close((uv_handle_t *)&m->patience, NULL);
        }
        return;
    }
    m->asked++;
    c->request++;
    c->asked_ns = cv__clock_now_ns();
    c->sequencer.kind->ask(c->sequencer.self, c->request, m->largest);
}

static void on_number(void *self, uint64_t request, uint64_t number)
{
    struct client *c = self;
    struct measurement *m = c->all;
    if (request != c->request || m->is_over) {
        return; /* it was given up */
    }
    if (number == CV_SEQUENCE_NONE) {
        m->failed++;
        /* It fails at once: the next request waits for the timer, to avoid a flood of requests. */
        return;
    }
    cv__samples_add(&m->response_ms, (double)(cv__clock_now_ns() - c->asked_ns) / 1e6);
    m->number = cv__grow(m->number, &m->number_capacity, m->number_count, sizeof *m->number);
    m->number[m->number_count++] = number;
    if (m->largest == CV_SEQUENCE_NONE || number > m->largest) {
        m->largest = number;
    }
    ask(c);
}

static void on_trouble(void *self, const char *line)
{
    (void)self;
    (void)fprintf(stderr, "conclave: %s\n", line);
}

/* Ends the measurement if no client was answered since the last call; otherwise, clients that wait
 * for longer than that ask again. */
static void on_patience(uv_timer_t *timer)
{
    struct measurement *m = timer->data;
    const int64_t now_ns = cv__clock_now_ns();
    if (m->number_count == m->answers_then) {
        m->is_over = true;
    }
    m->answers_then = m->number_count;
    for (uint32_t i = 0; i < m->client_count && m->busy_count > 0; i++) {
        struct client *c = &m->client[i];
        if (m->is_over || now_ns - c->asked_ns > (int64_t)PATIENCE_MS * NS_PER_MS) {
            m->failed++;
            ask(c);
        }
    }
}

/* ---- Results --------------------------------------------------------------------------------- */

struct result {
    uint64_t first, last, missing, gap_count, twice;
    double mean_ms, p50_ms, p99_ms, max_ms, seconds, per_second;
};

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static struct result result_of(struct measurement *m)
{
    CV_ASSERT(m->number_count > 0);
    qsort(m->number, m->number_count, sizeof *m->number, compare);
    struct result r = {.first = m->number[0], .last = m->number[m->number_count - 1]};
    for (uint32_t i = 1; i < m->number_count; i++) {
        const uint64_t step = m->number[i] - m->number[i - 1];
        r.twice += step == 0;
        r.gap_count += step > 1;
        r.missing += step > 1 ? step - 1 : 0;
    }
    r.mean_ms = cv__samples_mean(&m->response_ms);
    r.p50_ms = cv__samples_percentile(&m->response_ms, 50);
    r.p99_ms = cv__samples_percentile(&m->response_ms, 99);
    r.max_ms = cv__samples_percentile(&m->response_ms, 100);
    r.seconds = (double)(m->end_ns - m->begin_ns) / 1e9;
    r.per_second = r.seconds > 0 ? m->number_count / r.seconds : 0;
    return r;
}

static void print_result(const struct measurement *m, const struct result *r, const char *address)
{
    (void)printf("%s: %u numbers for %u client%s in %.3f s\n", address, m->number_count,
                 m->client_count, m->client_count == 1 ? "" : "s", r->seconds);
    (void)printf("numbers     %" PRIu64 " to %" PRIu64 "\n", r->first, r->last);
    (void)printf("gaps        %" PRIu64 " numbers missing in %" PRIu64 " gaps; %" PRIu64
                 " requests without an answer; %" PRIu64 " numbers given twice\n",
                 r->missing, r->gap_count, m->failed, r->twice);
    (void)printf("response    %.3f ms on average, %.3f median, %.3f 99 %%, %.3f longest\n",
                 r->mean_ms, r->p50_ms, r->p99_ms, r->max_ms);
    (void)printf("throughput  %.0f numbers/s\n", r->per_second);
    (void)printf("the paper   10 to 15 ms, 68 to 98 numbers/s ([Wiesmann07, Table 1]: two switches "
                 "of 2006, one client)\n");
}

static void json_result(const struct measurement *m, const struct result *r, const char *address)
{
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "sequencer", address);
    cv__json_uint(&json, "clients", m->client_count);
    cv__json_uint(&json, "count", m->number_count);
    cv__json_uint(&json, "failed", m->failed);
    if (m->number_count > 0) {
        cv__json_uint(&json, "first", r->first);
        cv__json_uint(&json, "last", r->last);
        cv__json_uint(&json, "missing", r->missing);
        cv__json_uint(&json, "gaps", r->gap_count);
        cv__json_uint(&json, "twice", r->twice);
        cv__json_double(&json, "response_mean_ms", r->mean_ms);
        cv__json_double(&json, "response_p50_ms", r->p50_ms);
        cv__json_double(&json, "response_p99_ms", r->p99_ms);
        cv__json_double(&json, "response_max_ms", r->max_ms);
        cv__json_double(&json, "seconds", r->seconds);
        cv__json_double(&json, "numbers_per_s", r->per_second);
    }
    cv__json_bool(&json, "ok", m->number_count == m->wanted && r->twice == 0);
    cv__json_close(&json, '}');
    (void)printf("\n");
}

/* ---- The command ----------------------------------------------------------------------------- */

struct settings {
    const char *address;
    uint64_t count, clients;
    bool is_json, lists;
};

static bool parse(int argc, char **argv, struct settings *settings)
{
    static const struct option longs[] = {
        {"count", required_argument, NULL, 'n'},
        {"clients", required_argument, NULL, 'c'},
        {"list", no_argument, NULL, 'l'},
        {"json", no_argument, NULL, 'j'},
        {0},
    };
    int option;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
        switch (option) {
        case 'n':
            if (!cv__command_number("--count", optarg, 1, 100000000, &settings->count)) {
                return false;
            }
            break;
        case 'c':
            if (!cv__command_number("--clients", optarg, 1, CLIENTS_MAX, &settings->clients)) {
                return false;
            }
            break;
        case 'l':
            settings->lists = true;
            break;
        case 'j':
            settings->is_json = true;
            break;
        default:
            return false; /* a complaint was printed */
        }
    }
    if (optind + 1 != argc) {
        cv__complain(optind < argc ? "sequencer takes one ADDRESS; '%s' is one too many"
                                   : "which sequencer? snmp:HOST:PORT/COMMUNITY or "
                                     "file:PATH",
                     optind < argc ? argv[optind + 1] : "");
        return false;
    }
    if (settings->is_json && settings->lists) {
        cv__complain("--list and --json cannot be combined");
        return false;
    }
    settings->address = argv[optind];
    return true;
}

/* False: it could not be opened, and a complaint was printed. */
static bool measure(struct measurement *m, const char *address)
{
    bool is_open = true;
    struct cv_errtext why;
    if (cv__loop_init(&m->loop, &why) != CV_OK) {
        cv__complain("%s", why.text);
        return false;
    }
    uint32_t opened = 0;
    for (; opened < m->client_count && is_open; opened++) {
        struct client *c = &m->client[opened];
        c->all = m;
        const struct cv_sequencer_events events = {c, on_number, opened == 0 ? on_trouble : NULL};
        is_open = cv__sequencer_open(&m->loop, address, &events, &c->sequencer, &why) == CV_OK;
    }
    if (is_open) {
        (void)uv_timer_init(&m->loop, &m->patience); /* cannot fail */
        m->patience.data = m;
        (void)uv_timer_start(&m->patience, on_patience, PATIENCE_MS, PATIENCE_MS);
        m->busy_count = m->client_count;
        m->begin_ns = cv__clock_now_ns();
        for (uint32_t i = 0; i < m->client_count; i++) {
            ask(&m->client[i]);
        }
        while (m->busy_count > 0) {
            (void)uv_run(&m->loop, UV_RUN_ONCE);
        }
    } else {
        opened--;
        cv__complain("%s", why.text);
    }
    for (uint32_t i = 0; i < opened; i++) {
        m->client[i].sequencer.kind->close(m->client[i].sequencer.self, NULL, NULL);
    }
    (void)uv_run(&m->loop, UV_RUN_DEFAULT);
    const int result = uv_loop_close(&m->loop);
    CV_ASSERT(result == 0); /* every handle is closed */
    return is_open;
}

static int run(int argc, char **argv)
{
    struct settings settings = {.count = 1000, .clients = 1};
    if (!parse(argc, argv, &settings)) {
        return EXIT_USAGE;
    }
    struct measurement m = {.wanted = settings.count,
                            .client_count = (uint32_t)settings.clients,
                            .largest = CV_SEQUENCE_NONE};
    m.client = cv__allocate(m.client_count, sizeof *m.client);
    int status = EXIT_USAGE;
    if (measure(&m, settings.address)) {
        for (uint32_t i = 0; settings.lists && i < m.number_count; i++) {
            (void)printf("%" PRIu64 "\n", m.number[i]);
        }
        struct result r = {0};
        if (m.number_count > 0) {
            r = result_of(&m);
        }
        if (settings.is_json) {
            json_result(&m, &r, settings.address);
        } else if (m.number_count > 0) {
            print_result(&m, &r, settings.address);
        } else {
            (void)fprintf(stderr, "conclave: '%s' gave no number\n", settings.address);
        }
        status = m.number_count == m.wanted && r.twice == 0 ? EXIT_FINE : EXIT_NO;
    }
    cv__samples_fini(&m.response_ms);
    free(m.number);
    free(m.client);
    return status;
}

const struct cv_verb cv__verb_sequencer = {
    .name = "sequencer",
    .summary = "measure a sequencer: gaps, response time, throughput",
    .help = "usage: conclave sequencer ADDRESS [--count N] [--clients K] [--list] [--json]\n\n"
            "Takes N numbers (default 1000) from a sequencer, with K clients at once (default 1). "
            "Each\n"
            "client asks again as soon as it has an answer. Prints the numbers, the gaps between "
            "them,\n"
            "the response time and the throughput, next to those of the paper's switches.\n\n"
            "  snmp:HOST[:PORT][/COMMUNITY]  the request counter of an SNMP agent (port 161; the\n"
            "                                community is $CONCLAVE_SNMP_COMMUNITY or public)\n"
            "  file:PATH                     a counter in a file, for the processes of one host\n\n"
            "  --list   print each number, in ascending order\n"
            "  --json   print one object\n\n"
            "Exit status: 0 N numbers, all different; 1 fewer, duplicates, or no answer for 2 s;\n"
            "2 wrong usage.\n",
    .run = run,
    .is_told = true,
};
