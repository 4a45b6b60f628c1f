/* src/protocols/anon_round.c - numbers, rounds and the closed number; see anon_round.h. */
#include "protocols/anon_round.h"

#include "core/sequence.h"

bool cv__anon_is_none(const struct anon_pair *pair)
{
    return pair->number == CV_SEQUENCE_NONE;
}

bool cv__anon_is_same(const struct anon_pair *a, const struct anon_pair *b)
{
    return a->number == b->number && a->label == b->label;
}

bool cv__anon_is_below(const struct anon_pair *a, const struct anon_pair *b)
{
    if (cv__anon_is_none(a) || cv__anon_is_none(b)) {
        return cv__anon_is_none(a) && !cv__anon_is_none(b);
    }
    return a->number != b->number ? a->number < b->number : a->label < b->label;
}

uint64_t cv__anon_round(const struct anon *a, uint64_t number)
{
    CV_ASSERT(number < CV_SEQUENCE_END);
    CV_ASSERT(a->round_size > 0);
    return number / a->round_size;
}

void cv__anon_take(struct anon *a, const struct anon_pair *seen)
{
    CV_ASSERT(!cv__anon_is_none(seen));
    const struct anon_pair open_before = a->open;
    const struct anon_pair closed_before = a->closed;
    if (cv__anon_is_below(&a->open, seen)) {
        if (!cv__anon_is_none(&a->open) &&
            cv__anon_round(a, seen->number) > cv__anon_round(a, a->open.number)) {
            a->closed = a->open;
        }
        a->open = *seen;
    } else if (cv__anon_round(a, seen->number) < cv__anon_round(a, a->open.number) &&
               cv__anon_is_below(&a->closed, seen)) {
        a->closed = *seen;
    }
    CV_ASSERT(!cv__anon_is_below(&a->open, &open_before));     /* neither number ever falls: ... */
    CV_ASSERT(!cv__anon_is_below(&a->closed, &closed_before)); /* ... lemma 8 rests on it */
    CV_ASSERT(!cv__anon_is_below(&a->open, seen));
}
