/* src/core/nodeset.h - sets of members, for up to 4096 of them.
 *
 * A set is a run of 64-bit words inside its owner's flat block. Its width follows from the member
 * count, which is an argument of every call, so a set has no header and is copied like bytes.
 * Bit i of word i/64 is member i+1. Invariant: no bit at or above member_count is set.
 * Time: one word per 64 members at most; add, remove and has are constant. */
#ifndef CV_CORE_NODESET_H
#define CV_CORE_NODESET_H

#include "core/types.h"

/* Words of a set of that many members. */
static inline uint32_t cv__set_words(uint32_t member_count)
{
    return (member_count + 63u) / 64u;
}

static inline bool cv__set_has(const uint64_t *set, cv_id id)
{
    CV_ASSERT(id != CV_ID_NONE);
    CV_ASSERT(id <= CV_MEMBERS_MAX);
    return (set[(id - 1) / 64] >> ((id - 1) % 64)) & 1u;
}

static inline void cv__set_add(uint64_t *set, cv_id id)
{
    CV_ASSERT(id != CV_ID_NONE);
    CV_ASSERT(id <= CV_MEMBERS_MAX);
    set[(id - 1) / 64] |= UINT64_C(1) << ((id - 1) % 64);
}

static inline void cv__set_remove(uint64_t *set, cv_id id)
{
    CV_ASSERT(id != CV_ID_NONE);
    CV_ASSERT(id <= CV_MEMBERS_MAX);
    set[(id - 1) / 64] &= ~(UINT64_C(1) << ((id - 1) % 64));
}

void cv__set_clear(uint64_t *set, uint32_t member_count);
void cv__set_copy(uint64_t *set, const uint64_t *from, uint32_t member_count);

/* Adds every member of `other` to `set`. */
void cv__set_unite(uint64_t *set, const uint64_t *other, uint32_t member_count);

uint32_t cv__set_count(const uint64_t *set, uint32_t member_count);
/* Do the two sets have a member in common? */
bool cv__set_meets(const uint64_t *set, const uint64_t *other, uint32_t member_count);
bool cv__set_is_subset(const uint64_t *set, const uint64_t *of, uint32_t member_count);

/* The smallest member >= from, the largest member <= upto; CV_ID_NONE if there is none. */
static inline cv_id cv__set_next(const uint64_t *set, cv_id from, uint32_t member_count)
{
    CV_ASSERT(from != CV_ID_NONE);
    if (from > member_count) {
        return CV_ID_NONE;
    }
    const uint32_t words = cv__set_words(member_count);
    uint32_t at = (from - 1) / 64;
    uint64_t word = set[at] & (~UINT64_C(0) << ((from - 1) % 64));
    while (word == 0) {
        if (++at == words) {
            return CV_ID_NONE;
        }
        word = set[at];
    }
    const cv_id found = at * 64 + (uint32_t)__builtin_ctzll(word) + 1;
    CV_ASSERT(found >= from && found <= member_count);
    return found;
}
cv_id cv__set_last(const uint64_t *set, cv_id upto, uint32_t member_count);

#endif
