/* src/scenario/action.c - reads and writes actions: crash 3, link 1-2 down for 1s, ... */
#include "base/memory.h"
#include "core/duration.h"
#include "core/nodeset.h"
#include "scenario/attribute.h"

#include <stdlib.h>
#include <string.h>

static const char *const input_names[] = {
#define CV_INPUT_TEXT(name, text) text,
    CV_INPUT_MAP(CV_INPUT_TEXT)
#undef CV_INPUT_TEXT
};

static void action_add(struct sim_parser *p, const struct sim_action *action)
{
    struct sim_scenario *s = p->scenario;
    s->action = cv__grow(s->action, &s->action_capacity, s->action_count, sizeof *s->action);
    s->action[s->action_count++] = *action;
}

/* Adds the action, if there was no error so far and the line ends here. */
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
        return sim_words_fail(&p->words, "the duration must be longer than 0");
    }
    return error;
}

/* Reads the rest of the line of an action that may last, if there was no error so far. */
static int parse_for_and_end(struct sim_parser *p, struct sim_action *action, int error)
{
    if (error == CV_OK) {
        error = parse_for(p, &action->for_ns);
    }
    return error == CV_OK ? sim_words_end(&p->words) : error;
}

/* What may follow the nodes of a crash or a recovery. */
static int parse_how(struct sim_parser *p, struct sim_action *action)
{
    if (action->kind == SIM_ACTION_CRASH) {
        action->is_witnessed = sim_words_take(&p->words, "witnessed");
        if (action->is_witnessed &&
            (p->scenario->protocol->is_anonymous || p->scenario->protocol->store_ns != NULL)) {
            return sim_words_fail(&p->words,
                                  "'witnessed' is for protocols among peers; '%s' has no witnesses",
                                  p->scenario->protocol->name);
        }
    }
    if (action->kind == SIM_ACTION_RECOVER && sim_words_take(&p->words, "back")) {
        const int error = sim_words_time(&p->words, "time", &action->back_ns);
        if (error == CV_OK && (action->back_ns == 0 || action->back_ns > NS_PER_S)) {
            return sim_words_fail(&p->words, "a clock goes back by more than 0s, up to 1s");
        }
        return error;
    }
    return CV_OK;
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
        error = sim_parse_nodes(p, "for witnessed back", set);
    }
    if (error == CV_OK) {
        error = parse_how(p, action);
    }
    if (error == CV_OK) {
        error = parse_for(p, &action->for_ns);
    }
    const bool must_last = action->kind == SIM_ACTION_PAUSE || action->kind == SIM_ACTION_REBOOT;
    if (error == CV_OK && action->for_ns > 0 && !must_last && action->kind != SIM_ACTION_CRASH) {
        return sim_words_fail(&p->words, "'for' is only for a crash, a reboot or a pause");
    }
    if (error == CV_OK && must_last && action->for_ns == 0) {
        (void)sim_words_next(&p->words);
        return sim_words_fail(&p->words, "say for how long: %s 2 for 300ms",
                              action->kind == SIM_ACTION_PAUSE ? "pause" : "reboot");
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

/* partition 1 2 3 | 4 5: nodes that are not named form one more part. */
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
            error = sim_words_fail(&p->words, "one part with all nodes is not a partition");
        }
    }
    error = parse_for_and_end(p, action, error);
    if (error != CV_OK) {
        free(group);
        return error;
    }
    action->group = group;
    action_add(p, action);
    return CV_OK;
}

/* "3", or "*" as CV_ID_NONE; returns the text after it, or NULL. */
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
                              "'%s' is not a link among nodes 1..%u; write 1-2, 1>2, 1-* or *",
                              text != NULL ? text : "", node_count);
    }
    change->is_one_way = *end == '>';
    end = parse_endpoint(end + 1, node_count, &change->second);
    if (end == NULL || *end != '\0') {
        return sim_words_fail(&p->words,
                              "'%s' is not a link among nodes 1..%u; write 1-2, 1>2 or *", text,
                              node_count);
    }
    if (change->first == change->second && change->first != CV_ID_NONE) {
        return sim_words_fail(&p->words, "a node has no link to itself");
    }
    return CV_OK;
}

