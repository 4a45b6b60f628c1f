/* src/cli/cmd_resign.c - `conclave resign NAME [--to NODE]`: asks the leader to hand over. */
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "cli/peers.h"
#include "core/duration.h"
#include "os/clock.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A contender that has resigned stands back at most 2 s, and asks again within an eighth of a
 * second; a busy machine takes longer. */
#define RETURN_NS (3 * NS_PER_S)
#define CUT_BYTES 37 /* a listed name of this length may be cut off (PostgreSQL) */

/* What is asked, and what was known before. */
struct request {
    const struct cv_store_kind *kind;
    const char *address, *name;
    const char *heir;             /* NULL: anybody */
    struct cv_store_list *before; /* the waiting contenders */
    struct cv_inquiry leader;
    struct cv_store_end found; /* another leadership since: node and token; token 0: none */
};

/* In a queue (etcd, ZooKeeper) the next contender counts as the holder as soon as it is the first,
 * also if it died and its lease is not over yet. If it takes over, it writes since when it leads;
 * until then this is since when it waits. */
static bool has_taken_over(const struct request *r, const struct cv_store_record *record)
{
    for (uint32_t i = 0; i < r->before->count; i++) {
        const struct cv_store_listed *one = &r->before->entry[i];
        if (strcmp(one->name, record->node) == 0 && one->queued_wall_ns != 0 &&
            one->queued_wall_ns == record->since_wall_ns) {
            return false;
        }
    }
    return true;
}

/* Remembers a leadership since the request: the heir's, or without an heir that of any other. */
static void note_past(struct request *r, const char *node, uint64_t token)
{
    const bool is_meant =
        r->heir != NULL ? strcmp(node, r->heir) == 0 : strcmp(node, r->leader.record.node) != 0;
    if (is_meant && token > r->leader.record.token && token > r->found.token) {
        r->found.token = token;
        (void)snprintf(r->found.node, sizeof r->found.node, "%s", node);
    }
}

static void on_past(void *user, const struct cv_store_past *past)
{
    if (past->to_wall_ns != 0) {
        note_past(user, past->node, past->token);
    }
}

/* Has such a leadership been over before we asked again? The record says who led before, or else
 * the trail. */
static bool has_passed(struct request *r, const struct cv_store_record *record)
{
    struct cv_errtext unused; /* without a trail it is not known */
    note_past(r, record->last.node, record->last.token);
    return r->found.token != 0 ||
           (cv__inquire_trail(r->kind, r->address, r->name, on_past, r, &unused) == CV_OK &&
            r->found.token != 0);
}

static bool heir_has_led(struct request *r, const struct cv_inquiry *now)
{
    const struct cv_store_record *record = &now->record;
    const bool is_held = now->verdict == CV_STORE_HELD;
    return r->heir != NULL && record->token > r->leader.record.token &&
           !(is_held && strcmp(record->node, r->heir) == 0) && has_passed(r, record);
}

static int tell_new_leader(struct request *r, const struct cv_store_record *record)
{
    if (r->heir == NULL && strcmp(record->node, r->leader.record.node) == 0) {
        if (has_passed(r, record)) {
            cv__print(stdout, "%s: %s took over, token %llu; %s leads again, token %llu\n", r->name,
                      r->found.node, (unsigned long long)r->found.token, record->node,
                      (unsigned long long)record->token);
            return EXIT_FINE;
        }
        cv__complain("%s: %s leads again, token %llu: no other contender took over", r->name,
                     record->node, (unsigned long long)record->token);
        return EXIT_NO;
    }
    return cv__inquiry_tell_resigned(r->name, record->node, record->token, r->heir);
}

/* The time is over. */
static int tell_present(const struct request *r, const struct cv_inquiry *now)
{
    if (now->verdict != CV_STORE_HELD) {
        return cv__inquiry_tell_resigned(r->name, NULL, 0, r->heir);
    }
    cv__complain(now->record.token != r->leader.record.token
                     ? "%s: %s is next, but has not taken over yet; it may be dead"
                     : "%s: %s still leads",
                 r->name, now->record.node);
    return EXIT_NO;
}

/* Waits until another contender leads; the leader may need a while to stop its work. With an heir,
 * it is a success only if the heir leads; without, also if nobody leads when the time is over. */
