/* tests/unit/test_lab.c - the statistics that `conclave lab` judges by. */
#include "lab/lab.h"
#include "support/support.h"

#include <math.h>

static void close_to(double a, double b)
{
    if (!(fabs(a - b) < 1e-9)) {
        fail_msg("%.12g is not %.12g", a, b);
    }
}

static void finds_mean_and_percentiles_in_any_order(void **unused)
{
    (void)unused;
    struct cv_samples s = {0};
    uint64_t seed = 7;
    bool is_there[200] = {false};
    for (uint32_t count = 0; count < 200;) { /* 1..200, each once */
        const uint32_t at = test_random_below(&seed, 200);
        if (!is_there[at]) {
            is_there[at] = true;
            cv__samples_add(&s, at + 1);
            count++;
        }
    }
    close_to(cv__samples_mean(&s), 100.5);
    close_to(cv__samples_percentile(&s, 0), 1);
    close_to(cv__samples_percentile(&s, 50), 100);
    close_to(cv__samples_percentile(&s, 99), 198);
    close_to(cv__samples_percentile(&s, 100), 200);
    cv__samples_add(&s, -5); /* sorted again */
    close_to(cv__samples_percentile(&s, 0), -5);
    cv__samples_fini(&s);
    assert_int_equal(s.count, 0);
}

static void one_sample_is_every_percentile(void **unused)
{
    (void)unused;
    struct cv_samples s = {0};
    cv__samples_add(&s, 3.5);
    close_to(cv__samples_mean(&s), 3.5);
    close_to(cv__samples_percentile(&s, 0), 3.5);
    close_to(cv__samples_percentile(&s, 1), 3.5);
    close_to(cv__samples_percentile(&s, 100), 3.5);
    cv__samples_fini(&s);
}

static void nothing_has_no_mean(void **unused)
{
    (void)unused;
    struct cv_samples s = {0};
    assert_trips((void)cv__samples_mean(&s));
    assert_trips((void)cv__samples_percentile(&s, 50));
}

static void draws_the_line_through_points(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, 4, 8};
    const double straight[] = {5, 7, 11, 19};
    const struct cv_line line = cv__lab_fit(x, straight, 4);
    close_to(line.slope, 2);
    close_to(line.offset, 3);
    close_to(line.r_squared, 1);
    const double flat[] = {4, 4, 4, 4};
    close_to(cv__lab_fit(x, flat, 4).slope, 0);
    const double squares[] = {1, 4, 16, 64};
    assert_true(cv__lab_fit(x, squares, 4).r_squared < 0.99); /* so a fit of 0.99 means something */
}

static void a_row_has_a_cell_for_each_column(void **unused)
{
    (void)unused;
    struct cv_table table = {.name = "t", .column = {{"a", 0, 0, true}, {"b", 0, 0, false}}};
    cv__table_row(&table, CV_TEXT("x"), CV_NUMBER(1));
    assert_int_equal(table.cell_count, 2);
    assert_trips(cv__table_row(&table, CV_TEXT("x")));
    assert_trips(cv__table_row(&table, CV_NUMBER(1), CV_NUMBER(1)));
    cv__table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_mean_and_percentiles_in_any_order),
        cmocka_unit_test(one_sample_is_every_percentile),
        cmocka_unit_test(nothing_has_no_mean),
        cmocka_unit_test(draws_the_line_through_points),
        cmocka_unit_test(a_row_has_a_cell_for_each_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
