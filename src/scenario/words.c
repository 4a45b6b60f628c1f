/* src/scenario/words.c - one line of a scenario as words. */
#include "scenario/words.h"

#include "core/duration.h"
#include "core/errors.h"
#include "core/text.h"
#include "scenario/change.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN_BYTES_MAX 2048u /* of one list of known words */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

int sim_words_split(struct sim_words *words, const char *line, size_t length)
{
    words->count = 0;
    words->next = 0;
    words->end_column = 1;
    size_t at = 0;
    while (at < length && line[at] != '#') {
        if (is_blank(line[at])) {
            at++;
            continue;
        }
        if (words->count == SIM_WORDS_MAX) {
            words->next = words->count;
            return sim_words_fail(words, "more than %u words in one line", SIM_WORDS_MAX);
        }
        struct sim_word *word = &words->word[words->count++];
        word->column = (uint32_t)at + 1;
        size_t bytes = 0;
        while (at < length && !is_blank(line[at]) && line[at] != '#') {
            const unsigned char c = (unsigned char)line[at];
            if (c < 0x20 || c == 0x7f) {
                words->next = words->count;
                return sim_words_fail(words, "control character 0x%02x: is this a text file?", c);
            }
            if (bytes + 1 >= SIM_WORD_BYTES) {
                words->next = words->count;
                word->text[bytes] = '\0';
                return sim_words_fail(words, "this word has more than %u bytes",
                                      SIM_WORD_BYTES - 1);
            }
            word->text[bytes++] = line[at++];
        }
        word->text[bytes] = '\0';
        words->end_column = (uint32_t)at + 1;
    }
    return CV_OK;
}

const char *sim_words_peek(const struct sim_words *words)
{
    return words->next < words->count ? words->word[words->next].text : NULL;
}

const char *sim_words_next(struct sim_words *words)
{
    const char *text = sim_words_peek(words);
    words->next++; /* even past the end: then errors point after the last word */
    return text;
}

bool sim_words_take(struct sim_words *words, const char *text)
{
    const char *next = sim_words_peek(words);
    if (next == NULL || strcmp(next, text) != 0) {
        return false;
    }
    words->next++;
    return true;
}

int sim_words_fail(const struct sim_words *words, const char *format, ...)
{
    uint32_t column = words->end_column;
    if (words->next >= 1 && words->next <= words->count) {
        column = words->word[words->next - 1].column;
    }
    char text[288];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return cv__fail(words->reterr, CV_E_MALFORMED, "%.200s:%u:%u: %s", words->name, words->line,
                    column, text);
}

int sim_words_unknown(const struct sim_words *words, const char *what, const char *text,
                      const char *known)
{
    if (text == NULL) {
        return sim_words_fail(words, "%s is missing; one of: %s", what, known);
    }
    char copy[KNOWN_BYTES_MAX];
    const char *list[CV_WORDS_MAX + 1];
    uint32_t count = 0;
    (void)snprintf(copy, sizeof copy, "%s", known);
    char *rest = copy;
    for (char *word; count < CV_WORDS_MAX && (word = strsep(&rest, " ")) != NULL;) {
        list[count++] = word;
    }
    list[count] = NULL;
    const char *nearest = cv__text_nearest(text, list);
    if (nearest != NULL) {
        return sim_words_fail(words, "unknown %s '%s'; did you mean '%s'?", what, text, nearest);
    }
    return sim_words_fail(words, "unknown %s '%s'; one of: %s", what, text, known);
}

void sim_word_list_add(struct sim_word_list *list, const char *word)
{
    const size_t bytes = strlen(word);
    if (list->length + 1 + bytes < sizeof list->text) {
        if (list->length > 0) {
            list->text[list->length++] = ' ';
        }
        memcpy(list->text + list->length, word, bytes + 1);
        list->length += bytes;
    }
}

int sim_words_choice(struct sim_words *words, const char *what, const char *const *names,
                     uint32_t name_count, uint32_t *ret_index)
{
    const char *text = sim_words_next(words);
    struct sim_word_list known = {0};
    for (uint32_t i = 0; i < name_count; i++) {
        if (text != NULL && strcmp(names[i], text) == 0) {
            *ret_index = i;
            return CV_OK;
        }
        sim_word_list_add(&known, names[i]);
    }
    return sim_words_unknown(words, what, text, known.text);
}

int sim_words_time(struct sim_words *words, const char *what, int64_t *ret_ns)
{
    const char *text = sim_words_next(words);
    if (text == NULL) {
        return sim_words_fail(words, "%s is missing; write a time like 250ms", what);
    }
    if (!cv__duration_parse(text, ret_ns)) {
        int64_t number;
        const char *end = cv__decimal_parse(text, &number);
        if (end != NULL && *end == '\0') {
            return sim_words_fail(words, "%s '%s' has no unit; write %sms or %ss", what, text, text,
                                  text);
        }
        return sim_words_fail(words, "%s '%s' is not a time; write it like 250ms or 2s", what,
                              text);
    }
    if (*ret_ns > SIM_TIME_MAX_NS) {
        return sim_words_fail(words, "%s '%s' is more than 30 days", what, text);
    }
    return CV_OK;
}

int sim_words_count(struct sim_words *words, const char *what, uint64_t max, uint64_t *ret_count)
{
    const char *text = sim_words_next(words);
    if (text == NULL) {
        return sim_words_fail(words, "%s is missing", what);
    }
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0') {
        return sim_words_fail(words, "%s '%s' is not a whole number", what, text);
    }
    if (value > max || errno == ERANGE) {
        return sim_words_fail(words, "%s %s is more than %llu", what, text,
                              (unsigned long long)max);
    }
    *ret_count = value;
    return CV_OK;
}

int sim_words_percent(struct sim_words *words, const char *what, int64_t *ret_ppb)
{
    const char *text = sim_words_next(words);
    if (text == NULL) {
        return sim_words_fail(words, "%s is missing; write it like 5%%", what);
    }
    int64_t number;
    const char *end = cv__decimal_parse(text, &number);
    if (end == NULL || strcmp(end, "%") != 0) {
        return sim_words_fail(words, "%s '%s' is not a percentage; write it like 5%%", what, text);
    }
    if (number > 100 * SIM_PPB_ONE) {
        return sim_words_fail(words, "%s %s is more than 100%%", what, text);
    }
    *ret_ppb = number / 100;
    return CV_OK;
}

int sim_words_keyword(struct sim_words *words, const char *keyword)
{
    const char *text = sim_words_next(words);
    if (text == NULL || strcmp(text, keyword) != 0) {
        return sim_words_fail(words, "expected '%s'%s%s%s", keyword, text ? ", not '" : "",
                              text ? text : "", text ? "'" : "");
    }
    return CV_OK;
}

int sim_words_end(struct sim_words *words)
{
    const char *text = sim_words_next(words);
    return text == NULL ? CV_OK
                        : sim_words_fail(words, "nothing is expected after this: '%s'", text);
}
