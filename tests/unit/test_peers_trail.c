/* tests/unit/test_peers_trail.c - what the members saw is read back as one history; a damaged line
 * is reported and left out, and the trail does not grow for ever. */
#include "runtime/peers_trail.h"

#include "os/loop.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORY_MAX 8192

static char folder[TEST_FOLDER_BYTES];
static struct cv_cluster cluster;
static uv_loop_t loop;
static char logged[1024];
static struct cv_store_past story[STORY_MAX];
static uint32_t story_count;

static int setup(void **unused)
{
    (void)unused;
    struct cv_errtext why;
    if (!test_folder_make(folder) || cv__loop_init(&loop, &why) != CV_OK) {
        return -1;
    }
    cluster = (struct cv_cluster){.member_count = 3};
    (void)snprintf(cluster.name, sizeof cluster.name, "orders");
    (void)snprintf(cluster.state, sizeof cluster.state, "%s", folder);
    for (uint32_t i = 0; i < 3; i++) {
        cluster.member[i].id = i + 1;
        (void)snprintf(cluster.member[i].name, sizeof cluster.member[i].name, "%c",
                       (char)('a' + i));
    }
    cluster.protocol = cv_protocol_find("pole");
    cv_config_init(&cluster.config, cluster.protocol, 1, 3);
    logged[0] = '\0';
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0) {
        return -1;
    }
    return test_folder_remove(folder);
}

static void on_log(void *user, const char *line)
{
    (void)user;
    (void)snprintf(logged, sizeof logged, "%s", line);
}

