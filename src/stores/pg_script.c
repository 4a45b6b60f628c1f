/* src/stores/pg_script.c - the SQL of each request, and how its values are filled in.
 *
 * Most of what a request costs the server is reading and planning its statements. In a session that
 * is ours alone they are prepared once, and a request only names them with its values: the same
 * statements, in the same order and transaction. Behind a pooler the next transaction may have
 * another session, which does not know them, so there the text itself is sent. */
#include "stores/pg_script.h"

#include "core/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SESSION_BYTES 64 /* NAMEDATALEN, with the final zero */

/* In the scripts, @e is the election, @n the node, @c the channel, @h the heir (all of them
 * quoted), @w what the session of one that waits is called, @k whether that ends with the
 * transaction, @r a reason, @l the label, @a the attempt, @u the lease in us, @t the token, @q the
 * sequence, @s the prefix of our tables, e.g. `public.`, @x and @y the column for versions with a
 * comma before it, and our version, or nothing where the table does not have it. */
/* @p is how long to wait for locks: a statement that the client has given up shall not be carried
 * out much later. */
static const char prologue[] =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),"
    " pg_catalog.set_config('lock_timeout', @p, true), CASE WHEN"
    "  pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off'"
    "  THEN pg_catalog.set_config('synchronous_commit', 'on', true) END@g;";
/* @g, for prepared statements: their plans are made once, whatever the values are. */
static const char general_plans[] =
    ", pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true)";

#define SELECT_ROW_AND(more)                                                              \
    "SELECT token, node, label, attempt, lease_us,"                                       \
    " (extract(epoch FROM until - clock_timestamp()) * 1000000)::bigint AS remaining_us," \
    " (extract(epoch FROM since) * 1000000)::bigint AS since_us, wish,"                   \
    " CASE WHEN node = '' AND heir NOT IN ('', @n)"                                       \
    "  THEN (extract(epoch FROM heir_until - clock_timestamp()) * 1000000)::bigint"       \
    "  ELSE 0 END AS kept_us,"                                                            \
    " coalesce((SELECT why FROM @sconclave_history h WHERE h.election = @e"               \
    "  AND h.token = l.token), '') AS ended" more " FROM @sconclave_lease l WHERE election = @e;"
#define SELECT_ROW SELECT_ROW_AND("")
#define IS_MINE "election = @e AND label = @l AND attempt = @a"
#define LEASE_END "clock_timestamp() + @u * interval '1 microsecond'"

/* With the holder's version, also from tables that have no column for it, and with the leadership
 * before it: token, microseconds, why, node. */
static const char script_read[] =
    SELECT_ROW_AND(", (SELECT to_jsonb(h) ->> 'version' FROM @sconclave_history h"
                   " WHERE h.election = @e AND h.token = l.token) AS holder_version,"
                   " (SELECT concat_ws(' ', h.token,"
                   " (extract(epoch FROM h.upto) * 1000000)::bigint, h.why, h.node)"
                   " FROM @sconclave_history h WHERE h.election = @e AND h.token < l.token"
                   " AND h.upto IS NOT NULL ORDER BY h.token DESC LIMIT 1) AS last_end");

