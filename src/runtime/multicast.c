/* src/runtime/multicast.c - one participant of an election in a multicast group; see
 * multicast.h. */
#include "runtime/multicast.h"

#include "core/address.h"
#include "core/core.h"
#include "core/errors.h"
#include "core/text.h"
#include "core/types.h"
#include "net/multicast.h"
#include "runtime/persist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_BYTES_MAX 65536u
#define VALUE_BYTES 1024u /* of an option, decoded: a path, or the address of a sequencer */
#define READS_MAX 64u     /* datagrams in one turn of the loop, so that timers are not delayed */

/* Invariant: parts that are not there are NULL, so that a half-built one can be closed. */
struct cv_participant {
    struct cv_participant_told told;
    struct cv_multicast socket;
    struct cv_frames *frames;
    struct cv_persist *persist;
    struct cv_counter sequencer; /* its kind is NULL: none */
    struct cv_host *host;
    uv_poll_t poll;
    bool has_poll;
    char where[80];
    uint32_t told_fates; /* bit f: a frame of that fate was reported */
    uint32_t closing_count;
    bool is_closing;
    void (*closed)(void *data);
    void *closed_data;
    uint8_t sealed[FRAME_BYTES_MAX], received[FRAME_BYTES_MAX], payload[FRAME_BYTES_MAX];
};

/* ---- The network ----------------------------------------------------------------------------- */

static void trouble(void *self, const char *line)
{
    struct cv_participant *m = self;
    if (m->told.trouble != NULL) {
        m->told.trouble(m->told.self, line);
    }
}

static void send_to_group(void *self, cv_id first, cv_id last, const uint8_t *bytes,
                          size_t byte_count)
{
    struct cv_participant *m = self;
    CV_ASSERT(first == 1 && last == CV_MEMBERS_MAX); /* an anonymous protocol sends to all only */
    CV_ASSERT(byte_count <= CV_FRAME_PAYLOAD_MAX);
    const size_t frame_bytes = cv__frame_seal(m->frames, bytes, byte_count, m->sealed);
    (void)cv__multicast_send(&m->socket, m->sealed, frame_bytes); /* a failure is a lost message */
}

/* One line for the first frame of each kind that is dropped. */
static void tell_fate(struct cv_participant *m, enum cv_frame_fate fate)
{
    static const char *const what[CV_FRAME_FATE_COUNT] = {
        [CV_FRAME_FOREIGN] = "datagrams that are not of this election",
        [CV_FRAME_VERSION] = "frames of a version that this program does not know",
        [CV_FRAME_TRUNCATED] = "frames that were cut off",
        [CV_FRAME_DAMAGED] = "frames that do not authenticate: damaged, or of another key",
        [CV_FRAME_REPLAYED] =
            "frames that were received before: the network or an attacker repeats them",
    };
    if (what[fate] == NULL || (m->told_fates & BIT(fate)) != 0) {
        return;
    }
    m->told_fates |= BIT(fate);
    char line[160];
    (void)snprintf(line, sizeof line, "%s: dropping %s", m->where, what[fate]);
    trouble(m, line);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct cv_participant *m = poll->data;
    size_t byte_count;
    if (status != 0 && !m->is_closing) { /* an error of the socket: libuv has stopped polling */
        (void)uv_poll_start(poll, UV_READABLE, on_readable); /* and reading clears it */
    }
    for (uint32_t i = 0; i < READS_MAX && !m->is_closing; i++) {
        if (!cv__multicast_receive(&m->socket, m->received, sizeof m->received, &byte_count)) {
            break;
        }
        size_t payload_bytes;
        const enum cv_frame_fate fate =
            cv__frame_open(m->frames, m->received, byte_count, m->payload, &payload_bytes);
        if (fate == CV_FRAME_ACCEPTED) {
            cv__host_message(m->host, CV_ID_NONE, m->payload, payload_bytes, INT64_MAX);
        } else {
            tell_fate(m, fate);
        }
    }
}

/* ---- The other services ---------------------------------------------------------------------- */

