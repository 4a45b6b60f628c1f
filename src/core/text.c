/* src/core/text.c - see text.h. */
#include "core/text.h"

#include "core/errors.h"

#include <string.h>

#define WORD_BYTES_MAX 128u /* a longer word is near to nothing */
#define EDITS_MAX 2u        /* more than a slip of the finger */

/* How many letters to insert, delete or replace to make one word of the other. */
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
            const uint32_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            uint32_t best = replaced;
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
        }
    }
    return row[length_b];
}

const char *cv__nearest_word(const char *word, const char *const *known)
{
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
    return nearest;
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
