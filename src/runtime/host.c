/* src/runtime/host.c - runs one core on a libuv loop; see host.h.
 *
 * Timers: libuv's count milliseconds, which is a third of a lease in a fast network, and stop in
 * suspend. So there is one timerfd on CLOCK_BOOTTIME, set to the earliest of the core's timers, and
 * polled by the loop.
 *
 * Waiting for the disk: each record that is asked for gets a number. What is issued later notes the
 * number it has to wait for and stands in a queue until that record, or a later one, is saved. */
#include "runtime/host.h"

#include "core/errors.h"
#include "core/types.h"
#include "os/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define SPARE_PLACES 16u /* of the queue: not for messages, but for what the application says */
#define SET_WORDS(member_count) (((member_count) + 63) / 64)

/* An event that came while a step ran. A message brings its bytes. */
struct waiting {
    struct cv_event event;
    uint8_t *bytes; /* owned; NULL: no message */
    size_t byte_count;
};

/* A send or a leadership that must not overtake a record. */
struct held {
    uint64_t record; /* it may go once this one is saved */
    cv_id first, last;
    bool to_self;
    uint8_t *bytes; /* owned; NULL: a leadership */
    size_t byte_count;
    struct cv_leadership leadership; /* its words are owned, too */
    uint64_t *member_word;
};

/* Invariants: saved <= saving <= asked; while a save is under way saving > saved; the queue of held
 * effects is empty when saved == asked; nothing is stepped before the start or after the end. */
struct cv_host {
    uv_poll_t timer_poll; /* its data is the host */
    uv_work_t save_work;
    uv_loop_t *loop;
    int timer_fd;

    const struct cv_protocol *protocol;
    struct cv_config config;
    struct cv_host_services services;
    struct cv_host_counts counts;
    void *state;
    struct cv_effects out;
    uint64_t *decoded_word;
    uint8_t *encoded;

    int64_t due_ns[CV_TIMERS_MAX]; /* 0: not armed */
    int64_t timer_fd_ns;           /* what the kernel's timer is set to; 0: nothing */

    struct waiting waiting[CV_HOST_QUEUE_MAX + SPARE_PLACES]; /* a ring */
    uint32_t waiting_first, waiting_count;
    struct held held[CV_HOST_QUEUE_MAX]; /* a ring */
    uint32_t held_first, held_count;

    uint64_t asked, saving, saved; /* numbers of records */
    uint64_t asked_word[CV_PERSIST_WORDS_MAX], saving_word[CV_PERSIST_WORDS_MAX];
    uint32_t asked_count, saving_count;
    int save_result;
    struct cv_errtext save_error;

    struct cv_leadership leadership; /* the latest that was told */
    uint64_t *member_word;
    uint64_t nonce;

    bool is_started, is_stepping, is_closing, is_poll_closed;
    bool is_saving;         /* on a thread */
    bool has_failed;        /* to save, for good */
    bool must_tell_failure; /* to the core, before any other event */
    void (*closed)(void *data);
    void *closed_data;
};

/* ---- Time ------------------------------------------------------------------------------------ */

static int64_t now_ns(const struct cv_host *h)
{
    const struct cv_host_time *time = &h->services.time;
    return time->now_ns != NULL ? time->now_ns(time->self) : cv__clock_now_ns();
}

static uint64_t draw(const struct cv_host *h)
{
    const struct cv_host_time *time = &h->services.time;
    return time->random != NULL ? time->random(time->self) : cv__clock_random();
}

/* The instant is the host's choice: at random, so that processes that started together part. */
static int64_t instant_between(const struct cv_host *h, int64_t earliest_ns, int64_t latest_ns)
{
    CV_ASSERT(earliest_ns <= latest_ns);
    const uint64_t range = (uint64_t)(latest_ns - earliest_ns);
    const int64_t instant_ns = earliest_ns + (range > 0 ? (int64_t)(draw(h) % (range + 1)) : 0);
    return cv__max64(instant_ns, 1); /* 0 means not armed */
}

