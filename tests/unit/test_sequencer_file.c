/* tests/unit/test_sequencer_file.c - numbers from a file grow, even when processes are killed. */
#include "support/asker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBERS_MAX 4096u

static char path[64];
static char address[80];

static int make_path(void **unused)
{
    (void)unused;
    (void)snprintf(path, sizeof path, "/tmp/conclave-sequencer-XXXXXX");
    const int fd = mkstemp(path);
    (void)snprintf(address, sizeof address, "file:%s", path);
    return fd < 0 || close(fd) != 0 || unlink(path) != 0;
}

static int remove_path(void **unused)
{
    (void)unused;
    (void)unlink(path);
    return 0;
}

static uint64_t ask(struct asker *a, uint64_t reference)
{
    const uint32_t answers = a->answers;
    a->sequencer.kind->ask(a->sequencer.self, 7, reference);
    asker_turn_until_answered(a, answers + 1);
    assert_int_equal(a->request, 7);
    return a->number;
}

static void numbers_follow_each_other(void **unused)
{
    (void)unused;
    struct asker a;
    struct asker b;
    asker_open(&a, address);
    asker_open(&b, address);
    for (uint64_t i = 1; i <= 20; i++) {
        assert_int_equal(ask(i % 3 ? &a : &b, CV_SEQUENCE_NONE), i);
    }
    asker_close(&a);
    asker_close(&b);
    asker_open(&a, address);
    assert_int_equal(ask(&a, CV_SEQUENCE_NONE), 21);
    assert_int_equal(a.sequencer.kind->counts(a.sequencer.self)->answered, 1);
    asker_close(&a);
}

/* Children put numbers into shared memory until they are killed; no number is there twice. */
static void killed_processes_leave_gaps_at_most(void **unused)
{
    (void)unused;
    struct shared {
        uint64_t number[8][NUMBERS_MAX];
        _Atomic uint32_t count[8];
    } *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    pid_t child[8];
    for (uint32_t c = 0; c < 8; c++) {
        child[c] = fork();
        assert_true(child[c] >= 0);
        if (child[c] == 0) {
            struct asker a;
            asker_open(&a, address);
            while (shared->count[c] < NUMBERS_MAX) {
                shared->number[c][shared->count[c]] = ask(&a, CV_SEQUENCE_NONE);
                shared->count[c]++;
            }
            _exit(0);
        }
    }
    for (uint32_t c = 0; c < 8; c++) { /* each is killed in the middle of its work */
        while (shared->count[c] < 20 + 10 * c) {
            (void)usleep(100);
        }
        assert_int_equal(kill(child[c], SIGKILL), 0);
        assert_int_equal(waitpid(child[c], NULL, 0), child[c]);
    }
    struct asker a;
    asker_open(&a, address);
    const uint64_t last = ask(&a, CV_SEQUENCE_NONE);
    asker_close(&a);
    assert_true(last < 8 * NUMBERS_MAX);
    uint8_t *seen = calloc(last + 1, 1);
    uint64_t given = 0;
    for (uint32_t c = 0; c < 8; c++) {
        for (uint32_t i = 0; i < shared->count[c]; i++) {
            const uint64_t number = shared->number[c][i];
            assert_true(number < last);
            assert_int_equal(seen[number]++, 0);
            assert_true(i == 0 || number > shared->number[c][i - 1]);
            given++;
        }
    }
    /* Each may have died with one number that it did not write down. */
    assert_true(given + 8 >= last - 1);
    free(seen);
    (void)munmap(shared, sizeof *shared);
}

/* As after a power failure: numbers go on behind the reservation that an earlier boot recorded. */
static void numbers_skip_the_reservation_after_a_reboot(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open(&a, address);
    for (uint64_t i = 1; i <= 5; i++) {
        assert_int_equal(ask(&a, CV_SEQUENCE_NONE), i);
    }
    asker_close(&a);
    /* Another boot id in both records, with right check sums. */
    const int fd = open(path, O_RDWR);
    for (off_t at = 0; at <= 512; at += 512) {
        uint8_t record[72];
        assert_int_equal(pread(fd, record, sizeof record, at), sizeof record);
        record[24] ^= 1;
        uint64_t sum = UINT64_C(14695981039346656037);
        for (uint32_t i = 0; i < 64; i++) {
            sum = (sum ^ record[i]) * UINT64_C(1099511628211);
        }
        for (uint32_t i = 0; i < 8; i++) {
            record[64 + i] = (uint8_t)(sum >> (8 * i));
        }
        assert_int_equal(pwrite(fd, record, sizeof record, at), sizeof record);
    }
    (void)close(fd);
    asker_open(&a, address);
    assert_int_equal(ask(&a, CV_SEQUENCE_NONE), 1 + 4096);
    asker_close(&a);
}

