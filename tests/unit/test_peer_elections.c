/* tests/unit/test_peer_elections.c - several elections among the members of one cluster: elections
 * of one engine share a member's socket, and each has a state of its own. Three members in this
 * process, each an engine; real sockets and real time, and no test waits for a fixed time. */
#include "net/key.h"
#include "support/support.h"

#include <arpa/inet.h>
#include <conclave/conclave.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEMBERS 3u
#define PATIENCE_LOOKS 12000 /* of 5 ms */

static char folder[TEST_FOLDER_BYTES], address[160];
static struct cv_engine *engine[MEMBERS];
static const char *const member[MEMBERS] = {"a", "b", "c"};

/* A port that was free a moment ago is not given to anybody else as long as other ports are
 * free. */
static void find_ports(uint16_t ret_port[MEMBERS])
{
    int fd[MEMBERS];
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t bytes = sizeof at;
        fd[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        assert_true(fd[i] >= 0);
        assert_int_equal(bind(fd[i], (struct sockaddr *)&at, sizeof at), 0);
        assert_int_equal(getsockname(fd[i], (struct sockaddr *)&at, &bytes), 0);
        ret_port[i] = ntohs(at.sin_port);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        (void)close(fd[i]);
    }
}

/* The lease is long, so that a busy machine changes no leader. */
static void write_cluster(void)
{
    char path[128];
    uint16_t port[MEMBERS];
    find_ports(port);
    (void)snprintf(path, sizeof path, "%s/t.ini", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "[cluster]\nname = t\ngeneration = 1\nkey = key\nstate = .\nrealtime = no\n"
                        "[options]\nlease-min = 2s\nlease-max = 2s\n");
    for (uint32_t i = 0; i < MEMBERS; i++) {
        (void)fprintf(file, "[member %s]\nid = %u\naddress = 127.0.0.1:%u\n", member[i], i + 1,
                      port[i]);
    }
    assert_int_equal(fclose(file), 0);
    (void)snprintf(address, sizeof address, "peers:%s", path);
}

static int setup(void **unused)
{
    (void)unused;
    struct cv_key key;
    struct cv_errtext why;
    char path[128];
    if (!test_folder_make(folder)) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/key", folder);
    if (cv__key_generate(&key, &why) != CV_OK || cv__key_write(&key, path, &why) != CV_OK) {
        return -1;
    }
    write_cluster();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (cv_engine_new(&engine[i], &why) != CV_OK) {
            return -1;
        }
    }
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (cv_engine_free(engine[i]) != CV_OK) {
            return -1;
        }
    }
    return test_folder_remove(folder);
}

static int open_as(uint32_t i, struct cv_engine *in, const char *election,
                   struct cv_election **ret_election, struct cv_errtext *reterr)
{
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    options.engine = in;
    options.node = member[i];
    return cv_open(ret_election, election, address, &options, reterr);
}

static void open_all(const char *election, struct cv_election *ret_election[MEMBERS])
{
    struct cv_errtext why;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (open_as(i, engine[i], election, &ret_election[i], &why) != CV_OK) {
            fail_msg("%s", why.text);
        }
    }
}

static struct cv_election_status status_of(struct cv_election *e)
{
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    assert_int_equal(cv_status(e, &status), CV_OK);
    return status;
}

/* Waits until all follow one leader with a larger token; returns the index of that member. */
static uint32_t agreed(struct cv_election *const e[MEMBERS], uint64_t above, uint64_t *ret_token)
{
    for (uint32_t look = 0; look < PATIENCE_LOOKS; look++) {
        uint32_t count = 0, leader = MEMBERS;
        for (uint32_t i = 0; i < MEMBERS; i++) {
            const struct cv_election_status s = status_of(e[i]), first = status_of(e[0]);
            leader = cv_is_leader(e[i]) ? i : leader;
            *ret_token = first.token;
            count += s.token > above && s.token == first.token && s.leader[0] != '\0' &&
                     strcmp(s.leader, first.leader) == 0;
        }
        if (count == MEMBERS && leader < MEMBERS) {
            assert_string_equal(status_of(e[0]).leader, member[leader]);
            return leader;
        }
        (void)poll(NULL, 0, 5);
    }
    fail_msg("the members do not agree on a leader");
    return MEMBERS;
}

static void assert_file(const char *name, bool is_there)
{
    char path[192];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(access(path, F_OK) == 0, is_there);
}

