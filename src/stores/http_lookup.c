/* src/stores/http_lookup.c - see http_lookup.h. */
#include "stores/http_lookup.h"

#include "core/errors.h"
#include "os/worker.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Threads that look up a name now, cancelled ones included: a name server that stays silent must
 * not use up the threads and descriptors of the process. */
#define LOOKUPS_MAX 16u
static atomic_uint lookup_count;

struct cv_lookup {
    struct cv_worker *worker;
    struct cv_work work;
    char *host, *port;
    struct addrinfo *found; /* written by the thread */
    int failed;
    cv_lookup_then then; /* NULL: cancelled */
    void *user;
};

static void lookup_free(struct cv_lookup *lookup)
{
    free(lookup->host);
    free(lookup->port);
    free(lookup);
}

static void run(void *data)
{
    struct cv_lookup *lookup = data;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    lookup->failed = getaddrinfo(lookup->host, lookup->port, &hints, &lookup->found);
}

static void on_done(void *data)
{
    struct cv_lookup *lookup = data;
    struct addrinfo *found = lookup->failed == 0 ? lookup->found : NULL;
    const char *why = lookup->failed != 0 ? gai_strerror(lookup->failed) : "it has no address";
    cv__worker_free(lookup->worker, NULL, NULL); /* its thread is idle */
    atomic_fetch_sub(&lookup_count, 1);
    if (lookup->then != NULL) {
        lookup->then(lookup->user, found, why);
    }
    if (found != NULL) {
        freeaddrinfo(found);
    }
    lookup_free(lookup);
}

struct cv_lookup *cv__lookup_start(uv_loop_t *loop, const char *host, const char *port,
                                   cv_lookup_then then, void *user, struct cv_errtext *reterr)
{
    if (atomic_fetch_add(&lookup_count, 1) >= LOOKUPS_MAX) {
        atomic_fetch_sub(&lookup_count, 1);
        (void)cv__fail(reterr, CV_E_LIMIT, "%u earlier lookups have no answer yet", LOOKUPS_MAX);
        return NULL;
    }
    struct cv_lookup *lookup = calloc(1, sizeof *lookup);
    if (lookup == NULL) {
        atomic_fetch_sub(&lookup_count, 1);
        (void)cv__fail(reterr, CV_E_MEMORY, "out of memory");
        return NULL;
    }
    lookup->host = strdup(host);
    lookup->port = strdup(port);
    lookup->then = then;
    lookup->user = user;
    lookup->work = (struct cv_work){.run = run, .done = on_done, .data = lookup};
    int code = CV_OK;
    if (lookup->host == NULL || lookup->port == NULL) {
        code = cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    code = code != CV_OK ? code : cv__worker_new(loop, &lookup->worker, reterr);
    if (code != CV_OK) {
        lookup_free(lookup);
        atomic_fetch_sub(&lookup_count, 1);
        return NULL;
    }
    cv__worker_do(lookup->worker, &lookup->work);
    return lookup;
}

void cv__lookup_cancel(struct cv_lookup *lookup)
{
    lookup->then = NULL;
}
