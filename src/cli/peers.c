/* src/cli/peers.c - see peers.h. */
#include "cli/peers.h"

#include "base/command.h"
#include "base/json.h"
#include "cli/follow.h"
#include "cli/inquiry.h"
#include "core/core.h"
#include "core/duration.h"
#include "os/clock.h"
#include "os/realtime.h"
#include "runtime/guest.h"
#include "runtime/peers.h"
#include "runtime/peers_trail.h"
#include "runtime/reach.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SCHEME "peers:"
#define WAIT_NS NS_PER_S               /* for members that do not answer */
#define LOOK_NS (50 * NS_PER_MS)       /* between two looks */
#define RESIGN_LOOK_NS (5 * NS_PER_MS) /* a hand-over takes a millisecond */

#define TRAIL_NS_MAX (200 * NS_PER_MS) /* until a change is in the trail */
#define TRAIL_LOOK_NS (10 * NS_PER_MS)
#define NAMES_BYTES (CV_CLUSTER_MEMBERS_MAX * (CV_NODE_BYTES + 2))
#define LEASE_TEXT_BYTES (2 * CV_DURATION_TEXT_BYTES + 8)

/* One question to a cluster. */
struct asking {
    const char *path; /* of the file */
    struct cv_cluster cluster;
    struct cv_guest *guest;
    struct cv_guest_status status[CV_CLUSTER_MEMBERS_MAX];
    uint32_t answered;
    cv_id leader;

    /* What the trails of members on this host say; without any of them, nothing is known. */
    bool has_trail;
    int64_t since_wall_ns;     /* of the present leadership; 0: not known */
    struct cv_store_past last; /* the latest leadership that has ended; token 0: not known */
};

bool cv__cli_peers_is(const char *address)
{
    return address != NULL && strncmp(address, SCHEME, strlen(SCHEME)) == 0;
}

static void asking_free(struct asking *a)
{
    if (a != NULL) {
        cv__guest_close(a->guest);
        free(a);
    }
}

/* NULL: it was said why. */
static struct asking *asking_new(const char *path, const char *election)
{
    struct cv_errtext why = {""};
    struct asking *a = calloc(1, sizeof *a);
    if (a == NULL || cv__cluster_read(path, &a->cluster, &why) != CV_OK ||
        cv__guest_open(&a->cluster, election, &a->guest, &why) != CV_OK) {
        cv__complain("%s", a == NULL ? "out of memory" : why.text);
        asking_free(a);
        return NULL;
    }
    a->path = path;
    return a;
}

static void ask(struct asking *a, int64_t wait_ns)
{
    a->answered = cv__guest_ask(a->guest, wait_ns, a->status);
    a->leader = cv__guest_leader(a->status, a->cluster.member_count);
}

static const char *name_of(const struct asking *a, cv_id id)
{
    return a->cluster.member[id - 1].name;
}

static uint64_t token_of(const struct asking *a)
{
    uint64_t token = 0;
    for (uint32_t i = 0; i < a->cluster.member_count && a->leader == CV_ID_NONE; i++) {
        token = a->status[i].token > token ? a->status[i].token : token;
    }
    return a->leader != CV_ID_NONE ? a->status[a->leader - 1].token : token;
}

static int64_t lease_of(const struct asking *a)
{
    const struct cv_protocol *protocol = a->cluster.protocol;
    return protocol->lease_ns != NULL ? protocol->lease_ns(&a->cluster.config) : 0;
}

/* "50ms", or "10ms to 1s" where the leader chooses it. */
static const char *lease_format(const struct cv_cluster *c, char buffer[LEASE_TEXT_BYTES])
{
    const struct cv_protocol *protocol = c->protocol;
    char least[CV_DURATION_TEXT_BYTES], most[CV_DURATION_TEXT_BYTES];
    const int64_t most_ns = protocol->lease_ns(&c->config);
    const int64_t least_ns =
        protocol->lease_ns_min != NULL ? protocol->lease_ns_min(&c->config) : most_ns;
    (void)snprintf(buffer, LEASE_TEXT_BYTES, "%s%s%s",
                   least_ns < most_ns ? cv__duration_format(least_ns, least) : "",
                   least_ns < most_ns ? " to " : "", cv__duration_format(most_ns, most));
    return buffer;
}

static bool is_waiting(const struct asking *a, cv_id id)
{
    const struct cv_guest_status *s = &a->status[id - 1];
    return s->has_answered && s->has_joined && id != a->leader;
}

