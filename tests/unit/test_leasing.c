/* tests/unit/test_leasing.c - elections with a store (runtime/leasing.c), in virtual time: the core
 * and the host are real; the store is one record, and each contender's way to it takes as long as
 * the test says. */
#include "support/support.h"

#include "os/clock.h"
#include "runtime/host.h"
#include "stores/store.h"

#include <stdlib.h>
#include <string.h>

static int64_t virtual_now_ns(void);
static const struct cv_store_kind *virtual_store_find(const char *address);
static int virtual_host_new(uv_loop_t *loop, const struct cv_protocol *protocol,
                            const struct cv_config *config, const struct cv_host_services *services,
                            struct cv_host **ret_host, struct cv_errtext *reterr);

#define cv__clock_now_ns virtual_now_ns
#define cv__store_find virtual_store_find
#define cv__host_new virtual_host_new
#include "runtime/leasing.c" /* linked instead of the library's */
#undef cv__clock_now_ns
#undef cv__store_find
#undef cv__host_new

#define LEASE_NS (5 * NS_PER_S)
#define REQUESTS_MAX 16

/* A contender: what its application was told, its way to the store, its application. */
struct seat {
    struct cv_backend *backend;
    struct cv_leadership told;
    bool is_free_told;    /* it knows that nobody leads */
    bool is_cut_off;      /* its requests fail */
    int64_t led_until_ns; /* the latest that its application was told */
    struct cv_store_end ended;
    int64_t stuck_ns, again_ns; /* its application makes no progress between these */
    int64_t delay_ns;           /* until a request is carried out */
    uint32_t renewal_count;     /* carried out since it was stuck */
};

struct cv_store {
    struct seat *seat;
    struct cv_store_setting setting;
    struct {
        struct cv_store_request request;
        int64_t due_ns;
    } asked[REQUESTS_MAX];
    uint32_t asked_count;
};

static struct {
    int64_t now_ns;
    uv_loop_t loop;
    struct seat seat[2];
    struct cv_store *store[2];
    uint32_t store_count;
    uint64_t label, attempt, token; /* the record; label 0: nobody holds it */
    int64_t until_ns;
    struct cv_store_end last; /* how the leadership before ended */
} world;

static int64_t virtual_now_ns(void)
{
    return world.now_ns;
}

static int64_t now_of_host(void *unused)
{
    (void)unused;
    return world.now_ns;
}

static int virtual_host_new(uv_loop_t *loop, const struct cv_protocol *protocol,
                            const struct cv_config *config, const struct cv_host_services *services,
                            struct cv_host **ret_host, struct cv_errtext *reterr)
{
    struct cv_host_services virtual = *services;
    virtual.time = (struct cv_host_time){.now_ns = now_of_host};
    return cv__host_new(loop, protocol, config, &virtual, ret_host, reterr);
}

/* ---- The store ------------------------------------------------------------------------------- */

static int store_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                      struct cv_errtext *reterr)
{
    (void)reterr;
    struct cv_store *store = calloc(1, sizeof *store);
    assert_non_null(store);
    assert_true(world.store_count < COUNT_OF(world.store));
    store->setting = *setting;
    store->seat = &world.seat[world.store_count];
    world.store[world.store_count++] = store;
    *ret_store = store;
    return CV_OK;
}

static void store_ask(struct cv_store *store, const struct cv_store_request *request)
{
    assert_true(store->asked_count < REQUESTS_MAX);
    store->asked[store->asked_count].request = *request;
    store->asked[store->asked_count++].due_ns = world.now_ns + store->seat->delay_ns;
}

static void store_close(struct cv_store *store, void (*closed)(void *user), void *user)
{
    free(store);
    closed(user);
}

static int store_history(const char *address, const char *election,
                         void (*past)(void *user, const struct cv_store_past *past), void *user,
                         struct cv_errtext *reterr)
{
    (void)address, (void)election, (void)past, (void)user, (void)reterr;
    return CV_OK;
}

static const struct cv_store_kind virtual_kind = {.scheme = "virtual",
                                                  .lease_ns_min = NS_PER_MS,
                                                  .lease_ns_step = 1,
                                                  .grant_percent = 100,
                                                  .open = store_open,
                                                  .ask = store_ask,
                                                  .close = store_close,
                                                  .history = store_history};

static const struct cv_store_kind *virtual_store_find(const char *address)
{
    (void)address;
    return &virtual_kind;
}

static void record_end(enum cv_reason why)
{
    world.last = (struct cv_store_end){.token = world.token, .why = why};
    world.label = 0;
}

static void tell_all_changed(void)
{
    for (uint32_t i = 0; i < world.store_count; i++) {
        const struct cv_store_setting *s = &world.store[i]->setting;
        s->answered(s->user, &(struct cv_store_answer){.verdict = CV_STORE_CHANGED});
    }
}

