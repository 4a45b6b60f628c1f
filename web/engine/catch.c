/* web/engine/catch.c - base/catch.h where there is no longjmp: JavaScript unwinds the stack.
 *
 * The work is called through JavaScript (web_try), which catches what web_throw throws. That drops
 * the stack frames of the work, as longjmp would. */
#include "base/catch.h"

#include "core/assert.h"

#include <stddef.h>
#include <string.h>

/* Calls web_call(work, context). 1: it returned, 0: web_throw() was called meanwhile; then the
 * stack pointer is restored. */
__attribute__((import_module("page"), import_name("try"))) extern int web_try(
    void (*work)(void *context), void *context);
__attribute__((import_module("page"), import_name("throw"))) extern _Noreturn void web_throw(void);

/* JavaScript can call a function pointer of this module only through an exported function. */
__attribute__((export_name("web_call"))) void web_call(void (*work)(void *context), void *context);
void web_call(void (*work)(void *context), void *context)
{
    work(context);
}

struct catcher {
    struct cv_assert_trap trap;
    struct cv_failure *failure;
};

static void on_assert(struct cv_assert_trap *trap, const char *expression, const char *file,
                      int line)
{
    struct catcher *catcher = (struct catcher *)((char *)trap - offsetof(struct catcher, trap));
    const char *slash = strrchr(file, '/');
    *catcher->failure = (struct cv_failure){expression, slash != NULL ? slash + 1 : file, line};
    web_throw();
}

bool cv__catch(void (*work)(void *context), void *context, struct cv_failure *ret_failure)
{
    struct catcher catcher = {.trap = {on_assert}, .failure = ret_failure};
    struct cv_assert_trap *outer = cv__assert_trap;
    cv__assert_trap = &catcher.trap;
    const bool is_done = web_try(work, context) != 0;
    cv__assert_trap = outer;
    return is_done;
}