static void on_past(void *user, const struct cv_store_past *past)
{
    (void)user;
    assert_true(story_count < STORY_MAX);
    story[story_count++] = *past;
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

static struct cv_peers_trail *open_of(cv_id self)
{
    struct cv_peers_trail *trail;
    struct cv_errtext why;
    assert_int_equal(
        cv__peers_trail_open(&loop, &cluster, self, "main", on_log, NULL, &trail, &why), CV_OK);
    return trail;
}

static void close_it(struct cv_peers_trail *trail)
{
    bool is_closed = false;
    cv__peers_trail_close(trail, on_closed, &is_closed);
    while (!is_closed) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
}

static void begin(struct cv_peers_trail *trail, const char *leader, uint64_t token)
{
    cv__peers_trail_note(trail, leader, token, NULL);
}

static void end(struct cv_peers_trail *trail, const char *leader, uint64_t token,
                enum cv_reason why, bool is_own)
{
    const struct cv_peers_trail_end ending = {.why = why, .is_own = is_own, .heard_ns = -1};
    cv__peers_trail_note(trail, leader, token, &ending);
}

static int read_of(const char *member)
{
    struct cv_errtext why = {""};
    story_count = 0;
    const int code = cv__peers_trail_read(&cluster, member, "main", on_past, on_log, NULL, &why);
    if (code != CV_OK) {
        (void)snprintf(logged, sizeof logged, "%s", why.text);
    }
    return code;
}

static void assert_past(uint32_t i, const char *leader, uint64_t token, const char *why)
{
    assert_true(i < story_count);
    assert_string_equal(story[i].node, leader);
    assert_int_equal(story[i].token, token);
    assert_string_equal(story[i].why, why);
    assert_int_equal(story[i].to_wall_ns != 0, why[0] != '\0');
}

static const char *file_of(const char *end_of_name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/orders.%s", folder, end_of_name);
    return path;
}

static void noted_leaderships_are_read_back(void **unused)
{
    (void)unused;
    struct cv_peers_trail *trail = open_of(1);
    begin(trail, "a", 1);
    end(trail, "a", 1, CV_REASON_RESIGNED, true);
    begin(trail, "b", 2);
    close_it(trail);
    assert_int_equal(read_of(NULL), CV_OK);
    assert_int_equal(story_count, 2);
    assert_past(0, "a", 1, "resigned");
    assert_past(1, "b", 2, "");
    assert_string_equal(logged, "");
    assert_int_equal(cv__peers_trail_read(&cluster, NULL, "other", on_past, on_log, NULL, NULL),
                     CV_OK);
    assert_int_equal(story_count, 2);
}

static void missing_trail_is_reported(void **unused)
{
    (void)unused;
    assert_int_equal(read_of(NULL), CV_E_STORE);
    assert_non_null(strstr(logged, "no audit trail"));
    assert_int_equal(read_of("b"), CV_E_STORE);
    assert_non_null(strstr(logged, "member 'b'"));
    assert_int_equal(read_of("x"), CV_E_INVALID);
}

static void leader_knows_best_how_it_ended(void **unused)
{
    (void)unused;
    struct cv_peers_trail *a = open_of(1), *b = open_of(2);
    begin(b, "a", 1);
    begin(a, "a", 1);
    end(a, "a", 1, CV_REASON_LOST_QUORUM, true);
    end(b, "a", 1, CV_REASON_SUSPECTED, false);
    close_it(a);
    close_it(b);
    assert_int_equal(read_of(NULL), CV_OK);
    assert_int_equal(story_count, 1);
    assert_past(0, "a", 1, "lost-quorum");
    assert_int_equal(read_of("b"), CV_OK);
    assert_past(0, "a", 1, "suspected");
}

/* A leader that slept learns only when it wakes up that its lease was over. */
static void leadership_ends_with_its_lease(void **unused)
{
    (void)unused;
    struct cv_peers_trail *a = open_of(1), *b = open_of(2);
    const struct cv_peers_trail_end late = {
        .why = CV_REASON_LOST_QUORUM, .is_own = true, .over_ns = 3 * NS_PER_S, .heard_ns = -1};
    begin(a, "a", 1);
    begin(b, "b", 2);
    cv__peers_trail_note(a, "a", 1, &late);
    close_it(a);
    close_it(b);
    assert_int_equal(read_of(NULL), CV_OK);
    assert_past(0, "a", 1, "lost-quorum");
    assert_true(story[0].to_wall_ns < story[1].from_wall_ns - 2 * NS_PER_S);
}

static void member_that_is_cut_off_ends_no_leadership(void **unused)
{
    (void)unused;
    struct cv_peers_trail *a = open_of(1), *b = open_of(2), *c = open_of(3);
    begin(a, "a", 1);
    begin(b, "a", 1);
    begin(c, "a", 1);
    end(c, "a", 1, CV_REASON_SUSPECTED, false);
    close_it(a);
    close_it(b);
    close_it(c);
    assert_int_equal(read_of(NULL), CV_OK);
    assert_int_equal(story_count, 1);
    assert_past(0, "a", 1, "");
    c = open_of(3); /* it hears the leader again */
    begin(c, "a", 1);
    close_it(c);
    assert_int_equal(read_of("c"), CV_OK);
    assert_past(0, "a", 1, "");
}

static void leader_that_was_killed_has_ended(void **unused)
{
    (void)unused;
    struct cv_peers_trail *a = open_of(1), *b = open_of(2), *c = open_of(3);
    begin(a, "a", 1);
    begin(b, "a", 1);
    begin(c, "a", 1);
    end(b, "a", 1, CV_REASON_DIED, false);
    end(c, "a", 1, CV_REASON_DIED, false);
    close_it(a);
    close_it(b);
    close_it(c);
    assert_int_equal(read_of(NULL), CV_OK);
    assert_past(0, "a", 1, "died");
}

static void leadership_that_nobody_saw_end_ends_with_the_next(void **unused)
{
    (void)unused;
    struct cv_peers_trail *trail = open_of(2);
    begin(trail, "a", 1);
    begin(trail, "c", 5);
    close_it(trail);
    assert_int_equal(read_of(NULL), CV_OK);
    assert_past(0, "a", 1, "gone");
    assert_int_equal(story[0].to_wall_ns, story[1].from_wall_ns);
    assert_past(1, "c", 5, "");
}

static void damaged_line_is_reported_and_left_out(void **unused)
{
    (void)unused;
    struct cv_peers_trail *trail = open_of(2);
    begin(trail, "a", 1);
    begin(trail, "b", 2);
    begin(trail, "c", 3);
    close_it(trail);
    FILE *file = fopen(file_of("b@main.trail"), "r+");
    assert_non_null(file);
    char line[256];
    assert_non_null(fgets(line, sizeof line, file));
    assert_int_equal(fseek(file, (long)strlen(line) + 20, SEEK_SET), 0);
    assert_int_equal(fputc('~', file), '~');
    assert_int_equal(fclose(file), 0);
    assert_int_equal(read_of(NULL), CV_OK);
    assert_int_equal(story_count, 2);
    assert_past(0, "a", 1, "gone");
    assert_past(1, "c", 3, "");
    assert_non_null(strstr(logged, "1 of its lines"));
    logged[0] = '\0';
    trail = open_of(2); /* a member reports it too, and goes on */
    end(trail, "c", 3, CV_REASON_RESIGNED, false);
    close_it(trail);
    assert_non_null(strstr(logged, "1 of its lines"));
    assert_int_equal(read_of(NULL), CV_OK);
    assert_past(1, "c", 3, "resigned");
}

static void torn_line_does_not_spoil_the_next(void **unused)
{
    (void)unused;
    struct cv_peers_trail *trail = open_of(2);
    begin(trail, "a", 1);
    begin(trail, "b", 2);
    close_it(trail);
    struct stat status;
    assert_int_equal(stat(file_of("b@main.trail"), &status), 0);
    assert_int_equal(truncate(file_of("b@main.trail"), status.st_size - 5), 0);
    trail = open_of(2);
    begin(trail, "c", 3);
    close_it(trail);
    assert_int_equal(read_of(NULL), CV_OK);
    assert_int_equal(story_count, 2);
    assert_past(1, "c", 3, "");
}

static void unwritable_trail_is_reported_once(void **unused)
{
    (void)unused;
    assert_int_equal(mkdir(file_of("b@main.trail"), 0700), 0);
    struct cv_peers_trail *trail = open_of(2);
    begin(trail, "a", 1);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    end(trail, "a", 1, CV_REASON_RESIGNED, false);
    close_it(trail);
    assert_non_null(strstr(logged, "cannot write the audit trail"));
    assert_int_equal(read_of(NULL), CV_E_STORE);
}

static void trail_stays_within_its_bounds(void **unused)
{
    (void)unused;
    struct cv_peers_trail *trail = open_of(2);
    struct stat status;
    for (uint64_t token = 1; token <= 6000; token++) {
        begin(trail, "a", token);
    }
    close_it(trail);
    assert_int_equal(stat(file_of("b@main.trail"), &status), 0);
    assert_true(status.st_size <= CV_PEERS_TRAIL_BYTES_MAX);
    assert_int_equal(stat(file_of("b@main.trail.old"), &status), 0);
    assert_true(status.st_size <= CV_PEERS_TRAIL_BYTES_MAX);
    assert_int_equal(read_of(NULL), CV_OK);
    assert_true(story_count > 1000 && story_count < 6000);
    assert_past(story_count - 1, "a", 6000, "");
    for (uint32_t i = 1; i < story_count; i++) {
        assert_int_equal(story[i].token, story[i - 1].token + 1);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(noted_leaderships_are_read_back),
        TEST(missing_trail_is_reported),
        TEST(leader_knows_best_how_it_ended),
        TEST(leadership_ends_with_its_lease),
        TEST(member_that_is_cut_off_ends_no_leadership),
        TEST(leader_that_was_killed_has_ended),
        TEST(leadership_that_nobody_saw_end_ends_with_the_next),
        TEST(damaged_line_is_reported_and_left_out),
        TEST(torn_line_does_not_spoil_the_next),
        TEST(unwritable_trail_is_reported_once),
        TEST(trail_stays_within_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
