/* tests/unit/test_slots.c - the record that was saved last is read back; a damaged one is refused,
 * and never overwritten. */
#include "runtime/slots.h"

#include "os/file.h"
#include "support/support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[TEST_FOLDER_BYTES], path[80];
static const struct cv_slots_owner owner = {"orders", "pole", 2, 3, 5, 300};

static int setup(void **unused)
{
    (void)unused;
    if (!test_folder_make(folder)) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/s", folder);
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    return test_folder_remove(folder);
}

static struct cv_slots *open_as(const struct cv_slots_owner *who)
{
    struct cv_slots *slots;
    struct cv_errtext why;
    if (cv__slots_open(path, who, &slots, &why) != CV_OK) {
        fail_msg("%s", why.text);
    }
    return slots;
}

static void refuse(const struct cv_slots_owner *who, int code, const char *part)
{
    struct cv_slots *slots;
    struct cv_errtext why;
    assert_int_equal(cv__slots_open(path, who, &slots, &why), code);
    if (strstr(why.text, part) == NULL) {
        fail_msg("'%s' does not say '%s'", why.text, part);
    }
}

static void save(struct cv_slots *slots, uint64_t value)
{
    const uint64_t word[] = {value, value + 1};
    struct cv_slots_record record;
    struct cv_errtext why;
    if (!cv__slots_latest(slots, &record)) {
        assert_int_equal(cv__slots_create(slots, word, COUNT_OF(word), &why), CV_OK);
    } else {
        assert_int_equal(cv__slots_save(slots, word, COUNT_OF(word), &why), CV_OK);
    }
}

static void assert_saved(struct cv_slots *slots, uint64_t value)
{
    struct cv_slots_record record;
    assert_true(cv__slots_latest(slots, &record));
    assert_int_equal(record.word_count, 2);
    assert_int_equal(record.word[0], value);
    assert_int_equal(record.word[1], value + 1);
}

/* A file in which that many records were saved one after the other. */
static void make(uint32_t save_count)
{
    struct cv_slots *slots = open_as(&owner);
    for (uint32_t i = 1; i <= save_count; i++) {
        save(slots, i);
    }
    cv__slots_close(slots);
}

static void change(off_t at, const void *bytes, size_t byte_count)
{
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, byte_count, at), byte_count);
    assert_int_equal(close(fd), 0);
}

static void latest_record_is_read_back(void **unused)
{
    (void)unused;
    struct cv_slots *slots = open_as(&owner);
    struct cv_slots_record record;
    assert_false(cv__slots_latest(slots, &record));
    assert_int_not_equal(access(path, F_OK), 0); /* reading creates no file */
    for (uint64_t i = 1; i <= 5; i++) {
        save(slots, i);
        assert_saved(slots, i);
        cv__slots_close(slots);
        slots = open_as(&owner);
        assert_saved(slots, i);
        assert_true(cv__slots_latest(slots, &record));
        assert_int_equal(record.generation, 5);
        assert_int_equal(record.lease_ns, 300);
        assert_true(record.is_of_protocol);
    }
    cv__slots_close(slots);
}

static void second_process_is_refused(void **unused)
{
    (void)unused;
    struct cv_slots *slots = open_as(&owner);
    refuse(&owner, CV_E_STORE, "is in use by another process");
    cv__slots_close(slots);
    cv__slots_close(open_as(&owner));
}

static void every_damaged_byte_is_noticed_and_left_as_it_is(void **unused)
{
    (void)unused;
    make(2);
    uint8_t before[512 + 4096], after[512 + 4096];
    for (off_t at = 0; at < (off_t)sizeof before; at += at < 160 || at >= 4096 ? 7 : 13) {
        const int fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, before, sizeof before, 0), sizeof before);
        const bool is_slot = at < 512 || at >= 4096;
        uint8_t byte = before[at] ^ 0x40;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        if (is_slot) {
            refuse(&owner, CV_E_MALFORMED, "is damaged");
        } else {
            cv__slots_close(open_as(&owner)); /* these bytes lie between the slots */
        }
        assert_int_equal(pread(fd, after, sizeof after, 0), sizeof after);
        assert_int_equal(after[at], byte);
        assert_int_equal(pwrite(fd, before, sizeof before, 0), sizeof before);
        assert_int_equal(close(fd), 0);
    }
    struct cv_slots *slots = open_as(&owner);
    assert_saved(slots, 2);
    cv__slots_close(slots);
}

