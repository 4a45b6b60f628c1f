/* src/report/timeline.h - a run drawn in a terminal: a row for each node, who leads when, faults
 * marked. */
#ifndef CV_REPORT_TIMELINE_H
#define CV_REPORT_TIMELINE_H

#include "sim/world.h"

/* Draws `columns` wide; colours are for terminals only. The world must have kept its history. */
void sim_timeline_draw(const struct sim_world *world, uint32_t columns, bool has_colour, FILE *out);

#endif
