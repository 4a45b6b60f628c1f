/* src/cli/every.c - see every.h. */
#include "cli/every.h"

#include "cli/cli.h"
#include "cli/inquiry.h"
#include "core/assert.h"
#include "os/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRIES_DEFAULT 2u /* so that one machine with a full disk does not decide for all */
#define RETRIES_MAX 10u    /* all runs of a period have to fit into the text, with long names too */
#define WRITES_MAX 4u      /* how often a write that finds the text changed is tried */
#define PATIENCE_MS_MIN 500
#define PATIENCE_MS_MAX 5000

/* ---- Options --------------------------------------------------------------------------------- */

static bool time_read(const char *option, const char *text, int64_t *ret_s)
{
    if (cv__period_parse(text, ret_s)) {
        return true;
    }
    cv__complain(
        "%s takes a whole number with its unit, such as 90s, 15min, 6h, 1d or 1w, not '%s'", option,
        text);
    return false;
}

static int check_alone(const struct cv_every_setting *s)
{
    const char *option = s->offset != NULL      ? "--offset"
                         : s->zone != NULL      ? "--zone"
                         : s->tolerance != NULL ? "--tolerance"
                         : s->retry != NULL     ? "--retry"
                         : s->at_most_once      ? "--at-most-once"
                                                : NULL;
    return option == NULL ? EXIT_FINE : cv__wrong_usage("%s needs --every", option);
}

int cv__every_check(struct cv_every_setting *s)
{
    struct cv_errtext error;
    if (s->every == NULL) {
        return check_alone(s);
    }
    if (s->at_most_once && s->retry != NULL) {
        return cv__wrong_usage("--at-most-once never repeats a run; leave out --retry");
    }
    int64_t tolerance_s = 0;
    s->is_on = true;
    s->retries = s->at_most_once ? 0 : RETRIES_DEFAULT;
    if (!time_read("--every", s->every, &s->rule.every_s) ||
        (s->offset != NULL && !time_read("--offset", s->offset, &s->rule.offset_s)) ||
        (s->tolerance != NULL && !time_read("--tolerance", s->tolerance, &tolerance_s)) ||
        (s->retry != NULL &&
         !cv__command_number("--retry", s->retry, 0, RETRIES_MAX, &s->retries))) {
        return EXIT_USAGE;
    }
    s->rule.tolerance_ms = s->tolerance != NULL ? tolerance_s * 1000 : -1;
    if (cv__period_check(&s->rule, &error) != CV_OK ||
        (s->zone != NULL && cv__period_zone_check(s->zone, &error) != CV_OK)) {
        return cv__wrong_usage("%s", error.text);
    }
    return EXIT_FINE;
}

/* ---- Opening --------------------------------------------------------------------------------- */

int cv__every_open(struct cv_every *every, const struct cv_every_setting *setting, const char *via,
                   const char *election, const char *node, int64_t lease_ns)
{
    struct cv_errtext error;
    if (setting->zone != NULL && cv__period_zone_enter(setting->zone, &error) != CV_OK) {
        return cv__wrong_usage("%s", error.text);
    }
    every->setting = setting;
    every->election = election;
    every->node = node;
    every->asked_ms = cv__clock_wall_ns() / NS_PER_MS;
    every->patience_ms =
        (int)cv__max64(PATIENCE_MS_MIN, cv__min64(lease_ns / 4 / NS_PER_MS, PATIENCE_MS_MAX));
    every->kind = cv__inquiry_kind(via, &every->address);
    return every->kind != NULL ? EXIT_FINE : EXIT_USAGE;
}