static void refuse(uint32_t i, struct cv_engine *in, const char *election, const char *part)
{
    struct cv_election *e;
    struct cv_errtext why;
    assert_int_equal(open_as(i, in, election, &e, &why), CV_E_INVALID);
    if (strstr(why.text, part) == NULL) {
        fail_msg("'%s' does not say '%s'", why.text, part);
    }
}

static void elections_of_an_engine_share_the_socket_and_nothing_else(void **unused)
{
    (void)unused;
    struct cv_election *one[MEMBERS], *two[MEMBERS];
    uint64_t token_one, token_two, token;
    open_all("one", one);
    open_all("two", two);
    const uint32_t leader_one = agreed(one, 0, &token_one);
    const uint32_t leader_two = agreed(two, 0, &token_two);
    assert_file("t.a@one.state", true);
    assert_file("t.a@two.state", true);

    assert_int_equal(cv_resign(one[leader_one], NULL), CV_OK);
    assert_int_not_equal(agreed(one, token_one, &token), leader_one);
    assert_int_equal(agreed(two, 0, &token), leader_two);
    assert_int_equal(token, token_two);

    cv_close_all(one, MEMBERS);
    const int64_t until_ns = status_of(two[leader_two]).valid_until_ns;
    assert_true(cv_is_leader(two[leader_two]));
    for (uint32_t look = 0; status_of(two[leader_two]).valid_until_ns <= until_ns; look++) {
        assert_true(look < PATIENCE_LOOKS); /* it must still be renewed */
        (void)poll(NULL, 0, 5);
    }
    assert_int_equal(status_of(two[leader_two]).token, token_two);
    cv_close_all(two, MEMBERS);
}

static void a_member_takes_part_in_an_election_once(void **unused)
{
    (void)unused;
    struct cv_election *one[MEMBERS];
    struct cv_engine *another;
    struct cv_errtext why;
    uint64_t token, later;
    open_all("one", one);
    const uint32_t leader = agreed(one, 0, &token);
    refuse(leader, engine[leader], "one", "takes part in this election as this member already");
    assert_int_equal(cv_engine_new(&another, &why), CV_OK);
    refuse(leader, another, "one", "is in use: this member runs already");
    refuse(leader, another, "two", "another election of it needs a file with other ports");
    assert_int_equal(cv_engine_free(another), CV_OK);
    assert_int_equal(agreed(one, 0, &later), leader);
    assert_int_equal(later, token);
    cv_close_all(one, MEMBERS);
}

static void an_election_goes_on_where_it_ended(void **unused)
{
    (void)unused;
    static const char odd[] = "nightly/Übung 1";
    struct cv_election *e[MEMBERS];
    uint64_t before, after;
    open_all(odd, e);
    (void)agreed(e, 0, &before);
    assert_file("t.b@nightly%2F%C3%9Cbung%201.state", true);
    cv_close_all(e, MEMBERS);
    open_all("other", e); /* it knows nothing of the first election */
    (void)agreed(e, 0, &after);
    cv_close_all(e, MEMBERS);
    open_all(odd, e);
    (void)agreed(e, before, &after);
    cv_close_all(e, MEMBERS);
}

/* State files of earlier versions do not have the election in their name. */
static void a_state_of_an_earlier_version_is_taken_over(void **unused)
{
    (void)unused;
    struct cv_election *e[MEMBERS];
    uint64_t before, after;
    open_all("one", e);
    (void)agreed(e, 0, &before);
    cv_close_all(e, MEMBERS);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        char now[128], then[128];
        (void)snprintf(now, sizeof now, "%s/t.%s@one.state", folder, member[i]);
        (void)snprintf(then, sizeof then, "%s/t.%s.state", folder, member[i]);
        assert_int_equal(rename(now, then), 0);
    }
    open_all("one", e);
    (void)agreed(e, before, &after);
    assert_file("t.a.state", false);
    assert_file("t.a@one.state", true);
    cv_close_all(e, MEMBERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(elections_of_an_engine_share_the_socket_and_nothing_else),
        TEST(a_member_takes_part_in_an_election_once),
        TEST(an_election_goes_on_where_it_ended),
        TEST(a_state_of_an_earlier_version_is_taken_over),
    };
    return cmocka_run_group_tests_name("peer_elections", tests, NULL, NULL);
}
