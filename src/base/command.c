/* src/base/command.c - see command.h. */
#include "base/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cv__usage_error(const char *format, ...)
{
    char line[4096]; /* what is longer says no more */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    /* Names and addresses are repeated in it: whatever they are, it stays one line. */
    for (char *at = line; *at != '\0'; at++) {
        *at = (unsigned char)*at < 0x20 || *at == 0x7f ? '?' : *at;
    }
    (void)fprintf(stderr, "conclave: %s\n", line);
    return EXIT_USAGE;
}

bool cv__option_number(const char *option, const char *text, uint64_t min, uint64_t max,
                       uint64_t *ret_value)
{
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < min ||
        value > max) {
        (void)cv__usage_error("%s takes a whole number from %llu to %llu, not '%s'", option,
                              (unsigned long long)min, (unsigned long long)max, text);
        return false;
    }
    *ret_value = value;
    return true;
}

int cv__flush_output(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return cv__usage_error("cannot write the output: %s", strerror(errno));
    }
    return status;
}
