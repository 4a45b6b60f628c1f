/* src/scenario/parse.h - declarations shared only by the files that read scenarios. */
#ifndef CV_SCENARIO_PARSE_H
#define CV_SCENARIO_PARSE_H

#include "scenario/scenario.h"
#include "scenario/words.h"

struct sim_parser {
    struct sim_scenario *scenario;
    struct sim_words words;
    bool has_run;
};

/* A node by its number. With allow_leader also the word `leader` (SIM_NODE_LEADER). */
CV_NODISCARD int sim_parse_node(struct sim_parser *p, bool allow_leader, cv_id *ret_node);

/* Nodes up to the end of the line or to one of the words in `stop`: 1 2 5..7 or *. They are added
 * to `set`. */
CV_NODISCARD int sim_parse_nodes(struct sim_parser *p, const char *stop, uint64_t *set);

/* key=value or key value: takes the key and leaves the value as the next word. */
const char *sim_parse_key(struct sim_parser *p, char buffer[SIM_WORD_BYTES]);

/* What follows `at TIME`, or one of the actions that may stand alone (SIM_SETUP). */
CV_NODISCARD int sim_parse_action(struct sim_parser *p, int64_t at_ns);

CV_NODISCARD int sim_parse_expect(struct sim_parser *p, const char *line, size_t length);

#endif
