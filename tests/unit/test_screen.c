/* tests/unit/test_screen.c - texts wrapped to the width of a screen. */
#include "base/screen.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static void assert_printed(uint32_t columns, const char *text, const char *expected)
{
    char *printed = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&printed, &bytes);
    assert_non_null(out);
    cv__screen_print(out, columns, text);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(printed, expected);
    free(printed);
}

static void a_line_that_fits_stays_as_it_is(void **unused)
{
    (void)unused;
    static const char text[] = "usage: x\n\n  --a   one\n        two\n";
    assert_printed(40, text, text);
    assert_printed(CV_SCREEN_ANY, text, text);
    assert_printed(20, "", "");
    assert_printed(20, "\n", "\n");
    assert_printed(20, "no end", "no end\n");
    assert_printed(20, "exactly twenty chars", "exactly twenty chars\n");
}

static void lines_are_broken_between_words(void **unused)
{
    (void)unused;
    assert_printed(20, "one two three four five six", "one two three four\nfive six\n");
    assert_printed(20, "  one two three four five", "  one two three four\n  five\n");
    /* Characters count, not bytes. */
    assert_printed(20, "ä ä ä ä ä ä ä ä ä ä x", "ä ä ä ä ä ä ä ä ä ä\nx\n");
}

static void colours_have_no_width(void **unused)
{
    (void)unused;
    static const char text[] = "\033[1;32m####\033[0m \033[31mxxxx\033[0m and so on\n";
    assert_printed(20, text, text);
}

static void columns_stay_columns(void **unused)
{
    (void)unused;
    assert_printed(30, "  --lease  how long a leader is believed in",
                   "  --lease  how long a leader\n           is believed in\n");
    /* There is no room for the column. */
    assert_printed(20, "  a-very-long-option  and its text",
                   "  a-very-long-option\n  and its text\n");
}

static void long_words_stay_whole(void **unused)
{
    (void)unused;
    assert_printed(20, "see /a/path/that/is/longer/than/this for more",
                   "see\n/a/path/that/is/longer/than/this\nfor more\n");
}

static void lines_that_the_author_broke_are_joined_first(void **unused)
{
    (void)unused;
    static const char text[] =
        "This paragraph was broken by its author, who had a wide screen of\n"
        "his own in mind.\n"
        "\n"
        "  --a  what is said about an option, in a line that is longer than\n"
        "       most\n"
        "  --b  short\n";
    assert_printed(50, text,
                   "This paragraph was broken by its author, who had a\n"
                   "wide screen of his own in mind.\n"
                   "\n"
                   "  --a  what is said about an option, in a line\n"
                   "       that is longer than most\n"
                   "  --b  short\n");
    assert_printed(CV_SCREEN_ANY, text, text);
}

static void json_is_not_wrapped(void **unused)
{
    (void)unused;
    static const char text[] = "{\"a\": 1, \"b\": 2, \"c\": 3}\n";
    assert_printed(20, text, text);
}

static void width_comes_from_the_environment(void **unused)
{
    (void)unused;
    (void)setenv("COLUMNS", "40", 1);
    assert_int_equal(cv__screen_limit(), 40);
    assert_int_equal(cv__screen_columns(), 40);
    (void)setenv("COLUMNS", "3", 1);
    assert_int_equal(cv__screen_limit(), 20);
    for (uint32_t i = 0; i < 3; i++) {
        static const char *const useless[] = {"", "wide", "0"};
        (void)setenv("COLUMNS", useless[i], 1);
        assert_true(cv__screen_limit() >= 20);
        assert_true(cv__screen_columns() > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_that_fits_stays_as_it_is),
        cmocka_unit_test(lines_are_broken_between_words),
        cmocka_unit_test(colours_have_no_width),
        cmocka_unit_test(columns_stay_columns),
        cmocka_unit_test(long_words_stay_whole),
        cmocka_unit_test(lines_that_the_author_broke_are_joined_first),
        cmocka_unit_test(json_is_not_wrapped),
        cmocka_unit_test(width_comes_from_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
