/* src/base/screen.c - see screen.h. */
#include "base/screen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMNS_DEFAULT 100
#define COLUMNS_MAX 1000

uint32_t cv__screen_columns(void)
{
    struct winsize size;
    const char *said = getenv("COLUMNS");
    const unsigned long asked = said != NULL ? strtoul(said, NULL, 10) : 0;
    if (asked > 0 && asked <= COLUMNS_MAX) {
        return (uint32_t)asked;
    }
    const bool is_told = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return is_told ? size.ws_col : COLUMNS_DEFAULT;
}

static bool is_clever_terminal(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) == 1 && (term == NULL || strcmp(term, "dumb") != 0);
}

bool cv__screen_has_colour(FILE *out)
{
    const char *refused = getenv("NO_COLOR");
    return is_clever_terminal(fileno(out)) && (refused == NULL || refused[0] == '\0');
}

bool cv__screen_shows_progress(void)
{
    return is_clever_terminal(STDERR_FILENO);
}
