/* src/trace/trace.c - the trace of a run, event by event. */
#include "trace/trace.h"

#include "base/json.h"
#include "base/memory.h"
#include "core/failaware.h"
#include "core/options.h"

#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
    [CV_RECORD_SEND] = "send",
    [CV_RECORD_DELIVER] = "deliver",
    [CV_RECORD_LOST] = "lost",
    [CV_RECORD_UNREACHABLE] = "unreachable",
    [CV_RECORD_DROPPED] = "dropped",
    [CV_RECORD_TIMER] = "timer",
    [CV_RECORD_START] = "start",
    [CV_RECORD_CRASH] = "crash",
    [CV_RECORD_PAUSE] = "pause",
    [CV_RECORD_WAKE] = "wake",
    [CV_RECORD_PERSIST] = "persist",
    [CV_RECORD_PERSIST_FAILED] = "persist-failed",
    [CV_RECORD_BELIEF] = "belief",
    [CV_RECORD_ACTION] = "action",
    [CV_RECORD_BROKEN] = "broken",
    [CV_RECORD_ASK] = "ask",
    [CV_RECORD_ANSWER] = "answer",
    [CV_RECORD_STORE_ASK] = "store-ask",
    [CV_RECORD_STORE_ANSWER] = "store-answer",
    [CV_RECORD_NOTE] = "note",
    [CV_RECORD_RENEW] = "renew",
};

static const char *const verb_names[] = {
    [CV_STORE_READ] = "read",
    [CV_STORE_ACQUIRE] = "acquire",
    [CV_STORE_RENEW] = "renew",
    [CV_STORE_RELEASE] = "release",
};

static const char *const verdict_names[] = {
    [CV_STORE_GRANTED] = "granted", [CV_STORE_HELD] = "held",       [CV_STORE_FREE] = "free",
    [CV_STORE_FAILED] = "failed",   [CV_STORE_CHANGED] = "changed",
};

/* As text, because it has more digits than a number in JavaScript. */
static void write_label(struct cv_json *json, uint64_t label)
{
    char text[20];
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)label);
    cv__json_text(json, "label", text);
}

void cv__trace_header(struct cv_trace *trace, const struct cv_trace_header *header)
{
    if (trace->file == NULL) {
        return;
    }
    struct cv_json json = {.out = trace->file};
    cv__json_open(&json, NULL, '{');
    cv__json_uint(&json, "conclave_trace", 1);
    cv__json_text(&json, "scenario", header->scenario);
    cv__json_text(&json, "protocol", trace->protocol->name);
    cv__json_uint(&json, "nodes", header->node_count);
    cv__json_uint(&json, "seed", header->seed);
    cv__json_seconds(&json, "duration_s", header->duration_ns);
    cv__json_uint(&json, "drift_ppb", header->config->drift_ppb);
    cv__json_open(&json, "options", '{');
    uint32_t at = 0;
    for (const struct cv_option *o = trace->protocol->options; o->name != NULL; o++, at++) {
        struct cv_option_text text;
        cv__json_text(&json, o->name, cv__config_format(header->config, o, at, &text));
    }
    cv__json_close(&json, '}');
    cv__json_open(&json, "sites", '[');
    for (uint32_t site = 1; site <= header->site_count; site++) {
        cv__json_open(&json, NULL, '{');
        cv__json_text(&json, "name", header->site[site]);
        cv__json_open(&json, "nodes", '[');
        for (cv_id id = 1; id <= header->node_count; id++) {
            if (header->site_of[id - 1] == site) {
                cv__json_uint(&json, NULL, id);
            }
        }
        cv__json_close(&json, ']');
        cv__json_close(&json, '}');
    }
    cv__json_close(&json, ']');
    if (header->self != CV_ID_NONE) {
        cv__json_uint(&json, "self", header->self);
        write_label(&json, header->label);
        cv__json_seconds(&json, "began_s", header->began_ns);
    }
    cv__json_close(&json, '}');
    (void)fputc('\n', trace->file);
}

/* If a placeholder such as {peer} begins at `at`, writes its value and returns the placeholder's
 * length; otherwise 0. */
static size_t format_place(const struct cv_record *r, const char *at, char *value, size_t size)
{
    if (strncmp(at, "{peer}", 6) == 0) {
        (void)snprintf(value, size, "%u", r->peer);
        return 6;
    }
    if (strncmp(at, "{number}", 8) == 0) {
        (void)snprintf(value, size, "%llu", (unsigned long long)r->number);
        return 8;
    }
    if (strncmp(at, "{time}", 6) == 0) {
        (void)snprintf(value, size, "%.3f s", (double)r->bound_ns / 1e9);
        return 6;
    }
    return 0;
}

