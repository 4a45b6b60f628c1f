/* src/runtime/host.h - runs one core, of any protocol, on a libuv loop.
 *
 * The host provides what a core does not have: a clock, random numbers, timers, a network, a
 * sequencer, a disk. host/node.h decides, for all hosts alike, when the core is stepped and which
 * effects must wait. In addition:
 *
 * - The clock is read again for each event, so a process that slept notices it at once.
 * - A timer is due at a random instant of the range that the core asked for.
 * - The host's own thread saves records, so the loop does not wait, unless saving is quick.
 *
 * The services are tables of functions with the object they belong to; a protocol needs only those
 * that it uses. They are called on the loop's thread, from within a step, except `save`.
 *
 * A host runs on one thread, that of its loop. Memory: one block for the core, one for effects, and
 * queues with the bounds below. */
#ifndef CV_RUNTIME_HOST_H
#define CV_RUNTIME_HOST_H

#include "host/node.h"
#include "runtime/tap.h"
#include "runtime/timers.h"

#include <uv.h>

/* Messages that came while a step ran, or sends that wait for the disk: beyond this they are
 * dropped and counted. Networks lose messages; protocols live with that. */
#define CV_HOST_QUEUE_MAX 256u

struct cv_host;

/* Sends to every member first..last except this one; 1..CV_MEMBERS_MAX is the whole group. The
 * bytes are lent. Received bytes go to cv__host_message(). */
struct cv_host_transport {
    void *self;
    void (*send)(void *self, cv_id first, cv_id last, const uint8_t *bytes, size_t byte_count);
};

/* Asks for a number above `reference`. The answer, if there is one, comes by
 * cv__host_sequence(). */
struct cv_host_sequencer {
    void *self;
    void (*ask)(void *self, uint64_t request, uint64_t reference);
};

/* Asks the store; the effect is lent. The answer, and notifications, come by cv__host_store(). */
struct cv_host_store {
    void *self;
    void (*ask)(void *self, const struct cv_effect *effect);
};

/* The durable record. `load` is called once, at the start; *ret_count is 0 if nothing was ever
 * saved. `save` returns when the record is durable, and may block: it runs on another thread, but
 * never twice at once. If is_quick, it runs on the loop's thread: on a busy machine another thread
 * would start too late for a leadership that waits for the record. */
struct cv_host_persist {
    void *self;
    int (*load)(void *self, uint64_t ret_word[CV_PERSIST_WORDS_MAX], uint32_t *ret_count,
                struct cv_errtext *reterr);
    int (*save)(void *self, const uint64_t *word, uint32_t word_count, struct cv_errtext *reterr);
    bool is_quick;
};

/* What the application is told. Both may call any function of the host. */
struct cv_host_told {
    void *self;
    /* The belief of this node has changed, or a leadership was renewed; lent. */
    void (*leadership)(void *self, const struct cv_leadership *leadership);
    /* One line about a failure that the protocol tolerates. */
    void (*trouble)(void *self, const char *line);
};

/* The local clock and 64 random bits; now_ns is NULL: the real ones. A host with its own clock has
 * no kernel timer: its owner calls cv__host_run_due(). */
struct cv_host_time {
    void *self;
    int64_t (*now_ns)(void *self);
    uint64_t (*random)(void *self);
    struct cv_timers *timers; /* lent, of the same loop; NULL: the host makes its own */
};

struct cv_host_services {
    struct cv_host_transport transport;
    struct cv_host_sequencer sequencer;
    struct cv_host_store store;
    struct cv_host_persist persist;
    struct cv_host_told told;
    struct cv_host_time time;
    const struct cv_recorder *recorder; /* lent; NULL: none */
};

/* A host for a configuration that passed cv_core_configure(). Returns CV_OK, CV_E_MEMORY or
 * CV_E_LIMIT. */
CV_NODISCARD int cv__host_new(uv_loop_t *loop, const struct cv_protocol *protocol,
                              const struct cv_config *config,
                              const struct cv_host_services *services, struct cv_host **ret_host,
                              struct cv_errtext *reterr);

/* The first event; before it the host does nothing. Fails if the record cannot be loaded: a node
 * that may have forgotten a promise must not make one. */
CV_NODISCARD int cv__host_start(struct cv_host *host, struct cv_errtext *reterr);

/* Ends the host: no further step, timer or call of a service. Waits for a save that is under way;
 * then the loop calls `closed` (may be NULL), and the host is gone. `host` may be NULL: then
 * `closed` is called at once. */
void cv__host_free(struct cv_host *host, void (*closed)(void *data), void *data);

/* What the transport received: decoded, checked, and given to the core. `peer` is CV_ID_NONE if the
 * protocol is anonymous; delay_ns_max is INT64_MAX if the delay has no bound. */
void cv__host_message(struct cv_host *host, cv_id peer, const uint8_t *bytes, size_t byte_count,
                      int64_t delay_ns_max);

/* The sequencer's answer, however late; CV_SEQUENCE_NONE: it failed. At most one per request. */
void cv__host_sequence(struct cv_host *host, uint64_t request, uint64_t number);

/* The store's answer to a request, however late, at most one for each; with request 0: a
 * notification. Only the fields of CV_EVENT_STORE are read. */
void cv__host_store(struct cv_host *host, const struct cv_event *answer);

void cv__host_peer_down(struct cv_host *host, cv_id peer, bool is_certain);
void cv__host_resign(struct cv_host *host, cv_id successor);
void cv__host_campaign(struct cv_host *host, bool is_candidate);
void cv__host_report(struct cv_host *host, enum cv_input input, int64_t value);

/* Fires the timers that are due by the host's clock; the loop does it by itself, unless the clock
 * was given. When the next one is due; 0: none is armed. */
void cv__host_run_due(struct cv_host *host);
int64_t cv__host_next_due_ns(const struct cv_host *host);

/* The latest leadership that was reported; before the first one, its reason is
 * CV_REASON_STARTED. */
const struct cv_leadership *cv__host_leadership(const struct cv_host *host);
const struct cv_node_counts *cv__host_counts(const struct cv_host *host);

/* The message that a witness may send to all when this process is dead (see `farewell` of struct
 * cv_protocol). Returns its length; 0: there is none. The bytes are lent until the next call. For
 * hosts whose saves are quick: all that the core relies on is durable. */
size_t cv__host_farewell(struct cv_host *host, const uint8_t **ret_bytes);

/* The nonce of this start, from cv__host_new() on and never 0: the label by which others know this
 * process in anonymous protocols and in stores. */
uint64_t cv__host_nonce(const struct cv_host *host);

#endif
