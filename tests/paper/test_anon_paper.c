/* tests/paper/test_anon_paper.c - what [Wiesmann07] claims, lemma by lemma, and what is ours.
 *
 * Claims about one process, tested with one core that hears what the test sends; claims about all
 * processes are in test_anon_clusters.c. */
#include "core/core.h"
#include "core/sequence.h"
#include "protocols/anon_config.h"
#include "protocols/anon_state.h"
#include "support/cluster.h"
#include "support/host.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#define ETA_NS (50 * NS_PER_MS)
#define EPS_NS (150 * NS_PER_MS)
#define OWN UINT64_C(1000) /* the process's own label */

/* ---- one process ----------------------------------------------------------------------------- */

struct process {
    const struct cv_protocol *protocol;
    struct cv_config config;
    void *state;
    struct cv_effects out;
    int64_t now_ns;
    struct cv_leadership view; /* the latest that was told */
    uint32_t told;             /* leadership events of the latest step */
    uint64_t asked;            /* the latest request; 0: none */
};

static void step(struct process *p, struct cv_event event)
{
    event.now_ns = p->now_ns;
    cv__core_step(p->protocol, p->state, &event, &p->out);
    p->told = 0;
    for (uint32_t i = 0; i < p->out.item_count; i++) {
        const struct cv_effect *e = &p->out.item[i];
        if (e->kind == CV_EFFECT_LEADERSHIP) {
            p->view = e->leadership;
            p->told++;
        }
        p->asked = e->kind == CV_EFFECT_ASK_SEQUENCE ? e->request : p->asked;
    }
}

static struct process *process_start_with(uint32_t round_size, const char *name, const char *value)
{
    struct process *p = calloc(1, sizeof *p);
    char text[20];
    assert_non_null(p);
    p->protocol = cv_protocol_find("anon");
    assert_non_null(p->protocol);
    cv_config_init(&p->config, p->protocol, 1, 1);
    (void)snprintf(text, sizeof text, "%u", round_size);
    assert_int_equal(cv_config_set(&p->config, p->protocol, "R", text, NULL), CV_OK);
    assert_int_equal(cv_config_set(&p->config, p->protocol, name, value, NULL), CV_OK);
    assert_int_equal(cv_core_configure(p->protocol, &p->config, NULL), CV_OK);
    p->state = malloc(cv_core_size(p->protocol, &p->config));
    assert_non_null(p->state);
    p->out = host_effects_new(&p->config);
    p->now_ns = NS_PER_S;
    cv__core_init(p->protocol, p->state, &p->config);
    step(p, (struct cv_event){.kind = CV_EVENT_START, .nonce = OWN});
    return p;
}

static struct process *process_start(uint32_t round_size)
{
    return process_start_with(round_size, "stubborn", "yes");
}

static void process_end(struct process *p)
{
    host_effects_free(&p->out);
    free(p->state);
    free(p);
}

/* Numbers below 1000 in these tests are owned by the process with the label 2000 + number. */
#define OWNER(number) (UINT64_C(2000) + (number))

static void hear_as(struct process *p, uint32_t type, uint64_t number, uint64_t label,
                    uint64_t sent, uint64_t open, uint64_t open_label)
{
    struct cv_message message = {.type = type};
    anon_token_write(&message,
                     (struct anon_token){.number = number,
                                         .label = label,
                                         .sent = sent,
                                         .open_number = open,
                                         .open_label = open_label,
                                         .round = (uint64_t)p->config.option[ANON_OPTION_R]});
    step(p, (struct cv_event){.kind = CV_EVENT_MESSAGE, .message = &message});
}

static void hear(struct process *p, uint32_t type, uint64_t number, uint64_t sent, uint64_t open)
{
    hear_as(p, type, number, OWNER(number), sent, open, OWNER(open));
}

static void fire(struct process *p, uint32_t timer)
{
    step(p, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = timer});
}

static void answer(struct process *p, uint64_t number)
{
    const uint64_t request = p->asked;
    assert_true(request > 0);
    p->asked = 0;
    step(p, (struct cv_event){.kind = CV_EVENT_SEQUENCE, .request = request, .sequence = number});
}

/* It has suspected everybody, asked for a number and got this one. */
static struct process *process_proposing(uint32_t round_size, uint64_t number)
{
    struct process *p = process_start(round_size);
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    answer(p, number);
    return p;
}

/* The message of that type that the latest step sent, or NULL. */
static const struct cv_message *sent(const struct process *p, uint32_t type)
{
    for (uint32_t i = 0; i < p->out.item_count; i++) {
        if (p->out.item[i].kind == CV_EFFECT_SEND && p->out.item[i].message.type == type) {
            return &p->out.item[i].message;
        }
    }
    return NULL;
}

