/* src/cli/elect_multicast.c - `conclave elect NAME --via multicast:...`: takes part, prints one
 * line for each change, and resigns when it is interrupted.
 *
 * Not by cv_open() as the other addresses: that promises that nobody else leads until a certain
 * instant, and the protocols of a group whose members nobody knows cannot. */
#include "cli/cli.h"

#include "base/json.h"
#include "core/types.h"
#include "os/clock.h"
#include "runtime/multicast.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GOODBYES 3u          /* so often a resignation is said before we go ... */
#define GOODBYE_MS_MAX 1000u /* ... or so long it may take */
#define GOODBYE_LOOK_MS 2u

struct elect {
    uv_loop_t loop;
    uv_signal_t interrupted, terminated;
    uv_timer_t goodbye;
    struct cv_member *member;
    const char *name;
    bool is_json;
    uint64_t change_count, change_count_max; /* 0: no limit */
    bool is_leading;
    uint64_t token; /* of the latest leadership known */
    int status;

    bool is_leaving, is_closed;
    uint64_t sent_before; /* leaving */
    uint64_t waited_ms;
};

/* ---- What is told ---------------------------------------------------------------------------- */

static void print_json(const struct elect *e, const struct cv_leadership *l, const char *label)
{
    char self[20];
    (void)snprintf(self, sizeof self, "%016" PRIx64, cv__host_nonce(cv__member_host(e->member)));
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_seconds(&json, "t_unix_s", cv__clock_wall_ns());
    cv__json_text(&json, "election", e->name);
    cv__json_text(&json, "role", e->is_leading ? "leader" : "waiting");
    if (l->leader != CV_ID_NONE) {
        cv__json_text(&json, "leader", label);
    } else {
        cv__json_null(&json, "leader");
    }
    cv__json_uint(&json, "token", e->token);
    cv__json_text(&json, "reason", cv_reason_name(l->reason));
    cv__json_bool(&json, "has_majority", l->has_majority);
    cv__json_bool(&json, "asked_to_resign", false);
    cv__json_null(&json, "trouble"); /* it is told on stderr */
    cv__json_text(&json, "self", self);
    cv__json_close(&json, '}');
    (void)printf("\n");
}

static void print_change(struct elect *e, const struct cv_leadership *l)
{
    char label[20];
    (void)snprintf(label, sizeof label, "%016" PRIx64, l->label);
    if (l->leader != CV_ID_NONE) {
        e->token = l->token;
    }
    if (e->is_json) {
        print_json(e, l, label);
        return;
    }
    const int64_t now_ns = cv__clock_wall_ns();
    const time_t seconds = (time_t)(now_ns / NS_PER_S);
    struct tm local;
    char stamp[32];
    (void)localtime_r(&seconds, &local);
    (void)strftime(stamp, sizeof stamp, "%H:%M:%S", &local);
    (void)printf("%s.%03d  %s: ", stamp, (int)(now_ns % NS_PER_S / NS_PER_MS), e->name);
    if (l->leader == CV_ID_NONE) {
        (void)printf("nobody leads (%s)\n", cv_reason_name(l->reason));
    } else {
        (void)printf("%s leads%s, token %" PRIu64 " (%s)\n", label,
                     e->is_leading ? " (this process)" : "", l->token, cv_reason_name(l->reason));
    }
}

static void leave(struct elect *e);

static void on_leadership(void *self, const struct cv_leadership *leadership)
{
    struct elect *e = self;
    e->is_leading = leadership->is_self;
    print_change(e, leadership);
    if (fflush(stdout) != 0 && !e->is_leaving) {
        e->status = cv__usage_error("cannot write the output: %s", strerror(errno));
        leave(e); /* who reads it is gone, or the disk is full: nobody would know who leads */
    }
    if (leadership->reason == CV_REASON_STOPPED && !e->is_leaving) {
        e->status = EXIT_NO;
        leave(e);
    }
    if (++e->change_count == e->change_count_max && !e->is_leaving) {
        leave(e);
    }
}

static void on_trouble(void *self, const char *line)
{
    const struct elect *e = self;
    (void)fprintf(stderr, "conclave: %s: %s\n", e->name, line);
}

/* ---- Leaving --------------------------------------------------------------------------------- */

static void on_member_closed(void *data)
{
    struct elect *e = data;
    e->is_closed = true;
}

static void tell_counts(const struct elect *e)
{
    uint64_t dropped = 0;
    for (enum cv_frame_fate fate = CV_FRAME_FOREIGN; fate < CV_FRAME_FATE_COUNT; fate++) {
        dropped += cv__member_frames(e->member, fate);
    }
    const struct cv_host_counts *host = cv__host_counts(cv__member_host(e->member));
    const struct cv_sequencer_counts *sequencer = cv__member_sequencer(e->member);
    const uint64_t wrong = sequencer != NULL ? sequencer->refused + sequencer->strange : 0;
    /* What is still open counts as silence: it was asked and there is no answer. */
    const uint64_t silent = sequencer != NULL ? sequencer->asked - sequencer->answered - wrong : 0;
    if (dropped + host->malformed + wrong + silent == 0) {
        return;
    }
    (void)fprintf(stderr,
                  "conclave: %s: dropped %" PRIu64 " foreign, %" PRIu64 " of another version, "
                  "%" PRIu64 " damaged, %" PRIu64 " replayed, %" PRIu64 " malformed; sequencer: "
                  "%" PRIu64 " refused, %" PRIu64 " silent, %" PRIu64 " strange\n",
                  e->name, cv__member_frames(e->member, CV_FRAME_FOREIGN),
                  cv__member_frames(e->member, CV_FRAME_VERSION),
                  cv__member_frames(e->member, CV_FRAME_DAMAGED),
                  cv__member_frames(e->member, CV_FRAME_REPLAYED), host->malformed,
                  sequencer != NULL ? sequencer->refused : 0, silent,
                  sequencer != NULL ? sequencer->strange : 0);
}