static int parse_link(struct sim_parser *p, struct sim_action *action)
{
    struct sim_link_change *change = &action->link;
    int error = parse_pair(p, change);
    if (error == CV_OK) {
        error = sim_attributes_parse(p, &sim_link_attributes, change, &change->mask);
    }
    error = parse_for_and_end(p, action, error);
    if (error != CV_OK) {
        return error;
    }
    if (change->mask == 0) {
        return sim_words_fail(&p->words,
                              "write what to change about this link: delay, loss, down, ...");
    }
    if (action->for_ns > 0 && (change->mask != SIM_LINK_DOWN || !change->link.is_down)) {
        return sim_words_fail(&p->words, "'for' is only for 'down'");
    }
    const bool has_jitter = (change->mask & SIM_LINK_JITTER) != 0;
    const bool has_dist = (change->mask & SIM_LINK_DIST) != 0;
    if (has_jitter && has_dist && change->link.dist == SIM_DIST_CONSTANT) {
        return sim_words_fail(&p->words, "dist=constant does not allow a jitter");
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
    int error = action->overlay.kind == SIM_OVERLAY_SLOW
                    ? sim_words_time(&p->words, "delay", &action->overlay.amount)
                    : sim_words_percent(&p->words, "share", &action->overlay.amount);
    if (error == CV_OK) {
        error = parse_for(p, &action->for_ns);
    }
    return action_end(p, action, error);
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
        error = sim_parse_drift(p, &action->clock);
    }
    return action_end(p, action, error);
}

static const char *const save_names[SIM_SAVE_COUNT] = {
    [SIM_SAVE_WELL] = "well",       [SIM_SAVE_SLOW] = "slow",
    [SIM_SAVE_FAILS] = "fails",     [SIM_SAVE_FAILS_DURABLE] = "fails-durable",
    [SIM_SAVE_CRASHES] = "crashes",
};

/* How a record is saved, or how a slow save ends; without a word: well. */
static int parse_save(struct sim_parser *p, struct sim_action *action)
{
    uint32_t save = SIM_SAVE_WELL;
    if (action->disk.verb == SIM_DISK_NEXT || sim_words_peek(&p->words) != NULL) {
        const int error =
            sim_words_choice(&p->words, "way to save", save_names, SIM_SAVE_COUNT, &save);
        if (error != CV_OK) {
            return error;
        }
    }
    action->disk.save = (enum sim_save)save;
    if (action->disk.verb == SIM_DISK_DONE && save == SIM_SAVE_SLOW) {
        return sim_words_fail(&p->words,
                              "a save that is done cannot be slow; write well, fails, ...");
    }
    if (action->at_ns == SIM_SETUP || action->node == CV_ID_NONE) {
        return sim_words_fail(&p->words, "this needs a time and one node: at 1s disk 2 %s ...",
                              action->disk.verb == SIM_DISK_NEXT ? "next" : "done");
    }
    return CV_OK;
}

static int parse_timers(struct sim_parser *p, struct sim_action *action)
{
    int error = parse_node_or_all(p, &action->node);
    if (error == CV_OK) {
        error = sim_words_keyword(&p->words, "late");
    }
    if (error == CV_OK) {
        error = sim_words_time(&p->words, "lateness", &action->late_ns);
    }
    return action_end(p, action, error);
}

