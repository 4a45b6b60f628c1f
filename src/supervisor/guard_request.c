/* src/supervisor/guard_request.c - requests from the supervisor to the guard, and from the guard to
 * the next command's process, with a descriptor to inherit. See guard.h. */
#include "supervisor/guard.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

bool cv__guard_send(int socket_fd, const struct cv_guard_request *request, int inherit_fd)
{
    union control control = {0};
    struct cv_guard_request copy = *request;
    struct iovec part = {.iov_base = &copy, .iov_len = sizeof copy};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (inherit_fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &inherit_fd, sizeof inherit_fd);
    }
    return sendmsg(socket_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof copy;
}

ssize_t cv__guard_receive(int socket_fd, struct cv_guard_request *ret_request, int *ret_inherit_fd,
                          bool waits)
{
    union control control;
    struct iovec part = {.iov_base = ret_request, .iov_len = sizeof *ret_request};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };
    const ssize_t got = recvmsg(socket_fd, &message, (waits ? 0 : MSG_DONTWAIT) | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        if (*ret_inherit_fd >= 0) {
            (void)close(*ret_inherit_fd);
        }
        memcpy(ret_inherit_fd, CMSG_DATA(header), sizeof *ret_inherit_fd);
    }
    return got;
}