void cv__trace_note_text(const struct cv_record *r, char text[CV_NOTE_BYTES])
{
    size_t length = 0;
    for (const char *at = r->text; *at != '\0';) {
        char value[32] = {*at, '\0'};
        const size_t named = format_place(r, at, value, sizeof value);
        const size_t bytes = strlen(value);
        if (length + bytes >= CV_NOTE_BYTES) {
            break; /* the texts of the protocols are shorter */
        }
        memcpy(text + length, value, bytes);
        length += bytes;
        at += named > 0 ? named : 1;
    }
    text[length] = '\0';
}

static bool is_message(enum cv_record_kind kind)
{
    return kind <= CV_RECORD_DROPPED;
}

static void write_list(struct cv_json *json, const struct cv_field *field,
                       const struct cv_list *list)
{
    cv__json_open(json, field->name, '[');
    for (uint32_t i = 0; i < list->word_count; i++) {
        if (field->kind == CV_FIELD_VALUES) {
            cv__json_uint(json, NULL, list->word[i]);
        }
        for (uint32_t bit = 0; field->kind == CV_FIELD_SET && bit < 64; bit++) {
            if ((list->word[i] >> bit & 1) != 0) {
                cv__json_uint(json, NULL, i * 64 + bit + 1);
            }
        }
    }
    cv__json_close(json, ']');
}

/* A message keeps scalars and lists separately, each in the order of the table. */
static void write_fields(struct cv_json *json, const struct cv_message_type *type,
                         const struct cv_message *message)
{
    uint32_t scalar = 0, list = 0;
    cv__json_open(json, "fields", '{');
    for (const struct cv_field *field = type->fields; field->kind != CV_FIELD_END; field++) {
        switch (field->kind) {
        case CV_FIELD_SET:
        case CV_FIELD_VALUES:
            write_list(json, field, &message->list[list++]);
            break;
        case CV_FIELD_FLAG:
            cv__json_bool(json, field->name, message->field[scalar++] != 0);
            break;
        default:
            cv__json_uint(json, field->name, message->field[scalar++]);
            break;
        }
    }
    cv__json_close(json, '}');
}

static void write_valid_until(struct cv_json *json, const struct cv_record *r)
{
    if (r->bound_ns == 0) {
        cv__json_null(json, "valid_until_s");
    } else {
        cv__json_seconds(json, "valid_until_s", r->bound_ns);
    }
}

static void write_record(const struct cv_trace *trace, const struct cv_record *r,
                         const char *detail)
{
    struct cv_json json = {.out = trace->file};
    cv__json_open(&json, NULL, '{');
    cv__json_seconds(&json, "t_s", r->at_ns);
    cv__json_text(&json, "event", kind_names[r->kind]);
    if (is_message(r->kind)) {
        cv__json_uint(&json, "from", r->peer);
        cv__json_uint(&json, "to", r->node);
        cv__json_text(&json, "type", trace->protocol->messages[r->what].name);
        cv__json_uint(&json, "message", r->number);
        if (r->message != NULL) {
            write_fields(&json, &trace->protocol->messages[r->what], r->message);
        }
    } else if (r->node != CV_ID_NONE) {
        cv__json_uint(&json, "node", r->node);
    }
    if (r->kind == CV_RECORD_DELIVER && r->bound_ns != CV_DELAY_UNKNOWN) {
        cv__json_seconds(&json, "delay_max_s", r->bound_ns);
    }
    if (r->kind == CV_RECORD_TIMER) {
        cv__json_uint(&json, "timer", r->what);
    }
    if (r->kind == CV_RECORD_ASK) {
        cv__json_uint(&json, "request", r->number);
    }
    if (r->kind == CV_RECORD_ANSWER) {
        cv__json_uint(&json, "number", r->number);
    }
    if (r->kind == CV_RECORD_STORE_ASK) {
        cv__json_text(&json, "verb", verb_names[r->what]);
        cv__json_uint(&json, "request", r->number);
        cv__json_uint(&json, "attempt", (uint64_t)r->bound_ns);
    }
    if (r->kind == CV_RECORD_STORE_ANSWER) {
        cv__json_text(&json, "verdict", verdict_names[r->what]);
        cv__json_uint(&json, "request", r->number);
        cv__json_uint(&json, "token", (uint64_t)r->bound_ns);
    }
    if (r->kind == CV_RECORD_BELIEF) {
        cv__json_uint(&json, "leader", r->peer);
        cv__json_uint(&json, "token", r->number);
        cv__json_text(&json, "reason", cv_reason_name((enum cv_reason)r->what));
        write_valid_until(&json, r);
        if (r->label != 0) {
            write_label(&json, r->label);
        }
    }
    if (r->kind == CV_RECORD_RENEW) {
        cv__json_uint(&json, "token", r->number);
        write_valid_until(&json, r);
    }
    if (r->kind == CV_RECORD_BROKEN) {
        cv__json_text(&json, "property", cv_property_name((enum cv_property)r->what));
    }
    if (r->kind == CV_RECORD_NOTE) {
        char text[CV_NOTE_BYTES];
        cv__trace_note_text(r, text);
        cv__json_text(&json, "text", text);
    }
    if (detail != NULL) {
        cv__json_text(&json, "detail", detail);
    }
    cv__json_close(&json, '}');
    (void)fputc('\n', trace->file);
}

