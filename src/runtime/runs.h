/* src/runtime/runs.h - the runs of a periodic job, and what a contender must do next.
 *
 * The store keeps a text beside the record of the election (stores/store.h: runs), one line for
 * each run, the latest last, as many as fit:
 *
 *   run PERIOD TOKEN STATUS ASKED START END NODE
 *
 * PERIOD is when the period begins (period.h), in seconds. ASKED is when the contender that ran it
 * was started; ASKED, START and END are in milliseconds of Unix time. STATUS is the exit status;
 * -1: the run was claimed before its start (--at-most-once), and has not ended. Only the holder
 * writes, with its token, and each leadership has one run: so a line is found again by its token.
 *
 * **Clocks that differ.** Cron starts a contender by the clock of its machine, and ASKED is read
 * from the same clock at once. So however far the clocks of two machines differ, contenders of one
 * crontab line have the same ASKED, except for the time it took to start them; the tolerance covers
 * that. Two starts within the tolerance of each other count as one, even if a period ends between
 * them: a run of the neighbouring period with nearly the same ASKED counts for this period. A
 * contender may come less than a minute before a boundary (or less than the tolerance, if that is
 * shorter), when the current period was done longer ago. Then it was started for the next period by
 * a machine whose clock is ahead, or before its own clock was set back: it runs the next period.
 *
 * Pure except for the text: no clock is read here. */
#ifndef CV_RUNTIME_RUNS_H
#define CV_RUNTIME_RUNS_H

#include "runtime/period.h"
#include "stores/store.h"

#define CV_RUNS_MAX 64

struct cv_job_run {
    int64_t period_s;
    uint64_t token;
    int status; /* -1: claimed */
    int64_t asked_ms, start_ms, end_ms;
    char node[CV_NODE_BYTES];
};

struct cv_runs {
    struct cv_job_run run[CV_RUNS_MAX]; /* in order */
    uint32_t count;
};

/* Lines that cannot be read are skipped: another program may have written there. */
void cv__runs_read(const char *text, struct cv_runs *ret_runs);
/* The latest that fit. */
void cv__runs_write(const struct cv_runs *runs, char ret_text[CV_STORE_RUNS_BYTES]);
/* Adds a run, or replaces the one with the same token. */
void cv__runs_put(struct cv_runs *runs, const struct cv_job_run *run);

enum cv_runs_state {
    CV_RUNS_DUE,    /* it was not run successfully yet: the leader runs it */
    CV_RUNS_DONE,   /* it was run successfully */
    CV_RUNS_FAILED, /* it failed as often as it may */
    CV_RUNS_BROKEN, /* it was claimed, and no end was recorded */
};

struct cv_runs_question {
    const struct cv_period_rule *rule;
    int64_t asked_ms;  /* when this contender was started */
    uint64_t retries;  /* how often a failed run is repeated within a period */
    bool at_most_once; /* a run is not repeated, however it ended */
};

struct cv_runs_answer {
    enum cv_runs_state state;
    int64_t period_s;              /* the period to run, or that the state is about */
    const struct cv_job_run *last; /* run of that period; NULL: none. Points into the runs */
};

/* If the caller leads, no run is under way, and BROKEN is final. Otherwise BROKEN may be a run that
 * another contender has just started. */
struct cv_runs_answer cv__runs_judge(const struct cv_runs *runs,
                                     const struct cv_runs_question *question);

#endif
