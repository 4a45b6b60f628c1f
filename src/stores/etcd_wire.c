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

void cv__etcd_decode(const char *from, char *ret_text, size_t text_bytes)
{
    size_t length = 0;
    uint32_t word = 0;
    int bits = 0;
    for (; digit64(*from) >= 0; from++) {
        word = word << 6 | (uint32_t)digit64(*from);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            if (length + 1 < text_bytes) {
                ret_text[length++] = (char)(word >> bits & 0xff);
            }
        }
    }
    ret_text[length] = '\0';
}

uint64_t cv__etcd_number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    const char *text = cJSON_GetStringValue(item);
    if (text != NULL) {
        return text[0] == '-' ? (uint64_t)strtoll(text, NULL, 10) : strtoull(text, NULL, 10);
    }
    return cJSON_IsNumber(item) && item->valuedouble > 0 ? (uint64_t)item->valuedouble : 0;
}

const char *cv__etcd_string(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text != NULL ? text : "";
}

/* ---- Calls --------------------------------------------------------------------------------- */

static void call_send(struct cv_etcd_wire *wire);

void cv__etcd_wire_stop(struct cv_etcd_wire *wire)
{
    if (wire->call != NULL) {
        cv__http_cancel(wire->call);
        wire->call = NULL;
    }
}

const char *cv__etcd_wire_host(const struct cv_etcd_wire *wire)
{
    return strstr(wire->endpoint[wire->endpoint_now], "//") + 2;
}

void cv__etcd_wire_rotate(struct cv_etcd_wire *wire)
{
    wire->endpoint_now = (wire->endpoint_now + 1) % wire->endpoint_count;
    wire->rotated(wire->store);
}

static void on_login(void *user, const struct cv_http_result *result)
{
    struct cv_etcd_wire *wire = user;
    wire->call = NULL;
    cJSON *reply = cJSON_ParseWithLength(result->body, result->body_bytes);
    if (result->status == 200 && cv__etcd_string(reply, "token")[0] != '\0') {
        (void)snprintf(wire->authorization, sizeof wire->authorization, "%s",
                       cv__etcd_string(reply, "token"));
        cJSON_Delete(reply);
        call_send(wire);
        return;
    }
    char why[256];
    cv__remote_one_line(cv__etcd_string(reply, "message")[0] != '\0'
                            ? cv__etcd_string(reply, "message")
                            : result->why,
                        why, sizeof why);
    cJSON_Delete(reply);
    if (result->status == 0) {
        cv__etcd_wire_rotate(wire);
    }
    wire->failed(wire->store, why);
}

static void login(struct cv_etcd_wire *wire)
{
    cJSON *object = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(object, "name", wire->user);
    (void)cJSON_AddStringToObject(object, "password", wire->password);
    char *body = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    char url[400];
    (void)snprintf(url, sizeof url, "%s/v3/auth/authenticate", wire->endpoint[wire->endpoint_now]);
    wire->is_login_tried = true;
    wire->call = body == NULL
                     ? NULL
                     : cv__http_post(wire->http, &(struct cv_http_post){.url = url,
                                                                        .body = body,
                                                                        .timeout_ns = 2 * NS_PER_S,
                                                                        .done = on_login,
                                                                        .user = wire});
    free(body);
    if (wire->call == NULL) {
        wire->failed(wire->store, "out of memory");
    }
}

static bool is_passing(const struct cv_http_result *result, int code)
{
    return result->status == 0 || code == CV_ETCD_UNAVAILABLE || code == CV_ETCD_DEADLINE ||
           (result->status >= 500 && code != CV_ETCD_NOT_FOUND);
}

