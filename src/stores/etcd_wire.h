/* src/stores/etcd_wire.h - calls to etcd's JSON gateway: one at a time, at whichever member
 * answers.
 *
 * A call is tried at each endpoint in turn until one gives an answer that is not a passing failure,
 * so everything that is asked must bear to be said twice. It ends in `then`, or in `failed`. With a
 * user, the ticket is fetched before the first call and again when it has run out. */
#ifndef CV_STORES_ETCD_WIRE_H
#define CV_STORES_ETCD_WIRE_H

#include "core/address.h"
#include "stores/http.h"
#include "stores/remote.h"
#include "stores/value.h"

#include <cjson/cJSON.h>

#define CV_ETCD_ENDPOINTS_MAX 16
#define CV_ETCD_PREFIX_BYTES 128
#define CV_ETCD_KEY_BYTES (CV_ETCD_PREFIX_BYTES + CV_REMOTE_TEXT_BYTES + 64)
#define CV_ETCD_BODY_BYTES (64 * 1024) /* more than any transaction of ours */

enum { /* of gRPC, as far as we tell them apart */
       CV_ETCD_OK = 0,
       CV_ETCD_DEADLINE = 4,
       CV_ETCD_NOT_FOUND = 5,
       CV_ETCD_PRECONDITION = 9,
       CV_ETCD_UNAVAILABLE = 14,
       CV_ETCD_UNAUTHENTICATED = 16,
};

struct cv_etcd_wire {
    struct cv_http *http;
    char endpoint[CV_ETCD_ENDPOINTS_MAX][300]; /* URLs */
    uint32_t endpoint_count, endpoint_now;
    char user[128], password[256];
    char authorization[512]; /* empty: not asked for yet */

    /* The call at work. */
    struct cv_http_call *call;
    const char *path;
    char body[CV_ETCD_BODY_BYTES];
    void (*then)(struct cv_store *store, const cJSON *reply, int code);
    uint32_t try_count;
    bool is_login_tried;
    int64_t begin_ns;    /* before it was first sent */
    int64_t deadline_ns; /* for the caller to set */

    /* Of the latest answer. */
    char error[256];
    uint64_t member, term;
    int64_t revision;

    struct cv_store *store;                                  /* lent to the three */
    void (*failed)(struct cv_store *store, const char *why); /* no member gave an answer */
    void (*rotated)(struct cv_store *store);                 /* another member will be asked */
};

/* Reads hosts, user, secrets and files. The wire is zero but for its last three members. */
CV_NODISCARD int cv__etcd_wire_open(struct cv_etcd_wire *wire, uv_loop_t *loop,
                                    const struct cv_address *address, struct cv_errtext *reterr);
void cv__etcd_wire_close(struct cv_etcd_wire *wire); /* with every call; accepts the half-open */

/* The member that is asked now, for people: host:port. */
const char *cv__etcd_wire_host(const struct cv_etcd_wire *wire);
void cv__etcd_wire_rotate(struct cv_etcd_wire *wire);

/* wire->body is written piece by piece, then sent. `reply` is NULL unless the code is CV_ETCD_OK;
 * it is lent. */
void cv__etcd_body_begin(struct cv_etcd_wire *wire);
void cv__etcd_body_print(struct cv_etcd_wire *wire, const char *format, ...) CV_PRINTF(2, 3);
void cv__etcd_wire_call(struct cv_etcd_wire *wire, const char *path,
                        void (*then)(struct cv_store *store, const cJSON *reply, int code));
void cv__etcd_wire_stop(struct cv_etcd_wire *wire);

/* A call beside the one at work, at the present member, which nobody repeats. A stream if `line`.
 */
struct cv_http_call *cv__etcd_wire_post(struct cv_etcd_wire *wire, const char *path,
                                        const char *body,
                                        void (*line)(void *user, const char *line),
                                        void (*done)(void *user, const struct cv_http_result *r),
                                        void *user);

/* The gateway writes bytes in base64, and 64-bit numbers as strings; it leaves zeros out. */
struct cv_text64 {
    char text[CV_VALUE_BYTES * 2 > CV_ETCD_KEY_BYTES * 4 / 3 + 8 ? CV_VALUE_BYTES * 2
                                                                 : CV_ETCD_KEY_BYTES * 4 / 3 + 8];
};
const char *cv__etcd_encode(const char *from, struct cv_text64 *to);
void cv__etcd_decode(const char *from, char *ret_text, size_t text_bytes); /* cut at its bound */
uint64_t cv__etcd_number(const cJSON *object, const char *name);
const char *cv__etcd_string(const cJSON *object, const char *name); /* "": there is none */

#endif
