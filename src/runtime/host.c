/* src/runtime/host.c - runs one core on a libuv loop; see host.h.
 *
 * host/node.c has the duties of every host: one event at a time, timers, effects that wait for the
 * disk. This file has what a real process adds: its clock, the kernel's timer, memory for waiting
 * bytes, a thread that saves, and the services. */
#include "runtime/host.h"

#include "core/core.h"
#include "core/errors.h"
#include "core/types.h"
#include "host/node.h"
#include "os/clock.h"
#include "os/worker.h"

#include <stdlib.h>
#include <string.h>

#define WAITING_MAX (CV_HOST_QUEUE_MAX + CV_NODE_SPARE_PLACES)
/* One for each waiting send and event, one being sent, and one being handled. */
#define KEPT_MAX (WAITING_MAX + CV_HOST_QUEUE_MAX + 2u)
#define SET_WORDS(member_count) (((member_count) + 63) / 64)

/* Bytes that outlive a step. Up to this much memory stays with its slot and is used again. */
#define KEPT_BYTES_REUSED 512u

struct kept {
    uint8_t *bytes; /* owned */
    size_t byte_count, byte_capacity;
    uint32_t next_free;
};

/* Invariant: nothing is stepped before the start or after the end. */
struct cv_host {
    struct cv_worker *saver; /* NULL: it saves quickly, or not at all */
    struct cv_work save_work;
    uv_idle_t ending; /* never active: the loop reports when it is closed */
    uv_loop_t *loop;
    struct cv_timers *timers;     /* NULL: the clock was given, and its owner fires the timers */
    struct cv_timers *own_timers; /* NULL: they are shared */
    struct cv_timers_user timers_user;

    struct cv_config config;
    struct cv_host_services services;
    struct cv_node node;
    struct cv_node_host node_host;
    struct cv_effects out;
    uint8_t *encoded;
    struct cv_deferred deferred[CV_HOST_QUEUE_MAX];
    struct cv_waiting waiting[WAITING_MAX];

    struct kept kept[KEPT_MAX];
    uint32_t kept_count, kept_free; /* how many were ever used; the first free one of these */

    const uint64_t *saving_word;
    uint32_t saving_count;
    int save_result;
    struct cv_errtext save_error;

    struct cv_leadership leadership; /* the latest that was reported */
    uint64_t *member_word;
    uint64_t nonce;

    struct cv_tap *tap; /* NULL: no recorder */

    uint32_t open_parts; /* while it closes: `ending`, `saver` and `own_timers` */
    bool is_started, is_closing;
    bool is_saving; /* on a thread */
    void (*closed)(void *data);
    void *closed_data;
};

/* ---- Time ------------------------------------------------------------------------------------ */

static int64_t call_now_ns(void *self)
{
    const struct cv_host *h = self;
    const struct cv_host_time *time = &h->services.time;
    return time->now_ns != NULL ? time->now_ns(time->self) : cv__clock_now_ns();
}

static uint64_t draw(const struct cv_host *h)
{
    const struct cv_host_time *time = &h->services.time;
    return time->random != NULL ? time->random(time->self) : cv__clock_random();
}

/* A random instant, so that processes that started together do not stay in step. */
static int64_t call_arm(void *self, uint32_t timer, int64_t earliest_ns, int64_t latest_ns)
{
    (void)timer;
    const uint64_t range = (uint64_t)(latest_ns - earliest_ns);
    const int64_t instant_ns = earliest_ns + (range > 0 ? (int64_t)(draw(self) % (range + 1)) : 0);
    return cv__max64(instant_ns, 1); /* 0 means not armed */
}

int64_t cv__host_next_due_ns(const struct cv_host *h)
{
    return cv__node_next_due_ns(&h->node);
}

/* Called after each event. Within a step it does nothing: it is called again at the end. */
static void set_kernel_timer(struct cv_host *h)
{
    if (h->timers != NULL && !h->node.is_busy && !h->is_closing) {
        cv__timers_set(h->timers, &h->timers_user, cv__host_next_due_ns(h));
    }
}

/* ---- Bytes that outlive a step --------------------------------------------------------------- */

