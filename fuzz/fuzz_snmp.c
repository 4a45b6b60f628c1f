/* fuzz/fuzz_snmp.c - the sequencer answers any packet of an SNMP agent with a number or with none.
 *
 * Input: eight bytes for the number that is known, then answers: two bytes for the length, and the
 * packet without its version and community, which net-snmp's own parser reads. Nothing is sent. */
#include "fuzz.h"

#include "sequencers/sequencer.h"

#include <net-snmp/net-snmp-config.h>
#include <net-snmp/net-snmp-includes.h>

#include <net-snmp/library/large_fd_set.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct {
    netsnmp_callback callback;
    void *magic;
} asked;
static uint64_t reference;
static bool is_answered, is_closed;

/* ---- Replacements of library functions ------------------------------------------------------- */

static netsnmp_transport transport;

void *snmp_sess_open(netsnmp_session *session)
{
    (void)session;
    return &asked;
}

int snmp_sess_close(void *session)
{
    (void)session;
    return 1;
}

netsnmp_transport *snmp_sess_transport(void *session)
{
    (void)session;
    return &transport;
}

int snmp_sess_async_send(void *session, netsnmp_pdu *pdu, netsnmp_callback callback, void *magic)
{
    (void)session;
    asked.callback = callback;
    asked.magic = magic;
    snmp_free_pdu(pdu);
    return 1;
}

/* ---- The target ------------------------------------------------------------------------------ */

static void on_number(void *self, uint64_t request, uint64_t number)
{
    (void)self;
    (void)request;
    is_answered = true;
    if (number != CV_SEQUENCE_NONE && reference != CV_SEQUENCE_NONE && number <= reference) {
        fuzz_found("a number that does not grow");
    }
    if (number != CV_SEQUENCE_NONE && number >> 63 != 0) {
        fuzz_found("a number of 64 bits");
    }
}

static void on_closed(void *data)
{
    (void)data;
    is_closed = true;
}

static void answer(const uint8_t *bytes, size_t byte_count)
{
    uint8_t *exact = fuzz_must(malloc(byte_count + 1));
    memcpy(exact, bytes, byte_count);
    netsnmp_pdu *pdu = fuzz_must(snmp_pdu_create(SNMP_MSG_GET));
    size_t length = byte_count;
    if (snmp_pdu_parse(pdu, exact, &length) == 0) {
        (void)asked.callback(NETSNMP_CALLBACK_OP_RECEIVED_MESSAGE, NULL, 1, pdu, asked.magic);
    }
    snmp_free_pdu(pdu);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uv_loop_t loop;
    static bool is_ready;
    if (!is_ready) {
        (void)setenv("MIBS", "", 1);
        transport.sock = socket(AF_INET, SOCK_DGRAM, 0);
        if (uv_loop_init(&loop) != 0 || transport.sock < 0) {
            abort();
        }
        is_ready = true;
    }
    const struct cv_sequencer_kind *kind = cv_module_table();
    const struct cv_sequencer_events events = {.number = on_number};
    struct fuzz_input in = {data, size};
    struct cv_errtext err = {""};
    void *self;
    if (kind->open(&loop, "127.0.0.1:1/c", &events, &self, &err) != CV_OK) {
        fuzz_found(err.text);
    }
    reference = fuzz_number(&in, 8);
    reference = reference >> 63 != 0 ? CV_SEQUENCE_NONE : reference;
    for (uint64_t request = 1; in.bytes > 2; request++) {
        const size_t wanted = fuzz_number(&in, 2);
        const size_t bytes = wanted < in.bytes ? wanted : in.bytes;
        is_answered = false;
        kind->ask(self, request, reference);
        answer(in.at, bytes);
        in.at += bytes;
        in.bytes -= bytes;
        if (!is_answered) { /* it did not parse: the library waits for another answer */
            (void)asked.callback(NETSNMP_CALLBACK_OP_TIMED_OUT, NULL, 1, NULL, asked.magic);
        }
    }
    is_closed = false;
    kind->close(self, on_closed, NULL);
    while (!is_closed) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    return 0;
}
