/* src/core/record.h - one event or action of a core, for traces and recorders. */
#ifndef CV_CORE_RECORD_H
#define CV_CORE_RECORD_H

#include "core/types.h"

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
    uint64_t label;   /* BELIEF of a process on its own: the leader's, if nobody has an id; or 0 */
    const char *text; /* NOTE: with the places of struct cv_note; a literal */
    const struct cv_message *message; /* SEND, DELIVER: lent; NULL: its fields are not told */
};

/* Is shown each record as it is made; for measurements. It must not change the world. */
typedef void cv_observe(void *context, const struct cv_record *record);

#endif
