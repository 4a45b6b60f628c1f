/* tests/unit/test_value.c - the values that contenders write to etcd and ZooKeeper, and the names
 * of their keys. */
#include "stores/remote.h"
#include "stores/value.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void values_are_read_back_as_written(void **unused)
{
    (void)unused;
    char text[CV_VALUE_BYTES];
    struct cv_store_record record = {.token = 7};
    cv__value_write("db1:4711 \"\\ Größe", UINT64_MAX, 10 * NS_PER_S, INT64_MAX, "0.1.0", text);
    cv__value_read(text, strlen(text), &record);
    assert_string_equal(record.node, "db1:4711 \"\\ Größe");
    assert_true(record.label == UINT64_MAX); /* all 64 bits of it */
    assert_int_equal(record.lease_ns, 10 * NS_PER_S);
    assert_int_equal(record.since_wall_ns, INT64_MAX);
    assert_int_equal(record.token, 7); /* not part of the value */
    assert_string_equal(record.version, "0.1.0");
}

static void values_of_earlier_versions_are_read(void **unused)
{
    (void)unused;
    static const char text[] =
        "{\"node\":\"db1\",\"label\":\"0a\",\"lease_ns\":\"5000000000\",\"since_ns\":\"7\"}";
    struct cv_store_record record;
    memset(&record, 0x55, sizeof record);
    cv__value_read(text, strlen(text), &record);
    assert_string_equal(record.node, "db1");
    assert_int_equal(record.label, 10);
    assert_string_equal(record.version, ""); /* not known */
}

static void a_member_can_be_added(void **unused)
{
    (void)unused;
    char text[CV_VALUE_BYTES];
    struct cv_store_record record;
    cv__value_write("db1", 7, NS_PER_S, 9, "0.1.0", text);
    assert_false(cv__value_has(text, strlen(text), "deposes", "first"));
    cv__value_add(text, "deposes", "first");
    assert_true(cv__value_has(text, strlen(text), "deposes", "first"));
    assert_false(cv__value_has(text, strlen(text), "deposes", "later"));
    cv__value_read(text, strlen(text), &record);
    assert_string_equal(record.node, "db1");
    assert_int_equal(record.label, 7);
    /* What is not such a text, or has no room, stays as it is. */
    char broken[CV_VALUE_BYTES] = "x", full[CV_VALUE_BYTES] = "";
    cv__value_add(broken, "deposes", "first");
    assert_string_equal(broken, "x");
    (void)snprintf(full, sizeof full, "{\"node\":\"%0*d\"}", CV_VALUE_BYTES - 20, 0);
    cv__value_add(full, "deposes", "first");
    assert_false(cv__value_has(full, strlen(full), "deposes", "first"));
    assert_int_equal(full[0], '{');
    assert_false(cv__value_has("[", 1, "deposes", "first"));
}

static void the_longest_names_fit(void **unused)
{
    (void)unused;
    char node[CV_NODE_BYTES], text[CV_VALUE_BYTES];
    memset(node, '\x01', sizeof node - 1); /* six bytes each, as JSON */
    node[sizeof node - 1] = '\0';
    struct cv_store_record record;
    cv__value_write(node, 1, INT64_MAX, INT64_MAX, "0.1.0", text);
    cv__value_read(text, strlen(text), &record);
    assert_string_equal(record.node, node);
    char heir[CV_NODE_BYTES];
    cv__value_request_write(UINT64_MAX, node, text);
    cv__value_request_read(text, strlen(text), UINT64_MAX, heir);
    assert_string_equal(heir, node);
    char note_text[CV_VALUE_NOTE_BYTES];
    struct cv_value_note note, read;
    cv__value_note_end(&note, UINT64_MAX - 1, node, CV_REASON_STORE_UNREACHABLE);
    cv__value_note_begin(&note, UINT64_MAX, node);
    cv__value_note_write(&note, note_text);
    cv__value_note_read(note_text, strlen(note_text), &read);
    assert_string_equal(read.before.node, node);
    assert_int_equal(read.before.why, CV_REASON_STORE_UNREACHABLE);
}

/* A value that cannot be read still means that the election is held. */
static void an_unreadable_value_still_names_a_holder(void **unused)
{
    (void)unused;
    static const char *const strange[] = {
        "", "{", "[1]", "\"x\"", "{\"node\":1}", "{\"node\":\"\"}", "\xff\xfe", "null"};
    for (uint32_t i = 0; i < COUNT_OF(strange); i++) {
        struct cv_store_record record;
        memset(&record, 0x55, sizeof record);
        cv__value_read(strange[i], strlen(strange[i]), &record);
        assert_string_equal(record.node, "?");
        assert_int_equal(record.label, 0);
        assert_int_equal(record.lease_ns, 0);
    }
    struct cv_store_record record;
    cv__value_read("{\"node\":\"a\",\"lease_ns\":\"9223372036854775807\"}", 48, &record);
    assert_int_equal(record.lease_ns, 24 * 3600 * NS_PER_S); /* nobody asks for a longer one */
    cv__value_read("{\"node\":\"a\",\"lease_ns\":\"-5\"}", 29, &record);
    assert_int_equal(record.lease_ns, 0);
    cv__value_read("{\"node\":\"abcdef\"}", 5, &record); /* the value is cut short */
    assert_string_equal(record.node, "?");
}