int64_t cv__host_next_due_ns(const struct cv_host *h)
{
    int64_t next_ns = 0;
    for (uint32_t i = 0; i < CV_TIMERS_MAX; i++) {
        if (h->due_ns[i] != 0 && (next_ns == 0 || h->due_ns[i] < next_ns)) {
            next_ns = h->due_ns[i];
        }
    }
    return next_ns;
}

static void set_kernel_timer(struct cv_host *h)
{
    const int64_t next_ns = h->is_closing ? 0 : cv__host_next_due_ns(h);
    if (h->services.time.now_ns != NULL || next_ns == h->timer_fd_ns) {
        return;
    }
    const struct itimerspec when = {
        .it_value = {.tv_sec = next_ns / NS_PER_S, .tv_nsec = next_ns % NS_PER_S}};
    const int result = timerfd_settime(h->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    CV_ASSERT(result == 0); /* the descriptor and the time are ours */
    h->timer_fd_ns = next_ns;
}

/* ---- Effects --------------------------------------------------------------------------------- */

static void trouble(struct cv_host *h, const char *line)
{
    if (h->services.told.trouble != NULL) {
        h->services.told.trouble(h->services.told.self, line);
    }
}

static void push_event(struct cv_host *h, const struct cv_event *event, const uint8_t *bytes,
                       size_t byte_count);

static void send_now(struct cv_host *h, cv_id first, cv_id last, bool to_self, const uint8_t *bytes,
                     size_t byte_count)
{
    h->counts.sent++;
    if (h->services.transport.send != NULL) {
        h->services.transport.send(h->services.transport.self, first, last, bytes, byte_count);
    }
    if (to_self) {
        const struct cv_event event = {
            .kind = CV_EVENT_MESSAGE, .peer = h->config.self, .is_fast = true};
        push_event(h, &event, bytes, byte_count);
    }
}

static void tell_now(struct cv_host *h, const struct cv_leadership *leadership)
{
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

static void held_clear(struct held *held)
{
    free(held->bytes);
    free(held->member_word);
    memset(held, 0, sizeof *held);
}

static void drop_held(struct cv_host *h)
{
    for (; h->held_count > 0; h->held_count--) {
        held_clear(&h->held[h->held_first]);
        h->held_first = (h->held_first + 1) % CV_HOST_QUEUE_MAX;
    }
}

static void on_save_failed(struct cv_host *h, const char *why)
{
    if (h->has_failed) {
        return;
    }
    h->has_failed = true;
    drop_held(h);
    h->must_tell_failure = true;
    trouble(h, why);
}

/* A place at the end of the queue of what waits for the disk; NULL: it is full. */
static struct held *hold(struct cv_host *h)
{
    if (h->held_count == CV_HOST_QUEUE_MAX) {
        h->counts.dropped++;
        return NULL;
    }
    struct held *held = &h->held[(h->held_first + h->held_count++) % CV_HOST_QUEUE_MAX];
    memset(held, 0, sizeof *held);
    held->record = h->asked;
    return held;
}

static void on_send(struct cv_host *h, const struct cv_effect *effect)
{
    const size_t byte_count =
        cv_message_encode(h->protocol, h->config.member_count, &effect->message, h->encoded);
    if (h->saved == h->asked) {
        send_now(h, effect->first, effect->last, effect->to_self, h->encoded, byte_count);
        return;
    }
    if (h->has_failed) {
        return; /* it would promise what may be forgotten */
    }
    struct held *held = hold(h);
    if (held == NULL) {
        return;
    }
    held->bytes = malloc(byte_count);
    if (held->bytes == NULL) {
        h->held_count--;
        h->counts.dropped++;
        return;
    }
    memcpy(held->bytes, h->encoded, byte_count);
    held->byte_count = byte_count;
    held->first = effect->first;
    held->last = effect->last;
    held->to_self = effect->to_self;
}

/* A gain waits for the record. So does a loss, for the order's sake; but after a failure only
 * losses are left to tell, and nothing holds them. */
static void on_leadership(struct cv_host *h, const struct cv_leadership *leadership)
{
    if (h->saved == h->asked || h->has_failed) {
        tell_now(h, leadership);
        return;
    }
    struct held *held = hold(h);
    const size_t word_bytes = leadership->members.word_count * sizeof(uint64_t);
    uint64_t *word = held != NULL && word_bytes > 0 ? malloc(word_bytes) : NULL;
    if (held == NULL || (word_bytes > 0 && word == NULL)) {
        /* A disk that hangs while hundreds of effects pile up behind it is as good as broken. */
        on_save_failed(h, "the disk does not keep up with the records to be saved");
        return;
    }
    held->leadership = *leadership;
    if (word_bytes > 0) {
        memcpy(word, leadership->members.word, word_bytes);
    }
    held->member_word = word;
    held->leadership.members.word = word;
}

static void save_next(struct cv_host *h);

static void on_persist(struct cv_host *h, const struct cv_effect *effect)
{
    CV_ASSERT(effect->persist_count <= CV_PERSIST_WORDS_MAX);
    if (h->has_failed) {
        return;
    }
    h->asked++;
    h->asked_count = effect->persist_count;
    memcpy(h->asked_word, effect->persist, effect->persist_count * sizeof *h->asked_word);
    if (h->services.persist.save == NULL) {
        on_save_failed(h, "there is no place to save what this protocol must remember");
        return;
    }
    save_next(h);
}

static void carry_out(struct cv_host *h, const struct cv_effect *effect)
{
    switch (effect->kind) {
    case CV_EFFECT_SEND:
        on_send(h, effect);
        break;
    case CV_EFFECT_ARM:
        h->due_ns[effect->timer] = instant_between(h, effect->earliest_ns, effect->latest_ns);
        break;
    case CV_EFFECT_DISARM:
        h->due_ns[effect->timer] = 0;
        break;
    case CV_EFFECT_PERSIST:
        on_persist(h, effect);
        break;
    case CV_EFFECT_LEADERSHIP:
        on_leadership(h, &effect->leadership);
        break;
    case CV_EFFECT_ASK_SEQUENCE:
        if (h->services.sequencer.ask != NULL) {
            h->services.sequencer.ask(h->services.sequencer.self, effect->request,
                                      effect->reference);
        } /* otherwise the protocol's own time-out tells it */
        break;
    case CV_EFFECT_ASK_STORE:
        if (h->services.store.ask != NULL) {
            h->services.store.ask(h->services.store.self, effect);
        } /* likewise */
        break;
    }
}

/* ---- Steps and the queue of events ----------------------------------------------------------- */

static void step(struct cv_host *h, struct cv_event *event)
{
    CV_ASSERT(h->is_started);
    CV_ASSERT(!h->is_stepping);
    h->is_stepping = true;
    event->now_ns = now_ns(h);
    h->counts.steps++;
    cv_core_step(h->protocol, h->state, event, &h->out);
    for (uint32_t i = 0; i < h->out.item_count && !h->is_closing; i++) {
        carry_out(h, &h->out.item[i]);
    }
    h->is_stepping = false;
}

static void step_message(struct cv_host *h, struct cv_event *event, const uint8_t *bytes,
                         size_t byte_count)
{
    struct cv_message message;
    if (cv_message_decode(h->protocol, h->config.member_count, bytes, byte_count, h->decoded_word,
                          &message) != CV_OK) {
        h->counts.malformed++;
        return;
    }
    h->counts.received++;
    event->message = &message;
    step(h, event);
}

static void push_event(struct cv_host *h, const struct cv_event *event, const uint8_t *bytes,
                       size_t byte_count)
{
    const uint32_t capacity = COUNT_OF(h->waiting);
    const uint32_t room = capacity - h->waiting_count;
    uint8_t *copy =
        bytes != NULL && room > SPARE_PLACES ? malloc(byte_count > 0 ? byte_count : 1) : NULL;
    if (room == 0 || (bytes != NULL && copy == NULL)) {
        h->counts.dropped++;
        return;
    }
    if (copy != NULL) {
        memcpy(copy, bytes, byte_count);
    }
    h->waiting[(h->waiting_first + h->waiting_count++) % capacity] =
        (struct waiting){.event = *event, .bytes = copy, .byte_count = byte_count};
}

/* Everything that waits, in the order it came, but a broken disk first; then the kernel's timer. */
static void drain(struct cv_host *h)
{
    CV_ASSERT(!h->is_stepping);
    while ((h->must_tell_failure || h->waiting_count > 0) && !h->is_closing) {
        if (h->must_tell_failure) {
            h->must_tell_failure = false;
            struct cv_event event = {.kind = CV_EVENT_PERSIST_FAILED};
            step(h, &event);
            continue;
        }
        struct waiting next = h->waiting[h->waiting_first];
        h->waiting_first = (h->waiting_first + 1) % COUNT_OF(h->waiting);
        h->waiting_count--;
        if (next.bytes != NULL) {
            step_message(h, &next.event, next.bytes, next.byte_count);
            free(next.bytes);
        } else {
            step(h, &next.event);
        }
    }
    set_kernel_timer(h);
}

static void handle(struct cv_host *h, struct cv_event *event, const uint8_t *bytes,
                   size_t byte_count)
{
    if (!h->is_started || h->is_closing) {
        return;
    }
    if (h->is_stepping || h->waiting_count > 0) {
        push_event(h, event, bytes, byte_count);
    } else if (bytes != NULL) {
        step_message(h, event, bytes, byte_count);
    } else {
        step(h, event);
    }
    if (!h->is_stepping) {
        drain(h);
    }
}

/* ---- The disk -------------------------------------------------------------------------------- */

static void finish_close(struct cv_host *h);

static void save_on_a_thread(uv_work_t *work)
{
    struct cv_host *h = work->data;
    h->save_result = h->services.persist.save(h->services.persist.self, h->saving_word,
                                              h->saving_count, &h->save_error);
}

/* What waited for this record, or for an earlier one, may go. */
static void release_held(struct cv_host *h)
{
    while (h->held_count > 0 && h->held[h->held_first].record <= h->saved) {
        struct held held = h->held[h->held_first];
        h->held_first = (h->held_first + 1) % CV_HOST_QUEUE_MAX;
        h->held_count--;
        if (held.bytes != NULL) {
            send_now(h, held.first, held.last, held.to_self, held.bytes, held.byte_count);
        } else {
            tell_now(h, &held.leadership);
        }
        held_clear(&held);
    }
}

static void on_saved(uv_work_t *work, int status)
{
    struct cv_host *h = work->data;
    h->is_saving = false;
    if (h->is_closing) {
        finish_close(h);
        return;
    }
    CV_ASSERT(!h->is_stepping); /* the loop called */
    CV_ASSERT(status == 0);     /* nobody cancels it */
    if (h->has_failed) {
        return;
    }
    h->is_stepping = true; /* what services answer while these effects go is queued */
    if (h->save_result == CV_OK) {
        h->saved = h->saving;
        h->counts.saved++;
        release_held(h);
        save_next(h);
    } else {
        on_save_failed(h, h->save_error.text);
    }
    h->is_stepping = false;
    drain(h);
}

static void save_next(struct cv_host *h)
{
    if (h->is_saving || h->saved == h->asked || h->is_closing) {
        return;
    }
    h->saving = h->asked;
    h->saving_count = h->asked_count;
    memcpy(h->saving_word, h->asked_word, sizeof h->saving_word);
    h->is_saving = true;
    h->save_work.data = h;
    const int result = uv_queue_work(h->loop, &h->save_work, save_on_a_thread, on_saved);
    CV_ASSERT(result == 0); /* fails for a missing function only */
}

/* ---- Events from outside --------------------------------------------------------------------- */

void cv__host_message(struct cv_host *h, cv_id peer, const uint8_t *bytes, size_t byte_count,
                      bool is_fast, int64_t delay_ns_max)
{
    CV_ASSERT(bytes != NULL);
    CV_ASSERT(peer <= h->config.member_count);
    struct cv_event event = {
        .kind = CV_EVENT_MESSAGE, .peer = peer, .is_fast = is_fast, .delay_ns_max = delay_ns_max};
    handle(h, &event, bytes, byte_count);
}

void cv__host_sequence(struct cv_host *h, uint64_t request, uint64_t number)
{
    struct cv_event event = {.kind = CV_EVENT_SEQUENCE, .request = request, .sequence = number};
    handle(h, &event, NULL, 0);
}

void cv__host_store(struct cv_host *h, const struct cv_event *answer)
{
    struct cv_event event = {.kind = CV_EVENT_STORE,
                             .request = answer->request,
                             .verdict = answer->verdict,
                             .token = answer->token,
                             .holder = answer->holder,
                             .duration_ns = answer->duration_ns};
    handle(h, &event, NULL, 0);
}

void cv__host_peer_down(struct cv_host *h, cv_id peer, bool is_certain)
{
    struct cv_event event = {.kind = CV_EVENT_PEER_DOWN, .peer = peer, .is_certain = is_certain};
    handle(h, &event, NULL, 0);
}

void cv__host_resign(struct cv_host *h, cv_id successor)
{
    struct cv_event event = {.kind = CV_EVENT_RESIGN, .peer = successor};
    handle(h, &event, NULL, 0);
}

void cv__host_campaign(struct cv_host *h, bool is_candidate)
{
    struct cv_event event = {.kind = CV_EVENT_CAMPAIGN, .is_candidate = is_candidate};
    handle(h, &event, NULL, 0);
}

void cv__host_report(struct cv_host *h, enum cv_input input, int64_t value)
{
    struct cv_event event = {.kind = CV_EVENT_REPORT, .input = input, .value = value};
    handle(h, &event, NULL, 0);
}

void cv__host_run_due(struct cv_host *h)
{
    /* Each timer at most once: a core that armed one for right now must not starve the network. */
    for (uint32_t i = 0; i < CV_TIMERS_MAX && !h->is_closing; i++) {
        const int64_t next_ns = cv__host_next_due_ns(h);
        if (next_ns == 0 || next_ns > now_ns(h)) {
            break;
        }
        uint32_t timer = 0;
        while (h->due_ns[timer] != next_ns) {
            timer++;
        }
        h->due_ns[timer] = 0;
        struct cv_event event = {.kind = CV_EVENT_TIMER, .timer = timer};
        handle(h, &event, NULL, 0);
    }
    set_kernel_timer(h);
}

static void on_kernel_timer(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct cv_host *h = poll->data;
    uint64_t expirations;
    /* EAGAIN: it was set anew after the loop had seen it ready. */
    if (read(h->timer_fd, &expirations, sizeof expirations) == (ssize_t)sizeof expirations) {
        h->timer_fd_ns = 0; /* it is set once, and was spent */
    }
    cv__host_run_due(h);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static void host_release(struct cv_host *h)
{
    drop_held(h);
    for (; h->waiting_count > 0; h->waiting_count--) {
        free(h->waiting[h->waiting_first].bytes);
        h->waiting_first = (h->waiting_first + 1) % COUNT_OF(h->waiting);
    }
    if (h->timer_fd >= 0) {
        (void)close(h->timer_fd); /* nothing was written to it */
    }
    free(h->state);
    free(h->out.item);
    free(h->out.word);
    free(h->decoded_word);
    free(h->encoded);
    free(h->member_word);
    free(h);
}

static void finish_close(struct cv_host *h)
{
    if (h->is_saving || !h->is_poll_closed) {
        return;
    }
    void (*closed)(void *data) = h->closed;
    void *data = h->closed_data;
    host_release(h);
    if (closed != NULL) {
        closed(data);
    }
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct cv_host *h = handle->data;
    h->is_poll_closed = true;
    finish_close(h);
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
    uv_close((uv_handle_t *)&h->timer_poll, on_poll_closed);
}

static bool host_allocate(struct cv_host *h)
{
    const struct cv_config *config = &h->config;
    const size_t state_bytes = cv_core_size(h->protocol, config);
    h->out.word_capacity = cv_effects_words(config);
    h->state = malloc(state_bytes);
    h->out.item = calloc(CV_EFFECTS_MAX, sizeof *h->out.item);
    h->out.word = calloc(h->out.word_capacity, sizeof *h->out.word);
    h->decoded_word = calloc(cv_message_words_max(config->member_count), sizeof *h->decoded_word);
    h->encoded = malloc(cv_message_bytes_max(h->protocol, config->member_count));
    h->member_word = calloc(SET_WORDS(config->member_count), sizeof *h->member_word);
    return h->state != NULL && h->out.item != NULL && h->out.word != NULL &&
           h->decoded_word != NULL && h->encoded != NULL && h->member_word != NULL;
}

int cv__host_new(uv_loop_t *loop, const struct cv_protocol *protocol,
                 const struct cv_config *config, const struct cv_host_services *services,
                 struct cv_host **ret_host, struct cv_errtext *reterr)
{
    struct cv_host *h = calloc(1, sizeof *h);
    if (h == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory for a host of '%s'", protocol->name);
    }
    h->timer_fd = -1;
    h->loop = loop;
    h->protocol = protocol;
    h->config = *config;
    h->services = *services;
    const uint64_t drawn = draw(h);
    h->nonce = drawn != 0 ? drawn : 1;
    int result = CV_OK;
    if (!host_allocate(h)) {
        result = cv__fail(reterr, CV_E_MEMORY, "no memory for a core of '%s'", protocol->name);
        goto failed;
    }
    cv_core_init(protocol, h->state, config);
    h->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (h->timer_fd < 0) {
        result = cv__fail(reterr, CV_E_IO, "cannot make a timer: %s", strerror(errno));
        goto failed;
    }
    const int uv_result = uv_poll_init(loop, &h->timer_poll, h->timer_fd);
    if (uv_result != 0) {
        result = cv__fail(reterr, CV_E_IO, "cannot watch a timer: %s", uv_strerror(uv_result));
        goto failed;
    }
    h->timer_poll.data = h;
    *ret_host = h;
    return CV_OK;
failed:
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
    const int uv_result = uv_poll_start(&h->timer_poll, UV_READABLE, on_kernel_timer);
    if (uv_result != 0) {
        return cv__fail(reterr, CV_E_IO, "cannot watch a timer: %s", uv_strerror(uv_result));
    }
    h->is_started = true;
    struct cv_event event = {
        .kind = CV_EVENT_START,
        .persisted = persisted,
        .persisted_count = persisted_count,
        .nonce = h->nonce,
    };
    handle(h, &event, NULL, 0);
    return CV_OK;
}

/* ---- What can be asked ----------------------------------------------------------------------- */

const struct cv_leadership *cv__host_leadership(const struct cv_host *h)
{
    return &h->leadership;
}

const struct cv_host_counts *cv__host_counts(const struct cv_host *h)
{
    return &h->counts;
}

uint64_t cv__host_nonce(const struct cv_host *h)
{
    CV_ASSERT(h->nonce != 0);
    return h->nonce;
}