static const char script_acquire[] =
    "INSERT INTO @sconclave_lease (election) VALUES (@e) ON CONFLICT DO NOTHING;"
    /* The same attempt again. */
    "UPDATE @sconclave_lease SET until = greatest(until, " LEASE_END "), lease_us = @u"
    " WHERE " IS_MINE " AND node <> '' AND @t IN (0, token);"
    /* Free, run out, or our own of an earlier attempt; and not kept for an heir. An attempt that
     * was granted before (@t) and lost is not granted again: it would have another token. */
    "UPDATE @sconclave_lease SET"
    " lapsed_token = CASE WHEN node = '' THEN 0 ELSE token END,"
    " lapsed_at = least(until, clock_timestamp()),"
    " token = greatest(token + 1, nextval(@q)), node = @n,"
    " label = @l, attempt = @a, lease_us = @u,"
    " until = " LEASE_END ", since = clock_timestamp(), wish = '', heir = ''"
    " WHERE election = @e AND NOT (label = @l AND attempt = @a) AND @t = 0"
    " AND (node = '' OR until <= clock_timestamp()"
    "  OR label = @l AND attempt < @a)"
    " AND (node <> '' OR heir IN ('', @n) OR heir_until <= clock_timestamp())"
    " RETURNING pg_notify(@c, 'taken');"
    /* Not in one statement with that: this one sees what was committed while that one waited. */
    "WITH lapsed AS (UPDATE @sconclave_history h SET upto = greatest(h.since, l.lapsed_at),"
    " why = 'expired' FROM @sconclave_lease l WHERE l.election = @e AND l.label = @l"
    " AND l.attempt = @a AND h.election = l.election AND h.token = l.lapsed_token"
    " AND h.upto IS NULL)"
    "INSERT INTO @sconclave_history (election, token, node, since@x)"
    " SELECT election, token, node, since@y FROM @sconclave_lease WHERE " IS_MINE " AND node <> ''"
    " ON CONFLICT DO NOTHING;"
    /* For people: the name of the session says that it waits, and for what. */
    SELECT_ROW_AND(", set_config('application_name', CASE WHEN label = @l AND attempt = @a"
                   " AND node <> '' THEN 'conclave' ELSE @w END, @k)");

static const char script_renew[] =
    "UPDATE @sconclave_lease SET until = greatest(until, " LEASE_END "), lease_us = @u"
    " WHERE " IS_MINE " AND node <> '' AND @t IN (0, token);" SELECT_ROW;

static const char script_release[] =
    "WITH freed AS (UPDATE @sconclave_lease SET node = '', until = least(until, "
    "clock_timestamp()), wish = '',"
    " heir = @h, heir_until = clock_timestamp()"
    "  + least(lease_us, 2000000) * interval '1 microsecond'"
    " WHERE " IS_MINE " AND node <> '' RETURNING token, until, pg_notify(@c, 'free'))"
    "UPDATE @sconclave_history h SET upto = greatest(h.since, freed.until), why = @r"
    " FROM freed WHERE h.election = @e AND h.token = freed.token AND h.upto IS "
    "NULL;" SELECT_ROW_AND(", set_config('application_name', 'conclave', @k)");

static const char script_resign_request[] =
    "UPDATE @sconclave_lease SET wish = @h WHERE election = @e AND node <> ''"
    " AND until > clock_timestamp() RETURNING pg_notify(@c, 'wish');" SELECT_ROW;

/* About runs: @t is the token that wants to write, @v the version of the text that it knows, @j the
 * text. The answers have `remaining_us` as all others: by that they are known (pg_link.c). */
static const char script_runs_read[] =
    "SELECT coalesce(max(text), '') AS text, coalesce(max(version), 0) AS version,"
    " 0 AS remaining_us FROM @sconclave_runs WHERE election = @e;";

/* Who waits: by the names of their sessions, see session_write(). The answer has a row for each.
 * Since when is not known, but since when it is connected. */
static const char script_waiting[] =
    "SELECT substr(application_name, strpos(application_name, ' ') + 1) AS waits,"
    " substr(split_part(application_name, ' ', 1), length(@c) + 2) AS waits_version,"
    " coalesce((extract(epoch FROM backend_start) * 1000000)::bigint, 0) AS waits_us,"
    " 0 AS remaining_us FROM pg_stat_activity"
    " WHERE datname = current_database()"
    " AND left(application_name, length(@c) + 1) IN (@c || ' ', @c || '/')"
    " ORDER BY backend_start;";

/* The sequence must not be behind the token of a row that is removed: tokens do not go back. */
static const char script_forget[] =
    "SELECT setval(@q, token) FROM @sconclave_lease WHERE election = @e"
    " AND token > (SELECT last_value FROM @sconclave_token) FOR UPDATE;"
    "DELETE FROM @sconclave_lease WHERE election = @e"
    " AND (node = '' OR until <= clock_timestamp());"
    "DELETE FROM @sconclave_history WHERE election = @e"
    " AND NOT EXISTS (SELECT FROM @sconclave_lease WHERE election = @e);"
    "DELETE FROM @sconclave_runs WHERE election = @e"
    " AND NOT EXISTS (SELECT FROM @sconclave_lease WHERE election = @e);" SELECT_ROW;

