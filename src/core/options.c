/* src/core/options.c - a protocol's options: defaults and values from text.
 *
 * Names, ranges and defaults are written only in the protocol's table; scenarios, addresses and
 * `conclave protocols` all read it. */
#include "core/options.h"

#include "core/duration.h"
#include "core/errors.h"
#include "core/text.h"

#include <string.h>

void cv_config_init(struct cv_config *config, const struct cv_protocol *protocol, cv_id self,
                    uint32_t member_count)
{
    if (config == NULL || protocol == NULL) {
        return; /* cv_core_configure() reports it */
    }
    memset(config, 0, sizeof *config);
    config->self = self;
    config->member_count = member_count;
    config->drift_ppb = CV_DRIFT_PPB_DEFAULT;
    uint32_t at = 0;
    for (const struct cv_option *o = protocol->options; o->name != NULL; o++) {
        CV_ASSERT(at < CV_OPTIONS_MAX);
        config->option[at++] = o->initial;
        if (o->kind == CV_OPTION_TEXT) {
            CV_ASSERT(o->initial >= 0 && o->initial < CV_TEXTS_MAX);
            CV_ASSERT(strlen(o->choices) < CV_TEXT_BYTES);
            memcpy(config->text[o->initial], o->choices, strlen(o->choices));
        }
    }
}

/* The index of `word` among "a|b|c", or -1. */
static int64_t choice_index(const char *choices, const char *word)
{
    const size_t length = strlen(word);
    int64_t index = 0;
    for (const char *at = choices;; index++) {
        const char *bar = strchr(at, '|');
        const size_t choice = bar != NULL ? (size_t)(bar - at) : strlen(at);
        if (choice == length && memcmp(at, word, length) == 0) {
            return index;
        }
        if (bar == NULL) {
            return -1;
        }
        at = bar + 1;
    }
}

static bool count_parse(const char *text, int64_t *ret_value)
{
    int64_t value = 0;
    for (; *text >= '0' && *text <= '9' && value < INT64_MAX / 100; text++) {
        value = value * 10 + (*text - '0');
        *ret_value = value;
        if (text[1] == '\0') {
            return true;
        }
    }
    return false;
}

static int option_parse(const struct cv_option *option, const char *value, int64_t *ret_value,
                        struct cv_errtext *reterr)
{
    switch (option->kind) {
    case CV_OPTION_TIME:
        if (!cv__duration_parse(value, ret_value)) {
            return cv__fail(reterr, CV_E_INVALID, "%s=%s is not a time; write it like %s=250ms",
                            option->name, value, option->name);
        }
        break;
    case CV_OPTION_COUNT:
        if (!count_parse(value, ret_value)) {
            return cv__fail(reterr, CV_E_INVALID, "%s=%s is not a whole number", option->name,
                            value);
        }
        break;
    case CV_OPTION_FLAG:
        *ret_value = choice_index("no|yes", value);
        if (*ret_value < 0) {
            return cv__fail(reterr, CV_E_INVALID, "%s=%s: write yes or no", option->name, value);
        }
        return CV_OK;
    case CV_OPTION_CHOICE:
        *ret_value = choice_index(option->choices, value);
        if (*ret_value < 0) {
            return cv__fail(reterr, CV_E_INVALID, "%s=%s is not one of %s", option->name, value,
                            option->choices);
        }
        return CV_OK;
    case CV_OPTION_TEXT:
        CV_ASSERT(!"texts are kept, not parsed");
    }
    if (*ret_value < option->min || *ret_value > option->max) {
        struct cv_option_text min, max;
        return cv__fail(reterr, CV_E_INVALID, "%s=%s is outside %s to %s", option->name, value,
                        cv__option_format(option, option->min, &min),
                        cv__option_format(option, option->max, &max));
    }
    return CV_OK;
}

static int text_set(struct cv_config *config, const struct cv_option *option, const char *value,
                    struct cv_errtext *reterr)
{
    const size_t length = strlen(value);
    if (length >= CV_TEXT_BYTES) {
        return cv__fail(reterr, CV_E_INVALID, "%s takes at most %d bytes", option->name,
                        CV_TEXT_BYTES - 1);
    }
    CV_ASSERT(option->kind == CV_OPTION_TEXT);
    CV_ASSERT(option->initial >= 0);
    CV_ASSERT(option->initial < CV_TEXTS_MAX);
    char *text = config->text[option->initial];
    memset(text, 0, CV_TEXT_BYTES);
    memcpy(text, value, length);
    return CV_OK;
}

