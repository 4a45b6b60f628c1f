/* src/sequencers/snmp.c - the request counter of any SNMP agent as a sequencer [Wiesmann07, sec.
 * 5].
 *
 * An agent counts the GET requests that it has received (snmpInGetRequests.0, RFC 3418), and a GET
 * of that counter is counted itself first: no two answers have the same value. snmpEngineBoots.0
 * (RFC 3411) is asked for in the same request, because the counter starts again with the agent; if
 * an agent does not have it, a restart is recognised by the counter itself. src/core/sequence.c
 * makes numbers of the two.
 *
 * Nothing blocks: net-snmp's single-session calls send, and the loop reports when there is
 * something to read. Requests are not repeated here: each repetition would use up a number, and the
 * core decides when to ask again. A late answer is still good, so a request is kept for PATIENCE_S.
 * With PENDING_MAX unanswered requests the agent is taken for dead, and the session is opened
 * again.
 *
 * The socket is connected to the agent: datagrams of others are not received, and a host without an
 * agent reports that at once. Version 2c has no real secrets: an attacker in the network can forge
 * answers. A forged number looks like a gap or a restart, or uses up all numbers: use a network
 * that you trust, as the paper does. */
#include "sequencers/sequencer.h"

#include "core/errors.h"
#include "core/sequence.h"
#include "core/types.h"
#include "modules/module.h"

/* The library's headers come first: they bring their own configuration. */
#include <net-snmp/net-snmp-config.h>
#include <net-snmp/net-snmp-includes.h>

#include <net-snmp/library/large_fd_set.h>

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PORT_DEFAULT "161"
#define COMMUNITY_DEFAULT "public"
#define COMMUNITY_VARIABLE "CONCLAVE_SNMP_COMMUNITY"
#define COMMUNITY_MAX 64u
#define PENDING_MAX 64u
#define PATIENCE_S 30
#define TICK_MS 250u   /* how often we check for overdue answers */
#define SILENT_TICKS 4 /* ticks without an answer until it is reported */

struct snmp;

struct pending {
    struct snmp *owner;
    bool is_open;
    uint64_t request, reference;
};

struct snmp {
    uv_loop_t *loop;
    uv_poll_t *poll; /* of the session's socket; NULL: there is no session */
    uv_timer_t timer;
    struct cv_sequencer_events events;
    struct cv_sequencer_counts counts;
    enum cv_sequencer_trouble trouble;

    void *session;
    struct sockaddr_storage agent;
    socklen_t agent_bytes;
    char peer[NI_MAXHOST + NI_MAXSERV + 16]; /* as net-snmp reads it, numeric */
    char name[NI_MAXHOST + NI_MAXSERV];      /* as people do */
    char community[COMMUNITY_MAX + 1];

    struct pending pending[PENDING_MAX];
    uint32_t pending_count;
    uint32_t silent_ticks;

    bool is_inside; /* within a call of the library: the caller reports what fails there */
    bool is_closing;
    uint32_t closing_count; /* handles that the loop still has to close */
    void (*closed)(void *data);
    void *closed_data;
};

static const oid counter_oid[] = {1, 3, 6, 1, 2, 1, 11, 15, 0};
static const oid boots_oid[] = {1, 3, 6, 1, 6, 3, 10, 2, 1, 2, 0};

/* ---- Answers --------------------------------------------------------------------------------- */

static void answer(struct pending *p, uint64_t number)
{
    struct snmp *s = p->owner;
    CV_ASSERT(p->is_open);
    p->is_open = false;
    s->pending_count--;
    if (!s->is_closing) {
        s->events.number(s->events.self, p->request, number);
    }
}

static bool is_variable(const netsnmp_variable_list *v, const oid *name, size_t length)
{
    return v != NULL && snmp_oid_compare(v->name, v->name_length, name, length) == 0;
}

/* The counter, and the boots if the agent shows them (otherwise 0). False: it is not a valid
 * answer. */
