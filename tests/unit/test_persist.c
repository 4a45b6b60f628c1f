/* tests/unit/test_persist.c - a saved record is loaded whole, or refused. */
#include "runtime/persist.h"
#include "support/support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static char path[128];

static int make_folder(void **unused)
{
    (void)unused;
    (void)snprintf(folder, sizeof folder, "/tmp/conclave-persist-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/state", folder);
    return 0;
}

static int remove_folder(void **unused)
{
    (void)unused;
    static const char *const ends[] = {"", ".new", ".lock"};
    for (uint32_t i = 0; i < COUNT_OF(ends); i++) {
        char name[160];
        (void)snprintf(name, sizeof name, "%s%s", path, ends[i]);
        (void)unlink(name);
    }
    return rmdir(folder);
}

static struct cv_persist *open_as(const char *protocol)
{
    struct cv_persist *persist;
    struct cv_errtext why;
    assert_int_equal(cv__persist_open(path, protocol, &persist, &why), CV_OK);
    return persist;
}

static void save(const uint64_t *word, uint32_t count)
{
    struct cv_persist *persist = open_as("anon");
    struct cv_errtext why;
    assert_int_equal(cv__persist_save(persist, word, count, &why), CV_OK);
    cv__persist_close(persist);
}

/* What a later process of that protocol loads. */
static int load(const char *protocol, uint64_t *word, uint32_t *count, struct cv_errtext *why)
{
    struct cv_persist *persist = open_as(protocol);
    const int result = cv__persist_load(persist, word, count, why);
    cv__persist_close(persist);
    return result;
}

static void no_record_is_zero_words(void **unused)
{
    (void)unused;
    uint64_t word[CV_PERSIST_WORDS_MAX];
    uint32_t count = 99;
    struct cv_errtext why;
    assert_int_equal(load("anon", word, &count, &why), CV_OK);
    assert_int_equal(count, 0);
}

static void the_latest_record_is_loaded(void **unused)
{
    (void)unused;
    const uint64_t first[] = {1, UINT64_MAX, 3, 4, 5, 6, 7, 8};
    const uint64_t second[] = {9};
    uint64_t word[CV_PERSIST_WORDS_MAX];
    uint32_t count;
    struct cv_errtext why;
    save(first, COUNT_OF(first));
    assert_int_equal(load("anon", word, &count, &why), CV_OK);
    assert_int_equal(count, COUNT_OF(first));
    assert_memory_equal(word, first, sizeof first);
    save(second, COUNT_OF(second));
    assert_int_equal(load("anon", word, &count, &why), CV_OK);
    assert_int_equal(count, 1);
    assert_int_equal(word[0], 9);
}

static void every_damaged_byte_is_noticed(void **unused)
{
    (void)unused;
    const uint64_t record[] = {1, 2};
    uint64_t word[CV_PERSIST_WORDS_MAX];
    uint32_t count;
    struct cv_errtext why;
    save(record, COUNT_OF(record));
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    for (off_t at = 0; at < status.st_size; at++) {
        const int fd = open(path, O_RDWR);
        uint8_t byte;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        const uint8_t wrong = byte ^ 0x40;
        assert_int_equal(pwrite(fd, &wrong, 1, at), 1);
        assert_int_equal(load("anon", word, &count, &why), CV_E_MALFORMED);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        (void)close(fd);
    }
    assert_int_equal(load("anon", word, &count, &why), CV_OK);
    for (off_t size = status.st_size - 1; size >= 0; size--) {
        assert_int_equal(truncate(path, size), 0);
        assert_int_equal(load("anon", word, &count, &why), CV_E_MALFORMED);
    }
}

static void a_longer_file_is_refused(void **unused)
{
    (void)unused;
    const uint64_t record[CV_PERSIST_WORDS_MAX] = {1, 2};
    uint64_t word[CV_PERSIST_WORDS_MAX];
    uint32_t count;
    struct cv_errtext why;
    save(record, COUNT_OF(record));
    const int fd = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "x", 1), 1);
    (void)close(fd);
    assert_int_equal(load("anon", word, &count, &why), CV_E_MALFORMED);
}

static void another_protocols_state_is_refused(void **unused)
{
    (void)unused;
    const uint64_t record[] = {1, 2};
    uint64_t word[CV_PERSIST_WORDS_MAX];
    uint32_t count;
    struct cv_errtext why;
    save(record, COUNT_OF(record));
    assert_int_equal(load("pole", word, &count, &why), CV_E_MALFORMED);
    assert_non_null(strstr(why.text, "is the state of protocol 'anon', not 'pole'"));
}

static void two_processes_do_not_share_a_state(void **unused)
{
    (void)unused;
    struct cv_persist *first = open_as("anon");
    struct cv_persist *second;
    struct cv_errtext why;
    assert_int_equal(cv__persist_open(path, "anon", &second, &why), CV_E_STORE);
    assert_non_null(strstr(why.text, "in use by another process"));
    cv__persist_close(first);
    cv__persist_close(open_as("anon"));
}

static void a_missing_folder_is_reported(void **unused)
{
    (void)unused;
    struct cv_persist *persist;
    struct cv_errtext why;
    assert_int_equal(cv__persist_open("/tmp/no/such/folder/state", "anon", &persist, &why),
                     CV_E_STORE);
    assert_non_null(strstr(why.text, "cannot open '/tmp/no/such/folder/state.lock': No such file"));
    assert_int_equal(cv__persist_open("", "anon", &persist, &why), CV_E_INVALID);
    cv__persist_close(NULL);
}

static void a_save_that_fails_keeps_the_old_record(void **unused)
{
    (void)unused;
    const uint64_t record[] = {1};
    const uint64_t newer[] = {2};
    save(record, COUNT_OF(record));
    struct cv_persist *persist = open_as("anon");
    char temporary[160];
    (void)snprintf(temporary, sizeof temporary, "%s.new", path);
    assert_int_equal(mkdir(temporary, 0700), 0); /* blocks the temporary file */
    struct cv_errtext why;
    assert_int_equal(cv__persist_save(persist, newer, COUNT_OF(newer), &why), CV_E_STORE);
    assert_non_null(strstr(why.text, "cannot save to '"));
    assert_int_equal(rmdir(temporary), 0);
    uint64_t word[CV_PERSIST_WORDS_MAX];
    uint32_t count;
    assert_int_equal(cv__persist_load(persist, word, &count, &why), CV_OK);
    assert_int_equal(word[0], 1);
    cv__persist_close(persist);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(no_record_is_zero_words),
        TEST(the_latest_record_is_loaded),
        TEST(every_damaged_byte_is_noticed),
        TEST(a_longer_file_is_refused),
        TEST(another_protocols_state_is_refused),
        TEST(two_processes_do_not_share_a_state),
        TEST(a_missing_folder_is_reported),
        TEST(a_save_that_fails_keeps_the_old_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
