/* src/scenario/attribute.c - attributes of links, the sequencer, the store and messages. */
#include "scenario/attribute.h"

#include "core/duration.h"

#include <stddef.h>
#include <string.h>

struct attribute;

/* How values of a kind are read and written; `field` points to the value. */
struct attribute_type {
    int (*parse)(struct sim_parser *p, const struct attribute *attribute, void *field);
    void (*print)(const void *field, FILE *out);
    bool (*is_written)(const void *field); /* NULL: always */
};

struct attribute {
    const char *word;
    const char *what; /* the value's name in errors */
    uint32_t mask;    /* its bit */
    const struct attribute_type *type;
    size_t offset;         /* of the field within the change */
    size_t another_offset; /* not 0: a short form, which sets a second field to the same value and
                            * is never written */
};

struct sim_attribute_table {
    const char *what; /* in errors: 'attribute of a link' */
    const struct attribute *attribute;
    uint32_t attribute_count;
    const char *const *verb; /* words that may replace attributes, by number from 1 */
    uint32_t verb_count;     /* including number 0 */
};

/* ---- Times, shares, numbers ------------------------------------------------------------------ */

void sim_print_time(int64_t ns, FILE *out)
{
    char buffer[CV_DURATION_TEXT_BYTES];
    (void)fprintf(out, " %s", cv__duration_format(ns, buffer));
}

void sim_print_share(int64_t ppb, FILE *out)
{
    (void)fprintf(out, " %g%%", (double)ppb / 1e7);
}

static int parse_time(struct sim_parser *p, const struct attribute *a, void *field)
{
    return sim_words_time(&p->words, a->what, field);
}

static void print_time(const void *field, FILE *out)
{
    sim_print_time(*(const int64_t *)field, out);
}

static const struct attribute_type as_time = {parse_time, print_time, NULL};

static int parse_share(struct sim_parser *p, const struct attribute *a, void *field)
{
    return sim_words_percent(&p->words, a->what, field);
}

static void print_share(const void *field, FILE *out)
{
    sim_print_share(*(const int64_t *)field, out);
}

static const struct attribute_type as_share = {parse_share, print_share, NULL};

static int parse_count(struct sim_parser *p, const struct attribute *a, void *field)
{
    return sim_words_count(&p->words, a->what, UINT32_MAX, field);
}

static void print_count(const void *field, FILE *out)
{
    (void)fprintf(out, " %llu", (unsigned long long)*(const uint64_t *)field);
}

static const struct attribute_type as_count = {parse_count, print_count, NULL};

/* ---- Drifts ---------------------------------------------------------------------------------- */

#define PARTS_MAX 1000000 /* 1 / PARTS_MAX is 1 ppm */

/* 80ppm, -80ppm, 1/11, -1/11 */
static int parse_ppm(struct sim_parser *p, struct sim_drift *ret_drift)
{
    const char *text = sim_words_next(&p->words);
    const bool is_negative = text != NULL && *text == '-';
    const int sign = is_negative ? -1 : 1;
    int64_t number = 0;
    const char *end = text != NULL ? cv__decimal_parse(text + is_negative, &number) : NULL;
    if (end != NULL && strncmp(end, "/", 1) == 0 && number == SIM_PPB_ONE) {
        int64_t parts = 0;
        end = cv__decimal_parse(end + 1, &parts);
        const bool is_whole = parts % SIM_PPB_ONE == 0;
        parts /= SIM_PPB_ONE;
        if (end != NULL && *end == '\0' && is_whole && parts >= 2 && parts <= PARTS_MAX) {
            ret_drift->parts = sign * parts;
            ret_drift->ppb = SIM_PPB_ONE / ret_drift->parts;
            return CV_OK;
        }
    }
    if (end == NULL || strcmp(end, "ppm") != 0 || number > 500000 * SIM_PPB_ONE) {
        return sim_words_fail(&p->words, "a drift is written like 80ppm, -80ppm or 1/11");
    }
    ret_drift->ppb = sign * number / 1000000;
    return CV_OK;
}

int sim_parse_drift(struct sim_parser *p, struct sim_drift *ret_drift)
{
    ret_drift->is_random = sim_words_take(&p->words, "random");
    const int error = parse_ppm(p, ret_drift);
    if (error == CV_OK && ret_drift->is_random && ret_drift->ppb < 0) {
        return sim_words_fail(&p->words, "the bound of a random drift is not negative");
    }
    if (error == CV_OK && ret_drift->is_random && ret_drift->parts != 0) {
        return sim_words_fail(&p->words, "the bound of a random drift is written like 80ppm");
    }
    return error;
}

