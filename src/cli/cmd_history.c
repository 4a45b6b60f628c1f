/* src/cli/cmd_history.c - `conclave history NAME`: the audit trail, and who led at an instant. */
#include "base/json.h"
#include "base/screen.h"
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "cli/peers.h"
#include "core/duration.h"
#include "os/clock.h"
#include "runtime/period.h"
#include "runtime/runs.h"
#include "runtime/trail.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct settings {
    const char *via, *node;
    bool has_at, is_json;
    int64_t at_ns, since_ns, now_ns;
    /* The previous leadership, to print how long nobody led after it. */
    struct cv_store_past last;
    bool has_last;
    uint64_t shown_count;
    bool is_narrow;  /* no room for a table */
    int token_width; /* of the column; 0: nothing was printed yet */
    char alike[CV_ALIKE_BYTES];
    struct cv_json json;
    const struct cv_store_kind *kind; /* NULL: there is no store to ask */
    const char *address, *election;
};

#define TABLE_COLUMNS_MIN 105u /* for a table and a short name */

/* strptime() knows how many days the longest month has, but not this one. */
static bool day_exists(const struct tm *day)
{
    struct tm date = {.tm_year = day->tm_year, .tm_mon = day->tm_mon, .tm_mday = day->tm_mday};
    (void)timegm(&date); /* -1 may be an instant; it moves a day that does not exist */
    return date.tm_mday == day->tm_mday;
}

/* 2026-11-16T01:02:03[.5][Z], with a blank for the T and without seconds too; @SECONDS; or a time
 * like 10min or 3d, for that long ago. */
static bool instant_parse(const char *text, int64_t now_ns, int64_t *ret_ns)
{
    int64_t value_ns;
    int64_t value_s;
    if (cv__duration_parse(text, &value_ns)) {
        *ret_ns = now_ns - value_ns;
        return true;
    }
    if (cv__period_parse(text, &value_s)) { /* days and weeks */
        *ret_ns = now_ns - value_s * NS_PER_S;
        return true;
    }
    if (text[0] == '@') {
        const char *end = cv__decimal_parse(text + 1, ret_ns);
        return end != NULL && *end == '\0';
    }
    struct tm local = {.tm_isdst = -1};
    const char *rest = strptime(text, "%Y-%m-%d", &local);
    if (rest == NULL || !day_exists(&local)) {
        return false;
    }
    if (*rest == 'T' || *rest == ' ') {
        const char *time_text = rest + 1;
        rest = strptime(time_text, "%H:%M:%S", &local);
        if (rest == NULL) {
            rest = strptime(time_text, "%H:%M", &local);
        }
    }
    if (rest == NULL) {
        return false;
    }
    int64_t fraction_ns = 0;
    if (*rest == '.') {
        char fraction[32];
        const size_t digits = strspn(rest + 1, "0123456789");
        (void)snprintf(fraction, sizeof fraction, "0.%.*s", (int)(digits < 9 ? digits : 9),
                       rest + 1);
        if (digits == 0 || cv__decimal_parse(fraction, &fraction_ns) == NULL) {
            return false;
        }
        rest += 1 + digits;
    }
    const bool is_utc = *rest == 'Z';
    rest += is_utc;
    const time_t seconds = is_utc ? timegm(&local) : mktime(&local);
    *ret_ns = (int64_t)seconds * NS_PER_S + fraction_ns;
    return *rest == '\0' && seconds != (time_t)-1;
}

static void print_instant(int64_t wall_ns)
{
    const time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm local;
    char text[32];
    (void)localtime_r(&seconds, &local);
    (void)strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    (void)printf("%s.%03d", text, (int)(wall_ns % NS_PER_S / NS_PER_MS));
}

/* How long nobody led before a leadership; negative: not known. The death or silence of a leader is
 * noticed late: counted from its last renewal, the time is an upper bound. A leader whose end was
 * recorded as the end of its lease may have stopped long before that: the time is a lower bound. */
struct gap {
    int64_t ns;
    bool is_upper_bound, is_lower_bound;
};

