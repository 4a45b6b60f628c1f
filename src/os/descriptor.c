/* src/os/descriptor.c - see descriptor.h. */
#include "os/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#define HIGH 240 /* above what small programs use, within the kernel's table of 256 */

int cv__descriptor_raise(int fd)
{
    const int raised = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
    if (raised < 0) {
        return fd;
    }
    (void)close(fd); /* a copy */
    return raised;
}