void sim_print_drift(const struct sim_drift *drift, FILE *out)
{
    if (drift->parts != 0) {
        (void)fprintf(out, " %s1/%lld", drift->parts < 0 ? "-" : "",
                      (long long)(drift->parts < 0 ? -drift->parts : drift->parts));
        return;
    }
    (void)fprintf(out, "%s %gppm", drift->is_random ? " random" : "", (double)drift->ppb / 1e3);
}

static int parse_drift(struct sim_parser *p, const struct attribute *a, void *field)
{
    (void)a;
    return sim_parse_drift(p, field);
}

static void print_drift(const void *field, FILE *out)
{
    sim_print_drift(field, out);
}

static const struct attribute_type as_drift = {parse_drift, print_drift, NULL};

/* ---- Links ----------------------------------------------------------------------------------- */

/* A time, or a share of the delay; the field is the whole link. */
static int parse_jitter(struct sim_parser *p, const struct attribute *a, void *field)
{
    struct sim_link *link = field;
    const char *text = sim_words_peek(&p->words);
    if (text != NULL && strchr(text, '%') != NULL) {
        link->jitter_ns = 0;
        return sim_words_percent(&p->words, a->what, &link->jitter_ppb);
    }
    link->jitter_ppb = 0;
    return sim_words_time(&p->words, a->what, &link->jitter_ns);
}

static void print_jitter(const void *field, FILE *out)
{
    const struct sim_link *link = field;
    if (link->jitter_ppb > 0) {
        sim_print_share(link->jitter_ppb, out);
    } else {
        sim_print_time(link->jitter_ns, out);
    }
}

static const struct attribute_type as_jitter = {parse_jitter, print_jitter, NULL};

static const char *const dist_names[] = {
    [SIM_DIST_CONSTANT] = "constant",
    [SIM_DIST_UNIFORM] = "uniform",
    [SIM_DIST_NORMAL] = "normal",
    [SIM_DIST_PARETO] = "pareto",
};

static int parse_dist(struct sim_parser *p, const struct attribute *a, void *field)
{
    uint32_t dist;
    const int error = sim_words_choice(&p->words, a->what, dist_names, COUNT_OF(dist_names), &dist);
    if (error == CV_OK) {
        *(enum sim_dist *)field = (enum sim_dist)dist;
    }
    return error;
}

static void print_dist(const void *field, FILE *out)
{
    (void)fprintf(out, "=%s", dist_names[*(const enum sim_dist *)field]);
}

static const struct attribute_type as_dist = {parse_dist, print_dist, NULL};

static int parse_down(struct sim_parser *p, const struct attribute *a, void *field)
{
    (void)p;
    *(bool *)field = strcmp(a->word, "down") == 0;
    return CV_OK;
}

static void print_nothing(const void *field, FILE *out)
{
    (void)field;
    (void)out;
}

static bool is_down(const void *field)
{
    return *(const bool *)field;
}

static bool is_up(const void *field)
{
    return !*(const bool *)field;
}

static const struct attribute_type as_down = {parse_down, print_nothing, is_down};
static const struct attribute_type as_up = {parse_down, print_nothing, is_up};

#define IN_LINK(field) offsetof(struct sim_link_change, link.field)
static const struct attribute link_rows[] = {
    {"delay", "delay", SIM_LINK_DELAY, &as_time, IN_LINK(delay_ns), 0},
    {"jitter", "jitter", SIM_LINK_JITTER, &as_jitter, offsetof(struct sim_link_change, link), 0},
    {"dist", "distribution", SIM_LINK_DIST, &as_dist, IN_LINK(dist), 0},
    {"loss", "loss", SIM_LINK_LOSS, &as_share, IN_LINK(loss_ppb), 0},
    {"duplicate", "duplication", SIM_LINK_DUPLICATE, &as_share, IN_LINK(duplicate_ppb), 0},
    {"reorder", "reordering", SIM_LINK_REORDER, &as_share, IN_LINK(reorder_ppb), 0},
    {"down", NULL, SIM_LINK_DOWN, &as_down, IN_LINK(is_down), 0},
    {"up", NULL, SIM_LINK_DOWN, &as_up, IN_LINK(is_down), 0},
};

const struct sim_attribute_table sim_link_attributes = {"attribute of a link", link_rows,
                                                        COUNT_OF(link_rows), NULL, 0};

/* ---- The sequencer --------------------------------------------------------------------------- */

static int parse_boots(struct sim_parser *p, const struct attribute *a, void *field)
{
    uint64_t *boots = field;
    if (sim_words_take(&p->words, "none")) {
        *boots = 0;
        return CV_OK;
    }
    const int error = sim_words_count(&p->words, a->what, INT32_MAX, boots);
    if (error == CV_OK && *boots == 0) {
        return sim_words_fail(&p->words,
                              "an agent has booted at least once; write 1 or more, or boots none");
    }
    return error;
}

