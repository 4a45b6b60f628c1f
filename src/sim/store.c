/* src/sim/store.c - the simulated store: one record, and its own clock. */
#include "sim/store.h"

#include "sim/network.h"

void sim_store_init(struct sim_store *s)
{
    *s = (struct sim_store){.delay_ns = 2 * NS_PER_MS, .clock = {.local_base_ns = NS_PER_S}};
}

static void set_trouble(struct sim_store_trouble *t, uint32_t mask,
                        const struct sim_store_trouble *to)
{
    t->query_delay_ns = mask & SIM_STORE_QUERY_DELAY ? to->query_delay_ns : t->query_delay_ns;
    t->answer_delay_ns = mask & SIM_STORE_ANSWER_DELAY ? to->answer_delay_ns : t->answer_delay_ns;
    t->query_loss_ppb = mask & SIM_STORE_QUERY_LOSS ? to->query_loss_ppb : t->query_loss_ppb;
    t->answer_loss_ppb = mask & SIM_STORE_ANSWER_LOSS ? to->answer_loss_ppb : t->answer_loss_ppb;
    t->notification_loss_ppb =
        mask & SIM_STORE_NOTIFICATION_LOSS ? to->notification_loss_ppb : t->notification_loss_ppb;
}

void sim_store_change(struct sim_store *s, struct sim_rng *rng, int64_t now_ns,
                      const struct sim_store_change *change, bool for_a_while)
{
    const int64_t drift_ppb = change->drift.ppb;
    switch (change->verb) {
    case SIM_STORE_SET:
        s->delay_ns = change->mask & SIM_STORE_DELAY ? change->delay_ns : s->delay_ns;
        s->jitter_ns = change->mask & SIM_STORE_JITTER ? change->jitter_ns : s->jitter_ns;
        set_trouble(&s->trouble[for_a_while], change->mask, &change->trouble);
        if (change->mask & SIM_STORE_DRIFT) {
            sim_clock_set_drift(&s->clock, now_ns,
                                change->drift.is_random ? sim_rng_range(rng, -drift_ppb, drift_ppb)
                                                        : drift_ppb,
                                change->drift.parts);
        }
        break;
    case SIM_STORE_RESTART:
        s->boot++;
        cv__model_record_restart(&s->record, change->extends, sim_clock_local(&s->clock, now_ns));
        break;
    case SIM_STORE_DOWN:
        s->is_down = true;
        break;
    case SIM_STORE_UP:
        s->is_down = false;
        break;
    case SIM_STORE_CUT:
    case SIM_STORE_MEND:
        break;
    case SIM_STORE_VERB_COUNT:
        CV_ASSERT(!"an unknown kind of change");
    }
}

void sim_store_restore(struct sim_store *s, enum sim_store_verb verb)
{
    CV_ASSERT(verb == SIM_STORE_DOWN || verb == SIM_STORE_SET);
    if (verb == SIM_STORE_DOWN) {
        s->is_down = false;
    } else {
        s->trouble[1] = (struct sim_store_trouble){0};
    }
}

static int64_t loss_of(const struct sim_store_trouble *t, enum sim_store_path path)
{
    return path == SIM_STORE_QUERY    ? t->query_loss_ppb
           : path == SIM_STORE_ANSWER ? t->answer_loss_ppb
                                      : t->notification_loss_ppb;
}

bool sim_store_travel(struct sim_store *s, struct sim_rng *rng, enum sim_store_path path,
                      int64_t now_ns, int64_t *ret_at_ns)
{
    bool is_lost = false;
    int64_t delay_ns = path == SIM_STORE_QUERY ? s->delay_ns / 2 : s->delay_ns - s->delay_ns / 2;
    for (int i = 0; i < 2; i++) { /* each cause of loss has its own draw */
        const int64_t loss_ppb = loss_of(&s->trouble[i], path);
        is_lost = (loss_ppb > 0 && sim_rng_range(rng, 0, SIM_PPB_ONE - 1) < loss_ppb) || is_lost;
        delay_ns +=
            path == SIM_STORE_QUERY ? s->trouble[i].query_delay_ns : s->trouble[i].answer_delay_ns;
    }
    delay_ns += s->jitter_ns > 0 ? sim_rng_range(rng, 0, s->jitter_ns) : 0;
    *ret_at_ns = now_ns + delay_ns;
    uint64_t *lost_count = path == SIM_STORE_QUERY    ? &s->lost_query_count
                           : path == SIM_STORE_ANSWER ? &s->lost_answer_count
                                                      : &s->lost_notification_count;
    *lost_count += is_lost;
    return !is_lost;
}

bool sim_store_expire(struct sim_store *s, int64_t now_ns)
{
    return cv__model_record_expire(&s->record, sim_clock_local(&s->clock, now_ns));
}

int64_t sim_store_end_ns(const struct sim_store *s)
{
    return s->record.holder == 0 ? INT64_MAX : sim_clock_real(&s->clock, s->record.until_ns);
}

bool sim_store_serve(struct sim_store *s, const struct cv_model_query *q, int64_t now_ns,
                     struct cv_model_answer *ret_answer)
{
    const uint64_t token_before = s->record.token;
    const int64_t local_ns = sim_clock_local(&s->clock, now_ns);
    const bool has_become_free = cv__model_record_serve(&s->record, q, local_ns, ret_answer);
    s->grant_count += s->record.token != token_before;
    return has_become_free;
}