static int await_change(struct request *r, int64_t wait_ns)
{
    const int64_t until_ns = cv__clock_now_ns() + wait_ns;
    for (;;) {
        struct cv_inquiry inquiry;
        struct cv_errtext error;
        if (cv__inquire(r->kind, r->address, r->name, /* asks_to_resign= */ false, NULL, &inquiry,
                        &error) != CV_OK) {
            return cv__cannot("%s", error.text);
        }
        const struct cv_store_record *record = &inquiry.record;
        if (heir_has_led(r, &inquiry)) {
            cv__complain("%s: %s took over, but does not lead any more", r->name, r->heir);
            return EXIT_NO;
        }
        if (inquiry.verdict == CV_STORE_HELD && record->token != r->leader.record.token &&
            has_taken_over(r, record)) {
            return tell_new_leader(r, record);
        }
        if (cv__clock_now_ns() >= until_ns) {
            return tell_present(r, &inquiry);
        }
        const struct timespec pause = {.tv_nsec = 20 * NS_PER_MS};
        (void)nanosleep(&pause, NULL); /* if interrupted, it only asks sooner */
    }
}

/* A store may list only the beginning of a long name. PostgreSQL lists each byte that is not ASCII
 * as a question mark, from version 16 on as \xNN. */
static bool is_name_of(const char *listed, const char *node)
{
    const bool may_be_cut = strlen(listed) >= CUT_BYTES;
    for (; *listed != '\0' && *node != '\0'; node++) {
        const bool is_ascii = (unsigned char)*node < 0x80;
        if (*listed == *node || (!is_ascii && *listed == '?')) {
            listed++;
        } else if (!is_ascii && strncmp(listed, "\\x", 2) == 0) {
            listed += strlen(listed) < 4 ? strlen(listed) : 4;
        } else {
            return false;
        }
    }
    return *listed == '\0' && (*node == '\0' || may_be_cut);
}

static bool is_listed(const struct cv_store_list *list, const char *node)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (is_name_of(list->entry[i].name, node)) {
            return true;
        }
    }
    return list->is_partial || list->is_cut;
}

static void say_who_waits(const char *name, const char *heir, const struct cv_store_list *list)
{
    char names[512] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < list->count && length < sizeof names; i++) {
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "",
                                   list->entry[i].name);
    }
    cv__complain("%s: %s is not waiting, so the leader was not asked to resign; waiting: %s", name,
                 heir, list->count > 0 ? names : "nobody");
}

static void say_nobody_leads(const struct cv_store_kind *kind, const char *address,
                             const char *name)
{
    char alike[CV_ALIKE_BYTES];
    cv__complain("%s: nobody leads%s", name, cv__inquire_alike(kind, address, name, alike));
}

static bool leads_now(const struct cv_inquiry *seen, const char *node)
{
    return seen->verdict == CV_STORE_HELD && strcmp(seen->record.node, node) == 0;
}

static bool has_just_resigned(const struct cv_inquiry *seen, const char *node)
{
    const struct cv_store_end *last = &seen->record.last;
    return strcmp(last->node, node) == 0 && last->why == CV_REASON_RESIGNED;
}

/* Waits, at most this long, until the heir is a waiting contender, and a little if it has just
 * resigned: then it is not listed before it asks for the leadership again. EXIT_FINE: it is one, or
 * it leads already, and there is nothing to do. */
static int await_heir(const struct cv_store_kind *kind, const char *address, const char *name,
                      const char *heir, int64_t wait_ns, bool *ret_leads)
{
    const int64_t begin_ns = cv__clock_now_ns();
    struct cv_store_list *list = calloc(1, sizeof *list);
    int status = list == NULL ? cv__cannot("out of memory") : EXIT_NO;
    *ret_leads = false;
    while (status == EXIT_NO) {
        struct cv_inquiry seen;
        struct cv_errtext error;
        if (cv__inquire(kind, address, name, /* asks_to_resign= */ false, NULL, &seen, &error) !=
                CV_OK ||
            cv__inquire_list(kind, address, name, list, &error) != CV_OK) {
            status = cv__cannot("%s", error.text);
        } else if (leads_now(&seen, heir)) {
            *ret_leads = true;
            status = EXIT_FINE;
        } else if (is_listed(list, heir)) {
            status = EXIT_FINE;
        } else if (cv__clock_now_ns() - begin_ns >=
                   cv__max64(wait_ns, has_just_resigned(&seen, heir) ? RETURN_NS : 0)) {
            if (seen.verdict == CV_STORE_FREE && list->count == 0) {
                say_nobody_leads(kind, address, name);
            } else {
                say_who_waits(name, heir, list);
            }
            break;
        } else {
            const struct timespec pause = {.tv_nsec = 100 * NS_PER_MS};
            (void)nanosleep(&pause, NULL); /* if interrupted, it only asks sooner */
        }
    }
    free(list);
    return status;
}

