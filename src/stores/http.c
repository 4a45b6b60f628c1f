/* src/stores/http.c - see http.h. Chooses the client. */
#include "stores/http.h"

#include "core/errors.h"
#include "core/types.h"
#include "modules/module.h"
#include "stores/http_client.h"

int cv__http_new(uv_loop_t *loop, const struct cv_http_tls *tls, struct cv_http **ret_http,
                 struct cv_errtext *reterr)
{
    const struct cv_http_client *client =
        tls->is_used ? cv__module_table("tls", reterr) : &cv__http_plain;
    if (client == NULL) {
        return CV_E_UNKNOWN;
    }
    *ret_http = client->new (loop, tls);
    if (*ret_http == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    CV_ASSERT((*ret_http)->client == client);
    return CV_OK;
}

struct cv_http_call *cv__http_post(struct cv_http *http, const struct cv_http_post *post)
{
    return http->client->post(http, post);
}

void cv__http_cancel(struct cv_http_call *call)
{
    call->http->client->cancel(call);
}

void cv__http_free(struct cv_http *http)
{
    http->client->free(http);
}