static void one_damaged_record_is_survived(void **unused)
{
    (void)unused;
    for (off_t at = 0; at <= 512; at += 512) {
        struct asker a;
        asker_open(&a, address);
        const uint64_t before = ask(&a, CV_SEQUENCE_NONE);
        const int fd = open(path, O_RDWR);
        assert_int_equal(pwrite(fd, "garbage", 7, at), 7);
        (void)close(fd);
        const uint64_t after = ask(&a, CV_SEQUENCE_NONE);
        assert_true(after > before && after != CV_SEQUENCE_NONE);
        asker_close(&a);
        assert_int_equal(unlink(path), 0);
    }
}

static void a_damaged_file_gives_no_numbers(void **unused)
{
    (void)unused;
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "my shopping list", 16), 16);
    (void)close(fd);
    struct asker a;
    asker_open(&a, address);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ask(&a, CV_SEQUENCE_NONE), CV_SEQUENCE_NONE);
    }
    assert_non_null(strstr(a.trouble, "is not a counter of conclave, or damaged"));
    assert_int_equal(a.troubles, 1); /* told once */
    assert_int_equal(a.sequencer.kind->counts(a.sequencer.self)->refused, 3);
    assert_int_equal(unlink(path), 0);
    asker_close(&a);
}

static void a_deleted_counter_goes_on_above_the_last_known_number(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open(&a, address);
    assert_int_equal(ask(&a, 1000), 1001);
    assert_int_equal(a.sequencer.kind->counts(a.sequencer.self)->restarts, 1);
    assert_int_equal(ask(&a, 1000), 1002);
    assert_int_equal(ask(&a, UINT64_C(1) << 62), (UINT64_C(1) << 62) + 1);
    assert_int_equal(ask(&a, (UINT64_C(1) << 63) - 2), CV_SEQUENCE_NONE);
    asker_close(&a);
}

static void many_questions_at_once_are_answered_or_refused(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open(&a, address);
    for (uint64_t i = 0; i < 200; i++) {
        a.sequencer.kind->ask(a.sequencer.self, i, CV_SEQUENCE_NONE);
    }
    while (a.answers < 200) {
        (void)uv_run(&a.loop, UV_RUN_ONCE);
    }
    const struct cv_sequencer_counts *counts = a.sequencer.kind->counts(a.sequencer.self);
    assert_int_equal(counts->answered + counts->silent, 200);
    assert_true(counts->answered >= 64);
    a.sequencer.kind->ask(a.sequencer.self, 1, CV_SEQUENCE_NONE); /* closed while it is under way */
    asker_close(&a);
    assert_int_equal(a.answers, 200);
}

/* A process that is stopped while it holds the lock does not stop the others for ever. */
static void a_lock_that_is_not_released_is_reported(void **unused)
{
    (void)unused;
    struct asker a;
    asker_open(&a, address);
    const int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(ask(&a, CV_SEQUENCE_NONE), CV_SEQUENCE_NONE);
    assert_non_null(strstr(a.trouble, "another process does not release it"));
    (void)close(fd);
    assert_int_equal(ask(&a, CV_SEQUENCE_NONE), 1);
    assert_non_null(strstr(a.trouble, "gives numbers again"));
    asker_close(&a);
}

static void wrong_addresses_are_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *address;
        int code;
        const char *words;
    } wrong[] = {
        {"file:", CV_E_INVALID, "not of the form file:PATH"},
        {"file", CV_E_INVALID, "not of the form file:PATH"},
        {"file:/no/such/folder/x", CV_E_STORE, "cannot open '/no/such/folder/x': No such file"},
        {"tickets:x", CV_E_UNKNOWN, "unknown sequencer 'tickets'; known: snmp, file"},
        {"", CV_E_UNKNOWN, "unknown sequencer ''"},
    };
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        asker_refused(wrong[i].address, wrong[i].code, wrong[i].words);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_path, remove_path)
    const struct CMUnitTest tests[] = {
        TEST(numbers_follow_each_other),
        TEST(killed_processes_leave_gaps_at_most),
        TEST(numbers_skip_the_reservation_after_a_reboot),
        TEST(one_damaged_record_is_survived),
        TEST(a_damaged_file_gives_no_numbers),
        TEST(a_deleted_counter_goes_on_above_the_last_known_number),
        TEST(many_questions_at_once_are_answered_or_refused),
        TEST(a_lock_that_is_not_released_is_reported),
        TEST(wrong_addresses_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
