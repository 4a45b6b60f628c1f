/* src/cli/webserver.h - serves the files of one folder to browsers on this machine.
 *
 * HTTP/1.1 as far as a browser needs it: GET and HEAD of names in one folder, a connection for each
 * answer. It listens on 127.0.0.1 only. A request with another name in its Host header is refused:
 * otherwise a foreign page could read these files through a host name of its own that resolves to
 * 127.0.0.1. */
#ifndef CV_CLI_WEBSERVER_H
#define CV_CLI_WEBSERVER_H

#include "core/types.h"

#include <uv.h>

#define CV_WEBSERVER_REQUEST_BYTES 8192u /* a longer one is refused */
#define CV_WEBSERVER_CONNECTIONS_MAX 64u /* further ones are closed at once */

struct cv_webserver {
    uv_loop_t *loop;
    uv_tcp_t listener;
    const char *folder;
    char *const *files;  /* served as /file, /file-2, /file-3 ... */
    uint32_t file_count; /* 0: there is none */
    uint16_t port;
    uint32_t connection_count;
};

/* Listens; port 0: any that is free, and web->port says which. `folder` and `files` are lent. */
CV_NODISCARD int cv__webserver_open(struct cv_webserver *web, uv_loop_t *loop, const char *folder,
                                    char *const *files, uint32_t file_count, uint16_t port,
                                    struct cv_errtext *reterr);
/* Closes the listener and all connections; run the loop until they are closed. */
void cv__webserver_close(struct cv_webserver *web);

#endif
