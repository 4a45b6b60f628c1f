/* web/engine/words.h - the names that the editor of scenarios completes. */
#ifndef CV_WEB_ENGINE_WORDS_H
#define CV_WEB_ENGINE_WORDS_H

#include <stdio.h>

/* One JSON object: protocols with their options and messages, oracles, properties. */
void web_words_write(FILE *out);

#endif
