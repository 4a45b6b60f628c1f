/* tests/support/solo.c - see solo.h. */
#include "support/solo.h"

#include "core/core.h"
#include "support/host.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_NS (1000 * NS_PER_S)

/* ---- Its life -------------------------------------------------------------------------------- */

static void carry_out(struct solo *s)
{
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        const struct cv_effect *e = &s->out.item[i];
        if (e->kind == CV_EFFECT_ARM) {
            s->timer_ns[e->timer] = cv__max64(e->latest_ns, s->now_ns);
        } else if (e->kind == CV_EFFECT_DISARM) {
            s->timer_ns[e->timer] = 0;
        } else if (e->kind == CV_EFFECT_PERSIST) {
            memcpy(s->persisted, e->persist, sizeof s->persisted);
            s->persisted_count = e->persist_count;
        } else if (e->kind == CV_EFFECT_LEADERSHIP) {
            s->leader = e->leadership.leader;
        }
    }
}

void solo_step(struct solo *s, struct cv_event event)
{
    event.now_ns = s->now_ns;
    cv__core_step(s->protocol, s->state, &event, &s->out);
    carry_out(s);
}

static void start(struct solo *s)
{
    memset(s->timer_ns, 0, sizeof s->timer_ns);
    s->leader = CV_ID_NONE;
    cv__core_init(s->protocol, s->state, &s->config);
    uint64_t persisted[CV_PERSIST_WORDS_MAX];
    memcpy(persisted, s->persisted, sizeof persisted);
    solo_step(s, (struct cv_event){.kind = CV_EVENT_START,
                                   .nonce = s->nonce,
                                   .persisted = persisted,
                                   .persisted_count = s->persisted_count});
}

void config_set_all(struct cv_config *config, const struct cv_protocol *protocol,
                    const char *options)
{
    char text[400];
    (void)snprintf(text, sizeof text, "%s", options);
    char *rest;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value++ = '\0';
        assert_int_equal(cv_config_set(config, protocol, word, value, NULL), CV_OK);
    }
}

struct solo *solo_new(const char *protocol, cv_id self, uint32_t members, const char *options)
{
    assert_in_range(members, 1, 63);
    struct solo *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->protocol = cv_protocol_find(protocol);
    assert_non_null(s->protocol);
    cv_config_init(&s->config, s->protocol, self, members);
    config_set_all(&s->config, s->protocol, options);
    assert_int_equal(cv_core_configure(s->protocol, &s->config, NULL), CV_OK);
    s->state = calloc(1, cv_core_size(s->protocol, &s->config));
    assert_non_null(s->state);
    s->out = host_effects_new(&s->config);
    s->now_ns = START_NS;
    start(s);
    return s;
}

void solo_free(struct solo *s)
{
    host_effects_free(&s->out);
    free(s->state);
    free(s);
}

void solo_restart(struct solo *s)
{
    memset(s->state, 0xa5, cv_core_size(s->protocol, &s->config));
    start(s);
}

/* The timer that fires next, until_ns at the latest; CV_TIMERS_MAX: none. */
static uint32_t next_timer(const struct solo *s, int64_t until_ns)
{
    uint32_t next = CV_TIMERS_MAX;
    for (uint32_t t = 0; t < CV_TIMERS_MAX; t++) {
        const bool is_due = s->timer_ns[t] != 0 && s->timer_ns[t] <= until_ns;
        if (is_due && (next == CV_TIMERS_MAX || s->timer_ns[t] < s->timer_ns[next])) {
            next = t;
        }
    }
    return next;
}

static void fire(struct solo *s, uint32_t timer)
{
    s->now_ns = cv__max64(s->now_ns, s->timer_ns[timer]);
    s->timer_ns[timer] = 0;
    solo_step(s, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = timer});
}

void solo_wait_until(struct solo *s, int64_t until_ns)
{
    for (uint32_t t; (t = next_timer(s, until_ns)) != CV_TIMERS_MAX;) {
        fire(s, t);
    }
    s->now_ns = cv__max64(s->now_ns, until_ns);
}

void solo_pause(struct solo *s, int64_t ns)
{
    s->now_ns += ns;
}

