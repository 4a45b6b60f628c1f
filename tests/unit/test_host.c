/* tests/unit/test_host.c - the host fulfils what conclave/core.h says that hosts owe a core.
 *
 * In most tests a function of the test answers for the core. Clock and random numbers come from the
 * test too, so nothing sleeps; the loop runs only for the disk. */
#include "core/effects.h"
#include "os/clock.h"
#include "runtime/host.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEN_MAX 1024u

/* ---- A core that does what the test says ----------------------------------------------------- */

typedef void script(const struct cv_event *event, struct cv_effects *out);
static script *on_event;
static struct cv_event seen[SEEN_MAX];
static uint64_t seen_field[SEEN_MAX];
static uint32_t seen_count;
static bool is_within_a_step;

static const struct cv_option no_options[] = {{0}};
static const struct cv_message_type messages[] = {
    {.name = "PING", .fields = {{"number", CV_FIELD_U64}}},
    {.name = "HINT", .fields = {{"number", CV_FIELD_U64}}, .is_free = true},
};

static int script_configure(struct cv_config *config, struct cv_errtext *reterr)
{
    (void)config;
    (void)reterr;
    return CV_OK;
}

static size_t script_size(const struct cv_config *config)
{
    (void)config;
    return 8;
}

static void script_init(void *state, const struct cv_config *config)
{
    (void)config;
    memset(state, 0, 8);
}

static void script_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    (void)state;
    assert_false(is_within_a_step);
    is_within_a_step = true;
    assert_true(seen_count < SEEN_MAX);
    seen_field[seen_count] = event->kind == CV_EVENT_MESSAGE ? event->message->field[0] : 0;
    seen[seen_count++] = *event;
    if (on_event != NULL) {
        on_event(event, out);
    }
    is_within_a_step = false;
}

static void script_check(const void *state)
{
    (void)state;
}

static const struct cv_protocol scripted = {
    .name = "scripted",
    .options = no_options,
    .messages = messages,
    .message_count = COUNT_OF(messages),
    .configure = script_configure,
    .size = script_size,
    .init = script_init,
    .step = script_step,
    .check = script_check,
};

static void send_ping(struct cv_effects *out, uint64_t number)
{
    cv__effect_send_all(out, 0)->field[0] = number;
}

/* ---- The services ---------------------------------------------------------------------------- */

struct rig {
    uv_loop_t loop;
    struct cv_host *host;
    int64_t now_ns;
    uint64_t random;
    uint32_t closed_count;

    uint64_t sent[SEEN_MAX]; /* field 0 of each */
    uint32_t sent_count;
    bool echoes; /* what is sent comes back from within send() */

    uint64_t told_token[SEEN_MAX];
    int64_t told_until_ns[SEEN_MAX];
    uint32_t told_count;
    char trouble[256];

    uint64_t saved[CV_PERSIST_WORDS_MAX];
    uint32_t saved_count, save_calls;
    uint32_t sent_at_save; /* how many sends had left when the save began */
    bool disk_fails, is_damaged;

    uint64_t asked_request, asked_reference;
};

static int64_t rig_now(void *self)
{
    return ((struct rig *)self)->now_ns;
}

static uint64_t rig_random(void *self)
{
    return ((struct rig *)self)->random;
}

static void rig_send(void *self, cv_id first, cv_id last, const uint8_t *bytes, size_t byte_count)
{
    struct rig *rig = self;
    struct cv_message message;
    uint64_t word[256];
    assert_int_equal(first, 1);
    assert_int_equal(last, CV_MEMBERS_MAX);
    assert_int_equal(cv_message_decode(&scripted, 3, bytes, byte_count, word, &message), CV_OK);
    rig->sent[rig->sent_count++] = message.field[0];
    if (rig->echoes) {
        cv__host_message(rig->host, 2, bytes, byte_count, INT64_MAX);
    }
}

static void rig_told(void *self, const struct cv_leadership *leadership)
{
    struct rig *rig = self;
    rig->told_token[rig->told_count] = leadership->token;
    rig->told_until_ns[rig->told_count++] = leadership->valid_until_ns;
}

