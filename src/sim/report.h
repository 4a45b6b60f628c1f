/* src/sim/report.h - telling the result of a run, to people and to programs. */
#ifndef CV_SIM_REPORT_H
#define CV_SIM_REPORT_H

#include "sim/world.h"

/* One JSON object and a newline. wall_s < 0: not measured, printed as null, so that the same seed
 * gives the same bytes. */
void cv__report_json(const struct cv_world *world, double wall_s, FILE *out);

/* What happened, for people. */
void cv__report_text(const struct cv_world *world, FILE *out);

/* A line for each broken promise and unmet expectation, then the events before the first one. */
void cv__report_failures(const struct cv_world *world, FILE *out);

/* The word for an entry of `fired`. */
const char *cv__fired_name(uint32_t index);

/* The kinds of random faults as bits of `fired` entries: which should have fired. */
uint32_t cv__fired_by(enum cv_fault fault);

#endif