/* The members that would lead next: "b, c"; or "nobody". */
static const char *waiting_of(const struct asking *a, char *buffer, size_t buffer_bytes)
{
    size_t length = (size_t)snprintf(buffer, buffer_bytes, "nobody");
    const char *comma = "";
    for (cv_id id = 1; id <= a->cluster.member_count; id++) {
        if (is_waiting(a, id) && length < buffer_bytes) {
            length = *comma == '\0' ? 0 : length;
            length += (size_t)snprintf(buffer + length, buffer_bytes - length, "%s%s", comma,
                                       name_of(a, id));
            comma = ", ";
        }
    }
    return buffer;
}

static void pause_for(int64_t ns)
{
    const struct timespec pause = {.tv_nsec = (long)ns};
    (void)nanosleep(&pause, NULL); /* a shorter one only asks sooner */
}

/* ---- What the trail knows -------------------------------------------------------------------- */

static void on_past(void *user, const struct cv_store_past *past)
{
    struct asking *a = user;
    if (past->token == token_of(a) && a->leader != CV_ID_NONE) {
        a->since_wall_ns = past->from_wall_ns;
    } else if (past->to_wall_ns != 0 && past->token > a->last.token &&
               (a->leader == CV_ID_NONE || past->token <= token_of(a))) {
        a->last = *past;
    }
}

/* The token of the leader; if there is none, the latest one: members that follow nobody do not
 * say. */
static uint64_t token_known(const struct asking *a)
{
    const uint64_t token = token_of(a);
    return a->leader == CV_ID_NONE && a->last.token > token ? a->last.token : token;
}

static void ignore(void *user, const char *line)
{
    (void)user;
    (void)line; /* `conclave history` tells of damaged files */
}

static void read_trail(struct asking *a, const char *election)
{
    struct cv_errtext unused; /* no member is on this host, or this user may not read its files */
    a->since_wall_ns = 0;
    a->last = (struct cv_store_past){.token = 0};
    a->has_trail =
        cv__peers_trail_read(&a->cluster, NULL, election, on_past, ignore, a, &unused) == CV_OK;
}

/* Members write a change to the trail a moment after it happened. */
static void await_trail(struct asking *a, const char *election, uint64_t ended_token)
{
    const int64_t until_ns = cv__clock_now_ns() + TRAIL_NS_MAX;
    read_trail(a, election);
    while (a->has_trail && ended_token != 0 && a->last.token < ended_token &&
           cv__clock_now_ns() < until_ns) {
        pause_for(TRAIL_LOOK_NS);
        read_trail(a, election);
    }
}

static void json_last(struct cv_json *json, const struct asking *a)
{
    const bool is_known = a->last.token != 0;
    cv__json_text_or_null(json, "last_leader", a->last.node);
    if (is_known) {
        cv__json_uint(json, "last_token", a->last.token);
    } else {
        cv__json_null(json, "last_token");
    }
    cv__json_text_or_null(json, "last_reason", a->last.why);
    if (is_known) {
        cv__json_seconds(json, "last_end_unix_s", a->last.to_wall_ns);
    } else {
        cv__json_null(json, "last_end_unix_s");
    }
}

/* ---- status ---------------------------------------------------------------------------------- */

/* The same keys as for a store. */
static void print_json(const struct asking *a, const char *election)
{
    struct cv_json json = {.out = stdout};
    const bool is_held = a->leader != CV_ID_NONE;
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "election", election);
    if (is_held) {
        cv__json_text(&json, "leader", name_of(a, a->leader));
    } else {
        cv__json_null(&json, "leader");
    }
    if (is_held && lease_of(a) != 0) {
        cv__json_seconds(&json, "remaining_s", a->status[a->leader - 1].left_ns);
        cv__json_seconds(&json, "lease_s", lease_of(a));
    } else {
        cv__json_null(&json, "remaining_s");
        cv__json_null(&json, "lease_s");
    }
    if (is_held && a->since_wall_ns != 0) {
        cv__json_seconds(&json, "since_unix_s", a->since_wall_ns);
    } else {
        cv__json_null(&json, "since_unix_s");
    }
    cv__json_uint(&json, "token", token_known(a));
    cv__json_text_or_null(&json, "ended",
                          !is_held && a->last.token == token_known(a) ? a->last.why : "");
    cv__json_bool(&json, "asked_to_resign", false);
    cv__json_open(&json, "waiting", '[');
    for (cv_id id = 1; id <= a->cluster.member_count; id++) {
        if (is_waiting(a, id)) {
            cv__json_open(&json, NULL, '{');
            cv__json_text(&json, "node", name_of(a, id));
            cv__json_null(&json, "since_unix_s");
            cv__json_close(&json, '}');
        }
    }
    cv__json_close(&json, ']');
    json_last(&json, a);
    cv__json_uint(&json, "answered", a->answered);
    cv__json_uint(&json, "members", a->cluster.member_count);
    cv__json_close(&json, '}');
    (void)printf("\n");
}

