/* tests/unit/test_runs.c - the periods of a job, its runs, and when a contender must run it. */
#include "runtime/runs.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MINUTE INT64_C(60)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* ---- Periods --------------------------------------------------------------------------------- */

static void zone(const char *name)
{
    struct cv_errtext error;
    assert_int_equal(cv__period_zone_enter(name, &error), CV_OK);
}

static struct cv_period_rule rule(const char *every, const char *offset)
{
    struct cv_period_rule r = {.tolerance_ms = -1};
    struct cv_errtext error;
    assert_true(cv__period_parse(every, &r.every_s));
    assert_true(cv__period_parse(offset, &r.offset_s));
    assert_int_equal(cv__period_check(&r, &error), CV_OK);
    return r;
}

/* "2026-10-25 02:30", UTC. */
static int64_t utc(const char *text)
{
    struct tm parts = {0};
    assert_non_null(strptime(text, "%Y-%m-%d %H:%M", &parts));
    return (int64_t)timegm(&parts);
}

static void assert_begins(const struct cv_period_rule *r, const char *at, const char *begin)
{
    const int64_t found = cv__period_begin_s(r, utc(at) * 1000);
    if (found != utc(begin)) {
        char text[CV_PERIOD_TEXT_BYTES];
        fail_msg("%s belongs to %s, not to %s UTC", at, cv__period_text(found, text), begin);
    }
}

static void periods_begin_at_midnight_full_hours_and_mondays(void **unused)
{
    (void)unused;
    zone("UTC");
    const struct cv_period_rule day = rule("1d", "0s"), hour = rule("1h", "0s");
    const struct cv_period_rule week = rule("1w", "0s"), late = rule("1d", "2h");
    assert_begins(&day, "2026-11-16 00:00", "2026-11-16 00:00");
    assert_begins(&day, "2026-11-16 23:59", "2026-11-16 00:00");
    assert_begins(&hour, "2026-11-16 13:59", "2026-11-16 13:00");
    assert_begins(&week, "2026-11-22 23:59", "2026-11-16 00:00"); /* Sunday, Monday */
    assert_begins(&week, "2026-11-23 00:00", "2026-11-23 00:00");
    assert_begins(&late, "2026-11-16 01:59", "2026-11-15 02:00");
    assert_begins(&late, "2026-11-16 02:00", "2026-11-16 02:00");
    assert_begins(&day, "1960-02-29 12:00", "1960-02-29 00:00"); /* before the Unix time */
}

static void a_zone_moves_the_boundaries(void **unused)
{
    (void)unused;
    zone("Asia/Kolkata"); /* half an hour off the full hours */
    const struct cv_period_rule day = rule("1d", "0s"), hour = rule("1h", "0s");
    assert_begins(&day, "2026-11-15 18:29", "2026-11-14 18:30");
    assert_begins(&day, "2026-11-15 18:30", "2026-11-15 18:30");
    assert_begins(&hour, "2026-11-15 18:35", "2026-11-15 18:30");
}

/* Europe/Berlin: 2026-10-25 03:00 +0200 becomes 02:00 +0100, at 01:00 UTC. */
static void the_end_of_summer_time_makes_a_long_day_and_two_hours(void **unused)
{
    (void)unused;
    zone("Europe/Berlin");
    const struct cv_period_rule day = rule("1d", "0s"), hour = rule("1h", "0s");
    const struct cv_period_rule six = rule("6h", "0s");
    assert_begins(&day, "2026-10-24 22:00", "2026-10-24 22:00");
    assert_begins(&day, "2026-10-25 12:00", "2026-10-24 22:00");
    assert_begins(&day, "2026-10-25 22:59", "2026-10-24 22:00");
    assert_begins(&day, "2026-10-25 23:00", "2026-10-25 23:00");
    assert_begins(&hour, "2026-10-25 00:30", "2026-10-25 00:00");
    assert_begins(&hour, "2026-10-25 01:30", "2026-10-25 01:00");
    assert_begins(&six, "2026-10-25 00:30", "2026-10-24 22:00");
    assert_begins(&six, "2026-10-25 02:30", "2026-10-24 22:00");
    assert_begins(&six, "2026-10-25 05:00", "2026-10-25 05:00");
}

