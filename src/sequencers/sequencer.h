/* src/sequencers/sequencer.h - where numbers that grow come from.
 *
 * A sequencer is asked and answers later, on the loop, or never. It promises *Increase*: an answer
 * is larger than every answer that was given before the question left, and larger than the
 * reference of the question. It may lose numbers (gaps) and answers. What goes wrong is counted and
 * told in one line when it begins and when it ends; a question that failed is answered by
 * CV_SEQUENCE_NONE, or not at all. It is the core that asks again.
 *
 * A kind of sequencer is one file with one table, and a few words in registry.c. */
#ifndef CV_SEQUENCERS_SEQUENCER_H
#define CV_SEQUENCERS_SEQUENCER_H

#include <conclave/core.h>

#include <uv.h>

/* Who asks. Both functions may be called from within ask(), and may call it. */
struct cv_sequencer_events {
    void *self;
    void (*number)(void *self, uint64_t request, uint64_t number);
    void (*trouble)(void *self, const char *line); /* may be NULL */
};

struct cv_sequencer_counts {
    uint64_t asked;
    uint64_t answered; /* with a number */
    uint64_t refused;  /* with an error */
    uint64_t silent;   /* no answer within the sequencer's patience */
    uint64_t strange;  /* with something that is no counter */
    uint64_t restarts; /* the counter had lost its memory, and went on in a new generation */
};

struct cv_sequencer_kind {
    const char *name;    /* what stands before the first colon of its address */
    const char *form;    /* of its address */
    const char *summary; /* one line for lists */

    /* `where` is the address without its name. The name of a host is looked up here, once. */
    int (*open)(uv_loop_t *loop, const char *where, const struct cv_sequencer_events *events,
                void **ret_self, struct cv_errtext *reterr);
    /* A number above `reference` (CV_SEQUENCE_NONE: any). Requests of one asker differ. */
    void (*ask)(void *self, uint64_t request, uint64_t reference);
    const struct cv_sequencer_counts *(*counts)(const void *self);
    /* No further answer; `closed` is called by the loop when everything is gone. */
    void (*close)(void *self, void (*closed)(void *data), void *data);
};

extern const struct cv_sequencer_kind cv__sequencer_file;
/* `snmp` needs a library of its own and is therefore a module (modules/module.h). */
#define CV_SEQUENCER_SNMP_FORM "snmp:HOST[:PORT][/COMMUNITY]"

/* One that is open. */
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

/* What is wrong at the moment, told when it changes. Zeroed at first: all is well. */
enum cv_sequencer_trouble {
    CV_SEQUENCER_FINE,
    CV_SEQUENCER_SILENT,
    CV_SEQUENCER_REFUSING,
    CV_SEQUENCER_STRANGE,
};

/* Tells the line unless the same is wrong as before. FINE: the line says that it is over. */
void cv__sequencer_say(const struct cv_sequencer_events *events, enum cv_sequencer_trouble *now,
                       enum cv_sequencer_trouble trouble, const char *format, ...) CV_PRINTF(4, 5);

#endif
