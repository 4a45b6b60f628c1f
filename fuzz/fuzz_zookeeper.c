/* fuzz/fuzz_zookeeper.c - whatever ZooKeeper answers, and whatever others put into its tree, the
 * store gives an answer of its own.
 *
 * The client library is replaced here, as far as stores/zk_client.c calls it: its parser is not
 * tested, and its results may be anything. Several handles share all state.
 *   C TIMEOUT ID   the session is established D  the connection is lost
 *   X  the session has expired                A  the credentials are refused
 *   I RC           the next result of zookeeper_interest()
 *   W PATH         something that is watched has changed
 *   > RC [o=OWNER] [z=CZXID] [v=VERSION] [p=PATH] [n=NAME,NAME...] [d=VALUE]
 *                  the oldest waiting operation is answered */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#define NAMES_MAX 64

struct op {
    struct op *next;
    const void *data;
    void_completion_t on_void;
    stat_completion_t on_stat;
    data_completion_t on_data;
    string_completion_t on_string;
    string_stat_completion_t on_made;
    strings_completion_t on_names;
    strings_stat_completion_t on_names_stat;
    char path[2048]; /* of the request */
};

struct _zhandle {
    struct _zhandle *next;
    watcher_fn watcher;
    void *context;
    watcher_fn node_watcher; /* one is enough: it compares the path */
    void *node_context;
    int state;
    int event; /* to be delivered; 0: none */
    struct op *ops, **ops_end;
    char *answer; /* to be delivered */
    char *watch;
};

static struct _zhandle *handles;
static clientid_t id;
static int timeout_ms, interest_rc;

/* ---- Handles ------------------------------------------------------------------------------- */

zhandle_t *zookeeper_init2(const char *host, watcher_fn fn, int recv_timeout,
                           const clientid_t *clientid, void *context, int flags,
                           log_callback_fn log_callback)
{
    (void)host;
    (void)clientid;
    (void)flags;
    (void)recv_timeout;
    (void)log_callback;
    struct _zhandle *zk = fuzz_must(calloc(1, sizeof *zk));
    zk->watcher = fn;
    zk->context = context;
    zk->ops_end = &zk->ops;
    zk->state = ZOO_CONNECTING_STATE;
    zk->next = handles;
    handles = zk;
    return zk;
}

static void op_end(const struct op *op, int rc, const struct Stat *stat, const char *value,
                   const char *path, const struct String_vector *names)
{
    if (op->on_void != NULL) {
        op->on_void(rc, op->data);
    } else if (op->on_stat != NULL) {
        op->on_stat(rc, stat, op->data);
    } else if (op->on_data != NULL) {
        op->on_data(rc, value, value != NULL ? (int)strlen(value) : -1, stat, op->data);
    } else if (op->on_string != NULL) {
        op->on_string(rc, path, op->data);
    } else if (op->on_made != NULL) {
        op->on_made(rc, path, stat, op->data);
    } else if (op->on_names_stat != NULL) {
        op->on_names_stat(rc, names, stat, op->data);
    } else {
        op->on_names(rc, names, op->data);
    }
}

static struct op *op_take(struct _zhandle *zk)
{
    struct op *op = zk->ops;
    if (op != NULL) {
        zk->ops = op->next;
        zk->ops_end = zk->ops != NULL ? zk->ops_end : &zk->ops;
    }
    return op;
}

static void ops_fail(struct _zhandle *zk, int rc)
{
    for (struct op *op; (op = op_take(zk)) != NULL; free(op)) {
        op_end(op, rc, NULL, NULL, NULL, NULL);
    }
}

int zookeeper_close(zhandle_t *zk)
{
    ops_fail(zk, ZCLOSING);
    struct _zhandle **at = &handles;
    while (*at != zk) {
        at = &(*at)->next;
    }
    *at = zk->next;
    free(zk->answer);
    free(zk->watch);
    free(zk);
    return ZOK;
}

const clientid_t *zoo_client_id(zhandle_t *zk)
{
    (void)zk;
    return &id;
}

int zoo_recv_timeout(zhandle_t *zk)
{
    (void)zk;
    return timeout_ms;
}

int zoo_state(zhandle_t *zk)
{
    return zk->state;
}

int zoo_add_auth(zhandle_t *zk, const char *scheme, const char *cert, int bytes,
                 void_completion_t completion, const void *data)
{
    (void)zk;
    (void)scheme;
    (void)cert;
    (void)bytes;
    (void)completion;
    (void)data;
    return ZOK;
}

