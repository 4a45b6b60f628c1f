/* src/protocols/anon_round.h - numbers, rounds and the closed number [Wiesmann07, fig. 1].
 *
 * The leader is a function of the set of numbers seen, whatever their order of arrival: the open
 * number is the largest, the closed one the largest of an earlier round. Larger sets have larger
 * leaders, so all processes see leaders in the same order (lemma 8). */
#ifndef CV_PROTOCOLS_ANON_ROUND_H
#define CV_PROTOCOLS_ANON_ROUND_H

#include "core/sequence.h"
#include "protocols/anon_state.h"

/* A number with its owner, which is another process. */
static inline struct anon_pair anon_pair_of(uint64_t number, uint64_t label)
{
    return (struct anon_pair){.number = number, .label = label};
}

static inline bool anon_is_none(const struct anon_pair *pair)
{
    return pair->number == CV_SEQUENCE_NONE;
}

static inline bool anon_is_same(const struct anon_pair *a, const struct anon_pair *b)
{
    return a->number == b->number && a->label == b->label;
}

/* By number, then by label; none is below everything. */
static inline bool anon_is_below(const struct anon_pair *a, const struct anon_pair *b)
{
    if (anon_is_none(a) || anon_is_none(b)) {
        return anon_is_none(a) && !anon_is_none(b);
    }
    return a->number != b->number ? a->number < b->number : a->label < b->label;
}

static inline uint64_t anon_round(const struct anon *a, uint64_t number)
{
    CV_ASSERT(number < CV_SEQUENCE_END);
    CV_ASSERT(a->round_size > 0);
    return number / a->round_size;
}

/* [fig. 1, listen; the gap rule is ours] A number was seen. The open number is the largest seen,
 * the closed one the largest seen of an earlier round. The first closes nothing. */
void cv__anon_take(struct anon *a, const struct anon_pair *seen);

#endif