const struct cv_message *solo_await(struct solo *s, const char *type, int64_t limit_ns)
{
    const int64_t end_ns = s->now_ns + limit_ns;
    for (uint32_t t; (t = next_timer(s, end_ns)) != CV_TIMERS_MAX;) {
        fire(s, t);
        if (solo_said(s, type) != NULL) {
            return solo_said(s, type);
        }
    }
    fail_msg("no %s within %.3f ms", type, (double)limit_ns / 1e6);
    return NULL;
}

/* ---- What it sends --------------------------------------------------------------------------- */

static uint32_t type_of(const struct solo *s, const char *name)
{
    for (uint32_t i = 0; i < s->protocol->message_count; i++) {
        if (strcmp(s->protocol->messages[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("the protocol has no message %s", name);
    return 0;
}

const struct cv_message *solo_said_to(const struct solo *s, const char *type, cv_id *ret_to)
{
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        const struct cv_effect *e = &s->out.item[i];
        if (e->kind == CV_EFFECT_SEND && e->message.type == type_of(s, type)) {
            *ret_to = e->first == e->last ? e->first : CV_ID_NONE;
            return &e->message;
        }
    }
    return NULL;
}

const struct cv_message *solo_said(const struct solo *s, const char *type)
{
    cv_id to;
    return solo_said_to(s, type, &to);
}

uint32_t solo_send_count(const struct solo *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        count += s->out.item[i].kind == CV_EFFECT_SEND;
    }
    return count;
}

const struct cv_note *solo_noted(const struct solo *s, const char *text)
{
    for (uint32_t i = 0; i < s->out.note_count; i++) {
        if (strcmp(s->out.note[i].text, text) == 0) {
            return &s->out.note[i];
        }
        print_message("# noted: %s\n", s->out.note[i].text);
    }
    fail_msg("not noted: %s", text);
    return NULL;
}

const struct cv_leadership *solo_told(const struct solo *s)
{
    const struct cv_leadership *leadership = NULL;
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        if (s->out.item[i].kind == CV_EFFECT_LEADERSHIP) {
            leadership = &s->out.item[i].leadership;
        }
    }
    return leadership;
}

uint64_t solo_field(const struct solo *s, const struct cv_message *message, const char *name)
{
    return message->field[host_place_of(s->protocol, message->type, name)];
}

uint64_t solo_set(const struct solo *s, const struct cv_message *message, const char *name)
{
    return message->list[host_place_of(s->protocol, message->type, name)].word[0] << 1;
}

/* ---- What it hears --------------------------------------------------------------------------- */

void solo_draft(struct solo *s, const char *type)
{
    memset(&s->draft, 0, sizeof s->draft);
    memset(s->draft_word, 0, sizeof s->draft_word);
    s->draft.type = type_of(s, type);
    for (uint32_t i = 0; i < CV_LISTS_MAX; i++) {
        s->draft.list[i] = (struct cv_list){&s->draft_word[i], 1};
    }
    const struct cv_field *field = s->protocol->messages[s->draft.type].fields;
    for (; field->kind != CV_FIELD_END; field++) {
        if (field->kind == CV_FIELD_ID) {
            s->draft.field[host_place_of(s->protocol, s->draft.type, field->name)] = 1;
        }
    }
}

void solo_put(struct solo *s, const char *name, uint64_t value)
{
    s->draft.field[host_place_of(s->protocol, s->draft.type, name)] = value;
}

void solo_put_set(struct solo *s, const char *name, uint64_t bits_of_ids)
{
    s->draft_word[host_place_of(s->protocol, s->draft.type, name)] = bits_of_ids >> 1;
}

void solo_hear_copy(struct solo *s, cv_id from, const struct cv_message *message, int64_t bound_ns)
{
    solo_step(s, (struct cv_event){.kind = CV_EVENT_MESSAGE,
                                   .peer = from,
                                   .message = message,
                                   .delay_ns_max = bound_ns});
}

void solo_hear(struct solo *s, cv_id from, int64_t bound_ns)
{
    const struct cv_message message = s->draft;
    solo_hear_copy(s, from, &message, bound_ns);
}
