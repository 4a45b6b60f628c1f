/* src/sequencers/file.c - a counter in a file, for the processes of one host.
 *
 * The file is locked, read, written and unlocked for each number, by a thread, because it may have
 * to wait for the lock. It does not wait for ever: a process may be stopped while it has the lock.
 *
 * Killed processes: a number is written before it is returned, so that none is returned twice.
 * Power failures: syncing each number to the disk would take milliseconds, so numbers are reserved
 * in blocks of RESERVE, and only a reservation is synced. The record contains the boot id of the
 * machine; after a reboot, counting continues after the reserved numbers, which leaves a gap.
 *
 * There are two records, so that one is always intact. The first is written for reservations only,
 * and only after the second, which is written for every number, is on the disk. Whatever a power
 * failure leaves, the larger readable reservation covers every number that was returned.
 *
 * A record: "CVSEQ1", zero, zero; the next number; the end of the reservation; the boot id; a check
 * sum (FNV-1a); little endian. A file that is neither empty nor has an intact record is refused. If
 * the file was deleted, a caller that has seen larger numbers moves the counter on, which is a gap
 * too. */
#include "sequencers/sequencer.h"

#include "core/bytes.h"
#include "core/errors.h"
#include "core/sequence.h"
#include "core/types.h"
#include "os/descriptor.h"
#include "os/file.h"
#include "os/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define RESERVE 4096u
#define LOCK_WAIT_MS 1000
#define LOCK_TRY_NS 100000
#define PENDING_MAX 64u
#define MAGIC "CVSEQ1\0"
#define MAGIC_BYTES 8u
#define BOOT_BYTES 40u
#define RECORD_BYTES (MAGIC_BYTES + 8u + 8u + BOOT_BYTES + 8u)
#define RECORD_AT(which) ((off_t)(which)*512) /* each in a sector of its own */

struct record {
    uint64_t next, reserved; /* next <= reserved */
    char boot[BOOT_BYTES];   /* padded with zeros */
};

struct question {
    uint64_t request, reference;
};

/* Invariant: while work is under way (is_busy) the thread owns `asked`, `number` and `why`. */
struct file {
    struct cv_worker *worker;
    struct cv_work work;
    struct cv_sequencer_events events;
    struct cv_sequencer_counts counts;
    enum cv_sequencer_trouble trouble;
    char path[PATH_MAX];
    char boot[BOOT_BYTES];
    int fd;

    struct question pending[PENDING_MAX]; /* a ring */
    uint32_t pending_first, pending_count;
    struct question asked;
    uint64_t number;
    bool has_restarted;
    struct cv_errtext why;
    bool is_busy;

    atomic_bool is_closing; /* the thread looks at it while it waits for the lock */
    void (*closed)(void *data);
    void *closed_data;
};

/* ---- Records --------------------------------------------------------------------------------- */

static bool write_record(int fd, uint32_t which, const struct record *record)
{
    uint8_t bytes[RECORD_BYTES];
    memcpy(bytes, MAGIC, MAGIC_BYTES);
    cv__bytes_put(bytes + 8, record->next, 8);
    cv__bytes_put(bytes + 16, record->reserved, 8);
    memcpy(bytes + 24, record->boot, BOOT_BYTES);
    cv__bytes_put(bytes + 24 + BOOT_BYTES, cv__bytes_sum(bytes, 24 + BOOT_BYTES), 8);
    const ssize_t wrote = pwrite(fd, bytes, sizeof bytes, RECORD_AT(which));
    if (wrote >= 0 && wrote != (ssize_t)sizeof bytes) {
        errno = ENOSPC;
    }
    return wrote == (ssize_t)sizeof bytes;
}

/* False: there is no intact record. */
static bool read_record(int fd, uint32_t which, struct record *ret_record)
{
    uint8_t bytes[RECORD_BYTES];
    if (pread(fd, bytes, sizeof bytes, RECORD_AT(which)) != (ssize_t)sizeof bytes ||
        memcmp(bytes, MAGIC, MAGIC_BYTES) != 0 ||
        cv__bytes_get(bytes + 24 + BOOT_BYTES, 8) != cv__bytes_sum(bytes, 24 + BOOT_BYTES)) {
        return false;
    }
    ret_record->next = cv__bytes_get(bytes + 8, 8);
    ret_record->reserved = cv__bytes_get(bytes + 16, 8);
    memcpy(ret_record->boot, bytes + 24, BOOT_BYTES);
    return ret_record->next <= ret_record->reserved && ret_record->reserved < UINT64_MAX - RESERVE;
}

