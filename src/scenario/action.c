/* src/scenario/action.c - reading and writing what happens: crash 3, link 1-2 down for 1s, ...
 */
#include "base/memory.h"
#include "core/duration.h"
#include "core/nodeset.h"
#include "scenario/parse.h"

#include <stdlib.h>
#include <string.h>

static const char *const input_names[] = {
#define CV_INPUT_TEXT(name, text) text,
    CV_INPUT_MAP(CV_INPUT_TEXT)
#undef CV_INPUT_TEXT
};

static const char *const overlay_names[] = {"loss", "slow", "duplicate", "reorder"};
static const char *const dist_names[] = {"constant", "uniform", "normal", "pareto"};

static void action_add(struct sim_parser *p, const struct sim_action *action)
{
    struct sim_scenario *s = p->scenario;
    s->action = cv__grow(s->action, &s->action_capacity, s->action_count, sizeof *s->action);
    s->action[s->action_count++] = *action;
}

/* The action is complete, if nothing was wrong so far and nothing follows. */
static int action_end(struct sim_parser *p, const struct sim_action *action, int error)
{
    if (error == CV_OK) {
        error = sim_words_end(&p->words);
    }
    if (error == CV_OK) {
        action_add(p, action);
    }
    return error;
}

/* `for TIME` at the end of an action that may last. */
static int parse_for(struct sim_parser *p, int64_t *ret_for_ns)
{
    if (!sim_words_take(&p->words, "for")) {
        return CV_OK;
    }
    const int error = sim_words_time(&p->words, "duration", ret_for_ns);
    if (error == CV_OK && *ret_for_ns == 0) {
        return sim_words_fail(&p->words, "a duration of nothing");
    }
    return error;
}

/* One action each for a list of nodes, or one for `leader`. */
static int parse_each_node(struct sim_parser *p, struct sim_action *action)
{
    uint64_t set[CV_MEMBERS_MAX / 64] = {0};
    int error;
    if (sim_words_take(&p->words, "leader")) {
        action->node = SIM_NODE_LEADER;
        error = CV_OK;
    } else {
        error = sim_parse_nodes(p, "for", set);
    }
    if (error == CV_OK) {
        error = parse_for(p, &action->for_ns);
    }
    const bool may_last = action->kind == SIM_ACTION_CRASH || action->kind == SIM_ACTION_PAUSE;
    if (error == CV_OK && action->for_ns > 0 && !may_last) {
        return sim_words_fail(&p->words, "only a crash or a pause lasts 'for' a time");
    }
    if (error == CV_OK && action->kind == SIM_ACTION_PAUSE && action->for_ns == 0) {
        (void)sim_words_next(&p->words);
        return sim_words_fail(&p->words, "say for how long: pause 2 for 300ms");
    }
    if (error == CV_OK) {
        error = sim_words_end(&p->words);
    }
    if (error != CV_OK) {
        return error;
    }
    if (action->node == SIM_NODE_LEADER) {
        action_add(p, action);
        return CV_OK;
    }
    for (cv_id id = 1; (id = cv__set_next(set, id, p->scenario->node_count)) != CV_ID_NONE; id++) {
        action->node = id;
        action_add(p, action);
    }
    return CV_OK;
}

/* partition 1 2 3 | 4 5: who is not named is in one more group of its own kind. */
static int parse_partition(struct sim_parser *p, struct sim_action *action)
{
    const uint32_t node_count = p->scenario->node_count;
    uint16_t *group = cv__allocate(node_count, sizeof *group);
    uint16_t number = 0;
    int error = CV_OK;
    do {
        uint64_t set[CV_MEMBERS_MAX / 64] = {0};
        number++;
        error = sim_parse_nodes(p, "| for", set);
        for (cv_id id = 1; error == CV_OK; id++) {
            id = cv__set_next(set, id, node_count);
            if (id == CV_ID_NONE) {
                break;
            }
            if (group[id - 1] != 0) {
                error = sim_words_fail(&p->words, "node %u is in two parts", id);
            }
            group[id - 1] = number;
        }
    } while (error == CV_OK && sim_words_take(&p->words, "|"));
    if (error == CV_OK && number == 1) {
        bool has_rest = false;
        for (uint32_t i = 0; i < node_count; i++) {
            has_rest = has_rest || group[i] == 0;
        }
        if (!has_rest) {
            (void)sim_words_next(&p->words);
            error = sim_words_fail(&p->words, "one part with all nodes is no partition");
        }
    }
    if (error == CV_OK) {
        error = parse_for(p, &action->for_ns);
    }
    if (error == CV_OK) {
        error = sim_words_end(&p->words);
    }
    if (error != CV_OK) {
        free(group);
        return error;
    }
    action->group = group;
    action_add(p, action);
    return CV_OK;
}

