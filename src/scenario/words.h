/* src/scenario/words.h - one line of a scenario as words, and errors that point at one of them. */
#ifndef CV_SCENARIO_WORDS_H
#define CV_SCENARIO_WORDS_H

#include "core/types.h"

#define SIM_WORDS_MAX 4200u /* for `expect leader 1 by 1s at` with every node listed */
#define SIM_WORD_BYTES 128u

/* The longest time in a scenario: sums of several such times do not overflow. */
#define SIM_TIME_MAX_NS (30 * 24 * 3600 * NS_PER_S)

struct sim_word {
    uint32_t column; /* from 1 */
    char text[SIM_WORD_BYTES];
};

struct sim_words {
    const char *name; /* of the file */
    uint32_t line;    /* from 1 */
    uint32_t count, next;
    uint32_t end_column;
    struct sim_word *word; /* SIM_WORDS_MAX */
    struct cv_errtext *reterr;
};

/* Splits a line at blanks; '#' begins a comment. Returns CV_OK or CV_E_MALFORMED. */
CV_NODISCARD int sim_words_split(struct sim_words *words, const char *line, size_t length);

/* The next word, or NULL at the end. `peek` does not take it. */
const char *sim_words_next(struct sim_words *words);
const char *sim_words_peek(const struct sim_words *words);

/* Takes the next word if it is this one. */
bool sim_words_take(struct sim_words *words, const char *text);

/* "name:line:column: ..." pointing at the word taken last (or at the end, if there was none left);
 * returns CV_E_MALFORMED. */
int sim_words_fail(const struct sim_words *words, const char *format, ...) CV_PRINTF(2, 3);

/* The same for a word that is not in `known` (separated by blanks): suggests the nearest. */
int sim_words_unknown(const struct sim_words *words, const char *what, const char *text,
                      const char *known);

/* Words for a hint, separated by blanks; those that do not fit are left out. */
struct sim_word_list {
    char text[256];
    size_t length;
};
void sim_word_list_add(struct sim_word_list *list, const char *word);

/* Takes the next word, which must be one of `names`, and returns its index. */
CV_NODISCARD int sim_words_choice(struct sim_words *words, const char *what,
                                  const char *const *names, uint32_t name_count,
                                  uint32_t *ret_index);

/* Values; each takes the next word and fails with a hint. */
CV_NODISCARD int sim_words_time(struct sim_words *words, const char *what, int64_t *ret_ns);
CV_NODISCARD int sim_words_count(struct sim_words *words, const char *what, uint64_t max,
                                 uint64_t *ret_count);
CV_NODISCARD int sim_words_percent(struct sim_words *words, const char *what, int64_t *ret_ppb);
CV_NODISCARD int sim_words_keyword(struct sim_words *words, const char *keyword);
CV_NODISCARD int sim_words_end(struct sim_words *words);

#endif
