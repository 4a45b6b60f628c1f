/* src/sim/sequencer.c - the simulated network sequencer. */
#include "sim/sequencer.h"

#include "sim/network.h"

void sim_sequencer_init(struct sim_sequencer *s)
{
    *s = (struct sim_sequencer){.delay_ns = 2 * NS_PER_MS, .boots = 1};
}

static void set(struct sim_sequencer *s, const struct sim_sequencer_change *change,
                bool for_a_while)
{
    const uint32_t mask = change->mask;
    if (mask & SIM_SEQUENCER_DELAY) {
        s->delay_ns = change->delay_ns;
    }
    if (mask & SIM_SEQUENCER_SERIAL) {
        s->serial_ns = change->serial_ns;
    }
    if (mask & SIM_SEQUENCER_QUERY_LOSS) {
        *(for_a_while ? &s->more_query_loss_ppb : &s->query_loss_ppb) = change->query_loss_ppb;
    }
    if (mask & SIM_SEQUENCER_ANSWER_LOSS) {
        *(for_a_while ? &s->more_answer_loss_ppb : &s->answer_loss_ppb) = change->answer_loss_ppb;
    }
    if (mask & SIM_SEQUENCER_START) {
        s->counter = (uint32_t)(change->start - 1);
    }
    if (mask & SIM_SEQUENCER_BOOTS) {
        s->boots = change->boots;
    }
}

void sim_sequencer_change(struct sim_sequencer *s, const struct sim_sequencer_change *change,
                          bool for_a_while)
{
    switch (change->verb) {
    case SIM_SEQUENCER_SET:
        set(s, change, for_a_while);
        break;
    case SIM_SEQUENCER_RESET:
        s->counter = 0;
        s->boots += s->boots > 0;
        s->reset_count++;
        break;
    case SIM_SEQUENCER_WIPE:
        s->counter = 0;
        s->boots = s->boots > 0;
        s->reset_count++;
        break;
    case SIM_SEQUENCER_DOWN:
        s->is_down = true;
        break;
    case SIM_SEQUENCER_UP:
        s->is_down = false;
        break;
    case SIM_SEQUENCER_SKIP:
        s->counter += (uint32_t)change->skip;
        break;
    case SIM_SEQUENCER_CUT: /* changes a node, not the sequencer */
    case SIM_SEQUENCER_MEND:
        break;
    case SIM_SEQUENCER_VERB_COUNT:
        CV_ASSERT(!"an unknown kind of change");
    }
}

void sim_sequencer_restore(struct sim_sequencer *s, enum sim_sequencer_verb verb)
{
    if (verb == SIM_SEQUENCER_DOWN) {
        s->is_down = false;
    } else {
        s->more_query_loss_ppb = 0;
        s->more_answer_loss_ppb = 0;
    }
}

/* Two causes of loss, each with its own draw, so that changing one does not change the draws of the
 * other. */
static bool is_lost(struct sim_rng *rng, int64_t loss_ppb, int64_t more_ppb)
{
    bool lost = loss_ppb > 0 && sim_rng_range(rng, 0, SIM_PPB_ONE - 1) < loss_ppb;
    lost = (more_ppb > 0 && sim_rng_range(rng, 0, SIM_PPB_ONE - 1) < more_ppb) || lost;
    return lost;
}

bool sim_sequencer_ask(struct sim_sequencer *s, struct sim_rng *rng, int64_t now_ns,
                       int64_t *ret_at_ns)
{
    s->query_count++;
    if (is_lost(rng, s->query_loss_ppb, s->more_query_loss_ppb)) {
        s->lost_query_count++;
        return false;
    }
    *ret_at_ns = now_ns + s->delay_ns / 2;
    return true;
}

bool sim_sequencer_serve(struct sim_sequencer *s, struct sim_rng *rng, int64_t now_ns,
                         struct sim_answer *ret_answer, int64_t *ret_at_ns)
{
    if (s->is_down) {
        s->lost_query_count++;
        return false;
    }
    s->busy_ns = cv__max64(s->busy_ns, now_ns) + s->serial_ns;
    s->counter++;
    s->number_count++;
    if (is_lost(rng, s->answer_loss_ppb, s->more_answer_loss_ppb)) {
        s->lost_answer_count++;
        return false;
    }
    *ret_answer = (struct sim_answer){s->counter, s->boots};
    *ret_at_ns = s->busy_ns + (s->delay_ns - s->delay_ns / 2);
    return true;
}