/* "3", or "*" as CV_ID_NONE; returns what follows it, or NULL. */
static const char *parse_endpoint(const char *text, uint32_t node_count, cv_id *ret_node)
{
    if (*text == '*') {
        *ret_node = CV_ID_NONE;
        return text + 1;
    }
    char *end;
    const unsigned long node = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || node < 1 || node > node_count) {
        return NULL;
    }
    *ret_node = (cv_id)node;
    return end;
}

static int parse_pair(struct sim_parser *p, struct sim_link_change *change)
{
    const uint32_t node_count = p->scenario->node_count;
    const char *text = sim_words_next(&p->words);
    const char *end = text != NULL ? parse_endpoint(text, node_count, &change->first) : NULL;
    if (end != NULL && *end == '\0' && change->first == CV_ID_NONE) {
        return CV_OK; /* '*' alone: every link */
    }
    if (end == NULL || (*end != '-' && *end != '>')) {
        return sim_words_fail(&p->words,
                              "'%s' is no link among nodes 1..%u; write 1-2, 1>2, 1-* or *",
                              text != NULL ? text : "", node_count);
    }
    change->is_one_way = *end == '>';
    end = parse_endpoint(end + 1, node_count, &change->second);
    if (end == NULL || *end != '\0') {
        return sim_words_fail(&p->words, "'%s' is no link among nodes 1..%u; write 1-2, 1>2 or *",
                              text, node_count);
    }
    if (change->first == change->second && change->first != CV_ID_NONE) {
        return sim_words_fail(&p->words, "a node has no link to itself");
    }
    return CV_OK;
}

static int parse_jitter(struct sim_parser *p, struct sim_link *link)
{
    const char *text = sim_words_peek(&p->words);
    if (text != NULL && strchr(text, '%') != NULL) {
        link->jitter_ns = 0;
        return sim_words_percent(&p->words, "jitter", &link->jitter_ppb);
    }
    link->jitter_ppb = 0;
    return sim_words_time(&p->words, "jitter", &link->jitter_ns);
}

static int parse_dist(struct sim_parser *p, struct sim_link *link)
{
    const char *text = sim_words_next(&p->words);
    for (uint32_t i = 0; text != NULL && i < COUNT_OF(dist_names); i++) {
        if (strcmp(dist_names[i], text) == 0) {
            link->dist = (enum sim_dist)i;
            return CV_OK;
        }
    }
    return sim_words_unknown(&p->words, "distribution", text, "constant uniform normal pareto");
}

static int parse_link_attribute(struct sim_parser *p, struct sim_link_change *change)
{
    char buffer[SIM_WORD_BYTES];
    struct sim_link *link = &change->link;
    const char *key = sim_parse_key(p, buffer);
    uint32_t attribute = 0;
    int error = CV_OK;
    if (strcmp(key, "delay") == 0) {
        attribute = SIM_LINK_DELAY;
        error = sim_words_time(&p->words, "delay", &link->delay_ns);
    } else if (strcmp(key, "jitter") == 0) {
        attribute = SIM_LINK_JITTER;
        error = parse_jitter(p, link);
    } else if (strcmp(key, "dist") == 0) {
        attribute = SIM_LINK_DIST;
        error = parse_dist(p, link);
    } else if (strcmp(key, "loss") == 0) {
        attribute = SIM_LINK_LOSS;
        error = sim_words_percent(&p->words, "loss", &link->loss_ppb);
    } else if (strcmp(key, "duplicate") == 0) {
        attribute = SIM_LINK_DUPLICATE;
        error = sim_words_percent(&p->words, "duplication", &link->duplicate_ppb);
    } else if (strcmp(key, "reorder") == 0) {
        attribute = SIM_LINK_REORDER;
        error = sim_words_percent(&p->words, "reordering", &link->reorder_ppb);
    } else if (strcmp(key, "down") == 0 || strcmp(key, "up") == 0) {
        attribute = SIM_LINK_DOWN;
        link->is_down = strcmp(key, "down") == 0;
    } else {
        return sim_words_unknown(&p->words, "attribute of a link", key,
                                 "delay jitter dist loss duplicate reorder down up");
    }
    if (error == CV_OK && (change->mask & attribute) != 0) {
        return sim_words_fail(&p->words, "this line says two things about the same attribute");
    }
    change->mask |= attribute;
    return error;
}

