/* src/stores/etcd_wire.c - see etcd_wire.h. */
#include "stores/etcd_wire.h"

#include "core/errors.h"
#include "os/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- JSON and base64 ----------------------------------------------------------------------- */

const char *cv__etcd_encode(const char *from, struct cv_text64 *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t bytes = strlen(from);
    char *out = to->text;
    CV_ASSERT(bytes * 4 / 3 + 8 < sizeof to->text);
    for (size_t i = 0; i < bytes; i += 3) {
        uint32_t word = (uint32_t)(unsigned char)from[i] << 16;
        word |= i + 1 < bytes ? (uint32_t)(unsigned char)from[i + 1] << 8 : 0;
        word |= i + 2 < bytes ? (uint32_t)(unsigned char)from[i + 2] : 0;
        *out++ = digits[word >> 18];
        *out++ = digits[word >> 12 & 63];
        *out++ = i + 1 < bytes ? digits[word >> 6 & 63] : '=';
        *out++ = i + 2 < bytes ? digits[word & 63] : '=';
    }
    *out = '\0';
    return to->text;
}

static int digit64(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool cv__etcd_decode(const char *from, char *ret_text, size_t text_bytes)
{
    size_t length = 0;
    uint32_t word = 0;
    int bits = 0;
    bool is_whole = true;
    for (; digit64(*from) >= 0; from++) {
        word = (word & 0x3fff) << 6 | (uint32_t)digit64(*from);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            const char byte = (char)(word >> bits & 0xff);
            is_whole = is_whole && byte != '\0' && length + 1 < text_bytes;
            if (length + 1 < text_bytes) {
                ret_text[length++] = byte;
            }
        }
    }
    ret_text[length] = '\0';
    return is_whole;
}

/* A string of decimal digits that fits; otherwise 0. */
static uint64_t number_of_text(const char *text)
{
    uint64_t number = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        const uint64_t digit = (uint64_t)(*text - '0');
        if (number > (UINT64_MAX - digit) / 10) {
            return 0;
        }
        number = number * 10 + digit;
    }
    return *text == '\0' ? number : 0;
}

uint64_t cv__etcd_number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    const char *text = cJSON_GetStringValue(item);
    if (text != NULL) {
        return number_of_text(text);
    }
    const double number = cJSON_IsNumber(item) ? item->valuedouble : 0;
    return number >= 1 && number < 9007199254740992.0 ? (uint64_t)number : 0; /* exact up to 2^53 */
}

int64_t cv__etcd_number_to(const cJSON *object, const char *name, int64_t max)
{
    const uint64_t number = cv__etcd_number(object, name);
    return number > (uint64_t)max ? max : (int64_t)number;
}

const char *cv__etcd_string(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text != NULL ? text : "";
}

void cv__etcd_body_print(struct cv_etcd_body *body, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int more = vsnprintf(NULL, 0, format, args);
    va_end(args);
    CV_ASSERT(more >= 0); /* the formats are ours */
    const size_t needed = body->length + (size_t)more + 1;
    if (needed > body->room && !body->is_failed) {
        char *text = realloc(body->text, 2 * needed);
        body->is_failed = text == NULL;
        body->text = text != NULL ? text : body->text;
        body->room = text != NULL ? 2 * needed : body->room;
    }
    if (!body->is_failed) {
        (void)vsnprintf(body->text + body->length, body->room - body->length, format, again);
        body->length += (size_t)more;
    }
    va_end(again);
}

void cv__etcd_body_text64(struct cv_etcd_body *body, const char *text)
{
    char part[256 * 3 + 1]; /* of whole groups of three, so that the parts can be joined */
    struct cv_text64 part64;
    for (; *text != '\0'; text += strlen(part)) {
        (void)snprintf(part, sizeof part, "%s", text);
        cv__etcd_body_print(body, "%s", cv__etcd_encode(part, &part64));
    }
}

/* ---- Calls --------------------------------------------------------------------------------- */

struct cv_etcd_call {
    struct cv_etcd_wire *wire;
    struct cv_etcd_call *next;
    struct cv_http_call *http; /* NULL: it waits for the ticket */
    const char *path;
    char *body;
    cv_etcd_then then;
    void *user;
    uint64_t number;
    int64_t begin_ns, deadline_ns;
    uint32_t endpoint, try_count;
    uint64_t ticket; /* that it was sent with */
    bool is_login_tried;
};