static bool read_answer(const netsnmp_pdu *pdu, uint32_t *ret_counter, uint64_t *ret_boots)
{
    const netsnmp_variable_list *counter = pdu->variables;
    if (!is_variable(counter, counter_oid, OID_LENGTH(counter_oid)) ||
        counter->type != ASN_COUNTER || counter->val.integer == NULL) {
        return false;
    }
    *ret_counter = (uint32_t)*counter->val.integer;
    *ret_boots = 0;
    const netsnmp_variable_list *boots = counter->next_variable;
    if (!is_variable(boots, boots_oid, OID_LENGTH(boots_oid))) {
        return boots == NULL;
    }
    if (boots->type == ASN_INTEGER && boots->val.integer != NULL) {
        if (*boots->val.integer < 0 || *boots->val.integer > INT32_MAX) {
            return false;
        }
        *ret_boots = (uint64_t)*boots->val.integer;
    } /* any other type says that there is no such object */
    return true;
}

static void on_answer(struct pending *p, const netsnmp_pdu *pdu)
{
    struct snmp *s = p->owner;
    uint32_t counter = 0;
    uint64_t boots = 0;
    s->silent_ticks = 0;
    if (pdu->command != SNMP_MSG_RESPONSE || pdu->errstat != SNMP_ERR_NOERROR) {
        s->counts.refused++;
        cv__sequencer_say(&s->events, &s->trouble, CV_SEQUENCER_REFUSING,
                          "the SNMP agent %s refuses: %s", s->name,
                          snmp_errstring((int)pdu->errstat));
        answer(p, CV_SEQUENCE_NONE);
        return;
    }
    if (!read_answer(pdu, &counter, &boots)) {
        s->counts.strange++;
        cv__sequencer_say(&s->events, &s->trouble, CV_SEQUENCER_STRANGE,
                          "the SNMP agent %s does not show the counter snmpInGetRequests.0",
                          s->name);
        answer(p, CV_SEQUENCE_NONE);
        return;
    }
    const uint64_t number = cv__sequence_number(p->reference, counter, boots);
    if (number == CV_SEQUENCE_NONE) {
        s->counts.strange++;
        cv__sequencer_say(&s->events, &s->trouble, CV_SEQUENCER_STRANGE,
                          "the SNMP agent %s has used up all numbers", s->name);
        answer(p, number);
        return;
    }
    if (p->reference != CV_SEQUENCE_NONE &&
        cv__sequence_generation(number) > cv__sequence_generation(p->reference)) {
        s->counts.restarts++;
    }
    s->counts.answered++;
    cv__sequencer_say(&s->events, &s->trouble, CV_SEQUENCER_FINE, "the SNMP agent %s answers again",
                      s->name);
    answer(p, number);
}

static void say_silent(struct snmp *s)
{
    cv__sequencer_say(&s->events, &s->trouble, CV_SEQUENCER_SILENT,
                      "the SNMP agent %s does not answer: is it there, and is the community right?",
                      s->name);
}

/* Called by net-snmp; returning 1 means that the request is finished. */
static int on_operation(int operation, netsnmp_session *session, int request_id, netsnmp_pdu *pdu,
                        void *magic)
{
    (void)session;
    (void)request_id;
    struct pending *p = magic;
    if (!p->is_open || p->owner->is_inside) {
        return 1;
    }
    if (operation == NETSNMP_CALLBACK_OP_RECEIVED_MESSAGE && pdu != NULL) {
        on_answer(p, pdu);
    } else {
        p->owner->counts.silent++;
        say_silent(p->owner);
        answer(p, CV_SEQUENCE_NONE);
    }
    return 1;
}

/* ---- The session and its socket -------------------------------------------------------------- */