/* America/Havana: 2026-11-01 01:00 -0400 becomes 00:00 -0500, at 05:00 UTC. */
static void a_day_with_two_midnights_is_one_day(void **unused)
{
    (void)unused;
    zone("America/Havana");
    const struct cv_period_rule day = rule("1d", "0s"), hour = rule("1h", "0s");
    assert_begins(&day, "2026-11-01 04:30", "2026-11-01 04:00");
    assert_begins(&day, "2026-11-01 05:00", "2026-11-01 04:00");
    assert_begins(&day, "2026-11-01 20:00", "2026-11-01 04:00");
    assert_begins(&hour, "2026-11-01 05:30", "2026-11-01 05:00");
}

/* Every minute of the repeated hour and of the hours around it belongs to one period of the day. */
static void a_boundary_in_the_repeated_hour_is_passed_once(void **unused)
{
    (void)unused;
    static const char *const offsets[] = {"2h", "121min", "150min", "179min"};
    zone("Europe/Berlin");
    for (uint32_t i = 0; i < COUNT_OF(offsets); i++) {
        const struct cv_period_rule day = rule("1d", offsets[i]), half = rule("12h", offsets[i]);
        const int64_t begin_s = utc("2026-10-25 00:00") + day.offset_s - 2 * HOUR; /* in summer */
        for (int64_t at_s = utc("2026-10-24 20:00"); at_s < utc("2026-10-25 10:00");
             at_s += MINUTE) {
            const int64_t expected_s = at_s < begin_s ? begin_s - DAY : begin_s;
            assert_int_equal(cv__period_begin_s(&day, at_s * 1000), expected_s);
            assert_int_equal(cv__period_begin_s(&half, at_s * 1000),
                             at_s < begin_s ? begin_s - 12 * HOUR : begin_s);
        }
    }
    const struct cv_period_rule two = rule("2h", "0s");
    assert_begins(&two, "2026-10-25 01:30", "2026-10-25 00:00");
    assert_begins(&two, "2026-10-25 02:30", "2026-10-25 00:00");
    assert_begins(&two, "2026-10-25 03:00", "2026-10-25 03:00");
}

/* A period as long as the repeated hour, or a part of it, is as long as ever in that night. */
static void short_periods_go_on_through_the_repeated_hour(void **unused)
{
    (void)unused;
    static const struct {
        const char *every, *offset;
    } of[] = {{"1h", "0s"},       {"1h", "30min"},   {"1h", "59min"},
              {"30min", "15min"}, {"20min", "7min"}, {"1min", "30s"}};
    zone("Europe/Berlin");
    for (uint32_t i = 0; i < COUNT_OF(of); i++) {
        const struct cv_period_rule r = rule(of[i].every, of[i].offset);
        for (int64_t at_s = utc("2026-10-24 20:00"); at_s < utc("2026-10-25 10:00");
             at_s += MINUTE / 2) {
            const int64_t into_s = (at_s - r.offset_s) % r.every_s;
            assert_int_equal(cv__period_begin_s(&r, at_s * 1000), at_s - into_s);
        }
    }
    const struct cv_period_rule half = rule("1h", "30min");
    assert_begins(&half, "2026-10-25 00:31", "2026-10-25 00:30");
    assert_begins(&half, "2026-10-25 01:15", "2026-10-25 00:30");
    assert_begins(&half, "2026-10-25 01:31", "2026-10-25 01:30");
}

/* 2026-03-29 02:00 +0100 becomes 03:00 +0200, at 01:00 UTC. */
static void the_beginning_of_summer_time_leaves_out_an_hour(void **unused)
{
    (void)unused;
    zone("Europe/Berlin");
    const struct cv_period_rule day = rule("1d", "0s"), two = rule("2h", "0s");
    const struct cv_period_rule half = rule("1h", "30min"), late = rule("1d", "150min");
    assert_begins(&day, "2026-03-29 12:00", "2026-03-28 23:00");
    assert_begins(&two, "2026-03-29 01:30", "2026-03-29 01:00");
    assert_begins(&half, "2026-03-29 00:59", "2026-03-29 00:30");
    assert_begins(&half, "2026-03-29 01:10", "2026-03-29 01:00"); /* 02:30 was left out */
    assert_begins(&half, "2026-03-29 01:30", "2026-03-29 01:30");
    assert_begins(&late, "2026-03-29 00:59", "2026-03-28 01:30");
    assert_begins(&late, "2026-03-29 20:00", "2026-03-29 01:00");
}