static void print_boots(const void *field, FILE *out)
{
    if (*(const uint64_t *)field == 0) {
        (void)fprintf(out, " none");
    } else {
        print_count(field, out);
    }
}

static const struct attribute_type as_boots = {parse_boots, print_boots, NULL};

#define IN_SEQUENCER(field) offsetof(struct sim_sequencer_change, field)
static const struct attribute sequencer_rows[] = {
    {"delay", "delay", SIM_SEQUENCER_DELAY, &as_time, IN_SEQUENCER(delay_ns), 0},
    {"serial", "serial time", SIM_SEQUENCER_SERIAL, &as_time, IN_SEQUENCER(serial_ns), 0},
    {"loss", "loss", SIM_SEQUENCER_QUERY_LOSS | SIM_SEQUENCER_ANSWER_LOSS, &as_share,
     IN_SEQUENCER(query_loss_ppb), IN_SEQUENCER(answer_loss_ppb)},
    {"query-loss", "loss", SIM_SEQUENCER_QUERY_LOSS, &as_share, IN_SEQUENCER(query_loss_ppb), 0},
    {"answer-loss", "loss", SIM_SEQUENCER_ANSWER_LOSS, &as_share, IN_SEQUENCER(answer_loss_ppb), 0},
    {"start", "counter", SIM_SEQUENCER_START, &as_count, IN_SEQUENCER(start), 0},
    {"boots", "number of boots", SIM_SEQUENCER_BOOTS, &as_boots, IN_SEQUENCER(boots), 0},
};

static const char *const sequencer_verbs[SIM_SEQUENCER_VERB_COUNT] = {
    [SIM_SEQUENCER_RESET] = "reset", [SIM_SEQUENCER_WIPE] = "wipe", [SIM_SEQUENCER_DOWN] = "down",
    [SIM_SEQUENCER_UP] = "up",       [SIM_SEQUENCER_SKIP] = "skip", [SIM_SEQUENCER_CUT] = "cut",
    [SIM_SEQUENCER_MEND] = "mend",
};

const struct sim_attribute_table sim_sequencer_attributes = {
    "word about the sequencer", sequencer_rows, COUNT_OF(sequencer_rows), sequencer_verbs,
    COUNT_OF(sequencer_verbs)};

/* ---- The store ------------------------------------------------------------------------------- */

#define IN_STORE(field) offsetof(struct sim_store_change, field)
#define IN_TROUBLE(field) offsetof(struct sim_store_change, trouble.field)
static const struct attribute store_rows[] = {
    {"delay", "delay", SIM_STORE_DELAY, &as_time, IN_STORE(delay_ns), 0},
    {"jitter", "jitter", SIM_STORE_JITTER, &as_time, IN_STORE(jitter_ns), 0},
    {"query-delay", "delay", SIM_STORE_QUERY_DELAY, &as_time, IN_TROUBLE(query_delay_ns), 0},
    {"answer-delay", "delay", SIM_STORE_ANSWER_DELAY, &as_time, IN_TROUBLE(answer_delay_ns), 0},
    {"loss", "loss", SIM_STORE_QUERY_LOSS | SIM_STORE_ANSWER_LOSS, &as_share,
     IN_TROUBLE(query_loss_ppb), IN_TROUBLE(answer_loss_ppb)},
    {"query-loss", "loss", SIM_STORE_QUERY_LOSS, &as_share, IN_TROUBLE(query_loss_ppb), 0},
    {"answer-loss", "loss", SIM_STORE_ANSWER_LOSS, &as_share, IN_TROUBLE(answer_loss_ppb), 0},
    {"notification-loss", "loss", SIM_STORE_NOTIFICATION_LOSS, &as_share,
     IN_TROUBLE(notification_loss_ppb), 0},
    {"drift", "drift", SIM_STORE_DRIFT, &as_drift, IN_STORE(drift), 0},
};

static const char *const store_verbs[SIM_STORE_VERB_COUNT] = {
    [SIM_STORE_RESTART] = "restart", [SIM_STORE_DOWN] = "down", [SIM_STORE_UP] = "up",
    [SIM_STORE_CUT] = "cut",         [SIM_STORE_MEND] = "mend",
};

const struct sim_attribute_table sim_store_attributes = {
    "word about the store", store_rows, COUNT_OF(store_rows), store_verbs, COUNT_OF(store_verbs)};

/* ---- A message that waits -------------------------------------------------------------------- */

static int parse_type(struct sim_parser *p, const struct attribute *a, void *field)
{
    const struct cv_protocol *protocol = p->scenario->protocol;
    const char *word = sim_words_next(&p->words);
    struct sim_word_list known = {0};
    for (uint32_t i = 0; i < protocol->message_count; i++) {
        if (word != NULL && strcmp(protocol->messages[i].name, word) == 0) {
            *(const struct cv_message_type **)field = &protocol->messages[i];
            return CV_OK;
        }
        sim_word_list_add(&known, protocol->messages[i].name);
    }
    return sim_words_unknown(&p->words, a->what, word, known.text);
}

