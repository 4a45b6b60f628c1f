/* src/sim/parse.h - what the files that read scenarios share; nobody else includes it. */
#ifndef CV_SIM_PARSE_H
#define CV_SIM_PARSE_H

#include "sim/scenario.h"
#include "sim/words.h"

struct cv_parser {
    struct cv_scenario *scenario;
    struct cv_words words;
    bool has_run;
};

/* A node by its number. With allow_leader also the word `leader` (CV_NODE_LEADER). */
CV_NODISCARD int cv__parse_node(struct cv_parser *p, bool allow_leader, cv_id *ret_node);

/* Nodes up to the end of the line or to one of the words in `stop`: 1 2 5..7 or *. They are added
 * to `set`. */
CV_NODISCARD int cv__parse_nodes(struct cv_parser *p, const char *stop, uint64_t *set);

/* key=value or key value: takes the key and leaves the value as the next word. */
const char *cv__parse_key(struct cv_parser *p, char buffer[CV_WORD_BYTES]);

/* What follows `at TIME`, or one of the actions that may stand alone (CV_SETUP). */
CV_NODISCARD int cv__parse_action(struct cv_parser *p, int64_t at_ns);

CV_NODISCARD int cv__parse_expect(struct cv_parser *p, const char *line, size_t length);

#endif
