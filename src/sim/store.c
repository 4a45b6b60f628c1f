/* src/sim/store.c - the simulated store: one record, and its own clock. */
#include "sim/store.h"

#include "sim/network.h"

void cv__simstore_init(struct cv_simstore *s)
{
    *s = (struct cv_simstore){.delay_ns = 2 * NS_PER_MS, .clock = {.local_base_ns = NS_PER_S}};
}

static void set_trouble(struct cv_simstore_trouble *t, uint32_t mask,
                        const struct cv_simstore_trouble *to)
{
    t->query_delay_ns = mask & CV_SIMSTORE_QUERY_DELAY ? to->query_delay_ns : t->query_delay_ns;
    t->answer_delay_ns = mask & CV_SIMSTORE_ANSWER_DELAY ? to->answer_delay_ns : t->answer_delay_ns;
    t->query_loss_ppb = mask & CV_SIMSTORE_QUERY_LOSS ? to->query_loss_ppb : t->query_loss_ppb;
    t->answer_loss_ppb = mask & CV_SIMSTORE_ANSWER_LOSS ? to->answer_loss_ppb : t->answer_loss_ppb;
    t->news_loss_ppb = mask & CV_SIMSTORE_NEWS_LOSS ? to->news_loss_ppb : t->news_loss_ppb;
}

void cv__simstore_change(struct cv_simstore *s, struct cv_rng *rng, int64_t now_ns,
                         const struct cv_simstore_change *change, bool for_a_while)
{
    const int64_t drift_ppb = change->drift_ppb;
    switch (change->verb) {
    case CV_SIMSTORE_SET:
        s->delay_ns = change->mask & CV_SIMSTORE_DELAY ? change->delay_ns : s->delay_ns;
        s->jitter_ns = change->mask & CV_SIMSTORE_JITTER ? change->jitter_ns : s->jitter_ns;
        set_trouble(&s->trouble[for_a_while], change->mask, &change->trouble);
        if (change->mask & CV_SIMSTORE_DRIFT) {
            cv__clock_set_drift(&s->clock, now_ns,
                                change->is_random ? cv__rng_range(rng, -drift_ppb, drift_ppb)
                                                  : drift_ppb);
        }
        break;
    case CV_SIMSTORE_RESTART:
        s->boot++;
        if (change->extends && s->holder != 0 && !cv__simstore_expire(s, now_ns)) {
            s->until_ns = cv__clock_local(&s->clock, now_ns) + s->lease_ns;
        }
        break;
    case CV_SIMSTORE_DOWN:
        s->is_down = true;
        break;
    case CV_SIMSTORE_UP:
        s->is_down = false;
        break;
    case CV_SIMSTORE_CUT:
    case CV_SIMSTORE_MEND:
        break;
    case CV_SIMSTORE_VERB_COUNT:
        CV_ASSERT(!"a change of no kind");
    }
}

void cv__simstore_restore(struct cv_simstore *s, enum cv_simstore_verb verb)
{
    CV_ASSERT(verb == CV_SIMSTORE_DOWN || verb == CV_SIMSTORE_SET);
    if (verb == CV_SIMSTORE_DOWN) {
        s->is_down = false;
    } else {
        s->trouble[1] = (struct cv_simstore_trouble){0};
    }
}

static int64_t loss_of(const struct cv_simstore_trouble *t, enum cv_simstore_path path)
{
    return path == CV_SIMSTORE_QUERY    ? t->query_loss_ppb
           : path == CV_SIMSTORE_ANSWER ? t->answer_loss_ppb
                                        : t->news_loss_ppb;
}

bool cv__simstore_travel(struct cv_simstore *s, struct cv_rng *rng, enum cv_simstore_path path,
                         int64_t now_ns, int64_t *ret_at_ns)
{
    bool is_lost = false;
    int64_t delay_ns = path == CV_SIMSTORE_QUERY ? s->delay_ns / 2 : s->delay_ns - s->delay_ns / 2;
    for (int i = 0; i < 2; i++) { /* each cause draws for itself: neither changes the other */
        const int64_t loss_ppb = loss_of(&s->trouble[i], path);
        is_lost = (loss_ppb > 0 && cv__rng_range(rng, 0, CV_PPB_ONE - 1) < loss_ppb) || is_lost;
        delay_ns += path == CV_SIMSTORE_QUERY ? s->trouble[i].query_delay_ns
                                              : s->trouble[i].answer_delay_ns;
    }
    delay_ns += s->jitter_ns > 0 ? cv__rng_range(rng, 0, s->jitter_ns) : 0;
    *ret_at_ns = now_ns + delay_ns;
    uint64_t *lost_count = path == CV_SIMSTORE_QUERY    ? &s->lost_query_count
                           : path == CV_SIMSTORE_ANSWER ? &s->lost_answer_count
                                                        : &s->lost_news_count;
    *lost_count += is_lost;
    return !is_lost;
}

bool cv__simstore_expire(struct cv_simstore *s, int64_t now_ns)
{
    if (s->holder == 0 || cv__clock_local(&s->clock, now_ns) < s->until_ns) {
        return false;
    }
    s->holder = 0;
    return true;
}

int64_t cv__simstore_end_ns(const struct cv_simstore *s)
{
    return s->holder == 0 ? INT64_MAX : cv__clock_real(&s->clock, s->until_ns);
}

static void grant(struct cv_simstore *s, const struct cv_simstore_query *q, int64_t local_ns)
{
    CV_ASSERT(s->holder == 0);
    CV_ASSERT(q->label != 0);
    s->holder = q->label;
    s->attempt = q->attempt;
    s->until_ns = local_ns;
    s->token++; /* from nothing but the last one */
    s->grant_count++;
}

bool cv__simstore_serve(struct cv_simstore *s, const struct cv_simstore_query *q, int64_t now_ns,
                        struct cv_simstore_answer *ret_answer)
{
    const int64_t local_ns = cv__clock_local(&s->clock, now_ns);
    bool is_news = cv__simstore_expire(s, now_ns);
    const bool wants = q->verb == CV_STORE_ACQUIRE || q->verb == CV_STORE_RENEW;
    if (q->verb == CV_STORE_ACQUIRE && s->holder == 0) {
        grant(s, q, local_ns);
    }
    const bool is_holder = s->holder == q->label && s->attempt == q->attempt;
    *ret_answer = (struct cv_simstore_answer){0};
    if (wants && is_holder) {
        s->lease_ns = q->lease_ns;
        s->until_ns = cv__max64(s->until_ns, local_ns + q->lease_ns); /* never less than before */
        ret_answer->verdict = CV_STORE_GRANTED;
        ret_answer->token = s->token;
        ret_answer->duration_ns = q->lease_ns;
        return is_news;
    }
    if (q->verb == CV_STORE_RELEASE && is_holder) {
        s->holder = 0;
        is_news = true;
    }
    ret_answer->verdict = s->holder != 0 ? CV_STORE_HELD : CV_STORE_FREE;
    if (s->holder != 0) {
        ret_answer->token = s->token;
        ret_answer->holder = s->holder;
        ret_answer->duration_ns = s->until_ns - local_ns;
    }
    return is_news;
}
