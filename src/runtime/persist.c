/* src/runtime/persist.c - what a protocol must not forget, in a small file; see persist.h. */
#include "runtime/persist.h"

#include "core/bytes.h"
#include "core/errors.h"
#include "core/types.h"
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "CVP1"
#define MAGIC_BYTES 4u
#define NAME_BYTES 32u
#define HEAD_BYTES (MAGIC_BYTES + 4u + NAME_BYTES)
#define SUM_BYTES 8u
#define FILE_BYTES_MAX (HEAD_BYTES + 8u * CV_PERSIST_WORDS_MAX + SUM_BYTES)

struct cv_persist {
    char path[PATH_MAX];
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

/* A foreign file may have a valid check sum, too; control characters from it must not reach a
 * terminal. */
static bool is_name(const char *name)
{
    const size_t length = strnlen(name, NAME_BYTES);
    for (size_t i = 0; i < length; i++) {
        if (name[i] <= ' ' || name[i] > '~') {
            return false;
        }
    }
    return length > 0;
}

static int decode(const struct cv_persist *p, const uint8_t *bytes, size_t byte_count,
                  uint64_t *word, uint32_t *ret_count, struct cv_errtext *reterr)
{
    const uint64_t count =
        byte_count >= HEAD_BYTES ? cv__bytes_get(bytes + MAGIC_BYTES, 4) : UINT64_MAX;
    const char *name = (const char *)bytes + MAGIC_BYTES + 4;
    if (count > CV_PERSIST_WORDS_MAX || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0 ||
        byte_count != HEAD_BYTES + 8 * count + SUM_BYTES || !is_name(name)) {
        return cv__fail(reterr, CV_E_MALFORMED, "'%s' is not a saved state of conclave", p->path);
    }
    if (cv__bytes_get(bytes + HEAD_BYTES + 8 * count, SUM_BYTES) !=
        cv__bytes_sum(bytes, HEAD_BYTES + 8 * (size_t)count)) {
        return cv__fail(reterr, CV_E_MALFORMED, "'%s' is damaged: its check sum is wrong", p->path);
    }
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
    if (strlen(protocol) >= NAME_BYTES || strlen(path) >= sizeof p->path) {
        result = cv__fail(reterr, CV_E_INVALID, "'%s' cannot be the name of a file", path);
        goto failed;
    }
    (void)snprintf(p->path, sizeof p->path, "%s", path);
    (void)snprintf(p->protocol, sizeof p->protocol, "%s", protocol);
    result = cv__file_lock(path, &p->lock_fd, reterr);
    if (result != CV_OK) {
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
    uint8_t bytes[FILE_BYTES_MAX + 1]; /* one more: a longer file is not a record */
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

int cv__persist_save(struct cv_persist *p, const uint64_t *word, uint32_t word_count,
                     struct cv_errtext *reterr)
{
    CV_ASSERT(word_count <= CV_PERSIST_WORDS_MAX);
    uint8_t bytes[FILE_BYTES_MAX];
    const size_t byte_count = encode(p, word, word_count, bytes);
    return cv__file_replace(p->path, bytes, byte_count, reterr);
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