/* Carries out the oldest request of this store, and answers it. */
static void store_step(struct cv_store *store)
{
    const struct cv_store_request request = store->asked[0].request;
    memmove(store->asked, store->asked + 1, --store->asked_count * sizeof store->asked[0]);
    const uint64_t label = store->setting.label;
    if (store->seat->is_cut_off) {
        store->setting.answered(
            store->setting.user,
            &(struct cv_store_answer){.request = request.request, .verdict = CV_STORE_FAILED});
        return;
    }
    if (world.label != 0 && world.until_ns <= world.now_ns) {
        record_end(CV_REASON_EXPIRED);
    }
    const bool is_mine = world.label == label && world.attempt == request.attempt;
    const bool takes = request.verb == CV_STORE_ACQUIRE && world.label == 0;
    const bool renews =
        is_mine && (request.verb == CV_STORE_ACQUIRE ||
                    (request.verb == CV_STORE_RENEW && request.token == world.token));
    const bool releases = is_mine && request.verb == CV_STORE_RELEASE;
    if (takes) {
        world.label = label;
        world.attempt = request.attempt;
        world.token++;
    }
    if (takes || renews) {
        world.until_ns = world.now_ns + request.lease_ns;
        store->seat->renewal_count += renews;
    }
    if (releases) {
        record_end(request.reason != CV_REASON_STARTED ? request.reason : CV_REASON_RESIGNED);
    }
    const struct cv_store_record record = {.label = world.label,
                                           .token = world.token,
                                           .lease_ns = LEASE_NS,
                                           .remaining_ns = world.until_ns - world.now_ns,
                                           .last = world.last};
    const bool is_held = world.label != 0;
    store->setting.answered(
        store->setting.user,
        &(struct cv_store_answer){.request = request.request,
                                  .verdict = takes || renews ? CV_STORE_GRANTED
                                             : is_held       ? CV_STORE_HELD
                                                             : CV_STORE_FREE,
                                  .token = world.token,
                                  .holder = world.label,
                                  .duration_ns = takes || renews ? request.lease_ns
                                                 : is_held       ? world.until_ns - world.now_ns
                                                                 : 0,
                                  .record = &record});
    if (releases) {
        tell_all_changed();
    }
}

/* ---- The applications ------------------------------------------------------------------------ */

static bool leads(const struct seat *seat)
{
    return seat->told.is_self && world.now_ns < seat->told.valid_until_ns;
}

static void on_told(void *user, const struct cv_leadership *leadership, const char *leader,
                    bool is_free)
{
    struct seat *seat = user;
    (void)leader;
    seat->told = *leadership;
    seat->is_free_told = is_free;
    if (leadership->is_self) {
        seat->led_until_ns = leadership->valid_until_ns;
    }
    assert_false(leads(&world.seat[0]) && leads(&world.seat[1]));
}

static void on_ended(void *user, uint64_t token, enum cv_reason why)
{
    struct seat *seat = user;
    seat->ended = (struct cv_store_end){.token = token, .why = why};
}

static void ignore_line(void *user, const char *line)
{
    (void)user, (void)line;
}

static bool seat_has_progress(void *user)
{
    const struct seat *seat = user;
    return world.now_ns < seat->stuck_ns || world.now_ns >= seat->again_ns;
}

static void seat_open(struct seat *seat, int64_t delay_ns)
{
    struct cv_errtext error;
    const struct cv_backend_setting setting = {.loop = &world.loop,
                                               .address = "virtual:",
                                               .election = "e",
                                               .node = "n",
                                               .lease_ns = LEASE_NS,
                                               .is_candidate = true,
                                               .user = seat,
                                               .told = on_told,
                                               .ended = on_ended,
                                               .resign_requested = ignore_line,
                                               .trouble = ignore_line,
                                               .has_progress = seat_has_progress};
    *seat = (struct seat){.stuck_ns = INT64_MAX, .again_ns = INT64_MAX, .delay_ns = delay_ns};
    assert_int_equal(cv__backend_lease.open(&seat->backend, &setting, &error), CV_OK);
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* The next thing happens that is due by then; false: nothing is. */
static bool world_step(int64_t until_ns)
{
    struct cv_store *asked = NULL;
    struct cv_host *due = NULL;
    int64_t next_ns = until_ns;
    for (uint32_t i = 0; i < world.store_count; i++) {
        struct cv_store *store = world.store[i];
        struct cv_host *host = store->seat->backend->host;
        const int64_t due_ns = cv__host_next_due_ns(host);
        if (store->asked_count > 0 && store->asked[0].due_ns <= next_ns) {
            next_ns = store->asked[0].due_ns;
            asked = store;
            due = NULL;
        }
        if (due_ns != 0 && due_ns <= next_ns) {
            next_ns = due_ns;
            due = host;
            asked = NULL;
        }
    }
    world.now_ns = cv__max64(world.now_ns, next_ns);
    if (due != NULL) {
        cv__host_run_due(due);
    } else if (asked != NULL) {
        store_step(asked);
    }
    return due != NULL || asked != NULL;
}

static void run_until(int64_t until_ns)
{
    while (world_step(until_ns)) {
    }
}

static void run_until_leads(struct seat *seat)
{
    const int64_t give_up_ns = world.now_ns + 10 * LEASE_NS;
    while (!leads(seat)) {
        assert_true(world_step(give_up_ns));
    }
}

static void on_closed(void *unused)
{
    (void)unused;
}

static int teardown(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < world.store_count; i++) {
        cv__backend_lease.close(world.seat[i].backend, on_closed, NULL);
    }
    (void)uv_run(&world.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&world.loop);
}