#define IS_HELD "l.election = @e AND l.token = @t AND l.node <> ''"

static const char script_runs_write[] =
    /* The lock on the row is had before its token is judged, and kept until the commit. */
    "WITH written AS (INSERT INTO @sconclave_runs AS r (election, token, version, text)"
    " SELECT @e, @t, @v + 1, @j FROM @sconclave_lease l WHERE " IS_HELD " FOR UPDATE OF l"
    " ON CONFLICT (election) DO UPDATE SET token = excluded.token, version = excluded.version,"
    " text = excluded.text WHERE r.version = @v RETURNING 1)"
    "SELECT EXISTS (SELECT FROM written)::int AS is_written,"
    " EXISTS (SELECT FROM @sconclave_lease l WHERE " IS_HELD ")::int AS is_held,"
    " 0 AS remaining_us;";

static const char *const verb_scripts[] = {[CV_STORE_READ] = script_read,
                                           [CV_STORE_ACQUIRE] = script_acquire,
                                           [CV_STORE_RENEW] = script_renew,
                                           [CV_STORE_RELEASE] = script_release};

static const char *script_for(const struct cv_remote_request *one)
{
    if (one->ask.runs != NULL) {
        return one->ask.runs->token == 0 ? script_runs_read : script_runs_write;
    }
    if (one->ask.list != NULL) {
        return script_waiting;
    }
    if (one->ask.forgets) {
        return script_forget;
    }
    if (one->is_resign_request) {
        return script_resign_request;
    }
    return verb_scripts[one->ask.verb];
}

/* Puts the values into the part of a script before `end`. Returns its length. */
static size_t fill_part(char *ret_script, const char *script, const char *end,
                        const char *const value[26])
{
    size_t length = 0;
    for (const char *at = script; at < end; at++) {
        if (*at != '@') {
            ret_script[length++] = *at;
        } else {
            at++;
            const char *text = value[*at - 'a'];
            const size_t bytes = strlen(text);
            CV_ASSERT(length + bytes < CV_PG_SCRIPT_BYTES);
            memcpy(ret_script + length, text, bytes);
            length += bytes;
        }
        CV_ASSERT(length < CV_PG_SCRIPT_BYTES);
    }
    ret_script[length] = '\0';
    return length;
}

void cv__pg_fill(char ret_script[CV_PG_SCRIPT_BYTES], const char *script,
                 const char *const value[26])
{
    (void)fill_part(ret_script, script, script + strlen(script), value);
}

static const char *version_column(const struct cv_pg_link *link)
{
    return link->version_value[0] != '\0' ? ", version" : "";
}

/* ---- Prepared statements --------------------------------------------------------------------- */

/* The type of the parameter that stands for a letter; NULL: it stands in the text, as a name. */
static const char *letter_type(char letter)
{
    return strchr("sqxy", letter) != NULL     ? NULL
           : strchr("cehnrw", letter) != NULL ? "text"
           : letter == 'k'                    ? "boolean"
                                              : "bigint";
}

/* The letters of a statement that are its parameters, each once, in the order of the alphabet. */
static uint32_t letters_of(const char *statement, const char *end, char ret_letters[26])
{
    bool is_used[26] = {false};
    uint32_t count = 0;
    for (const char *at = statement; at < end; at++) {
        if (*at == '@') {
            is_used[at[1] - 'a'] = letter_type(at[1]) != NULL;
        }
    }
    for (int i = 0; i < 26; i++) {
        if (is_used[i]) {
            ret_letters[count++] = (char)('a' + i);
        }
    }
    return count;
}

static size_t name_write(enum cv_store_verb verb, uint32_t index, char *ret_text)
{
    static const char *const names[] = {[CV_STORE_READ] = "read",
                                        [CV_STORE_ACQUIRE] = "acquire",
                                        [CV_STORE_RENEW] = "renew",
                                        [CV_STORE_RELEASE] = "release"};
    return (size_t)sprintf(ret_text, "conclave_%s_%" PRIu32, names[verb], index);
}