static void rig_trouble(void *self, const char *line)
{
    struct rig *rig = self;
    (void)snprintf(rig->trouble, sizeof rig->trouble, "%s", line);
}

static int rig_load(void *self, uint64_t ret_word[CV_PERSIST_WORDS_MAX], uint32_t *ret_count,
                    struct cv_errtext *reterr)
{
    struct rig *rig = self;
    if (rig->is_damaged) {
        (void)snprintf(reterr->text, sizeof reterr->text, "damaged");
        return CV_E_MALFORMED;
    }
    memcpy(ret_word, rig->saved, sizeof rig->saved);
    *ret_count = rig->saved_count;
    return CV_OK;
}

static int rig_save(void *self, const uint64_t *word, uint32_t word_count,
                    struct cv_errtext *reterr)
{
    struct rig *rig = self;
    rig->save_calls++;
    rig->sent_at_save = rig->sent_count;
    if (rig->disk_fails) {
        (void)snprintf(reterr->text, sizeof reterr->text, "the disk is full");
        return CV_E_STORE;
    }
    memcpy(rig->saved, word, word_count * sizeof *word);
    rig->saved_count = word_count;
    return CV_OK;
}

static void rig_ask(void *self, uint64_t request, uint64_t reference)
{
    struct rig *rig = self;
    rig->asked_request = request;
    rig->asked_reference = reference;
}

static void rig_closed(void *data)
{
    ((struct rig *)data)->closed_count++;
}

static struct cv_host_services services_of(struct rig *rig)
{
    return (struct cv_host_services){
        .transport = {rig, rig_send},
        .sequencer = {rig, rig_ask},
        .persist = {.self = rig, .load = rig_load, .save = rig_save},
        .told = {rig, rig_told, rig_trouble},
        .time = {.self = rig, .now_ns = rig_now, .random = rig_random},
    };
}

static void rig_open(struct rig *rig, const struct cv_host_services *services, script *answer)
{
    seen_count = 0;
    on_event = answer;
    struct cv_config config;
    struct cv_errtext why;
    cv_config_init(&config, &scripted, 1, 3);
    assert_int_equal(cv_core_configure(&scripted, &config, &why), CV_OK);
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    assert_int_equal(cv__host_new(&rig->loop, &scripted, &config, services, &rig->host, &why),
                     CV_OK);
}

static void rig_start(struct rig *rig, script *answer)
{
    memset(rig, 0, sizeof *rig);
    rig->now_ns = 1000;
    rig->random = 7;
    const struct cv_host_services services = services_of(rig);
    rig_open(rig, &services, answer);
    struct cv_errtext why;
    assert_int_equal(cv__host_start(rig->host, &why), CV_OK);
}

static void rig_end(struct rig *rig)
{
    cv__host_free(rig->host, rig_closed, rig);
    assert_int_equal(rig->closed_count, 0); /* rig_closed() is called by the loop */
    (void)uv_run(&rig->loop, UV_RUN_DEFAULT);
    assert_int_equal(rig->closed_count, 1);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
}

/* Turns the loop until the disk has answered. */
static void turn_until_saved(struct rig *rig, uint32_t save_calls)
{
    while (rig->save_calls < save_calls || cv__host_counts(rig->host)->saved < save_calls) {
        (void)uv_run(&rig->loop, UV_RUN_ONCE);
    }
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void arm_in_a_range(const struct cv_event *event, struct cv_effects *out)
{
    if (event->kind == CV_EVENT_START) {
        cv__effect_arm(out, 3, event->now_ns + 100, event->now_ns + 199);
    }
}

static void a_timer_fires_once_at_a_drawn_instant(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, arm_in_a_range);
    assert_int_equal(cv__host_next_due_ns(rig.host), 1000 + 100 + 7); /* 7 of 0..99 */
    rig.now_ns = 1106;
    cv__host_run_due(rig.host);
    assert_int_equal(seen_count, 1);
    rig.now_ns = 1300;
    cv__host_run_due(rig.host);
    assert_int_equal(seen_count, 2);
    assert_int_equal(seen[1].kind, CV_EVENT_TIMER);
    assert_int_equal(seen[1].timer, 3);
    assert_int_equal(seen[1].now_ns, 1300);
    assert_int_equal(cv__host_next_due_ns(rig.host), 0);
    cv__host_run_due(rig.host);
    assert_int_equal(seen_count, 2);
    rig_end(&rig);
}

