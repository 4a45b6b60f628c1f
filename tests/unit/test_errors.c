/* tests/unit/test_errors.c - codes, their texts, and the words that scenarios and traces use. */
#include "core/errors.h"
#include "support/support.h"

#include <conclave/conclave.h>
#include <stdio.h>
#include <string.h>

static void codes_and_texts_never_change(void **unused)
{
    (void)unused;
    assert_int_equal(CV_OK, 0);
    assert_int_equal(CV_E_INVALID, -7001);
    assert_int_equal(CV_E_MALFORMED, -7002);
    assert_int_equal(CV_E_STORE, -7003);
    assert_int_equal(CV_E_UNKNOWN, -7004);
    assert_int_equal(CV_E_MEMORY, -7005);
    assert_int_equal(CV_E_IO, -7006);
    assert_string_equal(cv_strerror(CV_E_STORE), "durable state could not be written or read");
}

static void numbers_that_are_not_ours_are_unknown_errors(void **unused)
{
    (void)unused;
    assert_string_equal(cv_strerror(1), "unknown error");
    assert_string_equal(cv_strerror(-1), "unknown error");
    assert_string_equal(cv_strerror(-7000), "unknown error");
    assert_string_equal(cv_strerror(CV_OK), "success");
}

static void fail_returns_its_code_with_or_without_a_text(void **unused)
{
    (void)unused;
    struct cv_errtext err = {""};
    assert_int_equal(cv__fail(&err, CV_E_STORE, "cannot save epoch %d", 7), CV_E_STORE);
    assert_string_equal(err.text, "cannot save epoch 7");
    assert_int_equal(cv__fail(NULL, CV_E_IO, "cannot save epoch %d", 7), CV_E_IO);
}

static void fail_cuts_a_text_at_its_bound(void **unused)
{
    (void)unused;
    char text_long[2 * CV_ERRTEXT_BYTES];
    memset(text_long, 'x', sizeof text_long - 1);
    text_long[sizeof text_long - 1] = '\0';
    struct cv_errtext err;
    (void)cv__fail(&err, CV_E_IO, "%s", text_long);
    assert_int_equal(strlen(err.text), CV_ERRTEXT_BYTES - 1);
}

static void fail_shortens_a_path_and_keeps_the_reason(void **unused)
{
    (void)unused;
    static const char reason[] = "': Permission denied";
    for (size_t bytes = CV_ERRTEXT_BYTES - 40; bytes <= 4096; bytes++) {
        char path[4097];
        for (size_t i = 0; i < bytes; i++) { /* of characters with two bytes each */
            path[i] = i % 2 == 0 ? '\xc3' : '\xa4';
        }
        path[bytes & ~(size_t)1] = '\0';
        struct cv_errtext err;
        (void)cv__fail(&err, CV_E_IO, "cannot open '%s': %s", path, "Permission denied");
        const size_t length = strlen(err.text);
        assert_true(length < CV_ERRTEXT_BYTES);
        assert_string_equal(err.text + length - strlen(reason), reason);
        assert_int_equal(strncmp(err.text, "cannot open '\xc3\xa4", 15), 0);
        for (size_t i = 1; i < length; i++) { /* no half of a character is left */
            assert_int_equal(err.text[i] == '\xa4', err.text[i - 1] == '\xc3');
        }
    }
}

static void fail_trips_on_success(void **unused)
{
    (void)unused;
    assert_trips((void)cv__fail(NULL, CV_OK, "fine"));
}

static void reasons_and_properties_have_stable_words(void **unused)
{
    (void)unused;
    assert_string_equal(cv_reason_name(CV_REASON_STARTED), "started");
    assert_string_equal(cv_reason_name(CV_REASON_LOST_QUORUM), "lost-quorum");
    assert_string_equal(cv_reason_name(CV_REASON_STOPPED), "stopped");
    assert_string_equal(cv_property_name(CV_PROPERTY_VALIDITY), "validity");
    assert_string_equal(cv_property_name(CV_PROPERTY_AT_MOST_ONE_LEADER), "at-most-one-leader");
    assert_string_equal(cv_property_name(CV_PROPERTY_ASSERTIONS), "assertions");
    for (uint32_t i = 0; i < CV_ASSUME_COUNT; i++) {
        assert_true(strlen(cv_assume_text((enum cv_assume)i)) > 0);
    }
}

static void the_version_of_header_and_library_agree(void **unused)
{
    (void)unused;
    char parts[32];
    (void)snprintf(parts, sizeof parts, "%d.%d.%d", CV_VERSION_MAJOR, CV_VERSION_MINOR,
                   CV_VERSION_PATCH);
    assert_string_equal(CV_VERSION, parts);
    assert_string_equal(cv_version(), CV_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_and_texts_never_change),
        cmocka_unit_test(numbers_that_are_not_ours_are_unknown_errors),
        cmocka_unit_test(fail_returns_its_code_with_or_without_a_text),
        cmocka_unit_test(fail_cuts_a_text_at_its_bound),
        cmocka_unit_test(fail_shortens_a_path_and_keeps_the_reason),
        cmocka_unit_test(fail_trips_on_success),
        cmocka_unit_test(reasons_and_properties_have_stable_words),
        cmocka_unit_test(the_version_of_header_and_library_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
