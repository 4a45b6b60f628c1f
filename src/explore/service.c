/* src/explore/service.c - the store and the sequencer; see service.h. */
#include "explore/service.h"

#include "core/sequence.h"

#include <stdio.h>

static struct explore_message *send(struct explore_model *model, uint32_t from, uint32_t to,
                                    enum explore_message_kind kind, uint32_t life)
{
    struct explore_message *m = explore_message_add(model);
    m->from = (uint8_t)from;
    m->to = (uint8_t)to;
    m->kind = (uint8_t)kind;
    m->life = (uint8_t)life;
    m->sent_ns = explore_now_ns(EXPLORE_REAL);
    return m;
}

void explore_service_begin(struct explore_model *model)
{
    struct explore_service *s = &model->world->h.service;
    if (model->service != EXPLORE_NO_SERVICE) {
        s->next_tick_ns = explore_now_ns(EXPLORE_REAL);
        s->boots = model->service == EXPLORE_SEQUENCER;
    }
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static struct explore_message *ask(struct explore_model *model, const char *what)
{
    const uint32_t node = model->actor;
    if (explore_cuts_off(model->world, node, EXPLORE_SERVICE)) {
        explore_tell(model, "  asks to %s, but is cut off", what);
        return NULL;
    }
    explore_tell(model, "  asks to %s", what);
    const uint32_t life = explore_node_at(model, model->world, node)->life;
    return send(model, node, EXPLORE_SERVICE, EXPLORE_QUERY, life);
}

static const char *verb_name(uint64_t verb)
{
    static const char *const names[] = {
        [CV_STORE_READ] = "read",
        [CV_STORE_ACQUIRE] = "acquire",
        [CV_STORE_RENEW] = "renew",
        [CV_STORE_RELEASE] = "release",
    };
    CV_ASSERT(verb < COUNT_OF(names));
    return names[verb];
}

void explore_service_ask_store(struct explore_model *model, const struct cv_effect *effect)
{
    struct explore_message *m = ask(model, verb_name(effect->verb));
    if (m != NULL) {
        m->word[EXPLORE_QUERY_REQUEST] = effect->request;
        m->word[EXPLORE_QUERY_VERB] = effect->verb;
        m->word[EXPLORE_QUERY_ATTEMPT] = effect->attempt;
        m->word[EXPLORE_QUERY_LEASE] = (uint64_t)effect->lease_ns;
        m->word[EXPLORE_QUERY_LABEL] = explore_nonce(model->actor, m->life);
    }
}

void explore_service_ask_sequence(struct explore_model *model, uint64_t request, uint64_t reference)
{
    struct explore_message *m = ask(model, "get a number");
    if (m != NULL) {
        m->word[EXPLORE_QUERY_REQUEST] = request;
        m->word[EXPLORE_QUERY_REFERENCE] = reference;
    }
}

/* ---- Answering ------------------------------------------------------------------------------- */

static void notify(struct explore_model *model)
{
    struct explore_service *s = &model->world->h.service;
    for (uint32_t i = 0; i < model->node_count; i++) {
        const struct explore_node *n = explore_node_at(model, model->world, i);
        if ((s->waiting >> i & 1) != 0 && n->is_up &&
            !explore_cuts_off(model->world, EXPLORE_SERVICE, i)) {
            (void)send(model, EXPLORE_SERVICE, i, EXPLORE_NOTIFICATION, n->life);
        }
    }
}

static void set_waiting(struct explore_model *model, const struct explore_message *query,
                        bool waits)
{
    struct explore_service *s = &model->world->h.service;
    const uint32_t bit = 1u << query->from;
    const struct explore_node *n = explore_node_at(model, model->world, query->from);
    if (n->is_up && n->life == query->life && !query->is_repeat) {
        s->waiting = waits ? s->waiting | bit : s->waiting & ~bit;
    }
}

static struct explore_message *answer(struct explore_model *model,
                                      const struct explore_message *query)
{
    const struct explore_node *n = explore_node_at(model, model->world, query->from);
    if (query->is_repeat || !n->is_up || n->life != query->life ||
        explore_cuts_off(model->world, EXPLORE_SERVICE, query->from)) {
        return NULL;
    }
    struct explore_message *m =
        send(model, EXPLORE_SERVICE, query->from, EXPLORE_ANSWER, query->life);
    m->word[EXPLORE_ANSWER_REQUEST] = query->word[EXPLORE_QUERY_REQUEST];
    return m;
}

static void serve_store(struct explore_model *model, const struct explore_message *query)
{
    const struct cv_model_query q = {
        .verb = (enum cv_store_verb)query->word[EXPLORE_QUERY_VERB],
        .label = query->word[EXPLORE_QUERY_LABEL],
        .attempt = query->word[EXPLORE_QUERY_ATTEMPT],
        .lease_ns = (int64_t)query->word[EXPLORE_QUERY_LEASE],
    };
    struct cv_model_answer a;
    const bool is_freed = cv__model_record_serve(&model->world->h.service.record, &q,
                                                 explore_now_ns(EXPLORE_SERVICE), &a);
    set_waiting(model, query, a.verdict != CV_STORE_GRANTED);
    struct explore_message *m = answer(model, query);
    if (m != NULL) {
        m->word[EXPLORE_ANSWER_VERDICT] = a.verdict;
        m->word[EXPLORE_ANSWER_TOKEN] = a.token;
        m->word[EXPLORE_ANSWER_HOLDER] = a.holder;
        m->word[EXPLORE_ANSWER_DURATION] = (uint64_t)a.duration_ns;
        m->word[EXPLORE_ANSWER_REASON] = a.reason;
    }
    if (is_freed) {
        notify(model);
    }
}

static void serve_sequencer(struct explore_model *model, const struct explore_message *query)
{
    struct explore_service *s = &model->world->h.service;
    s->counter++;
    struct explore_message *m = answer(model, query);
    if (m != NULL) {
        m->word[EXPLORE_ANSWER_NUMBER] = cv__sequence_number(query->word[EXPLORE_QUERY_REFERENCE],
                                                             (uint32_t)s->counter, s->boots);
    }
}

/* ---- What arrives ---------------------------------------------------------------------------- */

static void give_to_node(struct explore_model *model, const struct explore_message *m)
{
    struct explore_node *n = explore_node_at(model, model->world, m->to);
    if (!n->is_up || n->life != m->life) {
        return; /* the asking process is gone, and its connection with it */
    }
    struct cv_event event = {.kind = CV_EVENT_STORE, .verdict = CV_STORE_CHANGED};
    if (m->kind == EXPLORE_ANSWER && model->service == EXPLORE_STORE) {
        event.request = m->word[EXPLORE_ANSWER_REQUEST];
        event.verdict = (enum cv_store_verdict)m->word[EXPLORE_ANSWER_VERDICT];
        event.token = m->word[EXPLORE_ANSWER_TOKEN];
        event.holder = m->word[EXPLORE_ANSWER_HOLDER];
        event.duration_ns = (int64_t)m->word[EXPLORE_ANSWER_DURATION];
        event.reason = (enum cv_reason)m->word[EXPLORE_ANSWER_REASON];
    } else if (m->kind == EXPLORE_ANSWER) {
        event.kind = CV_EVENT_SEQUENCE;
        event.request = m->word[EXPLORE_ANSWER_REQUEST];
        event.sequence = m->word[EXPLORE_ANSWER_NUMBER];
    }
    (void)explore_world_enter(model, m->to);
    n->has_acted = 1;
    cv__node_event(&n->host, &model->host, &event);
}

void explore_service_deliver(struct explore_model *model, const struct explore_message *m)
{
    CV_ASSERT(explore_is_of_service(m));
    if (m->is_late || m->is_repeat) {
        explore_world_disturb(model);
    }
    if (m->kind != EXPLORE_QUERY) {
        give_to_node(model, m);
        return;
    }
    model->world->h.service.has_acted = 1;
    if (model->service == EXPLORE_STORE) {
        serve_store(model, m);
    } else {
        serve_sequencer(model, m);
    }
}

const char *explore_service_message_name(const struct explore_model *model,
                                         const struct explore_message *m)
{
    static const char *const verdicts[] = {
        [CV_STORE_GRANTED] = "'granted'", [CV_STORE_HELD] = "'held'",
        [CV_STORE_FREE] = "'free'",       [CV_STORE_FAILED] = "'failed'",
        [CV_STORE_CHANGED] = "'changed'",
    };
    if (m->kind == EXPLORE_NOTIFICATION) {
        return "a notification";
    }
    if (model->service == EXPLORE_SEQUENCER) {
        return m->kind == EXPLORE_QUERY ? "a request for a number" : "a number";
    }
    return m->kind == EXPLORE_QUERY ? verb_name(m->word[EXPLORE_QUERY_VERB])
                                    : verdicts[m->word[EXPLORE_ANSWER_VERDICT]];
}

/* ---- Restarts, and the end of a lease -------------------------------------------------------- */

/* Requests in flight fail. Nodes that are told learn it after the delay of a message. */
static void fail_all(struct explore_model *model, bool are_told)
{
    struct explore_world *w = model->world;
    uint32_t asked[EXPLORE_NODES_MAX * 2];
    uint64_t request[EXPLORE_NODES_MAX * 2];
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->h.message_count;) {
        const struct explore_message *m = explore_message_at(model, w, i);
        if (!explore_is_of_service(m)) {
            i++;
            continue;
        }
        const uint32_t node = m->kind == EXPLORE_QUERY ? m->from : m->to;
        const struct explore_node *n = explore_node_at(model, w, node);
        if (m->kind != EXPLORE_NOTIFICATION && !m->is_repeat && n->is_up && n->life == m->life &&
            count < COUNT_OF(asked)) {
            asked[count] = node;
            request[count++] = m->word[EXPLORE_QUERY_REQUEST]; /* the first word of both */
        }
        explore_message_remove(model, i);
    }
    for (uint32_t i = 0; are_told && i < count; i++) {
        if (!explore_cuts_off(w, EXPLORE_SERVICE, asked[i])) {
            struct explore_message *m = send(model, EXPLORE_SERVICE, asked[i], EXPLORE_ANSWER,
                                             explore_node_at(model, w, asked[i])->life);
            m->word[EXPLORE_ANSWER_REQUEST] = request[i];
            m->word[EXPLORE_ANSWER_VERDICT] = CV_STORE_FAILED;
        }
    }
}