/* Its recorded end is the end of its lease, or the time when its key was found missing. */
static bool may_have_ended_before(const struct cv_store_past *past)
{
    return strcmp(past->why, cv_reason_name(CV_REASON_EXPIRED)) == 0 ||
           strcmp(past->why, cv_reason_name(CV_REASON_STORE_UNREACHABLE)) == 0 ||
           strcmp(past->why, cv_reason_name(CV_REASON_GONE)) == 0;
}

static bool is_noticed_late(const struct cv_store_past *past)
{
    return strcmp(past->why, cv_reason_name(CV_REASON_DIED)) == 0 ||
           strcmp(past->why, cv_reason_name(CV_REASON_SUSPECTED)) == 0;
}

static struct gap gap_before(const struct settings *s, const struct cv_store_past *past)
{
    const bool is_late = is_noticed_late(&s->last);
    const int64_t since_ns = is_late ? s->last.alive_wall_ns : s->last.to_wall_ns;
    const bool is_known = s->has_last && since_ns != 0 && past->from_wall_ns >= since_ns;
    return (struct gap){.ns = is_known ? past->from_wall_ns - since_ns : -1,
                        .is_upper_bound = is_late,
                        .is_lower_bound = may_have_ended_before(&s->last)};
}

static void print_json(struct settings *s, const struct cv_store_past *past, struct gap gap)
{
    cv__json_open(&s->json, NULL, '{');
    cv__json_text(&s->json, "leader", past->node);
    cv__json_uint(&s->json, "token", past->token);
    cv__json_seconds(&s->json, "from_unix_s", past->from_wall_ns);
    if (past->to_wall_ns != 0) {
        cv__json_seconds(&s->json, "to_unix_s", past->to_wall_ns);
    } else {
        cv__json_null(&s->json, "to_unix_s");
    }
    if (past->why[0] != '\0') {
        cv__json_text(&s->json, "why", past->why);
    } else {
        cv__json_null(&s->json, "why");
    }
    if (past->alive_wall_ns != 0) {
        cv__json_seconds(&s->json, "last_renewed_unix_s", past->alive_wall_ns);
    } else {
        cv__json_null(&s->json, "last_renewed_unix_s");
    }
    if (gap.ns >= 0) {
        cv__json_seconds(&s->json, "nobody_before_s", gap.ns);
    } else {
        cv__json_null(&s->json, "nobody_before_s");
    }
    cv__json_bool(&s->json, "nobody_before_is_at_most", gap.is_upper_bound);
    cv__json_bool(&s->json, "nobody_before_is_at_least", gap.is_lower_bound);
    cv__json_close(&s->json, '}');
}

/* Tokens of ZooKeeper have ten digits and more. The first one of a table tells. */
static void choose_width(struct settings *s, uint64_t token)
{
    if (s->token_width == 0) {
        s->token_width = token > 999999 ? 12 : 6;
    }
}

static void print_header(int width)
{
    (void)printf("%-23s  %-23s  %12s  %*s  %-17s  %s\n", "from", "to", "lasted", width, "token",
                 "why ended", "leader");
}

static void print_notes(const struct cv_store_past *past, struct gap gap)
{
    if (is_noticed_late(past) && past->alive_wall_ns != 0) {
        (void)printf("  (last renewed %.3f s before its end)",
                     (double)(past->to_wall_ns - past->alive_wall_ns) / 1e9);
    } else if (may_have_ended_before(past) && past->to_wall_ns != 0) {
        (void)printf("  (ended then or before)");
    }
    if (gap.ns >= (gap.is_lower_bound ? NS_PER_MS : 0)) { /* "at least 0.000 s" says nothing */
        (void)printf("  (nobody for %s%.3f s before)",
                     gap.is_upper_bound   ? "at most "
                     : gap.is_lower_bound ? "at least "
                                          : "",
                     (double)gap.ns / 1e9);
    }
    (void)printf("\n");
}

