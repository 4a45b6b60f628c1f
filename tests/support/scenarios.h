/* tests/support/scenarios.h - scenarios from a text in the test, or from a file with changes. */
#ifndef CV_TESTS_SCENARIOS_H
#define CV_TESTS_SCENARIOS_H

#include "scenario/scenario.h"

#include <stdarg.h>

/* The text is a scenario; a format as for printf. A text that is refused fails the test. */
struct sim_scenario *scenario_read(const char *format, ...) CV_PRINTF(1, 2);
struct sim_scenario *scenario_vread(const char *format, va_list args) CV_PRINTF(1, 0);

/* The lines of `head`, then tests/scenario/random/FILE without its lines that begin with one of the
 * words; the last word is NULL. */
struct sim_scenario *scenario_variant(const char *name, const char *file, const char *head,
                                      const char *const *without);

/* tests/FILE as a string, which the caller frees. */
char *test_text(const char *file);

/* tests/FILE for another protocol, unless the file names this one, and for another number of nodes
 * unless `nodes` is 0. */
struct sim_scenario *scenario_changed(const char *file, const char *protocol, uint32_t nodes);

/* One line about six nodes of that protocol is read as one action, which is written as
 * `expected`. */
void assert_action_written(const char *protocol, const char *line, const char *expected);
/* The line is refused, and the error has these words. */
void assert_line_refused(const char *protocol, const char *line, const char *words);

#endif
