/* src/core/bytes.h - numbers as little-endian bytes, and a checksum for the contents of files.
 *
 * The sum (FNV-1a, 64 bits) detects a record that a crash or a bad disk has damaged. It does not
 * protect against forgery. */
#ifndef CV_CORE_BYTES_H
#define CV_CORE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Writes the lowest 8 * byte_count bits of a value. */
static inline void cv__bytes_put(uint8_t *at, uint64_t value, uint32_t byte_count)
{
    for (uint32_t i = 0; i < byte_count; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static inline uint64_t cv__bytes_get(const uint8_t *at, uint32_t byte_count)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < byte_count; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

static inline uint64_t cv__bytes_sum(const uint8_t *bytes, size_t byte_count)
{
    uint64_t sum = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < byte_count; i++) {
        sum = (sum ^ bytes[i]) * UINT64_C(1099511628211);
    }
    return sum;
}

#endif
