/* src/stores/pg_script.c - the SQL of each request, and how its values are filled in.
 *
 * Most of the server's work for a request is parsing and planning its statements. In a session that
 * is not shared they are prepared once, and a request only names them with its values: the same
 * statements, in the same order and transaction. Behind a pooler the next transaction may use
 * another session without these prepared statements, so there the text itself is sent. */
#include "stores/pg_script.h"

#include "core/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SESSION_BYTES 64 /* NAMEDATALEN, with the final zero */

/* In the scripts, @e is the election, @n the node, @c the channel, @h the heir (all of them
 * quoted), @w the name of the session of a waiting contender, @k whether that name ends with the
 * transaction, @r a reason, @l the label, @a the attempt, @u the lease in us, @t the token, @q the
 * sequence, @s the prefix of our tables, e.g. `public.`, @x and @y the column for versions with a
 * comma before it, and our version, or nothing where the table does not have it, @o our version or
 * an empty text, @z the secret of one that may be next, 0: it may not (pg_next.h). */
/* @p is how long to wait for locks: a statement that the client has given up must not be carried
 * out much later. */
static const char prologue[] =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),"
    " pg_catalog.set_config('lock_timeout', @p, true), CASE WHEN"
    "  pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off'"
    "  THEN pg_catalog.set_config('synchronous_commit', 'on', true) END;";
/* The same for a session that is ours alone: once, and for good, whatever the server's files say
 * later. Plans of prepared statements are made once, whatever the values are. */
static const char session_settings[] =
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),"
    " pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', false),"
    " pg_catalog.set_config('synchronous_commit', CASE WHEN"
    "  pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off' THEN 'on'"
    "  ELSE pg_catalog.current_setting('synchronous_commit') END, false);";
static const char session_prologue[] = "SET LOCAL lock_timeout = @p;";

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

/* With the end of the lease, the holder's version, also from tables that have no column for it, and
 * the leadership before it: token, microseconds, why, node. */
static const char script_read[] =
    SELECT_ROW_AND(", (extract(epoch FROM until) * 1000000)::bigint AS until_us,"
                   " (SELECT to_jsonb(h) ->> 'version' FROM @sconclave_history h"
                   " WHERE h.election = @e AND h.token = l.token) AS holder_version,"
                   " (SELECT concat_ws(' ', h.token,"
                   " (extract(epoch FROM h.upto) * 1000000)::bigint, h.why, h.node)"
                   " FROM @sconclave_history h WHERE h.election = @e AND h.token < l.token"
                   " AND h.upto IS NOT NULL ORDER BY h.token DESC LIMIT 1) AS last_end");

/* The row; then the same attempt again. The leadership that has lapsed is noted for the trail: with
 * a minus sign if it was this contender's own, which knows why it ended. */
#define ACQUIRE_AGAIN                                                                   \
    "INSERT INTO @sconclave_lease (election) VALUES (@e) ON CONFLICT DO NOTHING;"       \
    "UPDATE @sconclave_lease SET until = greatest(until, " LEASE_END "), lease_us = @u" \
    " WHERE " IS_MINE " AND node <> '' AND @t IN (0, token);"
#define ACQUIRE_SET                                                                          \
    "UPDATE @sconclave_lease SET"                                                            \
    " lapsed_token = CASE WHEN node = '' THEN 0 WHEN label = @l THEN -token ELSE token END," \
    " lapsed_at = least(until, clock_timestamp()),"                                          \
    " token = greatest(token + 1, nextval(@q)), node = @n,"                                  \
    " label = @l, attempt = @a, lease_us = @u,"                                              \
    " until = " LEASE_END ", since = clock_timestamp(), wish = '', heir = ''"
/* Free, run out, or our own of an earlier attempt; and not kept for an heir. An attempt that
 * was granted before (@t) and lost is not granted again: it would have another token. */