size_t cv__pg_prepare_write(const struct cv_pg_link *link, enum cv_store_verb verb,
                            char ret_script[CV_PG_SCRIPT_BYTES])
{
    const char *at = verb_scripts[verb];
    size_t length = 0;
    for (uint32_t index = 0; *at != '\0'; index++) {
        const char *end = strchr(at, ';'); /* none of our texts has one within a statement */
        char letters[26], number[26][8];
        const char *value[26] = {['s' - 'a'] = link->prefix,
                                 ['q' - 'a'] = link->token,
                                 ['x' - 'a'] = version_column(link),
                                 ['y' - 'a'] = link->version_value};
        const uint32_t count = letters_of(at, end, letters);
        length += (size_t)sprintf(ret_script + length, "PREPARE ");
        length += name_write(verb, index, ret_script + length);
        for (uint32_t i = 0; i < count; i++) {
            (void)snprintf(number[i], sizeof number[i], "$%" PRIu32, i + 1);
            value[letters[i] - 'a'] = number[i];
            length += (size_t)sprintf(ret_script + length, "%s%s", i == 0 ? "(" : ",",
                                      letter_type(letters[i]));
        }
        length += (size_t)sprintf(ret_script + length, "%s AS ", count > 0 ? ")" : "");
        length += fill_part(ret_script + length, at, end + 1, value);
        CV_ASSERT(length < CV_PG_SCRIPT_BYTES);
        at = end + 1;
    }
    return length;
}

/* The same as filling in the script of this verb, by the names of its statements. The row is not
 * made where it was seen before; if somebody has removed it since, the answer will say so. */
