/* fuzz/fuzz_sqlite.c - whatever another process wrote into the tables of a shared file, the store
 * gives an answer of its own.
 *
 * Steps: a n r f g q u w as in fuzz.h; then
 *   e, h, j COLUMN TVALUE   set a column of the record, the history, the runs; T is i, r, t, b or
 *                  0: integer, real, text, blob, NULL
 *   + ELECTION     a row of the history          t MS  time passes
 *   H, M           reads the history, reads the names */
#include "fuzz.h"

#include "stores/sqlite_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_NS (3 * NS_PER_S)

static struct cv_sqlite sqlite;
static struct cv_sqlite_contender contender;
static int64_t now_ns;
static uint64_t attempt, token, request;
static struct cv_store_runs runs;

static int64_t clock_now_ns(void)
{
    return now_ns;
}

static void begin(void)
{
    static bool is_open;
    if (!is_open) {
        struct cv_errtext err = {""};
        if (cv__sqlite_open(&sqlite, fuzz_file("e.db", NULL, 0), &err) != CV_OK) {
            fuzz_found(err.text);
        }
        sqlite.now_ns = clock_now_ns;
        is_open = true;
    }
    (void)sqlite3_exec(sqlite.db,
                       "DELETE FROM conclave_election; DELETE FROM conclave_history;"
                       "DELETE FROM conclave_alive; DELETE FROM conclave_runs;"
                       "DELETE FROM sqlite_sequence",
                       NULL, NULL, NULL);
    now_ns = 1000 * NS_PER_S;
    attempt = 1;
    token = 0;
    cv__sqlite_join(&contender, "e", "n1", 1, /* has_descendants= */ false);
}

static void check(const struct cv_sqlite_job *job)
{
    const struct cv_store_answer *answer = &job->answer;
    if (answer->verdict == CV_STORE_FAILED) {
        if (job->error.text[0] == '\0') {
            fuzz_found("a failure without a reason");
        }
        return;
    }
    if (memchr(job->record.node, '\0', sizeof job->record.node) == NULL ||
        memchr(job->pipe, '\0', sizeof job->pipe) == NULL || job->record.ended >= CV_REASON_COUNT) {
        fuzz_found("a record that cannot be");
    }
    if (answer->duration_ns < 0 || answer->duration_ns > INT64_MAX / 4 ||
        (answer->verdict == CV_STORE_GRANTED && job->request.runs == NULL &&
         answer->duration_ns > LEASE_NS)) {
        fuzz_found("a time that cannot be");
    }
    token = answer->verdict == CV_STORE_GRANTED ? answer->token : token;
}

static void ask(struct cv_store_request what, const char *heir, bool asks_resign)
{
    struct cv_sqlite_job job;
    memset(&job, 0, sizeof job);
    job.contender = &contender;
    job.request = what;
    job.request.request = ++request;
    job.asks_resign = asks_resign;
    (void)snprintf(job.heir, sizeof job.heir, "%s", heir);
    cv__sqlite_do(&sqlite, &job);
    check(&job);
}

static void set_column(const char *table, const char *columns, const char *rest)
{
    char name[32], sql[160];
    const size_t bytes = strcspn(rest, " ");
    if (bytes == 0 || bytes >= sizeof name - 2 || rest[bytes] == '\0' || rest[bytes + 1] == '\0') {
        return;
    }
    (void)snprintf(name, sizeof name, " %.*s ", (int)bytes, rest);
    if (strstr(columns, name) == NULL) {
        return;
    }
    (void)snprintf(sql, sizeof sql, "UPDATE %s SET %s = ?", table, name);
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(sqlite.db, sql, -1, &q, NULL) != SQLITE_OK) {
        fuzz_found(sqlite3_errmsg(sqlite.db));
    }
    const char *value = rest + bytes + 2;
    switch (rest[bytes + 1]) {
    case 'i':
        (void)sqlite3_bind_int64(q, 1, strtoll(value, NULL, 10));
        break;
    case 'r':
        (void)sqlite3_bind_double(q, 1, strtod(value, NULL));
        break;
    case 't':
        (void)sqlite3_bind_text(q, 1, value, -1, SQLITE_STATIC);
        break;
    case 'b':
        (void)sqlite3_bind_blob(q, 1, value, (int)strlen(value), SQLITE_STATIC);
        break;
    default:
        break;
    }
    (void)sqlite3_step(q); /* a constraint may refuse it */
    (void)sqlite3_finalize(q);
}

static void add_past(const char *rest)
{
    char *sql = sqlite3_mprintf("INSERT INTO conclave_history (election, node, from_wall_ns)"
                                " VALUES (%Q, 'n', 1)",
                                rest[0] != '\0' ? rest : "e");
    (void)sqlite3_exec(sqlite.db, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
}

static void tell_line(const char *line)
{
    const char *rest = line[0] != '\0' ? line + 1 + (line[1] == ' ') : line;
    struct cv_errtext err = {""};
    switch (line[0]) {
    case 'n':
    case 'a':
        attempt += line[0] == 'n';
        token = line[0] == 'n' ? 0 : token;
        ask((struct cv_store_request){.verb = CV_STORE_ACQUIRE,
                                      .attempt = attempt,
                                      .lease_ns = LEASE_NS},
            "", false);
        break;
    case 'r':
        ask(
            (struct cv_store_request){
                .verb = CV_STORE_RENEW, .attempt = attempt, .token = token, .lease_ns = LEASE_NS},
            "", false);
        break;
    case 'f':
        ask((struct cv_store_request){.verb = CV_STORE_RELEASE, .attempt = attempt}, rest, false);
        break;
    case 'g':
        ask((struct cv_store_request){.verb = CV_STORE_READ}, "", false);
        break;
    case 'q':
        ask((struct cv_store_request){.verb = CV_STORE_READ}, rest, true);
        break;
    case 'u':
    case 'w':
        runs.token = line[0] == 'w' ? token + (token == 0) : 0;
        (void)snprintf(runs.text, sizeof runs.text, "%s", rest);
        ask((struct cv_store_request){.verb = CV_STORE_READ, .runs = &runs}, "", false);
        break;
    case 'e':
        set_column("conclave_election",
                   " node label attempt token lease_ns machine boot expires_ns since_wall_ns"
                   " renewed_wall_ns wish heir heir_until_ns pipe election ",
                   rest);
        break;
    case 'h':
        set_column("conclave_history", " election node from_wall_ns to_wall_ns why ", rest);
        break;
    case 'j':
        set_column("conclave_runs", " token version text election ", rest);
        break;
    case '+':
        add_past(rest);
        break;
    case 't':
        now_ns += llabs(strtoll(rest, NULL, 10) % 100000) * NS_PER_MS;
        break;
    case 'H':
        (void)cv__sqlite_history(&sqlite, "e", fuzz_on_past, NULL, &err);
        break;
    case 'M':
        (void)cv__sqlite_names(&sqlite, fuzz_on_name, NULL, &err);
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    begin();
    struct fuzz_input in = {data, size};
    for (char *line; (line = fuzz_line(&in)) != NULL; free(line)) {
        tell_line(line);
    }
    cv__sqlite_leave(&contender);
    return 0;
}