static int parse_link(struct sim_parser *p, struct sim_action *action)
{
    struct sim_link_change *change = &action->link;
    int error = parse_pair(p, change);
    const char *next;
    while (error == CV_OK && (next = sim_words_peek(&p->words)) != NULL &&
           strcmp(next, "for") != 0) {
        error = parse_link_attribute(p, change);
    }
    if (error == CV_OK) {
        error = parse_for(p, &action->for_ns);
    }
    if (error == CV_OK) {
        error = sim_words_end(&p->words);
    }
    if (error != CV_OK) {
        return error;
    }
    if (change->mask == 0) {
        return sim_words_fail(&p->words, "say what about this link: delay, loss, down, ...");
    }
    if (action->for_ns > 0 && (change->mask != SIM_LINK_DOWN || !change->link.is_down)) {
        return sim_words_fail(&p->words, "only 'down' can be 'for' a time");
    }
    const bool has_jitter = (change->mask & SIM_LINK_JITTER) != 0;
    const bool has_dist = (change->mask & SIM_LINK_DIST) != 0;
    if (has_jitter && has_dist && change->link.dist == SIM_DIST_CONSTANT) {
        return sim_words_fail(&p->words, "dist=constant and a jitter contradict each other");
    }
    if (has_jitter && !has_dist) {
        change->mask |= SIM_LINK_DIST;
        change->link.dist = SIM_DIST_UNIFORM;
    }
    action_add(p, action);
    return CV_OK;
}

static int parse_overlay(struct sim_parser *p, struct sim_action *action)
{
    int error = action->overlay == SIM_OVERLAY_SLOW
                    ? sim_words_time(&p->words, "delay", &action->value)
                    : sim_words_percent(&p->words, "share", &action->value);
    if (error == CV_OK) {
        error = parse_for(p, &action->for_ns);
    }
    return action_end(p, action, error);
}

/* 80ppm, -80ppm */
static int parse_ppm(struct sim_parser *p, int64_t *ret_ppb)
{
    const char *text = sim_words_next(&p->words);
    const bool is_negative = text != NULL && *text == '-';
    int64_t number;
    const char *end = text != NULL ? cv__decimal_parse(text + is_negative, &number) : NULL;
    if (end == NULL || strcmp(end, "ppm") != 0 || number > 500000 * SIM_PPB_ONE) {
        return sim_words_fail(&p->words, "a drift is written like 80ppm or -80ppm");
    }
    *ret_ppb = (is_negative ? -number : number) / 1000000;
    return CV_OK;
}

/* A node or `*` for all. */
static int parse_node_or_all(struct sim_parser *p, cv_id *ret_node)
{
    if (sim_words_take(&p->words, "*")) {
        *ret_node = CV_ID_NONE;
        return CV_OK;
    }
    return sim_parse_node(p, /* allow_leader= */ false, ret_node);
}

static int parse_clock(struct sim_parser *p, struct sim_action *action)
{
    int error = parse_node_or_all(p, &action->node);
    if (error == CV_OK) {
        error = sim_words_keyword(&p->words, "drift");
    }
    if (error == CV_OK) {
        action->flag = sim_words_take(&p->words, "random");
        error = parse_ppm(p, &action->value);
    }
    if (error == CV_OK && action->flag && action->value < 0) {
        return sim_words_fail(&p->words, "the bound of a random drift is not negative");
    }
    return action_end(p, action, error);
}

static int parse_disk(struct sim_parser *p, struct sim_action *action)
{
    int error = parse_node_or_all(p, &action->node);
    if (error != CV_OK) {
        return error;
    }
    const char *word = sim_words_next(&p->words);
    if (word != NULL && strcmp(word, "fails") == 0) {
        action->flag = true;
    } else if (word != NULL && strcmp(word, "delay") == 0) {
        error = sim_words_time(&p->words, "delay", &action->value);
    } else if (word == NULL || strcmp(word, "works") != 0) {
        return sim_words_unknown(&p->words, "word", word, "fails works delay");
    }
    return action_end(p, action, error);
}

static int parse_loss(struct sim_parser *p, int64_t *ret_query_ppb, int64_t *ret_answer_ppb)
{
    const int error = sim_words_percent(&p->words, "loss", ret_query_ppb);
    *ret_answer_ppb = *ret_query_ppb;
    return error;
}

static int parse_boots(struct sim_parser *p, uint64_t *ret_boots)
{
    if (sim_words_take(&p->words, "none")) {
        *ret_boots = 0;
        return CV_OK;
    }
    const int error = sim_words_count(&p->words, "number of boots", INT32_MAX, ret_boots);
    if (error == CV_OK && *ret_boots == 0) {
        return sim_words_fail(&p->words, "an agent has booted at least once; or write boots none");
    }
    return error;
}

