/* src/runtime/persist.c - what a protocol must not forget, in a small file; see persist.h. */
#include "runtime/persist.h"

#include "core/bytes.h"
#include "core/errors.h"
#include "core/types.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define MAGIC "CVP1"
#define MAGIC_BYTES 4u
#define NAME_BYTES 32u
#define HEAD_BYTES (MAGIC_BYTES + 4u + NAME_BYTES)
#define SUM_BYTES 8u
#define FILE_BYTES_MAX (HEAD_BYTES + 8u * CV_PERSIST_WORDS_MAX + SUM_BYTES)

struct cv_persist {
    char path[PATH_MAX], temporary[PATH_MAX], folder[PATH_MAX];
    char protocol[NAME_BYTES];
    int lock_fd; /* locked as long as this exists */
};

/* ---- The bytes of a record ------------------------------------------------------------------- */

static size_t encode(const struct cv_persist *p, const uint64_t *word, uint32_t word_count,
                     uint8_t bytes[FILE_BYTES_MAX])
{
    memcpy(bytes, MAGIC, MAGIC_BYTES);
    cv__bytes_put(bytes + MAGIC_BYTES, word_count, 4);
    memcpy(bytes + MAGIC_BYTES + 4, p->protocol, NAME_BYTES);
    for (uint32_t i = 0; i < word_count; i++) {
        cv__bytes_put(bytes + HEAD_BYTES + 8 * i, word[i], 8);
    }
    const size_t sum_at = HEAD_BYTES + 8 * (size_t)word_count;
    cv__bytes_put(bytes + sum_at, cv__bytes_sum(bytes, sum_at), SUM_BYTES);
    return sum_at + SUM_BYTES;
}

static int decode(const struct cv_persist *p, const uint8_t *bytes, size_t byte_count,
                  uint64_t *word, uint32_t *ret_count, struct cv_errtext *reterr)
{
    const uint64_t count =
        byte_count >= HEAD_BYTES ? cv__bytes_get(bytes + MAGIC_BYTES, 4) : UINT64_MAX;
    if (count > CV_PERSIST_WORDS_MAX || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0 ||
        byte_count != HEAD_BYTES + 8 * count + SUM_BYTES) {
        return cv__fail(reterr, CV_E_MALFORMED, "'%s' is not a saved state of conclave", p->path);
    }
    if (cv__bytes_get(bytes + HEAD_BYTES + 8 * count, SUM_BYTES) !=
        cv__bytes_sum(bytes, HEAD_BYTES + 8 * (size_t)count)) {
        return cv__fail(reterr, CV_E_MALFORMED, "'%s' is damaged: its check sum is wrong", p->path);
    }
    const char *name = (const char *)bytes + MAGIC_BYTES + 4;
    if (memcmp(name, p->protocol, NAME_BYTES) != 0) {
        return cv__fail(reterr, CV_E_MALFORMED, "'%s' is the state of protocol '%.*s', not '%s'",
                        p->path, (int)NAME_BYTES, name, p->protocol);
    }
    for (uint32_t i = 0; i < count; i++) {
        word[i] = cv__bytes_get(bytes + HEAD_BYTES + 8 * i, 8);
    }
    *ret_count = (uint32_t)count;
    return CV_OK;
}

/* ---- The file -------------------------------------------------------------------------------- */