int cv_config_set(struct cv_config *config, const struct cv_protocol *protocol, const char *name,
                  const char *value, struct cv_errtext *reterr)
{
    if (config == NULL || protocol == NULL || name == NULL || value == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "an option needs a protocol, a name and a value");
    }
    uint32_t at = 0;
    for (const struct cv_option *o = protocol->options; o->name != NULL; o++, at++) {
        if (strcmp(o->name, name) == 0) {
            if (o->kind == CV_OPTION_TEXT) {
                return text_set(config, o, value, reterr);
            }
            int64_t parsed = 0;
            const int error = option_parse(o, value, &parsed, reterr);
            if (error == CV_OK) {
                config->option[at] = parsed;
            }
            return error;
        }
    }
    for (const char *const *pair = protocol->renamed; pair != NULL && *pair != NULL; pair += 2) {
        if (strcmp(pair[0], name) == 0) {
            return cv__fail(reterr, CV_E_UNKNOWN, "protocol '%s': option '%s' is called '%s' now",
                            protocol->name, name, pair[1]);
        }
    }
    CV_ASSERT(at <= CV_OPTIONS_MAX);
    const char *known[CV_OPTIONS_MAX + 1];
    for (uint32_t i = 0; i <= at; i++) {
        known[i] = protocol->options[i].name; /* the last is NULL */
    }
    struct cv_errtext what;
    const int code = cv__text_fail_unknown(&what, CV_E_UNKNOWN, "option", name, known);
    return cv__fail(reterr, code, "protocol '%s': %.400s", protocol->name, what.text);
}

const char *cv__option_format(const struct cv_option *option, int64_t value,
                              struct cv_option_text *text)
{
    const char *word = NULL;
    size_t length = 0;
    char digits[CV_DURATION_TEXT_BYTES];
    switch (option->kind) {
    case CV_OPTION_TIME:
        return cv__duration_format(value, text->text);
    case CV_OPTION_COUNT:
        CV_ASSERT(value >= 0);
        for (int64_t left = value; left > 0 || length == 0; left /= 10) {
            digits[length++] = (char)('0' + left % 10);
        }
        for (size_t i = 0; i < length; i++) {
            text->text[i] = digits[length - 1 - i];
        }
        text->text[length] = '\0';
        return text->text;
    case CV_OPTION_FLAG:
        return value ? "yes" : "no";
    case CV_OPTION_CHOICE:
        word = option->choices;
        for (int64_t i = 0; i < value; i++) {
            word = strchr(word, '|');
            CV_ASSERT(word != NULL);
            word++;
        }
        while (word[length] != '\0' && word[length] != '|') {
            length++;
        }
        CV_ASSERT(length < sizeof text->text);
        memcpy(text->text, word, length);
        text->text[length] = '\0';
        return text->text;
    case CV_OPTION_TEXT:
        CV_ASSERT(!"a text has no number; ask cv__config_format()");
    }
    return "";
}

const char *cv__config_format(const struct cv_config *config, const struct cv_option *option,
                              uint32_t at, struct cv_option_text *text)
{
    CV_ASSERT(at < CV_OPTIONS_MAX);
    return option->kind == CV_OPTION_TEXT ? config->text[option->initial]
                                          : cv__option_format(option, config->option[at], text);
}

void cv__config_derive(struct cv_config *config, uint32_t at, int64_t value)
{
    CV_ASSERT(at < CV_OPTIONS_MAX);
    CV_ASSERT(value != CV_OPTION_DERIVED);
    if (config->option[at] == CV_OPTION_DERIVED) {
        config->option[at] = value;
    }
}

int cv__config_broken(struct cv_errtext *reterr, const char *inequality, int64_t left_ns,
                      int64_t right_ns)
{
    char left[CV_DURATION_TEXT_BYTES];
    char right[CV_DURATION_TEXT_BYTES];
    return cv__fail(reterr, CV_E_INVALID, "%s does not hold: %s against %s", inequality,
                    cv__duration_format(cv__max64(left_ns, 0), left),
                    cv__duration_format(cv__max64(right_ns, 0), right));
}
