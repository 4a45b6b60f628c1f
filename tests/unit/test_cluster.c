/* tests/unit/test_cluster.c - the cluster file: what it sets, and one line for each mistake in
 * it. */
#include "net/cluster.h"
#include "protocols/pole_config.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD                     \
    "[cluster]\nname = orders\n" \
    "generation = 2\nkey = a.key\nstate = /var/lib/x\n" /* lines 1 to 5 */
#define MEMBERS                                     \
    "[member a]\nid = 1\naddress = 10.0.0.1:7100\n" \
    "[member b]\nid = 2\naddress = 10.0.0.2:7100\n" \
    "[member c]\nid = 3\naddress = c.example:7100\n"

struct said {
    char text[4096];
};

static void say(void *user, uint32_t line, const char *text)
{
    struct said *said = user;
    const size_t length = strlen(said->text);
    (void)snprintf(said->text + length, sizeof said->text - length, "%u: %s\n", line, text);
}

static uint32_t parse(const char *text, struct cv_cluster *cluster, struct said *said)
{
    /* A copy of exactly this size lets the sanitizer see a read past its end. */
    const size_t byte_count = strlen(text);
    char *exact = malloc(byte_count + 1);
    assert_non_null(exact);
    memcpy(exact, text, byte_count);
    said->text[0] = '\0';
    const uint32_t mistakes = cv__cluster_parse(exact, byte_count, "/etc/x", cluster, say, said);
    free(exact);
    return mistakes;
}

static void accept(const char *text, struct cv_cluster *cluster)
{
    struct said said;
    if (parse(text, cluster, &said) != 0) {
        fail_msg("refused: %s", said.text);
    }
}

/* Expects exactly these mistakes. */
static void refuse(const char *text, const char *expected)
{
    struct cv_cluster cluster;
    struct said said;
    assert_true(parse(text, &cluster, &said) > 0);
    assert_string_equal(said.text, expected);
}

static void file_names_the_members_and_their_protocol(void **unused)
{
    (void)unused;
    struct cv_cluster c;
    accept("; how orders are led\n" HEAD "next-key = /b.key ; soon\ndrift=50\nprotocol = pole\n"
           "[options]\n  heartbeat = 20ms\noracle = preference\n" /* indented is fine */
           "[member b]\nid=2\naddress=[fd00::2]:7100\nsite = north\n\n# the third\n"
           "[member c]\r\nid = 3\r\naddress = c.example:7101\r\npreference = 9\r\n"
           "[member a]\nid = 1\naddress = [fd00::1]:7100\npreference = 7",
           &c);
    assert_string_equal(c.name, "orders");
    assert_int_equal(c.generation, 2);
    assert_string_equal(c.key, "/etc/x/a.key");
    assert_string_equal(c.next_key, "/b.key");
    assert_string_equal(c.state, "/var/lib/x");
    assert_string_equal(c.protocol->name, "pole");
    assert_int_equal(c.config.member_count, 3);
    assert_int_equal(c.config.drift_ppb, 50000);
    assert_int_equal(c.member_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(c.member[i].id, i + 1); /* in the order of their ids */
    }
    assert_string_equal(c.member[0].name, "a");
    assert_string_equal(c.member[1].host, "fd00::2");
    assert_string_equal(c.member[1].site, "north");
    assert_string_equal(c.member[2].host, "c.example");
    assert_int_equal(c.member[2].port, 7101);
    bool has_preference = false;
    for (uint32_t i = 0; i < CV_TEXTS_MAX; i++) {
        has_preference = has_preference || strcmp(c.config.text[i], "3,1") == 0;
    }
    assert_true(has_preference);
    assert_ptr_equal(cv__cluster_find(&c, "c"), &c.member[2]);
    assert_null(cv__cluster_find(&c, "d"));
    struct cv_errtext why;
    assert_int_equal(cv__cluster_fail_member(&c, "bb", &why), CV_E_INVALID);
    assert_string_equal(why.text, "unknown member 'bb'; did you mean 'b'?");
}

static void protocol_defaults_to_pole_with_its_own_defaults(void **unused)
{
    (void)unused;
    struct cv_cluster c;
    accept(HEAD MEMBERS, &c);
    assert_string_equal(c.protocol->name, "pole");
    assert_int_equal(c.config.drift_ppb, 100000);
    assert_string_equal(c.next_key, "");
    assert_true(c.is_realtime);
    accept(HEAD "realtime = no\n" MEMBERS, &c);
    assert_false(c.is_realtime);
    assert_true(c.has_witness);
    accept(HEAD "witness = no\n" MEMBERS, &c);
    assert_false(c.has_witness);
    accept(HEAD "protocol = local\n[options]\nmajority = yes\n" MEMBERS, &c);
    assert_string_equal(c.protocol->name, "local");
    accept(HEAD "protocol = bully\n" MEMBERS, &c);
    accept(HEAD "[options]\n" MEMBERS, &c);
}