static void arm_three(const struct cv_event *event, struct cv_effects *out)
{
    if (event->kind == CV_EVENT_START) {
        cv__effect_arm(out, 0, event->now_ns + 30, event->now_ns + 30);
        cv__effect_arm(out, 1, event->now_ns + 10, event->now_ns + 10);
        cv__effect_arm(out, 2, event->now_ns + 20, event->now_ns + 20);
    } else if (event->timer == 1) {
        cv__effect_disarm(out, 2);
    }
}

static void due_timers_fire_in_order_unless_disarmed(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, arm_three);
    rig.now_ns = 5000;
    cv__host_run_due(rig.host);
    assert_int_equal(seen_count, 3);
    assert_int_equal(seen[1].timer, 1);
    assert_int_equal(seen[2].timer, 0);
    rig_end(&rig);
}

static int64_t ticking(void *self)
{
    return ++((struct rig *)self)->now_ns;
}

static void the_clock_is_read_for_each_event(void **unused)
{
    (void)unused;
    struct rig rig = {.now_ns = 1000};
    struct cv_host_services services = services_of(&rig);
    services.time.now_ns = ticking;
    rig_open(&rig, &services, arm_three);
    struct cv_errtext why;
    assert_int_equal(cv__host_start(rig.host, &why), CV_OK);
    rig.now_ns = 5000;
    cv__host_run_due(rig.host);
    assert_int_equal(seen_count, 3);
    assert_true(seen[0].now_ns < seen[1].now_ns && seen[1].now_ns < seen[2].now_ns);
    rig_end(&rig);
}

static void arm_a_millisecond(const struct cv_event *event, struct cv_effects *out)
{
    if (seen_count <= 3) {
        cv__effect_arm(out, 0, event->now_ns + NS_PER_MS, event->now_ns + NS_PER_MS);
    }
}

static void arm_a_millisecond_after_the_start(const struct cv_event *event, struct cv_effects *out)
{
    if (event->kind == CV_EVENT_START) {
        cv__effect_arm(out, 0, event->now_ns + NS_PER_MS, event->now_ns + NS_PER_MS);
    }
}

static void the_kernels_timers_are_not_early(void **unused)
{
    (void)unused;
    struct rig rig = {0};
    struct cv_host_services services = services_of(&rig);
    services.time = (struct cv_host_time){0};
    rig_open(&rig, &services, arm_a_millisecond);
    const int64_t begin_ns = cv__clock_now_ns();
    struct cv_errtext why;
    assert_int_equal(cv__host_start(rig.host, &why), CV_OK);
    while (seen_count < 4) {
        (void)uv_run(&rig.loop, UV_RUN_ONCE);
    }
    for (uint32_t i = 1; i < seen_count; i++) {
        assert_true(seen[i].now_ns >= seen[i - 1].now_ns + NS_PER_MS);
    }
    assert_true(seen[0].now_ns >= begin_ns);
    assert_int_equal(seen[0].nonce, cv__host_nonce(rig.host));
    rig_end(&rig);
}

#define SHARERS 3u

