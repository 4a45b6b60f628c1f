/* src/stores/pg_commands.c - PostgreSQL for commands, which connect, ask and wait: making the
 * tables, the trail of an election, the names of all elections. */
#include "stores/pg_commands.h"

#include "core/errors.h"
#include "stores/pg_link.h"
#include "stores/pg_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_BYTES 200
#define ASK_NS_MAX (5 * NS_PER_S)     /* as long as commands wait for other answers */
#define CREATE_NS_MAX (30 * NS_PER_S) /* it waits for locks of those who use the tables */

/* @s is the prefix of our tables, e.g. `public.`. */
static const char schema[] = CV_PG_SAFE_PATH
    /* IF NOT EXISTS does not protect against another session that creates them at the same time. */
    "SELECT pg_advisory_xact_lock(CAST(hashtext('conclave store init') AS bigint));"
    "CREATE SEQUENCE IF NOT EXISTS @sconclave_token;"
    "CREATE TABLE IF NOT EXISTS @sconclave_lease ("
    " election text PRIMARY KEY,"
    " token bigint NOT NULL DEFAULT 0,"
    " node text NOT NULL DEFAULT ''," /* empty: nobody holds it */
    " label bigint NOT NULL DEFAULT 0,"
    " attempt bigint NOT NULL DEFAULT 0,"
    " lease_us bigint NOT NULL DEFAULT 0,"
    " until timestamptz NOT NULL DEFAULT 'epoch',"
    " since timestamptz NOT NULL DEFAULT 'epoch',"
    " wish text NOT NULL DEFAULT '',"
    " heir text NOT NULL DEFAULT '',"
    " heir_until timestamptz NOT NULL DEFAULT 'epoch',"
    " lapsed_token bigint NOT NULL DEFAULT 0," /* the one before, if it did not release, ... */
    " lapsed_at timestamptz NOT NULL DEFAULT 'epoch');" /* ... for the next statement */
    "CREATE TABLE IF NOT EXISTS @sconclave_history ("
    " election text NOT NULL,"
    " token bigint NOT NULL,"
    " node text NOT NULL,"
    " since timestamptz NOT NULL,"
    " upto timestamptz,"
    " why text NOT NULL DEFAULT '',"
    " version text NOT NULL DEFAULT ''," /* of who led */
    " PRIMARY KEY (election, token));"
    /* Of tables of an earlier version. */
    "ALTER TABLE @sconclave_history ADD COLUMN IF NOT EXISTS version text NOT NULL DEFAULT '';"
    /* The next contender (pg_next.h). The secret is added last: if it exists, all do. */
    "ALTER TABLE @sconclave_lease"
    " ADD COLUMN IF NOT EXISTS next_node text NOT NULL DEFAULT '',"
    " ADD COLUMN IF NOT EXISTS next_label bigint NOT NULL DEFAULT 0,"
    " ADD COLUMN IF NOT EXISTS next_attempt bigint NOT NULL DEFAULT 0,"
    " ADD COLUMN IF NOT EXISTS next_lease_us bigint NOT NULL DEFAULT 0,"
    " ADD COLUMN IF NOT EXISTS next_until timestamptz NOT NULL DEFAULT 'epoch',"
    " ADD COLUMN IF NOT EXISTS next_version text NOT NULL DEFAULT '',"
    " ADD COLUMN IF NOT EXISTS next_pid int NOT NULL DEFAULT 0,"
    " ADD COLUMN IF NOT EXISTS next_secret bigint NOT NULL DEFAULT 0;"
    "CREATE TABLE IF NOT EXISTS @sconclave_runs ("
    " election text PRIMARY KEY,"
    " token bigint NOT NULL," /* who wrote it */
    " version bigint NOT NULL,"
    " text text NOT NULL);";

/* The script with the prefix of the tables, in a transaction with a safe search path. CV_OK:
 * *ret_result is the caller's; otherwise it is NULL. */