static void ask_sequencer(void *self, uint64_t request, uint64_t reference)
{
    struct cv_participant *m = self;
    if (m->told.asked != NULL) {
        m->told.asked(m->told.self, request);
    }
    if (m->sequencer.kind != NULL && !m->is_closing) {
        m->sequencer.kind->ask(m->sequencer.self, request, reference);
    }
}

static void on_number(void *self, uint64_t request, uint64_t number)
{
    struct cv_participant *m = self;
    if (m->told.answered != NULL) {
        m->told.answered(m->told.self, request, number);
    }
    if (m->host != NULL && !m->is_closing) {
        cv__host_sequence(m->host, request, number);
    }
}

static void on_leadership(void *self, const struct cv_leadership *leadership)
{
    struct cv_participant *m = self;
    if (m->told.leadership != NULL) {
        m->told.leadership(m->told.self, leadership);
    }
}

/* ---- The address ----------------------------------------------------------------------------- */

static bool parse_number(const char *text, uint32_t max, uint32_t *ret_value)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 10);
    *ret_value = (uint32_t)value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value <= max;
}

/* What the address says, decoded. An option that is not there is NULL. */
struct parts {
    struct cv_address address;
    char interface_text[64], ttl_text[16], protocol_text[64];
    char key_text[VALUE_BYTES], sequencer_text[VALUE_BYTES], state_text[VALUE_BYTES];
    char insecure_text[16];
    const char *interface, *ttl, *protocol, *key, *sequencer, *state, *insecure;
};

static const char *const own_options[] = {"interface", "ttl",      "key",  "insecure",
                                          "sequencer", "protocol", "state"};

/* False: the value is too long. */
static bool get(const struct cv_address *address, const char *name, char *buffer,
                size_t buffer_bytes, const char **ret_value)
{
    struct cv_span value;
    *ret_value = NULL;
    if (!cv__address_option(address, name, &value)) {
        return true;
    }
    *ret_value = buffer;
    return cv__address_decode(value, buffer, buffer_bytes);
}

#define GET(w, name) get(&(w)->address, #name, (w)->name##_text, sizeof(w)->name##_text, &(w)->name)

static int read_address(const char *text, struct parts *w, struct cv_errtext *reterr)
{
    const int result = cv__address_split(text, &w->address, reterr);
    if (result != CV_OK) {
        return result;
    }
    if (!GET(w, interface) || !GET(w, ttl) || !GET(w, protocol) || !GET(w, key) ||
        !GET(w, sequencer) || !GET(w, state) || !GET(w, insecure)) {
        return cv__fail(reterr, CV_E_INVALID, "'%.200s': an option is too long", text);
    }
    return CV_OK;
}

static int join_group(struct cv_participant *m, struct parts *w, struct cv_errtext *reterr)
{
    char path[64];
    uint32_t port = 0;
    uint32_t ttl = CV_MULTICAST_TTL_DEFAULT;
    const bool is_short = cv__address_decode(w->address.path, path, sizeof path);
    char *colon = is_short ? strchr(path, ':') : NULL;
    if (w->address.has_hosts || colon == NULL || !parse_number(colon + 1, 65535, &port) ||
        port == 0) {
        return cv__fail(reterr, CV_E_INVALID, "'multicast:%s' is not multicast:GROUP:PORT",
                        is_short ? path : "...");
    }
    *colon = '\0';
    if (w->ttl != NULL && !parse_number(w->ttl, 255, &ttl)) {
        return cv__fail(reterr, CV_E_INVALID, "ttl=%s is not a number from 0 to 255", w->ttl);
    }
    const struct cv_multicast_where where = {
        .group = path, .port = (uint16_t)port, .interface = w->interface, .ttl = ttl};
    (void)snprintf(m->where, sizeof m->where, "%s:%u", path, port);
    return cv__multicast_open(&m->socket, &where, reterr);
}

static int make_frames(struct cv_participant *m, const char *election, const struct parts *w,
                       struct cv_errtext *reterr)
{
    if ((w->key == NULL) == (w->insecure == NULL) ||
        (w->insecure != NULL && w->insecure[0] != '\0')) {
        return cv__fail(reterr, CV_E_INVALID,
                        "use either key=FILE ('conclave keygen FILE' makes one) or insecure");
    }
    struct cv_key key;
    if (w->key == NULL) {
        return cv__frames_new(election, NULL, &m->frames, reterr);
    }
    int result = cv__key_read(w->key, &key, reterr);
    if (result == CV_OK) {
        result = cv__frames_new(election, &key, &m->frames, reterr);
    }
    cv__key_forget(&key);
    return result;
}