static void print_around(const struct asking *a)
{
    char names[NAMES_BYTES], until[CV_INQUIRY_WALL_BYTES];
    cv__print(stdout, "  waiting: %s\n", waiting_of(a, names, sizeof names));
    if (a->last.token != 0) {
        cv__print(stdout, "  before: %s, token %llu, until %s (%s)\n", a->last.node,
                  (unsigned long long)a->last.token,
                  cv__inquiry_wall_text(a->last.to_wall_ns, until), a->last.why);
    }
}

static void print_text(const struct asking *a, const char *election)
{
    char lease[LEASE_TEXT_BYTES], left[CV_DURATION_TEXT_BYTES], since[CV_INQUIRY_WALL_BYTES];
    if (a->leader == CV_ID_NONE) {
        const bool is_explained = a->last.token != 0 && a->last.token == token_known(a);
        cv__print(stdout, "%s: nobody leads (last token %llu%s%s)", election,
                  (unsigned long long)token_known(a), is_explained ? ", " : "",
                  is_explained ? a->last.why : "");
    } else {
        cv__print(stdout, "%s: %s leads, token %llu", election, name_of(a, a->leader),
                  (unsigned long long)token_of(a));
    }
    if (a->leader != CV_ID_NONE && a->since_wall_ns != 0) {
        cv__print(stdout, ", since %s", cv__inquiry_wall_text(a->since_wall_ns, since));
    }
    if (a->leader != CV_ID_NONE && lease_of(a) != 0) {
        const int64_t left_ms = a->status[a->leader - 1].left_ns / NS_PER_MS;
        cv__print(stdout, ", %s left of a lease of %s",
                  cv__duration_format(left_ms * NS_PER_MS, left), lease_format(&a->cluster, lease));
    }
    cv__print(stdout, "; %u of %u members answer\n", a->answered, a->cluster.member_count);
}

/* Has the member another file than ours? */
static bool differs(const struct asking *a, cv_id id)
{
    struct cv_peers_same said;
    return cv__guest_differs(a->guest, id, &said);
}

static uint32_t complain_of_differences(const struct asking *a)
{
    const struct cv_peers_same ours = cv__reach_same(&a->cluster);
    char file[PATH_MAX + sizeof "''"], line[CV_ERRTEXT_BYTES];
    uint32_t count = 0;
    (void)snprintf(file, sizeof file, "'%s'", a->path);
    for (cv_id id = 1; id <= a->cluster.member_count; id++) {
        struct cv_peers_same said;
        if (cv__guest_differs(a->guest, id, &said)) {
            cv__complain("%s", cv__reach_difference(name_of(a, id), &said, file, &ours, line));
            count++;
        }
    }
    return count;
}

/* Members with another number of members give answers that cannot be read. */
static int fail_silent(const struct asking *a)
{
    if (complain_of_differences(a) > 0) {
        return EXIT_CANNOT;
    }
    return cv__cannot("none of the %u members of '%s' answers: they do not run, cannot be reached, "
                      "or use another key or election",
                      a->cluster.member_count, a->cluster.name);
}

int cv__cli_peers_status(const char *address, const char *election, bool is_json)
{
    struct asking *a = asking_new(address + strlen(SCHEME), election);
    if (a == NULL) {
        return EXIT_CANNOT;
    }
    ask(a, WAIT_NS);
    read_trail(a, election);
    int status = a->leader != CV_ID_NONE ? EXIT_FINE : EXIT_NO;
    if (a->answered == 0) {
        status = fail_silent(a);
    } else if (is_json) {
        print_json(a, election);
    } else {
        print_text(a, election);
        print_around(a);
    }
    asking_free(a);
    return status;
}

/* ---- resign ---------------------------------------------------------------------------------- */

/* Until another leads; the leader may need a while to stop its work. An heir may be passed over:
 * one that began a moment ago may be bound by an earlier promise, and another is elected. */
