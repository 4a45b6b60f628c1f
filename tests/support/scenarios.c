/* tests/support/scenarios.c - see scenarios.h. */
#include "support/scenarios.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static struct sim_scenario *parse(const char *name, const char *text, size_t length)
{
    struct sim_scenario *scenario = NULL;
    struct cv_errtext why = {""};
    if (sim_scenario_parse(name, text, length, &scenario, &why) != CV_OK) {
        fail_msg("%s", why.text);
    }
    return scenario;
}

struct sim_scenario *scenario_vread(const char *format, va_list args)
{
    char text[4000];
    const int length = vsnprintf(text, sizeof text, format, args);
    assert_in_range(length, 1, sizeof text - 1);
    return parse("test", text, (size_t)length);
}

struct sim_scenario *scenario_read(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct sim_scenario *scenario = scenario_vread(format, args);
    va_end(args);
    return scenario;
}

static bool begins_with_one(const char *line, size_t length, const char *const *words)
{
    for (; *words != NULL; words++) {
        const size_t word = strlen(*words);
        if (length > word && memcmp(line, *words, word) == 0 && line[word] == ' ') {
            return true;
        }
    }
    return false;
}

char *test_text(const char *file)
{
    const char *root = getenv("SOURCE_ROOT"); /* meson sets it; without it: the current folder */
    char path[500];
    char *text;
    size_t length;
    struct cv_errtext why = {""};
    (void)snprintf(path, sizeof path, "%s/tests/%s", root != NULL ? root : ".", file);
    if (sim_scenario_read(path, &text, &length, &why) != CV_OK) {
        fail_msg("%s", why.text);
    }
    char *copy = calloc(length + 1, 1); /* as a string */
    assert_non_null(copy);
    memcpy(copy, text, length);
    free(text);
    return copy;
}

struct sim_scenario *scenario_changed(const char *file, const char *protocol, uint32_t nodes)
{
    char *text = test_text(file);
    char *made = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&made, &length);
    assert_non_null(out);
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const bool is_that = strlen(line) > 9 && strncmp(line + 9, protocol, strlen(protocol)) == 0;
        if (strncmp(line, "protocol ", 9) == 0 && !is_that) {
            (void)fprintf(out, "protocol %s\n", protocol);
        } else if (strncmp(line, "nodes ", 6) == 0 && nodes > 0) {
            (void)fprintf(out, "nodes %u\n", nodes);
        } else {
            (void)fprintf(out, "%s\n", line);
        }
    }
    assert_int_equal(fclose(out), 0);
    struct sim_scenario *scenario = parse(file, made, length);
    free(made);
    free(text);
    return scenario;
}

struct sim_scenario *scenario_variant(const char *name, const char *file, const char *head,
                                      const char *const *without)
{
    char random[200];
    (void)snprintf(random, sizeof random, "scenario/random/%s", file);
    char *text = test_text(random), *made = NULL;
    const size_t length = strlen(text);
    size_t made_length = 0;
    FILE *out = open_memstream(&made, &made_length);
    assert_non_null(out);
    (void)fputs(head, out);
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        const size_t line = end != NULL ? (size_t)(end - (text + at)) : length - at;
        if (!begins_with_one(text + at, line, without)) {
            (void)fprintf(out, "%.*s\n", (int)line, text + at);
        }
        at += line + 1;
    }
    assert_int_equal(fclose(out), 0);
    struct sim_scenario *scenario = parse(name, made, made_length);
    free(made);
    free(text);
    return scenario;
}

#define ONE_LINE "protocol %s\nnodes 6\n%s\nrun 10s\n"

void assert_action_written(const char *protocol, const char *line, const char *expected)
{
    struct sim_scenario *scenario = scenario_read(ONE_LINE, protocol, line);
    assert_int_equal(scenario->action_count, 1);
    char *written = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&written, &length);
    assert_non_null(out);
    sim_action_print(&scenario->action[0], 6, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(written, expected);
    free(written);
    sim_scenario_free(scenario);
}

void assert_line_refused(const char *protocol, const char *line, const char *words)
{
    char text[500];
    struct sim_scenario *scenario;
    struct cv_errtext why = {""};
    const int length = snprintf(text, sizeof text, ONE_LINE, protocol, line);
    assert_in_range(length, 1, sizeof text - 1);
    assert_int_equal(sim_scenario_parse("x", text, (size_t)length, &scenario, &why),
                     CV_E_MALFORMED);
    if (strstr(why.text, words) == NULL) {
        fail_msg("%s: '%s' does not say '%s'", line, why.text, words);
    }
}