static void execute_write(enum cv_store_verb verb, bool has_row, const char *const value[26],
                          char ret_script[CV_PG_SCRIPT_BYTES])
{
    const char *at = verb_scripts[verb];
    size_t length = 0;
    for (uint32_t index = 0; *at != '\0'; index++) {
        const char *end = strchr(at, ';');
        char letters[26];
        if (verb == CV_STORE_ACQUIRE && index == 0 && has_row) {
            at = end + 1; /* which would make the row */
            continue;
        }
        const uint32_t count = letters_of(at, end, letters);
        length += (size_t)sprintf(ret_script + length, "EXECUTE ");
        length += name_write(verb, index, ret_script + length);
        for (uint32_t i = 0; i < count; i++) {
            const char *text = value[letters[i] - 'a'];
            CV_ASSERT(length + strlen(text) + 64 < CV_PG_SCRIPT_BYTES);
            length += (size_t)sprintf(ret_script + length, "%s%s", i == 0 ? "(" : ",", text);
        }
        length += (size_t)sprintf(ret_script + length, "%s;", count > 0 ? ")" : "");
        at = end + 1;
    }
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Without a character that was cut at the end: the server refuses half of one. */
static size_t utf8_bytes(const char *text)
{
    size_t bytes = strlen(text);
    size_t begin = bytes;
    while (begin > 0 && ((unsigned char)text[begin - 1] & 0xc0) == 0x80) {
        begin--;
    }
    if (begin > 0 && (unsigned char)text[begin - 1] >= 0xc0) {
        const unsigned char lead = (unsigned char)text[begin - 1];
        const size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        bytes = bytes - (begin - 1) < wanted ? begin - 1 : bytes;
    }
    return bytes;
}

struct number_text {
    char text[24];
};

static const char *number_write(int64_t number, struct number_text *text)
{
    (void)snprintf(text->text, sizeof text->text, "%" PRId64, number);
    return text->text;
}

/* The name of the session of one that waits: the channel, the version if there is room for it, and
 * the contender's name. The server would cut a longer one, with a notice. Returns its length. */
static size_t session_write(const struct cv_pg_asker *asker, char ret_name[SESSION_BYTES])
{
    const struct cv_remote *remote = asker->remote;
    const size_t bytes =
        strlen(asker->channel) + strlen("/ ") + strlen(remote->version) + strlen(remote->node);
    const bool has_version = remote->version[0] != '\0' && bytes < SESSION_BYTES;
    const int begin = snprintf(ret_name, SESSION_BYTES, "%s%s%s ", asker->channel,
                               has_version ? "/" : "", has_version ? remote->version : "");
    CV_ASSERT(begin > 0 && begin < SESSION_BYTES); /* channels are 25 bytes */
    const size_t node_bytes = strnlen(remote->node, SESSION_BYTES - 1 - (size_t)begin);
    memcpy(ret_name + begin, remote->node, node_bytes);
    ret_name[(size_t)begin + node_bytes] = '\0';
    return utf8_bytes(ret_name);
}

bool cv__pg_request_write(const struct cv_pg_asker *asker, const struct cv_remote_request *one,
                          char ret_script[CV_PG_SCRIPT_BYTES])
{
    const struct cv_remote *remote = asker->remote;
    const char *other = one->is_resign_request && one->heir[0] == '\0' ? "*" : one->heir;
    PGconn *pg = asker->link->pg;
    char *election = PQescapeLiteral(pg, remote->election, strlen(remote->election));
    char *node = PQescapeLiteral(pg, remote->node, strlen(remote->node));
    char *heir = PQescapeLiteral(pg, other, strlen(other));
    char channel[40], why[40];
    (void)snprintf(channel, sizeof channel, "'%s'", asker->channel);
    char waits[SESSION_BYTES];
    const size_t waits_bytes = session_write(asker, waits);
    char *session = PQescapeLiteral(pg, waits, waits_bytes);
    const enum cv_reason reason =
        one->ask.reason != CV_REASON_STARTED ? one->ask.reason : CV_REASON_RESIGNED;
    (void)snprintf(why, sizeof why, "'%s'", cv_reason_name(reason));
    const struct cv_store_runs *about = one->ask.runs;
    const char *told = about != NULL && about->token != 0 ? about->text : "";
    char *runs = PQescapeLiteral(pg, told, strlen(told));
    const bool is_fine =
        election != NULL && node != NULL && heir != NULL && runs != NULL && session != NULL;
    if (is_fine) {
        struct number_text label, attempt, lease, token, version;
        const char *const value[26] = {
            ['e' - 'a'] = election,
            ['n' - 'a'] = node,
            ['c' - 'a'] = channel,
            ['h' - 'a'] = heir,
            ['r' - 'a'] = why,
            ['s' - 'a'] = asker->link->prefix,
            ['q' - 'a'] = asker->link->token,
            ['x' - 'a'] = version_column(asker->link),
            ['y' - 'a'] = asker->link->version_value,
            ['l' - 'a'] = number_write((int64_t)remote->label, &label),
            ['a' - 'a'] = number_write((int64_t)one->ask.attempt, &attempt),
            ['u' - 'a'] = number_write((one->ask.lease_ns + NS_PER_US - 1) / NS_PER_US, &lease),
            ['t' - 'a'] = number_write((int64_t)asker->token, &token),
            ['j' - 'a'] = runs,
            ['w' - 'a'] = session,
            /* The sessions of a pooler are not ours to name. */
            ['k' - 'a'] = asker->link->is_direct ? "false" : "true",
            ['v' - 'a'] = number_write(about != NULL ? (int64_t)about->version : 0, &version)};
        const char *script = script_for(one);
        if (asker->link->is_prepared && script == verb_scripts[one->ask.verb]) {
            execute_write(one->ask.verb, asker->has_row, value, ret_script);
        } else {
            cv__pg_fill(ret_script, script, value);
        }
    }
    PQfreemem(election);
    PQfreemem(node);
    PQfreemem(heir);
    PQfreemem(runs);
    PQfreemem(session);
    return is_fine;
}

void cv__pg_prologue_write(const struct cv_pg_link *link, int64_t patience_ns,
                           char ret_script[CV_PG_SCRIPT_BYTES])
{
    char patience[40];
    (void)snprintf(patience, sizeof patience, "'%" PRId64 "ms'", patience_ns / NS_PER_MS);
    const char *const value[26] = {['p' - 'a'] = patience,
                                   ['g' - 'a'] = link->is_prepared ? general_plans : ""};
    cv__pg_fill(ret_script, prologue, value);
}
