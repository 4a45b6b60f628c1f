/* src/sim/words.h - one line of a scenario as words, and errors that point at one of them. */
#ifndef CV_SIM_WORDS_H
#define CV_SIM_WORDS_H

#include "core/types.h"

#define CV_WORDS_MAX 4200u /* `expect leader 1 by 1s at` and every node by name */
#define CV_WORD_BYTES 128u

/* No time in a scenario is longer: sums of several stay far from overflowing. */
#define CV_TIME_MAX_NS (30 * 24 * 3600 * NS_PER_S)

struct cv_word {
    uint32_t column; /* from 1 */
    char text[CV_WORD_BYTES];
};

struct cv_words {
    const char *name; /* of the file */
    uint32_t line;    /* from 1 */
    uint32_t count, next;
    uint32_t end_column;
    struct cv_word *word; /* CV_WORDS_MAX */
    struct cv_errtext *reterr;
};

/* Splits a line at blanks;
 * '#' begins a comment. Returns CV_OK or CV_E_MALFORMED. */
CV_NODISCARD int cv__words_split(struct cv_words *words, const char *line, size_t length);

/* The next word, or NULL at the end. `peek` does not take it. */
const char *cv__words_next(struct cv_words *words);
const char *cv__words_peek(const struct cv_words *words);

/* Takes the next word if it is this one. */
bool cv__words_take(struct cv_words *words, const char *text);

/* "name:line:column: ..." pointing at the word taken last (or at the end, if there was none left);
 * returns CV_E_MALFORMED. */
int cv__words_fail(const struct cv_words *words, const char *format, ...) CV_PRINTF(2, 3);

/* The same for a word that is none of `known` (separated by blanks): names the nearest. */
int cv__words_unknown(const struct cv_words *words, const char *what, const char *text,
                      const char *known);

/* Values; each takes the next word and fails with a hint. */
CV_NODISCARD int cv__words_time(struct cv_words *words, const char *what, int64_t *ret_ns);
CV_NODISCARD int cv__words_count(struct cv_words *words, const char *what, uint64_t max,
                                 uint64_t *ret_count);
CV_NODISCARD int cv__words_percent(struct cv_words *words, const char *what, int64_t *ret_ppb);
CV_NODISCARD int cv__words_keyword(struct cv_words *words, const char *keyword);
CV_NODISCARD int cv__words_end(struct cv_words *words);

#endif
