/* fuzz/fuzz_address.c - the address of an election, as given to --via: it is split into its parts,
 * and opened by the store that serves it, without a server.
 *
 * Host names are not looked up, and addresses of sqlite: are only split: opening them would create
 * files. */
#include "fuzz.h"

#include "core/address.h"
#include "sequencers/sequencer.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

static struct cv_shared_list shared;
static uv_loop_t loop;
static bool is_closed;

/* Replaces the C library's function: no name server is asked. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    (void)host;
    (void)service;
    (void)hints;
    (void)ret_found;
    return EAI_NONAME;
}

static void check(int code, const struct cv_errtext *err)
{
    if (code != CV_OK && err->text[0] == '\0') {
        fuzz_found("a failure without a reason");
    }
}

static void take_apart(const char *text)
{
    static const char *const known[] = {"auth-file", "cacert", "tls", NULL};
    struct cv_address address;
    struct cv_errtext err = {""};
    const int code = cv__address_split(text, &address, &err);
    check(code, &err);
    if (code != CV_OK) {
        return;
    }
    char part[64];
    const struct cv_span parts[] = {address.scheme, address.user, address.hosts, address.path};
    for (uint32_t i = 0; i < 4; i++) {
        (void)cv__address_decode(parts[i], part, sizeof part);
    }
    struct cv_span value;
    (void)cv__address_option(&address, "tls", &value);
    check(cv__address_check_options(&address, known, &err), &err);
    const uint32_t count = cv__address_host_count(&address);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t port;
        (void)cv__address_host(&address, i, part, sizeof part, &port);
    }
}

static void answered(void *user, const struct cv_store_answer *answer)
{
    (void)user;
    (void)answer;
}

static void log_line(void *user, const char *line)
{
    (void)user;
    if (strchr(line, '\n') != NULL) {
        fuzz_found("two lines of log");
    }
}

static void on_closed(void *user)
{
    (void)user;
    is_closed = true;
}

static void finish(void)
{
    for (int i = 0; i < 1000 && (!is_closed || uv_loop_alive(&loop) != 0); i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    if (!is_closed || uv_loop_alive(&loop) != 0) {
        fuzz_found("what does not close");
    }
}

static void open_store(const char *text)
{
    const struct cv_store_kind *kind = cv__store_find(text);
    struct cv_errtext err = {""};
    if (kind == NULL || strcmp(kind->scheme, "sqlite") == 0) {
        return;
    }
    const struct cv_store_setting setting = {.loop = &loop,
                                             .shared = &shared,
                                             .address = text,
                                             .election = "e",
                                             .node = "n",
                                             .label = 1,
                                             .answered = answered,
                                             .log = log_line};
    struct cv_store *store;
    const int code = kind->open(&store, &setting, &err);
    check(code, &err);
    is_closed = code != CV_OK;
    if (code == CV_OK) {
        kind->close(store, on_closed, NULL);
    }
    finish();
}

static void on_number(void *self, uint64_t request, uint64_t number)
{
    (void)self;
    (void)request;
    (void)number;
}

static void open_sequencer(const char *text)
{
    const struct cv_sequencer_events events = {.number = on_number};
    struct cv_counter counter;
    struct cv_errtext err = {""};
    if (strncmp(text, "file", 4) == 0) {
        return;
    }
    const int code = cv__sequencer_open(&loop, text, &events, &counter, &err);
    check(code, &err);
    is_closed = code != CV_OK;
    if (code == CV_OK) {
        counter.kind->close(counter.self, on_closed, NULL);
    }
    finish();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_ready;
    if (!is_ready) {
        (void)setenv("CONCLAVE_ETCD_PASSWORD", "secret", 1);
        if (uv_loop_init(&loop) != 0) {
            abort();
        }
        is_ready = true;
    }
    struct fuzz_input in = {data, size};
    char *text = fuzz_rest(&in);
    take_apart(text);
    open_store(text);
    open_sequencer(text);
    free(text);
    return 0;
}