static void on_handle_closed(struct snmp *s)
{
    CV_ASSERT(s->closing_count > 0);
    s->closing_count--;
    if (s->is_closing && s->closing_count == 0) {
        void (*closed)(void *data) = s->closed;
        void *data = s->closed_data;
        free(s);
        if (closed != NULL) {
            closed(data);
        }
    }
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct snmp *s = handle->data;
    free(handle);
    on_handle_closed(s);
}

static void end_session(struct snmp *s)
{
    s->is_inside = true; /* it reports unanswered requests to on_operation(); the caller answers
                          * them */
    (void)snmp_sess_close(s->session);
    s->is_inside = false;
    s->session = NULL;
}

/* The poll handle goes first: it must not outlive the socket that it watches. */
static void close_session(struct snmp *s)
{
    if (s->poll != NULL) {
        s->closing_count++;
        (void)uv_poll_stop(s->poll);
        uv_close((uv_handle_t *)s->poll, on_poll_closed);
        s->poll = NULL;
    }
    if (s->session != NULL) {
        end_session(s);
    }
    /* A caller may ask again from within its answer, and then gets a slot of the next session. */
    uint64_t request[PENDING_MAX];
    uint32_t request_count = 0;
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        if (s->pending[i].is_open) {
            s->pending[i].is_open = false;
            request[request_count++] = s->pending[i].request;
        }
    }
    s->pending_count = 0;
    s->counts.silent += request_count;
    for (uint32_t i = 0; i < request_count && !s->is_closing; i++) {
        s->events.number(s->events.self, request[i], CV_SEQUENCE_NONE);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct snmp *s = poll->data;
    if (s->poll != poll || s->session == NULL) {
        return; /* of a session that is closed already */
    }
    int error = 0;
    socklen_t bytes = sizeof error;
    const int fd = snmp_sess_transport(s->session)->sock;
    /* A host without an agent refuses the datagram: clear the error, or reading would return it. */
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error != 0) {
        say_silent(s);
    }
    if (status != 0) { /* and libuv has stopped watching */
        (void)uv_poll_start(poll, UV_READABLE, on_readable);
        return;
    }
    if (error != 0) {
        return;
    }
    netsnmp_large_fd_set set;
    netsnmp_large_fd_set_init(&set, fd + 1);
    NETSNMP_LARGE_FD_ZERO(&set);
    NETSNMP_LARGE_FD_SET(fd, &set);
    (void)snmp_sess_read2(s->session, &set); /* what does not parse is dropped there */
    netsnmp_large_fd_set_cleanup(&set);
}

static int open_session(struct snmp *s, struct cv_errtext *reterr)
{
    netsnmp_session session;
    snmp_sess_init(&session);
    session.version = SNMP_VERSION_2c;
    session.peername = s->peer;
    session.community = (u_char *)s->community;
    session.community_len = strlen(s->community);
    session.retries = 0;
    session.timeout = PATIENCE_S * 1000000L;
    s->session = snmp_sess_open(&session);
    if (s->session == NULL) {
        char *why = NULL;
        int library_errno = 0;
        int system_errno = 0;
        snmp_error(&session, &system_errno, &library_errno, &why);
        const int result = cv__fail(reterr, CV_E_IO, "cannot talk SNMP to %s: %s", s->name,
                                    why != NULL ? why : "no reason given");
        free(why);
        return result;
    }
    const int fd = snmp_sess_transport(s->session)->sock;
    uv_poll_t *poll = calloc(1, sizeof *poll);
    if (poll == NULL || connect(fd, (struct sockaddr *)&s->agent, s->agent_bytes) != 0 ||
        uv_poll_init(s->loop, poll, fd) != 0) {
        const int why = errno;
        free(poll);
        end_session(s);
        return cv__fail(reterr, CV_E_IO, "cannot talk SNMP to %s: %s", s->name, strerror(why));
    }
    s->poll = poll;
    poll->data = s;
    const int result = uv_poll_start(poll, UV_READABLE, on_readable);
    CV_ASSERT(result == 0); /* it was just made */
    return CV_OK;
}