static struct anon_token sent_token(const struct process *p, uint32_t type)
{
    const struct cv_message *message = sent(p, type);
    assert_non_null(message);
    return anon_token_read(message);
}

static const struct cv_effect *armed(const struct process *p, uint32_t timer)
{
    for (uint32_t i = 0; i < p->out.item_count; i++) {
        if (p->out.item[i].kind == CV_EFFECT_ARM && p->out.item[i].timer == timer) {
            return &p->out.item[i];
        }
    }
    return NULL;
}

static void assert_follows(const struct process *p, uint64_t number)
{
    assert_int_equal(p->view.leader, CV_ID_ANONYMOUS);
    assert_int_equal(p->view.label, OWNER(number));
    assert_int_equal(p->view.token, number);
}

/* [sec. 1, fifth property] "the protocol requires a constant amount of memory" */
static void memory_does_not_depend_on_the_number_of_processes(void **unused)
{
    (void)unused;
    const struct cv_protocol *anon = cv_protocol_find("anon");
    const uint32_t counts[] = {1, 2, 64, 65, CV_MEMBERS_MAX};
    struct cv_config config;
    cv_config_init(&config, anon, 1, 1);
    assert_int_equal(cv_core_configure(anon, &config, NULL), CV_OK);
    const size_t bytes = cv_core_size(anon, &config);
    assert_true(bytes <= 320);
    for (uint32_t i = 0; i < COUNT_OF(counts); i++) {
        config.member_count = counts[i];
        assert_int_equal(cv_core_size(anon, &config), bytes);
    }
}

/* [lemma 1] "Processes only propose themselves." */
static void a_process_proposes_itself_only(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    assert_int_equal(p->asked, 1);
    assert_null(sent(p, ANON_TOKEN));
    answer(p, 7);
    const struct anon_token token = sent_token(p, ANON_TOKEN);
    assert_int_equal(token.number, 7);
    assert_int_equal(token.label, OWN);
    process_end(p);
}

/* [fig. 1, listen] The round of the open number is not closed; the first number closes nothing. */
static void a_round_is_closed_by_a_number_of_a_later_one(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    hear(p, ANON_TOKEN, 6, 1, 6);
    assert_int_equal(p->view.leader, CV_ID_NONE);
    hear(p, ANON_TOKEN, 8, 1, 8); /* the same round */
    assert_int_equal(p->view.leader, CV_ID_NONE);
    hear(p, ANON_TOKEN, 10, 1, 10);
    assert_follows(p, 8);
    hear(p, ANON_TOKEN, 9, 1,
         9); /* [sec. 3, b] a slow one with a larger number of the closed round */
    assert_follows(p, 9);
    hear(p, ANON_TOKEN, 7, 1, 7);
    assert_follows(p, 9);
    process_end(p);
}

/* [lemmas 2 and 3] The leader of a closed round is the maximum of the numbers proposed in it; ours:
 * in whatever order they are heard, and however large the gaps are (fig. 1 needs gaps below R). */
static void the_leader_does_not_depend_on_the_order_of_delivery(void **unused)
{
    (void)unused;
    uint64_t seed = 7;
    for (uint32_t run = 0; run < test_scale(2000); run++) {
        uint64_t number[12];
        const uint32_t round_size = 1 + test_random_below(&seed, 6);
        const uint32_t count = 2 + test_random_below(&seed, COUNT_OF(number) - 2);
        uint64_t last = 0;
        for (uint32_t i = 0; i < count; i++) {
            last += 1 + (test_random_below(&seed, 3) == 0 ? test_random_below(&seed, 20) : 0);
            number[i] = last;
        }
        uint64_t leader = 0;
        for (uint32_t i = 0; i < count; i++) {
            leader = number[i] / round_size < last / round_size ? number[i] : leader;
        }
        for (uint32_t i = count; i > 1; i--) { /* shuffled */
            const uint32_t other = test_random_below(&seed, i);
            const uint64_t swap = number[i - 1];
            number[i - 1] = number[other];
            number[other] = swap;
        }
        struct process *p = process_start(round_size);
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t token_before = p->view.token;
            hear(p, ANON_TOKEN, number[i], 1, number[i]);
            assert_true(p->told <= 1);
            assert_true(p->view.token >= token_before); /* [lemma 8] */
        }
        if (leader != 0) {
            assert_follows(p, leader);
        } else {
            assert_int_equal(p->view.leader, CV_ID_NONE);
        }
        process_end(p);
    }
}