static bool call_send(struct cv_etcd_call *call);

const char *cv__etcd_wire_host(const struct cv_etcd_wire *wire)
{
    return strstr(wire->endpoint[wire->endpoint_now], "//") + 2;
}

bool cv__etcd_wire_is_named(const struct cv_etcd_wire *wire, const char *text)
{
    for (uint32_t i = 0; i < wire->endpoint_count; i++) {
        if (strstr(text, strstr(wire->endpoint[i], "//") + 2) != NULL) {
            return true;
        }
    }
    return false;
}

/* Many calls may fail at the same member: only the first of them goes on to the next one. */
static void rotate_from(struct cv_etcd_wire *wire, uint32_t endpoint)
{
    if (wire->endpoint_now == endpoint) {
        wire->endpoint_now = (wire->endpoint_now + 1) % wire->endpoint_count;
        wire->rotated(wire->owner);
    }
}

static void call_free(struct cv_etcd_call *call)
{
    struct cv_etcd_call **at = &call->wire->calls;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    free(call->body);
    free(call);
}

/* The wire may be closed when this returns. */
static void call_end(struct cv_etcd_call *call, struct cv_etcd_answer answer)
{
    const cv_etcd_then then = call->then;
    void *user = call->user;
    answer.begin_ns = call->begin_ns;
    call_free(call);
    then(user, &answer);
}

static void call_fail(struct cv_etcd_call *call, const char *why)
{
    call_end(call, (struct cv_etcd_answer){.code = CV_ETCD_NO_ANSWER, .error = why});
}

void cv__etcd_call_cancel(struct cv_etcd_call *call)
{
    if (call->http != NULL) {
        cv__http_cancel(call->http);
    }
    call_free(call);
}

/* What the server or the HTTP client said, in one line that is never empty. */
static void say_why(const struct cv_http_result *result, const char *message, char *ret_why,
                    size_t why_bytes)
{
    cv__remote_one_line(result->status == 0 ? result->why : message, ret_why, why_bytes);
    if (ret_why[0] == '\0') {
        (void)snprintf(ret_why, why_bytes, "an answer that is not from etcd");
    }
}

/* ---- The ticket ---------------------------------------------------------------------------- */

/* A call that waits for the ticket, and was made before the answer about it came. */
static struct cv_etcd_call *first_waiting(struct cv_etcd_wire *wire, uint64_t number_max)
{
    struct cv_etcd_call *call = wire->calls;
    while (call != NULL && (call->http != NULL || call->number > number_max)) {
        call = call->next;
    }
    return call;
}

static void tell_waiting(struct cv_etcd_wire *wire, const char *why)
{
    const uint64_t number_max = wire->call_count;
    for (struct cv_etcd_call *call; (call = first_waiting(wire, number_max)) != NULL;) {
        if (why != NULL) {
            call_fail(call, why);
        } else if (!call_send(call)) {
            call_fail(call, "out of memory");
        }
    }
}

/* A ticket becomes a header of each request, so a server must not put a line end into it. */
static bool is_ticket(const char *text)
{
    const char *at = text;
    while (*at > ' ' && *at <= '~') {
        at++;
    }
    return at != text && *at == '\0' && at - text < CV_ETCD_TICKET_BYTES;
}

static void on_login(void *user, const struct cv_http_result *result)
{
    struct cv_etcd_wire *wire = user;
    wire->login = NULL;
    cJSON *reply = cJSON_ParseWithLength(result->body, result->body_bytes);
    const char *ticket = cv__etcd_string(reply, "token");
    char why[256] = "";
    if (result->status == 200 && is_ticket(ticket)) {
        (void)snprintf(wire->authorization, sizeof wire->authorization, "%s", ticket);
        wire->ticket++;
    } else {
        say_why(result, cv__etcd_string(reply, "message"), why, sizeof why);
    }
    cJSON_Delete(reply);
    if (result->status == 0) {
        rotate_from(wire, wire->endpoint_now);
    }
    tell_waiting(wire, why[0] != '\0' ? why : NULL);
}

