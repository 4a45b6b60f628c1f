/* fuzz/fuzz_core.c - a core trips no assertion, whatever its saved record and whatever messages the
 * codec lets through.
 *
 * Input: one byte for the protocol, one for the number of saved words, the words; then steps: one
 * byte says which, and a message has two more bytes, sender and length, and its bytes. */
#include "core/core.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#define MEMBERS 5u
#define STEPS_MAX 200

static struct cv_effects out;
static struct cv_effect effects[CV_EFFECTS_MAX];
static int64_t now_ns, due_ns[CV_TIMERS_MAX];
static uint64_t asked_store, asked_sequence;
static struct cv_message message;
static uint64_t words[4 * CV_MEMBERS_MAX];

static void carry_out(void)
{
    for (uint32_t i = 0; i < out.item_count; i++) {
        const struct cv_effect *e = &out.item[i];
        if (e->kind == CV_EFFECT_ARM) {
            due_ns[e->timer] = cv__max64(e->latest_ns, now_ns);
        } else if (e->kind == CV_EFFECT_DISARM) {
            due_ns[e->timer] = 0;
        } else if (e->kind == CV_EFFECT_ASK_STORE) {
            asked_store = e->request;
        } else if (e->kind == CV_EFFECT_ASK_SEQUENCE) {
            asked_sequence = e->request;
        }
    }
}

/* Fires the timer that is due first; false: none is armed. */
static bool fire(struct cv_event *event)
{
    uint32_t next = CV_TIMERS_MAX;
    for (uint32_t t = 0; t < CV_TIMERS_MAX; t++) {
        if (due_ns[t] != 0 && (next == CV_TIMERS_MAX || due_ns[t] < due_ns[next])) {
            next = t;
        }
    }
    if (next == CV_TIMERS_MAX || due_ns[next] > INT64_MAX / 4) {
        return false;
    }
    now_ns = cv__max64(now_ns, due_ns[next]);
    due_ns[next] = 0;
    *event = (struct cv_event){.kind = CV_EVENT_TIMER, .timer = next};
    return true;
}

static bool hear(const struct cv_protocol *protocol, struct fuzz_input *in, struct cv_event *event)
{
    const cv_id from = 2 + fuzz_byte(in) % (MEMBERS - 1); /* the core itself is 1 */
    const size_t wanted = fuzz_byte(in);
    const size_t bytes = wanted < in->bytes ? wanted : in->bytes;
    const uint8_t *at = in->at;
    in->at += bytes;
    in->bytes -= bytes;
    if (protocol->message_count == 0 ||
        cv_message_decode(protocol, MEMBERS, at, bytes, words, &message) != CV_OK) {
        return false;
    }
    *event = (struct cv_event){.kind = CV_EVENT_MESSAGE,
                               .peer = protocol->is_anonymous ? CV_ID_NONE : from,
                               .message = &message,
                               .delay_ns_max = (wanted & 1) != 0 ? INT64_MAX : NS_PER_MS};
    return true;
}

static bool store_answers(struct fuzz_input *in, struct cv_event *event)
{
    const uint8_t what = fuzz_byte(in);
    *event = (struct cv_event){.kind = CV_EVENT_STORE,
                               .request = what >> 4 != 0 ? asked_store : 0,
                               .verdict = what % 4,
                               .token = fuzz_number(in, 8),
                               .holder = fuzz_number(in, 1),
                               .duration_ns = (int64_t)(fuzz_number(in, 8) >> 2)};
    if (event->request == 0) {
        event->verdict = CV_STORE_CHANGED;
    }
    asked_store = 0;
    return event->request != 0 || what < 2;
}

static bool draw(const struct cv_protocol *protocol, struct fuzz_input *in, struct cv_event *event)
{
    const uint8_t step = fuzz_byte(in);
    switch (step % 8) {
    case 0:
    case 1:
        return fire(event);
    case 2:
        now_ns += (int64_t)fuzz_number(in, 2) * NS_PER_MS;
        return false;
    case 3:
        *event = (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = (step & 8) != 0};
        return true;
    case 4:
        *event = (struct cv_event){.kind = CV_EVENT_RESIGN};
        return true;
    case 5:
        if (protocol->store_ns != NULL) {
            return store_answers(in, event);
        }
        *event = (struct cv_event){.kind = CV_EVENT_SEQUENCE,
                                   .request = asked_sequence,
                                   .sequence = fuzz_number(in, 8) >> 1};
        const bool is_asked = asked_sequence != 0;
        asked_sequence = 0;
        return is_asked;
    default:
        return hear(protocol, in, event);
    }
}

static void run(const struct cv_protocol *protocol, struct fuzz_input *in)
{
    uint64_t saved[CV_PERSIST_WORDS_MAX];
    const uint32_t saved_count = fuzz_byte(in) % (CV_PERSIST_WORDS_MAX + 1);
    for (uint32_t i = 0; i < saved_count; i++) {
        saved[i] = fuzz_number(in, 8);
    }
    struct cv_config config;
    cv_config_init(&config, protocol, 1, MEMBERS);
    if (cv_core_configure(protocol, &config, NULL) != CV_OK) {
        abort();
    }
    void *core = fuzz_must(malloc(cv_core_size(protocol, &config)));
    out = (struct cv_effects){.item = effects, .word_capacity = cv_effects_words(&config)};
    out.word = fuzz_must(calloc(out.word_capacity + 1, sizeof *out.word));
    memset(due_ns, 0, sizeof due_ns);
    now_ns = 1000 * NS_PER_S;
    asked_store = asked_sequence = 0;
    cv__core_init(protocol, core, &config);
    struct cv_event event = {
        .kind = CV_EVENT_START, .nonce = 7, .persisted = saved, .persisted_count = saved_count};
    bool has_event = true;
    for (int i = 0; i < STEPS_MAX && (i == 0 || in->bytes > 0); i++) {
        if (has_event) {
            event.now_ns = now_ns;
            cv__core_step(protocol, core, &event, &out);
            carry_out();
        }
        has_event = draw(protocol, in, &event);
    }
    free(out.word);
    free(core);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    uint32_t count = 0;
    while (cv_protocol_at(count) != NULL) {
        count++;
    }
    run(cv_protocol_at(fuzz_byte(&in) % count), &in);
    return 0;
}