static void a_note_tells_how_the_latest_leadership_ended(void **unused)
{
    (void)unused;
    char text[CV_VALUE_NOTE_BYTES];
    struct cv_value_note note, read;
    cv__value_note_end(&note, UINT64_MAX - 1, "db1", CV_REASON_FINISHED);
    cv__value_note_write(&note, text);
    cv__value_note_read(text, strlen(text), &read);
    struct cv_store_record free = {.token = 0};
    cv__value_note_tell(&read, &free);
    assert_true(free.token == UINT64_MAX - 1);
    assert_int_equal(free.ended, CV_REASON_FINISHED);
    assert_string_equal(free.last.node, "db1");
    assert_int_equal(free.last.wall_ns, note.of.wall_ns);

    cv__value_note_begin(&read, UINT64_MAX, "db2");
    cv__value_note_write(&read, text);
    cv__value_note_read(text, strlen(text), &read);
    struct cv_store_record held = {.node = "db2", .token = UINT64_MAX};
    cv__value_note_tell(&read, &held);
    assert_true(held.token == UINT64_MAX);
    assert_int_equal(held.ended, CV_REASON_STARTED); /* it has not ended */
    assert_true(held.last.token == UINT64_MAX - 1);
    assert_int_equal(held.last.why, CV_REASON_FINISHED);

    free = (struct cv_store_record){.token = 0}; /* db2 has died without a word */
    cv__value_note_tell(&read, &free);
    assert_true(free.token == UINT64_MAX);
    assert_int_equal(free.ended, CV_REASON_GONE);
}

/* A leader that noted no reason may explain it later, when it leads again. */
static void a_contender_explains_only_the_open_end_of_its_own_leadership(void **unused)
{
    (void)unused;
    const struct cv_store_end lost = {.token = 7, .why = CV_REASON_STORE_UNREACHABLE};
    struct cv_value_note note = {.of = {.token = 7}};
    cv__value_note_explain(&note, &lost);
    assert_int_equal(note.of.why, CV_REASON_STORE_UNREACHABLE);
    note = (struct cv_value_note){.of = {.token = 8}};
    cv__value_note_explain(&note, &lost);
    assert_int_equal(note.of.why, CV_REASON_STARTED);
    note = (struct cv_value_note){.of = {.token = 7, .why = CV_REASON_RESIGNED}};
    cv__value_note_explain(&note, &lost);
    assert_int_equal(note.of.why, CV_REASON_RESIGNED);
    note = (struct cv_value_note){.of = {.token = 0}};
    cv__value_note_explain(&note, &(struct cv_store_end){.token = 0, .why = CV_REASON_EXPIRED});
    assert_int_equal(note.of.why, CV_REASON_STARTED);
}

static void a_malformed_note_gives_no_reason(void **unused)
{
    (void)unused;
    static const char *const strange[] = {"",
                                          "{",
                                          "[1]",
                                          "{\"token\":7}",
                                          "\xff\xfe",
                                          "null",
                                          "{\"token\":\"7\",\"why\":\"elected\"}",
                                          "{\"token\":\"7\",\"why\":\"renewed\"}",
                                          "{\"token\":\"7\",\"why\":\"no such word\"}",
                                          "{\"token\":\"7\",\"why\":3,\"before\":4}"};
    for (uint32_t i = 0; i < COUNT_OF(strange); i++) {
        struct cv_value_note note;
        memset(&note, 0x55, sizeof note);
        cv__value_note_read(strange[i], strlen(strange[i]), &note);
        assert_true(note.of.token == 0 || note.of.token == 7);
        assert_int_equal(note.of.why, CV_REASON_STARTED);
        assert_int_equal(note.before.token, 0);
        struct cv_store_record record = {.token = 0};
        cv__value_note_tell(&note, &record);
        assert_int_equal(record.ended, note.of.token == 7 ? CV_REASON_GONE : CV_REASON_STARTED);
    }
    struct cv_value_note note = {.of = {.token = 9, .why = CV_REASON_FINISHED}};
    cv__value_note_begin(&note, 5, "a store that was put back to an earlier state");
    assert_int_equal(note.before.token, 0);
    struct cv_store_record record = {.node = "b", .token = 3}; /* nothing about its end */
    cv__value_note_tell(&note, &record);
    assert_int_equal(record.last.token, 0);
}

