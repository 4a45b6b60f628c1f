/* tests/paper/test_local_rules_paper.c - what one process of `local` does when it is asked
 * [Fetzer99, sec. VIII and IX], and the rules that are ours: tokens, recovery, hints, collation.
 *
 * A single core, to which the test is the rest of the world: it asks for support, answers requests,
 * releases, and lets timers ring; and sees exactly what the core says and saves. Constants are
 * those of the lan profile: Delta 5 ms, ep 8 ms, expires 92.014408 ms, lock 123.014408 ms.
 * test_local_paper.c has the claims about several processes. */
#include "core/nodeset.h"
#include "support/host.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPIRES_NS INT64_C(92014408)
#define LOCK_NS INT64_C(123014408)
#define DELTA_NS (5 * NS_PER_MS)
#define WAIT_NS INT64_C(10001001) /* 2 Delta(1 + rho) */
#define FAST_NS (1 * NS_PER_MS)
#define SLOW_NS (DELTA_NS + 1)
#define START_NS (1000 * NS_PER_S)

enum { TIMER_ALIVE, TIMER_RELEASE, TIMER_LAPSE, TIMER_LOCK, TIMER_COLLATE };

/* ---- One core ----------------------------------------------------------------------------------
 */

struct core {
    const struct cv_protocol *protocol;
    struct cv_config config;
    void *state;
    struct cv_effects out;
    int64_t now_ns;
    int64_t timer_ns[CV_TIMERS_MAX]; /* the latest instant asked for; 0: not armed */
    uint64_t persisted[CV_PERSIST_WORDS_MAX];
    uint32_t persisted_count;
};

static void carry_out(struct core *c)
{
    for (uint32_t i = 0; i < c->out.item_count; i++) {
        const struct cv_effect *e = &c->out.item[i];
        if (e->kind == CV_EFFECT_ARM) {
            c->timer_ns[e->timer] = cv__max64(e->latest_ns, c->now_ns);
        } else if (e->kind == CV_EFFECT_DISARM) {
            c->timer_ns[e->timer] = 0;
        } else if (e->kind == CV_EFFECT_PERSIST) {
            memcpy(c->persisted, e->persist, sizeof c->persisted);
            c->persisted_count = e->persist_count;
        }
    }
}

static void step(struct core *c, struct cv_event event)
{
    event.now_ns = c->now_ns;
    cv_core_step(c->protocol, c->state, &event, &c->out);
    carry_out(c);
}

static void start(struct core *c)
{
    memset(c->timer_ns, 0, sizeof c->timer_ns);
    cv_core_init(c->protocol, c->state, &c->config);
    uint64_t persisted[CV_PERSIST_WORDS_MAX];
    memcpy(persisted, c->persisted, sizeof persisted);
    step(c, (struct cv_event){.kind = CV_EVENT_START,
                              .persisted = persisted,
                              .persisted_count = c->persisted_count});
}

/* Process `self` of `members`, just started. Options as "name=value name=value". */
static struct core *core_new(cv_id self, uint32_t members, const char *options)
{
    struct core *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->protocol = cv_protocol_find("local");
    assert_non_null(c->protocol);
    cv_config_init(&c->config, c->protocol, self, members);
    char text[200];
    (void)snprintf(text, sizeof text, "%s", options);
    char *rest;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value++ = '\0';
        assert_int_equal(cv_config_set(&c->config, c->protocol, word, value, NULL), CV_OK);
    }
    assert_int_equal(cv_core_configure(c->protocol, &c->config, NULL), CV_OK);
    c->state = calloc(1, cv_core_size(c->protocol, &c->config));
    assert_non_null(c->state);
    c->out = host_effects_new(&c->config);
    c->now_ns = START_NS;
    start(c);
    return c;
}

static void core_free(struct core *c)
{
    host_effects_free(&c->out);
    free(c->state);
    free(c);
}

/* Crashes and starts again, with what it had saved. */
static void restart(struct core *c)
{
    memset(c->state, 0xa5, cv_core_size(c->protocol, &c->config));
    start(c);
}

/* Time passes without anything else happening; timers ring at the latest instant asked for. */
static void wait_until(struct core *c, int64_t until_ns)
{
    for (;;) {
        uint32_t next = CV_TIMERS_MAX;
        for (uint32_t t = 0; t < CV_TIMERS_MAX; t++) {
            const bool is_due = c->timer_ns[t] != 0 && c->timer_ns[t] <= until_ns;
            if (is_due && (next == CV_TIMERS_MAX || c->timer_ns[t] < c->timer_ns[next])) {
                next = t;
            }
        }
        if (next == CV_TIMERS_MAX) {
            c->now_ns = until_ns;
            return;
        }
        c->now_ns = cv__max64(c->now_ns, c->timer_ns[next]);
        c->timer_ns[next] = 0;
        step(c, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = next});
    }
}

/* Time passes, and no timer rings: the process is paused. */
static void pause_for(struct core *c, int64_t ns)
{
    c->now_ns += ns;
}

/* Lets the timers ring one by one until it broadcasts a message of that type, which is returned. */
static const struct cv_message *await(struct core *c, const char *type, int64_t limit_ns);

/* ---- What it says ------------------------------------------------------------------------------
 */

