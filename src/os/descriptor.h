/* src/os/descriptor.h - chooses the number of a descriptor, and tells when there is none.
 *
 * When a process is killed, Linux closes its descriptors one after the other, the highest number
 * first. Some take milliseconds (an inotify watch waits for all processors). If other processes
 * wait for the closing of a descriptor, it gets a high number, so that it is closed first. */
#ifndef CV_OS_DESCRIPTOR_H
#define CV_OS_DESCRIPTOR_H

#include <conclave/errors.h>

#include <errno.h>

/* Moves a descriptor to a high number and sets close-on-exec. If it cannot be moved, returns it
 * unchanged: everything works, but the other processes learn of the end later. */
int cv__descriptor_raise(int fd);

/* The code for a call that failed with this errno: CV_E_LIMIT if no descriptors are left, because
 * then nothing is wrong with the file, the address or the device; otherwise `code`. */
static inline int cv__descriptor_code(int error, int code)
{
    return error == EMFILE || error == ENFILE ? CV_E_LIMIT : code;
}

#endif
