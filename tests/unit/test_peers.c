/* tests/unit/test_peers.c - frames between members: which are accepted, why others are refused, and
 * the stamps.
 *
 * No socket and no clock: the test hands frames from one end to the other. */
#include "net/peers.h"
#include "support/support.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS 3u
#define SENT_MAX 64u

struct datagram {
    uint32_t from, to; /* ids; 0: the guest */
    uint8_t bytes[CV_PEERS_FRAME_BYTES_MAX];
    size_t byte_count;
};

struct end {
    struct cv_peers *peers;
    cv_id id;
    uint32_t taken;
    struct cv_peers_item last; /* its bytes are in `text` */
    char text[CV_PEERS_ITEM_BYTES_MAX + 1];
};

static struct end end[MEMBERS + 1]; /* by id; 0: a guest */
static struct datagram sent[SENT_MAX];
static uint32_t sent_count;
static struct cv_key key = {{1, 2, 3}}, other_key = {{4, 5, 6}};
static const struct cv_peers_same same = {1, 2, 3, 4};

static struct cv_udp_address address_of(cv_id id)
{
    struct cv_udp_address address = {.bytes = sizeof address.v4};
    address.v4 = (struct sockaddr_in){.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)(7000 + id)),
                                      .sin_addr = {htonl(INADDR_LOOPBACK)}};
    return address;
}

static void on_send(void *user, const struct cv_udp_address *to, const uint8_t *bytes,
                    size_t byte_count)
{
    const struct end *e = user;
    assert_true(sent_count < SENT_MAX);
    struct datagram *d = &sent[sent_count++];
    d->from = e->id;
    d->to = ntohs(to->v4.sin_port) - 7000u;
    d->byte_count = byte_count;
    memcpy(d->bytes, bytes, byte_count);
}

static void on_take(void *user, const struct cv_peers_item *item)
{
    struct end *e = user;
    e->taken++;
    e->last = *item;
    memcpy(e->text, item->bytes, item->byte_count);
    e->text[item->byte_count] = '\0';
}

struct begin {
    const char *channel;
    const struct cv_key *key, *next_key;
    struct cv_peers_same same;
    uint64_t boot;
};

static void begin(cv_id id, const struct begin *how)
{
    struct cv_udp_address address[MEMBERS];
    struct cv_errtext why;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        address[i] = address_of(i + 1);
    }
    const struct cv_peers_setting setting = {
        .channel = how->channel != NULL ? how->channel : "c",
        .key = how->key != NULL ? how->key : &key,
        .next_key = how->next_key,
        .same = how->same.generation != 0 ? how->same : same,
        .self = id,
        .member_count = MEMBERS,
        .address = address,
        .boot = how->boot != 0 ? how->boot : 1,
        .drift_ppb = 100000,
        .user = &end[id],
        .send = on_send,
        .take = on_take,
    };
    cv__peers_free(end[id].peers);
    memset(&end[id], 0, sizeof end[id]);
    end[id].id = id;
    assert_int_equal(cv__peers_new(&setting, &end[id].peers, &why), CV_OK);
}

static int setup(void **unused)
{
    (void)unused;
    sent_count = 0;
    for (cv_id id = 0; id <= MEMBERS; id++) {
        begin(id, &(struct begin){0});
    }
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    for (cv_id id = 0; id <= MEMBERS; id++) {
        cv__peers_free(end[id].peers);
        end[id].peers = NULL;
    }
    return 0;
}

static enum cv_peers_fate receive(cv_id at, const struct datagram *d, int64_t now_ns)
{
    /* A copy of exactly this size lets the sanitizer see a read past its end. */
    uint8_t *exact = malloc(d->byte_count + 1);
    assert_non_null(exact);
    memcpy(exact, d->bytes, d->byte_count);
    const struct cv_udp_address from = address_of(d->from);
    const enum cv_peers_fate fate =
        cv__peers_receive(end[at].peers, &from, exact, d->byte_count, now_ns);
    free(exact);
    return fate;
}

/* Delivers all that is sent, and the answers to it, until nobody sends anything. */
static void settle(int64_t now_ns)
{
    for (uint32_t round = 0; round < 10; round++) {
        for (cv_id id = 1; id <= MEMBERS; id++) {
            cv__peers_flush(end[id].peers, now_ns);
        }
        static struct datagram copy[SENT_MAX];
        const uint32_t count = sent_count;
        memcpy(copy, sent, count * sizeof copy[0]);
        sent_count = 0;
        for (uint32_t i = 0; i < count; i++) {
            (void)receive(copy[i].to, &copy[i], now_ns);
        }
        if (count == 0) {
            return;
        }
    }
    fail_msg("the members greet each other for ever");
}

