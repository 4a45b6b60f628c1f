/* tests/unit/test_options.c - a protocol's options: defaults, values from text, and back. */
#include "core/options.h"
#include "support/support.h"

#include <string.h>

enum { HEARTBEAT, RETRIES, DAMPED, DETECTOR, ORDER, WORDS };

static const struct cv_option options[] = {
    [HEARTBEAT] = {.name = "heartbeat",
                   .kind = CV_OPTION_TIME,
                   .initial = 100 * NS_PER_MS,
                   .min = NS_PER_MS,
                   .max = 60 * NS_PER_S},
    [RETRIES] = {.name = "retries", .kind = CV_OPTION_COUNT, .initial = 3, .min = 1, .max = 10},
    [DAMPED] = {.name = "damped", .kind = CV_OPTION_FLAG, .initial = 1},
    [DETECTOR] = {.name = "detector",
                  .kind = CV_OPTION_CHOICE,
                  .initial = 1,
                  .choices = "fixed|phi|phi-2"},
    [ORDER] = {.name = "order", .kind = CV_OPTION_TEXT, .initial = 0, .choices = "a,b"},
    [WORDS] = {.name = "words", .kind = CV_OPTION_TEXT, .initial = 1, .choices = ""},
    {.name = NULL},
};

static int accept(struct cv_config *config, struct cv_errtext *reterr)
{
    (void)config;
    (void)reterr;
    return CV_OK;
}

static const struct cv_protocol protocol = {
    .name = "options-test",
    .options = options,
    .configure = accept,
};

static struct cv_config config_make(void)
{
    struct cv_config config;
    memset(&config, 0xa5, sizeof config); /* nothing may depend on what was there */
    cv_config_init(&config, &protocol, 2, 5);
    return config;
}

static void begins_with_the_defaults(void **unused)
{
    (void)unused;
    const struct cv_config config = config_make();
    assert_int_equal(config.self, 2);
    assert_int_equal(config.member_count, 5);
    assert_int_equal(config.drift_ppb, CV_DRIFT_PPB_DEFAULT);
    assert_int_equal(config.option[HEARTBEAT], 100 * NS_PER_MS);
    assert_int_equal(config.option[RETRIES], 3);
    assert_int_equal(config.option[DAMPED], 1);
    assert_int_equal(config.option[DETECTOR], 1);
}

static void assert_set(const char *name, const char *value, uint32_t at, int64_t expected)
{
    struct cv_config config = config_make();
    struct cv_errtext err = {"untouched"};
    assert_int_equal(cv_config_set(&config, &protocol, name, value, &err), CV_OK);
    assert_int_equal(config.option[at], expected);
    assert_string_equal(err.text, "untouched"); /* written on failure only */
}

static void reads_a_value_of_every_kind(void **unused)
{
    (void)unused;
    assert_set("heartbeat", "250ms", HEARTBEAT, 250 * NS_PER_MS);
    assert_set("retries", "7", RETRIES, 7);
    assert_set("damped", "no", DAMPED, 0);
    assert_set("damped", "yes", DAMPED, 1);
    assert_set("detector", "fixed", DETECTOR, 0);
    assert_set("detector", "phi", DETECTOR, 1);
    assert_set("detector", "phi-2", DETECTOR, 2);
}

static void accepts_both_ends_of_a_range(void **unused)
{
    (void)unused;
    assert_set("retries", "1", RETRIES, 1);
    assert_set("retries", "10", RETRIES, 10);
    assert_set("heartbeat", "1ms", HEARTBEAT, NS_PER_MS);
    assert_set("heartbeat", "1min", HEARTBEAT, 60 * NS_PER_S);
}