/* Sets the protocol's options from the address; an option without a value means yes. */
static int set_options(const struct parts *w, const struct cv_protocol *protocol,
                       struct cv_config *config, struct cv_errtext *reterr)
{
    const char *known[CV_OPTIONS_MAX + COUNT_OF(own_options) + 1];
    uint32_t known_count = 0;
    for (uint32_t i = 0; i < COUNT_OF(own_options); i++) {
        known[known_count++] = own_options[i];
    }
    int result = CV_OK;
    for (const struct cv_option *o = protocol->options; o->name != NULL; o++) {
        known[known_count++] = o->name;
        char value[CV_TEXT_BYTES];
        const char *text = NULL;
        if (!get(&w->address, o->name, value, sizeof value, &text)) {
            return cv__fail(reterr, CV_E_INVALID, "the option '%s' is too long", o->name);
        }
        if (text != NULL && result == CV_OK) {
            result =
                cv_config_set(config, protocol, o->name, text[0] != '\0' ? text : "yes", reterr);
        }
    }
    known[known_count] = NULL;
    return result != CV_OK ? result : cv__address_check_options(&w->address, known, reterr);
}

/* A protocol that needs no list of members, and takes its numbers from a sequencer. */
static bool is_usable(const struct cv_protocol *protocol)
{
    return protocol->is_anonymous && protocol->sequence_ns != NULL;
}

/* The message names the protocols that can be used here. */
static int fail_protocol(const char *name, struct cv_errtext *reterr)
{
    const char *known[CV_WORDS_MAX + 1];
    uint32_t known_count = 0;
    const struct cv_protocol *protocol;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        if (is_usable(protocol)) {
            CV_ASSERT(known_count < CV_WORDS_MAX);
            known[known_count++] = protocol->name;
        }
    }
    known[known_count] = NULL;
    return cv__text_fail_unknown(reterr, CV_E_INVALID, "protocol", name, known);
}

static int configure(const struct parts *w, const struct cv_protocol **ret_protocol,
                     struct cv_config *config, struct cv_errtext *reterr)
{
    const char *name = w->protocol != NULL ? w->protocol : "anon";
    const struct cv_protocol *protocol = cv_protocol_find(name);
    if (protocol == NULL) {
        return fail_protocol(name, reterr);
    }
    if (!is_usable(protocol)) {
        return cv__fail(
            reterr, CV_E_INVALID,
            "the protocol '%s' needs a list of members; a multicast group has none: use anon",
            name);
    }
    cv_config_init(config, protocol, /* self= */ 1, /* member_count= */ 1);
    const int result = set_options(w, protocol, config, reterr);
    *ret_protocol = protocol;
    return result != CV_OK ? result : cv_core_configure(protocol, config, reterr);
}

int cv__participant_contract(const char *address, uint32_t *ret_promises, uint32_t *ret_assumes,
                             struct cv_errtext *reterr)
{
    const struct cv_protocol *protocol = NULL;
    struct cv_config config;
    struct parts parts;
    int result = read_address(address, &parts, reterr);
    if (result == CV_OK) {
        result = configure(&parts, &protocol, &config, reterr);
    }
    if (result == CV_OK) {
        cv__core_contract(protocol, &config, ret_promises, ret_assumes);
    }
    return result;
}