static void on_reply(void *user, const struct cv_http_result *result)
{
    struct cv_etcd_wire *wire = user;
    wire->call = NULL;
    cJSON *whole = cJSON_ParseWithLength(result->body, result->body_bytes);
    const cJSON *reply = cJSON_GetObjectItemCaseSensitive(whole, "result");
    reply = reply != NULL ? reply : whole; /* streams have one more layer */
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(whole, "error");
    const bool is_fine = result->status == 200 && whole != NULL && error == NULL;
    const cJSON *said = cJSON_IsObject(error) ? error : whole; /* streams again */
    int code = is_fine ? CV_ETCD_OK : (int)cv__etcd_number(said, "code");
    code = is_fine || code != 0 ? code : (int)cv__etcd_number(said, "grpc_code");
    cv__remote_one_line(result->status == 0 ? result->why
                        : cv__etcd_string(said, "message")[0] != '\0'
                            ? cv__etcd_string(said, "message")
                            : "an answer that is not etcd's",
                        wire->error, sizeof wire->error);
    if (is_fine) {
        const cJSON *header = cJSON_GetObjectItemCaseSensitive(reply, "header");
        wire->member = cv__etcd_number(header, "member_id");
        wire->term = cv__etcd_number(header, "raft_term");
        wire->revision = (int64_t)cv__etcd_number(header, "revision");
        wire->then(wire->store, reply, CV_ETCD_OK);
    } else if (is_passing(result, code)) {
        cv__etcd_wire_rotate(wire);
        wire->try_count++;
        if (wire->try_count < wire->endpoint_count && cv__clock_now_ns() < wire->deadline_ns) {
            call_send(wire);
        } else {
            wire->failed(wire->store, wire->error);
        }
    } else if (wire->user[0] != '\0' && !wire->is_login_tried &&
               (code == CV_ETCD_UNAUTHENTICATED || result->status == 401)) {
        login(wire); /* the ticket has run out */
    } else {
        wire->then(wire->store, NULL, code != 0 ? code : -1);
    }
    cJSON_Delete(whole);
}

static void call_send(struct cv_etcd_wire *wire)
{
    CV_ASSERT(wire->call == NULL);
    if (wire->user[0] != '\0' && wire->authorization[0] == '\0') {
        login(wire);
        return;
    }
    char url[400];
    (void)snprintf(url, sizeof url, "%s%s", wire->endpoint[wire->endpoint_now], wire->path);
    /* One that does not answer leaves time for the others. */
    const int64_t left_ns = wire->deadline_ns - cv__clock_now_ns();
    const uint32_t tries_left = wire->endpoint_count - wire->try_count % wire->endpoint_count;
    wire->call = cv__http_post(
        wire->http,
        &(struct cv_http_post){.url = url,
                               .authorization = wire->user[0] != '\0' ? wire->authorization : NULL,
                               .body = wire->body,
                               .timeout_ns = cv__max64(100 * NS_PER_MS, left_ns / tries_left),
                               .done = on_reply,
                               .user = wire});
    if (wire->call == NULL) {
        wire->failed(wire->store, "out of memory");
    }
}

void cv__etcd_wire_call(struct cv_etcd_wire *wire, const char *path,
                        void (*then)(struct cv_store *store, const cJSON *reply, int code))
{
    wire->path = path;
    wire->then = then;
    wire->try_count = 0;
    wire->is_login_tried = false;
    wire->begin_ns = cv__clock_now_ns();
    call_send(wire);
}

void cv__etcd_body_print(struct cv_etcd_wire *wire, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t length = strlen(wire->body);
    const int more = vsnprintf(wire->body + length, sizeof wire->body - length, format, args);
    va_end(args);
    CV_ASSERT(more >= 0 && length + (size_t)more < sizeof wire->body);
}

void cv__etcd_body_begin(struct cv_etcd_wire *wire)
{
    wire->body[0] = '\0';
}

struct cv_http_call *cv__etcd_wire_post(struct cv_etcd_wire *wire, const char *path,
                                        const char *body,
                                        void (*line)(void *user, const char *line),
                                        void (*done)(void *user, const struct cv_http_result *r),
                                        void *user)
{
    char url[400];
    (void)snprintf(url, sizeof url, "%s%s", wire->endpoint[wire->endpoint_now], path);
    return cv__http_post(
        wire->http,
        &(struct cv_http_post){.url = url,
                               .authorization = wire->user[0] != '\0' ? wire->authorization : NULL,
                               .body = body,
                               .timeout_ns = 5 * NS_PER_S,
                               .line = line,
                               .done = done,
                               .user = user});
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

static int read_files(const struct cv_address *address, struct cv_http_tls *ret_tls,
                      struct cv_errtext *reterr)
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
        if (files[i].text[0] != '\0' && access(files[i].text, R_OK) != 0) {
            return cv__fail(reterr, CV_E_IO, "cannot read '%s', the %s of an etcd: address",
                            files[i].text, files[i].name);
        }
    }
    return CV_OK;
}