/* In every zone the beginning of a period lies in that period, and periods do not overlap. */
static void periods_follow_each_other(void **unused)
{
    (void)unused;
    static const char *const zones[] = {
        "UTC",          "Europe/Berlin",  "America/St_Johns", "Asia/Tokyo", "Australia/Lord_Howe",
        "Pacific/Apia", "Asia/Kathmandu", "America/Havana"};
    static const char *const lengths[] = {"15min", "1h", "2h", "6h", "12h", "1d", "1w"};
    for (uint32_t z = 0; z < COUNT_OF(zones); z++) {
        zone(zones[z]);
        for (uint32_t l = 0; l < COUNT_OF(lengths); l++) {
            const struct cv_period_rule r = rule(lengths[l], l % 2 == 0 ? "0s" : "10min");
            int64_t last_s = INT64_MIN;
            for (int64_t at_s = utc("2026-01-01 00:00"); at_s < utc("2026-12-31 00:00");
                 at_s += 53 * MINUTE) {
                const int64_t begin_s = cv__period_begin_s(&r, at_s * 1000);
                assert_true(begin_s <= at_s);
                assert_true(begin_s >= last_s);
                assert_int_equal(cv__period_begin_s(&r, begin_s * 1000), begin_s);
                last_s = begin_s;
            }
        }
    }
}

static void bad_periods_are_refused(void **unused)
{
    (void)unused;
    static const char *const wrong[] = {"", "1", "d", "x", "-1d", "1.5d", "0.5s", "1 d"};
    int64_t s;
    struct cv_errtext error;
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        if (cv__period_parse(wrong[i], &s)) {
            fail_msg("'%s' was read as %lld s", wrong[i], (long long)s);
        }
    }
    static const struct cv_period_rule rules[] = {
        {.every_s = 0},
        {.every_s = 5 * HOUR},
        {.every_s = 36 * HOUR},
        {.every_s = 367 * DAY},
        {.every_s = DAY, .offset_s = DAY},
        {.every_s = DAY, .offset_s = -1},
        {.every_s = HOUR, .tolerance_ms = 31 * MINUTE * 1000},
    };
    for (uint32_t i = 0; i < COUNT_OF(rules); i++) {
        struct cv_period_rule r = rules[i];
        assert_int_equal(cv__period_check(&r, &error), CV_E_INVALID);
    }
    static const char *const zones[] = {
        "",       "Mars/Olympus", "/etc/localtime", "../zoneinfo/UTC", "Europe/../UTC",
        "Europe", "zone.tab"};
    for (uint32_t i = 0; i < COUNT_OF(zones); i++) {
        assert_int_equal(cv__period_zone_check(zones[i], &error), CV_E_INVALID);
    }
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static struct cv_job_run run_of(uint64_t token, int64_t period_s, int64_t asked_s, int status)
{
    struct cv_job_run run = {.period_s = period_s,
                             .token = token,
                             .status = status,
                             .asked_ms = asked_s * 1000,
                             .start_ms = asked_s * 1000 + 5,
                             .end_ms = status < 0 ? 0 : asked_s * 1000 + 900};
    (void)snprintf(run.node, sizeof run.node, "node %llu", (unsigned long long)token);
    return run;
}

static void runs_are_read_back_as_written(void **unused)
{
    (void)unused;
    static struct cv_runs runs, read;
    char text[CV_STORE_RUNS_BYTES];
    for (uint64_t token = 1; token <= 5; token++) {
        const struct cv_job_run run =
            run_of(token, (int64_t)token * DAY, (int64_t)token * DAY + 7, token == 3 ? -1 : 0);
        cv__runs_put(&runs, &run);
    }
    const struct cv_job_run third = run_of(3, 3 * DAY, 3 * DAY + 7, 4);
    cv__runs_put(&runs, &third);
    cv__runs_write(&runs, text);
    cv__runs_read(text, &read);
    assert_int_equal(read.count, 5);
    assert_int_equal(read.run[2].status, 4);
    assert_string_equal(read.run[4].node, "node 5");
    assert_int_equal(read.run[4].asked_ms, (5 * DAY + 7) * 1000);
    assert_int_equal(read.run[0].end_ms, (DAY + 7) * 1000 + 900);
}

