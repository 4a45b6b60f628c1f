/* src/base/command.h - what every command does alike: exit status, complaints, numbers of options.
 *
 * Results go to stdout, words to stderr. Exit status: 0 fine, 1 the answer is no, 2 wrong usage or
 * bad input. */
#ifndef CV_BASE_COMMAND_H
#define CV_BASE_COMMAND_H

#include "core/types.h"

enum { EXIT_FINE = 0, EXIT_NO = 1, EXIT_USAGE = 2 };

/* "conclave: ..." and a newline on stderr; returns EXIT_USAGE. */
int cv__usage_error(const char *format, ...) CV_PRINTF(1, 2);

/* A whole number of an option; false and a message if it is none. */
bool cv__option_number(const char *option, const char *text, uint64_t min, uint64_t max,
                       uint64_t *ret_value);

/* What the last stdout writes came to: EXIT_FINE, or EXIT_USAGE and a message if the disk was full.
 */
int cv__flush_output(int status);

#endif