#define ACQUIRE_IF                                                             \
    " WHERE election = @e AND NOT (label = @l AND attempt = @a) AND @t = 0"    \
    " AND (node = '' OR until <= clock_timestamp()"                            \
    "  OR label = @l AND attempt < @a)"                                        \
    " AND (node <> '' OR heir IN ('', @n) OR heir_until <= clock_timestamp())" \
    " RETURNING pg_notify(@c, 'taken');"
/* Not in one statement with that: this one sees what was committed while that one waited. */
#define ACQUIRE_TRAIL                                                                        \
    "WITH lapsed AS (UPDATE @sconclave_history h SET upto = greatest(h.since, l.lapsed_at)," \
    " why = CASE WHEN l.lapsed_token < 0 THEN @r ELSE 'expired' END"                         \
    " FROM @sconclave_lease l WHERE l.election = @e AND l.label = @l"                        \
    " AND l.attempt = @a AND h.election = l.election AND h.token = abs(l.lapsed_token)"      \
    " AND h.upto IS NULL)"                                                                   \
    "INSERT INTO @sconclave_history (election, token, node, since@x)"                        \
    " SELECT election, token, node, since@y FROM @sconclave_lease WHERE " IS_MINE            \
    " AND node <> '' ON CONFLICT DO NOTHING;"
/* For people: the name of the session says that it waits, and for what. */
#define WAITING_NAME                                                         \
    ", set_config('application_name', CASE WHEN label = @l AND attempt = @a" \
    " AND node <> '' THEN 'conclave' ELSE @w END, @k)"
#define OTHER_NAME ", set_config('application_name', 'conclave', @k)"

static const char script_acquire[] =
    ACQUIRE_AGAIN ACQUIRE_SET ACQUIRE_IF ACQUIRE_TRAIL SELECT_ROW_AND(WAITING_NAME);

/* One that the server carries out after the end of the lease, because it hung, revives nothing: the
 * holder has stopped at its own time, which is over before this one. */
static const char script_renew[] =
    "UPDATE @sconclave_lease SET until = greatest(until, " LEASE_END "), lease_us = @u"
    " WHERE " IS_MINE " AND node <> '' AND @t IN (0, token)"
    " AND until > clock_timestamp();" SELECT_ROW_AND(OTHER_NAME);

#define RELEASE                                                                        \
    "WITH freed AS (UPDATE @sconclave_lease SET node = '', until = least(until, "      \
    "clock_timestamp()), wish = '',"                                                   \
    " heir = @h, heir_until = clock_timestamp()"                                       \
    "  + least(lease_us, 2000000) * interval '1 microsecond'"                          \
    " WHERE " IS_MINE " AND node <> '' RETURNING token, until, pg_notify(@c, 'free'))" \
    "UPDATE @sconclave_history h SET upto = greatest(h.since, freed.until), why = @r"  \
    " FROM freed WHERE h.election = @e AND h.token = freed.token AND h.upto IS "       \
    "NULL;" SELECT_ROW_AND(OTHER_NAME)

static const char script_release[] = RELEASE;

/* The next contender: see pg_next.h. More than half of its lease is left: */
#define NEXT_IS_FRESH \
    "next_until > clock_timestamp() + next_lease_us / 2 * interval '1 microsecond'"
/* One that holds it does not wait for it any more. */
#define NEXT_SET                                                                    \
    ", next_until = CASE WHEN next_label = @l THEN 'epoch' ELSE next_until END,"    \
    " next_attempt = CASE WHEN next_label = @l THEN greatest(next_attempt, @a + 1)" \
    "  ELSE next_attempt END"
/* Another holds it, so this contender waits; and no other registration is fresh. A
 * registration never ends earlier than it did: the contender counts on what an answer said. */
#define NEXT_REGISTER                                                                   \
    "UPDATE @sconclave_lease SET next_node = @n, next_label = @l, next_attempt = @a,"   \
    " next_lease_us = @u, next_until = CASE WHEN next_label = @l AND next_attempt = @a" \
    "  THEN greatest(next_until, " LEASE_END ") ELSE " LEASE_END " END,"                \
    " next_version = @o, next_pid = pg_backend_pid(), next_secret = @z"                 \
    " WHERE election = @e AND node <> '' AND until > clock_timestamp() AND label <> @l" \
    " AND @z <> 0 AND @t = 0 AND NOT (next_label = @l AND next_attempt > @a)"           \
    " AND (next_label = @l OR NOT (" NEXT_IS_FRESH "));"