/* ---- One number, on a thread ----------------------------------------------------------------- */

static bool lock(struct file *f)
{
    const struct timespec pause = {.tv_nsec = LOCK_TRY_NS};
    for (int64_t waited_ns = 0; waited_ns < LOCK_WAIT_MS * NS_PER_MS; waited_ns += LOCK_TRY_NS) {
        if (flock(f->fd, LOCK_EX | LOCK_NB) == 0) {
            return true;
        }
        if (errno != EWOULDBLOCK || atomic_load(&f->is_closing)) {
            break;
        }
        (void)nanosleep(&pause, NULL); /* shorter does no harm */
    }
    return false;
}

/* The state of the counter. False: the file is damaged. */
static bool load(struct file *f, struct record *ret_record)
{
    struct record record[2];
    const bool has_first = read_record(f->fd, 0, &record[0]);
    const bool has_second = read_record(f->fd, 1, &record[1]);
    if (!has_first && !has_second) {
        *ret_record = (struct record){.next = 1, .reserved = 1};
        return lseek(f->fd, 0, SEEK_END) == 0;
    }
    const struct record *newer =
        !has_second || (has_first && record[0].next > record[1].next) ? &record[0] : &record[1];
    *ret_record = *newer;
    if (memcmp(newer->boot, f->boot, BOOT_BYTES) != 0 || !has_second) {
        /* The machine was rebooted, or the record that every number is written to is damaged: it is
         * not known which numbers of the reservation were returned. */
        ret_record->next = cv__max64((int64_t)(has_first ? record[0].reserved : 0),
                                     (int64_t)(has_second ? record[1].reserved : 0));
        ret_record->reserved = ret_record->next;
    }
    return true;
}

/* Reserves numbers, on the disk, before the first of them is returned. */
static bool reserve(struct file *f, struct record *record)
{
    const struct record before = *record;
    record->reserved = record->next + RESERVE;
    return write_record(f->fd, 1, &before) && fdatasync(f->fd) == 0 &&
           write_record(f->fd, 0, record) && fdatasync(f->fd) == 0 && cv__file_sync_name(f->path);
}

static uint64_t take(struct file *f)
{
    struct record record;
    if (!load(f, &record)) {
        (void)cv__fail(&f->why, CV_E_MALFORMED, "'%s' is not a counter of conclave, or damaged",
                       f->path);
        return CV_SEQUENCE_NONE;
    }
    memcpy(record.boot, f->boot, BOOT_BYTES);
    const uint64_t reference = f->asked.reference;
    f->has_restarted = reference != CV_SEQUENCE_NONE && reference >= record.next;
    if (f->has_restarted) {
        record.next = reference + 1;
        record.reserved = record.next;
    }
    const uint64_t number = record.next;
    if (number >= CV_SEQUENCE_END - RESERVE) {
        (void)cv__fail(&f->why, CV_E_INVALID, "'%s' has used up all numbers", f->path);
        return CV_SEQUENCE_NONE;
    }
    const bool has_room = record.next < record.reserved || reserve(f, &record);
    record.next++;
    if (!has_room || !write_record(f->fd, 1, &record)) {
        (void)cv__fail(&f->why, CV_E_STORE, "cannot write '%s': %s", f->path, strerror(errno));
        return CV_SEQUENCE_NONE;
    }
    return number;
}

static void work_on_a_thread(void *data)
{
    struct file *f = data;
    f->number = CV_SEQUENCE_NONE;
    if (!lock(f)) {
        (void)cv__fail(&f->why, CV_E_STORE, "cannot lock '%s': %s", f->path,
                       errno == EWOULDBLOCK ? "another process does not release it"
                                            : strerror(errno));
        return;
    }
    f->number = take(f);
    (void)flock(f->fd, LOCK_UN); /* cannot fail: it is ours */
}

/* ---- The table ------------------------------------------------------------------------------- */

static void next_question(struct file *f);

static void on_ended(void *data)
{
    struct file *f = data;
    void (*closed)(void *data) = f->closed;
    void *closed_data = f->closed_data;
    (void)close(f->fd); /* all was written, and checked */
    free(f);
    if (closed != NULL) {
        closed(closed_data);
    }
}