static int parse_disk(struct sim_parser *p, struct sim_action *action)
{
    int error = parse_node_or_all(p, &action->node);
    if (error != CV_OK) {
        return error;
    }
    enum { FAILS, WORKS, DELAY, NEXT, DONE };
    static const char *const names[] = {
        [FAILS] = "fails", [WORKS] = "works", [DELAY] = "delay", [NEXT] = "next", [DONE] = "done"};
    uint32_t word = WORKS;
    error = sim_words_choice(&p->words, "word", names, COUNT_OF(names), &word);
    if (error == CV_OK && word == DELAY) {
        error = sim_words_time(&p->words, "delay", &action->disk.delay_ns);
    }
    if (error == CV_OK && (word == NEXT || word == DONE)) {
        action->disk.verb = word == NEXT ? SIM_DISK_NEXT : SIM_DISK_DONE;
        error = parse_save(p, action);
    }
    action->disk.fails = error == CV_OK && word == FAILS;
    return action_end(p, action, error);
}

/* cut 2 [queries|answers], mend 2: of the sequencer or the store. */
static int parse_cut(struct sim_parser *p, bool is_cut, struct sim_action *action,
                     uint32_t *ret_cut)
{
    const bool may_be_leader = is_cut && action->at_ns != SIM_SETUP;
    const int error = sim_parse_node(p, may_be_leader, &action->node);
    if (error == CV_OK && is_cut) {
        *ret_cut = sim_words_take(&p->words, "queries")   ? SIM_CUT_QUERIES
                   : sim_words_take(&p->words, "answers") ? SIM_CUT_ANSWERS
                                                          : SIM_CUT_BOTH;
    }
    return error;
}

/* sequencer delay 2ms loss 1% | reset | wipe | down | up | skip 7 | cut 2 | mend 2 */
static int parse_sequencer(struct sim_parser *p, struct sim_action *action)
{
    struct sim_sequencer_change *change = &action->sequencer;
    if (p->scenario->protocol->sequence_ns == NULL) {
        return sim_words_fail(&p->words, "protocol '%s' does not use a sequencer",
                              p->scenario->protocol->name);
    }
    const struct sim_attribute_table *table = &sim_sequencer_attributes;
    change->verb = (enum sim_sequencer_verb)sim_verb_take(p, table);
    int error = CV_OK;
    if (change->verb == SIM_SEQUENCER_CUT || change->verb == SIM_SEQUENCER_MEND) {
        error = parse_cut(p, change->verb == SIM_SEQUENCER_CUT, action, &change->cut);
    } else if (change->verb == SIM_SEQUENCER_SKIP) {
        error = sim_words_count(&p->words, "count of numbers", UINT32_MAX, &change->skip);
    } else if (change->verb == SIM_SEQUENCER_SET) {
        error = sim_attributes_parse(p, table, change, &change->mask);
    }
    error = parse_for_and_end(p, action, error);
    if (error != CV_OK) {
        return error;
    }
    if (change->verb == SIM_SEQUENCER_SET && change->mask == 0) {
        return sim_words_fail(&p->words,
                              "write what to change about the sequencer: delay, loss, reset, ...");
    }
    const uint32_t lasting = SIM_SEQUENCER_QUERY_LOSS | SIM_SEQUENCER_ANSWER_LOSS;
    const bool may_last = change->verb == SIM_SEQUENCER_DOWN || change->verb == SIM_SEQUENCER_CUT ||
                          (change->verb == SIM_SEQUENCER_SET && (change->mask & ~lasting) == 0);
    if (action->for_ns > 0 && !may_last) {
        return sim_words_fail(&p->words, "'for' is only for 'down', 'cut' and losses");
    }
    action_add(p, action);
    return CV_OK;
}

