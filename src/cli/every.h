/* src/cli/every.h - `conclave run --every`: a job that is run once in each period.
 *
 * Before it starts the command, the leader asks the store what is recorded for the period. Before
 * it resigns, it records how the run ended, with its token: a leader that was replaced meanwhile
 * cannot write. So the next leader finds the record, on any machine. These functions wait for the
 * store, but never longer than a part of the lease; meanwhile the election's own thread renews. */
#ifndef CV_CLI_EVERY_H
#define CV_CLI_EVERY_H

#include "runtime/runs.h"

struct cv_every_setting {
    const char *every, *offset, *zone, *tolerance, *retry; /* as given; NULL: not given */
    bool at_most_once;

    /* Filled in by cv__every_check(). */
    bool is_on;
    struct cv_period_rule rule;
    uint64_t retries;
};

/* EXIT_FINE, or EXIT_USAGE after a complaint. */
int cv__every_check(struct cv_every_setting *setting);

enum cv_every_outcome {
    CV_EVERY_GO,     /* run the command; or: the record is written */
    CV_EVERY_DONE,   /* the period is done */
    CV_EVERY_FAILED, /* it failed, and is not repeated */
    CV_EVERY_BROKEN, /* it was started and did not end, and is not repeated */
    CV_EVERY_FENCED, /* this leadership is over: another contender may run it */
    CV_EVERY_LATER,  /* the store did not answer: ask again while leading */
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
    char line[512];             /* for people, after DONE, FAILED and BROKEN: what happened */
    bool is_running, has_wrong; /* has_wrong: the failure of the store was reported */
};

/* EXIT_FINE, or EXIT_USAGE after a complaint: this address keeps no record. Sets the time zone of
 * this process. So call it after the guard was started, because the command keeps its own zone, and
 * before the election is opened. cv__every_close() is allowed even without this. */
int cv__every_open(struct cv_every *every, const struct cv_every_setting *setting, const char *via,
                   const char *election, const char *node, int64_t lease_ns);
void cv__every_close(struct cv_every *every);

/* Before taking part: is it DONE or FAILED already? GO in all other cases. */
enum cv_every_outcome cv__every_look(struct cv_every *every);

/* Elected with this token: GO, DONE, FAILED, BROKEN, FENCED or LATER. */
enum cv_every_outcome cv__every_begin(struct cv_every *every, uint64_t token);

/* Records that the command has ended. GO, FENCED or LATER. */
enum cv_every_outcome cv__every_end(struct cv_every *every, int status);

/* After a failed run was recorded: may it be repeated? */
bool cv__every_is_due(const struct cv_every *every);

#endif
