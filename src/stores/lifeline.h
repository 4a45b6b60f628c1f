/* src/stores/lifeline.h - a named pipe that notifies a host's processes when its holders are gone.
 *
 * The holder of an election keeps the pipe open, and so do all processes that it starts: they
 * inherit the descriptor. The kernel tells every process that reads from the pipe, within
 * microseconds, when the last holder is gone, however it died; no process has to write anything. A
 * stopped process still holds the pipe. A process that closes unknown descriptors no longer holds
 * it; so the supervisor has its own ways to find all descendants.
 *
 * The pipe answers two questions. Is the holder or a descendant left? Then the pipe is open:
 * cv__lifeline_look(). Is a descendant left, whatever the holder does? The holder may be stopped
 * for hours, and must not block other contenders when its lease is over; its command must. So
 * descendants inherit another descriptor (cv__lifeline_bequeath), which is locked. This lock
 * (F_OFD_SETLK) belongs to the open file description, which the copies in all descendants share:
 * the kernel drops it when the last copy is closed.
 *
 * The name of a pipe is used only once. */
#ifndef CV_STORES_LIFELINE_H
#define CV_STORES_LIFELINE_H

#include "core/types.h"

enum cv_lifeline_state {
    CV_LIFELINE_HELD,    /* a process has it open */
    CV_LIFELINE_CUT,     /* nobody has */
    CV_LIFELINE_UNKNOWN, /* not known: the pipe is missing or may not be read */
};

/* Makes the pipe and holds it. Returns the descriptor (close on exec), or -errno; -EEXIST: the name
 * is in use. */
int cv__lifeline_hold(const char *path);

/* Another descriptor (close on exec) of the pipe that `fd` has open, for descendants to inherit;
 * they must not inherit `fd`. -errno: it failed. */
int cv__lifeline_bequeath(int fd);

/* Does a process hold a descriptor of cv__lifeline_bequeath()? False also if not known. */
bool cv__lifeline_is_inherited(const char *path);

/* Opens it for listening: the descriptor becomes readable when the line is cut. -errno: it failed;
 * -EINVAL: not a pipe. */
int cv__lifeline_listen(const char *path);

/* What a descriptor for listening says right now. */
enum cv_lifeline_state cv__lifeline_state(int listening);

/* The same for a path. */
enum cv_lifeline_state cv__lifeline_look(const char *path);

#endif