static int parse_sequencer_attribute(struct sim_parser *p, struct sim_sequencer_change *change)
{
    char buffer[SIM_WORD_BYTES];
    const char *key = sim_parse_key(p, buffer);
    uint32_t attribute = 0;
    int error = CV_OK;
    if (strcmp(key, "delay") == 0) {
        attribute = SIM_SEQUENCER_DELAY;
        error = sim_words_time(&p->words, "delay", &change->delay_ns);
    } else if (strcmp(key, "serial") == 0) {
        attribute = SIM_SEQUENCER_SERIAL;
        error = sim_words_time(&p->words, "serial time", &change->serial_ns);
    } else if (strcmp(key, "loss") == 0) {
        attribute = SIM_SEQUENCER_QUERY_LOSS | SIM_SEQUENCER_ANSWER_LOSS;
        error = parse_loss(p, &change->query_loss_ppb, &change->answer_loss_ppb);
    } else if (strcmp(key, "query-loss") == 0) {
        attribute = SIM_SEQUENCER_QUERY_LOSS;
        error = sim_words_percent(&p->words, "loss", &change->query_loss_ppb);
    } else if (strcmp(key, "answer-loss") == 0) {
        attribute = SIM_SEQUENCER_ANSWER_LOSS;
        error = sim_words_percent(&p->words, "loss", &change->answer_loss_ppb);
    } else if (strcmp(key, "start") == 0) {
        attribute = SIM_SEQUENCER_START;
        error = sim_words_count(&p->words, "counter", UINT32_MAX, &change->start);
    } else if (strcmp(key, "boots") == 0) {
        attribute = SIM_SEQUENCER_BOOTS;
        error = parse_boots(p, &change->boots);
    } else {
        return sim_words_unknown(&p->words, "word about the sequencer", key,
                                 "delay serial loss query-loss answer-loss start boots reset wipe "
                                 "down up skip");
    }
    if (error == CV_OK && (change->mask & attribute) != 0) {
        return sim_words_fail(&p->words, "this line says two things about the same attribute");
    }
    change->mask |= attribute;
    return error;
}

static const char *const verb_names[SIM_SEQUENCER_VERB_COUNT] = {
    [SIM_SEQUENCER_RESET] = "reset", [SIM_SEQUENCER_WIPE] = "wipe", [SIM_SEQUENCER_DOWN] = "down",
    [SIM_SEQUENCER_UP] = "up",       [SIM_SEQUENCER_SKIP] = "skip",
};

/* sequencer delay 2ms loss 1% | reset | wipe | down | up | skip 7 */
static int parse_sequencer(struct sim_parser *p, struct sim_action *action)
{
    struct sim_sequencer_change *change = &action->sequencer;
    if (p->scenario->protocol->sequence_ns == NULL) {
        return sim_words_fail(&p->words, "protocol '%s' asks no sequencer",
                              p->scenario->protocol->name);
    }
    int error = CV_OK;
    for (uint32_t verb = SIM_SEQUENCER_RESET; verb < SIM_SEQUENCER_VERB_COUNT; verb++) {
        if (change->verb == SIM_SEQUENCER_SET && sim_words_take(&p->words, verb_names[verb])) {
            change->verb = (enum sim_sequencer_verb)verb;
        }
    }
    const char *next;
    if (change->verb == SIM_SEQUENCER_SKIP) {
        error = sim_words_count(&p->words, "how many numbers", UINT32_MAX, &change->skip);
    }
    while (change->verb == SIM_SEQUENCER_SET && error == CV_OK &&
           (next = sim_words_peek(&p->words)) != NULL && strcmp(next, "for") != 0) {
        error = parse_sequencer_attribute(p, change);
    }
    if (error == CV_OK) {
        error = parse_for(p, &action->for_ns);
    }
    if (error == CV_OK) {
        error = sim_words_end(&p->words);
    }
    if (error != CV_OK) {
        return error;
    }
    if (change->verb == SIM_SEQUENCER_SET && change->mask == 0) {
        return sim_words_fail(&p->words, "say what about the sequencer: delay, loss, reset, ...");
    }
    const uint32_t lasting = SIM_SEQUENCER_QUERY_LOSS | SIM_SEQUENCER_ANSWER_LOSS;
    const bool may_last = change->verb == SIM_SEQUENCER_DOWN ||
                          (change->verb == SIM_SEQUENCER_SET && (change->mask & ~lasting) == 0);
    if (action->for_ns > 0 && !may_last) {
        return sim_words_fail(&p->words, "only 'down' and losses can be 'for' a time");
    }
    action_add(p, action);
    return CV_OK;
}

static const char *const store_verb_names[SIM_STORE_VERB_COUNT] = {
    [SIM_STORE_RESTART] = "restart", [SIM_STORE_DOWN] = "down", [SIM_STORE_UP] = "up",
    [SIM_STORE_CUT] = "cut",         [SIM_STORE_MEND] = "mend",
};

static int parse_store_drift(struct sim_parser *p, struct sim_store_change *change)
{
    change->is_random = sim_words_take(&p->words, "random");
    const int error = parse_ppm(p, &change->drift_ppb);
    if (error == CV_OK && change->is_random && change->drift_ppb < 0) {
        return sim_words_fail(&p->words, "the bound of a random drift is not negative");
    }
    return error;
}

