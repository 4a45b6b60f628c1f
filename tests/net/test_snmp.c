/* tests/net/test_snmp.c - the answers of an SNMP agent, right and wrong, and what the sequencer
 * makes of them.
 *
 * The agent is a socket of this test on the loopback interface: it writes the answers byte by byte,
 * so that it can also send what no real agent would. tests/system/test_elect.py asks a real one. */
#include "core/sequence.h"
#include "modules/module.h"
#include "support/asker.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GENERATION (UINT64_C(1) << CV_SEQUENCE_GENERATION_BITS)

/* ---- An agent, played by the test ------------------------------------------------------------ */

struct agent {
    int fd;
    uint16_t port;
    struct sockaddr_in asker;
    uint8_t question[512];
    size_t question_bytes;
};

/* Opens its port, or any free port if that is 0. */
static void agent_open(struct agent *agent)
{
    struct sockaddr_in here = {.sin_family = AF_INET,
                               .sin_port = htons(agent->port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof here;
    agent->fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(agent->fd, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(getsockname(agent->fd, (struct sockaddr *)&here, &bytes), 0);
    agent->port = ntohs(here.sin_port);
}

static void agent_hear(struct agent *agent)
{
    socklen_t bytes = sizeof agent->asker;
    struct pollfd wait = {.fd = agent->fd, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, 20000), 1);
    const ssize_t got = recvfrom(agent->fd, agent->question, sizeof agent->question, 0,
                                 (struct sockaddr *)&agent->asker, &bytes);
    assert_true(got > 0);
    agent->question_bytes = (size_t)got;
}

static void agent_send(const struct agent *agent, const uint8_t *bytes, size_t byte_count)
{
    assert_int_equal(sendto(agent->fd, bytes, byte_count, 0, (const struct sockaddr *)&agent->asker,
                            sizeof agent->asker),
                     byte_count);
}

struct answer {
    uint32_t counter;
    uint8_t counter_type;       /* 0: Counter32 */
    int32_t boots;              /* -1: there is no such object */
    bool has_no_boots_variable; /* the answer is shorter than the question */
    uint8_t error;
    bool has_other_oid;
};

static size_t put_value(uint8_t *at, uint8_t type, uint32_t value)
{
    const uint8_t bytes[] = {
        type,          5, 0, (uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
        (uint8_t)value};
    memcpy(at, bytes, sizeof bytes);
    return sizeof bytes;
}

/* Answers the question that was heard last, with its version, community and request id. */
static void agent_answer(const struct agent *agent, const struct answer *answer)
{
    static const uint8_t counter_oid[] = {6, 8, 0x2b, 6, 1, 2, 1, 11, 15, 0};
    static const uint8_t boots_oid[] = {6, 10, 0x2b, 6, 1, 6, 3, 10, 2, 1, 2, 0};
    uint8_t list[80];
    size_t n = 0;
    list[n++] = 0x30;
    list[n++] = sizeof counter_oid + 7;
    memcpy(list + n, counter_oid, sizeof counter_oid);
    list[n + 8] = answer->has_other_oid ? 16 : 15;
    n += sizeof counter_oid;
    n += put_value(list + n, answer->counter_type ? answer->counter_type : 0x41, answer->counter);
    if (!answer->has_no_boots_variable) {
        const size_t value_bytes = answer->boots < 0 ? 2 : 7;
        list[n++] = 0x30;
        list[n++] = (uint8_t)(sizeof boots_oid + value_bytes);
        memcpy(list + n, boots_oid, sizeof boots_oid);
        n += sizeof boots_oid;
        if (answer->boots < 0) {
            list[n++] = 0x80; /* noSuchObject */
            list[n++] = 0;
        } else {
            n += put_value(list + n, 0x02, (uint32_t)answer->boots);
        }
    }
    /* 30 LL 02 01 01 04 CC community A0 LL 02 II id ... */
    const uint8_t *q = agent->question;
    const size_t head = 2 + 3 + 2 + q[6];
    const uint8_t *id = q + head + 2;
    assert_int_equal(q[head], 0xa0);
    assert_int_equal(id[0], 2);
    const size_t id_bytes = 2u + id[1];
    uint8_t out[200];
    memcpy(out, q, head);
    size_t at = head;
    out[at++] = 0xa2;
    out[at++] = (uint8_t)(id_bytes + 6 + 2 + n);
    memcpy(out + at, id, id_bytes);
    at += id_bytes;
    const uint8_t errors[] = {2, 1, answer->error, 2, 1, answer->error ? 1 : 0, 0x30, (uint8_t)n};
    memcpy(out + at, errors, sizeof errors);
    at += sizeof errors;
    memcpy(out + at, list, n);
    at += n;
    out[1] = (uint8_t)(at - 2);
    assert_true(at - 2 < 128);
    agent_send(agent, out, at);
}

/* ---- The client ------------------------------------------------------------------------------ */

static struct agent the_agent; /* of the test that runs */

static void asker_open_snmp(struct asker *a)
{
    if (cv__module_table("snmp", NULL) == NULL) {
        skip();
    }
    memset(&the_agent, 0, sizeof the_agent);
    agent_open(&the_agent);
    char address[64];
    (void)snprintf(address, sizeof address, "snmp:127.0.0.1:%u/test", the_agent.port);
    asker_open(a, address);
}

static void asker_close_snmp(struct asker *a)
{
    asker_close(a);
    if (the_agent.fd >= 0) {
        (void)close(the_agent.fd);
    }
}

static const struct cv_sequencer_counts *counts_of(const struct asker *a)
{
    return a->sequencer.kind->counts(a->sequencer.self);
}

static uint64_t ask(struct asker *a, uint64_t reference, const struct answer *answer)
{
    const uint32_t answers = a->answers + 1;
    a->sequencer.kind->ask(a->sequencer.self, 5, reference);
    agent_hear(&the_agent);
    agent_answer(&the_agent, answer);
    asker_turn_until_answered(a, answers);
    assert_int_equal(a->request, 5);
    return a->number;
}

#define ANSWER(...) (&(const struct answer){__VA_ARGS__})

static void numbers_are_made_of_counter_and_boots(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open_snmp(&a);
    assert_int_equal(ask(&a, CV_SEQUENCE_NONE, ANSWER(.counter = 7, .boots = 3)),
                     3 * GENERATION + 7);
    assert_int_equal(ask(&a, 3 * GENERATION + 7, ANSWER(.counter = 9, .boots = 3)),
                     3 * GENERATION + 9);
    /* The agent has restarted, and its boots say so. */
    assert_int_equal(ask(&a, 3 * GENERATION + 9, ANSWER(.counter = 1, .boots = 4)),
                     4 * GENERATION + 1);
    /* The counter has begun again, but the boots do not say so. */
    assert_int_equal(ask(&a, 4 * GENERATION + 5, ANSWER(.counter = 2, .boots = 4)),
                     5 * GENERATION + 2);
    assert_int_equal(counts_of(&a)->restarts, 2);
    assert_int_equal(counts_of(&a)->answered, 4);
    assert_int_equal(a.troubles, 0);
    asker_close_snmp(&a);
}

static void the_counter_wraps_around(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open_snmp(&a);
    assert_int_equal(ask(&a, CV_SEQUENCE_NONE, ANSWER(.counter = UINT32_MAX, .boots = 1)),
                     GENERATION + UINT32_MAX);
    assert_int_equal(ask(&a, GENERATION + UINT32_MAX, ANSWER(.counter = 2, .boots = 1)),
                     GENERATION + UINT32_MAX + 3);
    asker_close_snmp(&a);
}

static void an_agent_without_boots_can_be_used(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open_snmp(&a);
    assert_int_equal(ask(&a, CV_SEQUENCE_NONE, ANSWER(.counter = 7, .boots = -1)), 7);
    assert_int_equal(ask(&a, 7, ANSWER(.counter = 8, .has_no_boots_variable = true)), 8);
    asker_close_snmp(&a);
}

static void errors_are_counted_and_told_once(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open_snmp(&a);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ask(&a, 7, ANSWER(.counter = 8, .error = 5)), CV_SEQUENCE_NONE);
    }
    assert_int_equal(counts_of(&a)->refused, 3);
    assert_int_equal(a.troubles, 1);
    assert_non_null(strstr(a.trouble, "refuses: "));
    assert_int_equal(ask(&a, 7, ANSWER(.counter = 8)), 8);
    assert_int_equal(a.troubles, 2);
    assert_non_null(strstr(a.trouble, "answers again"));
    asker_close_snmp(&a);
}

static void an_answer_without_a_counter_is_refused(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open_snmp(&a);
    assert_int_equal(ask(&a, 7, ANSWER(.counter = 8, .counter_type = 0x02)), CV_SEQUENCE_NONE);
    assert_int_equal(ask(&a, 7, ANSWER(.counter = 8, .has_other_oid = true)), CV_SEQUENCE_NONE);
    /* More boots than there are generations: no numbers are left. */
    assert_int_equal(ask(&a, 7, ANSWER(.counter = 8, .boots = INT32_MAX)), CV_SEQUENCE_NONE);
    assert_int_equal(counts_of(&a)->strange, 3);
    assert_non_null(strstr(a.trouble, "does not show the counter"));
    asker_close_snmp(&a);
}

static void garbage_is_ignored(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open_snmp(&a);
    uint64_t seed = 1;
    a.sequencer.kind->ask(a.sequencer.self, 9, 7);
    agent_hear(&the_agent);
    for (uint32_t i = 0; i < 200; i++) {
        uint8_t bytes[256];
        const size_t byte_count =
            i < 100 ? 1 + test_random_below(&seed, 255) : the_agent.question_bytes;
        memcpy(bytes, the_agent.question, i < 100 ? 0 : byte_count); /* the question, damaged */
        for (size_t k = 0; k < byte_count; k++) {
            if (i < 100 || test_random_below(&seed, 10) == 0) {
                bytes[k] = (uint8_t)test_random(&seed);
            }
        }
        agent_send(&the_agent, bytes, byte_count);
        (void)uv_run(&a.loop, UV_RUN_NOWAIT);
        assert_true(a.answers == 0 || a.number == CV_SEQUENCE_NONE);
    }
    while (uv_run(&a.loop, UV_RUN_NOWAIT) && a.answers > 0) {
        break;
    }
    /* The right answer of another socket is not accepted either: ours is connected. */
    struct agent stranger = the_agent;
    stranger.port = 0;
    agent_open(&stranger);
    if (a.answers == 0) {
        agent_answer(&stranger, ANSWER(.counter = 1000));
        agent_answer(&the_agent, ANSWER(.counter = 8));
        asker_turn_until_answered(&a, 1);
        assert_int_equal(a.number, 8);
    }
    (void)close(stranger.fd);
    asker_close_snmp(&a);
}

static void late_answers_count_in_any_order(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open_snmp(&a);
    struct agent first;
    a.sequencer.kind->ask(a.sequencer.self, 1, 7);
    agent_hear(&the_agent);
    first = the_agent;
    a.sequencer.kind->ask(a.sequencer.self, 2, 7);
    agent_hear(&the_agent);
    agent_answer(&the_agent, ANSWER(.counter = 9));
    asker_turn_until_answered(&a, 1);
    assert_int_equal(a.request, 2);
    assert_int_equal(a.number, 9);
    agent_answer(&first, ANSWER(.counter = 8));
    asker_turn_until_answered(&a, 2);
    assert_int_equal(a.request, 1);
    assert_int_equal(a.number, 8);
    agent_answer(&first, ANSWER(.counter = 8)); /* the same answer twice counts once */
    assert_int_equal(ask(&a, 9, ANSWER(.counter = 10)), 10);
    assert_int_equal(a.answers, 3);
    asker_close_snmp(&a);
}

static void silence_is_reported_and_so_is_its_end(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open_snmp(&a);
    a.sequencer.kind->ask(a.sequencer.self, 1, 7);
    while (a.troubles == 0) {
        (void)uv_run(&a.loop, UV_RUN_ONCE);
    }
    assert_non_null(strstr(a.trouble, "does not answer: is it there, and is the community right?"));
    for (uint32_t i = 0; i < 200;
         i++) { /* the session is opened anew; questions fail, none hangs */
        a.sequencer.kind->ask(a.sequencer.self, 2 + i, 7);
    }
    assert_true(a.answers >= 100);
    assert_int_equal(a.number, CV_SEQUENCE_NONE);
    assert_int_equal(a.troubles, 1);
    const struct pollfd wait = {.fd = the_agent.fd, .events = POLLIN};
    while (poll((struct pollfd[]){wait}, 1, 0) == 1) {
        agent_hear(&the_agent);
    }
    const uint32_t answers = a.answers;
    agent_answer(&the_agent, ANSWER(.counter = 8)); /* to the latest question */
    asker_turn_until_answered(&a, answers + 1);
    assert_int_equal(a.number, 8);
    assert_non_null(strstr(a.trouble, "answers again"));
    asker_close_snmp(&a);
}

static void a_missing_agent_is_reported_until_there_is_one(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open_snmp(&a);
    (void)close(the_agent.fd);
    the_agent.fd = -1;
    a.sequencer.kind->ask(a.sequencer.self, 1, 7);
    while (a.troubles == 0) {
        (void)uv_run(&a.loop, UV_RUN_ONCE);
    }
    assert_non_null(strstr(a.trouble, "does not answer"));
    for (uint32_t i = 0; i < 10; i++) {
        a.sequencer.kind->ask(a.sequencer.self, 2 + i, 7);
        (void)uv_run(&a.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(counts_of(&a)->answered, 0);
    agent_open(&the_agent); /* now there is an agent */
    uint64_t number = CV_SEQUENCE_NONE;
    for (uint32_t i = 0; i < 3 && number == CV_SEQUENCE_NONE; i++) {
        const uint32_t answers = a.answers;
        a.sequencer.kind->ask(a.sequencer.self, 100 + i, 7);
        if (a.answers > answers) {
            continue; /* sending reported an earlier refusal */
        }
        agent_hear(&the_agent);
        agent_answer(&the_agent, ANSWER(.counter = 8));
        asker_turn_until_answered(&a, answers + 1);
        number = a.number;
    }
    assert_int_equal(number, 8);
    assert_non_null(strstr(a.trouble, "answers again"));
    asker_close_snmp(&a);
}

static void wrong_addresses_are_refused(void **unused)
{
    (void)unused;
    static const char *const wrong[] = {
        "snmp:",         "snmp:/public",    "snmp::161/public", "snmp:127.0.0.1:/public",
        "snmp:[::1",     "snmp:127.0.0.1/", "snmp:[::1]x/a",    "snmp:127.0.0.1:no/public",
        "snmp:1.2.3.4.5"};
    if (cv__module_table("snmp", NULL) == NULL) {
        skip();
    }
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        asker_refused(wrong[i], CV_E_INVALID, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_made_of_counter_and_boots),
        cmocka_unit_test(the_counter_wraps_around),
        cmocka_unit_test(an_agent_without_boots_can_be_used),
        cmocka_unit_test(errors_are_counted_and_told_once),
        cmocka_unit_test(an_answer_without_a_counter_is_refused),
        cmocka_unit_test(garbage_is_ignored),
        cmocka_unit_test(late_answers_count_in_any_order),
        cmocka_unit_test(silence_is_reported_and_so_is_its_end),
        cmocka_unit_test(a_missing_agent_is_reported_until_there_is_one),
        cmocka_unit_test(wrong_addresses_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