static int await_change(struct asking *a, const char *election, const struct cv_cluster_member *to,
                        int64_t until_ns)
{
    const cv_id heir = to != NULL ? to->id : CV_ID_NONE;
    const char *heir_name = to != NULL ? to->name : NULL;
    const cv_id old = a->leader;
    const uint64_t token = token_of(a);
    for (;;) {
        if (a->leader == old && token_of(a) == token) {
            cv__guest_request_resign(a->guest, old, token, heir); /* datagrams are lost */
        }
        pause_for(RESIGN_LOOK_NS);
        ask(a, NS_PER_S / 5);
        if (a->leader != CV_ID_NONE && token_of(a) != token) {
            return cv__inquiry_tell_resigned(election, name_of(a, a->leader), token_of(a),
                                             heir_name);
        }
        if (cv__clock_now_ns() >= until_ns) {
            break;
        }
    }
    if (a->leader == CV_ID_NONE) {
        return cv__inquiry_tell_resigned(election, NULL, 0, heir_name);
    }
    cv__complain("%s: %s still leads", election, name_of(a, a->leader));
    return EXIT_NO;
}

/* EXIT_FINE: before that instant it leads, or waits to lead. */
static int await_heir(struct asking *a, const char *election, const struct cv_cluster_member *to,
                      int64_t until_ns)
{
    while (to->id != a->leader && !is_waiting(a, to->id)) {
        if (cv__clock_now_ns() >= until_ns) {
            char names[NAMES_BYTES];
            cv__complain(
                "%s: %s is not waiting, so the leader was not asked to resign; waiting: %s",
                election, to->name, waiting_of(a, names, sizeof names));
            return EXIT_NO;
        }
        pause_for(LOOK_NS);
        ask(a, NS_PER_S / 5);
    }
    return EXIT_FINE;
}

static int resign(struct asking *a, const char *election, const struct cv_cluster_member *to,
                  int64_t begin_ns, int64_t wait_ns)
{
    const int64_t until_ns = begin_ns + (wait_ns >= 0 ? wait_ns : CV_RESIGN_WAIT_NS);
    if (a->answered == 0) {
        return fail_silent(a);
    }
    if (to != NULL && await_heir(a, election, to, begin_ns + cv__max64(wait_ns, 0)) != EXIT_FINE) {
        return EXIT_NO;
    }
    if (a->leader == CV_ID_NONE) {
        cv__complain("%s: nobody leads", election);
        return EXIT_NO;
    }
    if (to != NULL && to->id == a->leader) {
        cv__print(stdout, "%s: %s leads already\n", election, to->name);
        return EXIT_FINE;
    }
    return await_change(a, election, to, until_ns);
}

int cv__cli_peers_resign(const char *address, const char *election, const char *heir,
                         int64_t wait_ns)
{
    struct asking *a = asking_new(address + strlen(SCHEME), election);
    if (a == NULL) {
        return EXIT_CANNOT;
    }
    const struct cv_cluster_member *to = heir != NULL ? cv__cluster_find(&a->cluster, heir) : NULL;
    const int64_t begin_ns = cv__clock_now_ns();
    struct cv_errtext why;
    int status;
    if (heir != NULL && to == NULL) {
        (void)cv__cluster_fail_member(&a->cluster, heir, &why);
        status = cv__wrong_usage("%s", why.text);
    } else {
        ask(a, WAIT_NS);
        status = resign(a, election, to, begin_ns, wait_ns);
    }
    asking_free(a);
    return status;
}

/* ---- watch ----------------------------------------------------------------------------------- */

/* Somebody leads, or nobody does: a leader would be known to one of any majority. */
static bool is_leader_known(const struct asking *a)
{
    bool is_followed = false;
    for (uint32_t i = 0; i < a->cluster.member_count; i++) {
        is_followed =
            is_followed || (a->status[i].has_answered && a->status[i].leader != CV_ID_NONE);
    }
    return a->leader != CV_ID_NONE || (!is_followed && 2 * a->answered > a->cluster.member_count);
}

static void print_change_json(const struct asking *a, const char *election)
{
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_seconds(&json, "t_unix_s", cv__clock_wall_ns());
    cv__json_text(&json, "election", election);
    cv__json_text(&json, "role", "observer");
    cv__json_text_or_null(&json, "leader", a->leader != CV_ID_NONE ? name_of(a, a->leader) : "");
    cv__json_bool(&json, "leader_known", is_leader_known(a));
    cv__json_uint(&json, "token", token_known(a));
    json_last(&json, a);
    cv__json_close(&json, '}');
    (void)printf("\n");
}