static int parse_store_attribute(struct sim_parser *p, struct sim_store_change *change)
{
    char buffer[SIM_WORD_BYTES];
    const char *key = sim_parse_key(p, buffer);
    struct sim_store_trouble *t = &change->trouble;
    uint32_t attribute = 0;
    int error = CV_OK;
    if (strcmp(key, "delay") == 0) {
        attribute = SIM_STORE_DELAY;
        error = sim_words_time(&p->words, "delay", &change->delay_ns);
    } else if (strcmp(key, "jitter") == 0) {
        attribute = SIM_STORE_JITTER;
        error = sim_words_time(&p->words, "jitter", &change->jitter_ns);
    } else if (strcmp(key, "query-delay") == 0) {
        attribute = SIM_STORE_QUERY_DELAY;
        error = sim_words_time(&p->words, "delay", &t->query_delay_ns);
    } else if (strcmp(key, "answer-delay") == 0) {
        attribute = SIM_STORE_ANSWER_DELAY;
        error = sim_words_time(&p->words, "delay", &t->answer_delay_ns);
    } else if (strcmp(key, "loss") == 0) {
        attribute = SIM_STORE_QUERY_LOSS | SIM_STORE_ANSWER_LOSS;
        error = parse_loss(p, &t->query_loss_ppb, &t->answer_loss_ppb);
    } else if (strcmp(key, "query-loss") == 0) {
        attribute = SIM_STORE_QUERY_LOSS;
        error = sim_words_percent(&p->words, "loss", &t->query_loss_ppb);
    } else if (strcmp(key, "answer-loss") == 0) {
        attribute = SIM_STORE_ANSWER_LOSS;
        error = sim_words_percent(&p->words, "loss", &t->answer_loss_ppb);
    } else if (strcmp(key, "news-loss") == 0) {
        attribute = SIM_STORE_NEWS_LOSS;
        error = sim_words_percent(&p->words, "loss", &t->news_loss_ppb);
    } else if (strcmp(key, "drift") == 0) {
        attribute = SIM_STORE_DRIFT;
        error = parse_store_drift(p, change);
    } else {
        return sim_words_unknown(&p->words, "word about the store", key,
                                 "delay jitter query-delay answer-delay loss query-loss "
                                 "answer-loss news-loss drift restart down up cut mend");
    }
    if (error == CV_OK && (change->mask & attribute) != 0) {
        return sim_words_fail(&p->words, "this line says two things about the same attribute");
    }
    change->mask |= attribute;
    return error;
}

/* store delay 2ms loss 1% | restart [extend] | down | up | cut 2 | mend 2 */
static int parse_store(struct sim_parser *p, struct sim_action *action)
{
    struct sim_store_change *change = &action->store;
    if (p->scenario->protocol->store_ns == NULL) {
        return sim_words_fail(&p->words, "protocol '%s' asks no store",
                              p->scenario->protocol->name);
    }
    for (uint32_t verb = SIM_STORE_RESTART; verb < SIM_STORE_VERB_COUNT; verb++) {
        if (change->verb == SIM_STORE_SET && sim_words_take(&p->words, store_verb_names[verb])) {
            change->verb = (enum sim_store_verb)verb;
        }
    }
    int error = CV_OK;
    const char *next;
    if (change->verb == SIM_STORE_CUT || change->verb == SIM_STORE_MEND) {
        const bool may_be_leader = change->verb == SIM_STORE_CUT && action->at_ns != SIM_SETUP;
        error = sim_parse_node(p, may_be_leader, &action->node);
    } else if (change->verb == SIM_STORE_RESTART) {
        change->extends = sim_words_take(&p->words, "extend");
    }
    while (change->verb == SIM_STORE_SET && error == CV_OK &&
           (next = sim_words_peek(&p->words)) != NULL && strcmp(next, "for") != 0) {
        error = parse_store_attribute(p, change);
    }
    if (error == CV_OK) {
        error = parse_for(p, &action->for_ns);
    }
    if (error == CV_OK) {
        error = sim_words_end(&p->words);
    }
    if (error != CV_OK) {
        return error;
    }
    if (change->verb == SIM_STORE_SET && change->mask == 0) {
        return sim_words_fail(&p->words, "say what about the store: delay, loss, restart, ...");
    }
    const bool is_trouble =
        change->verb == SIM_STORE_SET && (change->mask & ~(uint32_t)SIM_STORE_LASTING) == 0;
    const bool may_last =
        is_trouble || change->verb == SIM_STORE_DOWN || change->verb == SIM_STORE_CUT;
    if (action->for_ns > 0 && !may_last) {
        return sim_words_fail(&p->words, "only 'down', 'cut', losses, query-delay and "
                                         "answer-delay can be 'for' a time");
    }
    action_add(p, action);
    return CV_OK;
}

/* cost 0.4ms: every node handles one message after the other, and each takes so long. */
static int parse_cost(struct sim_parser *p, struct sim_action *action)
{
    int error = sim_words_time(&p->words, "cost of a message", &action->value);
    return action_end(p, action, error);
}

