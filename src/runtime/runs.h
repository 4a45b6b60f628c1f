/* src/runtime/runs.h - the runs of a periodic job, and what a contender has to do.
 *
 * The store keeps a text beside the record of the election (stores/store.h: runs), one line for
 * each run, the latest last, as many as there is room for:
 *
 *   run PERIOD TOKEN STATUS ASKED START END NODE
 *
 * PERIOD is its begin (period.h), in seconds; ASKED, when the contender that ran it was started,
 * START and END are in milliseconds of Unix time. STATUS is the exit status; -1: the run was
 * claimed before its start (--at-most-once), and has not ended. Only the holder writes, with its
 * token, and each leadership has one run: so a line is found again by its token.
 *
 * **Clocks that differ.** Cron starts a contender by its machine's clock, and ASKED is read from
 * the same clock at once. So however far the clocks of two machines differ, contenders of one line
 * of a crontab have the same ASKED, but for how long it took to start them; that is what the
 * tolerance is for. Two starts within the tolerance of each other are the same one, also if a
 * boundary is between them: a neighbouring period whose run was asked for at nearly the same time
 * counts as this one. And a contender that comes less than a minute before a boundary (or less than
 * the tolerance, if that is shorter), when the present period was done longer ago, was started for
 * the next one by somebody whose clock is ahead, or before its own was set back: it runs that.
 *
 * Pure but for the text: no clock is read here. */
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

/* Lines that cannot be read are passed over: somebody else may have written there. */
void cv__runs_read(const char *text, struct cv_runs *ret_runs);
/* The latest that fit. */
void cv__runs_write(const struct cv_runs *runs, char ret_text[CV_STORE_RUNS_BYTES]);
/* Adds a run, or replaces that with the same token. */
void cv__runs_put(struct cv_runs *runs, const struct cv_job_run *run);

enum cv_runs_state {
    CV_RUNS_DUE,    /* nobody has run it to success: the leader runs it */
    CV_RUNS_DONE,   /* it was run to success */
    CV_RUNS_FAILED, /* it failed as often as it may */
    CV_RUNS_BROKEN, /* it was claimed, and the one that claimed it did not end it */
};

struct cv_runs_question {
    const struct cv_period_rule *rule;
    int64_t asked_ms;  /* when this contender was started */
    uint64_t retries;  /* how often a failed run is repeated within a period */
    bool at_most_once; /* a run is not repeated, however it ended */
};

struct cv_runs_answer {
    enum cv_runs_state state;
    int64_t period_s;              /* the one to be run, or that it is about */
    const struct cv_job_run *last; /* in it; NULL: there was none. Points into the runs */
};

/* Asked by a contender that leads, so no run is under way. */
struct cv_runs_answer cv__runs_judge(const struct cv_runs *runs,
                                     const struct cv_runs_question *question);

#endif
