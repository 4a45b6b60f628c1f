/* src/stores/remote.c - see remote.h. */
#include "stores/remote.h"

#include "core/errors.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* 1/64 is far more than the difference between two clocks that drift by 1e-4 each. */
#define DRIFT_PART 64
#define RENEW_PAUSE_MS 2 /* waking a thread takes less; no grant is nearly as short */
#define PATIENCE_NS_MIN (NS_PER_S / 2)
#define PATIENCE_NS_MAX (5 * NS_PER_S)

static void remote_start(struct cv_remote *remote);
static void on_deadline(uv_timer_t *timer);

static void answer_replaced(struct cv_remote *remote)
{
    while (remote->replaced_count > 0 && !remote->is_closing) {
        remote->replaced_count--;
        remote->answered(remote->user, &(struct cv_store_answer){
                                           .request = remote->replaced[remote->replaced_count],
                                           .verdict = CV_STORE_FAILED,
                                           .why = "too many requests wait for the store"});
    }
}

static void on_kick(uv_timer_t *timer)
{
    struct cv_remote *remote = timer->data;
    answer_replaced(remote);
    remote_start(remote);
}

void cv__remote_init(struct cv_remote *remote, const struct cv_store_setting *setting, void *store,
                     void (*begin)(void *store), void (*give_up)(void *store))
{
    remote->loop = setting->loop;
    remote->label = setting->label;
    remote->answered = setting->answered;
    remote->log = setting->log;
    remote->user = setting->user;
    (void)snprintf(remote->election, sizeof remote->election, "%s", setting->election);
    (void)snprintf(remote->node, sizeof remote->node, "%s", setting->node);
    (void)snprintf(remote->version, sizeof remote->version, "%s",
                   setting->version != NULL ? setting->version : "");
    remote->store = store;
    remote->begin = begin;
    remote->give_up = give_up;
    (void)uv_timer_init(remote->loop, &remote->kick); /* these three cannot fail */
    (void)uv_timer_init(remote->loop, &remote->deadline);
    (void)uv_timer_init(remote->loop, &remote->soon);
    remote->kick.data = remote;
    remote->deadline.data = remote;
    remote->soon.data = remote;
}

/* ---- The queue ----------------------------------------------------------------------------- */

static uint64_t ms_until(int64_t then_ns)
{
    const int64_t left_ns = then_ns - cv__clock_now_ns();
    return left_ns <= 0 ? 0 : (uint64_t)(left_ns / NS_PER_MS + 1);
}

static void deadline_arm(struct cv_remote *remote)
{
    int64_t first_ns = INT64_MAX;
    for (uint32_t i = 0; i < remote->count; i++) {
        first_ns = cv__min64(first_ns, remote->waiting[i].deadline_ns);
    }
    if (remote->count == 0) {
        (void)uv_timer_stop(&remote->deadline);
    } else {
        (void)uv_timer_start(&remote->deadline, on_deadline, ms_until(first_ns), 0);
    }
}

static void remote_start(struct cv_remote *remote)
{
    if (!remote->is_closing && !remote->is_at_work && remote->count > 0) {
        remote->is_at_work = true;
        remote->begin(remote->store);
    }
}

static void kick(struct cv_remote *remote)
{
    if (!remote->is_closing && (remote->count > 0 || remote->replaced_count > 0)) {
        (void)uv_timer_start(&remote->kick, on_kick, 0, 0);
    }
}

