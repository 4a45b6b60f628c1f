/* src/stores/lifeline.h - a named pipe that tells everybody on a host when its holders are gone.
 *
 * The holder of an election keeps the pipe open, and so do all processes that it starts: they
 * inherit the descriptor. A process that reads from the pipe is told by the kernel, within
 * microseconds, when the last of them is gone, however it died; nobody has to write anything. A
 * stopped process still holds it. A process that closes descriptors it does not know of leaves it:
 * that is why the supervisor has its own ways to find all descendants.
 *
 * The name of a pipe is used once only. */
#ifndef CV_STORES_LIFELINE_H
#define CV_STORES_LIFELINE_H

#include "core/types.h"

enum cv_lifeline_state {
    CV_LIFELINE_HELD,    /* somebody has it open */
    CV_LIFELINE_CUT,     /* nobody has */
    CV_LIFELINE_UNKNOWN, /* it cannot be told: the pipe is missing or may not be read */
};

/* Makes the pipe and holds it. Returns the descriptor (close on exec), or -errno; -EEXIST: the name
 * is in use. */
int cv__lifeline_hold(const char *path);

/* Opens it for listening: the descriptor becomes readable when the line is cut. -errno: cannot;
 * -EINVAL: it is no pipe. */
int cv__lifeline_listen(const char *path);

/* What a descriptor for listening says right now. */
enum cv_lifeline_state cv__lifeline_state(int listening);

/* The same for a path. */
enum cv_lifeline_state cv__lifeline_look(const char *path);

#endif
