/* src/runtime/watch.c - shows what one core gets and does; see watch.h. */
#include "runtime/watch.h"

#include "core/types.h"

#include <stdlib.h>

struct cv_watch *cv__watch_new(const struct cv_watcher *watcher, const struct cv_protocol *protocol,
                               const struct cv_config *config)
{
    struct cv_watch *w = calloc(1, sizeof *w);
    uint64_t *word = calloc(cv_message_words_max(config->member_count), sizeof *word);
    if (w == NULL || word == NULL) {
        free(w);
        free(word);
        return NULL;
    }
    w->watcher = watcher;
    w->protocol = protocol;
    w->config = config;
    w->word = word;
    return w;
}

void cv__watch_free(struct cv_watch *w)
{
    if (w != NULL) {
        free(w->word);
        free(w);
    }
}

/* Every record but those of messages is about this node. */
static void show(struct cv_watch *w, struct cv_record record)
{
    record.at_ns = w->step_ns;
    if (record.kind > CV_RECORD_DROPPED) {
        record.node = w->config->self;
    }
    w->watcher->observe(w->watcher->self, &record);
}

static void show_event(struct cv_watch *w, const struct cv_event *e)
{
    switch (e->kind) {
    case CV_EVENT_START:
        show(w, (struct cv_record){.kind = CV_RECORD_START});
        break;
    case CV_EVENT_MESSAGE:
        show(w, (struct cv_record){.kind = CV_RECORD_DELIVER,
                                   .node = w->config->self,
                                   .peer = e->peer,
                                   .what = e->message->type,
                                   .bound_ns = e->delay_ns_max,
                                   .message = e->message});
        break;
    case CV_EVENT_TIMER:
        show(w, (struct cv_record){.kind = CV_RECORD_TIMER, .what = e->timer});
        break;
    case CV_EVENT_SEQUENCE:
        show(w, (struct cv_record){.kind = CV_RECORD_ANSWER, .number = e->sequence});
        break;
    case CV_EVENT_STORE:
        show(w, (struct cv_record){.kind = CV_RECORD_STORE_ANSWER,
                                   .what = e->verdict,
                                   .number = e->request,
                                   .bound_ns = (int64_t)e->token});
        break;
    case CV_EVENT_PEER_DOWN:
    case CV_EVENT_REPORT:
    case CV_EVENT_RESIGN:
    case CV_EVENT_CAMPAIGN:
        show(w, (struct cv_record){.kind = CV_RECORD_ACTION,
                                   .peer = e->peer,
                                   .what = e->kind,
                                   .number = e->is_candidate});
        break;
    case CV_EVENT_PERSIST_FAILED:
        break; /* shown when it failed */
    }
}

void cv__watch_stepped(struct cv_watch *w, const struct cv_event *event,
                       const struct cv_effects *out)
{
    w->step_ns = event->now_ns;
    show_event(w, event);
    for (uint32_t i = 0; i < out->note_count; i++) {
        const struct cv_note *note = &out->note[i];
        show(w, (struct cv_record){.kind = CV_RECORD_NOTE,
                                   .peer = note->peer,
                                   .number = note->number,
                                   .bound_ns = note->time_ns,
                                   .text = note->text});
    }
}

void cv__watch_sent(struct cv_watch *w, const uint8_t *bytes, size_t byte_count, cv_id first,
                    cv_id last)
{
    struct cv_message message;
    const uint32_t member_count = w->config->member_count;
    const int code =
        cv_message_decode(w->protocol, member_count, bytes, byte_count, w->word, &message);
    CV_ASSERT(code == CV_OK); /* our own encoding */
    struct cv_record record = {.kind = CV_RECORD_SEND,
                               .node = CV_ID_NONE,
                               .peer = w->config->self,
                               .what = message.type,
                               .message = &message};
    if (w->protocol->is_anonymous) { /* to whoever hears it */
        record.number = ++w->sent_count;
        show(w, record);
        return;
    }
    for (cv_id to = first; to <= last && to <= member_count; to++) {
        if (to != w->config->self) {
            record.node = to;
            record.number = ++w->sent_count;
            show(w, record);
        }
    }
}

void cv__watch_told(struct cv_watch *w, const struct cv_leadership *l)
{
    const bool is_new = w->leader != l->leader || w->token != l->token || w->label != l->label;
    if (!is_new && !l->is_self) {
        return;
    }
    w->leader = l->leader;
    w->token = l->token;
    w->label = l->label;
    show(w, (struct cv_record){.kind = is_new ? CV_RECORD_BELIEF : CV_RECORD_RENEW,
                               .peer = l->leader,
                               .what = l->reason,
                               .number = l->token,
                               .bound_ns = l->valid_until_ns,
                               .label = w->protocol->is_anonymous ? l->label : 0});
}

void cv__watch_asked_store(struct cv_watch *w, const struct cv_effect *effect)
{
    show(w, (struct cv_record){.kind = CV_RECORD_STORE_ASK,
                               .what = effect->verb,
                               .number = effect->request,
                               .bound_ns = (int64_t)effect->attempt});
}

void cv__watch_note(struct cv_watch *w, enum cv_record_kind kind, uint64_t number)
{
    show(w, (struct cv_record){.kind = kind, .number = number});
}