/* [lemma 9] The piggybacked number behaves like a message of its own, delivered first. */
static void one_message_of_the_leader_is_enough(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    hear(p, ANON_TOKEN, 8, 40, 11);
    assert_int_equal(p->told, 1);
    assert_follows(p, 8);
    assert_null(sent(p, ANON_TOKEN));

    struct process *q = process_start(5);
    hear(q, ANON_TOKEN, 11, 1, 11);
    hear(q, ANON_TOKEN, 8, 40, 8);
    assert_follows(q, 8);
    process_end(p);
    process_end(q);
}

/* [fig. 2; ours] Each token of the leader renews trust, not only the first; a copy of an earlier
 * one does not. */
static void trust_is_renewed_by_new_tokens_only(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    hear(p, ANON_TOKEN, 8, 40, 11);
    for (uint32_t i = 1; i <= 5; i++) {
        p->now_ns += ETA_NS;
        hear(p, ANON_TOKEN, 8, 40 + i, 11);
        assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->earliest_ns, p->now_ns + EPS_NS);
    }
    hear(p, ANON_TOKEN, 8, 45, 11);
    assert_null(armed(p, ANON_TIMER_SUSPECT));
    hear(p, ANON_TOKEN, 8, 41, 11);
    assert_null(armed(p, ANON_TIMER_SUSPECT));
    hear(p, ANON_STATE, 8, 99, 11); /* about another number */
    assert_null(armed(p, ANON_TIMER_SUSPECT));
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    assert_int_equal(p->view.leader, CV_ID_NONE);
    assert_int_equal(p->view.reason, CV_REASON_SUSPECTED);
    assert_true(p->asked > 0);
    hear(p, ANON_TOKEN, 8, 46, 11); /* it was a false suspicion: the same leader is heard again */
    assert_follows(p, 8);
    assert_int_equal(p->view.reason, CV_REASON_RENEWED);
    answer(p, 12);
    assert_null(sent(p, ANON_TOKEN)); /* a number that comes while a leader is trusted is dropped */
    process_end(p);
}

/* [lemma 7] "Processes only send messages if either they are the leader, or suspect the current
 * leader"; ours: repeated until the leader is heard to lead. */
static void a_proposal_is_repeated_until_the_leader_is_heard_to_lead(void **unused)
{
    (void)unused;
    struct process *p = process_proposing(5, 10);
    hear(p, ANON_TOKEN, 8, 1, 8); /* its owner does not know yet that the round is closed */
    assert_follows(p, 8);
    p->now_ns += ETA_NS;
    fire(p, ANON_TIMER_HEARTBEAT);
    assert_non_null(sent(p, ANON_TOKEN));
    assert_int_equal(sent_token(p, ANON_TOKEN).number, 10);
    hear(p, ANON_TOKEN, 8, 2, 10); /* the open number says that it does: it leads */
    p->now_ns += ETA_NS;
    fire(p, ANON_TIMER_HEARTBEAT);
    assert_null(sent(p, ANON_TOKEN));
    process_end(p);
}

/* [fig. 2, r-broadcast] "while v_closed = token.v: broadcast, sleep eta" */
static void a_leader_sends_every_eta_until_it_is_superseded(void **unused)
{
    (void)unused;
    struct process *p = process_proposing(5, 9);
    hear(p, ANON_TOKEN, 10, 1, 10);
    assert_int_equal(p->view.leader, 1);
    assert_int_equal(p->view.label, OWN);
    assert_int_equal(p->view.token, 9);
    assert_non_null(sent(p, ANON_TOKEN)); /* at once */
    for (uint32_t i = 0; i < 3; i++) {
        p->now_ns += ETA_NS;
        fire(p, ANON_TIMER_HEARTBEAT);
        assert_int_equal(sent_token(p, ANON_TOKEN).number, 9);
        assert_int_equal(sent_token(p, ANON_TOKEN).open_number, 10);
        assert_int_equal(armed(p, ANON_TIMER_HEARTBEAT)->earliest_ns, p->now_ns + ETA_NS);
    }
    hear(p, ANON_TOKEN, 14, 1, 14); /* a larger number of the open round changes nothing */
    assert_int_equal(p->view.leader, 1);
    hear(p, ANON_TOKEN, 15, 1, 15);
    assert_follows(p, 14);
    assert_int_equal(p->view.reason, CV_REASON_SUPERSEDED);
    p->now_ns += ETA_NS;
    fire(p, ANON_TIMER_HEARTBEAT);
    assert_null(sent(p, ANON_TOKEN));
    process_end(p);
}

/* Ours: a process that hears a token below its closed number tells the sender, unless another
 * did. */