static void print_text(const struct settings *s, const struct cv_store_past *past, struct gap gap)
{
    const bool is_over = past->why[0] != '\0';
    char lasted[32] = "-"; /* it is over, but its end is not known */
    if (!is_over || past->to_wall_ns != 0) {
        const int64_t to_ns = is_over ? past->to_wall_ns : s->now_ns;
        (void)snprintf(lasted, sizeof lasted, "%.3f s", (double)(to_ns - past->from_wall_ns) / 1e9);
    }
    const unsigned long long token = past->token;
    print_instant(past->from_wall_ns);
    (void)printf("  ");
    if (s->is_narrow) {
        cv__print(stdout, "%s\n", past->node);
        cv__print(stdout, "  token %llu, %s %s%s%s", token, is_over ? "led for" : "has led for",
                  lasted, is_over ? ", " : "", past->why);
        print_notes(past, gap);
        return;
    }
    if (past->to_wall_ns != 0) {
        print_instant(past->to_wall_ns);
    } else {
        (void)printf("%-23s", is_over ? "(not known)" : "(still leads)");
    }
    cv__print(stdout, "  %12s  %*llu  %-17s  %s", lasted, s->token_width, token, past->why,
              past->node);
    print_notes(past, gap);
}

/* A leadership has no recorded end if nobody took part since. Asks the store whether it is over. */
static struct cv_store_past ask_for_end(const struct settings *s, const struct cv_store_past *seen)
{
    struct cv_inquiry inquiry;
    struct cv_errtext unused;
    struct cv_store_past past = *seen;
    if (s->kind == NULL ||
        cv__inquire(s->kind, s->address, s->election, /* asks_to_resign= */ false, NULL, &inquiry,
                    &unused) != CV_OK) {
        return past; /* not known */
    }
    const struct cv_store_record *r = &inquiry.record;
    const bool is_free = inquiry.verdict != CV_STORE_HELD;
    if (!is_free && r->token == past.token) {
        return past;
    }
    const bool is_last = past.token == r->last.token && r->last.why != CV_REASON_STARTED;
    const bool is_record = is_free && r->token == past.token;
    const enum cv_reason why = is_last                                      ? r->last.why
                               : is_record && r->ended != CV_REASON_STARTED ? r->ended
                                                                            : CV_REASON_GONE;
    (void)snprintf(past.why, sizeof past.why, "%s", cv_reason_name(why));
    past.to_wall_ns = is_last ? r->last.wall_ns : is_record ? r->ended_wall_ns : 0;
    return past;
}

static void on_past(void *user, const struct cv_store_past *seen)
{
    struct settings *s = user;
    const struct cv_store_past known = seen->to_wall_ns == 0 ? ask_for_end(s, seen) : *seen;
    const struct cv_store_past *past = &known;
    const struct gap gap = gap_before(s, past);
    s->last = *past;
    s->has_last = past->to_wall_ns != 0;
    const int64_t to_ns = past->to_wall_ns != 0 ? past->to_wall_ns : INT64_MAX;
    const bool is_wanted =
        s->has_at ? past->from_wall_ns <= s->at_ns && s->at_ns < to_ns : to_ns >= s->since_ns;
    if (!is_wanted) {
        return;
    }
    choose_width(s, past->token);
    if (s->is_json) {
        print_json(s, past, gap);
    } else {
        if (s->shown_count == 0 && !s->is_narrow) {
            print_header(s->token_width);
        }
        print_text(s, past, gap);
    }
    s->shown_count++;
}

/* ---- Runs of `conclave run --every` ---------------------------------------------------------- */

static void print_run_json(struct settings *s, const struct cv_job_run *run)
{
    cv__json_open(&s->json, NULL, '{');
    cv__json_seconds(&s->json, "period_unix_s", run->period_s * NS_PER_S);
    cv__json_text(&s->json, "node", run->node);
    cv__json_uint(&s->json, "token", run->token);
    cv__json_seconds(&s->json, "start_unix_s", run->start_ms * NS_PER_MS);
    if (run->status >= 0) {
        cv__json_seconds(&s->json, "end_unix_s", run->end_ms * NS_PER_MS);
        cv__json_uint(&s->json, "status", (uint64_t)run->status);
    } else {
        cv__json_null(&s->json, "end_unix_s");
        cv__json_null(&s->json, "status");
    }
    cv__json_close(&s->json, '}');
}

