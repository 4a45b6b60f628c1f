/* src/core/effects.c - functions by which a core issues its effects. */
#include "core/effects.h"

#include <string.h>

static struct cv_effect *effect_add(struct cv_effects *out, enum cv_effect_kind kind)
{
    CV_ASSERT(out->item_count < CV_EFFECTS_MAX);
    struct cv_effect *effect = &out->item[out->item_count++];
    effect->kind = kind;
    return effect;
}

struct cv_message *cv__effect_send_range(struct cv_effects *out, cv_id first, cv_id last,
                                         uint32_t type)
{
    CV_ASSERT(first != CV_ID_NONE);
    CV_ASSERT(last <= CV_MEMBERS_MAX);
    struct cv_effect *effect = effect_add(out, CV_EFFECT_SEND);
    effect->first = first;
    effect->last = last; /* last < first: sent to nobody, so callers need no branch */
    effect->to_self = false;
    memset(&effect->message, 0, sizeof effect->message);
    effect->message.type = type;
    return &effect->message;
}

struct cv_message *cv__effect_send(struct cv_effects *out, cv_id to, uint32_t type)
{
    return cv__effect_send_range(out, to, to, type);
}

struct cv_message *cv__effect_send_all(struct cv_effects *out, uint32_t type)
{
    return cv__effect_send_range(out, 1, CV_MEMBERS_MAX, type);
}

struct cv_list cv__effect_list(struct cv_effects *out, const uint64_t *word, uint32_t word_count)
{
    CV_ASSERT(out->word_count <= out->word_capacity);
    CV_ASSERT(word_count <= out->word_capacity - out->word_count);
    uint64_t *copy = out->word + out->word_count;
    memcpy(copy, word, word_count * sizeof *word);
    out->word_count += word_count;
    return (struct cv_list){.word = copy, .word_count = word_count};
}

void cv__effect_arm(struct cv_effects *out, uint32_t timer, int64_t earliest_ns, int64_t latest_ns)
{
    CV_ASSERT(timer < CV_TIMERS_MAX);
    CV_ASSERT(earliest_ns <= latest_ns);
    struct cv_effect *effect = effect_add(out, CV_EFFECT_ARM);
    effect->timer = timer;
    effect->earliest_ns = earliest_ns;
    effect->latest_ns = latest_ns;
}

void cv__effect_disarm(struct cv_effects *out, uint32_t timer)
{
    CV_ASSERT(timer < CV_TIMERS_MAX);
    effect_add(out, CV_EFFECT_DISARM)->timer = timer;
}

void cv__effect_persist(struct cv_effects *out, const uint64_t *word, uint32_t word_count)
{
    CV_ASSERT(word_count > 0);
    CV_ASSERT(word_count <= CV_PERSIST_WORDS_MAX);
    struct cv_effect *effect = effect_add(out, CV_EFFECT_PERSIST);
    effect->persist_count = word_count;
    memcpy(effect->persist, word, word_count * sizeof *word);
}

void cv__effect_leadership(struct cv_effects *out, const struct cv_leadership *leadership)
{
    CV_ASSERT(leadership->reason < CV_REASON_COUNT);
    CV_ASSERT(!leadership->is_self || leadership->leader != CV_ID_NONE);
    CV_ASSERT(!leadership->is_self || leadership->leader != CV_ID_ANONYMOUS);
    CV_ASSERT(leadership->leader != CV_ID_NONE || leadership->token == 0);
    CV_ASSERT(leadership->is_self || leadership->valid_until_ns == 0); /* only its own is known */
    effect_add(out, CV_EFFECT_LEADERSHIP)->leadership = *leadership;
}

void cv__effect_ask_sequence(struct cv_effects *out, uint64_t request, uint64_t reference)
{
    CV_ASSERT(request > 0);
    struct cv_effect *effect = effect_add(out, CV_EFFECT_ASK_SEQUENCE);
    effect->request = request;
    effect->reference = reference;
}

void cv__effect_ask_store(struct cv_effects *out, enum cv_store_verb verb, uint64_t request,
                          uint64_t attempt, uint64_t token, int64_t lease_ns)
{
    CV_ASSERT(request > 0); /* 0 marks a notification */
    CV_ASSERT(attempt > 0);
    CV_ASSERT(verb <= CV_STORE_RELEASE);
    CV_ASSERT(lease_ns >= 0);
    struct cv_effect *effect = effect_add(out, CV_EFFECT_ASK_STORE);
    effect->verb = verb;
    effect->request = request;
    effect->attempt = attempt;
    effect->token = token;
    effect->lease_ns = lease_ns;
}
