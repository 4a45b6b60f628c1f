/* tests/unit/test_command.c - what commands print. */
#include "base/command.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PRINTED_BYTES 32768

/* While it is open, each write(2) to standard error becomes a datagram. */
struct catcher {
    int end, saved;
};

static struct catcher catch_errors(void)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends), 0);
    const struct catcher catcher = {.end = ends[0], .saved = dup(STDERR_FILENO)};
    assert_true(catcher.saved >= 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    (void)close(ends[1]);
    return catcher;
}

static void release_errors(const struct catcher *catcher)
{
    (void)dup2(catcher->saved, STDERR_FILENO);
    (void)close(catcher->saved);
    (void)close(catcher->end);
}

/* One write; the empty text if there was none. */
static const char *next_write(const struct catcher *catcher)
{
    static char text[PRINTED_BYTES];
    const ssize_t bytes = recv(catcher->end, text, sizeof text - 1, MSG_DONTWAIT);
    text[bytes > 0 ? bytes : 0] = '\0';
    return text;
}

/* Otherwise the lines of two threads, or of two processes with one log, are mixed. */
static void an_error_is_written_at_once(void **unused)
{
    (void)unused;
    char printed[2][PRINTED_BYTES];
    const struct catcher catcher = catch_errors();
    cv__complain("%s: no answer from \xc3\xa4", "job");
    (void)snprintf(printed[0], sizeof printed[0], "%s", next_write(&catcher));
    (void)snprintf(printed[1], sizeof printed[1], "%s", next_write(&catcher));
    release_errors(&catcher);
    assert_string_equal(printed[0], "conclave: job: no answer from \xc3\xa4\n");
    assert_string_equal(printed[1], "");
}

static void control_characters_are_shown(void **unused)
{
    (void)unused;
    char text[5000], printed[2][PRINTED_BYTES];
    memset(text, '\033', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const struct catcher catcher = catch_errors();
    cv__complain("a\nb\tc\x7f \xc2\x9b");
    (void)snprintf(printed[0], sizeof printed[0], "%s", next_write(&catcher));
    cv__complain("%s", text);
    (void)snprintf(printed[1], sizeof printed[1], "%s", next_write(&catcher));
    release_errors(&catcher);
    assert_string_equal(printed[0], "conclave: a\\x0ab\\x09c\\x7f \\xc2\\x9b\n");
    /* Cut at its bound, in one piece and with its end. */
    assert_int_equal(strlen(printed[1]), strlen("conclave: ") + 4 * 4095 + 1);
    assert_string_equal(printed[1] + strlen(printed[1]) - 5, "\\x1b\n");
}

static void a_line_of_output_ends_as_its_format_does(void **unused)
{
    (void)unused;
    char *printed = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&printed, &bytes);
    assert_non_null(out);
    cv__print(out, "%s\n", "a\n");
    cv__print(out, "%s", "b\n");
    cv__print(out, "c\n");
    assert_int_equal(fclose(out), 0);
    assert_string_equal(printed, "a\\x0a\nb\\x0ac\n");
    free(printed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_written_at_once),
        cmocka_unit_test(control_characters_are_shown),
        cmocka_unit_test(a_line_of_output_ends_as_its_format_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
