/* src/base/catch.c - ends a call when an assertion in it fails; by setjmp and longjmp. */
#include "base/catch.h"

#include "core/assert.h"

#include <setjmp.h>
#include <stddef.h>
#include <string.h>

struct catcher {
    struct cv_assert_trap trap;
    struct cv_failure *failure;
    jmp_buf back;
};

static void on_assert(struct cv_assert_trap *trap, const char *expression, const char *file,
                      int line)
{
    struct catcher *catcher = (struct catcher *)((char *)trap - offsetof(struct catcher, trap));
    const char *slash = strrchr(file, '/');
    *catcher->failure = (struct cv_failure){expression, slash != NULL ? slash + 1 : file, line};
    longjmp(catcher->back, 1);
}

bool cv__catch(void (*work)(void *context), void *context, struct cv_failure *ret_failure)
{
    struct catcher catcher = {.trap = {on_assert}, .failure = ret_failure};
    struct cv_assert_trap *volatile outer = cv__assert_trap;
    cv__assert_trap = &catcher.trap;
    volatile bool is_done = false;
    if (setjmp(catcher.back) == 0) {
        work(context);
        is_done = true;
    }
    cv__assert_trap = outer;
    return is_done;
}