void explore_service_restart(struct explore_model *model, uint32_t how)
{
    struct explore_service *s = &model->world->h.service;
    s->has_acted = 0;
    if (model->service == EXPLORE_SEQUENCER) {
        s->counter = 0;
        s->boots = how == EXPLORE_RESTART_SILENTLY ? 1 : s->boots + 1;
        return;
    }
    fail_all(model, how != EXPLORE_RESTART_SILENTLY);
    s->waiting = 0;
    cv__model_record_restart(&s->record, how == EXPLORE_RESTART_EXTENDS,
                             explore_now_ns(EXPLORE_SERVICE));
}

bool explore_service_is_expired(const struct explore_model *model, const struct explore_world *w)
{
    const struct explore_service *s = &w->h.service;
    return model->service == EXPLORE_STORE && s->record.holder != 0 && s->waiting != 0 &&
           s->record.until_ns <= explore_now_ns(EXPLORE_SERVICE);
}

void explore_service_expire(struct explore_model *model)
{
    (void)cv__model_record_expire(&model->world->h.service.record, explore_now_ns(EXPLORE_SERVICE));
    notify(model);
}

void explore_service_forget(struct explore_model *model, uint32_t node)
{
    struct explore_world *w = model->world;
    w->h.service.waiting &= ~(1u << node);
    for (uint32_t i = 0; i < w->h.message_count;) {
        const struct explore_message *m = explore_message_at(model, w, i);
        if (explore_is_of_service(m) && m->to == node) {
            explore_message_remove(model, i);
        } else {
            i++;
        }
    }
}

void explore_service_canonical(const struct explore_model *model, struct explore_world *w)
{
    struct explore_service *s = &w->h.service;
    if (model->service == EXPLORE_STORE) {
        if (s->waiting == 0) { /* no node is notified, so the next request finds the end */
            (void)cv__model_record_expire(&s->record, explore_now_ns(EXPLORE_SERVICE));
        }
        if (s->record.holder == 0) {
            s->record.attempt = 0;
            s->record.until_ns = 0;
            s->record.lease_ns = 0;
        }
    }
}