/* A slot with room for that number of bytes; CV_KEPT_NONE: there is none. */
static uint32_t kept_new(struct cv_host *h, size_t byte_count)
{
    uint32_t index = h->kept_free;
    if (index == CV_KEPT_NONE) {
        if (h->kept_count == KEPT_MAX) {
            return CV_KEPT_NONE;
        }
        index = h->kept_count++;
        h->kept[index].next_free = CV_KEPT_NONE;
    }
    struct kept *k = &h->kept[index];
    h->kept_free = k->next_free;
    if (k->bytes == NULL || k->byte_capacity < byte_count) {
        free(k->bytes);
        k->byte_capacity = byte_count > 64 ? byte_count : 64;
        k->bytes = malloc(k->byte_capacity);
    }
    if (k->bytes == NULL) {
        k->byte_capacity = 0;
        k->next_free = h->kept_free;
        h->kept_free = index;
        return CV_KEPT_NONE;
    }
    k->byte_count = byte_count;
    return index;
}

static uint32_t call_keep(void *self, const void *bytes, size_t byte_count)
{
    struct cv_host *h = self;
    const uint32_t index = kept_new(h, byte_count);
    if (index != CV_KEPT_NONE && byte_count > 0) {
        memcpy(h->kept[index].bytes, bytes, byte_count);
    }
    return index;
}

static uint32_t call_encode(void *self, const struct cv_message *message)
{
    struct cv_host *h = self;
    const struct cv_protocol *protocol = h->node_host.protocol;
    const size_t byte_count =
        cv__message_encode(protocol, h->config.member_count, message, h->encoded);
    return call_keep(h, h->encoded, byte_count);
}

static const void *call_kept(void *self, uint32_t index, size_t *ret_byte_count)
{
    const struct cv_host *h = self;
    CV_ASSERT(index < h->kept_count);
    *ret_byte_count = h->kept[index].byte_count;
    return h->kept[index].bytes;
}

static void call_drop(void *self, uint32_t index)
{
    struct cv_host *h = self;
    CV_ASSERT(index < h->kept_count);
    struct kept *k = &h->kept[index];
    if (k->byte_capacity > KEPT_BYTES_REUSED) {
        free(k->bytes);
        k->bytes = NULL;
        k->byte_capacity = 0;
    }
    k->next_free = h->kept_free;
    h->kept_free = index;
}

/* ---- Effects --------------------------------------------------------------------------------- */

static void call_send(void *self, uint32_t index, cv_id first, cv_id last, bool to_self)
{
    struct cv_host *h = self;
    const struct kept *k = &h->kept[index];
    if (h->services.transport.send != NULL) {
        h->services.transport.send(h->services.transport.self, first, last, k->bytes,
                                   k->byte_count);
    }
    if (to_self) {
        struct cv_event event = {.kind = CV_EVENT_MESSAGE, .peer = h->config.self};
        cv__node_message(&h->node, &h->node_host, &event, k->bytes, k->byte_count);
    }
}

static void call_tell(void *self, const struct cv_leadership *leadership)
{
    struct cv_host *h = self;
    CV_ASSERT(leadership->members.word_count <= SET_WORDS(h->config.member_count));
    h->leadership = *leadership;
    h->leadership.members.word = h->member_word;
    if (leadership->members.word_count > 0) {
        memcpy(h->member_word, leadership->members.word,
               leadership->members.word_count * sizeof *h->member_word);
    }
    if (h->services.told.leadership != NULL) {
        h->services.told.leadership(h->services.told.self, &h->leadership);
    }
}

/* Without a sequencer there is no answer: the protocol has its own timeout. */
static void call_ask_sequence(void *self, uint64_t request, uint64_t reference)
{
    const struct cv_host_sequencer *sequencer = &((struct cv_host *)self)->services.sequencer;
    if (sequencer->ask != NULL) {
        sequencer->ask(sequencer->self, request, reference);
    }
}

static void call_ask_store(void *self, const struct cv_effect *effect)
{
    const struct cv_host_store *store = &((struct cv_host *)self)->services.store;
    if (store->ask != NULL) {
        store->ask(store->self, effect);
    }
}

/* ---- The disk -------------------------------------------------------------------------------- */

static void call_disk_failed(void *self, const char *why)
{
    struct cv_host *h = self;
    if (why == NULL) {
        why = h->save_result != CV_OK
                  ? h->save_error.text
                  : "there is no place to save what this protocol must remember";
    }
    if (h->services.told.trouble != NULL) {
        h->services.told.trouble(h->services.told.self, why);
    }
}

static void save_on_a_thread(void *data)
{
    struct cv_host *h = data;
    h->save_result = h->services.persist.save(h->services.persist.self, h->saving_word,
                                              h->saving_count, &h->save_error);
}

