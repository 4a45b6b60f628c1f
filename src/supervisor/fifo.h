/* src/supervisor/fifo.h - writes changes to a FIFO, in the form of keepalived.
 *
 * A line is INSTANCE "NAME" MASTER 100. The FIFO is opened for reading and writing, as keepalived
 * does: then opening never waits, a late reader finds the earlier lines in order, and no reader
 * sees an end of file between two lines. When the pipe is full, lines are dropped and counted; the
 * latest is kept and written as soon as there is room, so the last line is always the current
 * state. */
#ifndef CV_SUPERVISOR_FIFO_H
#define CV_SUPERVISOR_FIFO_H

#include "core/types.h"

#define CV_FIFO_LINE_BYTES \
    640 /* a name of 255 bytes, all of them quoted; below PIPE_BUF: whole lines */

struct cv_fifo {
    int fd;           /* -1: none */
    bool is_waiting;  /* `line` is not written yet */
    uint64_t dropped; /* lines that were replaced by a later one */
    char line[CV_FIFO_LINE_BYTES];
};

/* Creates the FIFO (mode 0600) if nothing of that name exists. */
CV_NODISCARD int cv__fifo_open(struct cv_fifo *fifo, const char *path, struct cv_errtext *reterr);
void cv__fifo_close(struct cv_fifo *fifo);

void cv__fifo_write(struct cv_fifo *fifo, const char *name, const char *state, uint32_t priority);
/* Tries again to write a line that waits. */
void cv__fifo_flush(struct cv_fifo *fifo);

#endif