static void missing_records_and_short_files_are_damage(void **unused)
{
    (void)unused;
    static const uint8_t zero[512];
    make(3); /* 3 is in slot 0, 2 in slot 1 */
    change(0, zero, sizeof zero);
    refuse(&owner, CV_E_MALFORMED, "a record is missing");
    change(4096, zero, sizeof zero);
    refuse(&owner, CV_E_MALFORMED, "a record is missing");
    assert_int_equal(truncate(path, 100), 0);
    refuse(&owner, CV_E_MALFORMED, "it is too short");
    assert_int_equal(truncate(path, 0), 0);
    refuse(&owner, CV_E_MALFORMED, "it is too short");
    assert_int_equal(unlink(path), 0);
    cv__slots_close(open_as(&owner));
}

/* A write never reached the disk: the older of the two records is too old. */
static void stale_slot_is_damage(void **unused)
{
    (void)unused;
    make(1);
    uint8_t first[512];
    const int fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, first, sizeof first, 0), sizeof first);
    assert_int_equal(close(fd), 0);
    struct cv_slots *slots = open_as(&owner);
    for (uint64_t i = 2; i <= 4; i++) {
        save(slots, i);
    }
    cv__slots_close(slots);
    change(0, first, sizeof first); /* 4 and 1 */
    refuse(&owner, CV_E_MALFORMED, "a record is missing");
}

static void state_of_somebody_else_is_refused(void **unused)
{
    (void)unused;
    make(2);
    static const struct cv_slots_owner others[] = {
        {"other", "pole", 2, 3, 5, 300},  {"orders", "local", 2, 3, 5, 300},
        {"orders", "pole", 1, 3, 5, 300}, {"orders", "pole", 2, 5, 5, 300},
        {"orders", "pole", 2, 3, 4, 300},
    };
    for (uint32_t i = 0; i < COUNT_OF(others); i++) {
        refuse(&others[i], CV_E_MALFORMED, "is the state of member 2 of 3 of cluster 'orders'");
    }
    /* A later generation may have other members and another protocol. */
    const struct cv_slots_owner later = {"orders", "local", 2, 5, 6, 300};
    struct cv_slots *slots = open_as(&later);
    assert_saved(slots, 2);
    struct cv_slots_record record;
    assert_true(cv__slots_latest(slots, &record));
    assert_int_equal(record.generation, 5);
    assert_int_equal(record.lease_ns, 300); /* the lease that was promised then */
    assert_false(record.is_of_protocol);
    save(slots, 9);
    cv__slots_close(slots);
    refuse(&owner, CV_E_MALFORMED, "generation 6");
    slots = open_as(&later);
    assert_saved(slots, 9);
    cv__slots_close(slots);
}

static void missing_folder_is_reported_in_one_line(void **unused)
{
    (void)unused;
    (void)snprintf(path, sizeof path, "%s/no/s", folder);
    refuse(&owner, CV_E_STORE, "No such file or directory");
}

static void state_of_an_earlier_version_is_moved_once(void **unused)
{
    (void)unused;
    char old_path[96];
    struct cv_slots_record record;
    struct cv_errtext why;
    (void)snprintf(old_path, sizeof old_path, "%s.old", path);
    assert_int_equal(cv__slots_adopt(old_path, path, &why), CV_OK); /* there is no old file */
    struct cv_slots *slots = open_as(&owner);
    save(slots, 7);
    cv__slots_close(slots);
    assert_int_equal(rename(path, old_path), 0);
    int lock_fd;
    assert_int_equal(cv__file_lock(old_path, &lock_fd, &why), CV_OK);
    /* Another process has it open. */
    assert_int_equal(cv__slots_adopt(old_path, path, &why), CV_E_STORE);
    (void)close(lock_fd);
    assert_int_equal(cv__slots_adopt(old_path, path, &why), CV_OK);
    assert_int_not_equal(access(old_path, F_OK), 0);
    slots = open_as(&owner);
    assert_true(cv__slots_latest(slots, &record));
    assert_int_equal(record.word[0], 7);
    save(slots, 8);
    cv__slots_close(slots);
    FILE *file = fopen(old_path, "w"); /* a new file that exists stays */
    assert_non_null(file);
    (void)fclose(file);
    assert_int_equal(cv__slots_adopt(old_path, path, &why), CV_OK);
    slots = open_as(&owner);
    assert_true(cv__slots_latest(slots, &record));
    assert_int_equal(record.word[0], 8);
    cv__slots_close(slots);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(latest_record_is_read_back),
        TEST(second_process_is_refused),
        TEST(every_damaged_byte_is_noticed_and_left_as_it_is),
        TEST(missing_records_and_short_files_are_damage),
        TEST(stale_slot_is_damage),
        TEST(state_of_somebody_else_is_refused),
        TEST(missing_folder_is_reported_in_one_line),
        TEST(state_of_an_earlier_version_is_moved_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
