/* src/lab/local.h - the tables of `conclave lab local`: local.c fills them and judges the claims,
 * local_tables.c defines their columns, local_plot.c draws them, and local_run.c runs the
 * worlds. */
#ifndef CV_LAB_LOCAL_H
#define CV_LAB_LOCAL_H

#include "lab/lab.h"

struct cv_lab_local {
    struct cv_table election;   /* election time by number of processes */
    struct cv_table histogram;  /* distribution of the election time; for the plot only */
    struct cv_table new_leader; /* the loss of a leader, a row for each case */
    struct cv_table waits;      /* distribution of the times to a new leader; for the plot only */
    struct cv_table collation;  /* direct answers against trees */
    struct cv_table reach;      /* the most processes for which the paper's Delta is enough */
    struct cv_table stable;     /* messages in a round */
};

/* Tables without rows; `waits` gets its columns from the cases. */
extern const struct cv_lab_local cv__lab_local_empty;

/* Draws all plots into the folder; false and a message if one could not be drawn. */
bool cv__lab_local_plot(const struct cv_lab_local *local, const char *folder);

#endif