/* Removes a request that has not begun, the oldest of the same kind if there is one. */
static void replace_one(struct cv_remote *remote, enum cv_store_verb verb, bool is_resign_request)
{
    const uint32_t first = remote->is_at_work ? 1 : 0;
    uint32_t index = first;
    while (index < remote->count &&
           (remote->waiting[index].is_resign_request != is_resign_request ||
            remote->waiting[index].ask.verb != verb)) {
        index++;
    }
    /* The number of the removed request is kept, so that it is answered FAILED. Half of the places
     * are reserved for requests that are replaced by another kind, because no later answer stands
     * for them. There are few of those in one turn: when there is one of each kind, a request
     * replaces its own kind. */
    const bool is_like = index < remote->count;
    const uint32_t room = is_like ? CV_REMOTE_WAITING_MAX : CV_REMOTE_REPLACED_MAX;
    index = is_like ? index : first;
    if (remote->replaced_count < room) {
        remote->replaced[remote->replaced_count++] = remote->waiting[index].ask.request;
    }
    remote->count--;
    memmove(remote->waiting + index, remote->waiting + index + 1,
            (remote->count - index) * sizeof remote->waiting[0]);
}

void cv__remote_add(struct cv_remote *remote, const struct cv_store_request *request,
                    bool is_resign_request)
{
    CV_ASSERT(!remote->is_closing);
    CV_ASSERT(request->request != 0);
    if (remote->count == CV_REMOTE_WAITING_MAX) {
        replace_one(remote, request->verb, is_resign_request);
    }
    CV_ASSERT(remote->count < CV_REMOTE_WAITING_MAX);
    struct cv_remote_request *one = &remote->waiting[remote->count++];
    memset(one, 0, sizeof *one);
    one->ask = *request;
    one->is_resign_request = is_resign_request;
    if (request->heir != NULL) {
        (void)snprintf(one->heir, sizeof one->heir, "%s", request->heir);
    }
    const int64_t patience_ns = request->lease_ns > 0 ? request->lease_ns / 5 : PATIENCE_NS_MAX;
    one->asked_ns = cv__clock_now_ns();
    one->deadline_ns =
        one->asked_ns + cv__max64(PATIENCE_NS_MIN, cv__min64(patience_ns, PATIENCE_NS_MAX));
    deadline_arm(remote);
    kick(remote);
}

void cv__remote_list(struct cv_remote *remote, uint64_t request, struct cv_store_list *list)
{
    cv__remote_add(remote, &(struct cv_store_request){.request = request, .list = list},
                   /* is_resign_request= */ false);
}

void cv__remote_forget(struct cv_remote *remote, uint64_t request)
{
    cv__remote_add(remote, &(struct cv_store_request){.request = request, .forgets = true},
                   /* is_resign_request= */ false);
}

struct cv_remote_request *cv__remote_current(struct cv_remote *remote)
{
    CV_ASSERT(remote->is_at_work);
    CV_ASSERT(remote->count > 0);
    struct cv_remote_request *one = &remote->waiting[0];
    one->ask.heir = one->heir[0] != '\0' ? one->heir : NULL; /* it may have moved */
    return one;
}

int64_t cv__remote_left_ns(int64_t since_ns, int64_t sure_ns, int64_t asked_ns)
{
    const int64_t passed_ns = cv__max64(0, asked_ns - since_ns);
    return sure_ns - passed_ns - (passed_ns + DRIFT_PART - 1) / DRIFT_PART;
}

/* Removes a request from the queue and answers it. */
static void answer_at(struct cv_remote *remote, uint32_t index, struct cv_store_answer answer)
{
    CV_ASSERT(index < remote->count);
    answer.request = remote->waiting[index].ask.request;
    remote->count--;
    memmove(remote->waiting + index, remote->waiting + index + 1,
            (remote->count - index) * sizeof remote->waiting[0]);
    deadline_arm(remote);
    remote->answered(remote->user, &answer);
}

static void on_soon(uv_timer_t *timer)
{
    cv__remote_notify(timer->data);
}

void cv__remote_answer(struct cv_remote *remote, struct cv_store_answer answer)
{
    CV_ASSERT(remote->is_at_work);
    if (remote->is_closing) {
        return;
    }
    remote->is_at_work = false;
    kick(remote); /* before the user is called, which may close the store */
    if (remote->renews_soon) {
        remote->renews_soon = false;
        (void)uv_timer_start(&remote->soon, on_soon, RENEW_PAUSE_MS, 0);
    }
    answer_at(remote, 0, answer);
    if (remote->has_notification) {
        cv__remote_notify(remote);
    }
}