/* store delay 2ms loss 1% | restart [extend|silent] | down | up | cut 2 | mend 2 */
static int parse_store(struct sim_parser *p, struct sim_action *action)
{
    struct sim_store_change *change = &action->store;
    if (p->scenario->protocol->store_ns == NULL) {
        return sim_words_fail(&p->words, "protocol '%s' does not use a store",
                              p->scenario->protocol->name);
    }
    const struct sim_attribute_table *table = &sim_store_attributes;
    change->verb = (enum sim_store_verb)sim_verb_take(p, table);
    int error = CV_OK;
    if (change->verb == SIM_STORE_CUT || change->verb == SIM_STORE_MEND) {
        error = parse_cut(p, change->verb == SIM_STORE_CUT, action, &change->cut);
    } else if (change->verb == SIM_STORE_RESTART) {
        change->extends = sim_words_take(&p->words, "extend");
        change->is_silent = !change->extends && sim_words_take(&p->words, "silent");
    } else if (change->verb == SIM_STORE_SET) {
        error = sim_attributes_parse(p, table, change, &change->mask);
    }
    error = parse_for_and_end(p, action, error);
    if (error != CV_OK) {
        return error;
    }
    if (change->verb == SIM_STORE_SET && change->mask == 0) {
        return sim_words_fail(&p->words,
                              "write what to change about the store: delay, loss, restart, ...");
    }
    const bool is_trouble =
        change->verb == SIM_STORE_SET && (change->mask & ~(uint32_t)SIM_STORE_LASTING) == 0;
    const bool may_last =
        is_trouble || change->verb == SIM_STORE_DOWN || change->verb == SIM_STORE_CUT;
    if (action->for_ns > 0 && !may_last) {
        return sim_words_fail(&p->words, "'for' is only for 'down', 'cut', losses, query-delay and "
                                         "answer-delay");
    }
    action_add(p, action);
    return CV_OK;
}

/* cost 0.4ms: every node handles one message after the other, and each takes so long. */
static int parse_cost(struct sim_parser *p, struct sim_action *action)
{
    int error = sim_words_time(&p->words, "cost of a message", &action->cost_ns);
    return action_end(p, action, error);
}

