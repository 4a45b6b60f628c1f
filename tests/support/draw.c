/* tests/support/draw.c - random messages. */
#include "support/draw.h"

#include "core/nodeset.h"
#include "support/support.h"

#include <string.h>

static uint64_t draw_number(enum draw_manner manner, uint64_t *seed)
{
    static const uint64_t extremes[] = {0,          1,          INT64_MAX,      (uint64_t)INT64_MIN,
                                        UINT32_MAX, UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 2};
    if (manner == DRAW_ANYTHING && test_random_below(seed, 4) == 0) {
        return extremes[test_random_below(seed, COUNT_OF(extremes))];
    }
    if (manner == DRAW_ANYTHING && test_random_below(seed, 4) == 0) {
        return test_random(seed) >> test_random_below(seed, 64);
    }
    return test_random_below(seed, 1u << test_random_below(seed, 12)); /* small ones often */
}

static uint64_t draw_field(enum cv_field_kind kind, uint32_t members, enum draw_manner manner,
                           uint64_t *seed)
{
    switch (kind) {
    case CV_FIELD_FLAG:
        return test_random_below(seed, 2);
    case CV_FIELD_ID:
        return 1 + test_random_below(seed, members);
    case CV_FIELD_ID_NONE:
        return test_random_below(seed, members + 1);
    default:
        return draw_number(manner, seed);
    }
}

static uint32_t draw_set(uint32_t members, enum draw_manner manner, uint64_t *seed, uint64_t *word)
{
    const uint32_t words = cv__set_words(members);
    memset(word, 0, words * sizeof *word);
    const uint32_t one_in = 1 + test_random_below(seed, 2 * members); /* full to empty */
    for (cv_id id = 1; id <= members; id++) {
        if (test_random_below(seed, one_in) == 0) {
            cv__set_add(word, id);
        }
    }
    if (manner == DRAW_PLAUSIBLE) {
        cv__set_add(word, 1 + test_random_below(seed, members));
    }
    return words;
}

void draw_message(const struct cv_protocol *protocol, uint32_t members, enum draw_manner manner,
                  uint64_t *seed, uint64_t *word, struct cv_message *ret_message)
{
    memset(ret_message, 0, sizeof *ret_message);
    ret_message->type = test_random_below(seed, protocol->message_count);
    uint32_t scalars = 0;
    uint32_t lists = 0;
    const struct cv_field *field = protocol->messages[ret_message->type].fields;
    for (; field->kind != CV_FIELD_END; field++) {
        if (field->kind == CV_FIELD_SET) {
            const uint32_t words = draw_set(members, manner, seed, word);
            ret_message->list[lists++] = (struct cv_list){word, words};
            word += words;
        } else if (field->kind == CV_FIELD_VALUES) {
            const uint32_t count = test_random_below(seed, members + 1);
            for (uint32_t i = 0; i < count; i++) {
                word[i] = draw_number(manner, seed);
            }
            ret_message->list[lists++] = (struct cv_list){word, count};
            word += count;
        } else {
            ret_message->field[scalars++] = draw_field(field->kind, members, manner, seed);
        }
    }
}

void draw_answer(enum draw_manner manner, uint64_t *seed, uint64_t latest_request,
                 struct cv_event *ret_event)
{
    const uint64_t back = test_random_below(seed, 3);
    const uint32_t verdict = test_random_below(seed, CV_STORE_CHANGED + 1);
    *ret_event = (struct cv_event){
        .kind = CV_EVENT_STORE,
        .verdict = (enum cv_store_verdict)verdict,
        .token = draw_number(manner, seed),
        .holder = draw_number(manner, seed),
        .duration_ns = (int64_t)draw_number(manner, seed),
    };
    if (verdict != CV_STORE_CHANGED) {
        ret_event->request = latest_request > back ? latest_request - back : latest_request;
    }
    if (manner == DRAW_PLAUSIBLE) {
        ret_event->duration_ns *= 10 * NS_PER_MS;
    }
}
