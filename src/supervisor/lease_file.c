/* src/supervisor/lease_file.c - see lease_file.h.
 *
 * The folder is the first usable one of RUNTIME_DIRECTORY (set by systemd),
 * XDG_RUNTIME_DIR/conclave, /run/conclave (for root), /tmp/conclave-UID, and the caller's folder.
 * In /tmp another user may have made it first, so it must be a folder that belongs to this user and
 * that no other user can write to. Under cron only /tmp and the caller's folder exist; then another
 * user's folder in /tmp must not stop us. */
#include "supervisor/lease_file.h"

#include "core/errors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct cv_lease_page) <= CV_LEASE_FILE_BYTES, "one page");
_Static_assert(offsetof(struct cv_lease_page, sequence) == 56, "documented");
_Static_assert(offsetof(struct cv_lease_page, slot) == 64, "documented");
_Static_assert(offsetof(struct cv_lease_page, ended_run) == 112, "documented");

static const char magic[8] = "CVLEASE";

/* How often a reader begins again because a writer was faster. Each new round means a complete
 * update in between, so a second round is rare, and a hundredth means a damaged file. */
#define READ_ROUNDS_MAX 100

static bool boot_id(char ret_id[CV_LEASE_BOOT_BYTES])
{
    memset(ret_id, 0, CV_LEASE_BOOT_BYTES);
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, ret_id, 36) : -1;
    if (fd >= 0) {
        (void)close(fd); /* only read */
    }
    return got == 36;
}

/* The candidates for the folder, in order; false after the last. Skip an empty one. */
static bool folder_candidate(uint32_t index, const char *(*fallback_folder)(void),
                             char ret_folder[CV_LEASE_PATH_BYTES])
{
    const char *systemd = getenv("RUNTIME_DIRECTORY");
    const char *user = getenv("XDG_RUNTIME_DIR");
    const char *fallback = NULL;
    ret_folder[0] = '\0';
    int bytes = 0;
    switch (index) {
    case 0:
        if (systemd != NULL && systemd[0] == '/') {
            bytes = snprintf(ret_folder, CV_LEASE_PATH_BYTES, "%.*s", (int)strcspn(systemd, ":"),
                             systemd);
        }
        break;
    case 1:
        if (user != NULL && user[0] == '/') {
            bytes = snprintf(ret_folder, CV_LEASE_PATH_BYTES, "%s/conclave", user);
        }
        break;
    case 2:
        if (geteuid() == 0) {
            bytes = snprintf(ret_folder, CV_LEASE_PATH_BYTES, "/run/conclave");
        }
        break;
    case 3:
        bytes = snprintf(ret_folder, CV_LEASE_PATH_BYTES, "/tmp/conclave-%lu",
                         (unsigned long)geteuid());
        break;
    case 4:
        fallback = fallback_folder != NULL ? fallback_folder() : NULL;
        if (fallback != NULL) {
            bytes = snprintf(ret_folder, CV_LEASE_PATH_BYTES, "%s", fallback);
        }
        break;
    default:
        return false;
    }
    if (bytes > CV_LEASE_PATH_BYTES - 64) { /* leave room for the name of the file */
        ret_folder[0] = '\0';
    }
    return true;
}

static int folder_try(const char *folder, struct cv_errtext *reterr)
{
    struct stat stat;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return cv__fail(reterr, CV_E_IO, "cannot create the runtime folder '%s': %s", folder,
                        strerror(errno));
    }
    if (lstat(folder, &stat) != 0 || !S_ISDIR(stat.st_mode) || stat.st_uid != geteuid() ||
        (stat.st_mode & 022) != 0) {
        return cv__fail(reterr, CV_E_IO,
                        "the runtime folder '%s' is not a folder that only this user can write to",
                        folder);
    }
    if (access(folder, W_OK | X_OK) != 0) {
        return cv__fail(reterr, CV_E_IO, "cannot write to the runtime folder '%s': %s", folder,
                        strerror(errno));
    }
    return CV_OK;
}

static int folder_find(char ret_folder[CV_LEASE_PATH_BYTES], const char *(*fallback_folder)(void),
                       struct cv_errtext *reterr)
{
    int status = CV_E_IO;
    for (uint32_t i = 0; folder_candidate(i, fallback_folder, ret_folder); i++) {
        if (ret_folder[0] != '\0' && (status = folder_try(ret_folder, reterr)) == CV_OK) {
            return CV_OK;
        }
    }
    return status;
}

/* Is this the file of a supervisor that was killed together with its guard? Earlier versions did
 * not lock their files, so the process has to be gone as well. */
static bool is_left_behind(int folder, const char *name)
{
    int supervisor;
    if (sscanf(name, "run-%d-", &supervisor) != 1 || supervisor <= 0 ||
        kill((pid_t)supervisor, 0) == 0 || errno != ESRCH) {
        return false;
    }
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const bool is_free = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0) {
        (void)close(fd); /* only read */
    }
    return is_free;
}

static void folder_clean(const char *path)
{
    DIR *folder = opendir(path);
    for (const struct dirent *one; folder != NULL && (one = readdir(folder)) != NULL;) {
        if (is_left_behind(dirfd(folder), one->d_name)) {
            (void)unlinkat(dirfd(folder), one->d_name, 0); /* one that stays does no harm */
        }
    }
    if (folder != NULL) {
        (void)closedir(folder); /* only read */
    }
}