static uint32_t type_of(const struct core *c, const char *name)
{
    for (uint32_t i = 0; i < c->protocol->message_count; i++) {
        if (strcmp(c->protocol->messages[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("no message %s", name);
    return 0;
}

/* The place of a field among the scalars, or among the lists. */
static uint32_t place_of(const struct core *c, uint32_t type, const char *name)
{
    uint32_t scalars = 0;
    uint32_t lists = 0;
    const struct cv_field *field = c->protocol->messages[type].fields;
    for (; field->kind != CV_FIELD_END; field++) {
        const bool is_list = field->kind == CV_FIELD_SET || field->kind == CV_FIELD_VALUES;
        if (strcmp(field->name, name) == 0) {
            return is_list ? lists : scalars;
        }
        lists += is_list;
        scalars += !is_list;
    }
    fail_msg("no field %s", name);
    return 0;
}

static uint64_t field(const struct core *c, const struct cv_message *m, const char *name)
{
    return m->field[place_of(c, m->type, name)];
}

/* A set of a message, as bits of ids. */
static uint64_t set_in(const struct core *c, const struct cv_message *m, const char *name)
{
    return m->list[place_of(c, m->type, name)].word[0] << 1;
}

/* What the latest step sent of that type; NULL: nothing. *ret_to: to whom, CV_ID_NONE for all. */
static const struct cv_message *said_to(const struct core *c, const char *type, cv_id *ret_to)
{
    for (uint32_t i = 0; i < c->out.item_count; i++) {
        const struct cv_effect *e = &c->out.item[i];
        if (e->kind == CV_EFFECT_SEND && e->message.type == type_of(c, type)) {
            *ret_to = e->first == e->last ? e->first : CV_ID_NONE;
            return &e->message;
        }
    }
    return NULL;
}

static const struct cv_message *said(const struct core *c, const char *type)
{
    cv_id to;
    return said_to(c, type, &to);
}

static uint32_t send_count(const struct core *c)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->out.item_count; i++) {
        count += c->out.item[i].kind == CV_EFFECT_SEND;
    }
    return count;
}

/* The latest leadership that the latest step told of; NULL: none. */
static const struct cv_leadership *told(const struct core *c)
{
    const struct cv_leadership *l = NULL;
    for (uint32_t i = 0; i < c->out.item_count; i++) {
        if (c->out.item[i].kind == CV_EFFECT_LEADERSHIP) {
            l = &c->out.item[i].leadership;
        }
    }
    return l;
}

static const struct cv_message *await(struct core *c, const char *type, int64_t limit_ns)
{
    const int64_t end_ns = c->now_ns + limit_ns;
    for (;;) {
        int64_t next_ns = INT64_MAX;
        for (uint32_t t = 0; t < CV_TIMERS_MAX; t++) {
            next_ns = c->timer_ns[t] != 0 ? cv__min64(next_ns, c->timer_ns[t]) : next_ns;
        }
        if (next_ns > end_ns) {
            fail_msg("no %s within %.3f ms", type, (double)limit_ns / 1e6);
        }
        wait_until(c, next_ns);
        if (said(c, type) != NULL) {
            return said(c, type);
        }
    }
}

/* ---- What it hears -----------------------------------------------------------------------------
 */

/* A message to be filled in: one at a time. */
static struct cv_message draft;
static uint64_t draft_word[CV_LISTS_MAX];

static void write_draft(const struct core *c, const char *type)
{
    memset(&draft, 0, sizeof draft);
    memset(draft_word, 0, sizeof draft_word);
    draft.type = type_of(c, type);
    for (uint32_t i = 0; i < CV_LISTS_MAX; i++) {
        draft.list[i] = (struct cv_list){&draft_word[i], 1};
    }
    const struct cv_field *f = c->protocol->messages[draft.type].fields;
    for (; f->kind != CV_FIELD_END; f++) {
        if (f->kind == CV_FIELD_ID) {
            draft.field[place_of(c, draft.type, f->name)] = 1; /* turn, candidate */
        }
    }
}

static void put(const struct core *c, const char *name, uint64_t value)
{
    draft.field[place_of(c, draft.type, name)] = value;
}

static void put_set(const struct core *c, const char *name, uint64_t bits_of_ids)
{
    draft_word[place_of(c, draft.type, name)] = bits_of_ids >> 1;
}

static void hear(struct core *c, cv_id from, int64_t bound_ns)
{
    step(c, (struct cv_event){.kind = CV_EVENT_MESSAGE,
                              .peer = from,
                              .message = &draft,
                              .is_fast = bound_ns <= DELTA_NS,
                              .delay_ns_max = bound_ns});
}

/* A candidate asks for support; is it given? */
static bool is_supported(struct core *c, cv_id candidate, uint64_t request, uint64_t token)
{
    write_draft(c, "ELECTION");
    put(c, "request", request);
    put(c, "token", token);
    hear(c, candidate, FAST_NS);
    cv_id to = CV_ID_NONE;
    const struct cv_message *reply = said_to(c, "REPLY", &to);
    assert_non_null(reply); /* every fast ELECTION is answered */
    assert_int_equal(to, candidate);
    assert_int_equal(field(c, reply, "request"), request);
    return field(c, reply, "supports") != 0;
}

static void hear_release(struct core *c, cv_id from, uint64_t request)
{
    write_draft(c, "RELEASE");
    put(c, "request", request);
    hear(c, from, FAST_NS);
}

static void hear_reply(struct core *c, cv_id from, uint64_t request, bool supports)
{
    write_draft(c, "REPLY");
    put(c, "request", request);
    put(c, "supports", supports);
    hear(c, from, FAST_NS);
}

/* Process 1 with two others, which support it. Returns the request that it leads on. */
static int64_t elect(struct core *c)
{
    assert_int_equal(c->config.self, 1);
    for (uint32_t round = 0; round < 10; round++) {
        const struct cv_message *m = await(c, "ELECTION", EXPIRES_NS);
        const uint64_t request = field(c, m, "request");
        for (cv_id id = 2; id <= c->config.member_count; id++) {
            hear_reply(c, id, request, true);
        }
        if (told(c) != NULL && told(c)->leader == 1) {
            return (int64_t)request;
        }
    }
    fail_msg("not elected");
    return 0;
}

/* ---- sec. VIII: the request --------------------------------------------------------------------
 */

/* [Fetzer99, sec. VIII] "a unique time stamp, denoted request ...; the aliveSet of p" */
static void election_carries_the_request_and_the_alive_set(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 3, "");
    const struct cv_message *m = await(c, "ELECTION", DELTA_NS);
    cv_id to;
    assert_ptr_equal(said_to(c, "ELECTION", &to), m);
    assert_int_equal(to, CV_ID_NONE); /* a broadcast */
    const uint64_t first = field(c, m, "request");
    assert_int_equal(first, c->now_ns); /* the hardware clock */
    assert_int_equal(set_in(c, m, "alive"), 0);
    hear_reply(c, 3, first, false);
    m = await(c, "ELECTION", 8 * NS_PER_MS);
    assert_true(field(c, m, "request") > first);
    assert_int_equal(set_in(c, m, "alive"), BIT(1) | BIT(3));
    core_free(c);
}

/* [Fetzer99, sec. VIII] "p broadcasts at least every EP clock time units an ELECTION" */
static void lowest_broadcasts_every_election_period(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 3, "");
    (void)await(c, "ELECTION", DELTA_NS);
    for (uint32_t i = 0; i < 20; i++) {
        const int64_t asked_ns = c->now_ns;
        (void)await(c, "ELECTION", 8 * NS_PER_MS);
        assert_true(c->now_ns - asked_ns <= 8 * NS_PER_MS);
    }
    core_free(c);
}

/* [Fetzer99, sec. VIII, purgeAliveSet] Who hears a lower one is silent, without polling: its alarm
 * is set to the first instant at which it could be the lowest, and each message puts it off. */