void cv__every_close(struct cv_every *every)
{
    free(every->address);
    every->address = NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Complains once that the store cannot be used, and again only after it could be used: where a run
 * is to be written, reading is not enough. */
static enum cv_every_outcome later(struct cv_every *every, const struct cv_errtext *error)
{
    if (!every->has_wrong) {
        cv__complain("%s: %s", every->election, error->text);
    }
    every->has_wrong = true;
    return CV_EVERY_LATER;
}

static bool runs_fetch(struct cv_every *every, struct cv_errtext *reterr)
{
    enum cv_store_verdict verdict;
    every->stored.token = 0;
    if (cv__inquire_runs(every->kind, every->address, every->election, &every->stored,
                         every->patience_ms, &verdict, reterr) != CV_OK) {
        return false;
    }
    cv__runs_read(every->stored.text, &every->runs);
    return true;
}

static struct cv_runs_answer judge(const struct cv_every *every)
{
    const struct cv_runs_question question = {.rule = &every->setting->rule,
                                              .asked_ms = every->asked_ms,
                                              .retries = every->setting->retries,
                                              .at_most_once = every->setting->at_most_once};
    return cv__runs_judge(&every->runs, &question);
}

static enum cv_every_outcome outcome_of(struct cv_every *every, const struct cv_runs_answer *answer)
{
    static const enum cv_every_outcome outcomes[] = {[CV_RUNS_DUE] = CV_EVERY_GO,
                                                     [CV_RUNS_DONE] = CV_EVERY_DONE,
                                                     [CV_RUNS_FAILED] = CV_EVERY_FAILED,
                                                     [CV_RUNS_BROKEN] = CV_EVERY_BROKEN};
    char period[CV_PERIOD_TEXT_BYTES];
    char how[64];
    const struct cv_job_run *last = answer->last;
    if (last == NULL || answer->state == CV_RUNS_DUE) {
        return outcomes[answer->state];
    }
    (void)snprintf(how, sizeof how, "failed with status %d and is not repeated", last->status);
    (void)snprintf(every->line, sizeof every->line, "the run of %s by %s (token %" PRIu64 ") %s",
                   cv__period_text(answer->period_s, period), last->node, last->token,
                   answer->state == CV_RUNS_DONE ? "is done"
                   : answer->state == CV_RUNS_FAILED
                       ? how
                       : "was started and did not end; it may be half done, so it is not repeated");
    return outcomes[answer->state];
}

enum cv_every_outcome cv__every_look(struct cv_every *every)
{
    struct cv_errtext error;
    if (!runs_fetch(every, &error)) {
        return CV_EVERY_GO; /* if the store still fails then, the election reports it */
    }
    const struct cv_runs_answer answer = judge(every);
    const enum cv_every_outcome outcome = outcome_of(every, &answer);
    return outcome == CV_EVERY_BROKEN ? CV_EVERY_GO /* it may be running now */ : outcome;
}

bool cv__every_is_due(const struct cv_every *every)
{
    return judge(every).state == CV_RUNS_DUE;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Adds the run to the stored text. If the text was changed meanwhile, reads it and tries again: a
 * late copy of our own last write may have changed it. */
static enum cv_every_outcome run_write(struct cv_every *every)
{
    struct cv_errtext error;
    for (uint32_t i = 0; i < WRITES_MAX; i++) {
        enum cv_store_verdict verdict;
        cv__runs_put(&every->runs, &every->run);
        cv__runs_write(&every->runs, every->stored.text);
        every->stored.token = every->run.token;
        if (cv__inquire_runs(every->kind, every->address, every->election, &every->stored,
                             every->patience_ms, &verdict, &error) != CV_OK) {
            return later(every, &error);
        }
        if (verdict == CV_STORE_GRANTED || verdict == CV_STORE_HELD) {
            every->has_wrong = false;
            return verdict == CV_STORE_GRANTED ? CV_EVERY_GO : CV_EVERY_FENCED;
        }
        if (!runs_fetch(every, &error)) {
            return later(every, &error);
        }
    }
    return CV_EVERY_LATER;
}

enum cv_every_outcome cv__every_begin(struct cv_every *every, uint64_t token)
{
    struct cv_errtext error;
    if (!runs_fetch(every, &error)) {
        return later(every, &error);
    }
    const struct cv_runs_answer answer = judge(every);
    /* Our run may be written already: the answer to the write was lost. */
    const bool is_ours = answer.last != NULL && answer.last->token == token;
    const enum cv_every_outcome outcome = outcome_of(every, &answer);
    if (outcome != CV_EVERY_GO && !(outcome == CV_EVERY_BROKEN && is_ours)) {
        return outcome;
    }
    every->run = (struct cv_job_run){.period_s = answer.period_s,
                                     .token = token,
                                     .status = -1,
                                     .asked_ms = every->asked_ms,
                                     .start_ms = cv__clock_wall_ns() / NS_PER_MS};
    (void)snprintf(every->run.node, sizeof every->run.node, "%s", every->node);
    every->is_running = true;
    if (every->setting->at_most_once) {
        return run_write(every);
    }
    every->has_wrong = false;
    return CV_EVERY_GO;
}

enum cv_every_outcome cv__every_end(struct cv_every *every, int status)
{
    struct cv_errtext error;
    CV_ASSERT(every->is_running);
    if (every->run.end_ms == 0) {
        every->run.end_ms = cv__clock_wall_ns() / NS_PER_MS;
        every->run.status = status;
    }
    if (!runs_fetch(every, &error)) { /* the current version, and the other runs */
        return later(every, &error);
    }
    const enum cv_every_outcome outcome = run_write(every);
    every->is_running = outcome == CV_EVERY_LATER;
    return outcome;
}
