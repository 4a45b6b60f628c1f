/* src/os/file.c - see file.h. */
#include "os/file.h"

#include "core/errors.h"
#include "core/types.h"
#include "os/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define SUFFIX_BYTES sizeof ".lock"

int cv__file_lock(const char *path, int *ret_fd, struct cv_errtext *reterr)
{
    char name[PATH_MAX];
    if (path[0] == '\0' || strlen(path) + SUFFIX_BYTES > sizeof name) {
        return cv__fail(reterr, CV_E_INVALID, "'%s' cannot be the name of a file", path);
    }
    (void)snprintf(name, sizeof name, "%s.lock", path);
    const int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        const int why = errno;
        return cv__fail(reterr, cv__descriptor_code(why, CV_E_STORE), "cannot open '%s': %s", name,
                        strerror(why));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        const int why = errno;
        (void)close(fd); /* nothing was written */
        return cv__fail(reterr, CV_E_STORE, "'%s' is %s", path,
                        why == EWOULDBLOCK ? "in use by another process" : strerror(why));
    }
    *ret_fd = fd;
    return CV_OK;
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

bool cv__file_sync_name(const char *path)
{
    char copy[PATH_MAX]; /* dirname() writes into its argument */
    (void)snprintf(copy, sizeof copy, "%s", path);
    const int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const bool is_fine = fsync(fd) == 0;
    const int why = errno;
    (void)close(fd); /* a folder */
    errno = why;
    return is_fine;
}

int cv__file_replace(const char *path, const uint8_t *bytes, size_t byte_count,
                     struct cv_errtext *reterr)
{
    char temporary[PATH_MAX];
    CV_ASSERT(strlen(path) + SUFFIX_BYTES <= sizeof temporary); /* cv__file_lock() checked it */
    (void)snprintf(temporary, sizeof temporary, "%s.new", path);
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool is_fine = fd >= 0 && write_whole(fd, bytes, byte_count);
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && is_fine) {
        is_fine = false;
        why = errno;
    }
    if (is_fine && (rename(temporary, path) != 0 || !cv__file_sync_name(path))) {
        is_fine = false;
        why = errno;
    }
    return is_fine ? CV_OK
                   : cv__fail(reterr, CV_E_STORE, "cannot save to '%s': %s", path, strerror(why));
}
