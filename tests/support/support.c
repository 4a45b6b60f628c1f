/* tests/support/support.c - what the test programs share. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

#define TESTS_MAX 100 /* of one table */

uint32_t test_scale(uint32_t usual)
{
    const char *text = getenv("CV_TEST_SCALE");
    const unsigned long percent = text != NULL ? strtoul(text, NULL, 10) : 100;
    const uint64_t scaled = (uint64_t)usual * percent / 100;
    return scaled > 0 ? (uint32_t)scaled : 1;
}

bool test_folder_make(char ret_folder[TEST_FOLDER_BYTES])
{
    (void)snprintf(ret_folder, TEST_FOLDER_BYTES, "/tmp/conclave-test-XXXXXX");
    return mkdtemp(ret_folder) != NULL;
}

int test_folder_remove(const char *folder)
{
    char command[TEST_FOLDER_BYTES + 16];
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int test_run_wanted(const char *group, const struct test_choice *all, size_t count,
                    CMFixtureFunction set_up, CMFixtureFunction clean_up)
{
    struct CMUnitTest wanted[TESTS_MAX];
    size_t wanted_count = 0;
    assert_true(count <= TESTS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (all[i].is_wanted) {
            wanted[wanted_count++] = all[i].test;
        }
    }
    if (getenv("CV_TEST_ONLY") != NULL) {
        cmocka_set_test_filter(getenv("CV_TEST_ONLY"));
    }
    return _cmocka_run_group_tests(group, wanted, wanted_count, set_up, clean_up);
}

uint64_t test_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t test_random_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)(test_random(state) % bound);
}

static void test_trap_fail(struct cv_assert_trap *trap, const char *expression, const char *file,
                           int line)
{
    (void)expression;
    (void)file;
    (void)line;
    longjmp(((struct test_trap *)trap)->back, 1);
}

void test_trap_set(struct test_trap *trap)
{
    trap->trap.fail = test_trap_fail;
    cv__assert_trap = &trap->trap;
}

void test_trap_clear(void)
{
    cv__assert_trap = NULL;
}