static void higher_one_is_silent_until_the_lower_one_expires(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    for (uint64_t i = 1; i <= 20; i++) {
        c->now_ns += 8 * NS_PER_MS;
        (void)is_supported(c, 1, i, 1);
        assert_int_equal(c->timer_ns[TIMER_ALIVE], c->now_ns + EXPIRES_NS + 1);
    }
    const int64_t heard_ns = c->now_ns;
    wait_until(c, heard_ns + EXPIRES_NS);
    assert_int_equal(c->timer_ns[TIMER_ALIVE], heard_ns + EXPIRES_NS + 1);
    (void)await(c, "ELECTION", 1);
    core_free(c);
}

/* [Fetzer99, sec. VII] The independent assessment "does not send any messages". */
static void being_told_of_others_makes_it_say_nothing_of_its_own(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    (void)is_supported(c, 1, 1, 1);
    assert_int_equal(send_count(c), 1); /* the answer */
    hear_release(c, 1, 1);
    assert_int_equal(send_count(c), 0);
    core_free(c);
}

/* ---- sec. VIII: who is supported ---------------------------------------------------------------
 */

/* [Fetzer99, sec. VIII] "A process q replies to all fast ELECTION-messages and ignores slow ones":
 * it neither locks nor counts the sender alive. (ECHO, which is ours, promises nothing.) */
static void slow_election_is_not_answered(void **unused)
{
    (void)unused;
    static const int64_t bounds[] = {SLOW_NS, 50 * NS_PER_MS, INT64_MAX};
    for (uint32_t i = 0; i < COUNT_OF(bounds); i++) {
        struct core *c = core_new(3, 3, "");
        write_draft(c, "ELECTION");
        put(c, "request", 1);
        put(c, "token", 1);
        hear(c, 1, bounds[i]);
        assert_null(said(c, "REPLY"));
        assert_non_null(said(c, "ECHO"));
        assert_int_equal(send_count(c), 1);
        assert_int_equal(c->persisted_count, 0);
        assert_true(is_supported(c, 2, 1, 1)); /* 1 is not alive for it, nor is it locked to 1 */
        core_free(c);
    }
}

static void election_just_within_delta_is_answered(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    write_draft(c, "ELECTION");
    put(c, "request", 1);
    put(c, "token", 1);
    hear(c, 1, DELTA_NS);
    assert_non_null(said(c, "REPLY"));
    assert_int_equal(field(c, said(c, "REPLY"), "supports"), 1);
    core_free(c);
}

/* [Fetzer99, sec. VIII] "p is the process with the minimum id in q's aliveSet" */
static void only_the_lowest_alive_is_supported(void **unused)
{
    (void)unused;
    struct core *c = core_new(4, 4, "");
    hear_reply(c, 1, 99, false); /* a REPLY makes its sender alive, too */
    assert_false(is_supported(c, 2, 1, 1));
    assert_true(is_supported(c, 1, 1, 1));
    core_free(c);
}

/* [Fetzer99, sec. VIII] "p's id is smaller than q's id", or it is q itself */
static void no_higher_one_is_supported(void **unused)
{
    (void)unused;
    struct core *c = core_new(2, 3, "");
    assert_false(is_supported(c, 3, 1, 1));
    assert_true(is_supported(c, 1, 1, 1));
    core_free(c);
}

/* [Fetzer99, sec. VIII] "sending a supportive reply q guarantees not to send another supportive
 * reply [to another] for the next lockTime clock time units" */
static void locked_process_supports_nobody_else(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    const int64_t locked_ns = c->now_ns;
    assert_true(is_supported(c, 2, 1, 1));
    assert_false(is_supported(c, 1, 1, 2)); /* though it is lower */
    c->now_ns = locked_ns + LOCK_NS - 1;
    assert_false(is_supported(c, 1, 2, 3));
    c->now_ns = locked_ns + LOCK_NS;
    assert_true(is_supported(c, 1, 3, 4));
    core_free(c);
}

/* [Fetzer99, sec. VIII] lockedUntil is "receive time plus lockTime", anew for each request. */
static void lock_is_prolonged_by_the_same_candidate(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 2, 1, 1));
    c->now_ns += 100 * NS_PER_MS;
    const int64_t renewed_ns = c->now_ns;
    assert_true(is_supported(c, 2, 2, 1));
    c->now_ns = renewed_ns + LOCK_NS - 1;
    assert_false(is_supported(c, 1, 1, 2));
    c->now_ns = renewed_ns + LOCK_NS;
    assert_true(is_supported(c, 1, 2, 3));
    core_free(c);
}

/* [Fetzer99, sec. VIII] "a process q that receives a RELEASE-message for the last ELECTION-message
 * that q has locked on releases its lock" */
static void release_of_the_request_frees_the_lock(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 2, 7, 1));
    hear_release(c, 2, 7);
    assert_true(is_supported(c, 1, 1, 2));
    core_free(c);
}

/* RELEASE is taken whether it is fast or slow: it gives up what nobody rests on any more. */
static void slow_release_frees_the_lock_as_well(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 2, 7, 1));
    write_draft(c, "RELEASE");
    put(c, "request", 7);
    hear(c, 2, INT64_MAX);
    assert_true(is_supported(c, 1, 1, 2));
    core_free(c);
}

/* The release of an earlier request, which was delayed, frees nothing: a later one may have made a
 * leader meanwhile. */
static void release_of_an_earlier_request_frees_nothing(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 2, 7, 1));
    assert_true(is_supported(c, 2, 8, 1));
    hear_release(c, 2, 7);
    assert_false(is_supported(c, 1, 1, 2));
    core_free(c);
}

/* The same if the earlier request arrives again, or late, after the later one: it must not take the
 * later one's place. */
static void request_that_was_overtaken_does_not_weaken_the_lock(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 2, 8, 1));
    assert_true(is_supported(c, 2, 7, 1)); /* within Delta: a duplicate, or reordered */
    hear_release(c, 2, 7);
    assert_false(is_supported(c, 1, 1, 2));
    core_free(c);
}

static void release_by_another_frees_nothing(void **unused)
{
    (void)unused;
    struct core *c = core_new(4, 4, "");
    assert_true(is_supported(c, 2, 7, 1));
    hear_release(c, 3, 9);
    assert_false(is_supported(c, 1, 1, 2));
    core_free(c);
}

/* [Ours; protocols.md, section 2] RELEASE does not refresh the alive set, ELECTION and REPLY do. */
static void release_makes_nobody_alive(void **unused)
{
    (void)unused;
    struct core *c = core_new(4, 4, "");
    hear_release(c, 1, 5);
    assert_true(is_supported(c, 2, 1, 1)); /* 1 is not taken for the lowest */
    core_free(c);

    c = core_new(4, 4, "");
    (void)is_supported(c, 1, 1, 1);
    c->now_ns += EXPIRES_NS - NS_PER_MS;
    hear_release(c, 1, 1);
    c->now_ns += 2 * NS_PER_MS; /* 1's ELECTION is older than `expires` now */
    assert_true(is_supported(c, 2, 1, 2));
    core_free(c);
}

