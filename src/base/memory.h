/* src/base/memory.h - allocation that succeeds or ends the process with a line saying so.
 *
 * The simulator is a tool that one person runs: without memory it has nothing sensible left to do.
 * The library that is embedded into other programs does not use this. */
#ifndef CV_BASE_MEMORY_H
#define CV_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed. */
void *cv__allocate(size_t count, size_t bytes);

/* Makes room for one more item after `count` items; returns the array, which may have moved. */
void *cv__grow(void *array, uint32_t *capacity, uint32_t count, size_t item_bytes);

/* A copy of the text's first `length` bytes, terminated. */
char *cv__copy_text(const char *text, size_t length);

#endif