/* As `conclave watch` does for a store. What ended is told once, and only if its end was seen. */
static void print_change(const struct asking *a, const char *election, uint64_t ended_token)
{
    char when[CV_INQUIRY_WALL_BYTES];
    const int64_t now_ns = cv__clock_wall_ns();
    const char *text = cv__inquiry_wall_text(now_ns, when);
    const char *time = strchr(text, ' ');
    cv__print(stdout, "%s.%03d  %s: ", time != NULL ? time + 1 : text,
              (int)(now_ns % NS_PER_S / NS_PER_MS), election);
    const bool is_explained = ended_token != 0 && a->last.token == ended_token;
    if (a->leader == CV_ID_NONE) {
        cv__print(stdout, "nobody leads%s%s%s\n", is_explained ? " (" : "",
                  is_explained ? a->last.why : "", is_explained ? ")" : "");
        return;
    }
    cv__print(stdout, "%s leads, token %llu", name_of(a, a->leader),
              (unsigned long long)token_of(a));
    if (is_explained) {
        cv__print(stdout, " (token %llu: %s)", (unsigned long long)ended_token, a->last.why);
    }
    (void)printf("\n");
}

int cv__cli_peers_watch(const char *address, const char *election, bool is_json,
                        uint64_t change_max)
{
    struct asking *a = asking_new(address + strlen(SCHEME), election);
    if (a == NULL) {
        return EXIT_CANNOT;
    }
    sigset_t ends;
    cv__follow_block_ends(&ends);
    const struct timespec look = {.tv_nsec = LOOK_NS};
    cv_id shown_leader = CV_ID_NONE;
    uint64_t shown_token = 0, shown_count = 0;
    int64_t answered_ns = cv__clock_now_ns();
    bool is_silence_told = false, shown_known = false;
    int status = EXIT_FINE;
    do {
        ask(a, 2 * LOOK_NS);
        if (a->answered > 0) {
            answered_ns = cv__clock_now_ns();
            is_silence_told = false;
        } else if (!is_silence_told && cv__clock_now_ns() > answered_ns + WAIT_NS) {
            (void)fail_silent(a); /* and goes on: they may come back */
            is_silence_told = true;
            if (is_json) { /* programs that read this need it, too */
                print_change_json(a, election);
                status = cv__command_flush(status);
                shown_leader = CV_ID_NONE;
                shown_known = false;
                shown_count++;
            }
        }
        /* While nobody leads, the token of the next leadership may rise. */
        const bool is_change = shown_count == 0 || a->leader != shown_leader ||
                               (a->leader != CV_ID_NONE && token_of(a) != shown_token) ||
                               (is_json && is_leader_known(a) != shown_known);
        if (a->answered > 0 && is_change) {
            const uint64_t ended_token = shown_leader != CV_ID_NONE ? shown_token : 0;
            shown_leader = a->leader;
            shown_known = is_leader_known(a);
            shown_token = token_of(a);
            shown_count++;
            await_trail(a, election, ended_token);
            if (is_json) {
                print_change_json(a, election);
            } else {
                print_change(a, election, ended_token);
            }
            status = cv__command_flush(status);
        }
    } while (status == EXIT_FINE && (change_max == 0 || shown_count < change_max) &&
             sigtimedwait(&ends, NULL, &look) < 0);
    asking_free(a);
    return status;
}

/* ---- members --------------------------------------------------------------------------------- */

/* How one member hears the others, and they it; of times and drifts the worst. */
struct hearing {
    uint32_t hears, is_heard_by;
    int64_t delay_ns, round_ns;
    int64_t drift_ppb; /* INT64_MIN: not known */
    uint64_t received, lost;
};

static struct hearing hearing_of(const struct asking *a, cv_id id)
{
    struct hearing h = {.drift_ppb = INT64_MIN};
    for (uint32_t i = 0; i < a->cluster.member_count; i++) {
        const struct cv_guest_link *ours = &a->status[id - 1].link[i];
        const struct cv_guest_link *theirs = &a->status[i].link[id - 1];
        if (i + 1 == id) {
            continue;
        }
        h.hears += ours->is_heard && ours->ago_ns < 5 * NS_PER_S;
        h.is_heard_by +=
            a->status[i].has_answered && theirs->is_heard && theirs->ago_ns < 5 * NS_PER_S;
        if (ours->is_heard && ours->delay_ns != INT64_MAX) {
            h.delay_ns = cv__max64(h.delay_ns, ours->delay_ns);
            h.round_ns = cv__max64(h.round_ns, ours->round_ns);
        }
        if (ours->is_heard && ours->drift_ppb != INT64_MIN &&
            (h.drift_ppb == INT64_MIN || llabs(ours->drift_ppb) > llabs(h.drift_ppb))) {
            h.drift_ppb = ours->drift_ppb;
        }
        h.received += ours->received;
        h.lost += ours->lost;
    }
    return h;
}