static void a_stale_token_is_answered_once(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    hear(p, ANON_TOKEN, 8, 40, 11);
    hear(p, ANON_TOKEN, 3, 90, 6);
    assert_non_null(armed(p, ANON_TIMER_TELL));
    assert_true(armed(p, ANON_TIMER_TELL)->latest_ns <= p->now_ns + ETA_NS);
    hear(p, ANON_TOKEN, 3, 91, 6);
    assert_null(armed(p, ANON_TIMER_TELL));
    fire(p, ANON_TIMER_TELL);
    assert_int_equal(sent_token(p, ANON_STATE).number, 8);
    assert_int_equal(sent_token(p, ANON_STATE).label, OWNER(8));
    assert_int_equal(sent_token(p, ANON_STATE).open_number, 11);
    hear(p, ANON_TOKEN, 3, 92, 6);
    hear(p, ANON_STATE, 8, 1, 11);
    fire(p, ANON_TIMER_TELL);
    assert_null(sent(p, ANON_STATE));
    process_end(p);
}

/* Ours: a process that hears the leader says so to a proposer, unless another did. */
static void a_proposal_is_answered_by_a_process_that_hears_the_leader(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    hear(p, ANON_TOKEN, 12, 1, 12);
    assert_null(armed(p, ANON_TIMER_TELL)); /* there is no leader yet */
    hear(p, ANON_STATE, 8, 40, 12);
    assert_follows(p, 8);
    hear(p, ANON_TOKEN, 12, 2, 12);
    assert_null(armed(p, ANON_TIMER_TELL)); /* others speak of it, but it is not heard itself */
    hear(p, ANON_TOKEN, 8, 1, 12);
    assert_null(armed(p, ANON_TIMER_TELL));
    hear(p, ANON_TOKEN, 12, 3, 12);
    assert_true(armed(p, ANON_TIMER_TELL)->earliest_ns > p->now_ns);
    assert_int_equal(armed(p, ANON_TIMER_TELL)->latest_ns, p->now_ns + ETA_NS);
    hear(p, ANON_TOKEN, 13, 3, 13);
    assert_null(armed(p, ANON_TIMER_TELL)); /* one answer for both */
    fire(p, ANON_TIMER_TELL);
    assert_int_equal(sent_token(p, ANON_TRUST).number, 8);
    assert_int_equal(sent_token(p, ANON_TRUST).open_number, 13);
    fire(p, ANON_TIMER_TELL);
    assert_null(sent(p, ANON_TRUST));

    hear(p, ANON_TOKEN, 12, 4, 12);
    hear(p, ANON_TRUST, 8, 1, 13); /* another was faster */
    fire(p, ANON_TIMER_TELL);
    assert_null(sent(p, ANON_TRUST));

    hear(p, ANON_TOKEN, 12, 5, 12); /* a proposal, and a stale token: one answer serves both */
    hear(p, ANON_TOKEN, 3, 1, 6);
    hear(p, ANON_STATE, 8, 1, 13); /* that answers the stale token only */
    fire(p, ANON_TIMER_TELL);
    assert_non_null(sent(p, ANON_TRUST));
    assert_null(sent(p, ANON_STATE));

    hear(p, ANON_TOKEN, 12, 6, 12);
    hear(p, ANON_TOKEN, 3, 2, 6);
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT); /* it hears the leader no more, but knows its number */
    fire(p, ANON_TIMER_TELL);
    assert_null(sent(p, ANON_TRUST));
    assert_non_null(sent(p, ANON_STATE));
    hear(p, ANON_TOKEN, 12, 7, 12);
    assert_null(armed(p, ANON_TIMER_TELL));
    process_end(p);
}

/* Ours: this answer postpones the next number of a stubborn proposer, and renews no trust. */
static void a_proposer_that_was_answered_takes_no_new_number(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    hear(p, ANON_TOKEN, 8, 40, 11);
    p->now_ns += EPS_NS;
    hear(p, ANON_TRUST, 8, 1, 11);
    assert_null(armed(p, ANON_TIMER_SUSPECT));
    fire(p, ANON_TIMER_SUSPECT);
    hear(p, ANON_TRUST, 8, 2, 11);
    assert_null(armed(p, ANON_TIMER_SUSPECT)); /* it has not proposed yet */
    answer(p, 12);
    p->now_ns += ETA_NS;
    hear(p, ANON_STATE, 8, 3, 12);
    assert_null(armed(p, ANON_TIMER_SUSPECT));
    hear(p, ANON_TRUST, 8, 3, 12);
    assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->earliest_ns, p->now_ns + EPS_NS);
    assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->latest_ns, p->now_ns + EPS_NS);
    assert_int_equal(p->view.leader, CV_ID_NONE);
    assert_int_equal(p->asked, 0);
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    assert_int_not_equal(p->asked, 0); /* nobody has said so for eps: it takes a new number */
    process_end(p);
}

