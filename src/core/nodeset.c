/* src/core/nodeset.c - sets of members. */
#include "core/nodeset.h"

#include <string.h>

void cv__set_clear(uint64_t *set, uint32_t member_count)
{
    CV_ASSERT(member_count <= CV_MEMBERS_MAX);
    memset(set, 0, cv__set_words(member_count) * sizeof *set);
}

void cv__set_copy(uint64_t *set, const uint64_t *from, uint32_t member_count)
{
    CV_ASSERT(member_count <= CV_MEMBERS_MAX);
    memmove(set, from, cv__set_words(member_count) * sizeof *set);
}

void cv__set_unite(uint64_t *set, const uint64_t *other, uint32_t member_count)
{
    CV_ASSERT(member_count <= CV_MEMBERS_MAX);
    const uint32_t words = cv__set_words(member_count);
    for (uint32_t i = 0; i < words; i++) {
        set[i] |= other[i];
    }
}

uint32_t cv__set_count(const uint64_t *set, uint32_t member_count)
{
    const uint32_t words = cv__set_words(member_count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < words; i++) {
        count += (uint32_t)__builtin_popcountll(set[i]);
    }
    CV_ASSERT(count <= member_count);
    return count;
}

bool cv__set_is_subset(const uint64_t *set, const uint64_t *of, uint32_t member_count)
{
    CV_ASSERT(member_count <= CV_MEMBERS_MAX);
    const uint32_t words = cv__set_words(member_count);
    for (uint32_t i = 0; i < words; i++) {
        if ((set[i] & ~of[i]) != 0) {
            return false;
        }
    }
    return true;
}

bool cv__set_meets(const uint64_t *set, const uint64_t *other, uint32_t member_count)
{
    CV_ASSERT(member_count <= CV_MEMBERS_MAX);
    for (uint32_t i = 0; i < cv__set_words(member_count); i++) {
        if ((set[i] & other[i]) != 0) {
            return true;
        }
    }
    return false;
}

cv_id cv__set_last(const uint64_t *set, cv_id upto, uint32_t member_count)
{
    CV_ASSERT(upto <= member_count);
    if (upto == CV_ID_NONE) {
        return CV_ID_NONE;
    }
    uint32_t at = (upto - 1) / 64;
    uint64_t word = set[at] & (~UINT64_C(0) >> (63 - (upto - 1) % 64));
    while (word == 0) {
        if (at-- == 0) {
            return CV_ID_NONE;
        }
        word = set[at];
    }
    const cv_id found = at * 64 + (63 - (uint32_t)__builtin_clzll(word)) + 1;
    CV_ASSERT(found <= upto);
    return found;
}
