/* src/base/screen.h - what the terminal that a command writes to can show.
 *
 * Colours and progress are for people at a terminal. NO_COLOR (no-color.org) switches colours off,
 * TERM=dumb everything that moves the cursor. What is written to a file or a pipe has neither.
 *
 * A terminal breaks lines that are too long in the middle of words. So commands break texts for
 * people between words, and print a wide table in another form on a narrow screen. A file or a pipe
 * has no width: there nothing is broken, unless COLUMNS says how wide its reader is (as watch(1)
 * does). A word that is wider than the screen stays whole, so that it can be copied. */
#ifndef CV_BASE_SCREEN_H
#define CV_BASE_SCREEN_H

#include "core/types.h"

#include <stdio.h>

#define CV_SCREEN_ANY UINT32_MAX /* no limit */

/* The width of standard output in characters, for drawings; 100 if it is unknown. */
uint32_t cv__screen_columns(void);

/* The same for texts: CV_SCREEN_ANY if it is unknown. At least 20. */
uint32_t cv__screen_limit(void);

/* Of standard error; CV_SCREEN_ANY: it is no terminal, and messages stay on one line each. */
uint32_t cv__screen_error_limit(void);

/* From now on lines of standard output are broken between words, if they are longer than the limit.
 * Further rows are aligned with the last column of a line like " key text", and otherwise indented
 * by two more. Lines that begin with { or [ are JSON and stay whole. stdout then has no descriptor:
 * use the functions below. */
void cv__screen_fold_output(void);

/* Writes everything, also a last line without a newline; fflush(stdout) writes whole lines only.
 * False: it could not be written. */
bool cv__screen_flush_output(void);

/* Prints a text of several lines, folded as above. Lines that were broken by its author are joined
 * first. */
void cv__screen_print(FILE *out, uint32_t columns, const char *text);

bool cv__screen_has_colour(FILE *out);

/* Can a line on standard error be overwritten? */
bool cv__screen_shows_progress(void);

/* Overwrites that line; "" erases it. A line that is too long is cut: one that wraps could not be
 * overwritten. */
void cv__screen_progress(const char *line);

#endif