/* Did the latest step disarm that timer, or save? */
static bool has_effect(const struct process *p, enum cv_effect_kind kind, uint32_t timer)
{
    bool has = false;
    for (uint32_t i = 0; i < p->out.item_count; i++) {
        const struct cv_effect *e = &p->out.item[i];
        has = has || (e->kind == kind && (kind == CV_EFFECT_PERSIST || e->timer == timer));
    }
    return has;
}

/* Leads with number 9. */
static struct process *leading_process(void)
{
    struct process *p = process_proposing(5, 9);
    hear(p, ANON_TOKEN, 10, 1, 10);
    assert_int_equal(p->view.leader, 1);
    return p;
}

static void starts_by_listening_for_half_of_eps_to_eps(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    assert_int_equal(p->protocol->settle_ns(&p->config), 6300 * NS_PER_MS); /* docs/anon.md */
    assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->earliest_ns, p->now_ns + EPS_NS / 2);
    assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->latest_ns, p->now_ns + EPS_NS);
    p->now_ns += EPS_NS + ETA_NS + 1; /* more than eta late: it slept, and listens again */
    fire(p, ANON_TIMER_SUSPECT);
    assert_int_equal(p->asked, 0);
    assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->earliest_ns, p->now_ns + EPS_NS / 2);
    p->now_ns += EPS_NS + ETA_NS; /* not late yet */
    fire(p, ANON_TIMER_SUSPECT);
    assert_int_equal(p->asked, 1);
    process_end(p);
    p = process_start_with(5, "start", "paper");
    assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->earliest_ns, p->now_ns + 1);
    assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->latest_ns, p->now_ns + EPS_NS);
    process_end(p);
}

static void the_first_number_may_be_any(void **unused)
{
    (void)unused;
    struct process *p = process_proposing(5, 0);
    assert_int_equal(sent_token(p, ANON_TOKEN).number, 0);
    assert_int_equal(sent_token(p, ANON_TOKEN).label, OWN);
    assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->earliest_ns, p->now_ns + EPS_NS);
    assert_int_equal(armed(p, ANON_TIMER_HEARTBEAT)->earliest_ns, p->now_ns + ETA_NS);
    process_end(p);
}

static void a_leader_that_slept_is_silent_for_half_of_eps_to_eps(void **unused)
{
    (void)unused;
    struct process *p = leading_process();
    p->now_ns += ETA_NS + EPS_NS; /* not too late yet */
    fire(p, ANON_TIMER_HEARTBEAT);
    assert_non_null(sent(p, ANON_TOKEN));
    p->now_ns += ETA_NS + EPS_NS + 1;
    fire(p, ANON_TIMER_HEARTBEAT);
    assert_null(sent(p, ANON_TOKEN));
    assert_int_equal(p->view.leader, CV_ID_NONE);
    assert_int_equal(p->view.reason, CV_REASON_EXPIRED);
    assert_true(has_effect(p, CV_EFFECT_DISARM, ANON_TIMER_HEARTBEAT));
    assert_int_equal(armed(p, ANON_TIMER_RESUME)->earliest_ns, p->now_ns + EPS_NS / 2);
    assert_int_equal(armed(p, ANON_TIMER_RESUME)->latest_ns, p->now_ns + EPS_NS);
    p->now_ns += 2 * EPS_NS + 1; /* slept again */
    fire(p, ANON_TIMER_RESUME);
    assert_int_equal(p->view.leader, CV_ID_NONE);
    assert_non_null(armed(p, ANON_TIMER_RESUME));
    p->now_ns += 2 * EPS_NS;
    fire(p, ANON_TIMER_RESUME);
    assert_int_equal(p->view.leader, 1); /* it still owns the number */
    assert_int_equal(p->view.reason, CV_REASON_RENEWED);
    assert_non_null(sent(p, ANON_TOKEN));
    fire(p, ANON_TIMER_RESUME);
    assert_int_equal(p->out.item_count, 0);
    process_end(p);

    p = leading_process();
    p->now_ns += ETA_NS + EPS_NS + 1;
    fire(p, ANON_TIMER_HEARTBEAT);
    hear(p, ANON_TOKEN, 15, 1, 15); /* it was superseded while it slept */
    assert_follows(p, 10);
    assert_true(has_effect(p, CV_EFFECT_DISARM, ANON_TIMER_RESUME));
    assert_true(has_effect(p, CV_EFFECT_DISARM, ANON_TIMER_HEARTBEAT));
    process_end(p);
}

