/* src/stores/http_lookup.h - the addresses of a host name, without waiting on the loop.
 *
 * getaddrinfo(3) may take many seconds, so each lookup has a thread of its own: a name server that
 * is silent for one name holds up no other. */
#ifndef CV_STORES_HTTP_LOOKUP_H
#define CV_STORES_HTTP_LOOKUP_H

#include <conclave/errors.h>

#include <netdb.h>
#include <uv.h>

struct cv_lookup;

/* From the loop, once, unless it is cancelled. `found` is lent; NULL: `why` says why not. */
typedef void (*cv_lookup_then)(void *user, const struct addrinfo *found, const char *why);

/* Texts are copied. NULL: out of memory, threads or descriptors, or too many lookups have no answer
 * yet. */
struct cv_lookup *cv__lookup_start(uv_loop_t *loop, const char *host, const char *port,
                                   cv_lookup_then then, void *user, struct cv_errtext *reterr);

/* `then` is not called any more. The thread goes on until the name server has answered or has not
 * in its time, and the loop has a handle so long. */
void cv__lookup_cancel(struct cv_lookup *lookup);

#endif