static void say(cv_id from, cv_id to, const char *text, int64_t now_ns)
{
    cv__peers_add(end[from].peers, to, 7, (const uint8_t *)text, strlen(text), now_ns);
}

/* The frame that `from` sends to `to` with this text, not delivered. */
static struct datagram *frame(cv_id from, cv_id to, const char *text, int64_t now_ns)
{
    sent_count = 0;
    say(from, to, text, now_ns);
    cv__peers_flush(end[from].peers, now_ns);
    assert_int_equal(sent_count, 1);
    sent_count = 0;
    return &sent[0];
}

static void acquaint(int64_t now_ns)
{
    cv__peers_greet(end[1].peers, 2);
    settle(now_ns);
    assert_int_equal(cv__peers_view(end[1].peers, 2).life, cv__peers_life(end[2].peers));
    assert_int_equal(cv__peers_view(end[2].peers, 1).life, cv__peers_life(end[1].peers));
}

static void items_count_once_both_know_each_other(void **unused)
{
    (void)unused;
    say(1, 2, "too early", 1000);
    settle(1000);
    assert_int_equal(end[2].taken, 0);
    say(1, 2, "hello", 2000);
    say(1, 2, "again", 2000);
    cv__peers_flush(end[1].peers, 2000);
    assert_int_equal(sent_count, 1); /* one frame for both */
    settle(2000);
    assert_int_equal(end[2].taken, 2);
    assert_string_equal(end[2].text, "again");
    assert_int_equal(end[2].last.kind, 7);
    assert_int_equal(end[2].last.from, 1);
    assert_int_equal(end[3].taken, 0);
}

static void frame_is_accepted_once(void **unused)
{
    (void)unused;
    acquaint(1000);
    struct datagram d = *frame(1, 2, "x", 2000);
    assert_int_equal(receive(2, &d, 2000), CV_PEERS_ACCEPTED);
    assert_int_equal(receive(2, &d, 2000), CV_PEERS_FRAME);
    assert_int_equal(end[2].taken, 1);
    assert_int_equal(cv__frames_count(cv__peers_frames(end[2].peers), CV_FRAME_REPLAYED), 1);
}

static void frames_recorded_before_a_restart_do_not_count(void **unused)
{
    (void)unused;
    acquaint(1000);
    const struct datagram old = *frame(1, 2, "old", 2000);
    begin(2, &(struct begin){0}); /* member 2 starts again, and has never seen that frame */
    assert_int_equal(receive(2, &old, 3000), CV_PEERS_GREETING);
    assert_int_equal(end[2].taken, 0);
    settle(4000); /* they have greeted and know each other again */
    say(1, 2, "new", 5000);
    settle(5000);
    assert_string_equal(end[2].text, "new");
}

static void late_frames_of_an_earlier_life_do_not_count(void **unused)
{
    (void)unused;
    acquaint(1000);
    const struct datagram late = *frame(1, 2, "late", 2000);
    begin(1, &(struct begin){0});
    acquaint(3000);
    assert_int_equal(receive(2, &late, 4000), CV_PEERS_GREETING);
    assert_int_equal(end[2].taken, 0);
    assert_int_equal(cv__peers_view(end[2].peers, 1).life, cv__peers_life(end[1].peers));
}

static void refused(const struct begin *how, enum cv_peers_fate fate)
{
    (void)setup(NULL);
    begin(1, how);
    const struct datagram d = *frame(1, 2, "x", 1000);
    assert_int_equal(receive(2, &d, 1000), fate);
    assert_int_equal(cv__peers_count(end[2].peers, fate), 1);
    settle(1000);
    assert_int_equal(end[2].taken, 0);
    (void)teardown(NULL);
}

static void member_that_differs_is_refused_with_the_reason(void **unused)
{
    (void)unused;
    (void)teardown(NULL);
    refused(&(struct begin){.key = &other_key}, CV_PEERS_FRAME);
    refused(&(struct begin){.channel = "d"}, CV_PEERS_FRAME);
    refused(&(struct begin){.same = {2, 2, 3, 4}}, CV_PEERS_GENERATION);
    refused(&(struct begin){.same = {1, 9, 3, 4}}, CV_PEERS_SETTINGS);
    refused(&(struct begin){.same = {1, 2, 9, 4}}, CV_PEERS_SETTINGS);
    refused(&(struct begin){.same = {1, 2, 3, 9}}, CV_PEERS_SETTINGS);
    (void)setup(NULL);
}