#define NEXT_LEFT                                                                  \
    ", CASE WHEN next_label = @l AND next_attempt = @a"                            \
    " THEN (extract(epoch FROM next_until - clock_timestamp()) * 1000000)::bigint" \
    " ELSE 0 END AS next_us"

static const char script_acquire_next[] =
    ACQUIRE_AGAIN ACQUIRE_SET NEXT_SET ACQUIRE_IF ACQUIRE_TRAIL NEXT_REGISTER SELECT_ROW_AND(
        WAITING_NAME NEXT_LEFT);

/* Gives the row to the next contender if its session lives; otherwise RELEASE frees it. An attempt
 * that is over leaves the number of the next one: a late copy of its ACQUIRE does not register it.
 */
static const char script_release_next[] =
    "WITH given AS (UPDATE @sconclave_lease SET lapsed_token = token,"
    " token = greatest(token + 1, nextval(@q)), node = next_node, label = next_label,"
    " attempt = next_attempt, lease_us = next_lease_us, until = next_until,"
    " since = clock_timestamp(), wish = '', heir = '',"
    " next_until = 'epoch', next_attempt = next_attempt + 1"
    " WHERE " IS_MINE " AND node <> '' AND next_label <> @l AND @h IN ('', next_node)"
    " AND " NEXT_IS_FRESH " AND EXISTS (SELECT FROM pg_stat_get_activity(next_pid))"
    " RETURNING token, node, since, lapsed_token, next_version,"
    "  pg_notify(@c, 'given ' || next_secret || ' ' || token)),"
    "told AS (INSERT INTO @sconclave_history (election, token, node, since, version)"
    " SELECT @e, token, node, since, next_version FROM given)"
    "UPDATE @sconclave_history h SET upto = greatest(h.since, given.since), why = @r"
    " FROM given WHERE h.election = @e AND h.token = given.lapsed_token AND h.upto IS NULL;"
    /* One that never held it does not wait any more. */
    "UPDATE @sconclave_lease SET next_until = 'epoch', next_attempt = @a + 1"
    " WHERE election = @e AND next_label = @l AND next_attempt <= @a AND @t = 0;" RELEASE;

static const char script_resign_request[] =
    "UPDATE @sconclave_lease SET wish = @h WHERE election = @e AND node <> ''"
    " AND until > clock_timestamp() RETURNING pg_notify(@c, 'wish');" SELECT_ROW;

/* About runs: @t is the token that wants to write, @v the version of the text that it knows, @j the
 * text. The answers have `remaining_us` as all others: by that they are known (pg_link.c). */
static const char script_runs_read[] =
    "SELECT coalesce(max(text), '') AS text, coalesce(max(version), 0) AS version,"
    " 0 AS remaining_us FROM @sconclave_runs WHERE election = @e;";

/* The waiting contenders, by the names of their sessions: session_write(). A row for each of them.
 * Since when it waits is not recorded: the answer has since when it is connected, or since its last
 * leadership ended. */
static const char script_waiting[] =
    "SELECT substr(application_name, strpos(application_name, ' ') + 1) AS waits,"
    " substr(split_part(application_name, ' ', 1), length(@c) + 2) AS waits_version,"
    " coalesce((extract(epoch FROM greatest(backend_start, (SELECT max(upto)"
    " FROM @sconclave_history h WHERE h.election = @e"
    " AND h.node = substr(application_name, strpos(application_name, ' ') + 1))))"
    " * 1000000)::bigint, 0) AS waits_us,"
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