static void the_oldest_runs_are_dropped(void **unused)
{
    (void)unused;
    static struct cv_runs runs, read;
    char text[CV_STORE_RUNS_BYTES];
    for (uint64_t token = 1; token <= 200; token++) {
        struct cv_job_run run = run_of(token, INT64_MAX / 5000, INT64_MAX / 5000000, 255);
        memset(run.node, 'n', sizeof run.node - 1);
        cv__runs_put(&runs, &run);
    }
    assert_int_equal(runs.count, CV_RUNS_MAX);
    cv__runs_write(&runs, text);
    cv__runs_read(text, &read);
    assert_true(read.count >= 16);
    assert_int_equal(read.run[read.count - 1].token, 200);
}

static void malformed_lines_are_skipped(void **unused)
{
    (void)unused;
    static struct cv_runs runs;
    cv__runs_read(
        "hello\nrun 1 2\nrun x 1 0 1 1 1 n\nrun 1 0 0 1 1 1 n\nrun 1 1 256 1 1 1 n\n"
        "run 1 1 -2 1 1 1 n\nrun 99999999999999999999 1 0 1 1 1 n\nrun 7 8 0 1 2 3 fine\n\n",
        &runs);
    assert_int_equal(runs.count, 1);
    assert_int_equal(runs.run[0].token, 8);
    assert_string_equal(runs.run[0].node, "fine");
}

/* ---- What is due ----------------------------------------------------------------------------- */

static struct cv_runs runs;
static struct cv_period_rule daily;

static int setup(void **unused)
{
    (void)unused;
    zone("UTC");
    runs.count = 0;
    daily = rule("1d", "0s");
    return 0;
}

static struct cv_runs_answer judge(const struct cv_period_rule *r, int64_t asked_s)
{
    const struct cv_runs_question question = {.rule = r, .asked_ms = asked_s * 1000, .retries = 1};
    return cv__runs_judge(&runs, &question);
}

static void note(int64_t period_s, int64_t asked_s, int status)
{
    const struct cv_job_run run = run_of(runs.count + 1, period_s, asked_s, status);
    cv__runs_put(&runs, &run);
}

static void a_period_is_run_to_success_once(void **unused)
{
    (void)unused;
    assert_int_equal(judge(&daily, DAY + HOUR).state, CV_RUNS_DUE);
    assert_int_equal(judge(&daily, DAY + HOUR).period_s, DAY);
    note(DAY, DAY + HOUR, 0);
    assert_int_equal(judge(&daily, DAY + 9 * HOUR).state, CV_RUNS_DONE);
    assert_int_equal(judge(&daily, 2 * DAY + HOUR).state, CV_RUNS_DUE);
    assert_int_equal(judge(&daily, 2 * DAY + HOUR).period_s, 2 * DAY);
}

static void a_failed_run_is_repeated_as_often_as_configured(void **unused)
{
    (void)unused;
    note(DAY, DAY + HOUR, 7);
    assert_int_equal(judge(&daily, DAY + HOUR).state, CV_RUNS_DUE);
    note(DAY, DAY + HOUR, 8);
    assert_int_equal(judge(&daily, DAY + HOUR).state, CV_RUNS_FAILED);
    assert_int_equal(judge(&daily, DAY + HOUR).last->status, 8);
    assert_int_equal(judge(&daily, 2 * DAY + HOUR).state, CV_RUNS_DUE);
}

static void a_run_without_a_result_is_not_repeated(void **unused)
{
    (void)unused;
    note(DAY, DAY + HOUR, -1);
    assert_int_equal(judge(&daily, DAY + 2 * HOUR).state, CV_RUNS_BROKEN);
    assert_int_equal(judge(&daily, 2 * DAY + HOUR).state, CV_RUNS_DUE);
}

/* Cron at 00:00 on three machines, whose clocks differ by a minute: each job is started when its
 * own machine's clock reads 00:00. */
static void clocks_that_differ_name_the_same_period(void **unused)
{
    (void)unused;
    note(DAY, DAY, 0);
    for (int64_t skew_s = -60; skew_s <= 60; skew_s += 10) {
        const int64_t true_s = 2 * DAY - skew_s; /* when that clock reads midnight */
        const int64_t shown_s = true_s + skew_s;
        const struct cv_runs_answer first = judge(&daily, shown_s);
        assert_int_equal(first.period_s, 2 * DAY);
        assert_int_equal(first.state, skew_s == -60 ? CV_RUNS_DUE : CV_RUNS_DONE);
        if (skew_s == -60) {
            note(2 * DAY, shown_s, 0);
        }
    }
}

