/* examples/own_oracle.c - elect by your own score.
 *
 * Three processes of `pole` live in this one program; messages take 1 ms, the clock is a counter.
 * Each reports its load and its capacity, and the score is the share that is free, in per cent: an
 * idle small machine is better than a busy large one. Between machines in the same ten per cent,
 * the built-in score `load` decides: the capacity that is free in absolute terms.
 *
 *   cc own_oracle.c -o own_oracle $(pkg-config --cflags --libs conclave) && ./own_oracle */
#include <conclave/conclave.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NODES 3u
#define MS INT64_C(1000000)

/* ---- The oracle ------------------------------------------------------------------------------ */

/* Reads only the view: no clock, no file, no state. */
static int64_t free_score(const struct cv_oracle_view *view)
{
    if (view->capacity == 0) {
        return CV_SCORE_UNKNOWN; /* it has not been reported yet */
    }
    const uint64_t load = view->load < view->capacity ? view->load : view->capacity;
    return (int64_t)(100 * (view->capacity - load) / view->capacity);
}

static const struct cv_oracle free_oracle = {
    .name = "free",
    .formula = "share of the capacity that is free, in per cent; higher wins",
    .inputs = "report capacity, report load",
    .use = "machines of different sizes",
    .order = CV_SCORE_HIGHER_WINS,
    .score = free_score,
};
static const struct cv_oracle *const own[] = {&free_oracle};

/* ---- A small host ---------------------------------------------------------------------------- */

struct flight {
    int64_t at_ns;
    cv_id from, to;
    struct cv_message message; /* those of `pole` have no lists: a copy is enough */
};

struct node {
    void *state;
    int64_t timer_ns[CV_TIMERS_MAX]; /* 0: not armed */
    cv_id leader;
    uint64_t token;
};

static struct node node[NODES + 1];
static struct flight flight[4096];
static uint32_t flight_count;
static struct cv_effects effects;
static const struct cv_protocol *pole;
static int64_t now_ns = 1;

static void must(int code, const char *what, const struct cv_errtext *why)
{
    if (code != CV_OK) {
        (void)fprintf(stderr, "%s: %s\n", what, why->text);
        exit(1);
    }
}

/* Nothing here survives the program, so there is nothing to persist to. */
static void carry_out(cv_id self, const struct cv_effect *e)
{
    switch (e->kind) {
    case CV_EFFECT_SEND:
        for (cv_id to = 1; to <= NODES; to++) {
            if (to >= e->first && to <= e->last && (to != self || e->to_self) &&
                flight_count < sizeof flight / sizeof flight[0]) {
                flight[flight_count++] = (struct flight){now_ns + MS, self, to, e->message};
            }
        }
        break;
    case CV_EFFECT_ARM:
        node[self].timer_ns[e->timer] = e->earliest_ns;
        break;
    case CV_EFFECT_DISARM:
        node[self].timer_ns[e->timer] = 0;
        break;
    case CV_EFFECT_LEADERSHIP:
        node[self].leader = e->leadership.leader;
        node[self].token = e->leadership.token;
        break;
    default:
        break;
    }
}

static void step(cv_id self, struct cv_event event)
{
    event.now_ns = now_ns;
    cv_core_step(pole, node[self].state, &event, &effects);
    for (uint32_t i = 0; i < effects.item_count; i++) {
        carry_out(self, &effects.item[i]);
    }
}

static void run_until(int64_t until_ns)
{
    for (; now_ns < until_ns; now_ns += MS / 10) {
        for (uint32_t i = 0; i < flight_count;) {
            if (flight[i].at_ns > now_ns) {
                i++;
                continue;
            }
            const struct flight f = flight[i];
            flight[i] = flight[--flight_count];
            const struct cv_event event = {
                .kind = CV_EVENT_MESSAGE, .peer = f.from, .message = &f.message};
            step(f.to, event);
        }
        for (cv_id id = 1; id <= NODES; id++) {
            for (uint32_t timer = 0; timer < CV_TIMERS_MAX; timer++) {
                if (node[id].timer_ns[timer] != 0 && node[id].timer_ns[timer] <= now_ns) {
                    node[id].timer_ns[timer] = 0;
                    const struct cv_event event = {.kind = CV_EVENT_TIMER, .timer = timer};
                    step(id, event);
                }
            }
        }
    }
}

int main(void)
{
    static const int64_t capacity[NODES + 1] = {0, 800, 64, 64};
    static const int64_t load[NODES + 1] = {0, 720, 16, 60}; /* 10 %, 75 % and 6 % are free */
    struct cv_errtext why = {""};
    pole = cv_protocol_find("pole");
    for (cv_id id = 1; id <= NODES; id++) {
        struct cv_config config;
        cv_config_init(&config, pole, id, NODES);
        config.oracles = own;
        config.oracle_count = 1;
        must(cv_config_set(&config, pole, "oracle", "free/10,load", &why), "oracle", &why);
        must(cv_core_configure(pole, &config, &why), "configuration", &why);
        node[id].state = malloc(cv_core_size(pole, &config));
        if (id == 1) {
            effects.item = malloc(CV_EFFECTS_MAX * sizeof *effects.item);
            effects.word_capacity = cv_effects_words(&config);
            effects.word = malloc(effects.word_capacity * sizeof *effects.word);
        }
        if (node[id].state == NULL || effects.item == NULL || effects.word == NULL) {
            return 1;
        }
        cv_core_init(pole, node[id].state, &config);
    }
    for (cv_id id = 1; id <= NODES; id++) {
        /* Before the start: the first election already knows. */
        const struct cv_event reports[] = {
            {.kind = CV_EVENT_REPORT, .input = CV_INPUT_CAPACITY, .value = capacity[id]},
            {.kind = CV_EVENT_REPORT, .input = CV_INPUT_LOAD, .value = load[id]},
            {.kind = CV_EVENT_START, .nonce = id},
        };
        for (uint32_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
            step(id, reports[i]);
        }
    }
    run_until(500 * MS);
    int status = 0;
    for (cv_id id = 1; id <= NODES; id++) {
        (void)printf("process %" PRIu32 " follows %" PRIu32 ", token %" PRIu64 "\n", id,
                     node[id].leader, node[id].token);
        status = node[id].leader == 2 ? status : 1;
        free(node[id].state);
    }
    free(effects.item);
    free(effects.word);
    return status;
}
