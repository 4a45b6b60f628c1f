/* src/core/types.h - small definitions that every file needs. */
#ifndef CV_CORE_TYPES_H
#define CV_CORE_TYPES_H

#include <conclave/core.h>

#include "core/assert.h"

#define BIT(n) (UINT32_C(1) << (n))
#define COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

static inline int64_t cv__min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t cv__max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t cv__min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t cv__max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
