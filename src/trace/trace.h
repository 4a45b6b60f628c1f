/* src/trace/trace.h - the trace of a run, event by event: the tail shown with a violation, and the
 * whole trace as JSON lines for the player (`--trace`; docs/scenarios.md lists the fields). */
#ifndef CV_TRACE_TRACE_H
#define CV_TRACE_TRACE_H

#include "core/record.h"

#include <stdio.h>

#define CV_TRACE_TAIL 64u

/* A trace keeps the latest records; with a file it also writes each. */
struct cv_trace {
    FILE *file;          /* NULL: only the tail */
    cv_observe *observe; /* NULL: none */
    void *context;       /* its first argument */
    const struct cv_protocol *protocol;
    struct cv_record tail[CV_TRACE_TAIL];
    uint64_t count;
};

/* The contents of the first line, about the whole run. */
struct cv_trace_header {
    const char *scenario; /* its name */
    const struct cv_config *config;
    uint32_t node_count;
    uint64_t seed;
    int64_t duration_ns;
    const char *const *site; /* names of sites, from 1 to site_count */
    uint32_t site_count;
    const uint8_t *site_of; /* by node: number of its site; 0: none */
    cv_id self;             /* trace of one process: its node; CV_ID_NONE: a trace of all nodes */
    uint64_t label;         /* trace of one process: its label, if the protocol is anonymous */
    int64_t began_ns;       /* trace of one process: time 0, on the clock of its machine */
};

void cv__trace_header(struct cv_trace *trace, const struct cv_trace_header *header);

#define CV_NOTE_BYTES 160u

/* The text of a note with its values in place: {peer}, {number}, and {time} as "1.204 s". */
void cv__trace_note_text(const struct cv_record *record, char text[CV_NOTE_BYTES]);

/* `detail` describes an action or a broken property, NULL otherwise. */
void cv__trace_add(struct cv_trace *trace, const struct cv_record *record, const char *detail);

/* The same without a detail, as for most records: costs one copy if there is no file and no
 * observer. */
static inline void cv__trace_note(struct cv_trace *trace, const struct cv_record record)
{
    if (trace->file == NULL && trace->observe == NULL) {
        trace->tail[trace->count++ % CV_TRACE_TAIL] = record;
    } else {
        cv__trace_add(trace, &record, NULL);
    }
}

/* The tail as text, oldest first, a line each; the caller frees it. */
char *cv__trace_tail(const struct cv_trace *trace);

#endif
