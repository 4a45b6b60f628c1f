/* src/sim/sequencer.h - the simulated network sequencer [Wiesmann07, sec. 5]: an agent that counts.
 *
 * A query takes half of `delay` to get there, waits its turn (answers take `serial` each, one after
 * the other: that is the contention of Eq. 1), and its answer takes the other half back. A query
 * that is lost costs nothing; an answer that is lost has used up a number. The counter has 32 bits
 * and wraps around; a reset makes it begin again, with one more boot if the agent reports boots; a
 * wiped agent has forgotten these too. Other clients may query it (skip). src/core/sequence.h turns
 * counter and boots into numbers. */
#ifndef CV_SIM_SEQUENCER_H
#define CV_SIM_SEQUENCER_H

#include "scenario/change.h"
#include "sim/rng.h"

struct sim_sequencer {
    int64_t delay_ns, serial_ns;
    int64_t query_loss_ppb, answer_loss_ppb;           /* permanent ones ... */
    int64_t more_query_loss_ppb, more_answer_loss_ppb; /* ... and additional ones for a while */
    uint32_t counter;
    uint64_t boots;
    bool is_down;
    int64_t busy_ns; /* until then it serves earlier requests */

    uint64_t query_count, number_count, lost_query_count, lost_answer_count, reset_count;
};

struct sim_answer {
    uint32_t counter;
    uint64_t boots;
};

/* 2 ms, no contention, no loss, the first number is 1, boots are reported. */
void sim_sequencer_init(struct sim_sequencer *sequencer);

/* `for_a_while`: losses add to the permanent ones until sim_sequencer_restore(). */
void sim_sequencer_change(struct sim_sequencer *sequencer,
                          const struct sim_sequencer_change *change, bool for_a_while);
void sim_sequencer_restore(struct sim_sequencer *sequencer, enum sim_sequencer_verb verb);

/* A query is sent: does it arrive, and when? */
bool sim_sequencer_ask(struct sim_sequencer *sequencer, struct sim_rng *rng, int64_t now_ns,
                       int64_t *ret_at_ns);

/* A query has arrived: does the client get an answer, and when? */
bool sim_sequencer_serve(struct sim_sequencer *sequencer, struct sim_rng *rng, int64_t now_ns,
                         struct sim_answer *ret_answer, int64_t *ret_at_ns);

#endif
