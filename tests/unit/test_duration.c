/* tests/unit/test_duration.c - times as people write them. */
#include "core/duration.h"
#include "support/support.h"

static void assert_reads(const char *text, int64_t expected_ns)
{
    int64_t ns = -1;
    if (!cv__duration_parse(text, &ns)) {
        fail_msg("'%s' was refused", text);
    }
    assert_int_equal(ns, expected_ns);
}

static void assert_refused(const char *text)
{
    int64_t ns = -1;
    if (cv__duration_parse(text, &ns)) {
        fail_msg("'%s' was read as %lld ns", text, (long long)ns);
    }
}

static void reads_every_unit(void **unused)
{
    (void)unused;
    assert_reads("7ns", 7);
    assert_reads("7us", 7 * NS_PER_US);
    assert_reads("250ms", 250 * NS_PER_MS);
    assert_reads("2s", 2 * NS_PER_S);
    assert_reads("3min", 180 * NS_PER_S);
    assert_reads("1h", 3600 * NS_PER_S);
    assert_reads("0s", 0);
}

static void reads_decimals_exactly(void **unused)
{
    (void)unused;
    assert_reads("0.2ms", 200 * NS_PER_US);
    assert_reads("1.5s", 1500 * NS_PER_MS);
    assert_reads("9.88ms", 9880 * NS_PER_US);
    assert_reads("0.000000001s", 1);
    assert_reads("0.1h", 360 * NS_PER_S);
    assert_reads("2.000000001h", 7200 * NS_PER_S + 3600);
}

static void refuses_a_time_without_unit(void **unused)
{
    (void)unused;
    assert_refused("5");
    assert_refused("0");
    assert_refused("1.5");
}

static void refuses_what_is_not_a_time(void **unused)
{
    (void)unused;
    assert_refused("");
    assert_refused("s");
    assert_refused("-1s");
    assert_refused("+1s");
    assert_refused(" 1s");
    assert_refused("1 s");
    assert_refused("1s ");
    assert_refused("1.s");
    assert_refused(".5s");
    assert_refused("1..5s");
    assert_refused("1.5.5s");
    assert_refused("1e3s");
    assert_refused("0x1s");
    assert_refused("1S");
    assert_refused("1sec");
    assert_refused("1m");
    assert_refused("infs");
}

static void refuses_more_than_nine_decimals_instead_of_rounding(void **unused)
{
    (void)unused;
    assert_refused("0.0000000001s");
    assert_refused("1.0000000000s");
}

static void refuses_what_would_overflow(void **unused)
{
    (void)unused;
    assert_refused("99999999h");
    assert_refused("922337203685477580799s");
    assert_refused("99999999999999999999999999999999999999999ns");
}

static void leaves_the_result_alone_when_it_refuses(void **unused)
{
    (void)unused;
    int64_t ns = 42;
    assert_false(cv__duration_parse("5", &ns));
    assert_false(cv__duration_parse("99999999h", &ns));
    assert_int_equal(ns, 42);
}

static void tells_where_a_decimal_ends(void **unused)
{
    (void)unused;
    int64_t billionths = 0;
    assert_string_equal(cv__decimal_parse("0.5/s", &billionths), "/s");
    assert_int_equal(billionths, NS_PER_S / 2);
    assert_null(cv__decimal_parse("x", &billionths));
    assert_null(cv__decimal_parse("", &billionths));
}

static void assert_written(int64_t ns, const char *expected)
{
    char buffer[CV_DURATION_TEXT_BYTES];
    assert_string_equal(cv__duration_format(ns, buffer), expected);
}

static void writes_the_shortest_exact_spelling(void **unused)
{
    (void)unused;
    assert_written(0, "0s");
    assert_written(1, "1ns");
    assert_written(999, "999ns");
    assert_written(1000, "1us");
    assert_written(1500, "1.5us");
    assert_written(1500000, "1.5ms");
    assert_written(250 * NS_PER_MS, "250ms");
    assert_written(NS_PER_S + 1, "1.000000001s");
    assert_written(90 * NS_PER_S, "90s");
}

static void writes_the_longest_time_there_is(void **unused)
{
    (void)unused;
    assert_written(INT64_MAX, "9223372036.854775807s");
}

static void trips_on_a_negative_time(void **unused)
{
    (void)unused;
    char buffer[CV_DURATION_TEXT_BYTES];
    assert_trips((void)cv__duration_format(-1, buffer));
}

static void reads_back_what_it_wrote(void **unused)
{
    (void)unused;
    uint64_t seed = 1;
    for (uint32_t i = 0; i < test_scale(20000); i++) {
        /* All magnitudes alike, up to a quarter of a year. */
        const int64_t ns = (int64_t)(test_random(&seed) >> (11 + test_random_below(&seed, 53)));
        char buffer[CV_DURATION_TEXT_BYTES];
        assert_reads(cv__duration_format(ns, buffer), ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_unit),
        cmocka_unit_test(reads_decimals_exactly),
        cmocka_unit_test(refuses_a_time_without_unit),
        cmocka_unit_test(refuses_what_is_not_a_time),
        cmocka_unit_test(refuses_more_than_nine_decimals_instead_of_rounding),
        cmocka_unit_test(refuses_what_would_overflow),
        cmocka_unit_test(leaves_the_result_alone_when_it_refuses),
        cmocka_unit_test(tells_where_a_decimal_ends),
        cmocka_unit_test(writes_the_shortest_exact_spelling),
        cmocka_unit_test(writes_the_longest_time_there_is),
        cmocka_unit_test(trips_on_a_negative_time),
        cmocka_unit_test(reads_back_what_it_wrote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
