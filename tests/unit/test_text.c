/* tests/unit/test_text.c - the suggestion for an unknown word. */
#include "core/text.h"
#include "support/support.h"

#include <string.h>

static const char *const stores[] = {"sqlite", "postgres", "etcd", "zookeeper", NULL};

static void typing_error_suggests_the_nearest_word(void **unused)
{
    (void)unused;
    assert_string_equal(cv__text_nearest("sqlit", stores), "sqlite");
    assert_string_equal(cv__text_nearest("sqllite", stores), "sqlite");
    assert_string_equal(cv__text_nearest("etdc", stores), "etcd");
    assert_string_equal(cv__text_nearest("etcd", stores), "etcd");
    assert_string_equal(cv__text_nearest("ETCD", stores), "etcd");
    assert_string_equal(cv__text_nearest("PostgreSQL", stores), "postgres");
    /* Two letters in the wrong order are one slip. */
    assert_string_equal(cv__text_nearest("wiat", (const char *const[]){"via", "wait", NULL}),
                        "wait");
    assert_string_equal(cv__text_nearest("rnu", (const char *const[]){"rn", "run", NULL}), "rn");
    assert_string_equal(cv__text_nearest("abdc", (const char *const[]){"abcde", "abcd", NULL}),
                        "abcd");
}

static void part_of_a_word_suggests_the_only_one_that_has_it(void **unused)
{
    (void)unused;
    static const char *const options[] = {"zone",      "on-elected",   "on-lost", "cleanup",
                                          "tolerance", "cleanup-time", NULL};
    assert_string_equal(cv__text_nearest("time-zone", options), "zone");
    assert_string_equal(cv__text_nearest("elected", options), "on-elected");
    assert_string_equal(cv__text_nearest("tol", options), "tolerance");
    assert_null(cv__text_nearest("on", options));                       /* which of the two? */
    assert_string_equal(cv__text_nearest("clean", options), "cleanup"); /* two letters */
    assert_null(cv__text_nearest("to", options));                       /* too short */
    assert_null(cv__text_nearest("ozone-hole", options)); /* not a whole part between dashes */
    assert_null(cv__text_nearest("-", options));
}

static void word_within_a_word_suggests_the_only_one(void **unused)
{
    (void)unused;
    static const char *const options[] = {"zone", "nonblock", "lease", "wait", NULL};
    assert_string_equal(cv__text_nearest("timezone", options), "zone");
    assert_string_equal(cv__text_nearest("leasetime", options), "lease");
    assert_string_equal(cv__text_nearest("block", options), "nonblock");
    assert_null(cv__text_nearest("nozoneday", options)); /* neither its beginning nor its end */
    assert_null(cv__text_nearest("timezone", (const char *const[]){"zone", "time", NULL}));
}

static void words_of_other_tools_suggest_ours(void **unused)
{
    (void)unused;
    static const char *const options[] = {"zone", "lease", "wait", "via", NULL};
    assert_string_equal(cv__text_nearest("zk", stores), "zookeeper");
    assert_string_equal(cv__text_nearest("pg", stores), "postgres");
    assert_string_equal(cv__text_nearest("tz", options), "zone");
    assert_string_equal(cv__text_nearest("ttl", options), "lease");
    assert_null(cv__text_nearest("zk", options)); /* it is not among these */
}

static void word_far_from_all_others_gets_no_suggestion(void **unused)
{
    (void)unused;
    char long_word[300];
    memset(long_word, 'x', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = '\0';
    static const char *const short_words[] = {"R", "eta", NULL};
    assert_null(cv__text_nearest("redis", stores));
    assert_null(cv__text_nearest("", stores));
    assert_null(cv__text_nearest("Q", short_words)); /* nothing of the word would be left */
    assert_null(cv__text_nearest(long_word, stores));
    assert_null(cv__text_nearest("sqlite", (const char *const[]){NULL}));
}

static void error_suggests_the_nearest_or_lists_all(void **unused)
{
    (void)unused;
    struct cv_errtext error;
    assert_int_equal(cv__text_fail_unknown(&error, CV_E_UNKNOWN, "store", "sqlit", stores),
                     CV_E_UNKNOWN);
    assert_string_equal(error.text, "unknown store 'sqlit'; did you mean 'sqlite'?");
    assert_int_equal(cv__text_fail_unknown(&error, CV_E_INVALID, "store", "redis", stores),
                     CV_E_INVALID);
    assert_string_equal(error.text,
                        "unknown store 'redis'; known: sqlite, postgres, etcd, zookeeper");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(typing_error_suggests_the_nearest_word),
        cmocka_unit_test(part_of_a_word_suggests_the_only_one_that_has_it),
        cmocka_unit_test(word_within_a_word_suggests_the_only_one),
        cmocka_unit_test(words_of_other_tools_suggest_ours),
        cmocka_unit_test(word_far_from_all_others_gets_no_suggestion),
        cmocka_unit_test(error_suggests_the_nearest_or_lists_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
