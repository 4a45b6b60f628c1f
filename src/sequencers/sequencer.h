/* src/sequencers/sequencer.h - a source of growing numbers.
 *
 * A request is answered later, on the loop, or never. A sequencer promises *Increase*: an answer is
 * larger than every answer that was given before the request was sent, and larger than the
 * reference of the request. It may skip numbers (gaps) and lose answers. Failures are counted, and
 * reported in one line when they begin and when they end. A failed request is answered with
 * CV_SEQUENCE_NONE, or not at all; the core decides when to ask again.
 *
 * A kind of sequencer is one file with one table, and an entry in registry.c. */
#ifndef CV_SEQUENCERS_SEQUENCER_H
#define CV_SEQUENCERS_SEQUENCER_H

#include <conclave/core.h>

#include <uv.h>

/* The caller. Both functions may be called from within ask(), and may call it. */
struct cv_sequencer_events {
    void *self;
    void (*number)(void *self, uint64_t request, uint64_t number);
    void (*trouble)(void *self, const char *line); /* may be NULL */
};

struct cv_sequencer_counts {
    uint64_t asked;
    uint64_t answered; /* with a number */
    uint64_t refused;  /* with an error */
    uint64_t silent;   /* no answer in time */
    uint64_t strange;  /* with something that is not a counter */
    uint64_t restarts; /* the counter began again, and numbers continue in a new generation */
};

struct cv_sequencer_kind {
    const char *name;    /* the part of its address before the first colon */
    const char *form;    /* of its address */
    const char *summary; /* one line for lists */

    /* `where` is the address without its name. The name of a host is looked up here, once. */
    int (*open)(uv_loop_t *loop, const char *where, const struct cv_sequencer_events *events,
                void **ret_self, struct cv_errtext *reterr);
    /* A number above `reference` (CV_SEQUENCE_NONE: any). Each request has its own number. */
    void (*ask)(void *self, uint64_t request, uint64_t reference);
    const struct cv_sequencer_counts *(*counts)(const void *self);
    /* No further answer; `closed` is called by the loop when everything is gone. */
    void (*close)(void *self, void (*closed)(void *data), void *data);
};

extern const struct cv_sequencer_kind cv__sequencer_file;
/* `snmp` needs a library of its own and is therefore a module (modules/module.h). */
#define CV_SEQUENCER_SNMP_FORM "snmp:HOST[:PORT][/COMMUNITY]"

/* A sequencer that is open. */
struct cv_counter {
    const struct cv_sequencer_kind *kind;
    void *self;
};

/* Opens "snmp:host:port/community", "file:/path" ... Returns CV_OK, CV_E_UNKNOWN (no such kind, or
 * it is not installed), CV_E_INVALID (the address), CV_E_IO, CV_E_STORE or CV_E_MEMORY. */
CV_NODISCARD int cv__sequencer_open(uv_loop_t *loop, const char *address,
                                    const struct cv_sequencer_events *events,
                                    struct cv_counter *ret_sequencer, struct cv_errtext *reterr);

/* ---- For the kinds themselves ---------------------------------------------------------------- */

/* What is wrong at the moment, reported when it changes. Zero: nothing is wrong. */
enum cv_sequencer_trouble {
    CV_SEQUENCER_FINE,
    CV_SEQUENCER_SILENT,
    CV_SEQUENCER_REFUSING,
    CV_SEQUENCER_STRANGE,
};

/* Reports the line, unless the same was wrong before. FINE: the line says that it works again. */
void cv__sequencer_say(const struct cv_sequencer_events *events, enum cv_sequencer_trouble *now,
                       enum cv_sequencer_trouble trouble, const char *format, ...) CV_PRINTF(4, 5);

#endif