static void on_tick(uv_timer_t *timer)
{
    struct snmp *s = timer->data;
    if (s->session != NULL) {
        snmp_sess_timeout(s->session);
    }
    s->silent_ticks++;
    if (s->pending_count == 0) {
        (void)uv_timer_stop(timer);
    } else if (s->silent_ticks == SILENT_TICKS) {
        say_silent(s);
    }
}

/* ---- The table ------------------------------------------------------------------------------- */

static bool send_question(struct snmp *s, struct pending *p)
{
    netsnmp_pdu *pdu = snmp_pdu_create(SNMP_MSG_GET);
    if (pdu == NULL) {
        return false;
    }
    (void)snmp_add_null_var(pdu, counter_oid, OID_LENGTH(counter_oid));
    (void)snmp_add_null_var(pdu, boots_oid, OID_LENGTH(boots_oid));
    s->is_inside = true;
    const bool is_sent = snmp_sess_async_send(s->session, pdu, on_operation, p) != 0;
    s->is_inside = false;
    if (!is_sent) {
        snmp_free_pdu(pdu);
    }
    return is_sent;
}

static void snmp_ask(void *self, uint64_t request, uint64_t reference)
{
    struct snmp *s = self;
    CV_ASSERT(!s->is_closing);
    s->counts.asked++;
    if (s->pending_count == PENDING_MAX) {
        close_session(s);
    }
    struct pending *p = s->pending;
    while (p->is_open) {
        p++;
    }
    CV_ASSERT(p < s->pending + PENDING_MAX);
    *p = (struct pending){.owner = s, .is_open = true, .request = request, .reference = reference};
    s->pending_count++;
    if ((s->session == NULL && open_session(s, NULL) != CV_OK) || !send_question(s, p)) {
        s->counts.silent++;
        say_silent(s);
        answer(p, CV_SEQUENCE_NONE);
        return;
    }
    if (!uv_is_active((uv_handle_t *)&s->timer)) {
        s->silent_ticks = 0;
        (void)uv_timer_start(&s->timer, on_tick, TICK_MS, TICK_MS); /* fails when closing only */
    }
}

static const struct cv_sequencer_counts *snmp_counts(const void *self)
{
    return &((const struct snmp *)self)->counts;
}

static void on_timer_closed(uv_handle_t *handle)
{
    on_handle_closed(handle->data);
}