/* False: out of memory. */
static bool login(struct cv_etcd_wire *wire)
{
    if (wire->login != NULL) {
        return true;
    }
    cJSON *object = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(object, "name", wire->user);
    (void)cJSON_AddStringToObject(object, "password", wire->password);
    char *body = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    char url[400];
    (void)snprintf(url, sizeof url, "%s/v3/auth/authenticate", wire->endpoint[wire->endpoint_now]);
    const struct cv_http_post post = {
        .url = url, .body = body, .timeout_ns = 2 * NS_PER_S, .done = on_login, .user = wire};
    wire->login = body != NULL ? cv__http_post(wire->http, &post) : NULL;
    free(body);
    return wire->login != NULL;
}

/* ---- Asking -------------------------------------------------------------------------------- */

static bool is_passing(const struct cv_http_result *result, int code)
{
    return result->status == 0 || code == CV_ETCD_UNAVAILABLE || code == CV_ETCD_DEADLINE ||
           (result->status >= 500 && code != CV_ETCD_NOT_FOUND);
}

/* What an answer says; streams have one more layer. */
static void answer_read(const struct cv_http_result *result, const cJSON *whole, char error[256],
                        struct cv_etcd_answer *ret_answer)
{
    const cJSON *reply = cJSON_GetObjectItemCaseSensitive(whole, "result");
    reply = reply != NULL ? reply : whole;
    const cJSON *fault = cJSON_GetObjectItemCaseSensitive(whole, "error");
    const bool is_fine = result->status == 200 && whole != NULL && fault == NULL;
    const cJSON *said = cJSON_IsObject(fault) ? fault : whole;
    int64_t code = cv__etcd_number_to(said, "code", INT16_MAX);
    code = code != 0 ? code : cv__etcd_number_to(said, "grpc_code", INT16_MAX);
    say_why(result, cv__etcd_string(said, "message"), error, 256);
    const cJSON *header = cJSON_GetObjectItemCaseSensitive(reply, "header");
    *ret_answer =
        (struct cv_etcd_answer){.code = is_fine     ? CV_ETCD_OK
                                        : code != 0 ? (int)code
                                                    : CV_ETCD_UNKNOWN,
                                .reply = is_fine ? reply : NULL,
                                .error = error,
                                .revision = cv__etcd_number_to(header, "revision", INT64_MAX - 1)};
}

/* The member failed: tries the next one, if there is time. */
static void call_again(struct cv_etcd_call *call, const char *why)
{
    rotate_from(call->wire, call->endpoint);
    call->try_count++;
    const bool is_over =
        call->try_count >= call->wire->endpoint_count || cv__clock_now_ns() >= call->deadline_ns;
    if (is_over || !call_send(call)) {
        call_fail(call, why);
    }
}

/* The ticket has run out: fetches a new one, unless another call has done so meanwhile. */
static void call_with_new_ticket(struct cv_etcd_call *call)
{
    struct cv_etcd_wire *wire = call->wire;
    if (call->ticket == wire->ticket) {
        wire->authorization[0] = '\0';
    }
    call->is_login_tried = true;
    if (!call_send(call)) {
        call_fail(call, "out of memory");
    }
}

static void on_reply(void *user, const struct cv_http_result *result)
{
    struct cv_etcd_call *call = user;
    struct cv_etcd_wire *wire = call->wire;
    call->http = NULL;
    cJSON *whole = cJSON_ParseWithLength(result->body, result->body_bytes);
    char error[256];
    struct cv_etcd_answer answer;
    answer_read(result, whole, error, &answer);
    const bool is_stranger = answer.code == CV_ETCD_UNAUTHENTICATED || result->status == 401;
    if (answer.code == CV_ETCD_OK) {
        wire->revision = answer.revision > wire->revision ? answer.revision : wire->revision;
        call_end(call, answer);
    } else if (is_passing(result, answer.code)) {
        call_again(call, error);
    } else if (wire->user[0] != '\0' && !call->is_login_tried && is_stranger) {
        call_with_new_ticket(call);
    } else {
        call_end(call, answer);
    }
    cJSON_Delete(whole);
}

