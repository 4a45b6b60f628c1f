/* src/cli/cmd_history.c - `conclave history NAME`: the audit trail, and who led at an instant. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "core/duration.h"
#include "os/clock.h"
#include "runtime/trail.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct settings {
    bool has_at, is_json;
    int64_t at_ns, since_ns, now_ns;
    /* The previous line: the next one says for how long nobody led between them. */
    int64_t last_to_ns;
    bool has_last;
    uint64_t shown_count;
    struct cv_json json;
};

/* 2026-11-16T01:02:03[.5][Z], with a blank for the T and without seconds too; @SECONDS; or a time
 * like 10min, for that long ago. */
static bool instant_parse(const char *text, int64_t now_ns, int64_t *ret_ns)
{
    int64_t value_ns;
    if (cv__duration_parse(text, &value_ns)) {
        *ret_ns = now_ns - value_ns;
        return true;
    }
    if (text[0] == '@') {
        const char *end = cv__decimal_parse(text + 1, ret_ns);
        return end != NULL && *end == '\0';
    }
    struct tm local = {.tm_isdst = -1};
    const char *rest = strptime(text, "%Y-%m-%d", &local);
    if (rest == NULL) {
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

static void print_json(struct settings *s, const struct cv_store_past *past, int64_t gap_ns)
{
    cv__json_open(&s->json, NULL, '{');
    cv__json_text(&s->json, "leader", past->node);
    cv__json_uint(&s->json, "token", past->token);
    cv__json_seconds(&s->json, "from_unix_s", past->from_wall_ns);
    if (past->to_wall_ns != 0) {
        cv__json_seconds(&s->json, "to_unix_s", past->to_wall_ns);
        cv__json_text(&s->json, "why", past->why);
    } else {
        cv__json_null(&s->json, "to_unix_s");
        cv__json_null(&s->json, "why");
    }
    if (gap_ns >= 0) {
        cv__json_seconds(&s->json, "nobody_before_s", gap_ns);
    } else {
        cv__json_null(&s->json, "nobody_before_s");
    }
    cv__json_close(&s->json, '}');
}

static void print_text(const struct cv_store_past *past, int64_t now_ns, int64_t gap_ns)
{
    print_instant(past->from_wall_ns);
    (void)printf("  ");
    if (past->to_wall_ns != 0) {
        print_instant(past->to_wall_ns);
    } else {
        (void)printf("%-23s", "(still leads)");
    }
    const int64_t to_ns = past->to_wall_ns != 0 ? past->to_wall_ns : now_ns;
    cv__print(stdout, "  %10.3f s  %6llu  %-12s  %s", (double)(to_ns - past->from_wall_ns) / 1e9,
              (unsigned long long)past->token, past->to_wall_ns != 0 ? past->why : "", past->node);
    if (gap_ns >= 0) {
        (void)printf("  (nobody for %.3f s before)", (double)gap_ns / 1e9);
    }
    (void)printf("\n");
}

static void on_past(void *user, const struct cv_store_past *past)
{
    struct settings *s = user;
    const int64_t gap_ns = s->has_last && past->from_wall_ns >= s->last_to_ns
                               ? past->from_wall_ns - s->last_to_ns
                               : -1;
    s->last_to_ns = past->to_wall_ns;
    s->has_last = past->to_wall_ns != 0;
    const int64_t to_ns = past->to_wall_ns != 0 ? past->to_wall_ns : INT64_MAX;
    const bool is_wanted =
        s->has_at ? past->from_wall_ns <= s->at_ns && s->at_ns < to_ns : to_ns >= s->since_ns;
    if (!is_wanted) {
        return;
    }
    s->shown_count++;
    if (s->is_json) {
        print_json(s, past, gap_ns);
    } else {
        print_text(past, s->now_ns, gap_ns);
    }
}

static int parse(int argc, char **argv, struct settings *s, const char **ret_via)
{
    static const struct option longs[] = {{"via", required_argument, NULL, 'v'},
                                          {"at", required_argument, NULL, 'a'},
                                          {"since", required_argument, NULL, 's'},
                                          {"json", no_argument, NULL, 'j'},
                                          {0}};
    int option;
    while ((option = cv__next_option(argc, argv, "", longs)) != -1) {
        switch (option) {
        case 'v':
            *ret_via = optarg;
            break;
        case 'a':
        case 's':
            if (!instant_parse(optarg, s->now_ns, option == 'a' ? &s->at_ns : &s->since_ns)) {
                return cv__wrong_usage("--%s takes an instant like '2026-01-31 14:00', @SECONDS or "
                                       "10min (ago), not '%s'",
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
    if (argc - optind != 1 || !cv__election_name_is_valid(argv[optind])) {
        return cv__wrong_usage("history takes the name of one election");
    }
    return EXIT_FINE;
}

static int run(int argc, char **argv)
{
    struct settings s = {.now_ns = cv__clock_wall_ns(), .since_ns = INT64_MIN};
    const char *via = NULL;
    int status = parse(argc, argv, &s, &via);
    if (status != EXIT_FINE) {
        return status;
    }
    char *address;
    const struct cv_store_kind *kind = cv__inquiry_kind(via, &address);
    if (kind == NULL) {
        return EXIT_USAGE;
    }
    struct cv_errtext error;
    s.json.out = stdout;
    if (s.is_json) {
        cv__json_open(&s.json, NULL, '[');
    }
    if (cv__trail_read(kind, address, argv[optind], on_past, &s, &error) != CV_OK) {
        free(address);
        return cv__cannot("%s", error.text);
    }
    if (s.is_json) {
        cv__json_close(&s.json, ']');
        (void)printf("\n");
    }
    free(address);
    if (s.shown_count == 0) {
        cv__complain("%s: nobody is known to have led%s", argv[optind], s.has_at ? " then" : "");
        return EXIT_NO;
    }
    return EXIT_FINE;
}

const struct cv_verb cv__verb_history = {
    .name = "history",
    .summary = "who led when, and why it changed",
    .help = "usage: conclave history NAME [--at TIME] [--since TIME] [--via ADDRESS] [--json]\n\n"
            "Prints every leadership: from, to, how long, token, why it ended, who; and for how\n"
            "long nobody led before it.\n\n"
            "  --at TIME      only who led at that instant\n"
            "  --since TIME   only what lasted until then or longer\n"
            "  --via ADDRESS  where the election is held; default: a file of this user\n"
            "  --json         a list of objects\n\n"
            "TIME is '2026-01-31 14:00[:05]' in local time, '2026-01-31T14:00:05Z', @SECONDS of\n"
            "Unix time, or a duration like 10min, for that long ago.\n"
            "Exit status: 0 found, 1 nobody led, 2 wrong usage or no answer.\n",
    .run = run,
};
