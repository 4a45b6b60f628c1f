/* src/stores/etcd_wire.h - calls to etcd's JSON gateway: many at once, at any member that answers.
 *
 * A call is tried at each endpoint in turn until one gives an answer that is not a temporary
 * failure, so every request must be repeatable. A call ends in exactly one `then`, from the loop
 * and never from within cv__etcd_call(), unless it is cancelled. When a member fails, all calls
 * leave it at once. With a user, the token of the login is fetched before the first call and again
 * when it has expired. */
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
#define CV_ETCD_TICKET_BYTES 2048 /* etcd's own are short, a signed one has several hundred */

enum {                         /* codes of gRPC that we distinguish */
       CV_ETCD_NO_ANSWER = -1, /* ours: no member gave one */
       CV_ETCD_OK = 0,
       CV_ETCD_UNKNOWN = 2,
       CV_ETCD_DEADLINE = 4,
       CV_ETCD_NOT_FOUND = 5,
       CV_ETCD_PRECONDITION = 9,
       CV_ETCD_UNAVAILABLE = 14,
       CV_ETCD_UNAUTHENTICATED = 16,
};

/* All of it is lent. */
struct cv_etcd_answer {
    int code;           /* CV_ETCD_* or another one of gRPC */
    const cJSON *reply; /* NULL unless the code is CV_ETCD_OK */
    const char *error;  /* otherwise: one line */
    int part;           /* READ, WRITE: index of its first response */
    int64_t begin_ns;   /* before it was first sent */
    int64_t revision;
};
typedef void (*cv_etcd_then)(void *user, const struct cv_etcd_answer *answer);

struct cv_etcd_call;
struct cv_etcd_txn;

struct cv_etcd_wire {
    struct cv_http *http;
    struct cv_http_tls tls;
    char endpoint[CV_ETCD_ENDPOINTS_MAX][300]; /* URLs */
    uint32_t endpoint_count, endpoint_now;
    char user[128], password[256];
    char authorization[CV_ETCD_TICKET_BYTES]; /* empty: not asked for yet */
    uint64_t ticket;                          /* grows with each new authorization */
    struct cv_http_call *login;

    struct cv_etcd_call *calls;
    uint64_t call_count; /* the number of the latest call */

    struct cv_etcd_txn *waiting, **waiting_end; /* transactions of this turn of the loop */
    struct cv_etcd_batch *batches;              /* those on their way */
    uint32_t batch_count;
    uv_timer_t flush; /* its owner closes it, after the wire */

    int64_t revision; /* of the latest answer */

    void *owner;                  /* lent to the next */
    void (*rotated)(void *owner); /* another member will be asked; may not end the wire */
};

/* Reads hosts, user, secrets and files; the rest of *wire is zero. Begins nothing.
 * needs_no_secrets: as in a store's setting. */
CV_NODISCARD int cv__etcd_wire_read(struct cv_etcd_wire *wire, const struct cv_address *address,
                                    bool needs_no_secrets, struct cv_errtext *reterr);
CV_NODISCARD int cv__etcd_wire_open(struct cv_etcd_wire *wire, uv_loop_t *loop,
                                    struct cv_errtext *reterr);
void cv__etcd_wire_close(struct cv_etcd_wire *wire); /* with every call */

/* The member that is asked now, for people: host:port. */
const char *cv__etcd_wire_host(const struct cv_etcd_wire *wire);
/* Does this text name one of the members? */
bool cv__etcd_wire_is_named(const struct cv_etcd_wire *wire, const char *text);

/* A text that grows. Without memory it stays as it is, and the call that takes it is not made. */
struct cv_etcd_body {
    char *text;
    size_t length, room;
    bool is_failed;
};
void cv__etcd_body_print(struct cv_etcd_body *body, const char *format, ...) CV_PRINTF(2, 3);
/* A text of any length, in base64. */
void cv__etcd_body_text64(struct cv_etcd_body *body, const char *text);

/* Transactions of many elections travel together: those that are asked for in the same turn of the
 * loop, or while the cluster is busy with two others. What may be joined, and why no more:
 *   READ    ranges only: all see the same state, and a read decides nothing.
 *   WRITE   puts and deletions without conditions, at most one of each group: all keys that are put
 *           in one transaction get the same revision, and two of one election must not.
 *   ALONE   a whole {"compare":..,"success":..,"failure":..}.
 * Reads and writes are never mixed, and transactions never nested: etcd checks the permission for
 * a range only at the member that was asked, and none within a nested transaction, so that a
 * refusal can leave the members of the cluster with different data (seen with etcd 3.4.23).
 * If the whole is refused, each part is asked again alone. */
enum cv_etcd_txn_kind { CV_ETCD_READ, CV_ETCD_WRITE, CV_ETCD_ALONE };

/* The body of READ and WRITE is a list of `op_count` operations. `group` is lent until the end;
 * NULL: none. Takes the body; `then` as below. NULL: out of memory, and `then` does not come. */
struct cv_etcd_txn *cv__etcd_txn(struct cv_etcd_wire *wire, enum cv_etcd_txn_kind kind,
                                 uint32_t op_count, const char *group, struct cv_etcd_body *body,
                                 int64_t deadline_ns, cv_etcd_then then, void *user);
void cv__etcd_txn_cancel(struct cv_etcd_txn *txn); /* it may still be carried out */

/* Takes the body. NULL: out of memory, and `then` does not come. */
struct cv_etcd_call *cv__etcd_call(struct cv_etcd_wire *wire, const char *path,
                                   struct cv_etcd_body *body, int64_t deadline_ns,
                                   cv_etcd_then then, void *user);
void cv__etcd_call_cancel(struct cv_etcd_call *call);

/* Starts a stream at the present member, and never repeats it. Takes the body. NULL: out of
 * memory. */
struct cv_http_call *cv__etcd_stream(struct cv_etcd_wire *wire, const char *path,
                                     struct cv_etcd_body *body,
                                     void (*line)(void *user, const char *line),
                                     void (*done)(void *user, const struct cv_http_result *r),
                                     void *user);

/* The gateway writes bytes in base64, and 64-bit numbers as strings; it leaves zeros out. */
struct cv_text64 {
    char text[CV_VALUE_BYTES * 2 > CV_ETCD_KEY_BYTES * 4 / 3 + 8 ? CV_VALUE_BYTES * 2
                                                                 : CV_ETCD_KEY_BYTES * 4 / 3 + 8];
};
const char *cv__etcd_encode(const char *from, struct cv_text64 *to);
/* False: it was cut at its bound, or holds a zero byte. */
bool cv__etcd_decode(const char *from, char *ret_text, size_t text_bytes);
/* 0: there is none, or it does not fit. */
uint64_t cv__etcd_number(const cJSON *object, const char *name);
/* The same within 0..max, for what is computed with. */
int64_t cv__etcd_number_to(const cJSON *object, const char *name, int64_t max);
const char *cv__etcd_string(const cJSON *object, const char *name); /* "": there is none */

#endif
