/* src/runtime/runs.c - see runs.h. */
#include "runtime/runs.h"

#include "core/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A contender that starts at most this long before a boundary may be meant for the next period. */
#define EARLY_MS_MAX (60 * INT64_C(1000))

/* One number and the space after it; NULL: there is none. */
static const char *number_read(const char *at, int64_t *ret_number)
{
    char *end = NULL;
    *ret_number = at != NULL ? strtoll(at, &end, 10) : 0;
    const int64_t most = INT64_MAX / 4096; /* anybody may have written it: no overflow later */
    const bool is_number =
        end != NULL && end != at && *end == ' ' && *ret_number<most && * ret_number> - most;
    return is_number ? end + 1 : NULL;
}

static bool line_read(const char *line, struct cv_job_run *ret_run)
{
    static const char word[] = "run ";
    int64_t token, status;
    if (strncmp(line, word, strlen(word)) != 0) {
        return false;
    }
    const char *at = number_read(line + strlen(word), &ret_run->period_s);
    at = number_read(at, &token);
    at = number_read(at, &status);
    at = number_read(at, &ret_run->asked_ms);
    at = number_read(at, &ret_run->start_ms);
    at = number_read(at, &ret_run->end_ms);
    if (at == NULL || token <= 0 || status < -1 || status > 255) {
        return false;
    }
    ret_run->token = (uint64_t)token;
    ret_run->status = (int)status;
    (void)snprintf(ret_run->node, sizeof ret_run->node, "%.*s", (int)strcspn(at, "\n"), at);
    return true;
}

void cv__runs_read(const char *text, struct cv_runs *ret_runs)
{
    ret_runs->count = 0;
    for (const char *line = text; *line != '\0';) {
        struct cv_job_run run;
        if (line_read(line, &run)) {
            cv__runs_put(ret_runs, &run);
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

static int line_write(const struct cv_job_run *run, char *ret_line, size_t bytes)
{
    return snprintf(ret_line, bytes,
                    "run %" PRId64 " %" PRIu64 " %d %" PRId64 " %" PRId64 " %" PRId64 " %s\n",
                    run->period_s, run->token, run->status, run->asked_ms, run->start_ms,
                    run->end_ms, run->node);
}

void cv__runs_write(const struct cv_runs *runs, char ret_text[CV_STORE_RUNS_BYTES])
{
    size_t length = 0;
    uint32_t first = runs->count;
    while (first > 0) {
        const size_t more = (size_t)line_write(&runs->run[first - 1], NULL, 0);
        if (length + more >= CV_STORE_RUNS_BYTES) {
            break;
        }
        length += more;
        first--;
    }
    CV_ASSERT(runs->count == 0 || first < runs->count); /* one line always fits */
    length = 0;
    ret_text[0] = '\0';
    for (uint32_t i = first; i < runs->count; i++) {
        length +=
            (size_t)line_write(&runs->run[i], ret_text + length, CV_STORE_RUNS_BYTES - length);
    }
}

void cv__runs_put(struct cv_runs *runs, const struct cv_job_run *run)
{
    for (uint32_t i = 0; i < runs->count; i++) {
        if (runs->run[i].token == run->token) {
            runs->run[i] = *run;
            return;
        }
    }
    if (runs->count == CV_RUNS_MAX) {
        runs->count--;
        memmove(runs->run, runs->run + 1, runs->count * sizeof runs->run[0]);
    }
    runs->run[runs->count++] = *run;
}

/* ---- What to do next ------------------------------------------------------------------------- */

static bool is_near(int64_t a_ms, int64_t b_ms, int64_t tolerance_ms)
{
    return (a_ms > b_ms ? a_ms - b_ms : b_ms - a_ms) <= tolerance_ms;
}

/* A run of another period that was asked for at nearly the same time: the timers of several
 * machines went off together, on both sides of a boundary. */
static const struct cv_job_run *twin_find(const struct cv_runs *runs,
                                          const struct cv_runs_question *q, int64_t period_s)
{
    for (uint32_t i = runs->count; i > 0; i--) {
        const struct cv_job_run *run = &runs->run[i - 1];
        if (run->period_s != period_s &&
            is_near(run->asked_ms, q->asked_ms, q->rule->tolerance_ms)) {
            return run;
        }
    }
    return NULL;
}

static struct cv_runs_answer judge_period(const struct cv_runs *runs,
                                          const struct cv_runs_question *q, int64_t period_s)
{
    struct cv_runs_answer answer = {.state = CV_RUNS_DUE, .period_s = period_s};
    uint64_t failed_count = 0;
    for (uint32_t i = 0; i < runs->count; i++) {
        const struct cv_job_run *run = &runs->run[i];
        if (run->period_s != period_s) {
            continue;
        }
        answer.last = run;
        if (run->status == 0) {
            answer.state = CV_RUNS_DONE;
            return answer;
        }
        failed_count += run->status > 0;
        answer.state = run->status < 0 ? CV_RUNS_BROKEN : answer.state;
    }
    const uint64_t failed_max = q->at_most_once ? 0 : q->retries;
    if (answer.state == CV_RUNS_DUE && failed_count > failed_max) {
        answer.state = CV_RUNS_FAILED;
    }
    return answer;
}

struct cv_runs_answer cv__runs_judge(const struct cv_runs *runs, const struct cv_runs_question *q)
{
    const int64_t now_s = cv__period_begin_s(q->rule, q->asked_ms);
    const struct cv_job_run *twin = twin_find(runs, q, now_s);
    if (twin != NULL) {
        return judge_period(runs, q, twin->period_s);
    }
    const struct cv_runs_answer now = judge_period(runs, q, now_s);
    const int64_t early_ms = cv__min64(q->rule->tolerance_ms, EARLY_MS_MAX);
    const int64_t next_s = cv__period_begin_s(q->rule, q->asked_ms + early_ms);
    if (now.state == CV_RUNS_DUE || next_s == now_s ||
        is_near(now.last->asked_ms, q->asked_ms, q->rule->tolerance_ms)) {
        return now;
    }
    return judge_period(runs, q, next_s);
}