/* Each host gets its own events, even after the one with the earliest timer is freed. */
static void hosts_of_a_loop_share_a_timer_of_the_kernel(void **unused)
{
    (void)unused;
    struct rig rig = {0};
    struct cv_errtext why;
    struct cv_timers *timers = NULL;
    assert_int_equal(uv_loop_init(&rig.loop), 0);
    assert_int_equal(cv__timers_new(&rig.loop, &timers, &why), CV_OK);
    struct cv_config config;
    cv_config_init(&config, &scripted, 1, 3);
    assert_int_equal(cv_core_configure(&scripted, &config, &why), CV_OK);
    const struct cv_host_services services = {.time = {.timers = timers}};
    struct cv_host *host[SHARERS];
    seen_count = 0;
    on_event = arm_a_millisecond_after_the_start;
    for (uint32_t i = 0; i < SHARERS; i++) {
        assert_int_equal(cv__host_new(&rig.loop, &scripted, &config, &services, &host[i], &why),
                         CV_OK);
        assert_int_equal(cv__host_start(host[i], &why), CV_OK);
    }
    cv__host_free(host[0], rig_closed, &rig); /* its timer is the earliest */
    while (seen_count < 2 * SHARERS - 1) {
        (void)uv_run(&rig.loop, UV_RUN_ONCE);
    }
    for (uint32_t i = 1; i < SHARERS; i++) {
        assert_int_equal(seen[SHARERS + i - 1].kind, CV_EVENT_TIMER);
        assert_true(seen[SHARERS + i - 1].now_ns >= seen[i].now_ns + NS_PER_MS);
        assert_int_equal(cv__host_counts(host[i])->steps, 2);
        assert_int_equal(cv__host_next_due_ns(host[i]), 0);
        cv__host_free(host[i], rig_closed, &rig);
    }
    cv__timers_free(timers, rig_closed, &rig);
    (void)uv_run(&rig.loop, UV_RUN_DEFAULT);
    assert_int_equal(rig.closed_count, SHARERS + 1);
    assert_int_equal(uv_loop_close(&rig.loop), 0);
}

/* ---- Nobody calls back into a step ----------------------------------------------------------- */

static void ping_back(const struct cv_event *event, struct cv_effects *out)
{
    if (event->kind == CV_EVENT_START) {
        send_ping(out, 1);
    } else if (event->kind == CV_EVENT_MESSAGE && event->message->field[0] < 5) {
        send_ping(out, event->message->field[0] + 1);
    }
}

static void an_event_during_a_step_waits_for_its_end(void **unused)
{
    (void)unused;
    struct rig rig = {.now_ns = 1000, .echoes = true};
    const struct cv_host_services services = services_of(&rig);
    rig_open(&rig, &services, ping_back);
    struct cv_errtext why;
    /* Script_step() asserts that no step is under way. */
    assert_int_equal(cv__host_start(rig.host, &why), CV_OK);
    assert_int_equal(seen_count, 6);
    for (uint64_t i = 1; i <= 5; i++) {
        assert_int_equal(seen[i].kind, CV_EVENT_MESSAGE);
        assert_int_equal(seen[i].peer, 2);
        assert_int_equal(seen_field[i], i);
        assert_int_equal(rig.sent[i - 1], i);
    }
    rig_end(&rig);
}

static void ping_to_self(const struct cv_event *event, struct cv_effects *out)
{
    if (event->kind == CV_EVENT_START) {
        send_ping(out, 9);
        out->item[out->item_count - 1].to_self = true;
    }
}

static void a_message_to_oneself_comes_after_the_step(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, ping_to_self);
    assert_int_equal(seen_count, 2);
    assert_int_equal(seen[1].peer, 1);
    assert_int_equal(seen_field[1], 9);
    rig_end(&rig);
}

static void send_many(const struct cv_event *event, struct cv_effects *out)
{
    if (event->kind == CV_EVENT_CAMPAIGN) {
        for (uint32_t i = 0; i < CV_EFFECTS_MAX; i++) {
            send_ping(out, i);
        }
    }
}

static struct rig *flooded;

static void flood(void *self, cv_id first, cv_id last, const uint8_t *bytes, size_t byte_count)
{
    (void)self;
    (void)first;
    (void)last;
    for (uint32_t i = 0; i < 30; i++) {
        cv__host_message(flooded->host, 2, bytes, byte_count, INT64_MAX);
    }
}

static void a_full_queue_drops_messages_and_counts_them(void **unused)
{
    (void)unused;
    struct rig rig = {.now_ns = 1000};
    struct cv_host_services services = services_of(&rig);
    services.transport.send = flood;
    flooded = &rig;
    rig_open(&rig, &services, send_many);
    struct cv_errtext why;
    assert_int_equal(cv__host_start(rig.host, &why), CV_OK);
    cv__host_campaign(rig.host, true);
    const struct cv_node_counts *counts = cv__host_counts(rig.host);
    assert_int_equal(counts->received, CV_HOST_QUEUE_MAX);
    assert_int_equal(counts->dropped, 30 * CV_EFFECTS_MAX - CV_HOST_QUEUE_MAX);
    rig_end(&rig);
}