static int parse_resign(struct sim_parser *p, struct sim_action *action)
{
    int error = sim_parse_node(p, /* allow_leader= */ true, &action->node);
    if (error == CV_OK && sim_words_take(&p->words, "to")) {
        error = sim_parse_node(p, /* allow_leader= */ false, &action->other);
    }
    return action_end(p, action, error);
}

static int parse_campaign(struct sim_parser *p, struct sim_action *action)
{
    int error = sim_parse_node(p, /* allow_leader= */ false, &action->node);
    if (error != CV_OK) {
        return error;
    }
    const char *word = sim_words_next(&p->words);
    if (word == NULL || (strcmp(word, "on") != 0 && strcmp(word, "off") != 0)) {
        return sim_words_fail(&p->words, "write campaign %u on, or off", action->node);
    }
    action->flag = strcmp(word, "on") == 0;
    return action_end(p, action, CV_OK);
}

static int parse_report(struct sim_parser *p, struct sim_action *action)
{
    int error = sim_parse_node(p, /* allow_leader= */ false, &action->node);
    if (error != CV_OK) {
        return error;
    }
    const char *word = sim_words_next(&p->words);
    uint32_t input = 0;
    while (word != NULL && input < CV_INPUT_COUNT && strcmp(input_names[input], word) != 0) {
        input++;
    }
    if (word == NULL || input == CV_INPUT_COUNT) {
        return sim_words_unknown(&p->words, "score input", word,
                                 "history-length request-rate capacity load");
    }
    uint64_t value;
    action->input = (enum cv_input)input;
    error = sim_words_count(&p->words, "value", INT64_MAX, &value);
    if (error == CV_OK) {
        action->value = (int64_t)value;
        error = sim_words_end(&p->words);
    }
    if (error == CV_OK) {
        action_add(p, action);
    }
    return error;
}

/* peer-down 5 at 1 2: those nodes are told that 5 is dead. */
static int parse_peer_down(struct sim_parser *p, struct sim_action *action)
{
    uint64_t set[CV_MEMBERS_MAX / 64] = {0};
    int error = sim_parse_node(p, /* allow_leader= */ true, &action->other);
    action->flag = sim_words_take(&p->words, "certain");
    if (error == CV_OK) {
        error = sim_words_keyword(&p->words, "at");
    }
    if (error == CV_OK) {
        error = sim_parse_nodes(p, "", set);
    }
    for (cv_id id = 1; error == CV_OK; id++) {
        id = cv__set_next(set, id, p->scenario->node_count);
        if (id == CV_ID_NONE) {
            break;
        }
        action->node = id;
        action_add(p, action);
    }
    return error;
}

static int parse_heal(struct sim_parser *p, struct sim_action *action)
{
    return action_end(p, action, CV_OK);
}

static const struct {
    const char *word;
    enum sim_action_kind kind;
    int (*parse)(struct sim_parser *p, struct sim_action *action);
} actions[] = {
    {"crash", SIM_ACTION_CRASH, parse_each_node},
    {"recover", SIM_ACTION_RECOVER, parse_each_node},
    {"start", SIM_ACTION_RECOVER, parse_each_node},
    {"pause", SIM_ACTION_PAUSE, parse_each_node},
    {"resume", SIM_ACTION_RESUME, parse_each_node},
    {"partition", SIM_ACTION_PARTITION, parse_partition},
    {"heal", SIM_ACTION_HEAL, parse_heal},
    {"link", SIM_ACTION_LINK, parse_link},
    {"loss", SIM_ACTION_OVERLAY, parse_overlay},
    {"slow", SIM_ACTION_OVERLAY, parse_overlay},
    {"duplicate", SIM_ACTION_OVERLAY, parse_overlay},
    {"reorder", SIM_ACTION_OVERLAY, parse_overlay},
    {"clock", SIM_ACTION_CLOCK, parse_clock},
    {"disk", SIM_ACTION_DISK, parse_disk},
    {"cost", SIM_ACTION_COST, parse_cost},
    {"resign", SIM_ACTION_RESIGN, parse_resign},
    {"campaign", SIM_ACTION_CAMPAIGN, parse_campaign},
    {"report", SIM_ACTION_REPORT, parse_report},
    {"peer-down", SIM_ACTION_PEER_DOWN, parse_peer_down},
    {"sequencer", SIM_ACTION_SEQUENCER, parse_sequencer},
    {"store", SIM_ACTION_STORE, parse_store},
};