/* The text must name the option and hold `hint`; the configuration stays as it was. */
static void assert_not_set(const char *name, const char *value, int code, const char *hint)
{
    const struct cv_config before = config_make();
    struct cv_config config = before;
    struct cv_errtext err = {""};
    if (cv_config_set(&config, &protocol, name, value, &err) != code) {
        fail_msg("%s=%s: not the error expected", name, value);
    }
    assert_memory_equal(&config, &before, sizeof config);
    assert_non_null(strstr(err.text, name));
    assert_non_null(strstr(err.text, hint));
    assert_null(strchr(err.text, '\n'));
    assert_int_equal(cv_config_set(&config, &protocol, name, value, NULL), code);
}

static void refuses_an_unknown_option(void **unused)
{
    (void)unused;
    assert_not_set("heartbeats", "1s", CV_E_UNKNOWN, "options-test");
    assert_not_set("heartbeats", "1s", CV_E_UNKNOWN, "did you mean 'heartbeat'?");
    assert_not_set("", "1s", CV_E_UNKNOWN, "options-test");
}

static void refuses_malformed_values_and_says_what_is_valid(void **unused)
{
    (void)unused;
    assert_not_set("heartbeat", "5", CV_E_INVALID, "250ms");
    assert_not_set("heartbeat", "soon", CV_E_INVALID, "250ms");
    assert_not_set("retries", "", CV_E_INVALID, "whole number");
    assert_not_set("retries", "2.5", CV_E_INVALID, "whole number");
    assert_not_set("retries", "-1", CV_E_INVALID, "whole number");
    assert_not_set("retries", "3x", CV_E_INVALID, "whole number");
    assert_not_set("damped", "true", CV_E_INVALID, "yes or no");
    assert_not_set("damped", "", CV_E_INVALID, "yes or no");
    assert_not_set("detector", "ph", CV_E_INVALID, "fixed|phi|phi-2");
    assert_not_set("detector", "fixed|phi", CV_E_INVALID, "fixed|phi|phi-2");
    assert_not_set("detector", "", CV_E_INVALID, "fixed|phi|phi-2");
}

static void refuses_values_out_of_range_and_says_the_range(void **unused)
{
    (void)unused;
    assert_not_set("retries", "0", CV_E_INVALID, "1 to 10");
    assert_not_set("retries", "11", CV_E_INVALID, "1 to 10");
    assert_not_set("heartbeat", "0s", CV_E_INVALID, "1ms to 60s");
    assert_not_set("heartbeat", "1h", CV_E_INVALID, "1ms to 60s");
}

static void refuses_counts_that_would_overflow(void **unused)
{
    (void)unused;
    assert_not_set("retries", "18446744073709551617", CV_E_INVALID, ""); /* 2^64 + 1 */
    assert_not_set("retries", "9223372036854775808", CV_E_INVALID, "");
}

static void writes_values_as_it_reads_them(void **unused)
{
    (void)unused;
    struct cv_option_text text;
    assert_string_equal(cv__option_format(&options[HEARTBEAT], 1500 * NS_PER_US, &text), "1.5ms");
    assert_string_equal(cv__option_format(&options[RETRIES], 0, &text), "0");
    assert_string_equal(cv__option_format(&options[RETRIES], INT64_MAX, &text),
                        "9223372036854775807");
    assert_string_equal(cv__option_format(&options[DAMPED], 0, &text), "no");
    assert_string_equal(cv__option_format(&options[DAMPED], 1, &text), "yes");
    assert_string_equal(cv__option_format(&options[DETECTOR], 0, &text), "fixed");
    assert_string_equal(cv__option_format(&options[DETECTOR], 2, &text), "phi-2");
}

static void trips_on_an_unknown_choice(void **unused)
{
    (void)unused;
    struct cv_option_text text;
    assert_trips((void)cv__option_format(&options[DETECTOR], 3, &text));
}

