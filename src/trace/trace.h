/* src/trace/trace.h - what happened, event by event: the tail shown with a violation, and the whole
 * of it as JSON lines for the player (`--trace`; docs/scenarios.md lists the fields). */
#ifndef CV_TRACE_TRACE_H
#define CV_TRACE_TRACE_H

#include "core/types.h"

#include <stdio.h>

enum cv_record_kind {
    CV_RECORD_SEND,
    CV_RECORD_DELIVER,
    CV_RECORD_LOST,        /* by the network's loss */
    CV_RECORD_UNREACHABLE, /* no way from here to there */
    CV_RECORD_DROPPED,     /* the receiver is down */
    CV_RECORD_TIMER,
    CV_RECORD_START,
    CV_RECORD_CRASH,
    CV_RECORD_PAUSE,
    CV_RECORD_WAKE,
    CV_RECORD_PERSIST,
    CV_RECORD_PERSIST_FAILED,
    CV_RECORD_BELIEF,       /* the node's leader, token and why */
    CV_RECORD_ACTION,       /* what the scenario, or chance, did */
    CV_RECORD_BROKEN,       /* a property */
    CV_RECORD_ASK,          /* the sequencer is asked ... */
    CV_RECORD_ANSWER,       /* ... and has answered */
    CV_RECORD_STORE_ASK,    /* the store is asked ... */
    CV_RECORD_STORE_ANSWER, /* ... and has answered, or notifies */
    CV_RECORD_NOTE,         /* why the core refused or ignored something */
    CV_RECORD_RENEW,        /* a leader may lead for longer: its new valid-until */
};

struct cv_record {
    int64_t at_ns;
    enum cv_record_kind kind;
    cv_id node, peer;
    uint32_t what;    /* message type, timer, reason, action kind, property, verb or verdict */
    uint64_t number;  /* message: which; BELIEF: token; *ASK, STORE_ANSWER: request; ANSWER: it */
    int64_t bound_ns; /* DELIVER: bound on its delay; STORE_*: attempt, token; NOTE: its time */
    const char *text; /* NOTE: with the places of struct cv_note; a literal */
    const struct cv_message *message; /* SEND, to be written: lent; NULL: its fields are not told */
};

#define CV_TRACE_TAIL 64u

/* Is shown each record as it is made; for measurements. It must not change the world. */
typedef void cv_observe(void *context, const struct cv_record *record);

/* A trace keeps the latest records; with a file it also writes each. */
struct cv_trace {
    FILE *file;          /* NULL: only the tail */
    cv_observe *observe; /* NULL: nobody looks */
    void *context;       /* its first argument */
    const struct cv_protocol *protocol;
    struct cv_record tail[CV_TRACE_TAIL];
    uint64_t count;
};

/* What the first line says about the run. */
struct cv_trace_header {
    const char *scenario; /* its name */
    const struct cv_config *config;
    uint32_t node_count;
    uint64_t seed;
    int64_t duration_ns;
    const char *const *site; /* names of sites, from 1 to site_count */
    uint32_t site_count;
    const uint8_t *site_of; /* by node: number of its site; 0: none */
};

void cv__trace_header(struct cv_trace *trace, const struct cv_trace_header *header);

#define CV_NOTE_BYTES 160u

/* The text of a note with its values in place: {peer}, {number}, and {time} as "1.204 s". */
void cv__note_format(const struct cv_record *record, char text[CV_NOTE_BYTES]);

/* `detail` describes an action or a broken property, NULL otherwise. */
void cv__trace_add(struct cv_trace *trace, const struct cv_record *record, const char *detail);

/* The same without a detail, at the cost of one copy if nobody looks: most records are like
 * that. */
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
