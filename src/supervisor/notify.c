/* src/supervisor/notify.c - see notify.h. */
#include "supervisor/notify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cv__notify_address(const char *text, struct sockaddr_un *ret_address, socklen_t *ret_bytes)
{
    const size_t length = strlen(text);
    memset(ret_address, 0, sizeof *ret_address);
    ret_address->sun_family = AF_UNIX;
    if ((text[0] != '/' && text[0] != '@') || length < 2 ||
        length >= sizeof ret_address->sun_path) {
        return false;
    }
    memcpy(ret_address->sun_path, text, length);
    *ret_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    if (text[0] == '@') {
        ret_address->sun_path[0] = '\0'; /* an abstract name ends by its length, not by a zero */
    } else {
        *ret_bytes += 1; /* the final zero */
    }
    return true;
}

/* Half of systemd's limit, as systemd advises; 0 if the limit is for another process. */
static int64_t watchdog_ns(void)
{
    const char *pid = getenv("WATCHDOG_PID");
    const char *interval = getenv("WATCHDOG_USEC");
    if (interval == NULL || (pid != NULL && strtoll(pid, NULL, 10) != getpid())) {
        return 0;
    }
    const long long us = strtoll(interval, NULL, 10);
    return us > 0 && us < INT64_MAX / NS_PER_US ? us * NS_PER_US / 2 : 0;
}

void cv__notify_open(struct cv_notify *notify)
{
    const char *name = getenv("NOTIFY_SOCKET");
    *notify = (struct cv_notify){.fd = -1};
    if (name != NULL && cv__notify_address(name, &notify->address, &notify->address_bytes)) {
        notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        notify->watchdog_ns = notify->fd >= 0 ? watchdog_ns() : 0;
    }
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

void cv__notify_close(struct cv_notify *notify)
{
    if (notify->fd >= 0) {
        (void)close(notify->fd);
        notify->fd = -1;
    }
}

static void send_text(const struct cv_notify *notify, const char *text)
{
    if (notify->fd >= 0) {
        (void)sendto(notify->fd, text, strlen(text), MSG_NOSIGNAL,
                     (const struct sockaddr *)&notify->address, notify->address_bytes);
    }
}

static void send_status(const struct cv_notify *notify, const char *before, const char *format,
                        va_list args) CV_PRINTF(3, 0);

static void send_status(const struct cv_notify *notify, const char *before, const char *format,
                        va_list args)
{
    char text[CV_NOTIFY_BYTES];
    const int bytes = snprintf(text, sizeof text, "%sSTATUS=", before);
    CV_ASSERT(bytes > 0 && bytes < CV_NOTIFY_BYTES / 2);
    (void)vsnprintf(text + bytes, sizeof text - (size_t)bytes, format, args);
    for (char *at = text + bytes; *at != '\0'; at++) {
        if (*at == '\n') {
            *at = ' '; /* after a newline, the rest would be read as another assignment */
        }
    }
    send_text(notify, text);
}

void cv__notify_ready(const struct cv_notify *notify, const char *format, ...)
{
    char before[64];
    va_list args;
    va_start(args, format);
    (void)snprintf(before, sizeof before, "READY=1\nMAINPID=%d\n", (int)getpid());
    send_status(notify, before, format, args);
    va_end(args);
}

void cv__notify_status(const struct cv_notify *notify, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    send_status(notify, "", format, args);
    va_end(args);
}

void cv__notify_stopping(const struct cv_notify *notify)
{
    send_text(notify, "STOPPING=1");
}

void cv__notify_watchdog(const struct cv_notify *notify)
{
    send_text(notify, "WATCHDOG=1");
}
