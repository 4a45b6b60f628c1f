/* src/core/assert.c - handles a failed assertion: prints it and aborts. Not one of the pure
 * parts. */
#include "core/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Thread_local struct cv_assert_trap *cv__assert_trap;

_Noreturn void cv__assert_fail(const char *expression, const char *file, int line)
{
    if (cv__assert_trap != NULL) {
        cv__assert_trap->fail(cv__assert_trap, expression, file, line);
    }
    (void)fprintf(stderr, "conclave: assertion failed: %s (%s:%d)\n", expression, file, line);
    abort();
}