void cv__remote_fail(struct cv_remote *remote, const char *format, ...)
{
    char why[CV_REMOTE_WHY_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args); /* cut at its bound */
    va_end(args);
    cv__remote_answer(remote, (struct cv_store_answer){.verdict = CV_STORE_FAILED, .why = why});
}

void cv__remote_fail_all(struct cv_remote *remote, const char *why)
{
    /* The user may ask again from within its answer: only those that wait now are meant. */
    const struct cv_store_answer answer = {.verdict = CV_STORE_FAILED, .why = why};
    remote->is_at_work = false;
    for (uint32_t left = remote->count; left > 0 && !remote->is_closing; left--) {
        answer_at(remote, 0, answer);
    }
    kick(remote);
}

static void on_deadline(uv_timer_t *timer)
{
    struct cv_remote *remote = timer->data;
    const int64_t now_ns = cv__clock_now_ns();
    const uint32_t first = remote->is_at_work ? 1 : 0;
    for (uint32_t i = remote->count; i > first && !remote->is_closing; i--) {
        if (i <= remote->count && remote->waiting[i - 1].deadline_ns <= now_ns) {
            answer_at(remote, i - 1,
                      (struct cv_store_answer){.verdict = CV_STORE_FAILED,
                                               .why = "the store did not handle it in time"});
        }
    }
    if (!remote->is_closing && remote->is_at_work && remote->waiting[0].deadline_ns <= now_ns) {
        remote->give_up(remote->store);
    }
    if (!remote->is_closing) {
        deadline_arm(remote);
    }
}

void cv__remote_notify(struct cv_remote *remote)
{
    remote->has_notification = remote->is_at_work;
    if (!remote->is_closing && !remote->has_notification) {
        remote->answered(remote->user, &(struct cv_store_answer){.verdict = CV_STORE_CHANGED});
    }
}

/* ---- Closing ------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct cv_remote *remote = handle->data;
    CV_ASSERT(remote->handle_count > 0);
    remote->handle_count--;
    if (remote->handle_count == 0) {
        remote->last(remote->store);
    }
}

void cv__remote_close_begin(struct cv_remote *remote, void (*closed)(void *user), void *user)
{
    CV_ASSERT(!remote->is_closing);
    remote->is_closing = true;
    remote->closed = closed;
    remote->closed_user = user;
}

void cv__remote_close_handle(struct cv_remote *remote, uv_handle_t *handle)
{
    CV_ASSERT(remote->is_closing);
    handle->data = remote;
    remote->handle_count++;
    uv_close(handle, on_closed);
}

void cv__remote_close_end(struct cv_remote *remote, void (*last)(void *store))
{
    remote->last = last;
    cv__remote_close_handle(remote, (uv_handle_t *)&remote->kick);
    cv__remote_close_handle(remote, (uv_handle_t *)&remote->deadline);
    cv__remote_close_handle(remote, (uv_handle_t *)&remote->soon);
}

/* ---- Texts --------------------------------------------------------------------------------- */

void cv__remote_escape(const char *name, char ret_text[CV_REMOTE_TEXT_BYTES])
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    size_t length = 0;
    for (const char *at = name; *at != '\0'; at++) {
        CV_ASSERT(length + 4 <= CV_REMOTE_TEXT_BYTES); /* names are shorter than a third of it */
        const bool is_dot_in_front = at == name && *at == '.';
        if (strchr(plain, *at) != NULL && !is_dot_in_front) {
            ret_text[length++] = *at;
        } else {
            length += (size_t)sprintf(ret_text + length, "%%%02X", (unsigned)(unsigned char)*at);
        }
    }
    ret_text[length] = '\0';
}