static void a_message_that_does_not_decode_is_counted(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, NULL);
    static const uint8_t garbage[] = {0xff, 0xff, 0xff};
    cv__host_message(rig.host, 2, garbage, sizeof garbage, INT64_MAX);
    cv__host_message(rig.host, 2, garbage, 0, INT64_MAX);
    assert_int_equal(cv__host_counts(rig.host)->malformed, 2);
    assert_int_equal(seen_count, 1);
    rig_end(&rig);
}

/* ---- The disk -------------------------------------------------------------------------------- */

static void promise(const struct cv_event *event, struct cv_effects *out)
{
    if (event->kind == CV_EVENT_REPORT) {
        const uint64_t word[] = {(uint64_t)event->value, 5};
        send_ping(out, 100 + (uint64_t)event->value); /* before the record: does not wait for it */
        cv__effect_persist(out, word, COUNT_OF(word));
        send_ping(out, (uint64_t)event->value);
        const struct cv_leadership leadership = {
            .is_self = true, .leader = 1, .token = (uint64_t)event->value};
        cv__effect_leadership(out, &leadership);
    } else if (event->kind == CV_EVENT_CAMPAIGN) {
        const uint64_t word[] = {7, 5};
        cv__effect_persist(out, word, COUNT_OF(word));
        cv__effect_leadership(out, &(struct cv_leadership){.is_self = true,
                                                           .leader = 1,
                                                           .token = 1,
                                                           .valid_until_ns = event->now_ns + 10,
                                                           .reason = CV_REASON_RENEWED});
    } else if (event->kind == CV_EVENT_RESIGN) {
        cv__effect_leadership(out, &(struct cv_leadership){.reason = CV_REASON_RESIGNED});
    }
}

static void a_send_never_overtakes_a_persist(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, promise);
    cv__host_report(rig.host, CV_INPUT_LOAD, 1);
    assert_int_equal(rig.sent_count, 1);
    assert_int_equal(rig.sent[0], 101);
    assert_int_equal(rig.told_count, 0);
    turn_until_saved(&rig, 1);
    assert_int_equal(rig.sent_at_save, 1);
    assert_int_equal(rig.saved[0], 1);
    assert_int_equal(rig.sent_count, 2);
    assert_int_equal(rig.sent[1], 1);
    assert_int_equal(rig.told_count, 1);
    rig_end(&rig);
}

static void the_end_of_a_leadership_does_not_wait_for_the_disk(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, promise);
    cv__host_report(rig.host, CV_INPUT_LOAD, 1);
    turn_until_saved(&rig, 1);
    assert_true(cv__host_leadership(rig.host)->is_self);
    cv__host_report(rig.host, CV_INPUT_LOAD, 2); /* a record is under way again */
    cv__host_resign(rig.host, CV_ID_NONE);
    assert_int_equal(rig.told_count, 2);
    assert_false(cv__host_leadership(rig.host)->is_self);
    turn_until_saved(&rig, 2);
    assert_int_equal(rig.told_count, 2); /* the renewal is not told after the loss */
    assert_int_equal(rig.sent_count, 4);
    rig_end(&rig);
}

/* If it were told after its end, it would look like a second leadership with the same token. */
static void a_renewal_of_a_leadership_that_was_told_does_not_wait_for_the_disk(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, promise);
    cv__host_campaign(rig.host, true); /* nothing was told yet: a gain, which waits for the disk */
    turn_until_saved(&rig, 1);
    assert_int_equal(rig.told_count, 1);
    cv__host_campaign(rig.host, true);
    assert_int_equal(rig.told_count, 2);
    cv__host_report(rig.host, CV_INPUT_LOAD, 2); /* another token: a gain */
    cv__host_campaign(rig.host, true);           /* waits behind that gain */
    assert_int_equal(rig.told_count, 2);
    turn_until_saved(&rig, 3);
    assert_int_equal(rig.told_count, 4);
    assert_int_equal(rig.told_token[2], 2);
    rig_end(&rig);
}

/* The renewal would wait for a second record, and might be told after the end of what was told with
 * the first one. */