/* [Ours] A fast ECHO makes its sender alive (BI), a slow one does not. */
static void fast_echo_makes_its_sender_alive(void **unused)
{
    (void)unused;
    struct core *c = core_new(4, 4, "");
    write_draft(c, "ECHO");
    hear(c, 1, SLOW_NS);
    assert_true(is_supported(c, 3, 1, 1));
    hear_release(c, 3, 1);
    write_draft(c, "ECHO");
    hear(c, 1, FAST_NS);
    assert_false(is_supported(c, 3, 2, 2));
    core_free(c);
}

/* ---- sec. VIII: becoming leader ----------------------------------------------------------------
 */

/* [Fetzer99, sec. VIII and IX.D] "the first election request will fail, because p is not in its own
 * target set", whoever supports it; the second succeeds. */
static void first_request_fails_and_the_second_succeeds(void **unused)
{
    (void)unused;
    for (uint32_t members = 1; members <= 5; members++) {
        struct core *c = core_new(1, members, "");
        const struct cv_message *m = await(c, "ELECTION", DELTA_NS);
        const uint64_t first = field(c, m, "request");
        for (cv_id id = 2; id <= members; id++) {
            hear_reply(c, id, first, true);
            assert_null(told(c));
        }
        m = await(c, "ELECTION", 8 * NS_PER_MS);
        const uint64_t second = field(c, m, "request");
        assert_true(second > first);
        for (cv_id id = 2; id <= members; id++) {
            assert_null(told(c));
            hear_reply(c, id, second, true);
        }
        assert_non_null(told(c));
        assert_int_equal(told(c)->leader, 1);
        core_free(c);
    }
}

/* [Ours, BI] Not even the second one within Delta of the first: not everybody connected can have
 * answered by then, and whoever has not is not waited for. */
static void request_within_delta_of_the_first_fails_as_well(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 3, "");
    const struct cv_message *m = await(c, "ELECTION", DELTA_NS);
    c->now_ns += NS_PER_MS;
    write_draft(c, "REPLY"); /* 2 accepted token 5 from somebody: ask again at once with a larger */
    put(c, "request", field(c, m, "request"));
    put(c, "token", 5);
    hear(c, 2, FAST_NS);
    c->timer_ns[TIMER_ALIVE] = c->now_ns; /* the host picks the earliest instant */
    m = await(c, "ELECTION", 1);
    assert_true(field(c, m, "token") > 5);
    hear_reply(c, 2, field(c, m, "request"), true);
    assert_null(told(c)); /* 3 has had no time to say that it is there */
    core_free(c);
}

/* [Fetzer99, sec. VIII, checkIfLeader] "as soon as p has received replies from all processes in its
 * targetSet", and not before. */
static void leads_as_soon_as_all_have_supported(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 4, "");
    const struct cv_message *m = await(c, "ELECTION", DELTA_NS);
    for (cv_id id = 2; id <= 4; id++) {
        hear_reply(c, id, field(c, m, "request"), true);
    }
    m = await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = field(c, m, "request");
    hear_reply(c, 2, request, true);
    assert_null(told(c));
    hear_reply(c, 3, request, true);
    assert_null(told(c));
    c->now_ns += NS_PER_MS;
    hear_reply(c, 4, request, true);
    assert_non_null(told(c));
    assert_int_equal(told(c)->leader, 1);
    assert_int_equal(told(c)->members.word[0], 0xf);
    assert_true(told(c)->has_majority);
    core_free(c);
}

/* [Fetzer99, sec. VIII] Only fast, supportive replies to the last request count. */
static void slow_refusing_or_old_replies_do_not_count(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 2, "");
    const struct cv_message *m = await(c, "ELECTION", DELTA_NS);
    const uint64_t first = field(c, m, "request");
    hear_reply(c, 2, first, true);
    m = await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = field(c, m, "request");
    write_draft(c, "REPLY");
    put(c, "request", request);
    put(c, "supports", 1);
    hear(c, 2, SLOW_NS);
    assert_null(told(c));
    hear_reply(c, 2, first, true);
    assert_null(told(c));
    hear_reply(c, 2, request, false);
    assert_null(told(c));
    hear_reply(c, 2, request, true);
    assert_non_null(told(c));
    core_free(c);
}

/* [Fetzer99, sec. VIII] "p has received a fast supportive reply from all processes in its current
 * aliveSet": also from one that it came to know of after it had asked. */
static void newcomer_must_support_as_well(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 3, "");
    const struct cv_message *m = await(c, "ELECTION", DELTA_NS);
    hear_reply(c, 2, field(c, m, "request"), true);
    m = await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = field(c, m, "request");
    hear_reply(c, 3, request, false); /* alive from now on */
    hear_reply(c, 2, request, true);
    assert_null(told(c));
    hear_reply(c, 3, request, true);
    assert_non_null(told(c));
    core_free(c);
}

/* [Fetzer99, sec. VIII] "p is the minimum id in replySet": not if a lower one is alive. */
static void no_leader_above_a_lower_one(void **unused)
{
    (void)unused;
    struct core *c = core_new(2, 3, "");
    const struct cv_message *m = await(c, "ELECTION", DELTA_NS);
    hear_reply(c, 3, field(c, m, "request"), true);
    m = await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = field(c, m, "request");
    hear_reply(c, 1, request, true);
    hear_reply(c, 3, request, true);
    assert_null(told(c));
    core_free(c);
}

/* [Fetzer99, sec. VIII and IX.A] expirationTime is lastRequest + lockTime(1-2 rho): trap T3,
 * counted from when the request left, however late the answers came. */
static void validity_counts_from_the_request(void **unused)
{
    (void)unused;
    const int64_t lead_ns = LOCK_NS - LOCK_NS * 2 / 10000 - 1;
    for (int64_t late_ns = 0; late_ns < 8 * NS_PER_MS; late_ns += NS_PER_MS) {
        struct core *c = core_new(1, 2, "");
        const struct cv_message *m = await(c, "ELECTION", DELTA_NS);
        hear_reply(c, 2, field(c, m, "request"), true);
        m = await(c, "ELECTION", 8 * NS_PER_MS);
        const uint64_t request = field(c, m, "request");
        assert_int_equal(request, c->now_ns);
        c->now_ns += late_ns;
        hear_reply(c, 2, request, true);
        assert_int_equal(told(c)->valid_until_ns, (int64_t)request + lead_ns);
        core_free(c);
    }
}

/* [Fetzer99, sec. VIII] "In case p does not succeed and received at least one supportive reply, p
 * broadcasts a RELEASE": 2 Delta(1 + rho) after it had asked. */
