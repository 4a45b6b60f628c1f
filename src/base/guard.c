/* src/base/guard.c - work that a failed assertion ends, by setjmp and longjmp. */
#include "base/guard.h"

#include "core/assert.h"

#include <setjmp.h>
#include <stddef.h>
#include <string.h>

struct guard {
    struct cv_assert_trap trap;
    struct cv_failure *failure;
    jmp_buf back;
};

static void on_assert(struct cv_assert_trap *trap, const char *expression, const char *file,
                      int line)
{
    struct guard *guard = (struct guard *)((char *)trap - offsetof(struct guard, trap));
    const char *slash = strrchr(file, '/');
    *guard->failure = (struct cv_failure){expression, slash != NULL ? slash + 1 : file, line};
    longjmp(guard->back, 1);
}

bool cv__guard(void (*work)(void *context), void *context, struct cv_failure *ret_failure)
{
    struct guard guard = {.trap = {on_assert}, .failure = ret_failure};
    struct cv_assert_trap *volatile outer = cv__assert_trap;
    cv__assert_trap = &guard.trap;
    volatile bool is_done = false;
    if (setjmp(guard.back) == 0) {
        work(context);
        is_done = true;
    }
    cv__assert_trap = outer;
    return is_done;
}