static int parse_resign(struct sim_parser *p, struct sim_action *action)
{
    int error = sim_parse_node(p, /* allow_leader= */ true, &action->node);
    if (error == CV_OK && sim_words_take(&p->words, "to")) {
        error = sim_parse_node(p, /* allow_leader= */ false, &action->resign.to);
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
    action->campaign.is_on = strcmp(word, "on") == 0;
    return action_end(p, action, CV_OK);
}

static int parse_report(struct sim_parser *p, struct sim_action *action)
{
    int error = sim_parse_node(p, /* allow_leader= */ false, &action->node);
    if (error != CV_OK) {
        return error;
    }
    uint32_t input;
    uint64_t value = 0;
    error = sim_words_choice(&p->words, "score input", input_names, CV_INPUT_COUNT, &input);
    if (error == CV_OK) {
        error = sim_words_count(&p->words, "value", INT64_MAX, &value);
        action->report.input = (enum cv_input)input;
        action->report.value = (int64_t)value;
    }
    return action_end(p, action, error);
}

/* peer-down 5 at 1 2: those nodes are told that 5 is dead. */
static int parse_peer_down(struct sim_parser *p, struct sim_action *action)
{
    uint64_t set[CV_MEMBERS_MAX / 64] = {0};
    int error = sim_parse_node(p, /* allow_leader= */ true, &action->peer_down.peer);
    action->peer_down.is_certain = sim_words_take(&p->words, "certain");
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

/* These actions need `manual`: otherwise timers and messages happen by themselves. */
static int check_manual(struct sim_parser *p)
{
    return p->scenario->is_manual
               ? CV_OK
               : sim_words_fail(&p->words, "timers fire and messages arrive by themselves; write "
                                           "'manual' above to let them wait");
}

static int parse_fire(struct sim_parser *p, struct sim_action *action)
{
    uint64_t timer = 0;
    int error = check_manual(p);
    if (error == CV_OK) {
        error = sim_parse_node(p, /* allow_leader= */ false, &action->node);
    }
    if (error == CV_OK) {
        error = sim_words_count(&p->words, "timer", CV_TIMERS_MAX - 1, &timer);
    }
    action->timer = (uint32_t)timer;
    return action_end(p, action, error);
}

static const char *service_name(const struct cv_protocol *protocol)
{
    return protocol->store_ns != NULL ? "store" : protocol->sequence_ns != NULL ? "sequencer" : "";
}

/* One end of a path: a node, the store or the sequencer; returns the text after it, or NULL. */
static const char *parse_way_end(const struct sim_parser *p, const char *text, cv_id *ret_node)
{
    const char *service = service_name(p->scenario->protocol);
    const size_t length = strlen(service);
    if (length > 0 && strncmp(text, service, length) == 0) {
        *ret_node = SIM_NODE_SERVICE;
        return text + length;
    }
    return *text == '*' ? NULL : parse_endpoint(text, p->scenario->node_count, ret_node);
}

/* deliver 1>2 type HEARTBEAT sent 3ms again; the same of lose and late */
static int parse_pick(struct sim_parser *p, struct sim_action *action)
{
    struct sim_pick *pick = &action->pick;
    int error = check_manual(p);
    if (error != CV_OK) {
        return error;
    }
    pick->is_of_store = p->scenario->protocol->store_ns != NULL;
    const char *text = sim_words_next(&p->words);
    const char *end = text != NULL ? parse_way_end(p, text, &pick->from) : NULL;
    end = end != NULL && *end == '>' ? parse_way_end(p, end + 1, &pick->to) : NULL;
    if (end == NULL || *end != '\0' || pick->from == pick->to) {
        const char *service = service_name(p->scenario->protocol);
        return sim_words_fail(&p->words, "'%s' is not a path among nodes 1..%u; write 1>2%s%s",
                              text != NULL ? text : "", p->scenario->node_count,
                              *service != '\0' ? " or 1>" : "", service);
    }
    error = sim_attributes_parse(p, &sim_pick_attributes, pick, &pick->mask);
    if (error == CV_OK && (pick->mask & SIM_PICK_AGAIN) != 0 &&
        action->kind != SIM_ACTION_DELIVER) {
        return sim_words_fail(&p->words, "'again' is only for deliver");
    }
    return action_end(p, action, error);
}

/* ---- Writing --------------------------------------------------------------------------------- */

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

static void print_each_node(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)node_count;
    print_node(action->node, out);
    if (action->kind == SIM_ACTION_CRASH && action->is_witnessed) {
        (void)fprintf(out, " witnessed");
    }
    if (action->kind == SIM_ACTION_RECOVER && action->back_ns > 0) {
        (void)fprintf(out, " back");
        sim_print_time(action->back_ns, out);
    }
}

static void print_partition(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    const uint16_t *group = action->group;
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

static void print_heal(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)action;
    (void)node_count;
    (void)out;
}

static void print_endpoint(cv_id node, const char *what_follows, FILE *out)
{
    if (node == CV_ID_NONE) {
        (void)fprintf(out, "*%s", what_follows);
    } else {
        (void)fprintf(out, "%u%s", node, what_follows);
    }
}

static void print_link(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    const struct sim_link_change *change = &action->link;
    (void)node_count;
    (void)fprintf(out, " ");
    if (change->first != CV_ID_NONE || change->second != CV_ID_NONE) {
        print_endpoint(change->first, change->is_one_way ? ">" : "-", out);
    }
    print_endpoint(change->second, "", out);
    sim_attributes_print(&sim_link_attributes, change, change->mask, out);
}

static void print_overlay(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)node_count;
    if (action->overlay.kind == SIM_OVERLAY_SLOW) {
        sim_print_time(action->overlay.amount, out);
    } else {
        sim_print_share(action->overlay.amount, out);
    }
}

static void print_clock(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)node_count;
    print_node(action->node, out);
    (void)fprintf(out, " drift");
    sim_print_drift(&action->clock, out);
}

static void print_timers(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)node_count;
    print_node(action->node, out);
    (void)fprintf(out, " late");
    sim_print_time(action->late_ns, out);
}

static void print_disk(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)node_count;
    print_node(action->node, out);
    if (action->disk.verb != SIM_DISK_SET) {
        const bool is_next = action->disk.verb == SIM_DISK_NEXT;
        (void)fprintf(out, is_next ? " next" : " done");
        if (is_next || action->disk.save != SIM_SAVE_WELL) {
            (void)fprintf(out, " %s", save_names[action->disk.save]);
        }
    } else if (action->disk.fails) {
        (void)fprintf(out, " fails");
    } else if (action->disk.delay_ns > 0) {
        (void)fprintf(out, " delay");
        sim_print_time(action->disk.delay_ns, out);
    } else {
        (void)fprintf(out, " works");
    }
}

