/* src/lab/auto.h - the tables of `conclave lab auto`: auto.c makes the random networks, runs the
 * profiles and judges the claims; auto_plot.c draws the plots. */
#ifndef CV_LAB_AUTO_H
#define CV_LAB_AUTO_H

#include "lab/lab.h"

#define CV_LAB_AUTO_BINS 10u

struct cv_lab_auto {
    struct cv_table classes; /* classes of networks, by profile */
    struct cv_table curve;   /* by the longest round trip; for the plots only */
};

/* Draws all plots into the folder; false and a message if one could not be drawn. */
bool cv__lab_auto_plot(const struct cv_lab_auto *tables, const char *folder);

#endif