static void each_mistake_is_reported_on_a_line_of_its_own(void **unused)
{
    (void)unused;
    refuse(HEAD "colour = red\nnme = x\n" MEMBERS,
           "6: unknown key of [cluster] 'colour'; known: name, generation, key, next-key, state, "
           "protocol, drift, realtime, witness\n"
           "7: unknown key of [cluster] 'nme'; did you mean 'name'?\n");
    refuse(HEAD MEMBERS "[member d]\nid = 3\naddress = c.example:7100\n",
           "15: members 'c' and 'd' both have id 3\n"
           "15: members 'c' and 'd' both have the address c.example:7100\n");
    refuse(HEAD MEMBERS "[member c]\nid = 4\naddress = 1.1.1.1:1\n",
           "15: there is a member 'c' already\n");
    refuse(HEAD MEMBERS "[member d]\nid = 5\naddress = d:1\n",
           "15: member 'd' has id 5, but there are 4 members: ids are 1 to 4\n");
    refuse(HEAD MEMBERS "[member d]\nsite = x\n",
           "15: the id of member 'd' is missing\n15: the address of member 'd' is missing\n");
    refuse(HEAD MEMBERS "[member d]\n", "15: [member d] is empty\n"
                                        "15: the id of member 'd' is missing\n"
                                        "15: the address of member 'd' is missing\n");
    refuse(HEAD "[member a]\nid = 1\naddress = a.example:1\n[member b]\nid = 2\n"
                "address = 10.0.0.1:1\n[member c]\nid = 3\naddress = [fd00::1]:1\n",
           "12: member 'b' has an IPv4 address and 'c' an IPv6 one: all must be of one kind\n");
    refuse(HEAD "name = y\n" MEMBERS, "6: 'name' is given twice in [cluster]\n");
    refuse(HEAD "protocol = pol\n" MEMBERS, "6: unknown protocol 'pol'; did you mean 'pole'?\n");
    refuse("", "0: name of [cluster] is missing\n0: generation of [cluster] is missing\n"
               "0: key of [cluster] is missing\n0: state of [cluster] is missing\n"
               "0: [member NAME] is missing\n");
}

static void protocols_without_members_are_unknown_here(void **unused)
{
    (void)unused;
    struct cv_cluster cluster;
    struct said said;
    assert_int_equal(parse(HEAD "protocol = anon\n" MEMBERS, &cluster, &said), 1);
    assert_non_null(strstr(said.text, "6: unknown protocol 'anon'"));
    assert_null(strstr(said.text, "lease"));
}

static void values_are_checked(void **unused)
{
    (void)unused;
    static const char *const wrong[] = {"x",     ":1",    "h:",         "h:0",  "h:65536", "h:1x",
                                        "fd::1", "a b:1", "[fd00::1:7", "[]:7", "u@h:1",   "h/x:1"};
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[512], expected[256];
        (void)snprintf(text, sizeof text, HEAD "[member a]\nid = 1\naddress = %s\n", wrong[i]);
        (void)snprintf(expected, sizeof expected,
                       "8: address = %s: HOST:PORT is wanted, as in 10.0.0.1:7100 or "
                       "[fd00::1]:7100\n",
                       wrong[i]);
        refuse(text, expected);
    }
    refuse(HEAD "[member -a]\nid = 1\naddress = h:1\n",
           "6: member '-a': a name is 1 to 40 letters, digits, '-', '_' or '.'\n"
           "0: [member NAME] is missing\n");
    refuse("[cluster]\nname = a/b\ngeneration = 0\nkey =\nstate = s\n" MEMBERS,
           "2: name 'a/b': a name is 1 to 40 letters, digits, '-', '_' or '.'\n"
           "3: generation = 0: a number from 1 to 8191 is wanted\n"
           "4: key = : the name of a file is wanted\n");
    refuse(HEAD "realtime = maybe\n" MEMBERS, "6: realtime = maybe: yes or no is wanted\n");
    refuse(HEAD "[options]\nheartbeat = soon\n" MEMBERS,
           "7: heartbeat=soon is not a time; write it like heartbeat=250ms\n");
}

static void contradicting_options_are_refused_with_the_inequality(void **unused)
{
    (void)unused;
    struct cv_cluster cluster;
    struct said said;
    assert_int_equal(parse(HEAD "[options]\nlease = 1ms\n" MEMBERS, &cluster, &said), 1);
    assert_non_null(strstr(said.text, "7: "));
    assert_non_null(strstr(said.text, "lease(1-2rho) > 2 heartbeat + 2 delta + sigma"));
}