/* False: out of memory. */
static bool call_send(struct cv_etcd_call *call)
{
    struct cv_etcd_wire *wire = call->wire;
    CV_ASSERT(call->http == NULL);
    call->endpoint = wire->endpoint_now;
    call->ticket = wire->ticket;
    if (wire->user[0] != '\0' && wire->authorization[0] == '\0') {
        return login(wire);
    }
    char url[400];
    (void)snprintf(url, sizeof url, "%s%s", wire->endpoint[wire->endpoint_now], call->path);
    /* A member that does not answer must leave time for the others. */
    const int64_t left_ns = call->deadline_ns - cv__clock_now_ns();
    const uint32_t tries_left = wire->endpoint_count - call->try_count % wire->endpoint_count;
    call->http = cv__http_post(
        wire->http,
        &(struct cv_http_post){.url = url,
                               .authorization = wire->user[0] != '\0' ? wire->authorization : NULL,
                               .body = call->body,
                               .timeout_ns = cv__max64(100 * NS_PER_MS, left_ns / tries_left),
                               .done = on_reply,
                               .user = call});
    return call->http != NULL;
}

struct cv_etcd_call *cv__etcd_call(struct cv_etcd_wire *wire, const char *path,
                                   struct cv_etcd_body *body, int64_t deadline_ns,
                                   cv_etcd_then then, void *user)
{
    struct cv_etcd_call *call = body->is_failed ? NULL : calloc(1, sizeof *call);
    if (call == NULL) {
        free(body->text);
        return NULL;
    }
    *call = (struct cv_etcd_call){.wire = wire,
                                  .next = wire->calls,
                                  .path = path,
                                  .body = body->text,
                                  .then = then,
                                  .user = user,
                                  .number = ++wire->call_count,
                                  .begin_ns = cv__clock_now_ns(),
                                  .deadline_ns = deadline_ns};
    wire->calls = call;
    if (!call_send(call)) {
        call_free(call);
        return NULL;
    }
    return call;
}

/* ---- Transactions -------------------------------------------------------------------------- */

#define BATCH_MAX 64  /* transactions in one */
#define OPS_MAX 120   /* etcd takes 128 operations, unless it was told to take fewer */
#define BATCHES_MAX 2 /* on their way at once: a busy cluster gets fewer and larger ones */

struct cv_etcd_txn {
    struct cv_etcd_wire *wire;
    struct cv_etcd_txn *next;    /* while it waits */
    struct cv_etcd_batch *batch; /* NULL: it waits */
    uint32_t index;              /* in the batch */
    enum cv_etcd_txn_kind kind;
    uint32_t op_count;
    const char *group;
    bool is_alone; /* it was refused with others */
    char *body;
    int64_t deadline_ns;
    cv_etcd_then then;
    void *user;
};

/* Invariant: in the wire's list until its answer comes. */
struct cv_etcd_batch {
    struct cv_etcd_wire *wire;
    struct cv_etcd_batch *next;
    uint32_t count;
    struct cv_etcd_txn *txn[BATCH_MAX]; /* NULL: cancelled */
    uint32_t op_count[BATCH_MAX];
};

static void on_flush(uv_timer_t *timer);

static void txn_free(struct cv_etcd_txn *txn)
{
    free(txn->body);
    free(txn);
}

static void txn_add(struct cv_etcd_txn *txn)
{
    struct cv_etcd_wire *wire = txn->wire;
    txn->batch = NULL;
    txn->next = NULL;
    *wire->waiting_end = txn;
    wire->waiting_end = &txn->next;
    (void)uv_timer_start(&wire->flush, on_flush, 0, 0);
}

struct cv_etcd_txn *cv__etcd_txn(struct cv_etcd_wire *wire, enum cv_etcd_txn_kind kind,
                                 uint32_t op_count, const char *group, struct cv_etcd_body *body,
                                 int64_t deadline_ns, cv_etcd_then then, void *user)
{
    CV_ASSERT(op_count > 0 && op_count <= OPS_MAX);
    struct cv_etcd_txn *txn = body->is_failed ? NULL : calloc(1, sizeof *txn);
    if (txn == NULL) {
        free(body->text);
        return NULL;
    }
    *txn = (struct cv_etcd_txn){.wire = wire,
                                .kind = kind,
                                .op_count = op_count,
                                .group = group,
                                .body = body->text,
                                .deadline_ns = deadline_ns,
                                .then = then,
                                .user = user};
    txn_add(txn);
    return txn;
}

