/* src/stores/pg_link.c - see pg_link.h.
 *
 * Another user that may create objects in a schema of our search path could plant an operator or a
 * function that matches better than the built-in one; it would run with our rights. So the greeting
 * uses only qualified names and asks for the schema of our tables, and every later message begins
 * by setting the search path to pg_catalog for its transaction. It does not set it for the session,
 * because behind a pooler other clients use the same session.
 *
 * Behind a pooler, LISTEN would stay in one of its connections. A pooler is recognised by the
 * process id, which differs from the one in the greeting. libpq resolves host names and waits for
 * the answer: use IP addresses if the name service may hang. */
#include "stores/pg_link.h"

#include "core/errors.h"
#include "core/text.h"
#include "os/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS_MIN 1000 /* to one host, if the address does not say connect_timeout; ... */
#define CONNECT_MS_MAX 5000 /* ... doubled up to this while servers are slow */
#define PAUSE_MS_MIN 50
#define PAUSE_MS_MAX 1000          /* a lease lasts a few seconds: a longer pause would cost it */
#define PREPARE_VERSION_MIN 120000 /* the first that has plan_cache_mode */
#define OPTIONS_MAX 64             /* of an address; libpq has about 45 */

#define GREETING_FIELDS 5
#define GREETING_VERSION 3 /* the field that says whether versions can be noted, ... */
#define GREETING_NEXT 4    /* ... and who is next */
static const char greeting_sql[] =
    "SELECT pg_catalog.pg_backend_pid(),"
    " (SELECT pg_catalog.format('%I.', n.nspname) FROM pg_catalog.pg_class c"
    "  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
    "  WHERE c.oid OPERATOR(pg_catalog.=)"
    "   CAST(pg_catalog.to_regclass('conclave_lease') AS pg_catalog.oid)),"
    " (SELECT pg_catalog.format('%L', pg_catalog.format('%I.conclave_token', n.nspname))"
    "  FROM pg_catalog.pg_class c"
    "  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
    "  WHERE c.oid OPERATOR(pg_catalog.=)"
    "   CAST(pg_catalog.to_regclass('conclave_lease') AS pg_catalog.oid)),"
    " (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute a"
    "  WHERE a.attrelid OPERATOR(pg_catalog.=)"
    "   CAST(pg_catalog.to_regclass('conclave_history') AS pg_catalog.oid)"
    "  AND a.attname OPERATOR(pg_catalog.=) 'version'),"
    " (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute a"
    "  WHERE a.attrelid OPERATOR(pg_catalog.=)"
    "   CAST(pg_catalog.to_regclass('conclave_lease') AS pg_catalog.oid)"
    "  AND a.attname OPERATOR(pg_catalog.=) 'next_secret' AND NOT a.attisdropped)";

/* ---- Explaining failures ------------------------------------------------------------------- */

static bool is_state(const PGresult *wrong, const char *one, const char *other)
{
    const char *state = wrong != NULL ? PQresultErrorField(wrong, PG_DIAG_SQLSTATE) : NULL;
    return state != NULL && (strcmp(state, one) == 0 || strcmp(state, other) == 0);
}

bool cv__pg_is_missing(const PGresult *wrong)
{
    return is_state(wrong, "42P01", "42703");
}

bool cv__pg_is_unprepared(const PGresult *wrong)
{
    return is_state(wrong, "26000", "0A000");
}