static void a_renewal_of_a_gain_that_waits_is_told_with_it(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, promise);
    cv__host_campaign(rig.host, true);
    for (int i = 0; i < 100; i++) { /* more than effects that may wait: they take no place */
        rig.now_ns += 10;
        cv__host_campaign(rig.host, true); /* with a record of its own */
    }
    assert_int_equal(rig.told_count, 0);
    turn_until_saved(&rig, 1);
    assert_int_equal(rig.told_count, 1);
    assert_int_equal(rig.told_until_ns[0], rig.now_ns + 10);
    rig.now_ns += 10;
    cv__host_campaign(rig.host, true);
    assert_int_equal(rig.told_count, 2);
    assert_int_equal(rig.told_until_ns[1], rig.now_ns + 10);
    turn_until_saved(&rig, 2);
    assert_int_equal(rig.told_count, 2);
    rig_end(&rig);
}

static void a_leadership_that_ended_before_it_was_saved_is_never_told(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, promise);
    cv__host_report(rig.host, CV_INPUT_LOAD, 1);
    cv__host_resign(rig.host, CV_ID_NONE);
    assert_int_equal(rig.told_count, 0);
    turn_until_saved(&rig, 1);
    assert_int_equal(rig.told_count, 1);
    assert_int_equal(rig.told_token[0], 0);
    assert_int_equal(rig.sent_count, 2);
    rig_end(&rig);
}

static void records_that_follow_each_other_are_saved_together(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, promise);
    for (int64_t i = 1; i <= 50; i++) {
        cv__host_report(rig.host, CV_INPUT_LOAD, i);
    }
    turn_until_saved(&rig, 2);
    /* The first record, and the last of those that came meanwhile. */
    assert_int_equal(rig.save_calls, 2);
    assert_int_equal(rig.saved[0], 50);
    assert_int_equal(rig.sent_count, 100);
    for (uint32_t i = 1; i < 50; i++) { /* in their order: i, then 100 + i + 1 */
        assert_int_equal(rig.sent[2 * i - 1], i);
        assert_int_equal(rig.sent[2 * i], 100 + i + 1);
        assert_int_equal(rig.told_token[i], i + 1);
    }
    rig_end(&rig);
}

static void messages_behind_a_failed_save_are_never_sent(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, promise);
    rig.disk_fails = true;
    cv__host_report(rig.host, CV_INPUT_LOAD, 1);
    while (seen_count < 3) {
        (void)uv_run(&rig.loop, UV_RUN_ONCE);
    }
    assert_int_equal(seen[2].kind, CV_EVENT_PERSIST_FAILED);
    assert_string_equal(rig.trouble, "the disk is full");
    rig.disk_fails = false;
    cv__host_report(rig.host, CV_INPUT_LOAD, 2);
    assert_int_equal(rig.sent_count, 1);
    assert_int_equal(rig.save_calls, 1);
    rig_end(&rig);
}

static void a_save_on_a_quick_disk_is_waited_for_at_once(void **unused)
{
    (void)unused;
    struct rig rig = {.now_ns = 1000};
    struct cv_host_services services = services_of(&rig);
    services.persist.is_quick = true;
    rig_open(&rig, &services, promise);
    struct cv_errtext why;
    assert_int_equal(cv__host_start(rig.host, &why), CV_OK);
    cv__host_report(rig.host, CV_INPUT_LOAD, 1); /* the loop does not turn */
    assert_int_equal(rig.save_calls, 1);
    assert_int_equal(rig.sent_at_save, 1); /* only the send before the record had left */
    assert_int_equal(rig.sent_count, 2);
    assert_int_equal(rig.told_count, 1);
    rig.disk_fails = true;
    cv__host_report(rig.host, CV_INPUT_LOAD, 2);
    assert_int_equal(seen[seen_count - 1].kind, CV_EVENT_PERSIST_FAILED);
    assert_string_equal(rig.trouble, "the disk is full");
    assert_int_equal(rig.told_count, 1);
    rig_end(&rig);
}