static void print_run_narrow(const struct cv_job_run *run)
{
    char period[CV_PERIOD_TEXT_BYTES];
    cv__print(stdout, "%s  %s\n", cv__period_text(run->period_s, period), run->node);
    (void)printf("  from ");
    print_instant(run->start_ms * NS_PER_MS);
    if (run->status >= 0) {
        (void)printf(" to ");
        print_instant(run->end_ms * NS_PER_MS);
        (void)printf(", status %d", run->status);
    } else {
        (void)printf(", not ended");
    }
    (void)printf(", token %llu\n", (unsigned long long)run->token);
}

static void print_run(const struct settings *s, const struct cv_job_run *run)
{
    char period[CV_PERIOD_TEXT_BYTES];
    (void)printf("%s  ", cv__period_text(run->period_s, period));
    print_instant(run->start_ms * NS_PER_MS);
    (void)printf("  ");
    if (run->status >= 0) {
        print_instant(run->end_ms * NS_PER_MS);
        (void)printf("  %6d", run->status);
    } else {
        (void)printf("%-23s  %6s", "(not ended)", "-");
    }
    (void)printf("  %*llu  %s\n", s->token_width, (unsigned long long)run->token, run->node);
}

static bool run_is_wanted(const struct settings *s, const struct cv_job_run *run)
{
    const int64_t end_ns = run->status >= 0 ? run->end_ms * NS_PER_MS : INT64_MAX;
    return s->has_at ? run->start_ms * NS_PER_MS <= s->at_ns && s->at_ns < end_ns
                     : end_ns >= s->since_ns;
}

/* False: the store cannot be asked. The leaderships have been printed by then. */
static bool show_runs(struct settings *s, const struct cv_store_kind *kind, const char *address,
                      const char *election)
{
    static struct cv_store_runs stored;
    static struct cv_runs runs;
    enum cv_store_verdict verdict;
    struct cv_errtext error;
    if (cv__inquire_runs(kind, address, election, &stored, CV_INQUIRY_MS, &verdict, &error) !=
        CV_OK) {
        cv__complain("cannot show the runs: %s", error.text);
        return false;
    }
    bool has_head = s->is_json;
    cv__runs_read(stored.text, &runs);
    for (uint32_t i = 0; i < runs.count; i++) {
        if (!run_is_wanted(s, &runs.run[i])) {
            continue;
        }
        choose_width(s, runs.run[i].token);
        if (!has_head && s->is_narrow) {
            (void)printf("%sruns, by period:\n", s->shown_count > 0 ? "\n" : "");
            has_head = true;
        } else if (!has_head) {
            (void)printf("%s%-25s  %-23s  %-23s  %6s  %*s  %s\n", s->shown_count > 0 ? "\n" : "",
                         "PERIOD", "START", "END", "STATUS", s->token_width, "TOKEN", "NODE");
            has_head = true;
        }
        s->shown_count++;
        if (s->is_json) {
            print_run_json(s, &runs.run[i]);
        } else if (s->is_narrow) {
            print_run_narrow(&runs.run[i]);
        } else {
            print_run(s, &runs.run[i]);
        }
    }
    return true;
}

