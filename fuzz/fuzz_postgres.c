/* fuzz/fuzz_postgres.c - whatever a PostgreSQL server answers, store and commands give an answer of
 * their own.
 *
 * The connection of libpq is replaced here, its results are libpq's own:
 *   P N           how connecting goes on: 0 failed, 1 reading, 2 writing, 3 there
 *   R NAME=VALUE|NAME=VALUE...   a row comes    Z NAME|NAME...  a result without rows
 *   E STATE TEXT  an error comes                .  the message has been answered
 *   B             the connection breaks         N CHANNEL TEXT  a notification
 *   H, M, I       reads the history, reads the names, creates the tables: from these results */
#include "fuzz.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RESULTS_MAX 32u
#define FIELDS_MAX 16

/* A PGresult made here has no error fields, so the SQLSTATE is kept beside it. */
struct queued {
    PGresult *result; /* NULL: the answer to the message is complete */
    char state[8];
};

struct pg_conn {
    int fd;
};

static struct queued queue[RESULTS_MAX];
static uint32_t queue_count;
static PostgresPollingStatusType polling;
static bool is_broken;
static bool is_command; /* it waits for answers, and the story goes on after it */
static bool is_result_taken;
static PGnotify *notify;
static char error_state[8];

/* ---- The connection ------------------------------------------------------------------------ */

PGconn *PQconnectStartParams(const char *const *keywords, const char *const *values, int expand)
{
    (void)keywords;
    (void)values;
    (void)expand;
    struct pg_conn *pg = fuzz_must(calloc(1, sizeof *pg));
    pg->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* always readable and writable */
    is_broken = false;
    return (PGconn *)pg;
}

void PQfinish(PGconn *conn)
{
    struct pg_conn *pg = (struct pg_conn *)conn;
    if (pg != NULL) {
        (void)close(pg->fd);
        free(pg);
    }
}

PostgresPollingStatusType PQconnectPoll(PGconn *conn)
{
    (void)conn;
    return is_command && polling != PGRES_POLLING_OK ? PGRES_POLLING_FAILED : polling;
}

ConnStatusType PQstatus(const PGconn *conn)
{
    (void)conn;
    return is_broken ? CONNECTION_BAD : CONNECTION_OK;
}

char *PQerrorMessage(const PGconn *conn)
{
    (void)conn;
    static char text[] = "words of the library.\nmore of them";
    return text;
}

char *PQhost(const PGconn *conn)
{
    (void)conn;
    static char host[] = "h";
    return host;
}

char *PQport(const PGconn *conn)
{
    (void)conn;
    static char port[] = "5432";
    return port;
}

int PQsocket(const PGconn *conn)
{
    return ((const struct pg_conn *)conn)->fd;
}

int PQbackendPID(const PGconn *conn)
{
    (void)conn;
    return 17;
}

int PQserverVersion(const PGconn *conn)
{
    (void)conn;
    return 150000;
}

int PQsetnonblocking(PGconn *conn, int arg)
{
    (void)conn;
    (void)arg;
    return 0;
}

PQnoticeReceiver PQsetNoticeReceiver(PGconn *conn, PQnoticeReceiver proc, void *arg)
{
    (void)conn;
    (void)proc;
    (void)arg;
    return NULL;
}

int PQsendQuery(PGconn *conn, const char *query)
{
    (void)conn;
    (void)query;
    return 1;
}

int PQflush(PGconn *conn)
{
    (void)conn;
    return 0;
}

int PQconsumeInput(PGconn *conn)
{
    (void)conn;
    return !is_broken;
}

int PQisBusy(PGconn *conn)
{
    (void)conn;
    return queue_count == 0 && !is_broken && !is_command;
}

static PGresult *queue_take(void)
{
    if (queue_count == 0) {
        return NULL;
    }
    PGresult *result = queue[0].result;
    memcpy(error_state, queue[0].state, sizeof error_state);
    queue_count--;
    memmove(queue, queue + 1, queue_count * sizeof queue[0]);
    return result;
}

PGresult *PQgetResult(PGconn *conn)
{
    (void)conn;
    if (is_command && is_result_taken) { /* each of its scripts gets one */
        is_result_taken = false;
        return NULL;
    }
    PGresult *result = queue_take();
    is_result_taken = result != NULL;
    return result;
}

char *PQresultErrorField(const PGresult *result, int field)
{
    if (PQresultStatus(result) != PGRES_FATAL_ERROR) {
        return NULL;
    }
    return field == PG_DIAG_SQLSTATE ? error_state : NULL;
}