static double loss_percent(const struct hearing *h)
{
    const uint64_t sent = h->received + h->lost;
    return sent > 0 ? 100.0 * (double)h->lost / (double)sent : 0;
}

static const char *state_of(const struct asking *a, cv_id id)
{
    const struct cv_guest_status *s = &a->status[id - 1];
    return differs(a, id)            ? "differs"
           : !s->has_answered        ? "no answer"
           : !s->has_joined          ? "joining"
           : s->is_leading           ? "leads"
           : s->leader != CV_ID_NONE ? "follows"
                                     : "no leader";
}

/* 0: not known, because nobody was heard. */
static void print_ms(int64_t ns, int width)
{
    if (ns == 0) {
        cv__print(stdout, "%*s", width + 3, "-");
    } else {
        cv__print(stdout, "%*.2f ms", width, (double)ns / 1e6);
    }
}

/* "-" where nothing is known. */
static void print_drift(const struct hearing *h)
{
    if (h->drift_ppb != INT64_MIN) {
        cv__print(stdout, " %+7.1f ppm", (double)h->drift_ppb / 1e3);
    } else {
        cv__print(stdout, " %11s", "-");
    }
}

static void print_table(const struct asking *a)
{
    (void)printf("%-16s %-10s %-16s %8s %6s %9s %9s %11s %7s %11s  %-8s  %s\n", "member", "state",
                 "leader", "token", "hears", "heard by", "delay", "round trip", "loss", "drift",
                 "boot", "version");
    for (cv_id id = 1; id <= a->cluster.member_count; id++) {
        const struct cv_guest_status *s = &a->status[id - 1];
        const struct hearing h = hearing_of(a, id);
        if (!s->has_answered) {
            cv__print(stdout, "%-16s %s\n", name_of(a, id), state_of(a, id));
            continue;
        }
        cv__print(stdout, "%-16s %-10s %-16s %8llu %4u/%u %6u/%-2u", name_of(a, id),
                  state_of(a, id), s->leader != CV_ID_NONE ? name_of(a, s->leader) : "-",
                  (unsigned long long)s->token, h.hears, a->cluster.member_count - 1, h.is_heard_by,
                  a->cluster.member_count - 1);
        print_ms(h.delay_ns, /* width= */ 7);
        print_ms(h.round_ns, /* width= */ 9);
        cv__print(stdout, " %6.2f%%", loss_percent(&h));
        print_drift(&h);
        cv__print(stdout, "  %08llx  %s\n", (unsigned long long)(s->life & UINT32_MAX), s->version);
    }
}

/* What the table does not say. */
static void complain_of_members(const struct asking *a)
{
    for (cv_id id = 1; id <= a->cluster.member_count; id++) {
        const struct cv_guest_status *s = &a->status[id - 1];
        if (s->has_answered && strcmp(s->version, cv_version()) != 0) {
            cv__complain("member '%s' runs %s; this is %s", name_of(a, id), s->version,
                         cv_version());
        }
    }
    if (a->answered == 0) {
        (void)fail_silent(a);
    } else {
        (void)complain_of_differences(a);
    }
}

static void print_table_json(const struct asking *a, const char *election)
{
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "cluster", a->cluster.name);
    cv__json_text(&json, "election", election);
    cv__json_open(&json, "members", '[');
    for (cv_id id = 1; id <= a->cluster.member_count; id++) {
        const struct cv_guest_status *s = &a->status[id - 1];
        const struct hearing h = hearing_of(a, id);
        char life[20];
        (void)snprintf(life, sizeof life, "%016llx", (unsigned long long)s->life);
        cv__json_open(&json, NULL, '{');
        cv__json_text(&json, "name", name_of(a, id));
        cv__json_text(&json, "state", state_of(a, id));
        if (s->leader != CV_ID_NONE) {
            cv__json_text(&json, "leader", name_of(a, s->leader));
        } else {
            cv__json_null(&json, "leader");
        }
        cv__json_uint(&json, "token", s->token);
        cv__json_uint(&json, "hears", h.hears);
        cv__json_uint(&json, "heard_by", h.is_heard_by);
        cv__json_seconds(&json, "delay_max_s", h.delay_ns);
        cv__json_seconds(&json, "round_trip_s", h.round_ns);
        if (h.drift_ppb != INT64_MIN) {
            cv__json_double(&json, "clock_drift_ppm", (double)h.drift_ppb / 1e3);
        } else {
            cv__json_null(&json, "clock_drift_ppm");
        }
        cv__json_uint(&json, "received", h.received);
        cv__json_uint(&json, "lost", h.lost);
        cv__json_text(&json, "start", life);
        cv__json_text(&json, "version", s->version);
        cv__json_close(&json, '}');
    }
    cv__json_close(&json, ']');
    cv__json_close(&json, '}');
    (void)printf("\n");
}