static void configures_clusters_of_1_to_4096_members(void **unused)
{
    (void)unused;
    struct cv_config config = config_make();
    config.self = 1;
    const uint32_t fine[] = {1, 2, CV_MEMBERS_MAX};
    for (uint32_t i = 0; i < COUNT_OF(fine); i++) {
        config.member_count = fine[i];
        assert_int_equal(cv_core_configure(&protocol, &config, NULL), CV_OK);
    }
    const uint32_t wrong[] = {0, CV_MEMBERS_MAX + 1, UINT32_MAX};
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        struct cv_errtext err = {""};
        config.member_count = wrong[i];
        assert_int_equal(cv_core_configure(&protocol, &config, &err), CV_E_INVALID);
        assert_non_null(strstr(err.text, "4096"));
    }
}

static void refuses_a_self_that_is_no_member(void **unused)
{
    (void)unused;
    const cv_id wrong[] = {CV_ID_NONE, 6, UINT32_MAX};
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        struct cv_config config = config_make();
        config.self = wrong[i];
        assert_int_equal(cv_core_configure(&protocol, &config, NULL), CV_E_INVALID);
    }
}

static void refuses_a_drift_that_no_clock_has(void **unused)
{
    (void)unused;
    const int64_t wrong[] = {-1, 100000000, INT64_MAX, INT64_MIN};
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        struct cv_config config = config_make();
        config.drift_ppb = wrong[i];
        assert_int_equal(cv_core_configure(&protocol, &config, NULL), CV_E_INVALID);
    }
}

/* Texts are kept as they are; the protocol reads them when it is configured. */
static void keeps_texts_of_any_content_up_to_their_bound(void **unused)
{
    (void)unused;
    struct cv_config config = config_make();
    struct cv_option_text text;
    assert_string_equal(config.text[0], "a,b");
    assert_string_equal(config.text[1], "");
    struct cv_errtext err = {"untouched"};
    assert_int_equal(cv_config_set(&config, &protocol, "order", "latency/10ms,history", &err),
                     CV_OK);
    assert_string_equal(cv__config_format(&config, &options[ORDER], ORDER, &text),
                        "latency/10ms,history");
    assert_int_equal(cv_config_set(&config, &protocol, "order", "b", &err), CV_OK);
    const struct cv_config fresh = config_make();
    struct cv_config same = config_make();
    assert_int_equal(cv_config_set(&same, &protocol, "order", "a,b", &err), CV_OK);
    assert_memory_equal(&fresh, &same, sizeof same); /* nothing of an earlier value is left */
    assert_string_equal(err.text, "untouched");

    char longest[CV_TEXT_BYTES + 1];
    memset(longest, 'x', sizeof longest);
    longest[CV_TEXT_BYTES] = '\0';
    assert_int_equal(cv_config_set(&config, &protocol, "words", longest, &err), CV_E_INVALID);
    assert_string_equal(err.text, "words takes at most 127 bytes");
    assert_string_equal(config.text[1], "");
    longest[CV_TEXT_BYTES - 1] = '\0';
    assert_int_equal(cv_config_set(&config, &protocol, "words", longest, &err), CV_OK);
    assert_string_equal(config.text[1], longest);
    assert_string_equal(config.text[0], "b");
    assert_string_equal(cv__config_format(&config, &options[RETRIES], RETRIES, &text), "3");
    assert_trips((void)cv__option_format(&options[WORDS], 1, &text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_with_the_defaults),
        cmocka_unit_test(reads_a_value_of_every_kind),
        cmocka_unit_test(accepts_both_ends_of_a_range),
        cmocka_unit_test(refuses_an_unknown_option),
        cmocka_unit_test(refuses_malformed_values_and_says_what_is_valid),
        cmocka_unit_test(refuses_values_out_of_range_and_says_the_range),
        cmocka_unit_test(refuses_counts_that_would_overflow),
        cmocka_unit_test(writes_values_as_it_reads_them),
        cmocka_unit_test(trips_on_an_unknown_choice),
        cmocka_unit_test(configures_clusters_of_1_to_4096_members),
        cmocka_unit_test(refuses_a_self_that_is_no_member),
        cmocka_unit_test(refuses_a_drift_that_no_clock_has),
        cmocka_unit_test(keeps_texts_of_any_content_up_to_their_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
