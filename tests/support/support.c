/* tests/support/support.c - what the test programs share. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

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