static void waiting_remove(struct cv_etcd_wire *wire, const struct cv_etcd_txn *txn)
{
    struct cv_etcd_txn **at = &wire->waiting;
    while (*at != txn) {
        at = &(*at)->next;
    }
    *at = txn->next;
    if (txn->next == NULL) {
        wire->waiting_end = at;
    }
}

void cv__etcd_txn_cancel(struct cv_etcd_txn *txn)
{
    if (txn->batch != NULL) {
        txn->batch->txn[txn->index] = NULL;
    } else {
        waiting_remove(txn->wire, txn);
    }
    txn_free(txn);
}

/* Takes one out of the batch and tells it; the wire may be closed then. */
static void txn_end(struct cv_etcd_batch *batch, uint32_t index, struct cv_etcd_answer answer)
{
    struct cv_etcd_txn *txn = batch->txn[index];
    if (txn == NULL) {
        return; /* cancelled */
    }
    batch->txn[index] = NULL;
    const cv_etcd_then then = txn->then;
    void *user = txn->user;
    txn_free(txn);
    then(user, &answer);
}

/* All get the same answer; each read finds its own part in it. */
static void batch_tell(struct cv_etcd_batch *batch, const struct cv_etcd_answer *answer)
{
    struct cv_etcd_answer part = *answer;
    int next = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        part.part = next;
        next += (int)batch->op_count[i];
        txn_end(batch, i, part);
    }
}

static void on_batch(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_etcd_batch *batch = user;
    struct cv_etcd_batch **at = &batch->wire->batches;
    while (*at != batch) {
        at = &(*at)->next;
    }
    *at = batch->next;
    batch->wire->batch_count--;
    if (batch->wire->waiting != NULL) {
        (void)uv_timer_start(&batch->wire->flush, on_flush, 0, 0);
    }
    if (answer->code == CV_ETCD_OK || answer->code == CV_ETCD_NO_ANSWER || batch->count == 1) {
        batch_tell(batch, answer);
    } else { /* one of them is refused, and all with it */
        for (uint32_t i = 0; i < batch->count; i++) {
            if (batch->txn[i] != NULL) {
                batch->txn[i]->is_alone = true;
                txn_add(batch->txn[i]);
            }
        }
    }
    free(batch);
}

static bool goes_with(const struct cv_etcd_batch *batch, const struct cv_etcd_txn *txn)
{
    uint32_t op_count = txn->op_count;
    if (batch->count == 0) {
        return true;
    }
    if (batch->count == BATCH_MAX || txn->kind == CV_ETCD_ALONE ||
        txn->kind != batch->txn[0]->kind || txn->is_alone || batch->txn[0]->is_alone) {
        return false;
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        const char *group = batch->txn[i]->group;
        if (group != NULL && txn->group != NULL && strcmp(group, txn->group) == 0) {
            return false;
        }
        op_count += batch->op_count[i];
    }
    return op_count <= OPS_MAX;
}

/* Takes waiting transactions from the front, as long as they can be joined. */
static void batch_fill(struct cv_etcd_wire *wire, struct cv_etcd_batch *batch)
{
    while (wire->waiting != NULL && goes_with(batch, wire->waiting)) {
        struct cv_etcd_txn *txn = wire->waiting;
        waiting_remove(wire, txn);
        txn->batch = batch;
        txn->index = batch->count;
        batch->op_count[batch->count] = txn->op_count;
        batch->txn[batch->count++] = txn;
    }
}

static bool batch_send(struct cv_etcd_batch *batch)
{
    struct cv_etcd_body body = {0};
    const bool is_whole = batch->txn[0]->kind == CV_ETCD_ALONE;
    int64_t deadline_ns = INT64_MAX; /* the earliest of all: others wait behind it */
    cv__etcd_body_print(&body, "%s", is_whole ? "" : "{\"success\":[");
    for (uint32_t i = 0; i < batch->count; i++) {
        deadline_ns = cv__min64(deadline_ns, batch->txn[i]->deadline_ns);
        cv__etcd_body_print(&body, "%s%s", i > 0 ? "," : "", batch->txn[i]->body);
    }
    cv__etcd_body_print(&body, "%s", is_whole ? "" : "]}");
    return cv__etcd_call(batch->wire, "/v3/kv/txn", &body, deadline_ns, on_batch, batch) != NULL;
}