static void print_cost(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)node_count;
    sim_print_time(action->cost_ns, out);
}

static void print_resign(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)node_count;
    print_node(action->node, out);
    if (action->resign.to != CV_ID_NONE) {
        (void)fprintf(out, " to %u", action->resign.to);
    }
}

static void print_campaign(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)node_count;
    print_node(action->node, out);
    (void)fprintf(out, action->campaign.is_on ? " on" : " off");
}

static void print_report(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)node_count;
    print_node(action->node, out);
    (void)fprintf(out, " %s %lld", input_names[action->report.input],
                  (long long)action->report.value);
}

static void print_peer_down(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)node_count;
    print_node(action->peer_down.peer, out);
    (void)fprintf(out, action->peer_down.is_certain ? " certain at" : " at");
    print_node(action->node, out);
}

static void print_cut(cv_id node, uint32_t cut, FILE *out)
{
    print_node(node, out);
    (void)fprintf(out, "%s",
                  cut == SIM_CUT_QUERIES   ? " queries"
                  : cut == SIM_CUT_ANSWERS ? " answers"
                                           : "");
}

static void print_sequencer(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    const struct sim_sequencer_change *change = &action->sequencer;
    (void)node_count;
    if (change->verb != SIM_SEQUENCER_SET) {
        (void)fprintf(out, " %s", sim_verb_name(&sim_sequencer_attributes, change->verb));
    }
    if (change->verb == SIM_SEQUENCER_SKIP) {
        (void)fprintf(out, " %llu", (unsigned long long)change->skip);
    }
    if (change->verb == SIM_SEQUENCER_CUT || change->verb == SIM_SEQUENCER_MEND) {
        print_cut(action->node, change->cut, out);
    }
    sim_attributes_print(&sim_sequencer_attributes, change, change->mask, out);
}

static void print_store(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    const struct sim_store_change *change = &action->store;
    (void)node_count;
    if (change->verb != SIM_STORE_SET) {
        (void)fprintf(out, " %s%s%s", sim_verb_name(&sim_store_attributes, change->verb),
                      change->extends ? " extend" : "", change->is_silent ? " silent" : "");
    }
    if (change->verb == SIM_STORE_CUT || change->verb == SIM_STORE_MEND) {
        print_cut(action->node, change->cut, out);
    }
    sim_attributes_print(&sim_store_attributes, change, change->mask, out);
}

static void print_fire(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)node_count;
    print_node(action->node, out);
    (void)fprintf(out, " %u", action->timer);
}

static void print_way_end(cv_id node, FILE *out, const char *service)
{
    if (node == SIM_NODE_SERVICE) {
        (void)fprintf(out, "%s", service);
    } else {
        (void)fprintf(out, "%u", node);
    }
}

static void print_pick(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    (void)node_count;
    const char *service = action->pick.is_of_store ? "store" : "sequencer";
    (void)fprintf(out, " ");
    print_way_end(action->pick.from, out, service);
    (void)fprintf(out, ">");
    print_way_end(action->pick.to, out, service);
    sim_attributes_print(&sim_pick_attributes, &action->pick, action->pick.mask, out);
}

/* ---- One row for each word ------------------------------------------------------------------- */

