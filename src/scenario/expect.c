/* src/scenario/expect.c - reads the expectations of a scenario. */
#include "base/memory.h"
#include "core/nodeset.h"
#include "scenario/parse.h"

#include <stdlib.h>
#include <string.h>

static uint64_t *nodes_new(const struct sim_parser *p)
{
    return cv__allocate(cv__set_words(p->scenario->node_count), sizeof(uint64_t));
}

/* leader N|any by TIME [at NODES] */
static int parse_leader(struct sim_parser *p, struct sim_expect *expect)
{
    expect->kind = SIM_EXPECT_LEADER;
    int error = CV_OK;
    if (!sim_words_take(&p->words, "any")) {
        error = sim_parse_node(p, /* allow_leader= */ false, &expect->leader);
    }
    if (error == CV_OK) {
        error = sim_words_keyword(&p->words, "by");
    }
    if (error == CV_OK) {
        error = sim_words_time(&p->words, "time", &expect->at_ns);
    }
    if (error == CV_OK && sim_words_take(&p->words, "at")) {
        expect->nodes = nodes_new(p);
        error = sim_parse_nodes(p, "", expect->nodes);
    }
    return error != CV_OK ? error : sim_words_end(&p->words);
}

/* leaders N... at TIME; no-leader at TIME */
static int parse_leaders(struct sim_parser *p, struct sim_expect *expect, bool is_nobody)
{
    expect->kind = SIM_EXPECT_LEADERS;
    expect->nodes = nodes_new(p);
    int error = is_nobody ? CV_OK : sim_parse_nodes(p, "at", expect->nodes);
    if (error == CV_OK) {
        error = sim_words_keyword(&p->words, "at");
    }
    if (error == CV_OK) {
        error = sim_words_time(&p->words, "time", &expect->at_ns);
    }
    return error != CV_OK ? error : sim_words_end(&p->words);
}

static int parse_property(struct sim_parser *p, struct sim_expect *expect,
                          enum sim_expect_kind kind)
{
    expect->kind = kind;
    const char *name = sim_words_next(&p->words);
    char known[512] = "";
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        const char *one = cv_property_name((enum cv_property)i);
        if (name != NULL && strcmp(one, name) == 0) {
            expect->property = (enum cv_property)i;
            return sim_words_end(&p->words);
        }
        strncat(known, i > 0 ? " " : "", sizeof known - strlen(known) - 1);
        strncat(known, one, sizeof known - strlen(known) - 1);
    }
    return sim_words_unknown(&p->words, "property", name, known);
}

/* <= 15 [between TIME TIME] */
static int parse_bound(struct sim_parser *p, struct sim_expect *expect)
{
    static const char *const names[] = {"<=", ">=", "<", ">", "=="};
    const char *word = sim_words_next(&p->words);
    uint32_t compare = 0;
    while (word != NULL && compare < COUNT_OF(names) && strcmp(names[compare], word) != 0) {
        compare++;
    }
    if (word == NULL || compare == COUNT_OF(names)) {
        return sim_words_fail(&p->words, "expected one of <= >= < > ==, not '%s'",
                              word != NULL ? word : "");
    }
    expect->compare = (enum sim_compare)compare;
    int error = sim_words_count(&p->words, "number", UINT64_MAX, &expect->count);
    expect->at_ns = -1; /* the end of the run */
    if (error == CV_OK && sim_words_take(&p->words, "between")) {
        error = sim_words_time(&p->words, "time", &expect->from_ns);
        if (error == CV_OK) {
            (void)sim_words_take(&p->words, "and");
            error = sim_words_time(&p->words, "time", &expect->at_ns);
        }
        if (error == CV_OK && expect->at_ns < expect->from_ns) {
            return sim_words_fail(&p->words, "this window ends before it begins");
        }
    }
    return error != CV_OK ? error : sim_words_end(&p->words);
}

static int parse_messages(struct sim_parser *p, struct sim_expect *expect)
{
    expect->kind = SIM_EXPECT_MESSAGES;
    expect->message = SIM_MESSAGE_ANY;
    if (!sim_words_take(&p->words, "*")) {
        const struct cv_protocol *protocol = p->scenario->protocol;
        const char *name = sim_words_next(&p->words);
        char known[512] = "";
        for (uint32_t i = 0; i < protocol->message_count; i++) {
            if (name != NULL && strcmp(protocol->messages[i].name, name) == 0) {
                expect->message = i;
            }
            strncat(known, i > 0 ? " " : "", sizeof known - strlen(known) - 1);
            strncat(known, protocol->messages[i].name, sizeof known - strlen(known) - 1);
        }
        if (expect->message == SIM_MESSAGE_ANY) {
            return sim_words_unknown(&p->words, "message type", name, known);
        }
    }
    return parse_bound(p, expect);
}

static int parse_one(struct sim_parser *p, struct sim_expect *expect)
{
    const char *word = sim_words_next(&p->words);
    if (word == NULL) {
        return sim_words_fail(&p->words, "write what is expected: leader, leaders, no-leader, "
                                         "property, broken, messages or changes");
    }
    if (strcmp(word, "leader") == 0) {
        return parse_leader(p, expect);
    }
    if (strcmp(word, "leaders") == 0) {
        return parse_leaders(p, expect, /* is_nobody= */ false);
    }
    if (strcmp(word, "no-leader") == 0) {
        return parse_leaders(p, expect, /* is_nobody= */ true);
    }
    if (strcmp(word, "property") == 0) {
        return parse_property(p, expect, SIM_EXPECT_PROPERTY);
    }
    if (strcmp(word, "broken") == 0) {
        return parse_property(p, expect, SIM_EXPECT_BROKEN);
    }
    if (strcmp(word, "messages") == 0) {
        return parse_messages(p, expect);
    }
    if (strcmp(word, "changes") == 0) {
        expect->kind = SIM_EXPECT_CHANGES;
        return parse_bound(p, expect);
    }
    return sim_words_unknown(&p->words, "expectation", word,
                             "leader leaders no-leader property broken messages changes");
}

int sim_parse_expect(struct sim_parser *p, const char *line, size_t length)
{
    struct sim_scenario *s = p->scenario;
    struct sim_expect expect = {.line = p->words.line, .at_ns = -1};
    const int error = parse_one(p, &expect);
    if (error != CV_OK) {
        free(expect.nodes);
        return error;
    }
    const char *comment = memchr(line, '#', length);
    size_t end = comment != NULL ? (size_t)(comment - line) : length;
    size_t begin = 0;
    while (begin < end && (line[begin] == ' ' || line[begin] == '\t')) {
        begin++;
    }
    while (end > begin &&
           (line[end - 1] == ' ' || line[end - 1] == '\t' || line[end - 1] == '\r')) {
        end--;
    }
    expect.text = cv__copy_text(line + begin, end - begin);
    s->expect = cv__grow(s->expect, &s->expect_capacity, s->expect_count, sizeof *s->expect);
    s->expect[s->expect_count++] = expect;
    return CV_OK;
}
