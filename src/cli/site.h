/* src/cli/site.h - serves the files of one folder to browsers on this machine.
 *
 * HTTP/1.1 as far as a browser needs it: GET and HEAD of names in one folder, a connection for each
 * answer. Only 127.0.0.1 is listened to, and a request that names another host is refused: a page
 * from elsewhere must not read what is served here by a name that leads to this address. */
#ifndef CV_CLI_SITE_H
#define CV_CLI_SITE_H

#include "core/types.h"

#include <uv.h>

#define CV_SITE_REQUEST_BYTES 8192u /* a longer one is refused */
#define CV_SITE_CONNECTIONS_MAX 64u /* beyond that nobody is accepted until one ends */

struct cv_site {
    uv_loop_t *loop;
    uv_tcp_t server;
    const char *folder;
    char *const *files;  /* what /file, /file-2, /file-3 ... are */
    uint32_t file_count; /* 0: there is none */
    uint16_t port;
    uint32_t connection_count;
};

/* Listens; port 0: any that is free, and site->port says which. `folder` and `files` are lent. */
CV_NODISCARD int cv__site_open(struct cv_site *site, uv_loop_t *loop, const char *folder,
                               char *const *files, uint32_t file_count, uint16_t port,
                               struct cv_errtext *reterr);
/* Ends when the loop has run on; connections end with it. */
void cv__site_close(struct cv_site *site);

#endif
