/* tests/net/test_multicast.c - groups on the loopback interface, with real sockets. Nothing leaves
 * this host. */
#include "net/multicast.h"
#include "support/support.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GROUP "239.255.67.86"
#define WAIT_MS 20000

/* A port that nobody on this host uses right now. */
static uint16_t free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof any;
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &bytes), 0);
    (void)close(fd);
    return ntohs(any.sin_port);
}

static struct cv_multicast join(const char *group, uint16_t port, const char *interface)
{
    const struct cv_multicast_where where = {group, port, interface, 1};
    struct cv_multicast multicast;
    struct cv_errtext why = {""};
    const int result = cv__multicast_open(&multicast, &where, &why);
    assert_string_equal(why.text, "");
    assert_int_equal(result, CV_OK);
    return multicast;
}

static size_t receive(const struct cv_multicast *m, uint8_t buffer[64])
{
    struct pollfd wait = {.fd = m->fd, .events = POLLIN};
    size_t byte_count = 0;
    assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
    assert_true(cv__multicast_receive(m, buffer, 64, &byte_count));
    return byte_count;
}

static void every_member_of_a_group_hears_a_datagram(void **unused)
{
    (void)unused;
    const uint16_t port = free_port();
    struct cv_multicast member[3];
    for (uint32_t i = 0; i < COUNT_OF(member); i++) {
        /* The same interface, by its name. */
        member[i] = join(GROUP, port, i == 1 ? "lo" : "127.0.0.1");
    }
    assert_true(cv__multicast_send(&member[0], (const uint8_t *)"hello", 5));
    for (uint32_t i = 0; i < COUNT_OF(member); i++) {
        uint8_t buffer[64];
        size_t byte_count;
        assert_int_equal(receive(&member[i], buffer), 5);
        assert_memory_equal(buffer, "hello", 5);
        assert_false(cv__multicast_receive(&member[i], buffer, sizeof buffer, &byte_count));
    }
    for (uint32_t i = 0; i < COUNT_OF(member); i++) {
        cv__multicast_close(&member[i]);
        cv__multicast_close(&member[i]); /* a second close does no harm */
    }
}

static void another_group_on_the_same_port_is_not_heard(void **unused)
{
    (void)unused;
    const uint16_t port = free_port();
    struct cv_multicast ours = join(GROUP, port, "127.0.0.1");
    struct cv_multicast theirs = join("239.255.67.87", port, "127.0.0.1");
    assert_true(cv__multicast_send(&theirs, (const uint8_t *)"theirs", 6));
    assert_true(cv__multicast_send(&ours, (const uint8_t *)"ours", 4));
    uint8_t buffer[64];
    /* The datagram to the other group was sent first. */
    assert_int_equal(receive(&ours, buffer), 4);
    cv__multicast_close(&ours);
    cv__multicast_close(&theirs);
}

static void refuse(const char *group, uint16_t port, const char *interface, uint32_t ttl,
                   const char *words)
{
    const struct cv_multicast_where where = {group, port, interface, ttl};
    struct cv_multicast multicast;
    struct cv_errtext why = {""};
    assert_int_equal(cv__multicast_open(&multicast, &where, &why), CV_E_INVALID);
    assert_int_equal(multicast.fd, -1);
    assert_non_null(strstr(why.text, words));
}

static void wrong_groups_ports_and_interfaces_are_refused(void **unused)
{
    (void)unused;
    refuse("127.0.0.1", 7000, "127.0.0.1", 1, "'127.0.0.1' is not a multicast group");
    refuse("240.0.0.1", 7000, "127.0.0.1", 1, "is not a multicast group");
    refuse("", 7000, "127.0.0.1", 1, "is not a multicast group");
    refuse(GROUP, 0, "127.0.0.1", 1, "a port is 1 to 65535");
    refuse(GROUP, 7000, "127.0.0.1", 256, "a ttl 0 to 255");
    refuse(GROUP, 7000, "nosuch0", 1, "there is no network interface 'nosuch0'");
    refuse(GROUP, 7000, "0.0.0.0", 1, "there is no network interface '0.0.0.0'");
    refuse(GROUP, 7000, "", 1, "there is no network interface ''");
    /* Not an address of this host. */
    const struct cv_multicast_where where = {GROUP, 7000, "192.0.2.77", 1};
    struct cv_multicast multicast;
    struct cv_errtext why;
    assert_int_equal(cv__multicast_open(&multicast, &where, &why), CV_E_IO);
    assert_non_null(strstr(why.text, "cannot join " GROUP ":7000 on '192.0.2.77': "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_of_a_group_hears_a_datagram),
        cmocka_unit_test(another_group_on_the_same_port_is_not_heard),
        cmocka_unit_test(wrong_groups_ports_and_interfaces_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