static void without_a_disk_a_protocol_that_needs_one_stops(void **unused)
{
    (void)unused;
    struct rig rig = {.now_ns = 1000};
    struct cv_host_services services = services_of(&rig);
    services.persist = (struct cv_host_persist){0};
    rig_open(&rig, &services, promise);
    struct cv_errtext why;
    assert_int_equal(cv__host_start(rig.host, &why), CV_OK);
    cv__host_report(rig.host, CV_INPUT_LOAD, 1);
    assert_int_equal(seen_count, 3);
    assert_int_equal(seen[2].kind, CV_EVENT_PERSIST_FAILED);
    assert_int_equal(rig.sent_count, 1);
    assert_int_equal(rig.told_count, 0); /* it would lead on a record that nobody saved */
    rig_end(&rig);
}

/* A stall of the disk is not a failure: messages are dropped, and the latest belief is told after
 * it. */
static void effects_behind_a_hanging_disk_are_bounded(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, promise);
    for (int64_t i = 1; i <= 400; i++) { /* the loop does not turn: nothing is saved */
        cv__host_report(rig.host, CV_INPUT_LOAD, i);
    }
    assert_int_equal(rig.sent_count, 1);
    assert_int_equal(rig.told_count, 0);
    turn_until_saved(&rig, 2);
    for (uint32_t i = 0; i < seen_count; i++) {
        assert_int_not_equal(seen[i].kind, CV_EVENT_PERSIST_FAILED);
    }
    assert_int_equal(rig.told_token[rig.told_count - 1], 400);
    assert_true(rig.told_count < 300);
    assert_true(rig.sent_count < 300);
    assert_int_equal(cv__host_counts(rig.host)->dropped + rig.sent_count, 800);
    assert_int_equal(rig.saved[0], 400);
    rig_end(&rig);
}

static void promise_and_hint(const struct cv_event *event, struct cv_effects *out)
{
    if (event->kind == CV_EVENT_REPORT) {
        const uint64_t word[] = {(uint64_t)event->value};
        cv__effect_persist(out, word, COUNT_OF(word));
        send_ping(out, 1);
        cv__effect_send_all(out, 1)->field[0] = 2; /* HINT */
    }
}

static void a_message_that_promises_nothing_does_not_wait_for_the_disk(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, promise_and_hint);
    cv__host_report(rig.host, CV_INPUT_LOAD, 1);
    assert_int_equal(rig.sent_count, 1);
    assert_int_equal(rig.sent[0], 2);
    turn_until_saved(&rig, 1);
    assert_int_equal(rig.sent_count, 2);
    assert_int_equal(rig.sent[1], 1);
    rig_end(&rig);
}

static void after_a_failed_save_nothing_is_sent_at_all(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, promise_and_hint);
    rig.disk_fails = true;
    cv__host_report(rig.host, CV_INPUT_LOAD, 1);
    while (seen_count < 3) {
        (void)uv_run(&rig.loop, UV_RUN_ONCE);
    }
    cv__host_report(rig.host, CV_INPUT_LOAD, 2);
    assert_int_equal(rig.sent_count, 1); /* the HINT from before the failure */
    rig_end(&rig);
}

static void the_start_event_has_the_saved_record(void **unused)
{
    (void)unused;
    struct rig rig = {.now_ns = 1000, .saved = {4, 5, 6}, .saved_count = 3, .random = 77};
    const struct cv_host_services services = services_of(&rig);
    rig_open(&rig, &services, NULL);
    struct cv_errtext why;
    assert_int_equal(cv__host_start(rig.host, &why), CV_OK);
    assert_int_equal(seen[0].kind, CV_EVENT_START);
    assert_int_equal(seen[0].persisted_count, 3);
    assert_int_equal(seen[0].nonce, 77);
    rig_end(&rig);
}

static void a_host_with_a_damaged_record_does_not_start(void **unused)
{
    (void)unused;
    struct rig rig = {.now_ns = 1000, .is_damaged = true};
    const struct cv_host_services services = services_of(&rig);
    rig_open(&rig, &services, NULL);
    struct cv_errtext why;
    assert_int_equal(cv__host_start(rig.host, &why), CV_E_MALFORMED);
    assert_int_equal(seen_count, 0);
    rig_end(&rig);
}

/* ---- The sequencer, and the end -------------------------------------------------------------- */

static void ask_once(const struct cv_event *event, struct cv_effects *out)
{
    if (event->kind == CV_EVENT_START) {
        cv__effect_ask_sequence(out, 1, 55);
    }
}

