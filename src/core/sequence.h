/* src/core/sequence.h - turns the values of a counter into growing numbers.
 *
 * A sequencer is a 32-bit counter in a device that may wrap around, lose its memory or be replaced.
 * Its values become 64-bit numbers v = generation * 2^40 + wraps * 2^32 + counter that always grow.
 * This replaces [Wiesmann07, sec. 5]: the paper resets the algorithm by a broadcast when it sees a
 * value below R, which fails for R = 1, for a first value of R or more, and when the broadcast is
 * lost. Here each client decides alone, from the largest number it had seen when it asked. An
 * answer of the same counter is larger by less than 2^31, modulo 2^32; any other answer means that
 * the counter began again, in the next generation.
 *
 * Two clients can compute the same number if the counter lost its memory twice while they did not
 * hear of each other. Protocols therefore order numbers by (number, label). */
#ifndef CV_CORE_SEQUENCE_H
#define CV_CORE_SEQUENCE_H

#include "core/types.h"

#define CV_SEQUENCE_GENERATION_BITS 40u
#define CV_SEQUENCE_END (UINT64_C(1) << 63) /* numbers are below; others are refused */

/* The generation that a number belongs to. */
uint64_t cv__sequence_generation(uint64_t number);

/* The number that an answer stands for. `reference`: the largest number seen when the request was
 * sent, or CV_SEQUENCE_NONE. `boots`: how often the sequencer has started, if it reports this,
 * otherwise 0. Returns CV_SEQUENCE_NONE if the numbers are used up, or if an argument is out of
 * range. */
uint64_t cv__sequence_number(uint64_t reference, uint32_t counter, uint64_t boots);

#endif
