/* src/lab/anon.h - what the simulated and the live half of `conclave lab anon` share. */
#ifndef CV_LAB_ANON_H
#define CV_LAB_ANON_H

#include "core/types.h"

#define CV_ANON_NODES 10u
#define CV_ANON_ROUND_MAX 10u

/* A sample: its size, its mean, and half the width of the 99 % confidence interval. */
struct cv_anon_sample {
    uint64_t count;
    double sum, square_sum, max;
};

void cv__lab_anon_sample_add(struct cv_anon_sample *sample, double value);
double cv__lab_anon_mean(const struct cv_anon_sample *sample);
double cv__lab_anon_interval(const struct cv_anon_sample *sample);

/* The live half: real processes on loopback, with this sequencer. Returns the exit status. */
struct cv_anon_live {
    const char *sequencer; /* its address */
    uint64_t runs;
    const char *folder; /* for plots; NULL: none */
    bool is_json;
};
int cv__lab_anon_live(const struct cv_anon_live *settings);

#endif
