/* src/cli/every.h - `conclave run --every`: a job that is run once in each period.
 *
 * The leader asks the store what is known of the period before it starts the command, and writes
 * down how it ended before it resigns, with its token: a leader that was replaced meanwhile cannot.
 * So whoever leads next finds it, on any machine. All of this waits for the store, never longer
 * than a part of the lease; the election is renewed by its own thread meanwhile. */
#ifndef CV_CLI_EVERY_H
#define CV_CLI_EVERY_H

#include "runtime/runs.h"

struct cv_every_setting {
    const char *every, *offset, *zone, *tolerance, *retry; /* as they were written; NULL: not */
    bool at_most_once;

    /* What cv__every_check() makes of them. */
    bool is_on;
    struct cv_period_rule rule;
    uint64_t retries;
};

/* EXIT_FINE, or EXIT_USAGE after a complaint. */
int cv__every_check(struct cv_every_setting *setting);

enum cv_every_outcome {
    CV_EVERY_GO,     /* the command is to be run; or what was to be written is */
    CV_EVERY_DONE,   /* the period is done */
    CV_EVERY_FAILED, /* it failed, and is not repeated */
    CV_EVERY_BROKEN, /* it was started and did not end, and is not repeated */
    CV_EVERY_FENCED, /* this leadership is over: another contender may run it */
    CV_EVERY_LATER,  /* the store did not answer: to be asked again while leading */
};

struct cv_every {
    const struct cv_every_setting *setting;
    const struct cv_store_kind *kind;
    char *address;
    const char *election, *node;
    int patience_ms;
    int64_t asked_ms;
    struct cv_store_runs stored;
    struct cv_runs runs;
    struct cv_job_run run;      /* of this leadership */
    char line[512];             /* for people: what is known, after DONE, FAILED and BROKEN */
    bool is_running, has_wrong; /* has_wrong: that the store does not answer was said */
};

/* EXIT_FINE, or EXIT_USAGE after a complaint: this address keeps no record. Enters the zone, so the
 * guard, whose command keeps its own, was started before, and the election is not. Closed by
 * cv__every_close(), also if it was not opened. */
int cv__every_open(struct cv_every *every, const struct cv_every_setting *setting, const char *via,
                   const char *election, const char *node, int64_t lease_ns);
void cv__every_close(struct cv_every *every);

/* Before taking part: is it DONE or FAILED already? GO in all other cases. */
enum cv_every_outcome cv__every_look(struct cv_every *every);

/* Elected with this token: GO, DONE, FAILED, BROKEN, FENCED or LATER. */
enum cv_every_outcome cv__every_begin(struct cv_every *every, uint64_t token);

/* The command has ended: writes that down. GO, FENCED or LATER. */
enum cv_every_outcome cv__every_end(struct cv_every *every, int status);

/* After a run that failed and was written down: may it be repeated? */
bool cv__every_is_due(const struct cv_every *every);

#endif