static void a_leader_that_resigns_says_so_three_times_and_rests(void **unused)
{
    (void)unused;
    struct process *p = leading_process();
    step(p, (struct cv_event){.kind = CV_EVENT_RESIGN});
    const int64_t resigned_ns = p->now_ns;
    assert_int_equal(p->view.leader, CV_ID_NONE);
    assert_int_equal(p->view.reason, CV_REASON_RESIGNED);
    assert_int_equal(sent_token(p, ANON_GONE).number, 9);
    assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->earliest_ns, p->now_ns + 2 * EPS_NS);
    assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->latest_ns, p->now_ns + 2 * EPS_NS);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(armed(p, ANON_TIMER_HEARTBEAT)->earliest_ns, p->now_ns + ETA_NS);
        p->now_ns += ETA_NS;
        fire(p, ANON_TIMER_HEARTBEAT);
        assert_non_null(sent(p, ANON_GONE));
    }
    p->now_ns += ETA_NS;
    fire(p, ANON_TIMER_HEARTBEAT);
    assert_int_equal(p->out.item_count, 0);
    step(p, (struct cv_event){.kind = CV_EVENT_RESIGN});
    assert_int_equal(p->out.item_count, 0); /* nothing to resign from */
    p->now_ns = resigned_ns + 2 * EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    assert_int_not_equal(p->asked, 0);
    answer(p, 12);
    assert_int_equal(sent_token(p, ANON_TOKEN).number, 12);
    process_end(p);
}

static void a_process_that_rests_or_is_no_candidate_proposes_nothing(void **unused)
{
    (void)unused;
    struct process *p = leading_process();
    step(p, (struct cv_event){.kind = CV_EVENT_RESIGN});
    const int64_t rest_ns = p->now_ns + 2 * EPS_NS;
    hear(p, ANON_TOKEN, 15, 1, 15);
    assert_follows(p, 10);
    p->asked = 0;
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    assert_int_equal(p->view.leader, CV_ID_NONE);
    assert_int_equal(p->asked, 0);
    assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->earliest_ns, rest_ns);
    step(p, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = false});
    p->now_ns = rest_ns;
    fire(p, ANON_TIMER_SUSPECT);
    assert_int_equal(p->asked, 0);
    step(p, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = true});
    assert_int_equal(armed(p, ANON_TIMER_SUSPECT)->earliest_ns, p->now_ns + EPS_NS / 2);
    step(p, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = true});
    assert_int_equal(p->out.item_count, 0);
    process_end(p);

    p = leading_process();
    step(p, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = false});
    assert_int_equal(p->view.reason, CV_REASON_RESIGNED);
    assert_non_null(sent(p, ANON_GONE));
    process_end(p);
}

/* The paper's rule: one proposal for each suspicion. */
static void without_stubbornness_a_process_proposes_once(void **unused)
{
    (void)unused;
    struct process *p = process_start_with(5, "stubborn", "no");
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    answer(p, 12);
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    assert_int_equal(p->asked, 0);
    hear(p, ANON_TOKEN, 8, 1, 13); /* a leader, ... */
    hear(p, ANON_TOKEN, 13, 1, 13);
    assert_null(armed(p, ANON_TIMER_TELL)); /* proposals need no answer: nobody repeats them */
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    assert_int_not_equal(p->asked, 0); /* ... and a new suspicion */
    process_end(p);
}

static void a_sequencer_that_fails_is_asked_again_later_and_later(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    const uint64_t first = p->asked;
    assert_int_equal(armed(p, ANON_TIMER_QUERY)->earliest_ns, p->now_ns + EPS_NS);
    answer(p, CV_SEQUENCE_END);
    assert_int_equal(p->out.item_count, 0);
    for (int64_t factor = 2; factor <= 16; factor *= 2) {
        fire(p, ANON_TIMER_QUERY);
        const int64_t wait_ns = cv__min64(factor, 8) * EPS_NS;
        assert_int_equal(armed(p, ANON_TIMER_QUERY)->earliest_ns, p->now_ns + wait_ns);
    }
    assert_int_equal(p->asked, first + 4);
    p->asked = first; /* a late answer is good enough */
    answer(p, 9);
    assert_int_equal(sent_token(p, ANON_TOKEN).number, 9);
    assert_true(has_effect(p, CV_EFFECT_DISARM, ANON_TIMER_QUERY));
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    assert_int_equal(armed(p, ANON_TIMER_QUERY)->earliest_ns, p->now_ns + EPS_NS);
    process_end(p);
}

