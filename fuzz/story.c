/* fuzz/story.c - see fuzz.h: a store that gets the requests of the input. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#define ELECTIONS 2u
#define REQUESTS_MAX 512u
#define LEASE_NS (3 * NS_PER_S)
#define TURNS 3 /* of the loop, after each step */
#define LAST_TURNS 1000
#define MS_MAX 100000

struct election {
    struct cv_store *store;
    uint64_t attempt, token;
    bool is_closing;
    struct cv_store_runs runs;
};

static const struct fuzz_story *story;
static uv_loop_t loop;
static struct cv_shared_list shared;
static struct election elections[ELECTIONS];
static uint32_t now;
static bool is_open_request[REQUESTS_MAX]; /* sent, and not answered yet */
static uint32_t request_count;
static uint32_t closing_count;

uv_loop_t *fuzz_loop(void)
{
    return &loop;
}

static void check_record(const struct cv_store_record *record)
{
    if (memchr(record->node, '\0', sizeof record->node) == NULL ||
        memchr(record->resign_request, '\0', sizeof record->resign_request) == NULL) {
        fuzz_found("a name without an end");
    }
    if (record->ended >= CV_REASON_COUNT) {
        fuzz_found("an unknown reason");
    }
}

static void answered(void *user, const struct cv_store_answer *answer)
{
    struct election *e = user;
    if (e->is_closing) {
        fuzz_found("an answer of a closed store");
    }
    if (answer->request == 0) {
        if (answer->verdict != CV_STORE_CHANGED) {
            fuzz_found("an answer to nobody");
        }
        return;
    }
    if (answer->request >= REQUESTS_MAX || !is_open_request[answer->request]) {
        fuzz_found("a second answer");
    }
    is_open_request[answer->request] = false;
    if (answer->verdict == CV_STORE_FAILED && (answer->why == NULL || answer->why[0] == '\0')) {
        fuzz_found("a failure without a reason");
    }
    if (answer->record != NULL) {
        check_record(answer->record);
    }
    const bool is_lease = answer->verdict == CV_STORE_GRANTED && answer->record != NULL;
    if (is_lease && (answer->duration_ns <= 0 || answer->duration_ns > LEASE_NS)) {
        fuzz_found("a grant of no time, or of more than was asked for");
    }
    if (answer->duration_ns < 0 || answer->duration_ns > INT64_MAX / 4) {
        fuzz_found("a time that cannot be added to others");
    }
    e->token = is_lease ? answer->token : e->token;
}

static struct election *current(void)
{
    static const char *const names[ELECTIONS] = {"e", "f"};
    struct election *e = &elections[now];
    if (e->store == NULL && !e->is_closing) {
        const struct cv_store_setting setting = {.loop = &loop,
                                                 .shared = &shared,
                                                 .address = story->address,
                                                 .election = names[now],
                                                 .node = now == 0 ? "n1" : "n2",
                                                 .label = now + 1,
                                                 .answered = answered,
                                                 .user = e};
        struct cv_errtext err = {""};
        if (story->kind->open(&e->store, &setting, &err) != CV_OK) {
            fuzz_found(err.text);
        }
        e->attempt = 1;
    }
    return e;
}

static uint64_t request_next(void)
{
    request_count++;
    is_open_request[request_count] = true;
    return request_count;
}

static void ask(enum cv_store_verb verb, const char *heir)
{
    struct election *e = current();
    if (e->store == NULL) {
        return;
    }
    const bool is_claim = verb == CV_STORE_ACQUIRE || verb == CV_STORE_RENEW;
    story->kind->ask(e->store,
                     &(struct cv_store_request){.verb = verb,
                                                .request = request_next(),
                                                .attempt = verb == CV_STORE_READ ? 0 : e->attempt,
                                                .token = verb == CV_STORE_RENEW ? e->token : 0,
                                                .lease_ns = is_claim ? LEASE_NS : 0,
                                                .heir = heir});
}

static void ask_runs(const char *text)
{
    struct election *e = current();
    if (e->store == NULL) {
        return;
    }
    e->runs.token = text != NULL ? e->token + 1 : 0; /* 0 would read */
    if (text != NULL) {
        (void)strncpy(e->runs.text, text, sizeof e->runs.text - 1);
    }
    story->kind->runs(e->store, request_next(), &e->runs);
}

static void on_closed(void *user)
{
    struct election *e = user;
    e->is_closing = false;
    closing_count--;
}

static void close_one(struct election *e)
{
    if (e->store != NULL) {
        struct cv_store *store = e->store;
        e->store = NULL;
        e->is_closing = true;
        closing_count++;
        story->kind->close(store, on_closed, e);
    }
}

static void turn(int64_t ms, int count)
{
    for (int i = 0; i < count; i++) {
        fuzz_clock_pass_ms(ms);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
}

static void tell_line(const char *line)
{
    const char *rest = line[0] != '\0' && line[1] == ' ' ? line + 2 : line + (line[0] != '\0');
    const char *heir = rest[0] != '\0' && strlen(rest) < CV_NODE_BYTES ? rest : NULL;
    switch (line[0]) {
    case 'a':
        ask(CV_STORE_ACQUIRE, NULL);
        break;
    case 'n':
        current()->attempt++;
        current()->token = 0;
        ask(CV_STORE_ACQUIRE, NULL);
        break;
    case 'r':
        ask(CV_STORE_RENEW, NULL);
        break;
    case 'f':
        ask(CV_STORE_RELEASE, heir);
        break;
    case 'g':
        ask(CV_STORE_READ, NULL);
        break;
    case 'q':
        if (current()->store != NULL) {
            story->kind->request_resign(current()->store, request_next(), heir);
        }
        break;
    case 'u':
        ask_runs(NULL);
        break;
    case 'w':
        ask_runs(rest);
        break;
    case 's':
        now = (now + 1) % ELECTIONS;
        (void)current();
        break;
    case 'c':
        close_one(&elections[now]);
        break;
    case 't':
        fuzz_clock_pass_ms(llabs(strtoll(rest, NULL, 10) % MS_MAX));
        break;
    default:
        story->step(line);
    }
}

void fuzz_story_tell(const struct fuzz_story *told, const uint8_t *data, size_t size)
{
    static bool is_ready;
    story = told;
    fuzz_clock_start();
    if (!is_ready && uv_loop_init(&loop) != 0) {
        abort();
    }
    is_ready = true;
    uv_update_time(&loop);
    memset(elections, 0, sizeof elections);
    memset(is_open_request, 0, sizeof is_open_request);
    request_count = 0;
    now = 0;
    struct fuzz_input in = {data, size};
    for (char *line; request_count + 1 < REQUESTS_MAX && (line = fuzz_line(&in)) != NULL;) {
        tell_line(line);
        turn(story->turn_ms, TURNS);
        free(line);
    }
    for (uint32_t i = 0; i < ELECTIONS; i++) {
        close_one(&elections[i]);
    }
    for (int i = 0; i < LAST_TURNS && (closing_count > 0 || uv_loop_alive(&loop) != 0); i++) {
        turn(1, 1);
    }
    if (closing_count > 0 || uv_loop_alive(&loop) != 0 || shared.first != NULL) {
        fuzz_found("a store that does not close");
    }
    fuzz_clock_stop();
}