static const struct {
    const char *word;
    enum sim_action_kind kind;
    int (*parse)(struct sim_parser *p, struct sim_action *action);
    void (*print)(const struct sim_action *action, uint32_t node_count, FILE *out);
    enum sim_overlay overlay; /* OVERLAY: its kind */
} actions[] = {
    {"crash", SIM_ACTION_CRASH, parse_each_node, print_each_node, 0},
    {"reboot", SIM_ACTION_REBOOT, parse_each_node, print_each_node, 0},
    {"recover", SIM_ACTION_RECOVER, parse_each_node, print_each_node, 0},
    {"start", SIM_ACTION_RECOVER, parse_each_node, print_each_node, 0},
    {"pause", SIM_ACTION_PAUSE, parse_each_node, print_each_node, 0},
    {"resume", SIM_ACTION_RESUME, parse_each_node, print_each_node, 0},
    {"partition", SIM_ACTION_PARTITION, parse_partition, print_partition, 0},
    {"heal", SIM_ACTION_HEAL, parse_heal, print_heal, 0},
    {"link", SIM_ACTION_LINK, parse_link, print_link, 0},
    {"loss", SIM_ACTION_OVERLAY, parse_overlay, print_overlay, SIM_OVERLAY_LOSS},
    {"slow", SIM_ACTION_OVERLAY, parse_overlay, print_overlay, SIM_OVERLAY_SLOW},
    {"duplicate", SIM_ACTION_OVERLAY, parse_overlay, print_overlay, SIM_OVERLAY_DUPLICATE},
    {"reorder", SIM_ACTION_OVERLAY, parse_overlay, print_overlay, SIM_OVERLAY_REORDER},
    {"clock", SIM_ACTION_CLOCK, parse_clock, print_clock, 0},
    {"disk", SIM_ACTION_DISK, parse_disk, print_disk, 0},
    {"timers", SIM_ACTION_TIMERS, parse_timers, print_timers, 0},
    {"cost", SIM_ACTION_COST, parse_cost, print_cost, 0},
    {"resign", SIM_ACTION_RESIGN, parse_resign, print_resign, 0},
    {"campaign", SIM_ACTION_CAMPAIGN, parse_campaign, print_campaign, 0},
    {"report", SIM_ACTION_REPORT, parse_report, print_report, 0},
    {"peer-down", SIM_ACTION_PEER_DOWN, parse_peer_down, print_peer_down, 0},
    {"sequencer", SIM_ACTION_SEQUENCER, parse_sequencer, print_sequencer, 0},
    {"store", SIM_ACTION_STORE, parse_store, print_store, 0},
    {"fire", SIM_ACTION_FIRE, parse_fire, print_fire, 0},
    {"deliver", SIM_ACTION_DELIVER, parse_pick, print_pick, 0},
    {"lose", SIM_ACTION_LOSE, parse_pick, print_pick, 0},
    {"late", SIM_ACTION_LATE, parse_pick, print_pick, 0},
};

int sim_parse_action(struct sim_parser *p, int64_t at_ns)
{
    const char *word = sim_words_next(&p->words);
    struct sim_action action = {.at_ns = at_ns, .line = p->words.line};
    struct sim_word_list known = {0};
    for (uint32_t i = 0; i < COUNT_OF(actions); i++) {
        if (word != NULL && strcmp(actions[i].word, word) == 0) {
            action.kind = actions[i].kind;
            if (action.kind == SIM_ACTION_OVERLAY) {
                action.overlay.kind = actions[i].overlay;
            }
            return actions[i].parse(p, &action);
        }
        sim_word_list_add(&known, actions[i].word);
    }
    return sim_words_unknown(&p->words, "action", word, known.text);
}

void sim_action_print(const struct sim_action *action, uint32_t node_count, FILE *out)
{
    uint32_t row = 0;
    while (actions[row].kind != action->kind ||
           (action->kind == SIM_ACTION_OVERLAY && actions[row].overlay != action->overlay.kind)) {
        row++;
        CV_ASSERT(row < COUNT_OF(actions));
    }
    if (action->at_ns != SIM_SETUP) {
        char buffer[CV_DURATION_TEXT_BYTES];
        (void)fprintf(out, "at %s ", cv__duration_format(action->at_ns, buffer));
    }
    (void)fprintf(out, "%s", actions[row].word);
    actions[row].print(action, node_count, out);
    if (action->for_ns > 0) {
        (void)fprintf(out, " for");
        sim_print_time(action->for_ns, out);
    }
}
