/* src/protocols/anon_round.h - numbers, rounds and the closed number [Wiesmann07, fig. 1].
 *
 * Who leads is a function of the set of numbers seen, whatever the order of their arrival: the open
 * number is the largest, the closed one the largest of an earlier round. Larger sets have larger
 * leaders, so all processes see leaders in the same order (lemma 8). */
#ifndef CV_PROTOCOLS_ANON_ROUND_H
#define CV_PROTOCOLS_ANON_ROUND_H

#include "protocols/anon_state.h"

bool cv__anon_is_none(const struct anon_pair *pair);
bool cv__anon_is_same(const struct anon_pair *a, const struct anon_pair *b);
/* By number, then by label; none is below everything. */
bool cv__anon_is_below(const struct anon_pair *a, const struct anon_pair *b);

uint64_t cv__anon_round(const struct anon *a, uint64_t number);

/* [fig. 1, listen; the gap rule is ours] A number was seen. The open number is the largest seen, the
 * closed one the largest seen of an earlier round. The first closes nothing. */
void cv__anon_take(struct anon *a, const struct anon_pair *seen);

#endif