static int read_user(struct cv_etcd_wire *wire, const struct cv_address *address,
                     struct cv_errtext *reterr)
{
    char file[256];
    const int code = option_text(address, "password-file", file, sizeof file, reterr);
    if (code != CV_OK) {
        return code;
    }
    if (!cv__address_decode(address->user, wire->user, sizeof wire->user)) {
        return cv__fail(reterr, CV_E_INVALID, "the user in an etcd: address is too long");
    }
    if (memchr(address->user.at, ':', address->user.bytes) != NULL) {
        return cv__fail(reterr, CV_E_INVALID,
                        "an etcd: address names the user only, everybody can read a command line; "
                        "give the password by ?password-file=FILE or CONCLAVE_ETCD_PASSWORD");
    }
    if (wire->user[0] == '\0') {
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

static int read_hosts(struct cv_etcd_wire *wire, const struct cv_address *address, bool is_tls,
                      struct cv_errtext *reterr)
{
    wire->endpoint_count = cv__address_host_count(address);
    if (wire->endpoint_count == 0 || wire->endpoint_count > CV_ETCD_ENDPOINTS_MAX) {
        return cv__fail(reterr, CV_E_INVALID,
                        "write etcd://host:port[,host:port...][/prefix], with 1 to %d hosts",
                        CV_ETCD_ENDPOINTS_MAX);
    }
    for (uint32_t i = 0; i < wire->endpoint_count; i++) {
        char host[256];
        uint32_t port;
        if (!cv__address_host(address, i, host, sizeof host, &port)) {
            return cv__fail(reterr, CV_E_INVALID,
                            "number %u of the hosts in an etcd: address is not host:port",
                            (unsigned)i + 1);
        }
        const bool is_v6 = strchr(host, ':') != NULL;
        (void)snprintf(wire->endpoint[i], sizeof wire->endpoint[i], "http%s://%s%s%s:%u",
                       is_tls ? "s" : "", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
                       port != 0 ? (unsigned)port : 2379u);
    }
    return CV_OK;
}

static bool has_option(const struct cv_address *address, const char *name)
{
    struct cv_span value;
    return cv__address_option(address, name, &value);
}

int cv__etcd_wire_open(struct cv_etcd_wire *wire, uv_loop_t *loop, const struct cv_address *address,
                       struct cv_errtext *reterr)
{
    struct cv_http_tls tls = {.cacert = ""};
    char wanted[8];
    int code = option_text(address, "tls", wanted, sizeof wanted, reterr);
    if (code != CV_OK) {
        return code;
    }
    if (wanted[0] != '\0' && strcmp(wanted, "yes") != 0 && strcmp(wanted, "no") != 0) {
        return cv__fail(reterr, CV_E_INVALID, "option 'tls' of an etcd: address is yes or no");
    }
    const bool is_meant = has_option(address, "cacert") || has_option(address, "cert");
    const bool is_tls = wanted[0] != '\0' ? strcmp(wanted, "yes") == 0 : is_meant;
    code = read_hosts(wire, address, is_tls, reterr);
    code = code != CV_OK ? code : read_files(address, &tls, reterr);
    code = code != CV_OK ? code : read_user(wire, address, reterr);
    if (code != CV_OK) {
        return code;
    }
    wire->http = cv__http_new(loop, &tls);
    return wire->http != NULL ? CV_OK : cv__fail(reterr, CV_E_MEMORY, "out of memory");
}

void cv__etcd_wire_close(struct cv_etcd_wire *wire)
{
    if (wire->http != NULL) {
        cv__http_free(wire->http);
        wire->http = NULL;
        wire->call = NULL;
    }
}