static void on_saved(void *data)
{
    struct cv_host *h = data;
    h->is_saving = false;
    if (h->is_closing) {
        return; /* closing waits for the saver to end */
    }
    if (h->tap != NULL) { /* the effects that waited happen now */
        h->tap->step_ns = call_now_ns(h);
    }
    if (h->save_result == CV_OK) {
        cv__node_saved(&h->node, &h->node_host);
    } else {
        cv__node_save_failed(&h->node, &h->node_host, h->save_error.text);
    }
    set_kernel_timer(h);
}

static enum cv_save_result call_save(void *self, const uint64_t *word, uint32_t word_count)
{
    struct cv_host *h = self;
    if (h->services.persist.save == NULL) {
        return CV_SAVE_FAILED;
    }
    CV_ASSERT(!h->is_saving);
    if (h->services.persist.is_quick) {
        h->save_result =
            h->services.persist.save(h->services.persist.self, word, word_count, &h->save_error);
        return h->save_result == CV_OK ? CV_SAVE_DONE : CV_SAVE_FAILED;
    }
    h->is_saving = true;
    h->saving_word = word;
    h->saving_count = word_count;
    h->save_work = (struct cv_work){.run = save_on_a_thread, .done = on_saved, .data = h};
    cv__worker_do(h->saver, &h->save_work);
    return CV_SAVE_BEGUN;
}

static const struct cv_node_calls host_calls = {
    .now_ns = call_now_ns,
    .arm = call_arm,
    .encode = call_encode,
    .keep = call_keep,
    .kept = call_kept,
    .drop = call_drop,
    .send = call_send,
    .tell = call_tell,
    .ask_sequence = call_ask_sequence,
    .ask_store = call_ask_store,
    .save = call_save,
    .disk_failed = call_disk_failed,
};

/* ---- For a recorder -------------------------------------------------------------------------- */

/* The same calls, but recorded. They have their own table, so that a host without a recorder has
 * nothing to check. */

static void recorded_send(void *self, uint32_t index, cv_id first, cv_id last, bool to_self)
{
    const struct cv_host *h = self;
    const struct kept *k = &h->kept[index];
    cv__tap_sent(h->tap, k->bytes, k->byte_count, first, last);
    call_send(self, index, first, last, to_self);
}

static void recorded_tell(void *self, const struct cv_leadership *leadership)
{
    cv__tap_told(((struct cv_host *)self)->tap, leadership);
    call_tell(self, leadership);
}

static void recorded_ask_sequence(void *self, uint64_t request, uint64_t reference)
{
    cv__tap_note(((struct cv_host *)self)->tap, CV_RECORD_ASK, request);
    call_ask_sequence(self, request, reference);
}

static void recorded_ask_store(void *self, const struct cv_effect *effect)
{
    cv__tap_asked_store(((struct cv_host *)self)->tap, effect);
    call_ask_store(self, effect);
}

static void recorded_disk_failed(void *self, const char *why)
{
    cv__tap_note(((struct cv_host *)self)->tap, CV_RECORD_PERSIST_FAILED, 0);
    call_disk_failed(self, why);
}

static void recorded_step(void *self, const struct cv_event *event, const struct cv_effects *out)
{
    cv__tap_stepped(((struct cv_host *)self)->tap, event, out);
}

static void recorded_record(void *self, const uint64_t *word, uint32_t word_count)
{
    (void)word;
    (void)word_count;
    cv__tap_note(((struct cv_host *)self)->tap, CV_RECORD_PERSIST, 0);
}

static const struct cv_node_calls recorded_calls = {
    .now_ns = call_now_ns,
    .arm = call_arm,
    .encode = call_encode,
    .keep = call_keep,
    .kept = call_kept,
    .drop = call_drop,
    .send = recorded_send,
    .tell = recorded_tell,
    .ask_sequence = recorded_ask_sequence,
    .ask_store = recorded_ask_store,
    .save = call_save,
    .disk_failed = recorded_disk_failed,
    .stepped = recorded_step,
    .record_asked = recorded_record,
};

/* ---- Events from outside --------------------------------------------------------------------- */

static void handle(struct cv_host *h, struct cv_event *event)
{
    if (h->is_started && !h->is_closing) {
        cv__node_event(&h->node, &h->node_host, event);
        set_kernel_timer(h);
    }
}

void cv__host_message(struct cv_host *h, cv_id peer, const uint8_t *bytes, size_t byte_count,
                      int64_t delay_ns_max)
{
    CV_ASSERT(bytes != NULL);
    CV_ASSERT(peer <= h->config.member_count);
    struct cv_event event = {.kind = CV_EVENT_MESSAGE, .peer = peer, .delay_ns_max = delay_ns_max};
    if (h->is_started && !h->is_closing) {
        cv__node_message(&h->node, &h->node_host, &event, bytes, byte_count);
        set_kernel_timer(h);
    }
}