static void print_type(const void *field, FILE *out)
{
    (void)fprintf(out, " %s", (*(const struct cv_message_type *const *)field)->name);
}

static const struct attribute_type as_type = {parse_type, print_type, NULL};

static int parse_number(struct sim_parser *p, const struct attribute *a, void *field)
{
    const int error = parse_count(p, a, field);
    if (error == CV_OK && *(uint64_t *)field == 0) {
        return sim_words_fail(&p->words, "numbers begin at 1");
    }
    return error;
}

static const struct attribute_type as_number = {parse_number, print_count, NULL};

static int parse_nothing(struct sim_parser *p, const struct attribute *a, void *field)
{
    (void)p;
    (void)a;
    (void)field;
    return CV_OK;
}

static const struct attribute_type as_word = {parse_nothing, print_nothing, NULL};

#define IN_PICK(field) offsetof(struct sim_pick, field)
static const struct attribute pick_rows[] = {
    {"type", "type of message", SIM_PICK_TYPE, &as_type, IN_PICK(type), 0},
    {"sent", "time of sending", SIM_PICK_SENT, &as_time, IN_PICK(sent_ns), 0},
    {"number", "number", SIM_PICK_NUMBER, &as_number, IN_PICK(number), 0},
    {"witness", NULL, SIM_PICK_WITNESS, &as_word, 0, 0},
    {"again", NULL, SIM_PICK_AGAIN, &as_word, 0, 0},
};

const struct sim_attribute_table sim_pick_attributes = {"word about a message", pick_rows,
                                                        COUNT_OF(pick_rows), NULL, 0};

/* ---- Reading and writing --------------------------------------------------------------------- */

static int fail_unknown(struct sim_parser *p, const struct sim_attribute_table *table,
                        const char *word)
{
    struct sim_word_list known = {0};
    for (uint32_t i = 0; i < table->attribute_count; i++) {
        sim_word_list_add(&known, table->attribute[i].word);
    }
    for (uint32_t verb = 1; verb < table->verb_count; verb++) {
        sim_word_list_add(&known, table->verb[verb]);
    }
    return sim_words_unknown(&p->words, table->what, word, known.text);
}

static int parse_attribute(struct sim_parser *p, const struct sim_attribute_table *table,
                           uint8_t *change, uint32_t *mask)
{
    char buffer[SIM_WORD_BYTES];
    const char *key = sim_parse_key(p, buffer);
    const struct attribute *a = table->attribute;
    const struct attribute *end = a + table->attribute_count;
    while (a < end && strcmp(a->word, key) != 0) {
        a++;
    }
    if (a == end) {
        return fail_unknown(p, table, key);
    }
    const int error = a->type->parse(p, a, change + a->offset);
    if (error == CV_OK && (*mask & a->mask) != 0) {
        return sim_words_fail(&p->words, "this line sets the same attribute twice");
    }
    if (a->another_offset != 0) {
        memcpy(change + a->another_offset, change + a->offset, sizeof(int64_t));
    }
    *mask |= a->mask;
    return error;
}

int sim_attributes_parse(struct sim_parser *p, const struct sim_attribute_table *table,
                         void *change, uint32_t *mask)
{
    int error = CV_OK;
    const char *next;
    while (error == CV_OK && (next = sim_words_peek(&p->words)) != NULL &&
           strcmp(next, "for") != 0) {
        error = parse_attribute(p, table, change, mask);
    }
    return error;
}

void sim_attributes_print(const struct sim_attribute_table *table, const void *change,
                          uint32_t mask, FILE *out)
{
    for (uint32_t i = 0; i < table->attribute_count; i++) {
        const struct attribute *a = &table->attribute[i];
        const void *field = (const uint8_t *)change + a->offset;
        const bool is_short_form = a->another_offset != 0;
        if ((mask & a->mask) != 0 && !is_short_form &&
            (a->type->is_written == NULL || a->type->is_written(field))) {
            (void)fprintf(out, " %s", a->word);
            a->type->print(field, out);
        }
    }
}

uint32_t sim_verb_take(struct sim_parser *p, const struct sim_attribute_table *table)
{
    for (uint32_t verb = 1; verb < table->verb_count; verb++) {
        if (sim_words_take(&p->words, table->verb[verb])) {
            return verb;
        }
    }
    return 0;
}

const char *sim_verb_name(const struct sim_attribute_table *table, uint32_t verb)
{
    CV_ASSERT(verb >= 1 && verb < table->verb_count);
    return table->verb[verb];
}
