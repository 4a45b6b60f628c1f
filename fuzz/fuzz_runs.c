/* fuzz/fuzz_runs.c - the text about the runs of a job, which every contender can write, is read,
 * judged and written again.
 *
 * Input: four bytes for the question, eight for when the contender was started, then the text. */
#include "fuzz.h"

#include "runtime/runs.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t every_s[] = {1, 60, 3600, 86400, 7 * 86400, 300};
    struct fuzz_input in = {data, size};
    struct cv_period_rule rule = {.every_s = every_s[fuzz_byte(&in) % 6],
                                  .offset_s = fuzz_byte(&in),
                                  .tolerance_ms = fuzz_byte(&in) - 1};
    const uint8_t flags = fuzz_byte(&in);
    const int64_t asked_ms = (int64_t)(fuzz_number(&in, 8) % UINT64_C(4102444800000));
    char *text = fuzz_rest(&in);
    struct cv_errtext err = {""};
    struct cv_runs runs, again;
    char written[CV_STORE_RUNS_BYTES], repeated[CV_STORE_RUNS_BYTES];
    cv__runs_read(text, &runs);
    cv__runs_write(&runs, written);
    cv__runs_read(written, &again);
    cv__runs_write(&again, repeated);
    if (strcmp(written, repeated) != 0) {
        fuzz_found("what is written is read as something else");
    }
    if (cv__period_check(&rule, &err) == CV_OK) {
        const struct cv_runs_question question = {.rule = &rule,
                                                  .asked_ms = asked_ms,
                                                  .retries = flags >> 1 & 7,
                                                  .at_most_once = (flags & 1) != 0};
        const struct cv_runs_answer answer = cv__runs_judge(&runs, &question);
        char when[CV_PERIOD_TEXT_BYTES];
        (void)cv__period_text(answer.period_s, when);
        struct cv_job_run run = {.period_s = answer.period_s, .token = 1, .asked_ms = asked_ms};
        cv__runs_put(&runs, &run);
        cv__runs_write(&runs, written);
    }
    free(text);
    return 0;
}