int sim_parse_action(struct sim_parser *p, int64_t at_ns)
{
    const char *word = sim_words_next(&p->words);
    struct sim_action action = {.at_ns = at_ns, .line = p->words.line};
    for (uint32_t i = 0; word != NULL && i < COUNT_OF(overlay_names); i++) {
        if (strcmp(overlay_names[i], word) == 0) {
            action.overlay = (enum sim_overlay)i;
        }
    }
    for (uint32_t i = 0; word != NULL && i < COUNT_OF(actions); i++) {
        if (strcmp(actions[i].word, word) == 0) {
            action.kind = actions[i].kind;
            return actions[i].parse(p, &action);
        }
    }
    return sim_words_unknown(&p->words, "action", word,
                             "crash recover start pause resume partition heal link loss slow "
                             "duplicate reorder clock disk cost resign campaign report peer-down "
                             "sequencer store");
}

/* ---- Writing ------------------------------------------------------------------------------- */

static void print_node(cv_id node, FILE *out)
{
    if (node == SIM_NODE_LEADER) {
        (void)fprintf(out, " leader");
    } else if (node == CV_ID_NONE) {
        (void)fprintf(out, " *");
    } else {
        (void)fprintf(out, " %u", node);
    }
}

static void print_share(int64_t ppb, FILE *out)
{
    (void)fprintf(out, " %g%%", (double)ppb / 1e7);
}

static void print_time(int64_t ns, FILE *out)
{
    char buffer[CV_DURATION_TEXT_BYTES];
    (void)fprintf(out, " %s", cv__duration_format(ns, buffer));
}

static void print_groups(const uint16_t *group, uint32_t node_count, FILE *out)
{
    uint16_t most = 0;
    for (uint32_t i = 0; i < node_count; i++) {
        most = group[i] > most ? group[i] : most;
    }
    for (uint32_t g = 1; g <= most; g++) {
        (void)fprintf(out, "%s", g > 1 ? " |" : "");
        for (uint32_t i = 0; i < node_count; i++) {
            if (group[i] == g) {
                (void)fprintf(out, " %u", i + 1);
            }
        }
    }
}

static void print_link(const struct sim_link_change *change, FILE *out)
{
    const struct sim_link *link = &change->link;
    char buffer[CV_DURATION_TEXT_BYTES];
    if (change->first == CV_ID_NONE && change->second == CV_ID_NONE) {
        (void)fprintf(out, " *");
    } else {
        (void)fprintf(out, " ");
        for (int end = 0; end < 2; end++) {
            const cv_id node = end == 0 ? change->first : change->second;
            if (node == CV_ID_NONE) {
                (void)fprintf(out, "*");
            } else {
                (void)fprintf(out, "%u", node);
            }
            (void)fprintf(out, "%s", end == 1 ? "" : change->is_one_way ? ">" : "-");
        }
    }
    if (change->mask & SIM_LINK_DELAY) {
        (void)fprintf(out, " delay %s", cv__duration_format(link->delay_ns, buffer));
    }
    if ((change->mask & SIM_LINK_JITTER) && link->jitter_ppb > 0) {
        (void)fprintf(out, " jitter %g%%", (double)link->jitter_ppb / 1e7);
    } else if (change->mask & SIM_LINK_JITTER) {
        (void)fprintf(out, " jitter %s", cv__duration_format(link->jitter_ns, buffer));
    }
    if (change->mask & SIM_LINK_DIST) {
        (void)fprintf(out, " dist=%s", dist_names[link->dist]);
    }
    if (change->mask & SIM_LINK_LOSS) {
        (void)fprintf(out, " loss %g%%", (double)link->loss_ppb / 1e7);
    }
    if (change->mask & SIM_LINK_DUPLICATE) {
        (void)fprintf(out, " duplicate %g%%", (double)link->duplicate_ppb / 1e7);
    }
    if (change->mask & SIM_LINK_REORDER) {
        (void)fprintf(out, " reorder %g%%", (double)link->reorder_ppb / 1e7);
    }
    if (change->mask & SIM_LINK_DOWN) {
        (void)fprintf(out, link->is_down ? " down" : " up");
    }
}

static void print_sequencer(const struct sim_sequencer_change *change, FILE *out)
{
    if (change->verb != SIM_SEQUENCER_SET) {
        (void)fprintf(out, " %s", verb_names[change->verb]);
    }
    if (change->verb == SIM_SEQUENCER_SKIP) {
        (void)fprintf(out, " %llu", (unsigned long long)change->skip);
    }
    if (change->mask & SIM_SEQUENCER_DELAY) {
        (void)fprintf(out, " delay");
        print_time(change->delay_ns, out);
    }
    if (change->mask & SIM_SEQUENCER_SERIAL) {
        (void)fprintf(out, " serial");
        print_time(change->serial_ns, out);
    }
    if (change->mask & SIM_SEQUENCER_QUERY_LOSS) {
        (void)fprintf(out, " query-loss");
        print_share(change->query_loss_ppb, out);
    }
    if (change->mask & SIM_SEQUENCER_ANSWER_LOSS) {
        (void)fprintf(out, " answer-loss");
        print_share(change->answer_loss_ppb, out);
    }
    if (change->mask & SIM_SEQUENCER_START) {
        (void)fprintf(out, " start %llu", (unsigned long long)change->start);
    }
    if ((change->mask & SIM_SEQUENCER_BOOTS) && change->boots == 0) {
        (void)fprintf(out, " boots none");
    } else if (change->mask & SIM_SEQUENCER_BOOTS) {
        (void)fprintf(out, " boots %llu", (unsigned long long)change->boots);
    }
}

