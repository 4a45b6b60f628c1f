/* src/runtime/tap.c - records the events and effects of one core; see tap.h. */
#include "runtime/tap.h"

#include "core/core.h"
#include "core/types.h"

#include <stdlib.h>

struct cv_tap *cv__tap_new(const struct cv_recorder *recorder, const struct cv_protocol *protocol,
                           const struct cv_config *config)
{
    struct cv_tap *t = calloc(1, sizeof *t);
    uint64_t *word = calloc(cv_message_words_max(config->member_count), sizeof *word);
    if (t == NULL || word == NULL) {
        free(t);
        free(word);
        return NULL;
    }
    t->recorder = recorder;
    t->protocol = protocol;
    t->config = config;
    t->word = word;
    return t;
}

void cv__tap_free(struct cv_tap *t)
{
    if (t != NULL) {
        free(t->word);
        free(t);
    }
}

/* Every record but those of messages is about this node. */
static void show(struct cv_tap *t, struct cv_record record)
{
    record.at_ns = t->step_ns;
    if (record.kind > CV_RECORD_DROPPED) {
        record.node = t->config->self;
    }
    t->recorder->observe(t->recorder->self, &record);
}

static void show_event(struct cv_tap *t, const struct cv_event *e)
{
    switch (e->kind) {
    case CV_EVENT_START:
        show(t, (struct cv_record){.kind = CV_RECORD_START});
        break;
    case CV_EVENT_MESSAGE:
        show(t, (struct cv_record){.kind = CV_RECORD_DELIVER,
                                   .node = t->config->self,
                                   .peer = e->peer,
                                   .what = e->message->type,
                                   .bound_ns = e->delay_ns_max,
                                   .message = e->message});
        break;
    case CV_EVENT_TIMER:
        show(t, (struct cv_record){.kind = CV_RECORD_TIMER, .what = e->timer});
        break;
    case CV_EVENT_SEQUENCE:
        show(t, (struct cv_record){.kind = CV_RECORD_ANSWER, .number = e->sequence});
        break;
    case CV_EVENT_STORE:
        show(t, (struct cv_record){.kind = CV_RECORD_STORE_ANSWER,
                                   .what = e->verdict,
                                   .number = e->request,
                                   .bound_ns = (int64_t)e->token});
        break;
    case CV_EVENT_PEER_DOWN:
    case CV_EVENT_REPORT:
    case CV_EVENT_RESIGN:
    case CV_EVENT_CAMPAIGN:
        show(t, (struct cv_record){.kind = CV_RECORD_ACTION,
                                   .peer = e->peer,
                                   .what = e->kind,
                                   .number = e->is_candidate});
        break;
    case CV_EVENT_PERSIST_FAILED:
        break; /* recorded when it failed */
    }
}

void cv__tap_stepped(struct cv_tap *t, const struct cv_event *event, const struct cv_effects *out)
{
    t->step_ns = event->now_ns;
    show_event(t, event);
    for (uint32_t i = 0; i < out->note_count; i++) {
        const struct cv_note *note = &out->note[i];
        show(t, (struct cv_record){.kind = CV_RECORD_NOTE,
                                   .peer = note->peer,
                                   .number = note->number,
                                   .bound_ns = note->time_ns,
                                   .text = note->text});
    }
}

void cv__tap_sent(struct cv_tap *t, const uint8_t *bytes, size_t byte_count, cv_id first,
                  cv_id last)
{
    struct cv_message message;
    const uint32_t member_count = t->config->member_count;
    const int code =
        cv__message_decode(t->protocol, member_count, bytes, byte_count, t->word, &message);
    CV_ASSERT(code == CV_OK); /* our own encoding */
    struct cv_record record = {.kind = CV_RECORD_SEND,
                               .node = CV_ID_NONE,
                               .peer = t->config->self,
                               .what = message.type,
                               .message = &message};
    if (t->protocol->is_anonymous) { /* to the whole group */
        record.number = ++t->sent_count;
        show(t, record);
        return;
    }
    for (cv_id to = first; to <= last && to <= member_count; to++) {
        if (to != t->config->self) {
            record.node = to;
            record.number = ++t->sent_count;
            show(t, record);
        }
    }
}

void cv__tap_told(struct cv_tap *t, const struct cv_leadership *l)
{
    const bool is_new = t->leader != l->leader || t->token != l->token || t->label != l->label;
    if (!is_new && !l->is_self) {
        return;
    }
    t->leader = l->leader;
    t->token = l->token;
    t->label = l->label;
    show(t, (struct cv_record){.kind = is_new ? CV_RECORD_BELIEF : CV_RECORD_RENEW,
                               .peer = l->leader,
                               .what = l->reason,
                               .number = l->token,
                               .bound_ns = l->valid_until_ns,
                               .label = t->protocol->is_anonymous ? l->label : 0});
}

void cv__tap_asked_store(struct cv_tap *t, const struct cv_effect *effect)
{
    show(t, (struct cv_record){.kind = CV_RECORD_STORE_ASK,
                               .what = effect->verb,
                               .number = effect->request,
                               .bound_ns = (int64_t)effect->attempt});
}

void cv__tap_note(struct cv_tap *t, enum cv_record_kind kind, uint64_t number)
{
    show(t, (struct cv_record){.kind = kind, .number = number});
}
