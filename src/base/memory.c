/* src/base/memory.c - allocation that succeeds or ends the process. */
#include "base/memory.h"

#include "base/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *or_die(void *memory)
{
    if (memory == NULL) {
        (void)fprintf(stderr, "conclave: out of memory\n");
        exit(EXIT_CANNOT); /* not EXIT_NO, which says that a promise was broken */
    }
    return memory;
}

void *cv__allocate(size_t count, size_t bytes)
{
    return or_die(calloc(count > 0 ? count : 1, bytes > 0 ? bytes : 1));
}

void *cv__grow(void *array, uint32_t *capacity, uint32_t count, size_t item_bytes)
{
    if (count < *capacity) {
        return array;
    }
    *capacity = *capacity > 0 ? *capacity * 2 : 16;
    return or_die(realloc(array, *capacity * item_bytes));
}

char *cv__copy_text(const char *text, size_t length)
{
    char *copy = cv__allocate(length + 1, 1);
    memcpy(copy, text, length);
    return copy;
}
