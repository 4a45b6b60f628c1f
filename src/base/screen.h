/* src/base/screen.h - what the terminal that a command writes to can show.
 *
 * Colours and progress are for people at a terminal. NO_COLOR (no-color.org) switches colours off,
 * TERM=dumb everything that moves the cursor. What is written to a file or a pipe has neither. */
#ifndef CV_BASE_SCREEN_H
#define CV_BASE_SCREEN_H

#include "core/types.h"

#include <stdio.h>

/* Characters in a line of standard output; 100 if it is no terminal or does not tell. */
uint32_t cv__screen_columns(void);

bool cv__screen_has_colour(FILE *out);

/* Can a line be written over on standard error? */
bool cv__screen_shows_progress(void);

#endif