static const char *verb_script(const struct cv_pg_link *link, enum cv_store_verb verb)
{
    switch (verb) {
    case CV_STORE_ACQUIRE: /* one that hears no notification would not know that it was given it */
        return link->has_next && link->is_direct ? script_acquire_next : script_acquire;
    case CV_STORE_RENEW:
        return script_renew;
    case CV_STORE_RELEASE:
        return link->has_next ? script_release_next : script_release;
    case CV_STORE_READ:
        break;
    }
    return script_read;
}

static bool is_of_record(const struct cv_remote_request *one)
{
    return one->ask.runs == NULL && one->ask.list == NULL && !one->ask.forgets &&
           !one->is_resign_request;
}

static const char *script_for(const struct cv_pg_link *link, const struct cv_remote_request *one)
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
    return verb_script(link, one->ask.verb);
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
    return strchr("sqxy", letter) != NULL      ? NULL
           : strchr("cehnorw", letter) != NULL ? "text"
           : letter == 'k'                     ? "boolean"
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

size_t cv__pg_session_write(char *ret_script)
{
    return (size_t)sprintf(ret_script, "%s", session_settings);
}

size_t cv__pg_prepare_write(const struct cv_pg_link *link, enum cv_store_verb verb,
                            char ret_script[CV_PG_SCRIPT_BYTES])
{
    const char *at = verb_script(link, verb);
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

/* A statement that would do nothing is left out. The row is not made where it was seen before; if
 * somebody has removed it since, the answer will say so. Only a waiting
 * contender is next. */
static bool is_left_out(const struct cv_pg_asker *asker, enum cv_store_verb verb, uint32_t index)
{
    const bool makes_row = verb == CV_STORE_ACQUIRE && index == 0;
    const bool ends_waiting =
        verb == CV_STORE_RELEASE && asker->link->has_next && index == 1; /* of release_next */
    return (makes_row && asker->has_row) || (ends_waiting && asker->token != 0);
}

/* The same as filling in the script of this verb, by the names of its statements. */
static void execute_write(const struct cv_pg_asker *asker, enum cv_store_verb verb,
                          const char *const value[26], char ret_script[CV_PG_SCRIPT_BYTES])
{
    const char *at = verb_script(asker->link, verb);
    size_t length = 0;
    for (uint32_t index = 0; *at != '\0'; index++) {
        const char *end = strchr(at, ';');
        char letters[26];
        if (is_left_out(asker, verb, index)) {
            at = end + 1;
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
    const enum cv_reason reason = one->ask.reason != CV_REASON_STARTED ? one->ask.reason
                                  : one->ask.verb == CV_STORE_RELEASE  ? CV_REASON_RESIGNED
                                                                       : CV_REASON_EXPIRED;
    (void)snprintf(why, sizeof why, "'%s'", cv_reason_name(reason));
    const struct cv_store_runs *about = one->ask.runs;
    const char *told = about != NULL && about->token != 0 ? about->text : "";
    char *runs = PQescapeLiteral(pg, told, strlen(told));
    const bool is_fine =
        election != NULL && node != NULL && heir != NULL && runs != NULL && session != NULL;
    if (is_fine) {
        struct number_text label, attempt, lease, token, version, secret;
        char own_version[CV_STORE_VERSION_BYTES + 2];
        (void)snprintf(own_version, sizeof own_version, "'%s'", asker->link->version);
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
            ['z' - 'a'] = number_write((int64_t)asker->secret, &secret),
            ['o' - 'a'] = own_version,
            ['j' - 'a'] = runs,
            ['w' - 'a'] = session,
            /* The sessions of a pooler are not ours to name. */
            ['k' - 'a'] = asker->link->is_direct ? "false" : "true",
            ['v' - 'a'] = number_write(about != NULL ? (int64_t)about->version : 0, &version)};
        if (asker->link->is_prepared && is_of_record(one)) {
            execute_write(asker, one->ask.verb, value, ret_script);
        } else {
            cv__pg_fill(ret_script, script_for(asker->link, one), value);
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
    const char *const value[26] = {['p' - 'a'] = patience};
    cv__pg_fill(ret_script, link->is_prepared ? session_prologue : prologue, value);
}
