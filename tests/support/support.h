/* tests/support/support.h - what the test programs share.
 *
 * Includes cmocka with the headers it wants first, so that a test includes only this. */
#ifndef CV_TESTS_SUPPORT_H
#define CV_TESTS_SUPPORT_H

#include "core/types.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* How many seeds, steps or rounds to run instead of the usual number, at least one: CV_TEST_SCALE
 * is in per cent, and the runs under sanitizers and valgrind set it low. */
uint32_t test_scale(uint32_t usual);

/* The next number of a sequence that a seed determines (splitmix64). */
uint64_t test_random(uint64_t *state);

/* A number below `bound`. */
uint32_t test_random_below(uint64_t *state, uint32_t bound);

/* A new folder for a test; false: it cannot be made. Removing it returns 0, as a teardown does. */
#define TEST_FOLDER_BYTES 64
bool test_folder_make(char ret_folder[TEST_FOLDER_BYTES]);
int test_folder_remove(const char *folder);

/* Runs the wanted tests of a table. CV_TEST_ONLY is a pattern of names, for debugging. */
struct test_choice {
    bool is_wanted;
    struct CMUnitTest test;
};
int test_run_wanted(const char *group, const struct test_choice *all, size_t count,
                    CMFixtureFunction set_up, CMFixtureFunction clean_up);

/* The statement must trip one of our assertions, which then does not end the program. */
#define assert_trips(statement)                                  \
    do {                                                         \
        struct test_trap trap_;                                  \
        test_trap_set(&trap_);                                   \
        if (setjmp(trap_.back) == 0) {                           \
            statement;                                           \
            test_trap_clear();                                   \
            fail_msg("no assertion was tripped by " #statement); \
        }                                                        \
        test_trap_clear();                                       \
    } while (0)

struct test_trap {
    struct cv_assert_trap trap; /* first: the trap that fails is also the test_trap */
    jmp_buf back;
};
void test_trap_set(struct test_trap *trap);
void test_trap_clear(void);

#endif