int cv__cli_peers_table(const char *path, const char *election, bool is_json)
{
    struct asking *a = asking_new(path, election);
    if (a == NULL) {
        return EXIT_CANNOT;
    }
    ask(a, WAIT_NS);
    if (is_json) {
        print_table_json(a, election);
    } else {
        print_table(a);
        complain_of_members(a);
    }
    int status = a->answered == a->cluster.member_count ? EXIT_FINE : EXIT_NO;
    for (cv_id id = 1; id <= a->cluster.member_count; id++) {
        status = differs(a, id) ? EXIT_NO : status;
    }
    asking_free(a);
    return status;
}

/* ---- report ---------------------------------------------------------------------------------- */

int cv__cli_peers_report(const char *address, const char *election, const char *node,
                         const bool has_value[CV_INPUT_COUNT], const int64_t value[CV_INPUT_COUNT])
{
    struct asking *a = asking_new(address + strlen(SCHEME), election);
    if (a == NULL) {
        return EXIT_CANNOT;
    }
    struct cv_errtext why;
    cv_id member;
    int status = EXIT_FINE;
    if (cv__reach_self(&a->cluster, node, &member, &why) != CV_OK) {
        status = cv__wrong_usage("%s", why.text);
    }
    for (uint32_t i = 0; i < CV_INPUT_COUNT && status == EXIT_FINE; i++) {
        if (has_value[i] &&
            !cv__guest_report(a->guest, member, (enum cv_input)i, value[i], WAIT_NS)) {
            status = cv__cannot("member '%s' does not answer", name_of(a, member));
        }
    }
    asking_free(a);
    return status;
}

static uint32_t count_of_site(const struct asking *a, const char *site, bool must_answer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->cluster.member_count; i++) {
        count += strcmp(a->cluster.member[i].site, site) == 0 &&
                 (!must_answer || a->status[i].has_answered);
    }
    return count;
}

/* The remainder goes to the first members, so that the sum is the rate of the site. */
static int report_rate(struct asking *a, const char *site, int64_t rate)
{
    int64_t left_count = count_of_site(a, site, /* must_answer= */ true);
    for (uint32_t i = 0; i < a->cluster.member_count; i++) {
        if (strcmp(a->cluster.member[i].site, site) != 0 || !a->status[i].has_answered) {
            continue;
        }
        const int64_t share = (rate + left_count - 1) / left_count;
        const cv_id id = (cv_id)(i + 1);
        if (!cv__guest_report(a->guest, id, CV_INPUT_REQUEST_RATE, share, WAIT_NS)) {
            return cv__cannot("member '%s' does not answer any more", name_of(a, id));
        }
        rate -= share;
        left_count--;
    }
    return EXIT_FINE;
}

int cv__cli_peers_report_site(const char *address, const char *election, const char *site,
                              int64_t request_rate)
{
    struct asking *a = asking_new(address + strlen(SCHEME), election);
    if (a == NULL) {
        return EXIT_CANNOT;
    }
    int status;
    if (count_of_site(a, site, /* must_answer= */ false) == 0) {
        status = cv__wrong_usage("no member of '%s' has site = %s", a->cluster.name, site);
    } else {
        ask(a, WAIT_NS);
        status = count_of_site(a, site, /* must_answer= */ true) > 0
                     ? report_rate(a, site, request_rate)
                     : cv__cannot("no member of site '%s' answers", site);
    }
    asking_free(a);
    return status;
}

/* ---- history --------------------------------------------------------------------------------- */

static void complain(void *user, const char *line)
{
    (void)user;
    cv__complain("%s", line);
}

int cv__cli_peers_history(const char *address, const char *node, const char *election,
                          void (*past)(void *user, const struct cv_store_past *past), void *user)
{
    static struct cv_cluster cluster; /* some kilobytes */
    struct cv_errtext why;
    if (cv__cluster_read(address + strlen(SCHEME), &cluster, &why) != CV_OK ||
        cv__peers_trail_read(&cluster, node, election, past, complain, user, &why) != CV_OK) {
        return cv__cannot("%s", why.text);
    }
    return EXIT_FINE;
}

