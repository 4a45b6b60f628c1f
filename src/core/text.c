/* src/core/text.c - see text.h. */
#include "core/text.h"

#include "core/errors.h"

#include <string.h>

#define WORD_BYTES_MAX 128u /* a longer word is near to nothing */
#define EDITS_MAX 2u        /* more than a slip of the finger */
#define PREFIX_BYTES_MIN 3u /* so much of a word says which one is meant */

static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* How many letters to insert, delete or replace to make one word of the other; capital letters or
 * not. */
static uint32_t distance(const char *a, const char *b)
{
    uint32_t row[WORD_BYTES_MAX + 1];
    const uint32_t length_b = (uint32_t)strlen(b);
    CV_ASSERT(length_b <= WORD_BYTES_MAX);
    for (uint32_t j = 0; j <= length_b; j++) {
        row[j] = j;
    }
    for (uint32_t i = 1; a[i - 1] != '\0'; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= length_b; j++) {
            const uint32_t replaced = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
            diagonal = row[j];
            uint32_t best = replaced;
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
        }
    }
    return row[length_b];
}

/* Is it the whole of the other, or what stands before, between or after dashes in it? */
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

/* `time-zone` for `zone`, `elected` for `on-elected`, `hist` for `history`: the only word that may
 * be meant. */
static const char *only_relative(const char *word, const char *const *known)
{
    const char *found = NULL;
    const size_t length = strlen(word);
    for (; *known != NULL; known++) {
        const bool begins = length >= PREFIX_BYTES_MIN && strncmp(*known, word, length) == 0;
        if (begins || is_part(*known, word) || is_part(word, *known)) {
            if (found != NULL) {
                return NULL;
            }
            found = *known;
        }
    }
    return found;
}

const char *cv__nearest_word(const char *word, const char *const *known)
{
    const char *const *const all = known;
    const char *nearest = NULL;
    const size_t length = strlen(word);
    uint32_t least = EDITS_MAX + 1;
    for (; *known != NULL; known++) {
        if (length > WORD_BYTES_MAX || strlen(*known) > WORD_BYTES_MAX) {
            continue;
        }
        const uint32_t edits = distance(word, *known);
        CV_ASSERT(edits <= WORD_BYTES_MAX);
        if (edits < least && edits < length) { /* else nothing of the word would be left */
            least = edits;
            nearest = *known;
        }
    }
    CV_ASSERT(nearest == NULL || least <= EDITS_MAX); /* nothing far away is suggested */
    return nearest != NULL ? nearest : only_relative(word, all);
}

/* The words with commas between them; those that do not fit are left out. */
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
    CV_ASSERT(list[length] == '\0'); /* whatever was left out, it ends where it was written last */
}

int cv__fail_unknown(struct cv_errtext *reterr, int code, const char *what, const char *word,
                     const char *const *known)
{
    const char *nearest = cv__nearest_word(word, known);
    if (nearest != NULL) {
        return cv__fail(reterr, code, "unknown %s '%.200s'; did you mean '%s'?", what, word,
                        nearest);
    }
    char list[400];
    join(known, list, sizeof list);
    return cv__fail(reterr, code, "unknown %s '%.200s'; known: %s", what, word,
                    list[0] != '\0' ? list : "none");
}