static void print_store(const struct sim_action *action, FILE *out)
{
    const struct sim_store_change *change = &action->store;
    const struct sim_store_trouble *t = &change->trouble;
    const struct {
        uint32_t attribute;
        const char *word;
        int64_t value;
        bool is_share;
    } attributes[] = {
        {SIM_STORE_DELAY, "delay", change->delay_ns, false},
        {SIM_STORE_JITTER, "jitter", change->jitter_ns, false},
        {SIM_STORE_QUERY_DELAY, "query-delay", t->query_delay_ns, false},
        {SIM_STORE_ANSWER_DELAY, "answer-delay", t->answer_delay_ns, false},
        {SIM_STORE_QUERY_LOSS, "query-loss", t->query_loss_ppb, true},
        {SIM_STORE_ANSWER_LOSS, "answer-loss", t->answer_loss_ppb, true},
        {SIM_STORE_NEWS_LOSS, "news-loss", t->news_loss_ppb, true},
    };
    if (change->verb != SIM_STORE_SET) {
        (void)fprintf(out, " %s%s", store_verb_names[change->verb],
                      change->extends ? " extend" : "");
    }
    if (change->verb == SIM_STORE_CUT || change->verb == SIM_STORE_MEND) {
        print_node(action->node, out);
    }
    for (uint32_t i = 0; i < COUNT_OF(attributes); i++) {
        if (change->mask & attributes[i].attribute) {
            (void)fprintf(out, " %s", attributes[i].word);
            if (attributes[i].is_share) {
                print_share(attributes[i].value, out);
            } else {
                print_time(attributes[i].value, out);
            }
        }
    }
    if (change->mask & SIM_STORE_DRIFT) {
        (void)fprintf(out, " drift%s %gppm", change->is_random ? " random" : "",
                      (double)change->drift_ppb / 1e3);
    }
}

static const char *action_word(const struct sim_action *action)
{
    if (action->kind == SIM_ACTION_OVERLAY) {
        return overlay_names[action->overlay];
    }
    for (uint32_t i = 0; i < COUNT_OF(actions); i++) {
        if (actions[i].kind == action->kind) {
            return actions[i].word;
        }
    }
    return "?";
}

void sim_action_print(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    if (action->at_ns != SIM_SETUP) {
        char buffer[CV_DURATION_TEXT_BYTES];
        (void)fprintf(out, "at %s ", cv__duration_format(action->at_ns, buffer));
    }
    (void)fprintf(out, "%s", action_word(action));
    switch (action->kind) {
    case SIM_ACTION_PARTITION:
        print_groups(action->group, node_count, out);
        break;
    case SIM_ACTION_HEAL:
        break;
    case SIM_ACTION_SEQUENCER:
        print_sequencer(&action->sequencer, out);
        break;
    case SIM_ACTION_STORE:
        print_store(action, out);
        break;
    case SIM_ACTION_LINK:
        print_link(&action->link, out);
        break;
    case SIM_ACTION_OVERLAY:
        if (action->overlay == SIM_OVERLAY_SLOW) {
            print_time(action->value, out);
        } else {
            print_share(action->value, out);
        }
        break;
    case SIM_ACTION_COST:
        print_time(action->value, out);
        break;
    case SIM_ACTION_PEER_DOWN:
        print_node(action->other, out);
        (void)fprintf(out, action->flag ? " certain at" : " at");
        print_node(action->node, out);
        break;
    default:
        print_node(action->node, out);
        break;
    }
    if (action->kind == SIM_ACTION_CLOCK) {
        (void)fprintf(out, " drift%s %gppm", action->flag ? " random" : "",
                      (double)action->value / 1e3);
    } else if (action->kind == SIM_ACTION_DISK) {
        (void)fprintf(out, action->flag ? " fails" : action->value > 0 ? " delay" : " works");
        if (!action->flag && action->value > 0) {
            print_time(action->value, out);
        }
    } else if (action->kind == SIM_ACTION_CAMPAIGN) {
        (void)fprintf(out, action->flag ? " on" : " off");
    } else if (action->kind == SIM_ACTION_REPORT) {
        (void)fprintf(out, " %s %lld", input_names[action->input], (long long)action->value);
    } else if (action->kind == SIM_ACTION_RESIGN && action->other != CV_ID_NONE) {
        (void)fprintf(out, " to %u", action->other);
    }
    if (action->for_ns > 0) {
        (void)fprintf(out, " for");
        print_time(action->for_ns, out);
    }
}
