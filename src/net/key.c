/* src/net/key.c - the key that the members of a group share, and its file; see key.h. */
#include "net/key.h"

#include "core/errors.h"
#include "core/types.h"
#include "os/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORD "conclave-key-1 "
#define WORD_LENGTH 15u

_Static_assert(sizeof WORD == WORD_LENGTH + 1, "as in the header");
_Static_assert(CV_KEY_BYTES == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "what frames need");

int cv__key_generate(struct cv_key *ret_key, struct cv_errtext *reterr)
{
    if (sodium_init() < 0) {
        return cv__fail(reterr, CV_E_IO, "libsodium cannot be used on this machine");
    }
    randombytes_buf(ret_key->bytes, sizeof ret_key->bytes);
    return CV_OK;
}

void cv__key_format(const struct cv_key *key, char line[CV_KEY_LINE_BYTES])
{
    memcpy(line, WORD, WORD_LENGTH);
    (void)sodium_bin2hex(line + WORD_LENGTH, 2 * CV_KEY_BYTES + 1, key->bytes, CV_KEY_BYTES);
    line[CV_KEY_LINE_BYTES - 2] = '\n';
    line[CV_KEY_LINE_BYTES - 1] = '\0';
}

int cv__key_write(const struct cv_key *key, const char *path, struct cv_errtext *reterr)
{
    char line[CV_KEY_LINE_BYTES];
    cv__key_format(key, line);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        sodium_memzero(line, sizeof line);
        return cv__fail(reterr, CV_E_IO, "cannot make the key file '%s': %s", path,
                        strerror(errno));
    }
    const size_t length = CV_KEY_LINE_BYTES - 1;
    const ssize_t wrote = write(fd, line, length);
    sodium_memzero(line, sizeof line);
    int why = wrote < 0 ? errno : ENOSPC;
    bool is_fine = wrote == (ssize_t)length;
    if (is_fine && fsync(fd) != 0) {
        is_fine = false;
        why = errno;
    }
    if (close(fd) != 0 && is_fine) {
        is_fine = false;
        why = errno;
    }
    if (is_fine) {
        return CV_OK;
    }
    (void)unlink(path); /* half a key is useless; if it cannot be removed, reading it will fail */
    return cv__fail(reterr, CV_E_IO, "cannot write the key file '%s': %s", path, strerror(why));
}

static bool parse(const char *line, size_t length, struct cv_key *ret_key)
{
    if (length > 0 && line[length - 1] == '\n') {
        length--;
    }
    size_t got = 0;
    return length == WORD_LENGTH + 2 * CV_KEY_BYTES && memcmp(line, WORD, WORD_LENGTH) == 0 &&
           sodium_hex2bin(ret_key->bytes, CV_KEY_BYTES, line + WORD_LENGTH, length - WORD_LENGTH,
                          NULL, &got, NULL) == 0 &&
           got == CV_KEY_BYTES;
}

int cv__key_read(const char *path, struct cv_key *ret_key, struct cv_errtext *reterr)
{
    const int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* of a FIFO: at once */
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        const int why = errno;
        if (fd >= 0) {
            (void)close(fd); /* only read */
        }
        return cv__fail(reterr, cv__descriptor_code(why, CV_E_IO),
                        "cannot read the key file '%s': %s", path, strerror(why));
    }
    if (!S_ISREG(status.st_mode)) {
        (void)close(fd); /* only read */
        return cv__fail(reterr, CV_E_INVALID, "the key file '%s' is not a regular file", path);
    }
    char line[CV_KEY_LINE_BYTES];
    const ssize_t got = read(fd, line, sizeof line);
    const int why = errno;
    (void)close(fd); /* only read */
    int result = CV_OK;
    if (got < 0) {
        result =
            cv__fail(reterr, CV_E_IO, "cannot read the key file '%s': %s", path, strerror(why));
    } else if ((status.st_mode & S_IRWXO) != 0) {
        result = cv__fail(reterr, CV_E_INVALID,
                          "every user may read the key file '%s'; run chmod o= '%s'", path, path);
    } else if (!parse(line, (size_t)got, ret_key)) {
        result = cv__fail(reterr, CV_E_MALFORMED,
                          "'%s' is not a key file; 'conclave keygen' makes one", path);
    }
    sodium_memzero(line, sizeof line);
    return result;
}

void cv__key_forget(struct cv_key *key)
{
    sodium_memzero(key->bytes, sizeof key->bytes);
}