static void questions_go_to_the_sequencer_and_answers_to_the_core(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, ask_once);
    assert_int_equal(rig.asked_request, 1);
    assert_int_equal(rig.asked_reference, 55);
    cv__host_sequence(rig.host, 1, 56);
    assert_int_equal(seen[1].kind, CV_EVENT_SEQUENCE);
    assert_int_equal(seen[1].sequence, 56);
    rig_end(&rig);
}

static struct rig *ending;

static void end_it(void *self, const struct cv_leadership *leadership)
{
    (void)self;
    (void)leadership;
    cv__host_free(ending->host, rig_closed, ending);
}

static void lead_and_send(const struct cv_event *event, struct cv_effects *out)
{
    if (event->kind == CV_EVENT_CAMPAIGN) {
        const struct cv_leadership leadership = {.leader = 1, .token = 1};
        cv__effect_leadership(out, &leadership);
        send_ping(out, 1);
    }
}

static void a_host_may_be_freed_in_its_own_callback(void **unused)
{
    (void)unused;
    struct rig rig = {.now_ns = 1000};
    struct cv_host_services services = services_of(&rig);
    services.told.leadership = end_it;
    ending = &rig;
    rig_open(&rig, &services, lead_and_send);
    struct cv_errtext why;
    assert_int_equal(cv__host_start(rig.host, &why), CV_OK);
    cv__host_campaign(rig.host, true);
    assert_int_equal(rig.sent_count, 0);
    (void)uv_run(&rig.loop, UV_RUN_DEFAULT);
    assert_int_equal(rig.closed_count, 1);
    assert_int_equal(uv_loop_close(&rig.loop), 0);
}

static void freeing_a_host_waits_for_a_save_under_way(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_start(&rig, promise);
    cv__host_report(rig.host, CV_INPUT_LOAD, 1);
    rig_end(&rig);
    assert_int_equal(rig.save_calls, 1);
    assert_int_equal(rig.sent_count, 1); /* and nothing more is sent */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_fires_once_at_a_drawn_instant),
        cmocka_unit_test(due_timers_fire_in_order_unless_disarmed),
        cmocka_unit_test(the_clock_is_read_for_each_event),
        cmocka_unit_test(the_kernels_timers_are_not_early),
        cmocka_unit_test(hosts_of_a_loop_share_a_timer_of_the_kernel),
        cmocka_unit_test(an_event_during_a_step_waits_for_its_end),
        cmocka_unit_test(a_message_to_oneself_comes_after_the_step),
        cmocka_unit_test(a_full_queue_drops_messages_and_counts_them),
        cmocka_unit_test(a_message_that_does_not_decode_is_counted),
        cmocka_unit_test(a_send_never_overtakes_a_persist),
        cmocka_unit_test(the_end_of_a_leadership_does_not_wait_for_the_disk),
        cmocka_unit_test(a_renewal_of_a_leadership_that_was_told_does_not_wait_for_the_disk),
        cmocka_unit_test(a_renewal_of_a_gain_that_waits_is_told_with_it),
        cmocka_unit_test(a_leadership_that_ended_before_it_was_saved_is_never_told),
        cmocka_unit_test(records_that_follow_each_other_are_saved_together),
        cmocka_unit_test(messages_behind_a_failed_save_are_never_sent),
        cmocka_unit_test(a_save_on_a_quick_disk_is_waited_for_at_once),
        cmocka_unit_test(without_a_disk_a_protocol_that_needs_one_stops),
        cmocka_unit_test(effects_behind_a_hanging_disk_are_bounded),
        cmocka_unit_test(a_message_that_promises_nothing_does_not_wait_for_the_disk),
        cmocka_unit_test(after_a_failed_save_nothing_is_sent_at_all),
        cmocka_unit_test(the_start_event_has_the_saved_record),
        cmocka_unit_test(a_host_with_a_damaged_record_does_not_start),
        cmocka_unit_test(questions_go_to_the_sequencer_and_answers_to_the_core),
        cmocka_unit_test(a_host_may_be_freed_in_its_own_callback),
        cmocka_unit_test(freeing_a_host_waits_for_a_save_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