static void on_flush(uv_timer_t *timer)
{
    struct cv_etcd_wire *wire = timer->data;
    while (wire->waiting != NULL && wire->batch_count < BATCHES_MAX) {
        struct cv_etcd_batch *batch = calloc(1, sizeof *batch);
        if (batch == NULL) {
            (void)uv_timer_start(&wire->flush, on_flush, 100, 0); /* there may be memory then */
            return;
        }
        batch->wire = wire;
        batch->next = wire->batches;
        wire->batches = batch;
        wire->batch_count++;
        batch_fill(wire, batch);
        if (!batch_send(batch)) {
            on_batch(batch,
                     &(struct cv_etcd_answer){.code = CV_ETCD_NO_ANSWER, .error = "out of memory"});
        }
    }
}

/* ---- Streams ------------------------------------------------------------------------------- */

struct cv_http_call *cv__etcd_stream(struct cv_etcd_wire *wire, const char *path,
                                     struct cv_etcd_body *body,
                                     void (*line)(void *user, const char *line),
                                     void (*done)(void *user, const struct cv_http_result *r),
                                     void *user)
{
    char url[400];
    (void)snprintf(url, sizeof url, "%s%s", wire->endpoint[wire->endpoint_now], path);
    const struct cv_http_post post = {.url = url,
                                      .authorization =
                                          wire->user[0] != '\0' ? wire->authorization : NULL,
                                      .body = body->text,
                                      .timeout_ns = 5 * NS_PER_S,
                                      .line = line,
                                      .done = done,
                                      .user = user};
    struct cv_http_call *call = body->is_failed ? NULL : cv__http_post(wire->http, &post);
    free(body->text);
    return call;
}

/* ---- Opening ------------------------------------------------------------------------------- */

static int option_text(const struct cv_address *address, const char *name, char *ret_text,
                       size_t bytes, struct cv_errtext *reterr)
{
    struct cv_span value;
    ret_text[0] = '\0';
    if (!cv__address_option(address, name, &value)) {
        return CV_OK;
    }
    if (!cv__address_decode(value, ret_text, bytes) || ret_text[0] == '\0') {
        return cv__fail(reterr, CV_E_INVALID, "option '%s' of an etcd: address is %s", name,
                        value.bytes > 0 ? "too long" : "empty");
    }
    return CV_OK;
}

static int read_files(const struct cv_address *address, bool needs_no_secrets,
                      struct cv_http_tls *ret_tls, struct cv_errtext *reterr)
{
    const struct {
        const char *name;
        char *text;
    } files[] = {{"cacert", ret_tls->cacert}, {"cert", ret_tls->cert}, {"key", ret_tls->key}};
    for (uint32_t i = 0; i < COUNT_OF(files); i++) {
        const int code =
            option_text(address, files[i].name, files[i].text, sizeof ret_tls->cacert, reterr);
        if (code != CV_OK) {
            return code;
        }
        if (files[i].text[0] != '\0' && !needs_no_secrets && access(files[i].text, R_OK) != 0) {
            return cv__fail(reterr, CV_E_IO, "cannot read '%s', the %s of an etcd: address",
                            files[i].text, files[i].name);
        }
    }
    return CV_OK;
}

