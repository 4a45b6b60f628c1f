/* src/supervisor/notify.h - reports the state to systemd: one datagram each, no library.
 *
 * Open it before the supervisor: it takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the
 * environment, so that the command cannot send reports in our name. Without NOTIFY_SOCKET
 * these functions do nothing. A message that cannot be sent is lost; nothing waits for systemd. */
#ifndef CV_SUPERVISOR_NOTIFY_H
#define CV_SUPERVISOR_NOTIFY_H

#include "core/types.h"

#include <sys/socket.h>
#include <sys/un.h>

#define CV_NOTIFY_BYTES 512 /* longer messages are cut */

struct cv_notify {
    int fd; /* -1: there is no NOTIFY_SOCKET */
    struct sockaddr_un address;
    socklen_t address_bytes;
    int64_t
        watchdog_ns; /* longest time between two WATCHDOG=1: half of systemd's limit; 0: no limit */
};

void cv__notify_open(struct cv_notify *notify);
void cv__notify_close(struct cv_notify *notify);

/* "READY=1" and a STATUS, with our pid as MAINPID. */
void cv__notify_ready(const struct cv_notify *notify, const char *format, ...) CV_PRINTF(2, 3);
void cv__notify_status(const struct cv_notify *notify, const char *format, ...) CV_PRINTF(2, 3);
void cv__notify_stopping(const struct cv_notify *notify);
void cv__notify_watchdog(const struct cv_notify *notify);

/* A path, or '@' and an abstract name. False: neither, or too long. Public for tests. */
bool cv__notify_address(const char *text, struct sockaddr_un *ret_address, socklen_t *ret_bytes);

#endif
