/* src/base/catch.h - a failed assertion ends one call, not the program.
 *
 * The simulator reports a failed assertion of a core as a broken property instead of ending.
 * Nothing is cleaned up: whatever the call may have changed cannot be trusted any more.
 *
 * catch.c jumps back with longjmp(3). WebAssembly has none: there web/engine/catch.c takes its
 * place, and the page unwinds the stack by an exception of its own. */
#ifndef CV_BASE_CATCH_H
#define CV_BASE_CATCH_H

#include <stdbool.h>

/* The assertion that failed. */
struct cv_failure {
    const char *expression, *file; /* literals; the file without its folder */
    int line;
};

/* Calls work(context). True: it returned. False: an assertion failed in it; *ret_failure says
 * which. Calls may be nested. */
bool cv__catch(void (*work)(void *context), void *context, struct cv_failure *ret_failure);

#endif