static int ask(struct request *r, int64_t until_ns)
{
    struct cv_errtext error;
    if (cv__inquire_list(r->kind, r->address, r->name, r->before, &error) != CV_OK ||
        cv__inquire(r->kind, r->address, r->name, /* asks_to_resign= */ true, r->heir, &r->leader,
                    &error) != CV_OK) {
        return cv__cannot("%s", error.text);
    }
    if (r->leader.verdict == CV_STORE_FREE) {
        say_nobody_leads(r->kind, r->address, r->name);
        return EXIT_NO;
    }
    return await_change(r, until_ns - cv__clock_now_ns());
}

static int run(int argc, char **argv)
{
    static const struct option longs[] = {{"via", required_argument, NULL, 'v'},
                                          {"to", required_argument, NULL, 't'},
                                          {"wait", required_argument, NULL, 'w'},
                                          {0}};
    const char *via = NULL, *heir = NULL;
    int64_t wait_ns = -1;
    int option;
    while ((option = cv__command_option(argc, argv, "w:", longs)) != -1) {
        switch (option) {
        case 'v':
            via = optarg;
            break;
        case 't':
            heir = optarg;
            break;
        case 'w':
            if (!cv__command_time("--wait", optarg, &wait_ns)) {
                return EXIT_USAGE;
            }
            break;
        default:
            return EXIT_USAGE;
        }
    }
    if (argc - optind != 1 || !cv__store_election_is_valid(argv[optind])) {
        return cv__wrong_usage("resign takes the name of one election");
    }
    if (heir != NULL && (strlen(heir) >= CV_NODE_BYTES || !cv__store_election_is_valid(heir))) {
        return cv__wrong_usage("'%s' is not a valid name of a node", heir);
    }
    const char *name = argv[optind];
    if (cv__cli_peers_is(cv__inquiry_via(via))) {
        return cv__cli_peers_resign(cv__inquiry_via(via), name, heir, wait_ns);
    }
    char *address;
    const struct cv_store_kind *kind = cv__inquiry_kind(via, &address);
    if (kind == NULL) {
        return EXIT_USAGE;
    }
    const int64_t begin_ns = cv__clock_now_ns();
    bool leads_already = false;
    int status =
        heir != NULL ? await_heir(kind, address, name, heir, wait_ns, &leads_already) : EXIT_FINE;
    if (leads_already) {
        (void)printf("%s: %s leads already\n", name, heir);
    } else if (status == EXIT_FINE) {
        const int64_t until_ns = begin_ns + (wait_ns >= 0 ? wait_ns : CV_RESIGN_WAIT_NS);
        struct request request = {.kind = kind,
                                  .address = address,
                                  .name = name,
                                  .heir = heir,
                                  .before = calloc(1, sizeof *request.before)};
        status = request.before == NULL ? cv__cannot("out of memory") : ask(&request, until_ns);
        free(request.before);
    }
    free(address);
    return status;
}

const struct cv_verb cv__verb_resign = {
    .name = "resign",
    .summary = "ask the leader to hand over",
    .help =
        "usage: conclave resign NAME [--to NODE] [--wait TIME] [--via ADDRESS]\n\n"
        "Asks the leader to stop its work and to resign, and waits until another contender leads.\n"
        "The leader stops its command first. Nothing is taken from it by force.\n\n"
        "  --to NODE      hand over to this contender; if NODE is not waiting, nothing happens\n"
        "  --wait TIME    how long to wait for the next leader, default 10s; with --to, also how\n"
        "                 long to wait until NODE is a waiting contender\n"
        "  --via ADDRESS  store or cluster of the election; default: $CONCLAVE_VIA, or a file\n"
        "                 of this user\n\n"
        "Exit status: 0 handed over (with --to: NODE leads); 1 there is no leader, it did not\n"
        "resign in time, or NODE is not waiting, was skipped, or took over and has ended; 2 wrong\n"
        "usage or no answer.\n",
    .run = run,
    .is_told = true,
};