static void failed_attempt_is_released(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 3, "ep=50ms");
    const struct cv_message *m = await(c, "ELECTION", DELTA_NS);
    hear_reply(c, 2, field(c, m, "request"), true);
    hear_reply(c, 3, field(c, m, "request"), true);
    m = await(c, "ELECTION", 50 * NS_PER_MS);
    const int64_t request = (int64_t)field(c, m, "request");
    hear_reply(c, 2, (uint64_t)request, true);
    hear_reply(c, 3, (uint64_t)request, false);
    m = await(c, "RELEASE", WAIT_NS);
    cv_id to;
    assert_ptr_equal(said_to(c, "RELEASE", &to), m);
    assert_int_equal(to, CV_ID_NONE);
    assert_int_equal(c->now_ns, request + WAIT_NS);
    assert_int_equal(field(c, m, "request"), request);
    hear_reply(c, 3, (uint64_t)request, true); /* too late: it was given up */
    assert_null(told(c));
    core_free(c);
}

/* Who supports nobody, not even itself, has nothing to release. */
static void attempt_without_support_is_not_released(void **unused)
{
    (void)unused;
    struct core *c = core_new(2, 3, "ep=50ms");
    assert_true(is_supported(c, 1, 1, 1)); /* locked to 1 */
    pause_for(c, 0);
    step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 1});
    (void)await(c, "ELECTION", EXPIRES_NS);
    const int64_t asked_ns = c->now_ns;
    while (c->now_ns < asked_ns + WAIT_NS) {
        wait_until(c, cv__min64(asked_ns + WAIT_NS, c->now_ns + NS_PER_MS));
        assert_null(said(c, "RELEASE"));
    }
    core_free(c);
}

/* [Ours; protocols.md, section 2] "A leader whose renewal failed must not release": it asks again,
 * as the same request, and releases only after it has stepped down. */
static void leader_whose_renewal_failed_does_not_release(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 3, "");
    const int64_t request = elect(c);
    const int64_t until_ns = told(c)->valid_until_ns;
    assert_true(until_ns > request);
    uint32_t asked = 0;
    while (c->now_ns < until_ns - 1) {
        wait_until(c, cv__min64(until_ns - 1, c->now_ns + NS_PER_MS));
        assert_null(said(c, "RELEASE"));
        asked += said(c, "ELECTION") != NULL;
    }
    assert_true(asked > 5); /* a lost message is retried before leadership ends */
    const struct cv_message *m = await(c, "RELEASE", 1);
    assert_int_equal(c->now_ns, until_ns);
    assert_non_null(told(c));
    assert_int_equal(told(c)->leader, CV_ID_NONE);
    assert_int_equal(told(c)->reason, CV_REASON_EXPIRED);
    assert_true(field(c, m, "request") >= (uint64_t)request);
    core_free(c);
}

/* [Ours] Answers to a repeated renewal add up, and it still counts from its first sending. */
static void answers_to_a_repeated_renewal_add_up(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 3, "");
    (void)elect(c);
    const struct cv_message *m = await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = field(c, m, "request");
    hear_reply(c, 2, request, true); /* 3's answer is lost */
    m = await(c, "ELECTION", 8 * NS_PER_MS);
    assert_int_equal(field(c, m, "request"), request);
    assert_true(c->now_ns > (int64_t)request);
    hear_reply(c, 3, request, true); /* this time 2's is */
    assert_non_null(told(c));
    assert_int_equal(told(c)->reason, CV_REASON_RENEWED);
    assert_int_equal(told(c)->valid_until_ns, (int64_t)request + LOCK_NS - LOCK_NS * 2 / 10000 - 1);
    core_free(c);
}

/* [Fetzer99, sec. VIII] leader?() compares the clock at the call: a leader that slept past its time
 * is none before it handles anything, and what waited for it does not bring it back (trap T1). */
static void lapsed_leadership_is_over_before_anything_else_and_not_revived(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 2, "");
    (void)elect(c);
    const uint64_t token = told(c)->token;
    const int64_t until_ns = told(c)->valid_until_ns;
    const struct cv_message *m = await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t renewal = field(c, m, "request");
    pause_for(c, until_ns - c->now_ns + 5 * NS_PER_MS);
    hear_reply(c, 2, renewal, true); /* waited in the queue, its bound was computed before */
    assert_non_null(told(c));
    assert_int_equal(told(c)->leader, CV_ID_NONE);
    assert_non_null(said(c, "RELEASE"));
    (void)elect(c);
    assert_true(told(c)->token > token);
    core_free(c);
}

/* ---- sec. IX: recovery, and tokens (ours) ------------------------------------------------------
 */

/* [Fetzer99, sec. IX] "without this assumption [to be down for lockTime] it would have to wait for
 * lockTime": that is what a restarted process does. */
static void restarted_process_supports_nobody_for_lock(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 2, 1, 1));
    restart(c);
    const int64_t restarted_ns = c->now_ns;
    assert_false(is_supported(c, 1, 1, 2));
    assert_false(is_supported(c, 2, 2, 3)); /* not even the same again: it does not know */
    c->now_ns = restarted_ns + LOCK_NS - 1;
    assert_false(is_supported(c, 1, 2, 4));
    c->now_ns = restarted_ns + LOCK_NS;
    assert_true(is_supported(c, 1, 3, 5));
    core_free(c);
}

/* "unless what it persisted shows that it never supported anybody" */
static void restarted_process_that_never_supported_does_not_wait(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    (void)is_supported(c, 1, 1, 0); /* refused: no token */
    hear_reply(c, 2, 1, false);
    assert_int_equal(c->persisted_count, 0);
    restart(c);
    assert_true(is_supported(c, 1, 1, 1));
    core_free(c);
}

/* A candidate supports itself: that counts. */
static void restarted_candidate_does_not_support_itself_for_lock(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 1, "");
    (void)elect(c);
    const uint64_t token = told(c)->token;
    restart(c);
    const int64_t restarted_ns = c->now_ns;
    while (told(c) == NULL) {
        wait_until(c, c->now_ns + NS_PER_MS);
    }
    assert_true(c->now_ns >= restarted_ns + LOCK_NS);
    assert_true(c->now_ns <= restarted_ns + LOCK_NS + 20 * NS_PER_MS);
    assert_true(told(c)->token > token); /* it may have led with the one it had saved */
    core_free(c);
}

