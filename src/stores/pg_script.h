/* src/stores/pg_script.h - the SQL of each request to PostgreSQL.
 *
 * A request is a few statements, a text with @letters in the places of its values (pg_script.c says
 * which letter is what). Several of them, after one prologue, are one message and one transaction.
 * Texts are quoted by libpq for the connection that they are meant for. */
#ifndef CV_STORES_PG_SCRIPT_H
#define CV_STORES_PG_SCRIPT_H

#include "stores/pg_link.h"

#define CV_PG_SCRIPT_BYTES 16384 /* longer than any request with the longest names */

/* Each message begins with this: the names of functions and operators below need no schema then, as
 * nobody else creates any there. See pg_link.c. */
#define CV_PG_SAFE_PATH "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);"

/* Puts the values in their places: @x stands for value[x - 'a']. */
void cv__pg_fill(char ret_script[CV_PG_SCRIPT_BYTES], const char *script,
                 const char *const value[26]);

/* The begin of a message whose statements wait for locks at most so long. */
void cv__pg_prologue_write(const struct cv_pg_link *link, int64_t patience_ns,
                           char ret_script[CV_PG_SCRIPT_BYTES]);

/* Makes the settings of a session that is ours alone, for all its transactions; returns the
 * length. */
size_t cv__pg_session_write(char *ret_script);

/* Prepares the statements of a verb in this session; returns the length. */
size_t cv__pg_prepare_write(const struct cv_pg_link *link, enum cv_store_verb verb,
                            char ret_script[CV_PG_SCRIPT_BYTES]);

/* The contender that asks, and its connection. */
struct cv_pg_asker {
    const struct cv_pg_link *link;
    const struct cv_remote *remote;
    const char *channel;
    uint64_t token;  /* that this attempt has, or had; 0: none yet */
    bool has_row;    /* the last answer had the election's row */
    uint64_t secret; /* of its registration as the next one; 0: it does not register */
};

/* False: there is no memory. */
bool cv__pg_request_write(const struct cv_pg_asker *asker, const struct cv_remote_request *one,
                          char ret_script[CV_PG_SCRIPT_BYTES]);

#endif