static int open_sequencer(struct cv_participant *m, uv_loop_t *loop, const char *address,
                          struct cv_errtext *reterr)
{
    if (address == NULL) {
        return cv__fail(reterr, CV_E_INVALID,
                        "the sequencer is missing; add sequencer=snmp:HOST:PORT/COMMUNITY or "
                        "sequencer=file:PATH");
    }
    const struct cv_sequencer_events events = {m, on_number, trouble};
    const int result = cv__sequencer_open(loop, address, &events, &m->sequencer, reterr);
    if (result != CV_OK) {
        m->sequencer.kind = NULL;
    }
    return result;
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static int start(struct cv_participant *m, uv_loop_t *loop, struct cv_timers *timers,
                 const char *election, const char *address, struct cv_errtext *reterr)
{
    const struct cv_protocol *protocol = NULL;
    struct cv_config config;
    struct parts parts;
    int result = read_address(address, &parts, reterr);
    if (result == CV_OK) {
        result = join_group(m, &parts, reterr);
    }
    if (result == CV_OK) {
        result = make_frames(m, election, &parts, reterr);
    }
    if (result == CV_OK) {
        result = configure(&parts, &protocol, &config, reterr);
    }
    if (result == CV_OK && parts.state != NULL) {
        result = cv__persist_open(parts.state, protocol->name, &m->persist, reterr);
    }
    if (result == CV_OK) {
        result = open_sequencer(m, loop, parts.sequencer, reterr);
    }
    if (result != CV_OK) {
        return result;
    }
    const struct cv_host_services services = {
        .transport = {m, send_to_group},
        .sequencer = {m, ask_sequencer},
        .persist =
            m->persist != NULL ? cv__persist_service(m->persist) : (struct cv_host_persist){0},
        .told = {m, on_leadership, trouble},
        .time = {.timers = timers},
        .recorder = m->told.recorder,
    };
    result = cv__host_new(loop, protocol, &config, &services, &m->host, reterr);
    if (result != CV_OK) {
        return result;
    }
    m->has_poll = uv_poll_init(loop, &m->poll, m->socket.fd) == 0;
    if (!m->has_poll || uv_poll_start(&m->poll, UV_READABLE, on_readable) != 0) {
        return cv__fail(reterr, CV_E_IO, "cannot watch the socket of %s", m->where);
    }
    m->poll.data = m;
    return cv__host_start(m->host, reterr);
}

int cv__participant_open(uv_loop_t *loop, struct cv_timers *timers, const char *election,
                         const char *address, const struct cv_participant_told *told,
                         struct cv_participant **ret_participant, struct cv_errtext *reterr)
{
    struct cv_participant *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory to take part in '%s'", election);
    }
    m->told = *told;
    m->socket.fd = -1;
    const int result = start(m, loop, timers, election, address, reterr);
    if (result != CV_OK) {
        cv__participant_close(m, NULL, NULL);
        return result;
    }
    *ret_participant = m;
    return CV_OK;
}

static void on_part_closed(void *data)
{
    struct cv_participant *m = data;
    CV_ASSERT(m->closing_count > 0);
    m->closing_count--;
    if (m->closing_count > 0) {
        return;
    }
    cv__multicast_close(&m->socket);
    cv__frames_free(m->frames);
    cv__persist_close(m->persist);
    void (*closed)(void *data) = m->closed;
    void *closed_data = m->closed_data;
    free(m);
    if (closed != NULL) {
        closed(closed_data);
    }
}

static void on_poll_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

void cv__participant_close(struct cv_participant *m, void (*closed)(void *data), void *data)
{
    CV_ASSERT(!m->is_closing);
    m->is_closing = true;
    m->closed = closed;
    m->closed_data = data;
    m->closing_count = 1; /* this function */
    if (m->has_poll) {
        m->closing_count++;
        m->poll.data = m;
        uv_close((uv_handle_t *)&m->poll, on_poll_closed);
    }
    if (m->sequencer.kind != NULL) {
        m->closing_count++;
        m->sequencer.kind->close(m->sequencer.self, on_part_closed, m);
    }
    if (m->host != NULL) {
        m->closing_count++;
        cv__host_free(m->host, on_part_closed, m);
    }
    on_part_closed(m);
}

struct cv_host *cv__participant_host(struct cv_participant *m)
{
    return m->host;
}

uint64_t cv__participant_frames(const struct cv_participant *m, enum cv_frame_fate fate)
{
    return cv__frames_count(m->frames, fate);
}

const struct cv_sequencer_counts *cv__participant_sequencer(const struct cv_participant *m)
{
    return m->sequencer.kind != NULL ? m->sequencer.kind->counts(m->sequencer.self) : NULL;
}