int cv__persist_open(const char *path, const char *protocol, struct cv_persist **ret_persist,
                     struct cv_errtext *reterr)
{
    struct cv_persist *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory to open '%s'", path);
    }
    p->lock_fd = -1;
    int result = CV_OK;
    char lock[PATH_MAX];
    if (path[0] == '\0' || strlen(path) + sizeof ".lock" > PATH_MAX ||
        strlen(protocol) >= NAME_BYTES) {
        result = cv__fail(reterr, CV_E_INVALID, "'%s' cannot be the name of a file", path);
        goto failed;
    }
    (void)snprintf(p->path, sizeof p->path, "%s", path);
    (void)snprintf(p->temporary, sizeof p->temporary, "%s.new", path);
    (void)snprintf(lock, sizeof lock, "%s.lock", path);
    (void)snprintf(p->protocol, sizeof p->protocol, "%s", protocol);
    char copy[PATH_MAX]; /* dirname() writes into its argument */
    (void)snprintf(copy, sizeof copy, "%s", path);
    (void)snprintf(p->folder, sizeof p->folder, "%s", dirname(copy));

    p->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (p->lock_fd < 0) {
        result = cv__fail(reterr, CV_E_STORE, "cannot open '%s': %s", lock, strerror(errno));
        goto failed;
    }
    if (flock(p->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        result = cv__fail(reterr, CV_E_STORE, "'%s' is %s", path,
                          errno == EWOULDBLOCK ? "in use by another process" : strerror(errno));
        goto failed;
    }
    *ret_persist = p;
    return CV_OK;
failed:
    cv__persist_close(p);
    return result;
}

void cv__persist_close(struct cv_persist *p)
{
    if (p != NULL && p->lock_fd >= 0) {
        (void)close(p->lock_fd); /* nothing was written to it */
    }
    free(p);
}

int cv__persist_load(struct cv_persist *p, uint64_t *word, uint32_t *ret_count,
                     struct cv_errtext *reterr)
{
    const int fd = open(p->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        *ret_count = 0;
        return CV_OK;
    }
    uint8_t bytes[FILE_BYTES_MAX + 1]; /* one more: a longer file is no record */
    size_t byte_count = 0;
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0 && byte_count < sizeof bytes) {
        got = read(fd, bytes + byte_count, sizeof bytes - byte_count);
        byte_count += got > 0 ? (size_t)got : 0;
    }
    int result = CV_OK;
    if (got < 0) {
        result = cv__fail(reterr, CV_E_STORE, "cannot read '%s': %s", p->path, strerror(errno));
    } else {
        result = decode(p, bytes, byte_count, word, ret_count, reterr);
    }
    if (fd >= 0) {
        (void)close(fd); /* only read */
    }
    return result;
}

/* False and errno: not all of it is on the disk. */
static bool write_whole(int fd, const uint8_t *bytes, size_t byte_count)
{
    for (size_t done = 0; done < byte_count;) {
        const ssize_t wrote = write(fd, bytes + done, byte_count - done);
        if (wrote < 0 && errno != EINTR) {
            return false;
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return fsync(fd) == 0;
}

static bool sync_folder(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const bool is_fine = fsync(fd) == 0;
    const int why = errno;
    (void)close(fd); /* a folder */
    errno = why;
    return is_fine;
}

int cv__persist_save(struct cv_persist *p, const uint64_t *word, uint32_t word_count,
                     struct cv_errtext *reterr)
{
    CV_ASSERT(word_count <= CV_PERSIST_WORDS_MAX);
    uint8_t bytes[FILE_BYTES_MAX];
    const size_t byte_count = encode(p, word, word_count, bytes);
    const int fd = open(p->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool is_fine = fd >= 0 && write_whole(fd, bytes, byte_count);
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && is_fine) {
        is_fine = false;
        why = errno;
    }
    if (is_fine && (rename(p->temporary, p->path) != 0 || !sync_folder(p->folder))) {
        is_fine = false;
        why = errno;
    }
    return is_fine
               ? CV_OK
               : cv__fail(reterr, CV_E_STORE, "cannot save to '%s': %s", p->path, strerror(why));
}

/* ---- As a service ---------------------------------------------------------------------------- */

static int service_load(void *self, uint64_t ret_word[CV_PERSIST_WORDS_MAX], uint32_t *ret_count,
                        struct cv_errtext *reterr)
{
    return cv__persist_load(self, ret_word, ret_count, reterr);
}

static int service_save(void *self, const uint64_t *word, uint32_t word_count,
                        struct cv_errtext *reterr)
{
    return cv__persist_save(self, word, word_count, reterr);
}

struct cv_host_persist cv__persist_service(struct cv_persist *persist)
{
    return (struct cv_host_persist){.self = persist, .load = service_load, .save = service_save};
}