static void snmp_end(void *self, void (*closed)(void *data), void *data)
{
    struct snmp *s = self;
    CV_ASSERT(!s->is_closing);
    s->is_closing = true;
    s->closed = closed;
    s->closed_data = data;
    close_session(s);
    s->closing_count++;
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

/* "host[:port][/community]"; an IPv6 host in brackets. False: it is not of that form. */
static bool split(const char *where, char host[NI_MAXHOST], char port[NI_MAXSERV],
                  char community[COMMUNITY_MAX + 1])
{
    const char *slash = strchr(where, '/');
    const char *from_outside = getenv(COMMUNITY_VARIABLE);
    const char *name = slash != NULL          ? slash + 1
                       : from_outside != NULL ? from_outside
                                              : COMMUNITY_DEFAULT;
    const char *end = slash != NULL ? slash : where + strlen(where);
    const char *host_begin = where;
    const char *host_end = end;
    const char *port_begin = NULL;
    if (where[0] == '[') {
        host_begin = where + 1;
        host_end = memchr(where, ']', (size_t)(end - where));
        if (host_end == NULL) {
            return false;
        }
        port_begin = host_end + 1 < end ? host_end + 1 : NULL;
    } else {
        port_begin = memchr(where, ':', (size_t)(end - where));
        host_end = port_begin != NULL ? port_begin : end;
    }
    if (port_begin != NULL && *port_begin++ != ':') {
        return false;
    }
    const size_t host_length = (size_t)(host_end - host_begin);
    const size_t port_length = port_begin != NULL ? (size_t)(end - port_begin) : 0;
    if (host_length == 0 || host_length >= NI_MAXHOST || port_length >= NI_MAXSERV ||
        (port_begin != NULL && port_length == 0) || name[0] == '\0' ||
        strlen(name) > COMMUNITY_MAX) {
        return false;
    }
    (void)snprintf(host, NI_MAXHOST, "%.*s", (int)host_length, host_begin);
    (void)snprintf(port, NI_MAXSERV, "%.*s", (int)port_length,
                   port_begin != NULL ? port_begin : "");
    if (port_begin == NULL) {
        (void)snprintf(port, NI_MAXSERV, PORT_DEFAULT);
    }
    (void)snprintf(community, COMMUNITY_MAX + 1, "%s", name);
    return true;
}

/* Fills in the agent's address and its two spellings. */
static int look_up(struct snmp *s, const char *host, const char *port, struct cv_errtext *reterr)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    const int result = getaddrinfo(host, port, &hints, &found);
    if (result != 0) {
        return cv__fail(reterr, CV_E_INVALID, "cannot find the SNMP agent '%s', port '%s': %s",
                        host, port, gai_strerror(result));
    }
    memcpy(&s->agent, found->ai_addr, found->ai_addrlen);
    s->agent_bytes = found->ai_addrlen;
    const bool is_v6 = found->ai_family == AF_INET6;
    freeaddrinfo(found);
    char numeric[NI_MAXHOST];
    char numeric_port[NI_MAXSERV];
    if (getnameinfo((struct sockaddr *)&s->agent, s->agent_bytes, numeric, sizeof numeric,
                    numeric_port, sizeof numeric_port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return cv__fail(reterr, CV_E_INVALID, "cannot use the address of '%s'", host);
    }
    (void)snprintf(s->peer, sizeof s->peer, is_v6 ? "udp6:[%s]:%s" : "udp:%s:%s", numeric,
                   numeric_port);
    (void)snprintf(s->name, sizeof s->name, "%s:%s", host, numeric_port);
    return CV_OK;
}

/* net-snmp prints parse errors to stderr unless a log handler is registered. */
static void be_quiet(void)
{
    (void)netsnmp_register_loghandler(NETSNMP_LOGHANDLER_NONE, LOG_DEBUG);
}

static int snmp_begin(uv_loop_t *loop, const char *where, const struct cv_sequencer_events *events,
                      void **ret_self, struct cv_errtext *reterr)
{
    struct snmp *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory for the sequencer 'snmp:%s'", where);
    }
    s->loop = loop;
    s->events = *events;
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    int result = CV_OK;
    if (!split(where, host, port, s->community)) {
        result = cv__fail(reterr, CV_E_INVALID, "sequencer 'snmp:%s' is not of the form %s", where,
                          CV_SEQUENCER_SNMP_FORM);
        goto failed;
    }
    result = look_up(s, host, port, reterr);
    if (result != CV_OK) {
        goto failed;
    }
    static uv_once_t once = UV_ONCE_INIT;
    uv_once(&once, be_quiet);
    result = open_session(s, reterr);
    if (result != CV_OK) {
        goto failed;
    }
    (void)uv_timer_init(loop, &s->timer); /* cannot fail */
    s->timer.data = s;
    *ret_self = s;
    return CV_OK;
failed:
    CV_ASSERT(s->closing_count == 0);
    free(s);
    return result;
}

static const struct cv_sequencer_kind snmp_kind = {
    .name = "snmp",
    .form = CV_SEQUENCER_SNMP_FORM,
    .summary = "the request counter of an SNMP agent, in a switch or anywhere",
    .open = snmp_begin,
    .ask = snmp_ask,
    .counts = snmp_counts,
    .close = snmp_end,
};

CV_MODULE(snmp_kind)
