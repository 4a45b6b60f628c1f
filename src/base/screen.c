/* src/base/screen.c - see screen.h. */
#include "base/screen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMNS_DEFAULT 100
#define COLUMNS_MIN 20u /* a narrower screen is treated as this wide */
#define COLUMNS_MAX 1000
#define LINE_BYTES 8192    /* a longer line is not folded */
#define BROKEN_LINE_MIN 60 /* a shorter line ends where its author wants it to */

/* From $COLUMNS or the terminal; 0: unknown. */
static uint32_t columns_told(void)
{
    struct winsize size;
    const char *said = getenv("COLUMNS");
    const unsigned long asked = said != NULL ? strtoul(said, NULL, 10) : 0;
    if (asked > 0 && asked <= COLUMNS_MAX) {
        return (uint32_t)asked;
    }
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

uint32_t cv__screen_columns(void)
{
    const uint32_t told = columns_told();
    return told > 0 ? told : COLUMNS_DEFAULT;
}

uint32_t cv__screen_limit(void)
{
    const uint32_t told = columns_told();
    return told == 0 ? CV_SCREEN_ANY : told < COLUMNS_MIN ? COLUMNS_MIN : told;
}

/* 0: standard error is no terminal, or one that does not tell its width. */
static uint32_t error_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

uint32_t cv__screen_error_limit(void)
{
    const uint32_t columns = error_columns();
    return columns == 0 ? CV_SCREEN_ANY : columns < COLUMNS_MIN ? COLUMNS_MIN : columns;
}

/* ---- Folding --------------------------------------------------------------------------------- */

/* The number of UTF-8 characters, without sequences that change colours. All characters that
 * commands print are one column wide. */
static uint32_t width(const char *text, size_t bytes)
{
    uint32_t count = 0;
    bool is_colour = false;
    for (size_t i = 0; i < bytes; i++) {
        const bool begins = text[i] == '\033' && i + 1 < bytes && text[i + 1] == '[';
        is_colour = is_colour || begins;
        count += !is_colour && ((unsigned char)text[i] & 0xc0) != 0x80;
        is_colour = is_colour && text[i] != 'm';
    }
    return count;
}

static size_t blanks(const char *line, size_t bytes)
{
    size_t count = 0;
    while (count < bytes && line[count] == ' ') {
        count++;
    }
    return count;
}

/* The column after the last gap of two or more blanks, if it is in the left half of the screen; 0:
 * there is none. */
static uint32_t last_column(const char *line, size_t bytes, uint32_t columns)
{
    uint32_t found = 0;
    for (size_t i = blanks(line, bytes); i + 2 < bytes; i++) {
        const size_t gap = blanks(line + i, bytes - i);
        if (gap >= 2 && i + gap < bytes && width(line, i + gap) <= columns / 2) {
            found = width(line, i + gap);
        }
        i += gap > 0 ? gap - 1 : 0;
    }
    return found;
}

/* Prints one line, given without its newline, broken between words. The further rows are aligned
 * with its last column; if it has no columns, they are indented by `more` more than the line. */
static void fold_line(FILE *out, uint32_t columns, uint32_t more, const char *line, size_t bytes)
{
    const uint32_t indent = (uint32_t)blanks(line, bytes);
    const uint32_t column = last_column(line, bytes, columns);
    const uint32_t hang = column > 0 ? column : indent + more <= columns / 2 ? indent + more : more;
    uint32_t used = 0; /* columns of the current row */
    for (size_t at = 0; at < bytes;) {
        const size_t gap = blanks(line + at, bytes - at);
        const char *end = memchr(line + at + gap, ' ', bytes - at - gap);
        const size_t next = end != NULL ? (size_t)(end - line) : bytes;
        const size_t word_bytes = next - at - gap;
        if (used > hang && used + gap + width(line + at + gap, word_bytes) > columns) {
            (void)fprintf(out, "\n%*s", (int)hang, "");
            used = hang;
        } else {
            (void)fprintf(out, "%*s", (int)gap, "");
            used += (uint32_t)gap;
        }
        (void)fwrite(line + at + gap, 1, word_bytes, out);
        used += width(line + at + gap, word_bytes);
        at = next;
    }
    (void)fputc('\n', out);
}

static void print_line(FILE *out, uint32_t columns, uint32_t more, const char *line, size_t bytes)
{
    const bool is_json = bytes > 0 && (line[0] == '{' || line[0] == '[');
    if (is_json || width(line, bytes) <= columns) {
        (void)fwrite(line, 1, bytes, out);
        (void)fputc('\n', out);
    } else {
        fold_line(out, columns, more, line, bytes);
    }
}

/* Does this line of a text continue the one before, which was broken because it was full? */
static bool continues(const char *before, size_t before_bytes, const char *line, size_t bytes)
{
    const uint32_t column = last_column(before, before_bytes, CV_SCREEN_ANY);
    const size_t wanted = column > 0 ? column : blanks(before, before_bytes);
    const size_t indent = blanks(line, bytes);
    return indent < bytes && indent == wanted && line[indent] != '-' &&
           last_column(line, bytes, CV_SCREEN_ANY) == 0;
}

void cv__screen_print(FILE *out, uint32_t columns, const char *text)
{
    char joined[LINE_BYTES];
    size_t bytes = 0, row_bytes = 0; /* of what is joined; of its last line */
    bool has_line = false;
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        const size_t indent = blanks(text, length);
        if (has_line && row_bytes >= BROKEN_LINE_MIN && columns != CV_SCREEN_ANY &&
            continues(joined, bytes, text, length) && bytes + 1 + length < sizeof joined) {
            joined[bytes++] = ' ';
            memcpy(joined + bytes, text + indent, length - indent);
            bytes += length - indent;
        } else {
            if (has_line) {
                print_line(out, columns, 0, joined, bytes);
            }
            bytes = length < sizeof joined ? length : sizeof joined - 1;
            memcpy(joined, text, bytes);
        }
        has_line = true;
        row_bytes = length;
        text += length + (text[length] == '\n');
    }
    if (has_line) {
        print_line(out, columns, 0, joined, bytes);
    }
}