/* "a supporter persists the token before its supportive REPLY" */
static void token_is_saved_before_the_answer(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 1, 1, 42));
    bool is_saved = false;
    for (uint32_t i = 0; i < c->out.item_count; i++) {
        const struct cv_effect *e = &c->out.item[i];
        if (e->kind == CV_EFFECT_PERSIST) {
            assert_int_equal(e->persist[0], 42);
            assert_int_equal(e->persist[1], 1);
            is_saved = true;
        }
        assert_true(is_saved || e->kind != CV_EFFECT_SEND);
    }
    assert_true(is_saved);
    core_free(c);
}

/* "refuses a token that is not larger than its own (except the same leader renewing)" */
static void token_that_is_not_larger_is_refused(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 2, 1, 10));
    assert_true(is_supported(c, 2, 2, 10)); /* the same again */
    assert_false(is_supported(c, 2, 3, 9)); /* its own, but smaller */
    hear_release(c, 2, 3);
    assert_false(is_supported(c, 1, 1, 9));
    assert_false(is_supported(c, 1, 2, 10)); /* the same of another */
    assert_true(is_supported(c, 1, 3, 11));
    core_free(c);
}

/* "and says its own in the refusal"; a refusal for any other reason says none. */
static void refusal_tells_the_token(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 2, 1, 10));
    assert_int_equal(field(c, said(c, "REPLY"), "token"), 0);
    assert_false(is_supported(c, 1, 1, 11)); /* locked to 2 */
    assert_int_equal(field(c, said(c, "REPLY"), "token"), 0);
    hear_release(c, 2, 1);
    assert_false(is_supported(c, 1, 2, 3));
    assert_int_equal(field(c, said(c, "REPLY"), "token"), 10);
    core_free(c);
}

/* What was accepted survives a crash. */
static void accepted_token_survives_a_crash(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 2, 1, 10));
    restart(c);
    c->now_ns += LOCK_NS;
    assert_false(is_supported(c, 1, 1, 10));
    assert_int_equal(field(c, said(c, "REPLY"), "token"), 10);
    assert_true(is_supported(c, 1, 2, 11));
    core_free(c);
}

/* "ELECTION proposes token = 1 + the largest seen", also the largest that somebody told. */
static void candidate_tops_the_largest_token_it_heard_of(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 2, "");
    const struct cv_message *m = await(c, "ELECTION", DELTA_NS);
    write_draft(c, "REPLY");
    put(c, "request", field(c, m, "request"));
    put(c, "token", 77);
    hear(c, 2, FAST_NS);
    m = await(c, "ELECTION", 8 * NS_PER_MS);
    assert_int_equal(field(c, m, "token"), 78);
    core_free(c);
}

/* Renewals keep the token; a new leadership has a larger one. */
static void renewal_keeps_the_token(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 2, "");
    (void)elect(c);
    const uint64_t token = told(c)->token;
    for (uint32_t i = 0; i < 10; i++) {
        const struct cv_message *m = await(c, "ELECTION", 8 * NS_PER_MS);
        assert_int_equal(field(c, m, "token"), token);
        hear_reply(c, 2, field(c, m, "request"), true);
        assert_int_equal(told(c)->token, token);
        assert_int_equal(told(c)->reason, CV_REASON_RENEWED);
    }
    core_free(c);
}

/* Who cannot save must not promise: it says nothing more. */
static void process_whose_disk_fails_takes_no_further_part(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 1, 1, 1));
    step(c, (struct cv_event){.kind = CV_EVENT_PERSIST_FAILED});
    write_draft(c, "ELECTION");
    put(c, "request", 2);
    put(c, "token", 2);
    hear(c, 1, FAST_NS);
    assert_int_equal(send_count(c), 0);
    for (uint32_t t = 0; t < CV_TIMERS_MAX; t++) {
        assert_int_equal(c->timer_ns[t], 0);
    }
    core_free(c);
}

/* ---- sec. X: the logical partition -------------------------------------------------------------
 */

/* [Fetzer99, sec. X] "p piggybacks its support set on its next ELECTION-message to provide the
 * processes of its logical partition with the current members" */
static void supporters_learn_their_partition_from_the_next_election(void **unused)
{
    (void)unused;
    struct core *leader = core_new(1, 3, "");
    (void)elect(leader);
    const uint64_t token = told(leader)->token;
    const struct cv_message *m = await(leader, "ELECTION", 8 * NS_PER_MS);
    assert_int_equal(set_in(leader, m, "support"), BIT(1) | BIT(2) | BIT(3));
    assert_int_equal(field(leader, m, "leading"), token);

    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 1, 1, token));
    assert_null(told(c)); /* it does not know yet whether 1 succeeded */
    draft = *m;
    hear(c, 1, FAST_NS);
    assert_non_null(told(c));
    assert_int_equal(told(c)->leader, 1);
    assert_int_equal(told(c)->token, token);
    assert_int_equal(told(c)->members.word[0] << 1, BIT(1) | BIT(2) | BIT(3));
    assert_int_equal(told(c)->valid_until_ns, 0); /* the leader's own business */
    core_free(c);
    core_free(leader);
}

/* Who is not in the set is not in the partition, though it hears the leader. */
static void who_is_not_in_the_support_set_does_not_follow(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    write_draft(c, "ELECTION");
    put(c, "request", 1);
    put(c, "token", 1);
    put(c, "leading", 1);
    put_set(c, "support", BIT(1) | BIT(2));
    hear(c, 1, FAST_NS);
    assert_null(told(c));
    core_free(c);
}

/* A follower forgets its leader when its lock ends, and when it is released. */
static void follower_forgets_its_leader_when_its_lock_ends(void **unused)
{
    (void)unused;
    for (uint32_t is_released = 0; is_released < 2; is_released++) {
        struct core *c = core_new(3, 3, "");
        write_draft(c, "ELECTION");
        put(c, "request", 1);
        put(c, "token", 1);
        put(c, "leading", 1);
        put_set(c, "support", BIT(1) | BIT(3));
        hear(c, 1, FAST_NS);
        assert_int_equal(told(c)->leader, 1);
        if (is_released) {
            hear_release(c, 1, 1);
        } else {
            const int64_t heard_ns = c->now_ns;
            for (int64_t ms = 1; told(c) == NULL || ms == 1; ms++) {
                wait_until(c, cv__min64(heard_ns + LOCK_NS, heard_ns + ms * NS_PER_MS));
            }
            assert_int_equal(c->now_ns, heard_ns + LOCK_NS);
        }
        assert_non_null(told(c));
        assert_int_equal(told(c)->leader, CV_ID_NONE);
        core_free(c);
    }
}

/* ---- Resigning, hints, succession (ours) -------------------------------------------------------
 */

/* Its leadership is over first, then it frees its supporters and says that it is not to be waited
 * for. */