void cv__host_sequence(struct cv_host *h, uint64_t request, uint64_t number)
{
    struct cv_event event = {.kind = CV_EVENT_SEQUENCE, .request = request, .sequence = number};
    handle(h, &event);
}

void cv__host_store(struct cv_host *h, const struct cv_event *answer)
{
    struct cv_event event = {.kind = CV_EVENT_STORE,
                             .request = answer->request,
                             .verdict = answer->verdict,
                             .token = answer->token,
                             .holder = answer->holder,
                             .duration_ns = answer->duration_ns,
                             .reason = answer->reason};
    handle(h, &event);
}

void cv__host_peer_down(struct cv_host *h, cv_id peer, bool is_certain)
{
    struct cv_event event = {.kind = CV_EVENT_PEER_DOWN, .peer = peer, .is_certain = is_certain};
    handle(h, &event);
}

void cv__host_resign(struct cv_host *h, cv_id successor)
{
    struct cv_event event = {.kind = CV_EVENT_RESIGN, .peer = successor};
    handle(h, &event);
}

void cv__host_campaign(struct cv_host *h, bool is_candidate)
{
    struct cv_event event = {.kind = CV_EVENT_CAMPAIGN, .is_candidate = is_candidate};
    handle(h, &event);
}

void cv__host_report(struct cv_host *h, enum cv_input input, int64_t value)
{
    struct cv_event event = {.kind = CV_EVENT_REPORT, .input = input, .value = value};
    handle(h, &event);
}

void cv__host_run_due(struct cv_host *h)
{
    if (h->is_started && !h->is_closing) {
        cv__node_fire_due(&h->node, &h->node_host);
        set_kernel_timer(h);
    }
}