/* ---- Standard output that is folded ---------------------------------------------------------- */

static struct {
    FILE *plain; /* the original stdout; NULL: output is not folded */
    uint32_t columns;
    size_t bytes;
    char line[LINE_BYTES];
} output;

static ssize_t output_write(void *unused, const char *data, size_t bytes)
{
    (void)unused;
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] == '\n') {
            print_line(output.plain, output.columns, 2, output.line, output.bytes);
            output.bytes = 0;
        } else if (output.bytes == sizeof output.line) { /* too long to fold */
            (void)fwrite(output.line, 1, output.bytes, output.plain);
            output.line[0] = data[i];
            output.bytes = 1;
        } else {
            output.line[output.bytes++] = data[i];
        }
    }
    return fflush(output.plain) == 0 && !ferror(output.plain) ? (ssize_t)bytes : 0;
}

void cv__screen_fold_output(void)
{
    CV_ASSERT(output.plain == NULL);
    const uint32_t columns = cv__screen_limit();
    const cookie_io_functions_t functions = {.write = output_write};
    FILE *folded = columns != CV_SCREEN_ANY ? fopencookie(NULL, "w", functions) : NULL;
    if (folded == NULL) {
        return; /* a file or a pipe; or no memory: then lines are not folded */
    }
    output.columns = columns;
    output.plain = stdout;
    stdout = folded;
}

bool cv__screen_flush_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return false;
    }
    if (output.plain != NULL && output.bytes > 0) {
        (void)fwrite(output.line, 1, output.bytes, output.plain);
        output.bytes = 0;
        return fflush(output.plain) == 0;
    }
    return true;
}

/* ---- What the terminal can do ---------------------------------------------------------------- */

static bool is_clever_terminal(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) == 1 && (term == NULL || strcmp(term, "dumb") != 0);
}

bool cv__screen_has_colour(FILE *out)
{
    const char *refused = getenv("NO_COLOR");
    const int fd = out == stdout ? STDOUT_FILENO : fileno(out);
    return is_clever_terminal(fd) && (refused == NULL || refused[0] == '\0');
}

bool cv__screen_shows_progress(void)
{
    return is_clever_terminal(STDERR_FILENO);
}

void cv__screen_progress(const char *line)
{
    /* Not the last column: behind it some terminals begin a new line. Below zero: no limit. */
    (void)fprintf(stderr, "\r%.*s\033[K", (int)error_columns() - 1, line);
}