static struct cv_lease_page *map(int fd, int protection)
{
    void *page = mmap(NULL, CV_LEASE_FILE_BYTES, protection, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

static void page_fill(struct cv_lease_page *page, const char *election, const char *node)
{
    (void)boot_id(page->boot_id); /* if it stays empty, readers refuse the file */
    page->version = CV_LEASE_FILE_VERSION;
    page->bytes = sizeof *page;
    (void)snprintf(page->election, sizeof page->election, "%s", election);
    (void)snprintf(page->node, sizeof page->node, "%s", node);
    memcpy(page->magic, magic, sizeof magic);
}

int cv__lease_file_make(struct cv_lease_file *ret_file, const char *election, const char *node,
                        const char *(*fallback_folder)(void), struct cv_errtext *reterr)
{
    char folder[CV_LEASE_PATH_BYTES];
    *ret_file = (struct cv_lease_file){.lock_fd = -1};
    const int status = folder_find(folder, fallback_folder, reterr);
    if (status != CV_OK) {
        return status;
    }
    folder_clean(folder);
    (void)snprintf(ret_file->path, sizeof ret_file->path, "%.*s/run-%d-XXXXXX",
                   CV_LEASE_PATH_BYTES - 48, folder, (int)getpid());
    const int fd = mkostemp(ret_file->path, O_CLOEXEC); /* mode 0600 */
    if (fd < 0) {
        return cv__fail(reterr, CV_E_IO, "cannot create a lease file in '%s': %s", folder,
                        strerror(errno));
    }
    (void)flock(fd, LOCK_SH | LOCK_NB); /* nobody else knows it yet; without locks it stays */
    /* posix_fallocate: a full disk is reported here, instead of a SIGBUS later. */
    const int failed = posix_fallocate(fd, 0, CV_LEASE_FILE_BYTES);
    struct cv_lease_page *page = failed == 0 ? map(fd, PROT_READ | PROT_WRITE) : NULL;
    if (page == NULL) {
        const int why = failed != 0 ? failed : errno;
        (void)close(fd); /* nothing was written */
        (void)unlink(ret_file->path);
        return cv__fail(reterr, CV_E_IO, "cannot map the lease file '%s': %s", ret_file->path,
                        strerror(why));
    }
    page_fill(page, election, node);
    ret_file->page = page;
    ret_file->lock_fd = fd;
    return CV_OK;
}

void cv__lease_file_remove(struct cv_lease_file *file)
{
    if (file->page != NULL) {
        (void)unlink(file->path); /* the guard may have done it */
        (void)munmap(file->page, CV_LEASE_FILE_BYTES);
        (void)close(file->lock_fd); /* it was written through the mapping */
        file->page = NULL;
    }
}

void cv__lease_file_publish(struct cv_lease_page *page, uint64_t run, uint64_t token,
                            int64_t valid_until_ns)
{
    const uint64_t next = atomic_load_explicit(&page->sequence, memory_order_relaxed) + 1;
    struct cv_lease_slot *slot = &page->slot[next % 2];
    /* A reader that still reads this slot must see that the number has changed, so the number's
     * previous change must be visible before these stores. */
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(&slot->run, run, memory_order_relaxed);
    atomic_store_explicit(&slot->token, token, memory_order_relaxed);
    atomic_store_explicit(&slot->valid_until_ns, valid_until_ns, memory_order_relaxed);
    atomic_store_explicit(&page->sequence, next, memory_order_release);
}

void cv__lease_file_end(struct cv_lease_page *page, uint64_t run)
{
    atomic_store(&page->ended_run, run);
}

struct cv_lease_file_view cv__lease_file_read(const struct cv_lease_page *page, int64_t now_ns)
{
    for (int round = 0; round < READ_ROUNDS_MAX; round++) {
        const uint64_t sequence = atomic_load_explicit(&page->sequence, memory_order_acquire);
        const struct cv_lease_slot *slot = &page->slot[sequence % 2];
        const uint64_t run = atomic_load_explicit(&slot->run, memory_order_relaxed);
        const uint64_t token = atomic_load_explicit(&slot->token, memory_order_relaxed);
        const int64_t valid_until_ns =
            atomic_load_explicit(&slot->valid_until_ns, memory_order_relaxed);
        const uint64_t ended_run = atomic_load_explicit(&page->ended_run, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&page->sequence, memory_order_relaxed) == sequence) {
            return (struct cv_lease_file_view){
                .token = token,
                .valid_until_ns = valid_until_ns,
                .is_valid = run > ended_run && now_ns < valid_until_ns,
            };
        }
    }
    return (struct cv_lease_file_view){0};
}

static bool page_is_ours(const struct cv_lease_page *page)
{
    char now_booted[CV_LEASE_BOOT_BYTES];
    return memcmp(page->magic, magic, sizeof magic) == 0 &&
           page->version == CV_LEASE_FILE_VERSION && page->bytes == sizeof *page &&
           boot_id(now_booted) && memcmp(page->boot_id, now_booted, CV_LEASE_BOOT_BYTES) == 0;
}

int cv__lease_file_open(const char *path, const struct cv_lease_page **ret_page,
                        struct cv_errtext *reterr)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return cv__fail(reterr, CV_E_IO, "cannot open the lease file '%s': %s", path,
                        strerror(errno));
    }
    struct stat stat;
    const struct cv_lease_page *page = NULL;
    if (fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size == CV_LEASE_FILE_BYTES) {
        page = map(fd, PROT_READ);
    }
    (void)close(fd); /* the mapping stays */
    if (page == NULL || !page_is_ours(page)) {
        cv__lease_file_close(page);
        return cv__fail(reterr, CV_E_MALFORMED, "'%s' is not a lease file of this boot", path);
    }
    *ret_page = page;
    return CV_OK;
}

void cv__lease_file_close(const struct cv_lease_page *page)
{
    union {
        const struct cv_lease_page *in;
        void *out;
    } cast = {.in = page}; /* munmap() takes no const */
    if (page != NULL) {
        (void)munmap(cast.out, CV_LEASE_FILE_BYTES);
    }
}