static void resigning_leader_releases_and_stands_aside(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 3, "");
    (void)elect(c);
    step(c, (struct cv_event){.kind = CV_EVENT_RESIGN});
    assert_non_null(told(c));
    assert_int_equal(told(c)->leader, CV_ID_NONE);
    assert_int_equal(told(c)->reason, CV_REASON_RESIGNED);
    assert_int_equal(c->out.item[0].kind == CV_EFFECT_SEND, 0);
    const struct cv_message *m = said(c, "RELEASE");
    assert_non_null(m);
    assert_int_equal(field(c, m, "gone"), 1);
    assert_true(is_supported(c, 2, 1, 50)); /* though 2 is higher: it does not stand itself */
    assert_int_equal(field(c, said(c, "REPLY"), "aside"), 1);
    core_free(c);
}

/* Only a leader can. */
static void resigning_of_a_follower_means_nothing(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 1, 1, 1));
    step(c, (struct cv_event){.kind = CV_EVENT_RESIGN});
    assert_int_equal(c->out.item_count, 0);
    assert_false(is_supported(c, 2, 1, 2)); /* still locked to 1 */
    core_free(c);
}

/* Who stands aside is alive, asked for support, but not taken for the lowest. */
static void process_that_stands_aside_is_not_waited_for(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 1, 1, 1));
    write_draft(c, "RELEASE");
    put(c, "request", 1);
    put(c, "gone", 1);
    hear(c, 1, FAST_NS);
    assert_true(is_supported(c, 2, 1, 2));
    core_free(c);
}

/* "takes p out of aliveSet at once; locks stay until lockedUntil (safety never rests on a hint)" */
static void hint_takes_out_of_the_alive_set_and_leaves_the_lock(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    const int64_t locked_ns = c->now_ns;
    assert_true(is_supported(c, 1, 1, 1));
    step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 1});
    assert_false(is_supported(c, 2, 1, 2)); /* 2 is the lowest now, but the lock ... */
    c->now_ns = locked_ns + LOCK_NS - 1;
    assert_false(is_supported(c, 2, 2, 3));
    c->now_ns = locked_ns + LOCK_NS;
    assert_true(is_supported(c, 2, 3, 4));
    core_free(c);
}

/* "A RELEASE sent on the dead process's behalf by its own host's agent frees the locks at once." */
static void certain_hint_frees_the_lock(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 3, "");
    assert_true(is_supported(c, 1, 1, 1));
    step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 1, .is_certain = true});
    assert_true(is_supported(c, 2, 1, 2));
    core_free(c);
}

static void certain_hint_frees_no_lock_to_another(void **unused)
{
    (void)unused;
    struct core *c = core_new(4, 4, "");
    assert_true(is_supported(c, 2, 1, 1));
    step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 3, .is_certain = true});
    assert_false(is_supported(c, 1, 1, 2));
    core_free(c);
}

/* Orphans stand up in the order of ids, each later by Delta + sigma for each one before it. */
static void orphans_stand_up_one_after_the_other(void **unused)
{
    (void)unused;
    for (uint32_t has_succession = 0; has_succession < 2; has_succession++) {
        for (cv_id self = 2; self <= 5; self++) {
            struct core *c = core_new(self, 5, has_succession ? "" : "succession=no");
            write_draft(c, "ELECTION");
            put(c, "request", 1);
            put(c, "token", 1);
            put(c, "leading", 1);
            put_set(c, "support", BIT(1) | BIT(2) | BIT(3) | BIT(4) | BIT(5));
            hear(c, 1, FAST_NS);
            const int64_t heard_ns = c->now_ns;
            (void)await(c, "ELECTION", 3 * EXPIRES_NS);
            const int64_t places = has_succession ? self - 2 : 0;
            assert_int_equal(c->now_ns, heard_ns + EXPIRES_NS + 1 + places * 10 * NS_PER_MS);
            core_free(c);
        }
    }
}

/* ---- sec. XI, fig. 28: collation ---------------------------------------------------------------
 */

/* The renewal of a leader that this process supports, with `alive` as the tree. */
static void hear_renewal(struct core *c, uint64_t request, uint64_t tree)
{
    write_draft(c, "ELECTION");
    put(c, "request", request);
    put(c, "token", 1);
    put(c, "leading", 1);
    put_set(c, "alive", tree);
    put_set(c, "support", tree);
    hear(c, 1, FAST_NS);
}

static const uint64_t tree_of_seven = 0xfe; /* 1 | 2 3 | 4 5 under 2, 6 7 under 3 */

/* [Fetzer99, fig. 28] "a process that is a leaf of the tree replies to its parent node" */
static void leaf_answers_to_its_parent(void **unused)
{
    (void)unused;
    for (cv_id self = 4; self <= 7; self++) {
        struct core *c = core_new(self, 7, "collate=2");
        hear_renewal(c, 9, tree_of_seven);
        assert_null(said(c, "REPLY"));
        cv_id to;
        const struct cv_message *m = said_to(c, "COLLATED", &to);
        assert_non_null(m);
        assert_int_equal(to, self / 2);
        assert_int_equal(field(c, m, "candidate"), 1);
        assert_int_equal(field(c, m, "request"), 9);
        assert_int_equal(set_in(c, m, "support"), BIT(self));
        core_free(c);
    }
}

static void hear_collated(struct core *c, cv_id from, uint64_t request, uint64_t supporters)
{
    write_draft(c, "COLLATED");
    put(c, "request", request);
    put(c, "candidate", 1);
    put_set(c, "replied", supporters);
    put_set(c, "support", supporters);
    hear(c, from, FAST_NS);
}

/* [Fetzer99, fig. 28] "an inner node waits for the replies of its children and replies to its
 * parent node" */
static void inner_node_waits_for_its_children(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 7, "collate=2");
    hear_renewal(c, 9, tree_of_seven);
    assert_null(said(c, "COLLATED"));
    assert_null(said(c, "REPLY"));
    hear_collated(c, 7, 9, BIT(7));
    assert_null(said(c, "COLLATED"));
    hear_collated(c, 6, 9, BIT(6));
    cv_id to;
    const struct cv_message *m = said_to(c, "COLLATED", &to);
    assert_non_null(m);
    assert_int_equal(to, 1);
    assert_int_equal(set_in(c, m, "support"), BIT(3) | BIT(6) | BIT(7));
    core_free(c);
}