static int parse(int argc, char **argv, struct settings *s)
{
    static const struct option longs[] = {
        {"via", required_argument, NULL, 'v'}, {"node", required_argument, NULL, 'n'},
        {"at", required_argument, NULL, 'a'},  {"since", required_argument, NULL, 's'},
        {"json", no_argument, NULL, 'j'},      {0}};
    int option;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
        switch (option) {
        case 'v':
            s->via = optarg;
            break;
        case 'n':
            s->node = optarg;
            break;
        case 'a':
        case 's':
            if (!instant_parse(optarg, s->now_ns, option == 'a' ? &s->at_ns : &s->since_ns)) {
                return cv__wrong_usage("--%s takes a time such as '2026-01-31 14:00', @SECONDS, or "
                                       "10min, 2h, 3d ago, not '%s'",
                                       option == 'a' ? "at" : "since", optarg);
            }
            s->has_at = s->has_at || option == 'a';
            break;
        case 'j':
            s->is_json = true;
            break;
        default:
            return EXIT_USAGE;
        }
    }
    if (argc - optind != 1 || !cv__store_election_is_valid(argv[optind])) {
        return cv__wrong_usage("history takes the name of one election");
    }
    s->via = cv__inquiry_via(s->via);
    if (s->node != NULL && !cv__cli_peers_is(s->via)) {
        return cv__wrong_usage("--node works only with a cluster (--via peers:FILE)");
    }
    return EXIT_FINE;
}

static int show_store(struct settings *s, const char *election)
{
    char *address;
    const struct cv_store_kind *kind = cv__inquiry_kind(s->via, &address);
    if (kind == NULL) {
        return EXIT_USAGE;
    }
    struct cv_errtext error;
    int status = EXIT_FINE;
    s->kind = kind;
    s->address = address;
    s->election = election;
    if (cv__inquire_trail(kind, address, election, on_past, s, &error) == CV_OK) {
        const bool is_answered = show_runs(s, kind, address, election);
        if (s->shown_count == 0 && !is_answered) {
            status =
                EXIT_CANNOT; /* the trail of this machine alone does not mean that nobody led */
        } else if (s->shown_count == 0) {
            (void)cv__inquire_alike(kind, address, election, s->alike);
        }
    } else {
        status = cv__cannot("%s", error.text);
    }
    free(address);
    return status;
}

static int run(int argc, char **argv)
{
    struct settings s = {.now_ns = cv__clock_wall_ns(),
                         .since_ns = INT64_MIN,
                         .is_narrow = cv__screen_limit() < TABLE_COLUMNS_MIN,
                         .json = {.out = stdout}};
    int status = parse(argc, argv, &s);
    if (status != EXIT_FINE) {
        return status;
    }
    const char *election = argv[optind];
    if (s.is_json) {
        cv__json_open(&s.json, NULL, '[');
    }
    status = cv__cli_peers_is(s.via) ? cv__cli_peers_history(s.via, s.node, election, on_past, &s)
                                     : show_store(&s, election);
    if (s.is_json) {
        cv__json_close(&s.json, ']');
        (void)printf("\n");
    }
    if (status != EXIT_FINE) {
        return status;
    }
    if (s.shown_count == 0) {
        cv__complain("%s: no leadership is recorded%s%s", election, s.has_at ? " then" : "",
                     s.alike);
        return EXIT_NO;
    }
    return EXIT_FINE;
}

const struct cv_verb cv__verb_history = {
    .name = "history",
    .summary = "show who led when, and why each leadership ended",
    .help =
        "usage: conclave history NAME [--at TIME] [--since TIME] [--via ADDRESS] [--node NAME]\n"
        "                        [--json]\n\n"
        "Prints every leadership: from, to, duration, token, why it ended, node, and how long\n"
        "there was no leader before it. 'conclave explain REASON' says what a reason means.\n"
        "Then prints the latest runs of 'conclave run --every'.\n\n"
        "  --at TIME      print only the leadership at this time\n"
        "  --since TIME   print only leaderships that lasted until this time or longer\n"
        "  --via ADDRESS  store or cluster of the election; default: $CONCLAVE_VIA, or a file\n"
        "                 of this user\n"
        "  --node NAME    for a cluster, print only what this member saw; default: all members\n"
        "                 that keep their state on this host\n"
        "  --json         print a list of objects\n\n"
        "TIME is '2026-01-31 14:00[:05]' in local time, '2026-01-31T14:00:05Z', @SECONDS of\n"
        "Unix time, or a duration such as 10min, 2h or 3d before now.\n"
        "Exit status: 0 found, 1 nobody led, 2 wrong usage or no answer.\n",
    .run = run,
    .is_told = true,
};
