/* src/supervisor/fifo.c - see fifo.h. */
#include "supervisor/fifo.h"

#include "core/errors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES_MAX 255u

int cv__fifo_open(struct cv_fifo *fifo, const char *path, struct cv_errtext *reterr)
{
    struct stat stat;
    *fifo = (struct cv_fifo){.fd = -1};
    if (mkfifo(path, 0600) != 0 && errno != EEXIST) {
        return cv__fail(reterr, CV_E_IO, "cannot create the FIFO '%s': %s", path, strerror(errno));
    }
    const int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return cv__fail(reterr, CV_E_IO, "cannot open the FIFO '%s': %s", path, strerror(errno));
    }
    if (fstat(fd, &stat) != 0 || !S_ISFIFO(stat.st_mode)) {
        (void)close(fd);
        return cv__fail(reterr, CV_E_IO, "'%s' exists, but is not a FIFO", path);
    }
    fifo->fd = fd;
    return CV_OK;
}

void cv__fifo_close(struct cv_fifo *fifo)
{
    if (fifo->fd >= 0) {
        (void)close(fifo->fd);
        fifo->fd = -1;
    }
}

/* The line, with its newline. Quotes and backslashes in the name get a backslash. */
static void fifo_line(char ret_line[CV_FIFO_LINE_BYTES], const char *name, const char *state,
                      uint32_t priority)
{
    char quoted[2 * NAME_BYTES_MAX + 1];
    size_t bytes = 0;
    for (const char *at = name; *at != '\0' && bytes + 2 < sizeof quoted; at++) {
        if (*at == '"' || *at == '\\') {
            quoted[bytes++] = '\\';
        }
        quoted[bytes++] = *at == '\n' ? ' ' : *at;
    }
    quoted[bytes] = '\0';
    (void)snprintf(ret_line, CV_FIFO_LINE_BYTES, "INSTANCE \"%s\" %s %u\n", quoted, state,
                   priority);
}

void cv__fifo_flush(struct cv_fifo *fifo)
{
    if (fifo->fd >= 0 && fifo->is_waiting) {
        /* A line below PIPE_BUF is written whole or not at all. */
        const ssize_t wrote = write(fifo->fd, fifo->line, strlen(fifo->line));
        fifo->is_waiting = wrote < 0 && (errno == EAGAIN || errno == EINTR);
    }
}

void cv__fifo_write(struct cv_fifo *fifo, const char *name, const char *state, uint32_t priority)
{
    if (fifo->fd < 0) {
        return;
    }
    cv__fifo_flush(fifo);
    fifo->dropped += fifo->is_waiting;
    fifo_line(fifo->line, name, state, priority);
    fifo->is_waiting = true;
    cv__fifo_flush(fifo);
}