static void member_is_heard_from_its_own_address_only(void **unused)
{
    (void)unused;
    acquaint(1000);
    struct datagram d = *frame(1, 2, "x", 2000);
    d.from = 3;
    assert_int_equal(receive(2, &d, 2000), CV_PEERS_ADDRESS);
    d = *frame(1, 2, "x", 2000);
    d.from = 99;
    assert_int_equal(receive(2, &d, 2000), CV_PEERS_ADDRESS);
    d = *frame(1, 2, "x", 2000);
    assert_int_equal(receive(3, &d, 2000), CV_PEERS_MEMBER); /* the frame is for another member */
    assert_int_equal(end[2].taken, 0);
    assert_int_equal(end[3].taken, 0);
}

static void rubbish_is_counted_and_dropped(void **unused)
{
    (void)unused;
    acquaint(1000);
    struct datagram d = *frame(1, 2, "x", 2000);
    d.byte_count--;
    assert_int_equal(receive(2, &d, 2000), CV_PEERS_FRAME);
    d.byte_count++;
    d.bytes[60] ^= 1;
    assert_int_equal(receive(2, &d, 2000), CV_PEERS_FRAME);
    d.bytes[60] ^= 1;
    d.bytes[2]++;
    assert_int_equal(receive(2, &d, 2000), CV_PEERS_FRAME);
    assert_int_equal(cv__frames_count(cv__peers_frames(end[2].peers), CV_FRAME_VERSION), 1);
    d.byte_count = 0;
    assert_int_equal(receive(2, &d, 2000), CV_PEERS_FRAME);
    static uint8_t big[CV_PEERS_FRAME_BYTES_MAX + 1];
    const struct cv_udp_address from = address_of(1);
    assert_int_equal(cv__peers_receive(end[2].peers, &from, big, sizeof big, 2000),
                     CV_PEERS_OVERSIZED);
    assert_int_equal(end[2].taken, 0);
}

/* Contents that a member with the key but with other code may send. */
static void malformed_content_is_refused_as_a_whole(void **unused)
{
    (void)unused;
    static const uint8_t heads[][4] = {{7, 1, 0, 'x'}, {7, 2, 0, 'x'}, {0, 0, 0, 0}, {7, 255, 255}};
    struct cv_frames *frames;
    struct cv_errtext why;
    assert_int_equal(cv__frames_new("c", &key, &frames, &why), CV_OK);
    for (uint32_t i = 0; i < COUNT_OF(heads); i++) {
        uint8_t payload[CV_PEERS_HEAD_BYTES + 8] = {1, 0, 2, 0, 1, 0, 0, 0, 2, 0,
                                                    0, 0, 3, 0, 0, 0, 4, 0, 0, 0};
        const uint64_t life = cv__peers_life(end[2].peers);
        memcpy(payload + 24, &life, sizeof life);
        payload[72] = 7; /* a valid item comes first */
        payload[73] = 1;
        memcpy(payload + 76, heads[i], 4);
        struct datagram d = {.from = 1};
        d.byte_count = cv__frame_seal(frames, payload, sizeof payload, d.bytes);
        assert_int_equal(receive(2, &d, 1000), i == 0 ? CV_PEERS_ACCEPTED : CV_PEERS_MALFORMED);
        assert_int_equal(end[2].taken, 2);
    }
    struct datagram d = {.from = 1};
    d.byte_count = cv__frame_seal(frames, (const uint8_t *)"short", 5, d.bytes);
    assert_int_equal(receive(2, &d, 1000), CV_PEERS_MALFORMED);
    cv__frames_free(frames);
}

static void both_keys_are_heard_while_they_are_replaced(void **unused)
{
    (void)unused;
    begin(1, &(struct begin){.key = &key, .next_key = &other_key});
    begin(2, &(struct begin){.key = &other_key, .next_key = &key});
    acquaint(1000);
    say(1, 2, "old key", 2000);
    say(2, 1, "new key", 2000);
    settle(2000);
    assert_string_equal(end[2].text, "old key");
    assert_string_equal(end[1].text, "new key");
}

static void delay_is_bounded_by_the_round_trip(void **unused)
{
    (void)unused;
    acquaint(1 * NS_PER_S);
    struct datagram d = *frame(1, 2, "x", 2 * NS_PER_S);
    assert_int_equal(receive(2, &d, 2 * NS_PER_S + 30 * NS_PER_MS), CV_PEERS_ACCEPTED);
    assert_true(end[2].last.delay_ns_max >= 30 * NS_PER_MS);
    assert_true(end[2].last.delay_ns_max < 31 * NS_PER_MS);
    const struct cv_peers_view view = cv__peers_view(end[2].peers, 1);
    assert_int_equal(view.delay_ns, end[2].last.delay_ns_max);
    assert_int_equal(view.heard_ns, 2 * NS_PER_S + 30 * NS_PER_MS);
}