static void on_due(void *self)
{
    cv__host_run_due(self);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static void host_release(struct cv_host *h)
{
    for (uint32_t i = 0; i < h->kept_count; i++) {
        free(h->kept[i].bytes);
    }
    free(h->node_host.core);
    free(h->node_host.decoded_word);
    free(h->encoded);
    free(h->out.item);
    free(h->out.word);
    free(h->member_word);
    cv__tap_free(h->tap);
    free(h);
}

static void on_part_closed(void *data)
{
    struct cv_host *h = data;
    CV_ASSERT(h->open_parts > 0);
    h->open_parts--;
    if (h->open_parts > 0) {
        return;
    }
    void (*closed)(void *data) = h->closed;
    void *closed_data = h->closed_data;
    host_release(h);
    if (closed != NULL) {
        closed(closed_data);
    }
}

static void on_ending_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

void cv__host_free(struct cv_host *h, void (*closed)(void *data), void *data)
{
    if (h == NULL) {
        if (closed != NULL) {
            closed(data);
        }
        return;
    }
    CV_ASSERT(!h->is_closing);
    h->is_closing = true;
    h->closed = closed;
    h->closed_data = data;
    cv__node_close(&h->node, &h->node_host);
    if (h->timers != NULL) {
        cv__timers_remove(h->timers, &h->timers_user);
    }
    uv_close((uv_handle_t *)&h->ending, on_ending_closed);
    cv__worker_free(h->saver, on_part_closed, h);
    cv__timers_free(h->own_timers, on_part_closed, h);
}

static bool host_allocate(struct cv_host *h, const struct cv_protocol *protocol)
{
    const struct cv_config *config = &h->config;
    struct cv_node_host *n = &h->node_host;
    h->out.word_capacity = cv_effects_words(config);
    h->out.item = calloc(CV_EFFECTS_MAX, sizeof *h->out.item);
    h->out.word = calloc(h->out.word_capacity, sizeof *h->out.word);
    h->encoded = malloc(cv_message_bytes_max(protocol, config->member_count));
    h->member_word = calloc(SET_WORDS(config->member_count), sizeof *h->member_word);
    *n = (struct cv_node_host){
        .calls = &host_calls,
        .self = h,
        .protocol = protocol,
        .member_count = config->member_count,
        .core = malloc(cv__core_size(protocol, config)),
        .deferred = h->deferred,
        .waiting = h->waiting,
        .out = &h->out,
        .decoded_word = calloc(cv_message_words_max(config->member_count), sizeof(uint64_t)),
    };
    return n->core != NULL && n->decoded_word != NULL && h->out.item != NULL &&
           h->out.word != NULL && h->encoded != NULL && h->member_word != NULL;
}

static bool host_add_tap(struct cv_host *h, const struct cv_protocol *protocol)
{
    if (h->services.recorder == NULL) {
        return true;
    }
    h->tap = cv__tap_new(h->services.recorder, protocol, &h->config);
    if (h->tap != NULL) {
        h->out.note = h->tap->note;
        h->node_host.calls = &recorded_calls;
    }
    return h->tap != NULL;
}

/* A host with its own clock needs no kernel timer. */
static int host_add_timers(struct cv_host *h, struct cv_errtext *reterr)
{
    h->timers = h->services.time.timers;
    if (h->timers == NULL && h->services.time.now_ns == NULL) {
        const int result = cv__timers_new(h->loop, &h->own_timers, reterr);
        if (result != CV_OK) {
            return result;
        }
        h->timers = h->own_timers;
    }
    if (h->timers != NULL) {
        h->timers_user.due = on_due;
        h->timers_user.self = h;
        cv__timers_add(h->timers, &h->timers_user);
    }
    return CV_OK;
}

int cv__host_new(uv_loop_t *loop, const struct cv_protocol *protocol,
                 const struct cv_config *config, const struct cv_host_services *services,
                 struct cv_host **ret_host, struct cv_errtext *reterr)
{
    CV_ASSERT(services->time.now_ns == NULL || services->time.timers == NULL);
    struct cv_host *h = calloc(1, sizeof *h);
    if (h == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory for a host of '%s'", protocol->name);
    }
    h->loop = loop;
    h->config = *config;
    h->services = *services;
    h->kept_free = CV_KEPT_NONE;
    const uint64_t drawn = draw(h);
    h->nonce = drawn != 0 ? drawn : 1;
    int result = CV_OK;
    if (!host_allocate(h, protocol) || !host_add_tap(h, protocol)) {
        result = cv__fail(reterr, CV_E_MEMORY, "no memory for a core of '%s'", protocol->name);
        goto failed;
    }
    if (services->persist.save != NULL && !services->persist.is_quick) {
        result = cv__worker_new(loop, &h->saver, reterr);
    }
    result = result == CV_OK ? host_add_timers(h, reterr) : result;
    if (result != CV_OK) {
        goto failed;
    }
    cv__core_init(protocol, h->node_host.core, config);
    cv__node_init(&h->node, CV_HOST_QUEUE_MAX, WAITING_MAX);
    (void)uv_idle_init(loop, &h->ending); /* cannot fail */
    h->ending.data = h;
    h->open_parts = 3;
    *ret_host = h;
    return CV_OK;
failed:
    cv__worker_free(h->saver, NULL, NULL);
    host_release(h);
    return result;
}

int cv__host_start(struct cv_host *h, struct cv_errtext *reterr)
{
    CV_ASSERT(!h->is_started);
    uint64_t persisted[CV_PERSIST_WORDS_MAX] = {0};
    uint32_t persisted_count = 0;
    const struct cv_host_persist *persist = &h->services.persist;
    if (persist->load != NULL) {
        const int result = persist->load(persist->self, persisted, &persisted_count, reterr);
        if (result != CV_OK) {
            return result;
        }
        CV_ASSERT(persisted_count <= CV_PERSIST_WORDS_MAX);
    }
    h->is_started = true;
    if (h->tap != NULL) {
        const struct cv_recorder *recorder = h->services.recorder;
        recorder->began(recorder->self, h->node_host.protocol, &h->config, h->nonce);
    }
    struct cv_event event = {
        .kind = CV_EVENT_START,
        .persisted = persisted,
        .persisted_count = persisted_count,
        .nonce = h->nonce,
    };
    handle(h, &event);
    return CV_OK;
}

/* ---- Queries --------------------------------------------------------------------------------- */

const struct cv_leadership *cv__host_leadership(const struct cv_host *h)
{
    return &h->leadership;
}

const struct cv_node_counts *cv__host_counts(const struct cv_host *h)
{
    return &h->node_host.counts;
}

size_t cv__host_farewell(struct cv_host *h, const uint8_t **ret_bytes)
{
    const struct cv_protocol *protocol = h->node_host.protocol;
    struct cv_message message;
    CV_ASSERT(h->services.persist.is_quick);
    if (!h->is_started || protocol->farewell == NULL ||
        !protocol->farewell(h->node_host.core, call_now_ns(h), &message)) {
        return 0;
    }
    *ret_bytes = h->encoded;
    return cv__message_encode(protocol, h->config.member_count, &message, h->encoded);
}

uint64_t cv__host_nonce(const struct cv_host *h)
{
    CV_ASSERT(h->nonce != 0);
    return h->nonce;
}