int zoo_set_servers_resolution_delay(zhandle_t *zk, int delay_ms)
{
    (void)zk;
    (void)delay_ms;
    return ZOK;
}

/* ---- Operations ---------------------------------------------------------------------------- */

static int op_add(zhandle_t *zk, const char *path, const struct op *what)
{
    if (path[0] != '/' || strstr(path, "//") != NULL || path[strlen(path) - 1] == '/') {
        if (strcmp(path, "/") != 0) {
            return ZBADARGUMENTS; /* as in the library */
        }
    }
    struct op *op = fuzz_must(malloc(sizeof *op));
    *op = *what;
    op->next = NULL;
    (void)snprintf(op->path, sizeof op->path, "%s", path);
    *zk->ops_end = op;
    zk->ops_end = &op->next;
    return ZOK;
}

static void watch(zhandle_t *zk, watcher_fn watcher, void *context)
{
    zk->node_watcher = watcher != NULL ? watcher : zk->node_watcher;
    zk->node_context = watcher != NULL ? context : zk->node_context;
}

int zoo_acreate2(zhandle_t *zk, const char *path, const char *value, int valuelen,
                 const struct ACL_vector *acl, int mode, string_stat_completion_t completion,
                 const void *data)
{
    (void)value;
    (void)valuelen;
    (void)acl;
    (void)mode;
    /* The name of a sequential node ends with a dash, which the server completes: any path is
     * possible. */
    return op_add(zk, path, &(struct op){.on_made = completion, .data = data});
}

int zoo_adelete(zhandle_t *zk, const char *path, int version, void_completion_t completion,
                const void *data)
{
    (void)version;
    return op_add(zk, path, &(struct op){.on_void = completion, .data = data});
}

int zoo_awexists(zhandle_t *zk, const char *path, watcher_fn watcher, void *context,
                 stat_completion_t completion, const void *data)
{
    watch(zk, watcher, context);
    return op_add(zk, path, &(struct op){.on_stat = completion, .data = data});
}

int zoo_awget(zhandle_t *zk, const char *path, watcher_fn watcher, void *context,
              data_completion_t completion, const void *data)
{
    watch(zk, watcher, context);
    return op_add(zk, path, &(struct op){.on_data = completion, .data = data});
}

int zoo_aset(zhandle_t *zk, const char *path, const char *buffer, int buflen, int version,
             stat_completion_t completion, const void *data)
{
    (void)buffer;
    (void)buflen;
    (void)version;
    return op_add(zk, path, &(struct op){.on_stat = completion, .data = data});
}

int zoo_aget_children(zhandle_t *zk, const char *path, int is_watching,
                      strings_completion_t completion, const void *data)
{
    (void)is_watching;
    return op_add(zk, path, &(struct op){.on_names = completion, .data = data});
}

int zoo_awget_children(zhandle_t *zk, const char *path, watcher_fn watcher, void *context,
                       strings_completion_t completion, const void *data)
{
    watch(zk, watcher, context);
    return op_add(zk, path, &(struct op){.on_names = completion, .data = data});
}

int zoo_awget_children2(zhandle_t *zk, const char *path, watcher_fn watcher, void *context,
                        strings_stat_completion_t completion, const void *data)
{
    watch(zk, watcher, context);
    return op_add(zk, path, &(struct op){.on_names_stat = completion, .data = data});
}

int zoo_async(zhandle_t *zk, const char *path, string_completion_t completion, const void *data)
{
    return op_add(zk, path, &(struct op){.on_string = completion, .data = data});
}

int zoo_amulti(zhandle_t *zk, int count, const zoo_op_t *ops, zoo_op_result_t *results,
               void_completion_t completion, const void *data)
{
    (void)count;
    (void)ops;
    (void)results;
    return op_add(zk, "/", &(struct op){.on_void = completion, .data = data});
}

/* ---- Answers ------------------------------------------------------------------------------- */

static void names_read(char *list, struct String_vector *ret_names, char *names[NAMES_MAX])
{
    ret_names->data = names;
    ret_names->count = 0;
    char *rest = NULL;
    for (char *name = strtok_r(list, ",", &rest); name != NULL && ret_names->count < NAMES_MAX;
         name = strtok_r(NULL, ",", &rest)) {
        names[ret_names->count++] = name;
    }
}