/* "an inner node that does not hear its children in time passes on what it has" */
static void inner_node_passes_on_what_it_has_when_a_child_is_silent(void **unused)
{
    (void)unused;
    struct core *c = core_new(3, 7, "collate=2");
    hear_renewal(c, 9, tree_of_seven);
    hear_collated(c, 6, 9, BIT(6));
    const int64_t asked_ns = c->now_ns;
    const struct cv_message *m = await(c, "COLLATED", DELTA_NS);
    assert_true(c->now_ns <= asked_ns + DELTA_NS); /* early enough for the leader */
    assert_int_equal(set_in(c, m, "support"), BIT(3) | BIT(6));
    /* The late one is not kept back. */
    hear_collated(c, 7, 9, BIT(7));
    cv_id to;
    m = said_to(c, "COLLATED", &to);
    assert_non_null(m);
    assert_int_equal(to, 1);
    assert_int_equal(set_in(c, m, "support"), BIT(7));
    core_free(c);
}

/* [Fetzer99, fig. 28] "processes outside the aliveSet of 0 reply directly to 0" */
static void process_outside_the_tree_answers_directly(void **unused)
{
    (void)unused;
    struct core *c = core_new(5, 7, "collate=2");
    hear_renewal(c, 9, tree_of_seven & ~BIT(5));
    assert_null(said(c, "COLLATED"));
    cv_id to;
    assert_non_null(said_to(c, "REPLY", &to));
    assert_int_equal(to, 1);
    core_free(c);
}

/* [Ours] A request that comes again was not answered completely: the way up may be broken. Other
 * candidates' requests in between do not hide it. */
static void repeated_request_is_answered_directly(void **unused)
{
    (void)unused;
    for (uint32_t has_rival = 0; has_rival < 2; has_rival++) {
        struct core *c = core_new(5, 7, "collate=2");
        hear_renewal(c, 9, tree_of_seven);
        assert_non_null(said(c, "COLLATED"));
        if (has_rival) {
            (void)is_supported(c, 6, 4, 1);
        }
        hear_renewal(c, 9, tree_of_seven);
        assert_null(said(c, "COLLATED"));
        assert_non_null(said(c, "REPLY"));
        hear_renewal(c, 10, tree_of_seven); /* for a while */
        assert_non_null(said(c, "REPLY"));
        c->now_ns += EXPIRES_NS;
        hear_renewal(c, 11, tree_of_seven);
        assert_non_null(said(c, "COLLATED"));
        core_free(c);
    }
}

/* The root counts what its children gathered. */
static void root_counts_the_answers_that_its_children_gathered(void **unused)
{
    (void)unused;
    struct core *c = core_new(1, 7, "collate=2");
    (void)elect(c);
    const struct cv_message *m = await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = field(c, m, "request");
    hear_collated(c, 2, request, BIT(2) | BIT(4) | BIT(5));
    assert_null(told(c));
    hear_collated(c, 3, request, BIT(3) | BIT(6) | BIT(7));
    assert_non_null(told(c));
    assert_int_equal(told(c)->reason, CV_REASON_RENEWED);
    assert_int_equal(told(c)->members.word[0] << 1, tree_of_seven);
    core_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(election_carries_the_request_and_the_alive_set),
        cmocka_unit_test(lowest_broadcasts_every_election_period),
        cmocka_unit_test(higher_one_is_silent_until_the_lower_one_expires),
        cmocka_unit_test(being_told_of_others_makes_it_say_nothing_of_its_own),
        cmocka_unit_test(slow_election_is_not_answered),
        cmocka_unit_test(election_just_within_delta_is_answered),
        cmocka_unit_test(only_the_lowest_alive_is_supported),
        cmocka_unit_test(no_higher_one_is_supported),
        cmocka_unit_test(locked_process_supports_nobody_else),
        cmocka_unit_test(lock_is_prolonged_by_the_same_candidate),
        cmocka_unit_test(release_of_the_request_frees_the_lock),
        cmocka_unit_test(slow_release_frees_the_lock_as_well),
        cmocka_unit_test(release_of_an_earlier_request_frees_nothing),
        cmocka_unit_test(request_that_was_overtaken_does_not_weaken_the_lock),
        cmocka_unit_test(release_by_another_frees_nothing),
        cmocka_unit_test(release_makes_nobody_alive),
        cmocka_unit_test(fast_echo_makes_its_sender_alive),
        cmocka_unit_test(first_request_fails_and_the_second_succeeds),
        cmocka_unit_test(request_within_delta_of_the_first_fails_as_well),
        cmocka_unit_test(leads_as_soon_as_all_have_supported),
        cmocka_unit_test(slow_refusing_or_old_replies_do_not_count),
        cmocka_unit_test(newcomer_must_support_as_well),
        cmocka_unit_test(no_leader_above_a_lower_one),
        cmocka_unit_test(validity_counts_from_the_request),
        cmocka_unit_test(failed_attempt_is_released),
        cmocka_unit_test(attempt_without_support_is_not_released),
        cmocka_unit_test(leader_whose_renewal_failed_does_not_release),
        cmocka_unit_test(answers_to_a_repeated_renewal_add_up),
        cmocka_unit_test(lapsed_leadership_is_over_before_anything_else_and_not_revived),
        cmocka_unit_test(restarted_process_supports_nobody_for_lock),
        cmocka_unit_test(restarted_process_that_never_supported_does_not_wait),
        cmocka_unit_test(restarted_candidate_does_not_support_itself_for_lock),
        cmocka_unit_test(token_is_saved_before_the_answer),
        cmocka_unit_test(token_that_is_not_larger_is_refused),
        cmocka_unit_test(refusal_tells_the_token),
        cmocka_unit_test(accepted_token_survives_a_crash),
        cmocka_unit_test(candidate_tops_the_largest_token_it_heard_of),
        cmocka_unit_test(renewal_keeps_the_token),
        cmocka_unit_test(process_whose_disk_fails_takes_no_further_part),
        cmocka_unit_test(supporters_learn_their_partition_from_the_next_election),
        cmocka_unit_test(who_is_not_in_the_support_set_does_not_follow),
        cmocka_unit_test(follower_forgets_its_leader_when_its_lock_ends),
        cmocka_unit_test(resigning_leader_releases_and_stands_aside),
        cmocka_unit_test(resigning_of_a_follower_means_nothing),
        cmocka_unit_test(process_that_stands_aside_is_not_waited_for),
        cmocka_unit_test(hint_takes_out_of_the_alive_set_and_leaves_the_lock),
        cmocka_unit_test(certain_hint_frees_the_lock),
        cmocka_unit_test(certain_hint_frees_no_lock_to_another),
        cmocka_unit_test(orphans_stand_up_one_after_the_other),
        cmocka_unit_test(leaf_answers_to_its_parent),
        cmocka_unit_test(inner_node_waits_for_its_children),
        cmocka_unit_test(inner_node_passes_on_what_it_has_when_a_child_is_silent),
        cmocka_unit_test(process_outside_the_tree_answers_directly),
        cmocka_unit_test(repeated_request_is_answered_directly),
        cmocka_unit_test(root_counts_the_answers_that_its_children_gathered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
