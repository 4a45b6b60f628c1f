/* src/stores/lifeline.c - named pipes that living processes hold open for writing. */
#include "stores/lifeline.h"

#include "os/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int cv__lifeline_hold(const char *path)
{
    if (mkfifo(path, 0640) != 0) {
        return -errno;
    }
    /* For reading, too: opening for writing alone fails while nobody listens. */
    const int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        const int error = errno;
        (void)unlink(path); /* best effort: nobody knows the name yet */
        return -error;
    }
    return cv__descriptor_raise(fd); /* others wait for it to be closed */
}

/* Opens the pipe again: a copy made by dup() would share its lock with our own descriptor, which
 * would keep the lock. */
int cv__lifeline_bequeath(int fd)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int opened = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (opened >= 0) {
        /* A shared lock, so that a second one on the same pipe does not fail. */
        struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
        (void)fcntl(opened, F_OFD_SETLK, &lock); /* if it fails, the lease decides */
        return opened;
    }
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* there is no /proc */
    return copy >= 0 ? copy : -errno;
}

bool cv__lifeline_is_inherited(const char *path)
{
    const int listening = cv__lifeline_listen(path);
    if (listening < 0) {
        return false;
    }
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const bool is_known = fcntl(listening, F_OFD_GETLK, &lock) == 0;
    (void)close(listening); /* nothing was written */
    return is_known && lock.l_type != F_UNLCK;
}

int cv__lifeline_listen(const char *path)
{
    const int listening = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (listening < 0) {
        return -errno;
    }
    struct stat is;
    if (fstat(listening, &is) != 0 || !S_ISFIFO(is.st_mode)) {
        (void)close(listening); /* an empty file would look like a pipe that nobody holds */
        return -EINVAL;
    }
    return listening;
}

enum cv_lifeline_state cv__lifeline_state(int listening)
{
    char byte;
    const ssize_t got = read(listening, &byte, 1);
    if (got == 0) {
        return CV_LIFELINE_CUT;
    }
    return got < 0 && errno == EAGAIN ? CV_LIFELINE_HELD : CV_LIFELINE_UNKNOWN;
}

enum cv_lifeline_state cv__lifeline_look(const char *path)
{
    const int listening = cv__lifeline_listen(path);
    if (listening < 0) {
        return CV_LIFELINE_UNKNOWN;
    }
    const enum cv_lifeline_state state = cv__lifeline_state(listening);
    (void)close(listening); /* nothing was written that could be lost */
    return state;
}
