/* tests/unit/test_trail.c - several contenders of a machine record the same leadership, and the one
 * that saw it first may write last. */
#include "runtime/trail.h"

#include "core/types.h"
#include "os/loop.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

#define ADDRESS "zookeeper://127.0.0.1:1/conclave"

static char folder[TEST_FOLDER_BYTES];
static uv_loop_t loop;
static struct cv_store_past story[4];
static uint32_t story_count;

static int setup(void **unused)
{
    (void)unused;
    struct cv_errtext why;
    story_count = 0;
    return test_folder_make(folder) && setenv("CONCLAVE_STATE", folder, 1) == 0 &&
                   cv__loop_init(&loop, &why) == CV_OK
               ? 0
               : -1;
}

static int teardown(void **unused)
{
    (void)unused;
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) == 0 ? test_folder_remove(folder) : -1;
}

static void on_past(void *user, const struct cv_store_past *past)
{
    (void)user;
    assert_true(story_count < COUNT_OF(story));
    story[story_count++] = *past;
}

static void leadership_does_not_end_before_it_began(void **unused)
{
    (void)unused;
    static const struct cv_store_kind without_trail; /* so ours is read */
    struct cv_shared_list list = {0};
    struct cv_trail *trail;
    struct cv_errtext why;
    assert_int_equal(cv__trail_open(&loop, &list, &trail, &why), CV_OK);
    cv__trail_note(trail, ADDRESS, "job", "a", 7, NULL,
                   /* ago_ns= */ 0);                                   /* seen by a waiting one */
    cv__trail_note(trail, ADDRESS, "job", "a", 7, NULL, 2 * NS_PER_S); /* by the leader */
    cv__trail_note(trail, ADDRESS, "job", "", 7, "resigned", NS_PER_S);
    cv__trail_close(trail);
    (void)uv_run(&loop, UV_RUN_DEFAULT);

    assert_int_equal(cv__trail_read(&without_trail, ADDRESS, "job", on_past, NULL, &why), CV_OK);
    assert_int_equal(story_count, 1);
    assert_string_equal(story[0].why, "resigned");
    assert_true(story[0].from_wall_ns < story[0].to_wall_ns);
}

/* Notes wait for a moment, so that they do not delay a hand-over; but not for the end. */
static void notes_are_written_while_the_trail_is_open(void **unused)
{
    (void)unused;
    static const struct cv_store_kind without_trail;
    struct cv_shared_list list = {0};
    struct cv_trail *trail;
    struct cv_errtext why;
    assert_int_equal(cv__trail_open(&loop, &list, &trail, &why), CV_OK);
    cv__trail_note(trail, ADDRESS, "job", "a", 1, NULL, 3 * NS_PER_S);
    cv__trail_note(trail, ADDRESS, "job", "", 1, "resigned", 2 * NS_PER_S);
    cv__trail_note(trail, ADDRESS, "job", "b", 2, NULL, NS_PER_S);
    while (story_count < 2) { /* meson ends a test that waits for ever */
        (void)uv_run(&loop, UV_RUN_ONCE);
        story_count = 0;
        assert_int_equal(cv__trail_read(&without_trail, ADDRESS, "job", on_past, NULL, &why),
                         CV_OK);
    }
    assert_string_equal(story[0].why, "resigned");
    assert_string_equal(story[1].node, "b");
    cv__trail_close(trail);
}

static void count_past(void *user, const struct cv_store_past *past)
{
    (void)past;
    ++*(uint32_t *)user;
}

/* The contenders of a machine may all begin at the same time, and somebody may ask meanwhile. */
static void nothing_is_lost_while_several_make_the_file(void **unused)
{
    (void)unused;
    static const struct cv_store_kind without_trail;
    struct cv_trail *trails[6];
    struct cv_shared_list lists[COUNT_OF(trails)] = {0}; /* a thread for each trail */
    struct cv_errtext why;
    for (uint32_t round = 0; round < test_scale(20); round++) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < COUNT_OF(trails); i++) {
            const char election[] = {(char)('a' + i), '\0'};
            assert_int_equal(cv__trail_open(&loop, &lists[i], &trails[i], &why), CV_OK);
            cv__trail_note(trails[i], ADDRESS, election, "n", 1, NULL, 0);
        }
        for (uint32_t i = 0; i < COUNT_OF(trails); i++) {
            cv__trail_close(trails[i]); /* now its thread writes */
        }
        const int read = cv__trail_read(&without_trail, ADDRESS, "a", count_past, &found, &why);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        assert_int_equal(read, CV_OK);
        found = 0;
        for (uint32_t i = 0; i < COUNT_OF(trails); i++) {
            const char election[] = {(char)('a' + i), '\0'};
            assert_int_equal(
                cv__trail_read(&without_trail, ADDRESS, election, count_past, &found, &why), CV_OK);
        }
        assert_int_equal(found, COUNT_OF(trails));
        assert_int_equal(test_folder_remove(folder), 0);
        assert_true(test_folder_make(folder) && setenv("CONCLAVE_STATE", folder, 1) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(leadership_does_not_end_before_it_began, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_lost_while_several_make_the_file, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(notes_are_written_while_the_trail_is_open, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