bool cv__remote_unescape(const char *text, char *ret_name, size_t name_bytes)
{
    size_t length = 0;
    for (const char *at = text; *at != '\0'; at++) {
        char byte = *at;
        if (byte == '%') {
            const char digits[3] = {at[1], at[1] != '\0' ? at[2] : '\0', '\0'};
            if (strspn(digits, "0123456789ABCDEF") != 2) {
                return false;
            }
            byte = (char)strtol(digits, NULL, 16);
            at += 2;
        }
        if (length + 1 >= name_bytes || (unsigned char)byte < ' ') {
            return false;
        }
        ret_name[length++] = byte;
    }
    ret_name[length] = '\0';
    return length > 0;
}

int cv__remote_endpoint(const struct cv_address *address, uint32_t index, uint32_t port,
                        char ret_text[CV_REMOTE_ENDPOINT_BYTES], struct cv_errtext *reterr)
{
    char host[256];
    uint32_t written;
    if (!cv__address_host(address, index, host, sizeof host, &written)) {
        return cv__fail(reterr, CV_E_INVALID, "host %u of the %.*s: address is not host:port",
                        (unsigned)index + 1, (int)address->scheme.bytes, address->scheme.at);
    }
    const bool is_v6 = strchr(host, ':') != NULL;
    const int length =
        snprintf(ret_text, CV_REMOTE_ENDPOINT_BYTES, "%s%s%s:%u", is_v6 ? "[" : "", host,
                 is_v6 ? "]" : "", written != 0 ? (unsigned)written : (unsigned)port);
    CV_ASSERT(length > 0 && length < CV_REMOTE_ENDPOINT_BYTES);
    return CV_OK;
}

int cv__remote_secret(const char *path, const char *variable, char *ret_text, size_t text_bytes,
                      struct cv_errtext *reterr)
{
    ret_text[0] = '\0';
    if (path[0] == '\0') {
        const char *value = getenv(variable);
        if (value == NULL) {
            return CV_OK;
        }
        if (strlen(value) >= text_bytes) {
            return cv__fail(reterr, CV_E_INVALID, "the value of %s is too long", variable);
        }
        memcpy(ret_text, value, strlen(value) + 1);
        return CV_OK;
    }
    /* A FIFO is opened without waiting for a writer, and refused. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (file == NULL) {
        const int why = errno;
        if (fd >= 0) {
            (void)close(fd); /* it was only read */
        }
        return cv__fail(reterr, CV_E_IO, "cannot read '%s': %s", path, strerror(why));
    }
    struct stat mode;
    const bool is_known = fstat(fileno(file), &mode) == 0;
    if (!is_known || !S_ISREG(mode.st_mode)) {
        (void)fclose(file); /* it was only read */
        return cv__fail(reterr, CV_E_INVALID, "'%s' is not a regular file", path);
    }
    if ((mode.st_mode & (S_IROTH | S_IWOTH)) != 0) {
        (void)fclose(file); /* it was only read */
        return cv__fail(
            reterr, CV_E_INVALID,
            "'%s' holds a secret that every user can read or change; run chmod o= on it", path);
    }
    if (fgets(ret_text, (int)text_bytes, file) == NULL) {
        ret_text[0] = '\0';
    }
    (void)fclose(file); /* it was only read */
    const size_t length = strcspn(ret_text, "\r\n");
    if (ret_text[length] == '\0' && length + 1 == text_bytes) {
        ret_text[0] = '\0';
        return cv__fail(reterr, CV_E_INVALID, "the first line of '%s' is too long", path);
    }
    ret_text[length] = '\0';
    if (length == 0) {
        return cv__fail(reterr, CV_E_INVALID, "the first line of '%s' is empty", path);
    }
    return CV_OK;
}

void cv__remote_one_line(const char *message, char *ret_line, size_t line_bytes)
{
    size_t length = strcspn(message, "\r\n");
    length = length < line_bytes ? length : line_bytes - 1;
    memcpy(ret_line, message, length);
    while (length > 0 && (ret_line[length - 1] == ' ' || ret_line[length - 1] == '.')) {
        length--;
    }
    ret_line[length] = '\0';
}