static void close_all(struct elect *e)
{
    tell_counts(e);
    cv__member_close(e->member, on_member_closed, e);
    uv_close((uv_handle_t *)&e->goodbye, NULL);
    uv_close((uv_handle_t *)&e->interrupted, NULL);
    uv_close((uv_handle_t *)&e->terminated, NULL);
}

static void on_goodbye(uv_timer_t *timer)
{
    struct elect *e = timer->data;
    const uint64_t sent = cv__host_counts(cv__member_host(e->member))->sent - e->sent_before;
    e->waited_ms += GOODBYE_LOOK_MS;
    if (sent >= GOODBYES || e->waited_ms >= GOODBYE_MS_MAX) {
        close_all(e);
    }
}

/* A leader says that it is gone, a few times, because a datagram may be lost. The rest of it is
 * done by the loop: this may be called from within a step. */
static void leave(struct elect *e)
{
    CV_ASSERT(!e->is_leaving);
    e->is_leaving = true;
    e->sent_before = cv__host_counts(cv__member_host(e->member))->sent;
    e->waited_ms = e->is_leading ? 0 : GOODBYE_MS_MAX;
    cv__host_campaign(cv__member_host(e->member), /* is_candidate= */ false);
    (void)uv_timer_start(&e->goodbye, on_goodbye, 0, GOODBYE_LOOK_MS); /* it is not closed yet */
}

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    struct elect *e = signal->data;
    if (!e->is_leaving) {
        leave(e);
    } else if (!uv_is_closing((uv_handle_t *)&e->goodbye)) {
        close_all(e); /* asked twice: at once */
    }
}

/* ---- The command ----------------------------------------------------------------------------- */

struct settings {
    const char *name, *address;
    uint64_t change_count_max;
    bool is_json;
};

static bool parse(int argc, char **argv, struct settings *settings)
{
    static const struct option longs[] = {
        {"via", required_argument, NULL, 'v'},
        {"changes", required_argument, NULL, 'c'},
        {"json", no_argument, NULL, 'j'},
        {0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (option) {
        case 'v':
            settings->address = optarg;
            break;
        case 'c':
            if (!cv__option_number("--changes", optarg, 1, UINT64_MAX,
                                   &settings->change_count_max)) {
                return false;
            }
            break;
        case 'j':
            settings->is_json = true;
            break;
        default:
            return false; /* getopt said what is wrong */
        }
    }
    if (optind + 1 != argc || argv[optind][0] == '\0') {
        (void)cv__usage_error(optind < argc ? "elect takes one NAME, not '%s' too"
                                            : "elect takes the name of one election",
                              optind + 1 < argc ? argv[optind + 1] : "");
        return false;
    }
    CV_ASSERT(settings->address != NULL); /* or it would not be this function's */
    settings->name = argv[optind];
    return true;
}

static int elect(const struct settings *settings)
{
    struct elect e = {.name = settings->name,
                      .is_json = settings->is_json,
                      .change_count_max = settings->change_count_max};
    const struct cv_member_told told = {
        .self = &e, .leadership = on_leadership, .trouble = on_trouble};
    struct cv_errtext why;
    if (uv_loop_init(&e.loop) != 0) {
        return cv__usage_error("cannot make an event loop: %s", strerror(errno));
    }
    (void)uv_signal_init(&e.loop, &e.interrupted);
    (void)uv_signal_init(&e.loop, &e.terminated);
    (void)uv_timer_init(&e.loop, &e.goodbye); /* these three cannot fail on a new loop */
    e.interrupted.data = e.terminated.data = e.goodbye.data = &e;
    (void)uv_signal_start(&e.interrupted, on_signal, SIGINT);
    (void)uv_signal_start(&e.terminated, on_signal, SIGTERM);
    (void)signal(SIGPIPE, SIG_IGN); /* a reader that is gone shows as an error of writing */
    if (cv__member_open(&e.loop, e.name, settings->address, &told, &e.member, &why) != CV_OK) {
        e.status = cv__usage_error("%s", why.text);
        uv_close((uv_handle_t *)&e.goodbye, NULL);
        uv_close((uv_handle_t *)&e.interrupted, NULL);
        uv_close((uv_handle_t *)&e.terminated, NULL);
    } else {
        print_change(&e, cv__host_leadership(cv__member_host(e.member)));
        (void)fflush(stdout); /* the next line notices what is wrong */
    }
    (void)uv_run(&e.loop, UV_RUN_DEFAULT);
    const int result = uv_loop_close(&e.loop);
    CV_ASSERT(result == 0); /* every handle is closed */
    return e.status;
}

int cv__elect_multicast(int argc, char **argv)
{
    struct settings settings = {0};
    return parse(argc, argv, &settings) ? elect(&settings) : EXIT_USAGE;
}
