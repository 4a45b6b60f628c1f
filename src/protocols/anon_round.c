/* src/protocols/anon_round.c - numbers, rounds and the closed number; see anon_round.h. */
#include "protocols/anon_round.h"

void cv__anon_take(struct anon *a, const struct anon_pair *seen)
{
    CV_ASSERT(!anon_is_none(seen));
    const struct anon_pair open_before = a->open;
    const struct anon_pair closed_before = a->closed;
    if (anon_is_below(&a->open, seen)) {
        if (!anon_is_none(&a->open) &&
            anon_round(a, seen->number) > anon_round(a, a->open.number)) {
            a->closed = a->open;
        }
        a->open = *seen;
    } else if (anon_round(a, seen->number) < anon_round(a, a->open.number) &&
               anon_is_below(&a->closed, seen)) {
        a->closed = *seen;
    }
    CV_ASSERT(!anon_is_below(&a->open, &open_before));     /* neither number ever falls: ... */
    CV_ASSERT(!anon_is_below(&a->closed, &closed_before)); /* ... lemma 8 rests on it */
    CV_ASSERT(!anon_is_below(&a->open, seen));
}
