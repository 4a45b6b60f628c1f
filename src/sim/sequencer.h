/* src/sim/sequencer.h - the simulated network sequencer [Wiesmann07, sec. 5]: an agent that counts.
 *
 * A query takes half of `delay` to get there, waits its turn (answers take `serial` each, one after
 * the other: that is the contention of Eq. 1), and its answer takes the other half back. A query
 * that is lost costs nothing; an answer that is lost has burnt a number. The counter has 32 bits
 * and wraps around; a reset makes it begin again, with one more boot if the agent tells boots; a
 * wiped agent has forgotten those, too. Others may query it (skip). What a client makes of counter
 * and boots is src/core/sequence.h. */
#ifndef CV_SIM_SEQUENCER_H
#define CV_SIM_SEQUENCER_H

#include "core/types.h"
#include "sim/rng.h"

enum cv_sequencer_verb {
    CV_SEQUENCER_SET, /* what `mask` says */
    CV_SEQUENCER_RESET,
    CV_SEQUENCER_WIPE,
    CV_SEQUENCER_DOWN,
    CV_SEQUENCER_UP,
    CV_SEQUENCER_SKIP, /* others take `skip` numbers */
    CV_SEQUENCER_VERB_COUNT,
};

enum {
    CV_SEQUENCER_DELAY = 1,
    CV_SEQUENCER_SERIAL = 2,
    CV_SEQUENCER_QUERY_LOSS = 4,
    CV_SEQUENCER_ANSWER_LOSS = 8,
    CV_SEQUENCER_START = 16,
    CV_SEQUENCER_BOOTS = 32,
};

/* A change, as a scenario writes it. */
struct cv_sequencer_change {
    enum cv_sequencer_verb verb;
    uint32_t mask;
    int64_t delay_ns, serial_ns;
    int64_t query_loss_ppb, answer_loss_ppb;
    uint64_t start; /* the next number */
    uint64_t boots; /* 0: the agent does not tell */
    uint64_t skip;
};

struct cv_sequencer {
    int64_t delay_ns, serial_ns;
    int64_t query_loss_ppb, answer_loss_ppb;           /* of the setting ... */
    int64_t more_query_loss_ppb, more_answer_loss_ppb; /* ... and for a while */
    uint32_t counter;
    uint64_t boots;
    bool is_down;
    int64_t busy_ns; /* until then it serves those who came before */

    uint64_t query_count, number_count, lost_query_count, lost_answer_count, reset_count;
};

struct cv_answer {
    uint32_t counter;
    uint64_t boots;
};

/* 2 ms, no contention, no loss, the first number is 1, boots are told. */
void cv__sequencer_init(struct cv_sequencer *sequencer);

/* `for_a_while`: losses add to those of the setting until cv__sequencer_restore(). */
void cv__sequencer_change(struct cv_sequencer *sequencer, const struct cv_sequencer_change *change,
                          bool for_a_while);
void cv__sequencer_restore(struct cv_sequencer *sequencer, enum cv_sequencer_verb verb);

/* A query leaves: does it get there, and when? */
bool cv__sequencer_ask(struct cv_sequencer *sequencer, struct cv_rng *rng, int64_t now_ns,
                       int64_t *ret_at_ns);

/* A query has arrived: is there an answer, and when is it at the client? */
bool cv__sequencer_serve(struct cv_sequencer *sequencer, struct cv_rng *rng, int64_t now_ns,
                         struct cv_answer *ret_answer, int64_t *ret_at_ns);

#endif
