/* src/core/sequence.c - turns the values of a counter into growing numbers. */
#include "core/sequence.h"

#define GENERATION_END (CV_SEQUENCE_END >> CV_SEQUENCE_GENERATION_BITS)

uint64_t cv__sequence_generation(uint64_t number)
{
    return number >> CV_SEQUENCE_GENERATION_BITS;
}

/* The first number of a generation: the counter, with no wraps yet. */
static uint64_t number_of(uint64_t generation, uint32_t counter)
{
    return generation < GENERATION_END ? generation << CV_SEQUENCE_GENERATION_BITS | counter
                                       : CV_SEQUENCE_NONE;
}

uint64_t cv__sequence_number(uint64_t reference, uint32_t counter, uint64_t boots)
{
    if (reference == CV_SEQUENCE_NONE) {
        return number_of(boots, counter);
    }
    if (reference >= CV_SEQUENCE_END) {
        return CV_SEQUENCE_NONE;
    }
    const uint64_t generation = cv__sequence_generation(reference);
    if (boots > generation) {
        CV_ASSERT(number_of(boots, counter) > reference); /* true of CV_SEQUENCE_NONE too */
        return number_of(boots, counter);
    }
    const uint32_t ahead = counter - (uint32_t)reference; /* modulo 2^32: the wrap-around rule */
    if (ahead == 0 || ahead >= UINT32_C(1) << 31) {
        CV_ASSERT(number_of(generation + 1, counter) > reference);
        return number_of(generation + 1, counter); /* the counter lost its memory */
    }
    const uint64_t number = reference + ahead;
    CV_ASSERT(number > reference); /* numbers grow, whatever the counter does */
    return number < CV_SEQUENCE_END ? number : CV_SEQUENCE_NONE;
}
