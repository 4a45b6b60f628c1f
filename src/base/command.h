/* src/base/command.h - shared by all commands: exit status, error messages, options.
 *
 * Results go to stdout, complaints to stderr. Exit status: 0 fine, 1 the answer is no, 2 wrong
 * usage or bad input, or that something could not be done. */
#ifndef CV_BASE_COMMAND_H
#define CV_BASE_COMMAND_H

#include "core/types.h"

#include <stdio.h>

struct option; /* of <getopt.h> */

enum {
    EXIT_FINE = 0,
    EXIT_NO = 1,
    EXIT_USAGE = 2,  /* the command line is wrong */
    EXIT_CANNOT = 2, /* it is right, but what it asks for cannot be done */
};

/* printf() for a line, or part of a line, that contains names from a store or a user. Control
 * characters in it are printed as \\xNN, so that a name can neither start a new line nor control
 * the terminal. Only a newline at the end of `format` is printed as a newline. At most 4095
 * bytes. */
void cv__print(FILE *out, const char *format, ...) CV_PRINTF(2, 3);

/* "conclave: ..." and a newline on stderr, with control characters as in cv__print(). All of it is
 * one write(2), so that lines of several threads and processes are not mixed. */
void cv__complain(const char *format, ...) CV_PRINTF(1, 2);

/* The command line is wrong: complains, and returns EXIT_USAGE. */
int cv__wrong_usage(const char *format, ...) CV_PRINTF(1, 2);

/* What was asked for cannot be done: complains, and returns EXIT_CANNOT. */
int cv__cannot(const char *format, ...) CV_PRINTF(1, 2);

/* A word of the command line is not in `known` (which ends with NULL): complains, suggests the
 * nearest known word or lists all of them, and returns EXIT_USAGE. */
int cv__command_unknown(const char *what, const char *word, const char *const *known);

/* getopt_long(3), but complains with cv__complain() about an unknown or ambiguous option and a
 * missing argument. Then it returns '?'. */
int cv__command_option(int argc, char **argv, const char *shorts, const struct option *longs);

/* For commands whose only option is --json: reads the options up to the first argument. False: the
 * command line is wrong, and a complaint was printed. */
bool cv__command_json(int argc, char **argv, bool *ret_is_json);

/* Reads the whole number that an option takes; false and a complaint if it is not one. */
bool cv__command_number(const char *option, const char *text, uint64_t min, uint64_t max,
                        uint64_t *ret_value);

/* Reads the time that an option takes, such as 5s or 500ms, or a number of seconds as with
 * flock(1); false and a complaint if it is not a time. */
bool cv__command_time(const char *option, const char *text, int64_t *ret_ns);

/* Flushes the output. Returns `status`, or EXIT_CANNOT and a complaint if the output could not be
 * written. */
int cv__command_flush(int status);

#endif