static void lines_that_the_parser_would_misread_are_refused(void **unused)
{
    (void)unused;
    char text[1024];
    (void)snprintf(text, sizeof text, HEAD "[options]\noracle = %0300d\n" MEMBERS, 1);
    refuse(text, "7: the line is longer than 197 bytes\n");
    (void)snprintf(text, sizeof text, "[%060d]\nx = 1\n" HEAD MEMBERS, 1);
    refuse(text, "1: a section's name has at most 49 letters\n");
    (void)snprintf(text, sizeof text, HEAD "%060d = 1\n" MEMBERS, 1);
    refuse(text, "6: the name of a key has at most 48 letters\n");
    refuse("x = 1\n" HEAD MEMBERS, "1: 'x' comes before the first section\n");
    refuse(HEAD "[options\n" MEMBERS, "6: the ']' at the end of [SECTION] is missing\n");
    refuse(HEAD "here\n" MEMBERS, "6: NAME = VALUE or [SECTION] is wanted\n");
    refuse(HEAD "[cluste]\nx = 1\n" MEMBERS,
           "6: unknown section 'cluste'; did you mean 'cluster'?\n");
}

static void unreadable_file_is_reported_in_one_line(void **unused)
{
    (void)unused;
    static struct cv_cluster cluster;
    struct cv_errtext why;
    char path[] = "/tmp/conclave-test-XXXXXX";
    assert_non_null(mkdtemp(path));
    assert_int_equal(cv__cluster_read(path, &cluster, &why), CV_E_INVALID);
    assert_non_null(strstr(why.text, ": not a regular file"));
    char name[64];
    (void)snprintf(name, sizeof name, "%s/c", path);
    assert_int_equal(cv__cluster_read(name, &cluster, &why), CV_E_INVALID);
    assert_non_null(strstr(why.text, "/c: No such file"));
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    (void)fputs(HEAD "x = 1\n" MEMBERS, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(cv__cluster_read(name, &cluster, &why), CV_E_INVALID);
    assert_non_null(strstr(why.text, "/c:6: unknown key of [cluster] 'x'"));
    assert_int_equal(unlink(name), 0);
    assert_int_equal(rmdir(path), 0);
}

/* The profile that the configuration of a file has; -1: the protocol has none. */
static int64_t profile_of(const char *options)
{
    struct cv_cluster cluster;
    char text[1000];
    (void)snprintf(text, sizeof text, HEAD "%s" MEMBERS, options);
    accept(text, &cluster);
    for (uint32_t i = 0; cluster.protocol->options[i].name != NULL; i++) {
        if (strcmp(cluster.protocol->options[i].name, "profile") == 0) {
            return cluster.config.option[i];
        }
    }
    return -1;
}

static void times_are_measured_unless_the_file_sets_them(void **unused)
{
    (void)unused;
    assert_int_equal(profile_of(""), POLE_PROFILE_AUTO);
    assert_int_equal(profile_of("[options]\nlease-min = 2s\n"), POLE_PROFILE_AUTO);
    assert_int_equal(profile_of("[options]\nprofile = wan\n"), POLE_PROFILE_WAN);
    assert_int_equal(profile_of("[options]\nlease = 2s\n"), POLE_PROFILE_LAN);
    assert_int_equal(profile_of("protocol = bully\n"), -1);
    refuse(HEAD "protocol = local\n[options]\nprofile = auto\n" MEMBERS,
           "8: profile=auto is not one of lan|wan|loopback\n");
    refuse(HEAD "[options]\nprofile = auto\nlease = 2s\n" MEMBERS,
           "7: profile=auto chooses lease itself: give lease-min and lease-max, or another "
           "profile\n");
}

static void options_that_end_a_leadership_early_are_refused(void **unused)
{
    (void)unused;
    refuse(HEAD "protocol = local\n[options]\nyields = yes\n" MEMBERS,
           "8: yields is not for members of a cluster: a leader that ends at once does so "
           "before its work has stopped\n");
    refuse(HEAD "protocol = local\n[options]\nrotate = 2s\n" MEMBERS,
           "8: rotate hands a leadership over before its time is over: it needs yields=yes, "
           "which is not possible among members of a cluster\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_names_the_members_and_their_protocol),
        cmocka_unit_test(protocol_defaults_to_pole_with_its_own_defaults),
        cmocka_unit_test(each_mistake_is_reported_on_a_line_of_its_own),
        cmocka_unit_test(protocols_without_members_are_unknown_here),
        cmocka_unit_test(values_are_checked),
        cmocka_unit_test(contradicting_options_are_refused_with_the_inequality),
        cmocka_unit_test(lines_that_the_parser_would_misread_are_refused),
        cmocka_unit_test(unreadable_file_is_reported_in_one_line),
        cmocka_unit_test(times_are_measured_unless_the_file_sets_them),
        cmocka_unit_test(options_that_end_a_leadership_early_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
