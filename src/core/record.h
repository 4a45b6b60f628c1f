/* src/core/record.h - one event or action of a core, for traces and recorders. */
#ifndef CV_CORE_RECORD_H
#define CV_CORE_RECORD_H

#include "core/types.h"

enum cv_record_kind {
    CV_RECORD_SEND,
    CV_RECORD_DELIVER,
    CV_RECORD_LOST,        /* lost at random by the network */
    CV_RECORD_UNREACHABLE, /* the network has no path to the receiver */
    CV_RECORD_DROPPED,     /* the receiver is down */
    CV_RECORD_TIMER,
    CV_RECORD_START,
    CV_RECORD_CRASH,
    CV_RECORD_PAUSE,
    CV_RECORD_WAKE,
    CV_RECORD_PERSIST,
    CV_RECORD_PERSIST_FAILED,
    CV_RECORD_BELIEF,       /* the node's leader, its token and the reason */
    CV_RECORD_ACTION,       /* an action of the scenario, or a random fault */
    CV_RECORD_BROKEN,       /* a property was broken */
    CV_RECORD_ASK,          /* a request to the sequencer */
    CV_RECORD_ANSWER,       /* its answer */
    CV_RECORD_STORE_ASK,    /* a request to the store */
    CV_RECORD_STORE_ANSWER, /* its answer or notification */
    CV_RECORD_NOTE,         /* why the core refused or ignored something */
    CV_RECORD_RENEW,        /* a leader may lead for longer: its new valid-until */
};

struct cv_record {
    int64_t at_ns;
    enum cv_record_kind kind;
    cv_id node, peer;
    uint32_t what;    /* message type, timer, reason, action kind, property, verb or verdict */
    uint64_t number;  /* of the message or request; BELIEF: token; ANSWER: the sequence number */
    int64_t bound_ns; /* DELIVER: bound on its delay; STORE_*: attempt, token; NOTE: its time */
    uint64_t label;   /* BELIEF of an anonymous process: the leader's label; otherwise 0 */
    const char *text; /* NOTE: a literal, with the placeholders of struct cv_note */
    const struct cv_message *message; /* SEND, DELIVER: lent; NULL: its fields are not known */
};

/* Called with each record when it is made, for measurements. It must not change the world. */
typedef void cv_observe(void *context, const struct cv_record *record);

#endif