/* One machine starts all jobs over the network at its midnight: the other clocks read anything
 * within a minute of it. The job is run once, whatever the order of the starts. */
static void starts_on_both_sides_of_a_boundary_are_one_run(void **unused)
{
    (void)unused;
    static const int64_t orders[][3] = {{-50, 0, 55}, {55, 0, -50}, {0, -50, 55}, {-50, 55, 0}};
    for (uint32_t had_yesterday = 0; had_yesterday < 2; had_yesterday++) {
        for (uint32_t i = 0; i < COUNT_OF(orders); i++) {
            runs.count = 0;
            if (had_yesterday != 0) {
                note(DAY, DAY + 30, 0);
            }
            uint32_t run_count = 0;
            for (uint32_t k = 0; k < 3; k++) {
                const int64_t asked_s = 2 * DAY + orders[i][k];
                const struct cv_runs_answer answer = judge(&daily, asked_s);
                if (answer.state == CV_RUNS_DUE) {
                    run_count++;
                    note(answer.period_s, asked_s, 0);
                }
            }
            assert_int_equal(run_count, 1);
            /* The next night is another period. */
            assert_int_equal(judge(&daily, 3 * DAY).state, CV_RUNS_DUE);
        }
    }
}

/* An hourly job at :59, whose start may be late by any time. */
static void a_late_start_of_the_same_firing_is_not_another_run(void **unused)
{
    (void)unused;
    const struct cv_period_rule hourly = rule("1h", "0s");
    for (int64_t hour = 1; hour < 100; hour++) {
        const int64_t due_s = DAY + hour * HOUR + 59 * MINUTE;
        uint32_t run_count = 0;
        for (int64_t late_s = 0; late_s <= 4 * MINUTE; late_s += 30) {
            const struct cv_runs_answer answer = judge(&hourly, due_s + late_s);
            if (answer.state == CV_RUNS_DUE) {
                run_count++;
                note(answer.period_s, due_s + late_s, 0);
            }
        }
        assert_int_equal(run_count, 1);
    }
}

/* A wrong clock names wrong periods, but keeps no other machine from running its own. */
static void a_clock_that_is_a_year_ahead_stops_nobody(void **unused)
{
    (void)unused;
    note(365 * DAY, 365 * DAY, 0);
    assert_int_equal(judge(&daily, DAY).state, CV_RUNS_DUE);
    assert_int_equal(judge(&daily, DAY).period_s, DAY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(periods_begin_at_midnight_full_hours_and_mondays),
        cmocka_unit_test(a_zone_moves_the_boundaries),
        cmocka_unit_test(the_end_of_summer_time_makes_a_long_day_and_two_hours),
        cmocka_unit_test(a_day_with_two_midnights_is_one_day),
        cmocka_unit_test(a_boundary_in_the_repeated_hour_is_passed_once),
        cmocka_unit_test(short_periods_go_on_through_the_repeated_hour),
        cmocka_unit_test(the_beginning_of_summer_time_leaves_out_an_hour),
        cmocka_unit_test(periods_follow_each_other),
        cmocka_unit_test(bad_periods_are_refused),
        cmocka_unit_test(runs_are_read_back_as_written),
        cmocka_unit_test(the_oldest_runs_are_dropped),
        cmocka_unit_test(malformed_lines_are_skipped),
        cmocka_unit_test_setup(a_period_is_run_to_success_once, setup),
        cmocka_unit_test_setup(a_failed_run_is_repeated_as_often_as_configured, setup),
        cmocka_unit_test_setup(a_run_without_a_result_is_not_repeated, setup),
        cmocka_unit_test_setup(clocks_that_differ_name_the_same_period, setup),
        cmocka_unit_test_setup(starts_on_both_sides_of_a_boundary_are_one_run, setup),
        cmocka_unit_test_setup(a_late_start_of_the_same_firing_is_not_another_run, setup),
        cmocka_unit_test_setup(a_clock_that_is_a_year_ahead_stops_nobody, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