static int read_user(struct cv_etcd_wire *wire, const struct cv_address *address,
                     bool needs_no_secrets, struct cv_errtext *reterr)
{
    char file[256];
    const int code = option_text(address, "password-file", file, sizeof file, reterr);
    if (code != CV_OK) {
        return code;
    }
    if (!cv__address_decode(address->user, wire->user, sizeof wire->user)) {
        return cv__fail(reterr, CV_E_INVALID, "the user in an etcd: address is too long");
    }
    if (address->user.bytes > 0 && memchr(address->user.at, ':', address->user.bytes) != NULL) {
        return cv__fail(reterr, CV_E_INVALID,
                        "a password in an etcd: address is refused, because every user can read "
                        "command lines; use ?password-file=FILE or CONCLAVE_ETCD_PASSWORD");
    }
    if (wire->user[0] == '\0' || needs_no_secrets) {
        return CV_OK;
    }
    const int read = cv__remote_secret(file, "CONCLAVE_ETCD_PASSWORD", wire->password,
                                       sizeof wire->password, reterr);
    if (read == CV_OK && wire->password[0] == '\0') {
        return cv__fail(reterr, CV_E_INVALID,
                        "no password for etcd's user '%s'; give ?password-file=FILE or set "
                        "CONCLAVE_ETCD_PASSWORD",
                        wire->user);
    }
    return read;
}

static int read_hosts(struct cv_etcd_wire *wire, const struct cv_address *address,
                      struct cv_errtext *reterr)
{
    wire->endpoint_count = cv__address_host_count(address);
    if (wire->endpoint_count == 0 || wire->endpoint_count > CV_ETCD_ENDPOINTS_MAX) {
        return cv__fail(reterr, CV_E_INVALID,
                        "write etcd://host:port[,host:port...][/prefix], with 1 to %d hosts",
                        CV_ETCD_ENDPOINTS_MAX);
    }
    for (uint32_t i = 0; i < wire->endpoint_count; i++) {
        char endpoint[CV_REMOTE_ENDPOINT_BYTES];
        const int code = cv__remote_endpoint(address, i, 2379, endpoint, reterr);
        if (code != CV_OK) {
            return code;
        }
        (void)snprintf(wire->endpoint[i], sizeof wire->endpoint[i], "http%s://%s",
                       wire->tls.is_used ? "s" : "", endpoint);
    }
    return CV_OK;
}

static bool has_option(const struct cv_address *address, const char *name)
{
    struct cv_span value;
    return cv__address_option(address, name, &value);
}

int cv__etcd_wire_read(struct cv_etcd_wire *wire, const struct cv_address *address,
                       bool needs_no_secrets, struct cv_errtext *reterr)
{
    char wanted[8];
    int code = option_text(address, "tls", wanted, sizeof wanted, reterr);
    if (code != CV_OK) {
        return code;
    }
    if (wanted[0] != '\0' && strcmp(wanted, "yes") != 0 && strcmp(wanted, "no") != 0) {
        return cv__fail(reterr, CV_E_INVALID, "option 'tls' of an etcd: address is yes or no");
    }
    const bool is_meant = has_option(address, "cacert") || has_option(address, "cert");
    wire->tls.is_used = wanted[0] != '\0' ? strcmp(wanted, "yes") == 0 : is_meant;
    code = read_hosts(wire, address, reterr);
    code = code != CV_OK ? code : read_files(address, needs_no_secrets, &wire->tls, reterr);
    return code != CV_OK ? code : read_user(wire, address, needs_no_secrets, reterr);
}

int cv__etcd_wire_open(struct cv_etcd_wire *wire, uv_loop_t *loop, struct cv_errtext *reterr)
{
    const int code = cv__http_new(loop, &wire->tls, &wire->http, reterr);
    if (code != CV_OK) {
        return code;
    }
    wire->waiting_end = &wire->waiting;
    (void)uv_timer_init(loop, &wire->flush); /* cannot fail */
    wire->flush.data = wire;
    return CV_OK;
}

void cv__etcd_wire_close(struct cv_etcd_wire *wire)
{
    while (wire->calls != NULL) {
        cv__etcd_call_cancel(wire->calls);
    }
    for (struct cv_etcd_batch *next; wire->batches != NULL; wire->batches = next) {
        next = wire->batches->next;
        for (uint32_t i = 0; i < wire->batches->count; i++) {
            if (wire->batches->txn[i] != NULL) {
                txn_free(wire->batches->txn[i]);
            }
        }
        free(wire->batches);
    }
    while (wire->waiting != NULL) {
        cv__etcd_txn_cancel(wire->waiting);
    }
    cv__http_free(wire->http);
    wire->http = NULL;
    wire->login = NULL;
}