/* ---- explain --------------------------------------------------------------------------------- */

static void explain_json(const struct cv_cluster *c, bool is_exclusive, int64_t lease_ns)
{
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "store", "peers");
    cv__json_text(&json, "protocol", c->protocol->name);
    cv__json_uint(&json, "members", c->member_count);
    cv__json_uint(&json, "members_needed", c->member_count / 2 + 1);
    cv__json_bool(&json, "at_most_one_leader", is_exclusive);
    if (lease_ns != 0) {
        cv__json_seconds(&json, "lease_s", lease_ns);
    } else {
        cv__json_null(&json, "lease_s");
    }
    struct cv_errtext why;
    cv__json_seconds(&json, "lease_floor_s", cv__cli_peers_lease_floor_ns(c, &why));
    cv__json_bool(&json, "locks_memory", cv__cli_peers_locks_memory(c, &why));
    cv__json_seconds(&json, "crash_takeover_max_s", c->protocol->settle_ns(&c->config));
    cv__json_double(&json, "drift_tolerated_ppm", (double)c->config.drift_ppb / 1e3);
    cv__json_close(&json, '}');
    (void)printf("\n");
}

static void explain_text(const struct cv_cluster *c, bool is_exclusive, int64_t lease_ns)
{
    char text[CV_DURATION_TEXT_BYTES];
    const uint32_t needed = c->member_count / 2 + 1;
    cv__print(stdout, "peers: %s among the %u members of %s, generation %u\n", c->protocol->name,
              c->member_count, c->name, c->generation);
    (void)printf("  %-46s %s\n", "two leaders at once",
                 is_exclusive ? "never, whatever is lost, slow, stopped or killed" : "possible");
    if (is_exclusive) {
        (void)printf("  %-46s %u of %u: %u may fail\n", "members that must be connected", needed,
                     c->member_count, c->member_count - needed);
        (void)printf("  %-46s %g ppm for each clock\n", "clock drift that is safe",
                     (double)c->config.drift_ppb / 1e3);
    }
    if (lease_ns != 0) {
        struct cv_errtext why;
        const int64_t floor_ns = cv__cli_peers_lease_floor_ns(c, &why);
        char lease[LEASE_TEXT_BYTES];
        (void)lease_format(c, lease);
        (void)printf("  %-46s %s%s\n", "lease", lease,
                     strchr(lease, ' ') != NULL ? ", as the leader measures" : "");
        (void)printf("  %-46s %s: %s%s\n", "shortest lease for a busy machine",
                     cv__duration_format(floor_ns, text), why.text,
                     c->is_realtime && floor_ns == CV_LEASE_FLOOR_NS_USUAL ? " (" CV_REALTIME_GRANT
                                                                             ")"
                                                                           : "");
        const bool locks = cv__cli_peers_locks_memory(c, &why);
        (void)printf("  %-46s %s: %s%s\n", "leases when memory is short",
                     locks ? "kept" : "can be lost without a fault", why.text,
                     c->is_realtime && !locks ? " (" CV_MEMORY_GRANT ")" : "");
    }
    (void)printf("  %-46s %s; usually soon after the lease\n", "crash: another leads after at most",
                 cv__duration_format(c->protocol->settle_ns(&c->config), text));
    (void)printf(
        "This holds while those members run without long pauses and messages arrive within the\n"
        "time that the options of the protocol allow.\n");
}

int cv__cli_peers_explain(const char *address, bool is_json)
{
    static struct cv_cluster cluster; /* some kilobytes */
    struct cv_errtext why;
    if (cv__cluster_read(address + strlen(SCHEME), &cluster, &why) != CV_OK) {
        return cv__cannot("%s", why.text);
    }
    uint32_t promises, assumes;
    cv__core_contract(cluster.protocol, &cluster.config, &promises, &assumes);
    const bool is_exclusive = (promises & CV_PROP(AT_MOST_ONE_LEADER)) != 0;
    const int64_t lease_ns =
        cluster.protocol->lease_ns != NULL ? cluster.protocol->lease_ns(&cluster.config) : 0;
    if (is_json) {
        explain_json(&cluster, is_exclusive, lease_ns);
    } else {
        explain_text(&cluster, is_exclusive, lease_ns);
    }
    return EXIT_FINE;
}