/* a leads, and b waits. */
static int setup(void **unused)
{
    (void)unused;
    memset(&world, 0, sizeof world);
    world.now_ns = 1000 * NS_PER_S;
    assert_int_equal(uv_loop_init(&world.loop), 0);
    seat_open(&world.seat[0], NS_PER_MS);
    run_until_leads(&world.seat[0]);
    seat_open(&world.seat[1], NS_PER_MS);
    run_until(world.now_ns + 2 * LEASE_NS); /* and it is renewed all the time */
    assert_true(leads(&world.seat[0]));
    return 0;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

/* It is so late that its lease would be over before the store hears from it. */
static void stuck_leader_on_a_busy_machine_leaves_the_reason(void **unused)
{
    (void)unused;
    struct seat *a = &world.seat[0], *b = &world.seat[1];
    const uint64_t token = a->told.token;
    a->stuck_ns = world.now_ns;
    a->delay_ns = LEASE_NS / 4;
    run_until_leads(b);
    assert_true(world.now_ns >= a->led_until_ns);
    assert_int_equal(b->ended.token, token);
    assert_int_equal(b->ended.why, CV_REASON_NO_PROGRESS);
    assert_int_equal(a->told.reason, CV_REASON_NO_PROGRESS);
}

/* The record lasts longer; what the application was told does not change. */
static void stuck_leader_leads_no_longer_than_it_was_told(void **unused)
{
    (void)unused;
    struct seat *a = &world.seat[0];
    a->stuck_ns = world.now_ns;
    a->renewal_count = 0;
    const int64_t until_ns = a->led_until_ns, record_until_ns = world.until_ns;
    run_until(until_ns - NS_PER_MS);
    assert_int_equal(a->renewal_count, 1);
    assert_true(world.until_ns > record_until_ns);
    assert_true(leads(a));
    run_until(until_ns);
    assert_false(leads(a));
    assert_int_equal(a->led_until_ns, until_ns);
}

static void leader_that_goes_on_in_time_is_renewed(void **unused)
{
    (void)unused;
    struct seat *a = &world.seat[0];
    const uint64_t token = a->told.token;
    a->stuck_ns = world.now_ns;
    a->again_ns = a->led_until_ns - LEASE_NS / 4;
    run_until(world.now_ns + 3 * LEASE_NS);
    assert_true(leads(a));
    assert_int_equal(a->told.token, token);
}

/* It dies before it can give the record back: the others wait for the record's end, not longer. */
static void stuck_leader_that_dies_is_replaced(void **unused)
{
    (void)unused;
    struct seat *a = &world.seat[0], *b = &world.seat[1];
    a->stuck_ns = world.now_ns;
    const int64_t until_ns = a->led_until_ns;
    run_until(until_ns - LEASE_NS / 10);
    a->delay_ns = INT64_MAX / 4; /* nothing that it asks for from now on arrives */
    run_until_leads(b);
    assert_int_equal(b->ended.why, CV_REASON_EXPIRED);
    assert_true(world.now_ns <= until_ns + LEASE_NS);
}

/* Nobody else leads before the end of its time; afterwards somebody may. */
static void leader_knows_that_nobody_leads_until_its_time_is_over(void **unused)
{
    (void)unused;
    struct seat *a = &world.seat[0], *b = &world.seat[1];
    cv__backend_lease.resign(a->backend, NULL, CV_REASON_RESIGNED);
    assert_false(leads(a));
    assert_int_equal(a->told.leader, CV_ID_NONE);
    assert_true(a->is_free_told);
    run_until_leads(b);
    b->delay_ns = INT64_MAX / 4; /* its requests do not arrive any more */
    run_until(b->led_until_ns + NS_PER_MS);
    assert_int_equal(b->told.leader, CV_ID_NONE);
    assert_false(b->is_free_told);
}

/* When it is cut off from the store, another one may begin to lead. */
static void contender_that_is_cut_off_does_not_know_that_nobody_leads(void **unused)
{
    (void)unused;
    struct seat *a = &world.seat[0], *b = &world.seat[1];
    cv__backend_lease.resign(a->backend, NULL, CV_REASON_RESIGNED);
    assert_true(a->is_free_told);
    a->is_cut_off = true;
    run_until_leads(b);
    assert_false(a->is_free_told);
    assert_int_equal(a->told.reason, CV_REASON_STORE_UNREACHABLE);
    a->is_cut_off = false;
    run_until(world.now_ns + 2 * LEASE_NS);
    assert_int_equal(a->told.token, b->told.token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stuck_leader_on_a_busy_machine_leaves_the_reason, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(stuck_leader_leads_no_longer_than_it_was_told, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(leader_that_goes_on_in_time_is_renewed, setup, teardown),
        cmocka_unit_test_setup_teardown(stuck_leader_that_dies_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(leader_knows_that_nobody_leads_until_its_time_is_over,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(contender_that_is_cut_off_does_not_know_that_nobody_leads,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