static void on_done(void *data)
{
    struct file *f = data;
    f->is_busy = false;
    if (f->is_closing) {
        return; /* closing waits for the worker to end */
    }
    const struct question asked = f->asked;
    const uint64_t number = f->number;
    if (number == CV_SEQUENCE_NONE) {
        f->counts.refused++;
        cv__sequencer_say(&f->events, &f->trouble, CV_SEQUENCER_REFUSING, "%s", f->why.text);
    } else {
        f->counts.answered++;
        f->counts.restarts += f->has_restarted;
        cv__sequencer_say(&f->events, &f->trouble, CV_SEQUENCER_FINE, "'%s' gives numbers again",
                          f->path);
    }
    next_question(f);
    f->events.number(f->events.self, asked.request, number); /* may close it */
}

static void next_question(struct file *f)
{
    if (f->is_busy || f->pending_count == 0) {
        return;
    }
    f->asked = f->pending[f->pending_first];
    f->pending_first = (f->pending_first + 1) % PENDING_MAX;
    f->pending_count--;
    f->is_busy = true;
    f->work = (struct cv_work){.run = work_on_a_thread, .done = on_done, .data = f};
    cv__worker_do(f->worker, &f->work);
}

static void file_ask(void *self, uint64_t request, uint64_t reference)
{
    struct file *f = self;
    CV_ASSERT(!f->is_closing);
    f->counts.asked++;
    if (f->pending_count == PENDING_MAX) {
        f->counts.silent++;
        f->events.number(f->events.self, request, CV_SEQUENCE_NONE);
        return;
    }
    f->pending[(f->pending_first + f->pending_count++) % PENDING_MAX] =
        (struct question){request, reference};
    next_question(f);
}

static const struct cv_sequencer_counts *file_counts(const void *self)
{
    return &((const struct file *)self)->counts;
}

static void file_close(void *self, void (*closed)(void *data), void *data)
{
    struct file *f = self;
    CV_ASSERT(!f->is_closing);
    f->is_closing = true;
    f->closed = closed;
    f->closed_data = data;
    f->pending_count = 0;
    cv__worker_free(f->worker, on_ended, f);
}

/* The boot id of the machine. */
static bool read_boot_id(char boot[BOOT_BYTES])
{
    memset(boot, 0, BOOT_BYTES);
    FILE *in = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (in == NULL) {
        return false;
    }
    const bool is_fine = fgets(boot, (int)BOOT_BYTES, in) != NULL;
    (void)fclose(in); /* only read */
    const size_t length = strcspn(boot, "\n");
    memset(boot + length, 0, BOOT_BYTES - length);
    return is_fine;
}

static int file_open(uv_loop_t *loop, const char *where, const struct cv_sequencer_events *events,
                     void **ret_self, struct cv_errtext *reterr)
{
    if (where[0] == '\0' || strlen(where) >= PATH_MAX) {
        return cv__fail(reterr, CV_E_INVALID, "sequencer 'file:%s' is not of the form %s", where,
                        cv__sequencer_file.form);
    }
    struct file *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory for the sequencer 'file:%s'", where);
    }
    f->events = *events;
    (void)snprintf(f->path, sizeof f->path, "%s", where);
    int result = CV_OK;
    f->fd = open(where, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (f->fd < 0) {
        const int why = errno;
        result = cv__fail(reterr, cv__descriptor_code(why, CV_E_STORE), "cannot open '%s': %s",
                          where, strerror(why));
        goto failed;
    }
    if (!read_boot_id(f->boot)) {
        const int why = errno;
        result = cv__fail(reterr, cv__descriptor_code(why, CV_E_IO),
                          "cannot read the boot id of this machine: %s", strerror(why));
        goto failed;
    }
    result = cv__worker_new(loop, &f->worker, reterr);
    if (result != CV_OK) {
        goto failed;
    }
    *ret_self = f;
    return CV_OK;
failed:
    if (f->fd >= 0) {
        (void)close(f->fd); /* nothing was written */
    }
    free(f);
    return result;
}

const struct cv_sequencer_kind cv__sequencer_file = {
    .name = "file",
    .form = "file:PATH",
    .summary = "a counter in a file, for the processes of one host",
    .open = file_open,
    .ask = file_ask,
    .counts = file_counts,
    .close = file_close,
};
