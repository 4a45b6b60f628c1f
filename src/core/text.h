/* src/core/text.h - error messages for an unknown word.
 *
 * Commands, options, addresses, protocols and scenarios all treat a mistyped word in the same way:
 * they suggest the word that was probably meant, or else list all known words. Pure; allocates
 * nothing. */
#ifndef CV_CORE_TEXT_H
#define CV_CORE_TEXT_H

#include "core/types.h"

#define CV_WORDS_MAX 64u /* in a list of known words */

/* The known word that `word` is probably a mistyped form of, or NULL. `known` ends with NULL. */
const char *cv__text_nearest(const char *word, const char *const *known);

/* "unknown WHAT 'WORD'; did you mean 'NEAREST'?", or "...; known: A, B, C" if nothing is near.
 * Returns `code`. `known` ends with NULL. */
int cv__text_fail_unknown(struct cv_errtext *reterr, int code, const char *what, const char *word,
                          const char *const *known);

#endif
