/* src/core/text.c - see text.h. */
#include "core/text.h"

#include "core/errors.h"

#include <string.h>

#define WORD_BYTES_MAX 128u /* a longer word resembles no known word */
#define EDITS_MAX 2u        /* more edits are not a typing error */
#define PREFIX_BYTES_MIN 3u /* a shorter prefix is not taken as an abbreviation */
#define INNER_BYTES_MIN 4u  /* of a word inside another one: `zone` in `timezone` */

/* Names that people and other tools (flock, consul lock, etcdctl ...) use for our words. */
static const struct {
    const char *theirs, *ours;
} synonyms[] = {
    {"zk", "zookeeper"},     {"pg", "postgres"},   {"pgsql", "postgres"},   {"file", "sqlite"},
    {"tz", "zone"},          {"ttl", "lease"},     {"try", "wait"},         {"endpoints", "via"},
    {"store", "via"},        {"period", "every"},  {"interval", "every"},   {"once-per", "every"},
    {"retries", "retry"},    {"delete", "forget"}, {"remove", "forget"},    {"list", "status"},
    {"elections", "status"}, {"ls", "status"},     {"lock", "run"},         {"exec", "run"},
    {"start", "run"},        {"log", "history"},   {"step-down", "resign"}, {"stepdown", "resign"},
    {"crash", "budget"},     {"loss", "budget"},   {"pause", "budget"},     {"faults", "budget"},
};

static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* The edit distance: how many letters to insert, delete, replace or exchange with the next one to
 * turn one word into the other. Ignores case. */
static uint32_t distance(const char *a, const char *b)
{
    uint32_t rows[3][WORD_BYTES_MAX + 1] = {
        {0}}; /* for the current letter of a, and the two before it */
    const uint32_t length_b = (uint32_t)strlen(b);
    CV_ASSERT(length_b <= WORD_BYTES_MAX);
    for (uint32_t j = 0; j <= length_b; j++) {
        rows[0][j] = j;
    }
    uint32_t i = 1;
    for (; a[i - 1] != '\0'; i++) {
        uint32_t *row = rows[i % 3];
        const uint32_t *above = rows[(i + 2) % 3];
        const uint32_t *before = rows[(i + 1) % 3]; /* used from the second letter on */
        row[0] = i;
        for (uint32_t j = 1; j <= length_b; j++) {
            const bool is_exchanged = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                                      lower(a[i - 2]) == lower(b[j - 1]);
            uint32_t best = above[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = is_exchanged && before[j - 2] + 1 < best ? before[j - 2] + 1 : best;
        }
    }
    CV_ASSERT(i <= WORD_BYTES_MAX + 1); /* cv__text_nearest() skips longer words */
    return rows[(i + 2) % 3][length_b];
}

/* Is `part` the whole of `whole`, or one of its parts between dashes? */
static bool is_part(const char *part, const char *whole)
{
    const size_t bytes = strlen(part);
    for (const char *at = whole; bytes > 0 && at != NULL;) {
        if (strncmp(at, part, bytes) == 0 && (at[bytes] == '\0' || at[bytes] == '-')) {
            return true;
        }
        at = strchr(at, '-');
        at = at != NULL ? at + 1 : NULL;
    }
    return false;
}

/* Does the longer word begin or end with the other one? */
static bool is_inner(const char *inner, const char *whole)
{
    const size_t bytes = strlen(inner);
    const size_t whole_bytes = strlen(whole);
    return bytes >= INNER_BYTES_MIN && whole_bytes > bytes &&
           (strncmp(whole, inner, bytes) == 0 || strcmp(whole + whole_bytes - bytes, inner) == 0);
}

/* The only known word that contains `word` or is contained in it: `zone` for `time-zone` and
 * `timezone`, `on-elected` for `elected`, `history` for `hist`. NULL: none, or several. */
static const char *only_relative(const char *word, const char *const *known)
{
    const char *found = NULL;
    const size_t length = strlen(word);
    for (; *known != NULL; known++) {
        const bool begins = length >= PREFIX_BYTES_MIN && strncmp(*known, word, length) == 0;
        if (begins || is_part(*known, word) || is_part(word, *known) || is_inner(*known, word) ||
            is_inner(word, *known)) {
            if (found != NULL) {
                return NULL;
            }
            found = *known;
        }
    }
    return found;
}

/* The known word that `word` is a synonym of, or NULL. */
static const char *synonym(const char *word, const char *const *known)
{
    for (uint32_t i = 0; i < COUNT_OF(synonyms); i++) {
        for (uint32_t k = 0; strcmp(synonyms[i].theirs, word) == 0 && known[k] != NULL; k++) {
            if (strcmp(known[k], synonyms[i].ours) == 0) {
                return known[k];
            }
        }
    }
    return NULL;
}

const char *cv__text_nearest(const char *word, const char *const *known)
{
    CV_ASSERT(word != NULL);
    CV_ASSERT(known != NULL);
    const char *const *const all = known;
    const char *const meant = synonym(word, known);
    if (meant != NULL) {
        return meant;
    }
    const char *nearest = NULL;
    const size_t length = strlen(word);
    uint32_t least = EDITS_MAX + 1;
    for (; *known != NULL; known++) {
        if (length > WORD_BYTES_MAX || strlen(*known) > WORD_BYTES_MAX) {
            continue;
        }
        const uint32_t edits = distance(word, *known);
        CV_ASSERT(edits <= WORD_BYTES_MAX);
        if (edits < least && edits < length) { /* otherwise every letter would be replaced */
            least = edits;
            nearest = *known;
        }
    }
    CV_ASSERT(nearest == NULL || least <= EDITS_MAX); /* nothing far away is suggested */
    return nearest != NULL ? nearest : only_relative(word, all);
}

/* Writes the words with commas between them; leaves out those that do not fit. */
static void join(const char *const *known, char *list, size_t list_bytes)
{
    size_t length = 0;
    CV_ASSERT(list_bytes > 0);
    list[0] = '\0';
    for (uint32_t i = 0; known[i] != NULL; i++) {
        const size_t bytes = strlen(known[i]);
        if (length + bytes + 3 > list_bytes) {
            break;
        }
        if (i > 0) {
            memcpy(list + length, ", ", 2);
            length += 2;
        }
        memcpy(list + length, known[i], bytes + 1);
        length += bytes;
    }
    CV_ASSERT(length < list_bytes);
    CV_ASSERT(list[length] == '\0'); /* the list ends after the last word that fitted */
}

int cv__text_fail_unknown(struct cv_errtext *reterr, int code, const char *what, const char *word,
                          const char *const *known)
{
    CV_ASSERT(code < 0);
    const char *nearest = cv__text_nearest(word, known);
    if (nearest != NULL) {
        return cv__fail(reterr, code, "unknown %s '%.200s'; did you mean '%s'?", what, word,
                        nearest);
    }
    char list[400];
    join(known, list, sizeof list);
    return cv__fail(reterr, code, "unknown %s '%.200s'; known: %s", what, word,
                    list[0] != '\0' ? list : "none");
}