static void a_late_useless_number_does_not_end_the_wait(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    hear(p, ANON_TOKEN, 8, 40, 11);
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    const uint64_t first = p->asked;
    fire(p, ANON_TIMER_QUERY);
    const uint64_t second = p->asked;
    p->asked = first;
    answer(p, 8);
    /* Not above the closed number; the second answer may be. */
    assert_int_equal(p->out.item_count, 0);
    p->asked = second + 1;
    answer(p, 12);
    assert_int_equal(p->out.item_count, 0); /* nobody asked for that number */
    p->asked = second;
    answer(p, 8);
    assert_int_equal(p->asked, second + 1); /* of no use either: it asks again */
    answer(p, 12);
    assert_int_equal(sent_token(p, ANON_TOKEN).number, 12);
    process_end(p);
}

static void with_persist_a_process_saves_what_has_changed(void **unused)
{
    (void)unused;
    struct process *p = process_start_with(5, "persist", "yes");
    hear(p, ANON_TOKEN, 8, 40, 11);
    assert_true(has_effect(p, CV_EFFECT_PERSIST, 0));
    hear(p, ANON_TOKEN, 8, 41, 11);
    assert_false(has_effect(p, CV_EFFECT_PERSIST, 0));
    hear(p, ANON_TOKEN, 8, 42, 12); /* a larger open number */
    assert_true(has_effect(p, CV_EFFECT_PERSIST, 0));
    p->now_ns += EPS_NS;
    fire(p, ANON_TIMER_SUSPECT);
    answer(p, 13);
    assert_true(has_effect(p, CV_EFFECT_PERSIST, 0));
    step(p, (struct cv_event){.kind = CV_EVENT_PERSIST_FAILED});
    for (uint32_t timer = 0; timer < ANON_TIMER_COUNT; timer++) {
        assert_true(has_effect(p, CV_EFFECT_DISARM, timer));
    }
    hear(p, ANON_TOKEN, 20, 40, 21);
    assert_int_equal(p->out.item_count, 0); /* takes no further part */
    process_end(p);
}

/* Ours: a resignation causes suspicion at once, and a heartbeat that it overtook does not undo
 * that. */
static void a_leader_that_resigned_is_suspected_at_once(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    hear(p, ANON_TOKEN, 8, 40, 11);
    hear(p, ANON_GONE, 8, 42, 11);
    assert_int_equal(p->view.leader, CV_ID_NONE);
    assert_int_equal(p->view.reason, CV_REASON_RESIGNED);
    assert_int_equal(p->asked, 1);
    hear(p, ANON_TOKEN, 8, 41, 11);
    assert_int_equal(p->view.leader, CV_ID_NONE);
    process_end(p);
}

/* Foreign traffic: another R, numbers that no sequencer gives, our own messages that come back. */
static void impossible_messages_are_ignored(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    hear(p, ANON_TOKEN, 8, 40, CV_SEQUENCE_END);
    hear(p, ANON_TOKEN, CV_SEQUENCE_END, 40, CV_SEQUENCE_END);
    hear(p, ANON_TOKEN, 8, 40, 7);
    hear_as(p, ANON_TOKEN, 8, OWN, 40, 11, OWNER(11));
    p->config.option[ANON_OPTION_R] = 4;
    hear(p, ANON_TOKEN, 8, 40, 11);
    p->config.option[ANON_OPTION_R] = 5;
    assert_int_equal(p->out.note_count, 1);
    assert_string_equal(p->out.note[0].text, "message ignored: rounds of another size, R={number}");
    assert_int_equal(p->out.note[0].number, 4);
    assert_int_equal(p->out.item_count, 0);
    assert_int_equal(p->view.leader, CV_ID_NONE);

    uint64_t seed = 3;
    /* Whatever else it hears trips no assertion. */
    for (uint32_t i = 0; i < test_scale(20000); i++) {
        const uint64_t low = test_random_below(&seed, 40);
        const uint64_t high = test_random_below(&seed, 8) == 0 ? test_random(&seed) : low + 7;
        p->now_ns += test_random_below(&seed, 50000000);
        hear_as(p, test_random_below(&seed, ANON_MESSAGE_COUNT), low, test_random_below(&seed, 3),
                i, high, test_random_below(&seed, 3) + OWN - 1);
        fire(p, test_random_below(&seed, 5));
        if (p->asked > 0 && test_random_below(&seed, 2) == 0) {
            answer(p, test_random_below(&seed, 60));
        }
        if (test_random_below(&seed, 100) == 0) {
            step(p, (struct cv_event){.kind = CV_EVENT_RESIGN});
        }
    }
    process_end(p);
}