void cv__trace_add(struct cv_trace *trace, const struct cv_record *record, const char *detail)
{
    struct cv_record *last = &trace->tail[trace->count++ % CV_TRACE_TAIL];
    *last = *record;
    last->message = NULL;
    if (trace->file != NULL) {
        write_record(trace, record, detail);
    }
    if (trace->observe != NULL) {
        trace->observe(trace->context, record);
    }
}

static void print_record(const struct cv_trace *trace, const struct cv_record *r, FILE *out)
{
    (void)fprintf(out, "  ");
    cv__json_print_seconds(out, r->at_ns);
    (void)fprintf(out, "s ");
    if (is_message(r->kind)) {
        (void)fprintf(out, "%s %s %u>%u", kind_names[r->kind],
                      trace->protocol->messages[r->what].name, r->peer, r->node);
    } else if (r->kind == CV_RECORD_BELIEF && r->peer == CV_ID_NONE) {
        (void)fprintf(out, "node %u knows no leader (%s)", r->node,
                      cv_reason_name((enum cv_reason)r->what));
    } else if (r->kind == CV_RECORD_BELIEF) {
        (void)fprintf(out, "node %u %s %u, token %llu (%s)", r->node,
                      r->peer == r->node ? "leads as" : "follows", r->peer,
                      (unsigned long long)r->number, cv_reason_name((enum cv_reason)r->what));
    } else if (r->kind == CV_RECORD_ANSWER) {
        (void)fprintf(out, "node %u gets number %llu", r->node, (unsigned long long)r->number);
    } else if (r->kind == CV_RECORD_STORE_ASK) {
        (void)fprintf(out, "node %u asks the store: %s, request %llu, attempt %lld", r->node,
                      verb_names[r->what], (unsigned long long)r->number, (long long)r->bound_ns);
    } else if (r->kind == CV_RECORD_STORE_ANSWER && r->what == CV_STORE_CHANGED) {
        (void)fprintf(out, "node %u is notified by the store", r->node);
    } else if (r->kind == CV_RECORD_STORE_ANSWER) {
        (void)fprintf(out, "node %u is told by the store: %s, request %llu, token %lld", r->node,
                      verdict_names[r->what], (unsigned long long)r->number,
                      (long long)r->bound_ns);
    } else if (r->kind == CV_RECORD_TIMER) {
        (void)fprintf(out, "node %u timer %u", r->node, r->what);
    } else if (r->kind == CV_RECORD_BROKEN) {
        (void)fprintf(out, "property %s breaks", cv_property_name((enum cv_property)r->what));
    } else if (r->kind == CV_RECORD_NOTE) {
        char text[CV_NOTE_BYTES];
        cv__trace_note_text(r, text);
        (void)fprintf(out, "node %u: %s", r->node, text);
    } else if (r->kind == CV_RECORD_ACTION) {
        (void)fprintf(out, "fault");
    } else {
        (void)fprintf(out, "node %u %s", r->node, kind_names[r->kind]);
    }
    (void)fputc('\n', out);
}

char *cv__trace_tail(const struct cv_trace *trace)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) {
        return cv__copy_text("", 0);
    }
    const uint64_t first = trace->count > CV_TRACE_TAIL ? trace->count - CV_TRACE_TAIL : 0;
    for (uint64_t i = first; i < trace->count; i++) {
        const struct cv_record *r = &trace->tail[i % CV_TRACE_TAIL];
        /* Sends are left out: deliveries, losses and drops show what happened to them. */
        if (r->kind != CV_RECORD_SEND) {
            print_record(trace, r, out);
        }
    }
    (void)fclose(out);
    return text;
}