void cv__pg_explain(const char *message, const PGresult *wrong, char *ret_why, size_t why_bytes)
{
    const char *primary = wrong != NULL ? PQresultErrorField(wrong, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    char line[CV_REMOTE_WHY_BYTES - 128];
    cv__remote_one_line(primary != NULL ? primary : message, line, sizeof line);
    if (cv__pg_is_missing(wrong)) {
        (void)snprintf(ret_why, why_bytes,
                       "PostgreSQL: %s; create what is missing with 'conclave store init ADDRESS'",
                       line);
    } else {
        (void)snprintf(ret_why, why_bytes, "PostgreSQL: %s",
                       line[0] != '\0' ? line : "the connection was lost");
    }
}

/* ---- Values in answers --------------------------------------------------------------------- */

const char *cv__pg_value(const PGresult *rows, int row, int column)
{
    const bool is_there =
        column >= 0 && column < PQnfields(rows) && row >= 0 && row < PQntuples(rows);
    const char *text = is_there ? PQgetvalue(rows, row, column) : NULL;
    return text != NULL ? text : "";
}

int64_t cv__pg_time_ns(const char *text)
{
    const int64_t most_us = INT64_MAX / NS_PER_US / 4;
    return cv__max64(-most_us, cv__min64(strtoll(text, NULL, 10), most_us)) * NS_PER_US;
}

/* ---- Addresses ----------------------------------------------------------------------------- */

/* libpq repeats the part of an address that it does not understand, and a password may be in it. A
 * single word, such as the name of a parameter, is left. */
static void hide_quoted(char *line)
{
    char *to = line;
    for (const char *from = line; *from != '\0';) {
        const char *end = *from == '"' ? strchr(from + 1, '"') : NULL;
        const char *last = end != NULL ? end : from + strlen(from) - 1; /* cut within quotes */
        const size_t bytes = (size_t)(last + 1 - from);
        if (*from == '"' && strcspn(from, ":@%/=") < bytes && bytes >= strlen("\"...\"")) {
            memcpy(to, "\"...\"", strlen("\"...\""));
            to += strlen("\"...\"");
            from += bytes;
        } else if (*from == '"' && end != NULL) {
            memmove(to, from, bytes);
            to += bytes;
            from += bytes;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

static const char *option(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword != NULL; options++) {
        if (strcmp(options->keyword, keyword) == 0) {
            return options->val;
        }
    }
    return NULL;
}

/* Does it have a password with / or @? libpq would take a part of that for a port, a host or a
 * database, try to connect there, and repeat it in its error message. */
static bool is_torn(const char *address)
{
    const char *scheme_end = strstr(address, "://");
    if (scheme_end == NULL) {
        return false;
    }
    const char *authority = scheme_end + strlen("://");
    const size_t bytes = strcspn(authority, "?"); /* options may have anything behind them */
    const char *slash = memchr(authority, '/', bytes);
    const char *authority_end = slash != NULL ? slash : authority + bytes;
    const char *first = memchr(authority, '@', (size_t)(authority_end - authority));
    const char *from = first != NULL ? first + 1 : authority_end;
    return memchr(from, '@', (size_t)(authority + bytes - from)) != NULL;
}

static PQconninfoOption *fail_password(struct cv_errtext *reterr)
{
    (void)cv__fail(reterr, CV_E_INVALID,
                   "a password in a postgres: address is refused, because every user can read "
                   "command lines; use ~/.pgpass, ?passfile=FILE or PGPASSWORD");
    return NULL;
}

/* The parameter of the address that libpq does not know, and what was probably meant. */
static bool fail_parameter(const char *line, struct cv_errtext *reterr)
{
    static const char intro[] = "invalid URI query parameter: \"";
    const char *known[CV_WORDS_MAX + 1] = {0};
    char word[64];
    if (strncmp(line, intro, strlen(intro)) != 0) {
        return false;
    }
    (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(line + strlen(intro), "\""),
                   line + strlen(intro));
    PQconninfoOption *options = PQconndefaults();
    uint32_t count = 0;
    for (uint32_t i = 0; options != NULL && options[i].keyword != NULL && count < CV_WORDS_MAX;
         i++) {
        if (strstr(options[i].keyword, "password") == NULL) {
            known[count++] = options[i].keyword;
        }
    }
    const bool is_near = cv__text_nearest(word, known) != NULL;
    if (is_near) {
        (void)cv__text_fail_unknown(reterr, CV_E_INVALID, "address option", word, known);
    }
    PQconninfoFree(options);
    return is_near;
}

/* One port, or one for each host; an empty one is the default. */
static bool are_ports(const char *list)
{
    for (const char *at = list; at != NULL;
         at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL) {
        const size_t bytes = strcspn(at, ",");
        const bool is_number = strspn(at, "0123456789") == bytes && bytes <= 5;
        if (bytes > 0 && (!is_number || atoi(at) < 1 || atoi(at) > UINT16_MAX)) {
            return false;
        }
    }
    return true;
}

/* libpq checks values only when it connects, so a mistyped one would be tried again and again. What
 * it takes for a port may be a password: `postgres://USER:PASSWORD/DATABASE` lacks the host. */
static bool values_check(const PQconninfoOption *options, struct cv_errtext *reterr)
{
    static const char *const modes[] = {"disable",   "allow",       "prefer", "require",
                                        "verify-ca", "verify-full", NULL};
    static const char *const attributes[] = {"any",     "read-write",     "read-only", "primary",
                                             "standby", "prefer-standby", NULL};
    const struct {
        const char *keyword;
        const char *const *known;
    } listed[] = {{"sslmode", modes}, {"target_session_attrs", attributes}};
    const char *port = option(options, "port");
    if (port != NULL && !are_ports(port)) {
        (void)cv__fail(reterr, CV_E_INVALID,
                       "the port of a postgres: address must be a number from 1 to 65535; write "
                       "postgres://USER@HOST:PORT/DATABASE");
        return false;
    }
    for (size_t i = 0; i < COUNT_OF(listed); i++) {
        const char *value = option(options, listed[i].keyword);
        bool is_known = value == NULL || value[0] == '\0'; /* the default */
        for (uint32_t k = 0; !is_known && listed[i].known[k] != NULL; k++) {
            is_known = strcmp(value, listed[i].known[k]) == 0;
        }
        if (!is_known) {
            (void)cv__text_fail_unknown(reterr, CV_E_INVALID, listed[i].keyword, value,
                                        listed[i].known);
            return false;
        }
    }
    return true;
}

static PQconninfoOption *address_parse(const char *address, struct cv_errtext *reterr)
{
    char *message = NULL;
    if (is_torn(address)) {
        return fail_password(reterr);
    }
    PQconninfoOption *options = PQconninfoParse(address, &message);
    if (options == NULL) {
        char line[256];
        cv__remote_one_line(message != NULL ? message : "out of memory", line, sizeof line);
        PQfreemem(message);
        hide_quoted(line);
        if (!fail_parameter(line, reterr)) {
            (void)cv__fail(reterr, CV_E_INVALID, "address of PostgreSQL: %s", line);
        }
    } else if (option(options, "password") != NULL || option(options, "sslpassword") != NULL) {
        PQconninfoFree(options);
        return fail_password(reterr);
    } else if (!values_check(options, reterr)) {
        PQconninfoFree(options);
        return NULL;
    }
    return options;
}

static uint32_t part_count(const char *list)
{
    uint32_t count = 1;
    for (; *list != '\0'; list++) {
        count += *list == ',';
    }
    return count;
}

/* Part number `index` of a list, or its only part, in memory of its own. */
static char *part(const char *list, uint32_t index)
{
    if (part_count(list) == 1) {
        return strdup(list);
    }
    for (; index > 0; index--) {
        const char *comma = strchr(list, ',');
        if (comma == NULL) {
            return strdup("");
        }
        list = comma + 1;
    }
    return strndup(list, strcspn(list, ","));
}

static uint32_t host_count(const PQconninfoOption *options)
{
    const char *hosts = option(options, "host");
    const char *addresses = option(options, "hostaddr");
    const char *list = addresses != NULL && addresses[0] != '\0' ? addresses : hosts;
    return list != NULL ? part_count(list) : 1;
}

/* libpq's own words for the address, with one of its hosts. Returns NULL without memory. */
static PGconn *connect_to(const char *address, uint32_t index)
{
    PQconninfoOption *options = PQconninfoParse(address, NULL);
    if (options == NULL) {
        return NULL;
    }
    const char *keywords[OPTIONS_MAX + 3] = {"fallback_application_name", "client_encoding"};
    const char *values[OPTIONS_MAX + 3] = {"conclave", "UTF8"};
    char *parts[3] = {NULL, NULL, NULL};
    uint32_t count = 2, parts_count = 0;
    bool is_fine = true;
    for (const PQconninfoOption *one = options; one->keyword != NULL && count < OPTIONS_MAX;
         one++) {
        if (one->val == NULL) {
            continue;
        }
        const bool is_list = strcmp(one->keyword, "host") == 0 ||
                             strcmp(one->keyword, "hostaddr") == 0 ||
                             strcmp(one->keyword, "port") == 0;
        keywords[count] = one->keyword;
        values[count] = one->val;
        if (is_list) {
            parts[parts_count] = part(one->val, index);
            is_fine = is_fine && parts[parts_count] != NULL;
            values[count] = parts[parts_count++];
        }
        count++;
    }
    PGconn *pg = is_fine ? PQconnectStartParams(keywords, values, /* expand_dbname= */ 0) : NULL;
    for (uint32_t i = 0; i < parts_count; i++) {
        free(parts[i]);
    }
    PQconninfoFree(options);
    return pg;
}

/* What the address says; 0: nothing. */
static uint64_t connect_timeout_ms(const PQconninfoOption *options)
{
    const char *text = option(options, "connect_timeout");
    const long seconds = text != NULL ? strtol(text, NULL, 10) : 0;
    return seconds > 0 && seconds < 3600 ? (uint64_t)seconds * 1000 : 0;
}

static uint64_t connect_ms(const struct cv_pg_link *link)
{
    PQconninfoOption *options = PQconninfoParse(link->address, NULL);
    const uint64_t said_ms = options != NULL ? connect_timeout_ms(options) : 0;
    PQconninfoFree(options);
    return said_ms > 0 ? said_ms : link->bound_ms;
}

/* ---- The connection ------------------------------------------------------------------------ */

struct cv_pg_poll { /* a uv handle outlives its descriptor */
    uv_poll_t poll;
    struct cv_pg_link *link;
    int events;
};

static void on_poll(uv_poll_t *handle, int status, int events);
static void on_timer(uv_timer_t *timer);
static void connect_begin(struct cv_pg_link *link);

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void poll_drop(struct cv_pg_link *link)
{
    if (link->poll != NULL) {
        uv_close((uv_handle_t *)&link->poll->poll, on_poll_closed);
        link->poll = NULL;
    }
}

/* False: without memory, or the descriptor cannot be watched. */
static bool poll_start(struct cv_pg_link *link, int events)
{
    if (link->poll == NULL) {
        struct cv_pg_poll *box = calloc(1, sizeof *box);
        if (box == NULL) {
            return false;
        }
        if (uv_poll_init(link->loop, &box->poll, PQsocket(link->pg)) != 0) {
            free(box);
            return false;
        }
        box->poll.data = box;
        box->link = link;
        link->poll = box;
    }
    if (events == link->poll->events) {
        return true; /* libuv would ask the kernel for the same again */
    }
    link->poll->events = events;
    return uv_poll_start(&link->poll->poll, events, on_poll) == 0;
}

static void results_clear(struct cv_pg_link *link)
{
    for (uint32_t i = 0; i < link->row_count; i++) {
        PQclear(link->rows[i]);
    }
    link->row_count = 0;
    PQclear(link->greeting);
    PQclear(link->wrong);
    link->greeting = NULL;
    link->wrong = NULL;
}

static void disconnect(struct cv_pg_link *link)
{
    poll_drop(link); /* first: libpq closes the descriptor */
    results_clear(link);
    PQfinish(link->pg);
    link->pg = NULL;
    link->state = CV_PG_DOWN;
    link->is_direct = link->may_prepare = link->is_prepared = link->has_next = false;
}

void cv__pg_drop(struct cv_pg_link *link)
{
    disconnect(link);
    link->tried_count = 0;
    (void)uv_timer_start(&link->timer, on_timer, link->pause_ms, 0);
    link->pause_ms = link->pause_ms * 2 > PAUSE_MS_MAX ? PAUSE_MS_MAX : link->pause_ms * 2;
}

/* This host does not work: tries the next one, or reports the failure. */
static void on_unreachable(struct cv_pg_link *link, const char *message)
{
    char why[CV_REMOTE_WHY_BYTES];
    cv__pg_explain(message, link->wrong, why, sizeof why);
    link->tried_count++;
    link->host_index = (link->host_index + 1) % link->host_count;
    if (link->tried_count < link->host_count) {
        disconnect(link);
        connect_begin(link);
        return;
    }
    cv__pg_drop(link);
    link->user.failed(link->user.self, why);
}

/* Otherwise libpq prints the server's notices and warnings. */
static void ignore_notice(void *user, const PGresult *result)
{
    (void)user;
    (void)result;
}

static void connect_begin(struct cv_pg_link *link)
{
    CV_ASSERT(link->state == CV_PG_DOWN && link->pg == NULL);
    link->state = CV_PG_CONNECTING;
    (void)uv_timer_start(&link->timer, on_timer, connect_ms(link), 0);
    link->pg = connect_to(link->address, link->host_index);
    if (link->pg == NULL || PQstatus(link->pg) == CONNECTION_BAD) {
        on_unreachable(link, link->pg != NULL ? PQerrorMessage(link->pg) : "out of memory");
        return;
    }
    (void)PQsetNoticeReceiver(link->pg, ignore_notice, NULL);
    if (!poll_start(link, UV_WRITABLE)) { /* as PQconnectPoll's manual has it */
        on_unreachable(link, "the connection cannot be watched");
    }
}

void cv__pg_connect(struct cv_pg_link *link)
{
    if (link->state == CV_PG_DOWN && !uv_is_active((uv_handle_t *)&link->timer)) {
        connect_begin(link); /* otherwise it has begun, or the pause is not over yet */
    }
}

static bool send_now(struct cv_pg_link *link, const char *script)
{
    return PQsendQuery(link->pg, script) == 1 && PQflush(link->pg) >= 0 &&
           poll_start(link, UV_READABLE | (PQflush(link->pg) == 1 ? UV_WRITABLE : 0));
}

bool cv__pg_send(struct cv_pg_link *link, const char *script)
{
    CV_ASSERT(link->state == CV_PG_READY);
    results_clear(link);
    link->state = CV_PG_ASKING;
    if (send_now(link, script)) {
        return true;
    }
    cv__pg_drop(link);
    return false;
}

static void connect_go_on(struct cv_pg_link *link)
{
    poll_drop(link); /* libpq may have another one now, with the same number */
    const PostgresPollingStatusType next = PQconnectPoll(link->pg);
    if (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
        if (!poll_start(link, next == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE)) {
            on_unreachable(link, "the connection cannot be watched");
        }
        return;
    }
    if (next == PGRES_POLLING_FAILED) {
        on_unreachable(link, PQerrorMessage(link->pg));
        return;
    }
    link->state = CV_PG_GREETING;
    if (PQsetnonblocking(link->pg, 1) != 0 || !send_now(link, greeting_sql)) {
        on_unreachable(link, PQerrorMessage(link->pg));
    }
}

/* Who answered, and where are the tables? */
static bool greeting_read(const PGresult *greeting, const PGconn *pg, bool *ret_is_direct,
                          char *ret_prefix, size_t prefix_bytes, char *ret_token,
                          size_t token_bytes)
{
    if (PQntuples(greeting) != 1 || PQnfields(greeting) != GREETING_FIELDS ||
        (size_t)PQgetlength(greeting, 0, 1) >= prefix_bytes ||
        (size_t)PQgetlength(greeting, 0, 2) >= token_bytes) {
        return false;
    }
    *ret_is_direct = atoi(PQgetvalue(greeting, 0, 0)) == PQbackendPID(pg);
    (void)snprintf(ret_prefix, prefix_bytes, "%s", PQgetvalue(greeting, 0, 1));
    (void)snprintf(ret_token, token_bytes, "%s", PQgetvalue(greeting, 0, 2));
    if (ret_token[0] == '\0') {
        (void)snprintf(ret_token, token_bytes, "'conclave_token'"); /* the server will report it */
    }
    return true;
}

static void on_greeted(struct cv_pg_link *link)
{
    if (link->wrong != NULL || link->greeting == NULL ||
        !greeting_read(link->greeting, link->pg, &link->is_direct, link->prefix,
                       sizeof link->prefix, link->token, sizeof link->token)) {
        on_unreachable(link, link->wrong != NULL ? PQerrorMessage(link->pg)
                                                 : "the server's greeting is not valid");
        return;
    }
    const bool has_column = atoi(PQgetvalue(link->greeting, 0, GREETING_VERSION)) > 0;
    const bool has_version = link->version[0] != '\0' && has_column;
    link->has_next = has_column && atoi(PQgetvalue(link->greeting, 0, GREETING_NEXT)) > 0;
    link->version_value[0] = '\0';
    if (has_version) {
        (void)snprintf(link->version_value, sizeof link->version_value, ", '%s'", link->version);
    }
    results_clear(link);
    link->may_prepare = link->is_direct && link->prefix[0] != '\0' &&
                        PQserverVersion(link->pg) >= PREPARE_VERSION_MIN;
    link->state = CV_PG_READY;
    link->pause_ms = PAUSE_MS_MIN;
    link->bound_ms = CONNECT_MS_MIN;
    link->tried_count = 0;
    (void)uv_timer_stop(&link->timer);
    const bool is_back = link->was_ready;
    link->was_ready = true;
    link->user.ready(link->user.self, is_back);
}

/* ---- Answers ------------------------------------------------------------------------------- */

/* The connection broke. What was asked can be asked again on the next one, as nothing is harmed if
 * the server has done it already. */
static void on_broken(struct cv_pg_link *link)
{
    if (link->state == CV_PG_GREETING) {
        on_unreachable(link, PQerrorMessage(link->pg));
        return;
    }
    disconnect(link);
    link->user.broken(link->user.self);
    if (!link->is_closed) {
        (void)uv_timer_stop(&link->timer); /* at once, the first time */
        cv__pg_connect(link);
    }
}

/* Takes over a result of the message at the server. */
static void result_keep(struct cv_pg_link *link, PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_FATAL_ERROR && link->wrong == NULL) {
        link->wrong = result;
    } else if (status == PGRES_TUPLES_OK && link->state == CV_PG_GREETING &&
               link->greeting == NULL) {
        link->greeting = result;
    } else if (status == PGRES_TUPLES_OK && PQfnumber(result, "remaining_us") >= 0 &&
               link->row_count < CV_PG_RESULTS_MAX) {
        link->rows[link->row_count++] = result;
    } else {
        PQclear(result);
    }
}

static void on_answered(struct cv_pg_link *link)
{
    PGresult *wrong = link->wrong;
    link->wrong = NULL;
    link->state = CV_PG_READY;
    link->user.answered(link->user.self, wrong); /* may send the next, or close */
    PQclear(wrong);
}

/* Reads what the server has sent of its answer; false: there is no connection any more. */
static bool take_answer(struct cv_pg_link *link)
{
    while ((link->state == CV_PG_ASKING || link->state == CV_PG_GREETING) &&
           PQisBusy(link->pg) == 0) {
        PGresult *result = PQgetResult(link->pg);
        if (result != NULL) {
            result_keep(link, result);
        } else if (PQstatus(link->pg) == CONNECTION_BAD) {
            on_broken(link);
            return false;
        } else if (link->state == CV_PG_GREETING) {
            on_greeted(link);
            break; /* what was asked just now is not answered yet */
        } else {
            on_answered(link);
            break;
        }
    }
    return link->pg != NULL && link->state >= CV_PG_READY;
}

static void on_readable(struct cv_pg_link *link)
{
    if (PQconsumeInput(link->pg) == 0) {
        on_broken(link);
        return;
    }
    bool is_open = take_answer(link);
    while (is_open) {
        PGnotify *one = PQnotifies(link->pg);
        if (one == NULL) {
            return;
        }
        const bool is_ours = one->be_pid == PQbackendPID(link->pg);
        link->user.notified(link->user.self, one->relname, one->extra, is_ours);
        PQfreemem(one);
        is_open = link->pg != NULL; /* it may have been closed */
    }
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct cv_pg_link *link = ((struct cv_pg_poll *)handle->data)->link;
    if (link->state == CV_PG_CONNECTING) {
        connect_go_on(link);
        return;
    }
    if (status < 0) {
        on_broken(link);
        return;
    }
    if ((events & UV_WRITABLE) != 0) {
        const int flushed = PQflush(link->pg);
        if (flushed < 0 || !poll_start(link, UV_READABLE | (flushed == 1 ? UV_WRITABLE : 0))) {
            on_broken(link);
            return;
        }
    }
    if ((events & UV_READABLE) != 0) {
        on_readable(link);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct cv_pg_link *link = timer->data;
    if (link->state == CV_PG_DOWN) {
        connect_begin(link); /* also if nobody asks: notifications come through it */
    } else {
        const bool is_last = link->tried_count + 1 == link->host_count;
        if (is_last) { /* all of them hang: perhaps they need longer */
            link->bound_ms =
                link->bound_ms * 2 > CONNECT_MS_MAX ? CONNECT_MS_MAX : link->bound_ms * 2;
        }
        on_unreachable(link, "the server does not answer");
    }
}

/* ---- Opening and closing ------------------------------------------------------------------- */

int cv__pg_init(struct cv_pg_link *link, uv_loop_t *loop, const char *address,
                const struct cv_pg_user *user, struct cv_errtext *reterr)
{
    PQconninfoOption *options = address_parse(address, reterr);
    if (options == NULL) {
        return CV_E_INVALID;
    }
    link->host_count = host_count(options);
    PQconninfoFree(options);
    link->address = strdup(address);
    if (link->address == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    link->loop = loop;
    link->user = *user;
    link->pause_ms = PAUSE_MS_MIN;
    link->bound_ms = CONNECT_MS_MIN;
    (void)uv_timer_init(loop, &link->timer); /* cannot fail */
    link->timer.data = link;
    return CV_OK;
}

void cv__pg_be_patient(struct cv_pg_link *link, uint32_t patience_ms)
{
    /* A tenth is left, so that the command hears which host it was. */
    const uint64_t each_ms = (patience_ms - patience_ms / 10) / link->host_count;
    link->bound_ms = each_ms > link->bound_ms ? each_ms : link->bound_ms;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct cv_pg_link *link = handle->data;
    free(link->address);
    link->closed(link->user.self);
}

void cv__pg_close(struct cv_pg_link *link, void (*closed)(void *self))
{
    CV_ASSERT(!link->is_closed);
    link->is_closed = true;
    link->closed = closed;
    disconnect(link);
    uv_close((uv_handle_t *)&link->timer, on_timer_closed);
}

/* ---- For commands, which wait -------------------------------------------------------------- */

/* False: the time is over. */
static bool await_socket(const PGconn *pg, short events, int64_t until_ns)
{
    struct pollfd wait = {.fd = PQsocket(pg), .events = events};
    int ready = -1;
    errno = EINTR;
    while (ready < 0 && errno == EINTR) {
        const int64_t left_ns = until_ns - cv__clock_now_ns();
        if (left_ns <= 0) {
            return false;
        }
        ready = poll(&wait, 1, (int)cv__min64((left_ns + NS_PER_MS - 1) / NS_PER_MS, INT_MAX));
    }
    return ready > 0;
}

static int fail_visit(const char *message, const PGresult *wrong, struct cv_errtext *reterr)
{
    char why[CV_REMOTE_WHY_BYTES];
    cv__pg_explain(message, wrong, why, sizeof why);
    return cv__fail(reterr, CV_E_STORE, "%s", why);
}

/* Connects to one of the hosts. On failure there is no connection. */
static int visit_host(struct cv_pg_visit *visit, const char *address, uint32_t index,
                      int64_t until_ns, struct cv_errtext *reterr)
{
    PGconn *pg = connect_to(address, index);
    bool is_late = false;
    PostgresPollingStatusType next =
        PQstatus(pg) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
    while (!is_late && next != PGRES_POLLING_OK && next != PGRES_POLLING_FAILED) {
        is_late = !await_socket(pg, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, until_ns);
        next = is_late ? next : PQconnectPoll(pg);
    }
    if (next == PGRES_POLLING_OK && PQsetnonblocking(pg, 1) == 0) {
        (void)PQsetNoticeReceiver(pg, ignore_notice, NULL);
        visit->pg = pg;
        return CV_OK;
    }
    char late[CV_REMOTE_WHY_BYTES];
    (void)snprintf(late, sizeof late, "the server at \"%s\", port %s, does not answer",
                   pg != NULL ? PQhost(pg) : "", pg != NULL ? PQport(pg) : "");
    const char *message = is_late ? late : pg != NULL ? PQerrorMessage(pg) : "out of memory";
    const int code = fail_visit(message, NULL, reterr);
    PQfinish(pg);
    return code;
}

/* One host that hangs leaves time for the others. */
static int visit_connect(struct cv_pg_visit *visit, const char *address, uint32_t host_count,
                         int64_t host_ns_max, struct cv_errtext *reterr)
{
    int code = CV_E_STORE;
    for (uint32_t i = 0; i < host_count && visit->pg == NULL; i++) {
        struct cv_errtext why;
        const int64_t now_ns = cv__clock_now_ns();
        const int64_t share_ns = (visit->until_ns - now_ns) / (host_count - i);
        code = visit_host(visit, address, i, now_ns + cv__min64(share_ns, host_ns_max), &why);
        if (code != CV_OK && i == 0) {
            (void)cv__fail(reterr, code, "%s", why.text);
        }
    }
    return code;
}

/* Waits until there is a result. A long answer may take longer, as long as it goes on. */
static int visit_await(struct cv_pg_visit *visit, struct cv_errtext *reterr)
{
    PGconn *pg = visit->pg;
    while (PQisBusy(pg) != 0) {
        const int flushed = PQflush(pg); /* a failure shows when the socket is read */
        if (!await_socket(pg, flushed == 1 ? POLLIN | POLLOUT : POLLIN, visit->until_ns)) {
            return cv__fail(reterr, CV_E_STORE, "no answer from the postgres: store within %g s",
                            (double)visit->patience_ns / 1e9);
        }
        if (PQconsumeInput(pg) == 0) {
            return fail_visit(PQerrorMessage(pg), NULL, reterr);
        }
        if (PQisBusy(pg) != 0) {
            visit->until_ns = cv__clock_now_ns() + visit->patience_ns;
        }
    }
    return CV_OK;
}

int cv__pg_visit_ask(struct cv_pg_visit *visit, const char *script, PGresult **ret_result,
                     struct cv_errtext *reterr)
{
    PGresult *last = NULL, *next = NULL;
    *ret_result = NULL;
    if (PQsendQuery(visit->pg, script) != 1) {
        return fail_visit(PQerrorMessage(visit->pg), NULL, reterr);
    }
    do {
        const int code = visit_await(visit, reterr);
        if (code != CV_OK) {
            PQclear(last);
            return code;
        }
        next = PQgetResult(visit->pg);
        if (next != NULL) {
            PQclear(last);
            last = next;
        }
    } while (next != NULL);
    const ExecStatusType status = PQresultStatus(last);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        const int code = fail_visit(
            last != NULL ? PQresultErrorMessage(last) : PQerrorMessage(visit->pg), last, reterr);
        PQclear(last);
        return code;
    }
    *ret_result = last;
    return CV_OK;
}

static int visit_greet(struct cv_pg_visit *visit, struct cv_errtext *reterr)
{
    PGresult *greeting;
    char token[200];
    bool is_direct;
    int code = cv__pg_visit_ask(visit, greeting_sql, &greeting, reterr);
    if (code == CV_OK && !greeting_read(greeting, visit->pg, &is_direct, visit->prefix,
                                        sizeof visit->prefix, token, sizeof token)) {
        code = fail_visit("the server's greeting is not valid", NULL, reterr);
    }
    PQclear(greeting);
    return code;
}

int cv__pg_visit_begin(struct cv_pg_visit *visit, const char *address, int64_t patience_ns,
                       struct cv_errtext *reterr)
{
    *visit = (struct cv_pg_visit){.patience_ns = patience_ns,
                                  .until_ns = cv__clock_now_ns() + patience_ns};
    PQconninfoOption *options = address_parse(address, reterr);
    if (options == NULL) {
        return CV_E_INVALID;
    }
    const uint32_t hosts = host_count(options);
    const uint64_t said_ms = connect_timeout_ms(options);
    const int64_t host_ns_max = (int64_t)(said_ms > 0 ? said_ms : CONNECT_MS_MAX) * NS_PER_MS;
    PQconninfoFree(options);
    int code = visit_connect(visit, address, hosts, host_ns_max, reterr);
    if (code == CV_OK) {
        code = visit_greet(visit, reterr);
    }
    return code;
}

void cv__pg_visit_end(struct cv_pg_visit *visit)
{
    PQfinish(visit->pg);
    visit->pg = NULL;
}
