/* src/report/report.h - prints the result of a run, for people and for programs. */
#ifndef CV_REPORT_REPORT_H
#define CV_REPORT_REPORT_H

#include "sim/world.h"

/* One JSON object and a newline. wall_s < 0: not measured, printed as null, so that the same seed
 * gives the same bytes. */
void sim_report_json(const struct sim_world *world, double wall_s, FILE *out);

/* What happened, for people. */
void sim_report_text(const struct sim_world *world, FILE *out);

/* "FAILED" or "ok", and whether nothing that is promised was tested. */
const char *sim_report_verdict(const struct sim_world *world);

/* One line if late messages are common. The cause is then not a fault: the scenario's delays
 * contradict the protocol's options. It says which option to change. */
void sim_report_delays(const struct sim_world *world, FILE *out);

/* A line for each broken promise and unmet expectation, then the events before the first one. */
void sim_report_failures(const struct sim_world *world, FILE *out);

/* The name of an entry of `fired`; NULL: it is not shown. */
const char *sim_fired_name(uint32_t index);

/* The entry of `fired` that a kind of random fault counts in. */
uint32_t sim_fired_by(enum sim_fault fault);

#endif