char *PQresultErrorMessage(const PGresult *result)
{
    (void)result;
    static char text[64];
    (void)snprintf(text, sizeof text, "%s", error_state);
    return text;
}

PGnotify *PQnotifies(PGconn *conn)
{
    (void)conn;
    PGnotify *one = notify;
    notify = NULL;
    return one;
}

char *PQescapeLiteral(PGconn *conn, const char *text, size_t bytes)
{
    (void)conn;
    char *quoted = fuzz_must(malloc(2 * bytes + 3)), *to = quoted;
    *to++ = '\'';
    for (size_t i = 0; i < bytes; i++) {
        *to++ = text[i];
        if (text[i] == '\'') {
            *to++ = '\'';
        }
    }
    *to++ = '\'';
    *to = '\0';
    return quoted;
}

/* ---- Steps --------------------------------------------------------------------------------- */

static void queue_add(PGresult *result, const char *state)
{
    if (queue_count == RESULTS_MAX) {
        PQclear(result);
        return;
    }
    struct queued *one = &queue[queue_count++];
    one->result = result;
    (void)snprintf(one->state, sizeof one->state, "%s", state);
}

/* Names and values of one row; without '=' there is no value. */
static void queue_row(const char *line, bool has_row)
{
    char *text = fuzz_must(strdup(line));
    char *value[FIELDS_MAX];
    PGresAttDesc desc[FIELDS_MAX];
    memset(desc, 0, sizeof desc);
    int count = 0;
    char *rest = NULL;
    for (char *field = strtok_r(text, "|", &rest); field != NULL && count < FIELDS_MAX;
         field = strtok_r(NULL, "|", &rest)) {
        value[count] = strchr(field, '=');
        if (value[count] != NULL) {
            *value[count]++ = '\0';
        }
        desc[count++].name = field;
    }
    PGresult *result = fuzz_must(PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK));
    if (count > 0 && PQsetResultAttrs(result, count, desc) == 0) {
        abort();
    }
    for (int i = 0; has_row && i < count; i++) {
        if (PQsetvalue(result, 0, i, value[i], value[i] != NULL ? (int)strlen(value[i]) : -1) ==
            0) {
            abort();
        }
    }
    queue_add(result, "");
    free(text);
}

static void notification(const char *line)
{
    const size_t channel_bytes = strcspn(line, " ");
    const char *payload = line + channel_bytes + (line[channel_bytes] == ' ');
    PQfreemem(notify);
    notify = fuzz_must(calloc(1, sizeof *notify + strlen(line) + 2));
    notify->relname = (char *)(notify + 1);
    memcpy(notify->relname, line, channel_bytes);
    notify->extra = notify->relname + channel_bytes + 1;
    memcpy(notify->extra, payload, strlen(payload));
}

static void command(char letter)
{
    static const char address[] = "postgres://h/d";
    const struct cv_store_kind *kind = cv_module_table();
    struct cv_errtext err = {""};
    is_command = true;
    is_result_taken = false;
    const int code = letter == 'H'   ? kind->history(address, "e", fuzz_on_past, NULL, &err)
                     : letter == 'M' ? kind->names(address, fuzz_on_name, NULL, &err)
                                     : kind->create(address, &err);
    is_command = false;
    if (code != CV_OK && err.text[0] == '\0') {
        fuzz_found("a failure without a reason");
    }
}

static void step(const char *line)
{
    const char *rest = line[0] != '\0' ? line + 1 + (line[1] == ' ') : line;
    switch (line[0]) {
    case 'P':
        polling = (PostgresPollingStatusType)(strtoul(rest, NULL, 10) % 4);
        break;
    case 'R':
    case 'Z':
        queue_row(rest, line[0] == 'R');
        break;
    case 'E':
        queue_add(fuzz_must(PQmakeEmptyPGresult(NULL, PGRES_FATAL_ERROR)), rest);
        break;
    case 'K':
        queue_add(fuzz_must(PQmakeEmptyPGresult(NULL, PGRES_COMMAND_OK)), "");
        break;
    case '.':
        queue_add(NULL, "");
        break;
    case 'B':
        is_broken = true;
        break;
    case 'N':
        notification(rest);
        break;
    case 'H':
    case 'M':
    case 'I':
        command(line[0]);
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct fuzz_story story = {
        .kind = cv_module_table(), .address = "postgres://h1,h2/d", .step = step, .turn_ms = 1};
    polling = PGRES_POLLING_OK;
    is_broken = false;
    fuzz_story_tell(&story, data, size);
    while (queue_count > 0) {
        PQclear(queue_take());
    }
    PQfreemem(notify);
    notify = NULL;
    return 0;
}