static void a_resign_request_is_meant_for_one_token(void **unused)
{
    (void)unused;
    char text[CV_VALUE_BYTES], heir[CV_NODE_BYTES];
    cv__value_request_write(17, "*", text);
    cv__value_request_read(text, strlen(text), 17, heir);
    assert_string_equal(heir, "*");
    cv__value_request_read(text, strlen(text), 18, heir);
    assert_string_equal(heir, "");
    cv__value_request_read("nonsense", 8, 17, heir);
    assert_string_equal(heir, "");
}

static void names_have_no_slashes_when_escaped(void **unused)
{
    (void)unused;
    char text[CV_REMOTE_TEXT_BYTES];
    cv__remote_escape("nightly-backup_2.x~", text);
    assert_string_equal(text, "nightly-backup_2.x~");
    cv__remote_escape("a/b %é", text);
    assert_string_equal(text, "a%2Fb%20%25%C3%A9");
    cv__remote_escape("..", text);
    assert_string_equal(text, "%2E.");
    char longest[CV_ELECTION_BYTES];
    memset(longest, '/', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    cv__remote_escape(longest, text);
    assert_int_equal(strlen(text), 3 * (sizeof longest - 1));
}

static void messages_become_one_line(void **unused)
{
    (void)unused;
    char line[12];
    cv__remote_one_line("refused. \n\tIs it running?\n", line, sizeof line);
    assert_string_equal(line, "refused");
    cv__remote_one_line("much too long for it", line, sizeof line);
    assert_string_equal(line, "much too lo");
    cv__remote_one_line("", line, sizeof line);
    assert_string_equal(line, "");
}

static void secrets_come_from_files_or_the_environment(void **unused)
{
    (void)unused;
    char path[] = "/tmp/conclave-test-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "secret\r\nmore\n", 13), 13);
    char text[16];
    struct cv_errtext err;
    (void)setenv("CV_TEST_SECRET", "other", 1);
    assert_int_equal(cv__remote_secret(path, "CV_TEST_SECRET", text, sizeof text, &err), CV_OK);
    assert_string_equal(text, "secret");
    assert_int_equal(cv__remote_secret("", "CV_TEST_SECRET", text, sizeof text, &err), CV_OK);
    assert_string_equal(text, "other");
    (void)unsetenv("CV_TEST_SECRET");
    assert_int_equal(cv__remote_secret("", "CV_TEST_SECRET", text, sizeof text, &err), CV_OK);
    assert_string_equal(text, "");
    (void)setenv("CV_TEST_SECRET", "longer than it may be", 1);
    assert_int_equal(cv__remote_secret("", "CV_TEST_SECRET", text, sizeof text, &err),
                     CV_E_INVALID);
    assert_non_null(strstr(err.text, "too long"));
    char small[7];
    assert_int_equal(cv__remote_secret(path, "CV_TEST_SECRET", small, sizeof small, &err),
                     CV_E_INVALID);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(cv__remote_secret(path, "CV_TEST_SECRET", text, sizeof text, &err),
                     CV_E_INVALID);
    assert_non_null(strstr(err.text, "is empty"));
    assert_int_equal(write(fd, "secret\n", 7), 7);
    assert_int_equal(fchmod(fd, 0640), 0); /* a group may share it */
    assert_int_equal(cv__remote_secret(path, "", text, sizeof text, &err), CV_OK);
    assert_int_equal(fchmod(fd, 0604), 0);
    assert_int_equal(cv__remote_secret(path, "", text, sizeof text, &err), CV_E_INVALID);
    assert_non_null(strstr(err.text, "every user can read"));
    assert_string_equal(text, "");
    (void)close(fd);
    (void)unlink(path);
    assert_int_equal(cv__remote_secret(path, "CV_TEST_SECRET", text, sizeof text, &err), CV_E_IO);
    assert_non_null(strstr(err.text, "No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_back_as_written),
        cmocka_unit_test(values_of_earlier_versions_are_read),
        cmocka_unit_test(a_member_can_be_added),
        cmocka_unit_test(the_longest_names_fit),
        cmocka_unit_test(an_unreadable_value_still_names_a_holder),
        cmocka_unit_test(a_note_tells_how_the_latest_leadership_ended),
        cmocka_unit_test(a_contender_explains_only_the_open_end_of_its_own_leadership),
        cmocka_unit_test(a_malformed_note_gives_no_reason),
        cmocka_unit_test(a_resign_request_is_meant_for_one_token),
        cmocka_unit_test(names_have_no_slashes_when_escaped),
        cmocka_unit_test(messages_become_one_line),
        cmocka_unit_test(secrets_come_from_files_or_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
