/* src/sequencers/say.c - reports what is wrong with a sequencer, once; linked into modules too. */
#include "sequencers/sequencer.h"

#include <stdarg.h>
#include <stdio.h>

void cv__sequencer_say(const struct cv_sequencer_events *events, enum cv_sequencer_trouble *now,
                       enum cv_sequencer_trouble trouble, const char *format, ...)
{
    if (*now == trouble) {
        return;
    }
    *now = trouble;
    if (events->trouble == NULL) {
        return;
    }
    char line[CV_ERRTEXT_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    events->trouble(events->self, line);
}