static int execute(struct cv_pg_visit *visit, const char *script, const char *prefix,
                   const char *election, PGresult **ret_result, struct cv_errtext *reterr)
{
    char *text = malloc(CV_PG_SCRIPT_BYTES);
    char *quoted = PQescapeLiteral(visit->pg, election, strlen(election));
    int code;
    *ret_result = NULL;
    if (text != NULL && quoted != NULL) {
        const char *const value[26] = {['s' - 'a'] = prefix, ['e' - 'a'] = quoted};
        cv__pg_fill(text, script, value);
        code = cv__pg_visit_ask(visit, text, ret_result, reterr);
    } else {
        code = cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    PQfreemem(quoted);
    free(text);
    return code;
}

/* Somebody else may have made tables of these names before us, with triggers that run as ours. */
static const char script_strangers[] =
    CV_PG_SAFE_PATH "SELECT c.relname, pg_get_userbyid(c.relowner) FROM pg_class c"
                    " JOIN pg_namespace n ON n.oid = c.relnamespace"
                    " WHERE quote_ident(n.nspname) || '.' = @e"
                    " AND c.relname IN ('conclave_lease', 'conclave_history',"
                    "  'conclave_token', 'conclave_runs')"
                    " AND NOT pg_has_role(current_user, c.relowner, 'MEMBER')";

static int check_owners(struct cv_pg_visit *visit, const char *prefix, struct cv_errtext *reterr)
{
    PGresult *found;
    int code = execute(visit, script_strangers, prefix, prefix, &found, reterr);
    if (code == CV_OK && PQntuples(found) > 0) {
        code =
            cv__fail(reterr, CV_E_STORE,
                     "PostgreSQL: %s%s belongs to '%s' already, who could run code as every "
                     "contender; run 'conclave store init ADDRESS' as that role, or, if it is not "
                     "to be trusted, use another schema or drop it with its records",
                     prefix, cv__pg_value(found, 0, 0), cv__pg_value(found, 0, 1));
    }
    PQclear(found);
    return code;
}

/* The tables are made in the first schema of the user's search path. */
static int tables_make(struct cv_pg_visit *visit, struct cv_errtext *reterr)
{
    char prefix[PREFIX_BYTES];
    PGresult *where, *result;
    int code = cv__pg_visit_ask(visit,
                                "SELECT pg_catalog.format('%I.', pg_catalog.current_schema())"
                                " WHERE pg_catalog.current_schema() IS NOT NULL",
                                &where, reterr);
    if (code == CV_OK && PQntuples(where) != 1) {
        code = cv__fail(
            reterr, CV_E_STORE,
            "PostgreSQL: no schema of the search path exists, so no tables can be created");
    }
    if (code == CV_OK) {
        (void)snprintf(prefix, sizeof prefix, "%s", cv__pg_value(where, 0, 0));
        code = check_owners(visit, prefix, reterr);
    }
    PQclear(where);
    if (code == CV_OK) {
        code = execute(visit, schema, prefix, "", &result, reterr);
        PQclear(code == CV_OK ? result : NULL);
    }
    return code;
}

int cv__pg_create(const char *address, struct cv_errtext *reterr)
{
    struct cv_pg_visit visit;
    int code = cv__pg_visit_begin(&visit, address, CREATE_NS_MAX, reterr);
    if (code == CV_OK) {
        code = tables_make(&visit, reterr);
    }
    cv__pg_visit_end(&visit);
    return code;
}

/* Connects and asks. CV_OK: *ret_rows is the caller's; otherwise it is NULL. */
static int rows_get(const char *address, const char *script, const char *election,
                    PGresult **ret_rows, struct cv_errtext *reterr)
{
    struct cv_pg_visit visit;
    *ret_rows = NULL;
    int code = cv__pg_visit_begin(&visit, address, ASK_NS_MAX, reterr);
    if (code == CV_OK) {
        code = execute(&visit, script, visit.prefix, election, ret_rows, reterr);
    }
    cv__pg_visit_end(&visit);
    return code;
}

int cv__pg_history(const char *address, const char *election,
                   void (*past)(void *user, const struct cv_store_past *past), void *user,
                   struct cv_errtext *reterr)
{
    static const char script[] =
        CV_PG_SAFE_PATH "SELECT node, token, (extract(epoch FROM since) * 1000000)::bigint,"
                        " coalesce((extract(epoch FROM upto) * 1000000)::bigint, 0), why"
                        " FROM @sconclave_history WHERE election = @e ORDER BY token";
    PGresult *rows;
    const int code = rows_get(address, script, election, &rows, reterr);
    for (int i = 0; code == CV_OK && i < PQntuples(rows); i++) {
        struct cv_store_past one = {.token = (uint64_t)strtoll(cv__pg_value(rows, i, 1), NULL, 10),
                                    .from_wall_ns = cv__pg_time_ns(cv__pg_value(rows, i, 2)),
                                    .to_wall_ns = cv__pg_time_ns(cv__pg_value(rows, i, 3))};
        (void)snprintf(one.node, sizeof one.node, "%s", cv__pg_value(rows, i, 0));
        (void)snprintf(one.why, sizeof one.why, "%s", cv__pg_value(rows, i, 4));
        past(user, &one);
    }
    PQclear(rows);
    return code;
}

int cv__pg_look_for_gaps(const char *address, bool *ret_has_gaps, struct cv_errtext *reterr)
{
    static const char script[] =
        CV_PG_SAFE_PATH "SELECT FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
                        " JOIN pg_namespace n ON n.oid = c.relnamespace"
                        " WHERE quote_ident(n.nspname) || '.' = @e"
                        " AND (c.relname, a.attname) IN (('conclave_history', 'version'),"
                        "  ('conclave_lease', 'next_secret'))";
    struct cv_pg_visit visit;
    PGresult *rows = NULL;
    int code = cv__pg_visit_begin(&visit, address, ASK_NS_MAX, reterr);
    if (code == CV_OK) {
        code = execute(&visit, script, visit.prefix, visit.prefix, &rows, reterr);
    }
    *ret_has_gaps = code == CV_OK && PQntuples(rows) < 2;
    PQclear(rows);
    cv__pg_visit_end(&visit);
    return code;
}

int cv__pg_names(const char *address, void (*name)(void *user, const char *name), void *user,
                 struct cv_errtext *reterr)
{
    static const char script[] =
        CV_PG_SAFE_PATH "SELECT election FROM @sconclave_lease ORDER BY election";
    PGresult *rows;
    const int code = rows_get(address, script, "", &rows, reterr);
    for (int i = 0; code == CV_OK && i < PQntuples(rows); i++) {
        name(user, cv__pg_value(rows, i, 0));
    }
    PQclear(rows);
    return code;
}