/* [sec. 6] "We assume that eps/2 > eta"; "it makes no sense to have eps <= t_oracle" */
static void contradicting_time_outs_are_refused_by_name(void **unused)
{
    (void)unused;
    const struct cv_protocol *anon = cv_protocol_find("anon");
    const struct {
        const char *eta, *eps, *sequencer, *says;
    } wrong[] = {
        {"50ms", "100ms", "10ms", "eps/2 > eta"},
        {"50ms", "150ms", "150ms", "eps > sequencer-time"},
    };
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        struct cv_config config;
        struct cv_errtext why = {""};
        cv_config_init(&config, anon, 1, 3);
        assert_int_equal(cv_config_set(&config, anon, "eta", wrong[i].eta, NULL), CV_OK);
        assert_int_equal(cv_config_set(&config, anon, "eps", wrong[i].eps, NULL), CV_OK);
        assert_int_equal(cv_config_set(&config, anon, "sequencer-time", wrong[i].sequencer, NULL),
                         CV_OK);
        assert_int_equal(cv_core_configure(anon, &config, &why), CV_E_INVALID);
        assert_non_null(strstr(why.text, wrong[i].says));
    }
}

/* The option once had the name of a score of `pole`; a scenario that still uses it is told the new
 * name. */
static void former_name_of_an_option_is_refused_with_the_present_one(void **unused)
{
    (void)unused;
    const struct cv_protocol *anon = cv_protocol_find("anon");
    struct cv_config config;
    struct cv_errtext why = {""};
    cv_config_init(&config, anon, 1, 3);
    assert_int_equal(cv_config_set(&config, anon, "oracle", "10ms", &why), CV_E_UNKNOWN);
    assert_string_equal(why.text,
                        "protocol 'anon': option 'oracle' is called 'sequencer-time' now");
}

/* What an operator reads when a number came to nothing. */
static void ignored_numbers_and_tokens_have_a_reason(void **unused)
{
    (void)unused;
    struct process *p = process_start(5);
    fire(p, ANON_TIMER_SUSPECT);
    hear(p, ANON_TOKEN, 8, 40, 11);
    answer(p, 20);
    assert_int_equal(p->out.note_count, 1);
    assert_string_equal(p->out.note[0].text,
                        "number {number} ignored: a leader is trusted, or may not propose");
    assert_int_equal(p->out.note[0].number, 20);
    hear(p, ANON_TOKEN, 8, 40, 11);
    assert_string_equal(p->out.note[0].text,
                        "token ignored: a copy, or overtaken by a later one ({number})");
    step(p, (struct cv_event){.kind = CV_EVENT_RESIGN});
    assert_string_equal(p->out.note[0].text, "resignation ignored: does not lead");
    process_end(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_does_not_depend_on_the_number_of_processes),
        cmocka_unit_test(a_process_proposes_itself_only),
        cmocka_unit_test(a_round_is_closed_by_a_number_of_a_later_one),
        cmocka_unit_test(the_leader_does_not_depend_on_the_order_of_delivery),
        cmocka_unit_test(one_message_of_the_leader_is_enough),
        cmocka_unit_test(trust_is_renewed_by_new_tokens_only),
        cmocka_unit_test(a_proposal_is_repeated_until_the_leader_is_heard_to_lead),
        cmocka_unit_test(a_leader_sends_every_eta_until_it_is_superseded),
        cmocka_unit_test(a_stale_token_is_answered_once),
        cmocka_unit_test(a_proposal_is_answered_by_a_process_that_hears_the_leader),
        cmocka_unit_test(a_proposer_that_was_answered_takes_no_new_number),
        cmocka_unit_test(starts_by_listening_for_half_of_eps_to_eps),
        cmocka_unit_test(the_first_number_may_be_any),
        cmocka_unit_test(a_leader_that_slept_is_silent_for_half_of_eps_to_eps),
        cmocka_unit_test(a_leader_that_resigns_says_so_three_times_and_rests),
        cmocka_unit_test(a_process_that_rests_or_is_no_candidate_proposes_nothing),
        cmocka_unit_test(without_stubbornness_a_process_proposes_once),
        cmocka_unit_test(a_sequencer_that_fails_is_asked_again_later_and_later),
        cmocka_unit_test(a_late_useless_number_does_not_end_the_wait),
        cmocka_unit_test(with_persist_a_process_saves_what_has_changed),
        cmocka_unit_test(a_leader_that_resigned_is_suspected_at_once),
        cmocka_unit_test(impossible_messages_are_ignored),
        cmocka_unit_test(contradicting_time_outs_are_refused_by_name),
        cmocka_unit_test(former_name_of_an_option_is_refused_with_the_present_one),
        cmocka_unit_test(ignored_numbers_and_tokens_have_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