static void bounds_do_not_survive_a_boot(void **unused)
{
    (void)unused;
    acquaint(5 * NS_PER_S);
    begin(2, &(struct begin){.boot = 2}); /* the machine of member 2 has booted: a new clock */
    acquaint(1 * NS_PER_S);
    struct datagram d = *frame(1, 2, "x", 6 * NS_PER_S); /* the clock of member 1 goes on */
    assert_int_equal(receive(2, &d, 2 * NS_PER_S), CV_PEERS_ACCEPTED);
    assert_true(end[2].last.delay_ns_max == CV_DELAY_UNKNOWN ||
                end[2].last.delay_ns_max >= 0); /* never a bound that mixes two boots ... */
    assert_true(end[2].last.delay_ns_max != 4 * NS_PER_S);
}

static void losses_are_counted(void **unused)
{
    (void)unused;
    acquaint(1000);
    const uint64_t before = cv__peers_view(end[2].peers, 1).received;
    (void)frame(1, 2, "lost", 2000);
    (void)frame(1, 2, "lost", 2000);
    struct datagram d = *frame(1, 2, "x", 2000);
    assert_int_equal(receive(2, &d, 2000), CV_PEERS_ACCEPTED);
    const struct cv_peers_view view = cv__peers_view(end[2].peers, 1);
    assert_int_equal(view.received, before + 1);
    assert_int_equal(view.lost, 2);
}

static void guest_is_answered_and_ignores_answers_to_another_guest(void **unused)
{
    (void)unused;
    cv__peers_add(end[0].peers, 2, 9, (const uint8_t *)"who?", 4, 1000);
    cv__peers_flush(end[0].peers, 1000);
    assert_int_equal(sent_count, 1);
    struct datagram d = sent[0];
    sent_count = 0;
    assert_int_equal(receive(2, &d, 1000), CV_PEERS_ACCEPTED);
    assert_int_equal(end[2].last.from, CV_ID_NONE);
    const struct cv_udp_address from = address_of(0);
    end[2].last.source = &from;
    cv__peers_answer(end[2].peers, &end[2].last, 8, (const uint8_t *)"me", 2, 1000);
    assert_int_equal(sent_count, 1);
    d = sent[0];
    assert_int_equal(d.to, 0);
    assert_int_equal(receive(0, &d, 1000), CV_PEERS_ACCEPTED);
    assert_string_equal(end[0].text, "me");
    assert_int_equal(end[0].last.from, 2);
    begin(0, &(struct begin){0}); /* another guest, at the same address */
    assert_int_equal(receive(0, &d, 1000), CV_PEERS_GREETING);
    assert_int_equal(end[0].taken, 0);
}

static void long_items_and_full_frames_are_sent_at_once(void **unused)
{
    (void)unused;
    static uint8_t big[CV_PEERS_ITEM_BYTES_MAX];
    memset(big, 'x', sizeof big);
    acquaint(1000);
    cv__peers_add(end[1].peers, 2, 7, big, sizeof big, 2000);
    assert_int_equal(sent_count, 1);
    settle(2000);
    assert_int_equal(end[2].taken, 1);
    assert_int_equal(end[2].last.byte_count, sizeof big);
    for (uint32_t i = 0; i < 3; i++) {
        cv__peers_add(end[1].peers, 2, 7, big, 600, 3000);
    }
    assert_int_equal(sent_count, 1); /* two fit */
    settle(3000);
    assert_int_equal(end[2].taken, 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(items_count_once_both_know_each_other),
        TEST(frame_is_accepted_once),
        TEST(frames_recorded_before_a_restart_do_not_count),
        TEST(late_frames_of_an_earlier_life_do_not_count),
        TEST(member_that_differs_is_refused_with_the_reason),
        TEST(member_is_heard_from_its_own_address_only),
        TEST(rubbish_is_counted_and_dropped),
        TEST(malformed_content_is_refused_as_a_whole),
        TEST(both_keys_are_heard_while_they_are_replaced),
        TEST(delay_is_bounded_by_the_round_trip),
        TEST(bounds_do_not_survive_a_boot),
        TEST(losses_are_counted),
        TEST(guest_is_answered_and_ignores_answers_to_another_guest),
        TEST(long_items_and_full_frames_are_sent_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