/* Parses the answer in a line, which is changed. */
static void op_answer(const struct op *op, char *line)
{
    struct Stat stat = {0};
    struct String_vector names = {0};
    char *name[NAMES_MAX];
    const char *value = NULL;
    const char *path = op->path;
    char *at = line;
    const int rc = (int)strtol(at, &at, 10);
    while (*at == ' ' && at[1] != '\0' && at[2] == '=') {
        char *field = at + 1;
        char *end = field[0] == 'd' ? field + strlen(field) : field + strcspn(field, " ");
        at = end;
        const char had = *end;
        *end = '\0';
        const long long number = strtoll(field + 2, NULL, 10);
        if (field[0] == 'o') {
            stat.ephemeralOwner = number;
        } else if (field[0] == 'z') {
            stat.czxid = number;
        } else if (field[0] == 'v') {
            stat.version = (int32_t)number;
        } else if (field[0] == 'p') {
            path = field + 2;
        } else if (field[0] == 'n') {
            names_read(field + 2, &names, name);
        } else if (field[0] == 'd') {
            value = field + 2;
        }
        if (had == '\0') {
            break;
        }
        at = end + 1; /* where the next field begins; its space was overwritten */
        at--;
        *at = ' ';
    }
    op_end(op, rc, rc == ZOK ? &stat : NULL, value, path, &names);
}

int zookeeper_interest(zhandle_t *zk, int *fd, int *interest, struct timeval *wait)
{
    (void)zk;
    *fd = -1;
    *interest = 0;
    *wait = (struct timeval){.tv_usec = 1000};
    const int rc = interest_rc;
    interest_rc = ZOK;
    return rc;
}

int zookeeper_process(zhandle_t *zk, int events)
{
    (void)events;
    if (zk->event != 0) {
        const int event = zk->event;
        zk->event = 0;
        zk->watcher(zk, ZOO_SESSION_EVENT, event, "", zk->context);
    }
    if (zk->state != ZOO_CONNECTED_STATE) {
        ops_fail(zk, zk->state == ZOO_EXPIRED_SESSION_STATE ? ZSESSIONEXPIRED : ZCONNECTIONLOSS);
    }
    char *watched = zk->watch;
    zk->watch = NULL;
    if (watched != NULL && zk->node_watcher != NULL) {
        zk->node_watcher(zk, ZOO_CHILD_EVENT, zk->state, watched, zk->node_context);
    }
    free(watched);
    char *answer = zk->answer;
    zk->answer = NULL;
    struct op *op = answer != NULL ? op_take(zk) : NULL;
    if (op != NULL) {
        op_answer(op, answer);
    }
    free(op);
    free(answer);
    return ZOK;
}

/* ---- Steps --------------------------------------------------------------------------------- */

static void session_step(struct _zhandle *zk, const char *line)
{
    switch (line[0]) {
    case 'C':
        zk->state = ZOO_CONNECTED_STATE;
        break;
    case 'D':
        zk->state = ZOO_CONNECTING_STATE;
        break;
    case 'X':
        zk->state = zk->event = ZOO_EXPIRED_SESSION_STATE;
        break;
    case 'A':
        zk->state = zk->event = ZOO_AUTH_FAILED_STATE;
        break;
    case 'W':
        free(zk->watch);
        zk->watch = fuzz_must(strdup(line + (line[1] == ' ' ? 2 : 1)));
        break;
    default:
        break;
    }
}

static void step(const char *line)
{
    if (line[0] == 'C') {
        char *rest;
        timeout_ms = (int)strtol(line + 1, &rest, 10);
        id.client_id = strtoll(rest, NULL, 10);
    } else if (line[0] == 'I') {
        interest_rc = (int)strtol(line + 1, NULL, 10);
    } else if (line[0] == '>') {
        struct _zhandle *zk = handles;
        while (zk != NULL && (zk->ops == NULL || zk->answer != NULL)) {
            zk = zk->next;
        }
        if (zk != NULL) {
            zk->answer = fuzz_must(strdup(line + (line[1] == ' ' ? 2 : 1)));
        }
        return;
    }
    for (struct _zhandle *zk = handles; zk != NULL; zk = zk->next) {
        session_step(zk, line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct fuzz_story story = {.kind = cv_module_table(),
                                     .address = "zookeeper://h1:1,h2:2/x",
                                     .step = step,
                                     .turn_ms = 1};
    interest_rc = ZOK;
    timeout_ms = 0;
    id = (clientid_t){0};
    fuzz_story_tell(&story, data, size);
    return 0;
}
