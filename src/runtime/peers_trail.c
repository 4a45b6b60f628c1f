/* src/runtime/peers_trail.c - see peers_trail.h. */
#include "runtime/peers_trail.h"

#include "core/bytes.h"
#include "core/core.h"
#include "core/errors.h"
#include "os/clock.h"
#include "os/worker.h"
#include "runtime/reach.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX "trail"
#define OLD_BYTES (sizeof ".old" - 1)
#define SUM_CHARS 16u
#define REASON_BYTES 32u
#define FILES_MAX 4u /* of a member */
#define LINE_BYTES (SUM_CHARS + 128u + CV_CLUSTER_NAME_BYTES + REASON_BYTES + CV_ELECTION_BYTES)

/* ---- Lines ----------------------------------------------------------------------------------- */

struct entry {
    bool is_end;
    bool is_own;
    int64_t wall_ns;
    int64_t alive_wall_ns;
    uint64_t token;
    char leader[CV_CLUSTER_NAME_BYTES];
    char why[REASON_BYTES];
    char election[CV_ELECTION_BYTES];
};

/* Without a line's end; the length. */
static size_t entry_format(const struct entry *e, char line[LINE_BYTES])
{
    char *rest = line + SUM_CHARS;
    const size_t room = LINE_BYTES - SUM_CHARS;
    int length;
    if (e->is_end) {
        length = snprintf(rest, room, " end %" PRId64 " %" PRIu64 " %s %s %s %" PRId64 " %s",
                          e->wall_ns, e->token, e->leader, e->why, e->is_own ? "own" : "seen",
                          e->alive_wall_ns, e->election);
    } else {
        length = snprintf(rest, room, " begin %" PRId64 " %" PRIu64 " %s %s", e->wall_ns, e->token,
                          e->leader, e->election);
    }
    CV_ASSERT(length > 0 && (size_t)length < room);
    char sum[SUM_CHARS + 1];
    (void)snprintf(sum, sizeof sum, "%016" PRIx64,
                   cv__bytes_sum((const uint8_t *)rest, (size_t)length));
    memcpy(line, sum, SUM_CHARS);
    return SUM_CHARS + (size_t)length;
}

/* False: it is damaged. If the check sum is right, we wrote the line, so its content is consistent,
 * or a later version wrote it. */
static bool entry_parse(const char *line, struct entry *ret_entry)
{
    struct entry e = {0};
    char sum[SUM_CHARS + 1], kind[8], witness[8];
    int at = 0;
    if (strlen(line) <= SUM_CHARS) {
        return false;
    }
    const char *rest = line + SUM_CHARS;
    (void)snprintf(sum, sizeof sum, "%016" PRIx64,
                   cv__bytes_sum((const uint8_t *)rest, strlen(rest)));
    if (memcmp(sum, line, SUM_CHARS) != 0 ||
        sscanf(rest, " %7s %" SCNd64 " %" SCNu64 " %40s%n", kind, &e.wall_ns, &e.token, e.leader,
               &at) != 4) {
        return false;
    }
    rest += at;
    e.is_end = strcmp(kind, "end") == 0;
    if (e.is_end) {
        if (sscanf(rest, " %31s %7s %" SCNd64 "%n", e.why, witness, &e.alive_wall_ns, &at) != 3) {
            return false;
        }
        e.is_own = strcmp(witness, "own") == 0;
        rest += at;
    } else if (strcmp(kind, "begin") != 0) {
        return false;
    }
    if (rest[0] != ' ' || strlen(rest + 1) >= sizeof e.election) {
        return false;
    }
    (void)snprintf(e.election, sizeof e.election, "%s", rest + 1);
    *ret_entry = e;
    return true;
}

_Static_assert(CV_CLUSTER_NAME_BYTES == 41 && REASON_BYTES == 32, "the widths above");

/* The lines of one file, each to `each`. The number of damaged ones; negative: errno says why it
 * cannot be read. */
static int64_t read_lines(const char *path, void (*each)(void *user, const struct entry *entry),
                          void *user)
{
    FILE *file = fopen(path, "re");
    char line[LINE_BYTES + 2]; /* a longer one is none of ours, and its pieces are damaged */
    struct entry entry;
    int64_t damaged = 0;
    if (file == NULL) {
        return -1;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0') {
            continue; /* behind a torn one */
        }
        if (!entry_parse(line, &entry)) {
            damaged++;
        } else if (each != NULL) {
            each(user, &entry);
        }
    }
    const bool is_read = ferror(file) == 0;
    const int why = errno;
    (void)fclose(file); /* it was only read */
    errno = why;
    return is_read ? damaged : -1;
}

/* For members, and for commands that read the trail. */
static void format_damage(const char *path, int64_t damaged, char line[CV_ERRTEXT_BYTES])
{
    (void)snprintf(line, CV_ERRTEXT_BYTES,
                   "the audit trail '%.300s' is damaged: %" PRId64 " of its lines are left out",
                   path, damaged);
}

/* ---- Writing --------------------------------------------------------------------------------- */

struct cv_peers_trail {
    struct cv_worker *worker;
    char path[PATH_MAX], election[CV_ELECTION_BYTES];
    void (*log)(void *user, const char *line);
    void *user;
    void (*closed)(void *data);
    void *closed_data;
    int fd; /* this and the next are the worker's thread's; -1: not open */
    bool has_failed;
};

struct note {
    struct cv_work work;
    struct cv_peers_trail *trail;
    struct entry entry;
    char trouble[CV_ERRTEXT_BYTES]; /* what to say when it is done; empty: nothing */
};

/* Reported once; an election does not depend on it. */
static void note_fail(struct note *note)
{
    struct cv_peers_trail *t = note->trail;
    const int why = errno;
    if (!t->has_failed) {
        (void)snprintf(note->trouble, sizeof note->trouble,
                       "cannot write the audit trail '%.300s': %s; 'conclave history' will miss "
                       "something",
                       t->path, strerror(why));
    }
    t->has_failed = true;
}

/* Behind a line that was torn, the next one begins anew. */
static bool end_torn_line(int fd)
{
    const off_t size = lseek(fd, 0, SEEK_END);
    char last = '\n';
    return size >= 0 && (size == 0 || pread(fd, &last, 1, size - 1) == 1) &&
           (last == '\n' || write(fd, "\n", 1) == 1);
}

static bool make_room(struct cv_peers_trail *t)
{
    char old[PATH_MAX];
    const off_t size = t->fd >= 0 ? lseek(t->fd, 0, SEEK_END) : 0;
    if (size >= (off_t)(CV_PEERS_TRAIL_BYTES_MAX - LINE_BYTES)) {
        (void)close(t->fd); /* the kernel has what was written */
        t->fd = -1;
        (void)snprintf(old, sizeof old, "%.*s.old", (int)(sizeof old - sizeof ".old"), t->path);
        if (rename(t->path, old) != 0) {
            return false;
        }
    }
    if (t->fd < 0) {
        t->fd = open(t->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        return t->fd >= 0 && end_torn_line(t->fd);
    }
    return true;
}

static void note_write(void *data)
{
    struct note *note = data;
    char line[LINE_BYTES + 1];
    size_t length = entry_format(&note->entry, line);
    line[length++] = '\n';
    errno = ENOSPC; /* a write that is cut short does not say why */
    if (!make_room(note->trail) || write(note->trail->fd, line, length) != (ssize_t)length) {
        note_fail(note);
        if (note->trail->fd >= 0) {
            (void)close(note->trail->fd); /* the next one looks at what this one left */
            note->trail->fd = -1;
        }
    }
}

static void note_look(void *data)
{
    struct note *note = data;
    const int64_t damaged = read_lines(note->trail->path, NULL, NULL);
    if (damaged > 0) {
        format_damage(note->trail->path, damaged, note->trouble);
    } else if (damaged < 0 && errno != ENOENT) {
        note_fail(note);
    }
}

static void note_done(void *data)
{
    struct note *note = data;
    if (note->trouble[0] != '\0') {
        note->trail->log(note->trail->user, note->trouble);
    }
    free(note);
}

static struct note *note_new(struct cv_peers_trail *t, void (*run)(void *data))
{
    struct note *note = calloc(1, sizeof *note);
    if (note != NULL) {
        note->trail = t;
        note->work = (struct cv_work){.run = run, .done = note_done, .data = note};
    }
    return note;
}

int cv__peers_trail_open(uv_loop_t *loop, const struct cv_cluster *cluster, cv_id self,
                         const char *election, void (*log)(void *user, const char *line),
                         void *user, struct cv_peers_trail **ret_trail, struct cv_errtext *reterr)
{
    struct cv_peers_trail *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    t->fd = -1;
    t->log = log;
    t->user = user;
    (void)snprintf(t->election, sizeof t->election, "%s", election);
    int code = cv__reach_file(cluster, cluster->member[self - 1].name, election, SUFFIX, OLD_BYTES,
                              t->path, reterr);
    if (code == CV_OK) {
        code = cv__worker_new(loop, &t->worker, reterr);
    }
    if (code != CV_OK) {
        free(t);
        return code;
    }
    struct note *look = note_new(t, note_look);
    if (look != NULL) {
        cv__worker_do(t->worker, &look->work);
    }
    *ret_trail = t;
    return CV_OK;
}

static void on_worker_closed(void *data)
{
    struct cv_peers_trail *t = data;
    void (*closed)(void *data) = t->closed;
    void *closed_data = t->closed_data;
    if (t->fd >= 0) {
        (void)close(t->fd); /* nobody waits for it to be on the disk */
    }
    free(t);
    closed(closed_data);
}

void cv__peers_trail_close(struct cv_peers_trail *t, void (*closed)(void *data), void *data)
{
    if (t == NULL) {
        closed(data);
        return;
    }
    t->closed = closed;
    t->closed_data = data;
    cv__worker_free(t->worker, on_worker_closed, t);
}

void cv__peers_trail_note(struct cv_peers_trail *t, const char *leader, uint64_t token,
                          const struct cv_peers_trail_end *end)
{
    struct note *note = note_new(t, note_write);
    if (note == NULL) {
        return;
    }
    struct entry *e = &note->entry;
    e->wall_ns = cv__clock_wall_ns();
    e->token = token;
    (void)snprintf(e->leader, sizeof e->leader, "%s", leader);
    (void)snprintf(e->election, sizeof e->election, "%s", t->election);
    if (end != NULL) {
        e->is_end = true;
        e->is_own = end->is_own;
        e->alive_wall_ns = end->heard_ns >= 0 ? e->wall_ns - end->heard_ns : 0;
        e->wall_ns -= end->over_ns;
        (void)snprintf(e->why, sizeof e->why, "%s", cv_reason_name(end->why));
    }
    cv__worker_do(t->worker, &note->work);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* How one member saw a leadership end; or that it wrote of no end. */
struct ending {
    bool is_there;
    bool is_own;
    int64_t wall_ns, alive_wall_ns;
    char why[REASON_BYTES];
};

/* One leadership. */
struct seen {
    struct cv_store_past past;
    uint32_t number;    /* of the latest member that tells of it ... */
    struct ending last; /* ... and what it says of the end */
    struct ending best; /* of those before it */
    uint32_t open_count, ended_count;
};

struct reading {
    const char *election;
    struct seen *seen;
    size_t count, room;
    uint32_t number; /* of the member whose trail is read; from 1 */
    bool has_no_memory;
};

static struct seen *seen_find(struct reading *r, const struct entry *e)
{
    for (size_t i = r->count; i > 0; i--) { /* mostly the last ones */
        struct seen *s = &r->seen[i - 1];
        if (s->past.token == e->token && strcmp(s->past.node, e->leader) == 0) {
            return s;
        }
    }
    return NULL;
}

static struct seen *seen_add(struct reading *r, const struct entry *e)
{
    if (r->count == r->room) {
        const size_t room = r->room > 0 ? 2 * r->room : 64;
        struct seen *more = realloc(r->seen, room * sizeof *more);
        if (more == NULL) {
            r->has_no_memory = true;
            return NULL;
        }
        r->seen = more;
        r->room = room;
    }
    struct seen *s = &r->seen[r->count++];
    *s = (struct seen){.past = {.token = e->token, .from_wall_ns = e->wall_ns}};
    (void)snprintf(s->past.node, sizeof s->past.node, "%s", e->leader);
    return s;
}

/* Within the trail of one member the latest line counts: a member that follows the leader again has
 * not seen the end. */
static void on_entry(void *user, const struct entry *e)
{
    struct reading *r = user;
    if (strcmp(e->election, r->election) != 0) {
        return;
    }
    struct seen *s = seen_find(r, e);
    if (s == NULL && !e->is_end) { /* an end without a beginning is of no use */
        s = seen_add(r, e);
    }
    if (s == NULL) {
        return;
    }
    s->number = r->number;
    s->last = (struct ending){0};
    if (e->is_end) {
        s->last = (struct ending){.is_there = true,
                                  .is_own = e->is_own,
                                  .wall_ns = e->wall_ns,
                                  .alive_wall_ns = e->alive_wall_ns};
        (void)snprintf(s->last.why, sizeof s->last.why, "%s", e->why);
    } else {
        s->past.from_wall_ns = cv__min64(s->past.from_wall_ns, e->wall_ns);
    }
}

/* The trail of a member has been read. Between members the leader's own record counts; without it,
 * the latest end. */
static void on_trail_end(struct reading *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct seen *s = &r->seen[i];
        if (s->number != r->number) {
            continue;
        }
        s->ended_count += s->last.is_there;
        s->open_count += !s->last.is_there;
        if (s->last.is_there && !s->best.is_own &&
            (s->last.is_own || s->last.wall_ns >= s->best.wall_ns)) {
            s->best = s->last;
        }
    }
}

static int by_token(const void *a, const void *b)
{
    const struct cv_store_past *one = &((const struct seen *)a)->past;
    const struct cv_store_past *two = &((const struct seen *)b)->past;
    if (one->token != two->token) {
        return one->token < two->token ? -1 : 1;
    }
    return one->from_wall_ns < two->from_wall_ns   ? -1
           : one->from_wall_ns > two->from_wall_ns ? 1
                                                   : strcmp(one->node, two->node);
}

/* A member that was killed or cut off has seen no end, or a wrong one; so while no leadership
 * follows (`next` is NULL), most of the members decide whether it ended. If none saw the end, it is
 * the beginning of the next leadership. */
static void seen_decide(struct seen *s, const struct seen *next, bool is_exclusive)
{
    struct cv_store_past *past = &s->past;
    if (s->best.is_own || (s->best.is_there && (next != NULL || s->ended_count >= s->open_count))) {
        past->to_wall_ns = s->best.wall_ns;
        past->alive_wall_ns = s->best.alive_wall_ns;
        (void)snprintf(past->why, sizeof past->why, "%s", s->best.why);
    } else if (next != NULL) {
        past->to_wall_ns = cv__max64(past->from_wall_ns, next->past.from_wall_ns);
        (void)snprintf(past->why, sizeof past->why, "%s", cv_reason_name(CV_REASON_GONE));
    }
    /* An end may be noticed late, even when another one leads already. */
    if (next != NULL && is_exclusive && !s->best.is_own) {
        past->to_wall_ns =
            cv__max64(past->from_wall_ns, cv__min64(past->to_wall_ns, next->past.from_wall_ns));
    }
}

static void tell(struct reading *r, bool is_exclusive,
                 void (*past)(void *user, const struct cv_store_past *past), void *user)
{
    if (r->count > 0) {
        qsort(r->seen, r->count, sizeof *r->seen, by_token);
    }
    for (size_t i = 0; i < r->count; i++) {
        size_t next = i + 1;
        while (next < r->count && r->seen[next].past.token == r->seen[i].past.token) {
            next++; /* protocols that allow two leaders may give them one number */
        }
        seen_decide(&r->seen[i], next < r->count ? &r->seen[next] : NULL, is_exclusive);
        past(user, &r->seen[i].past);
    }
}

/* Both files of a member, the older one first, and before them those of earlier versions, with all
 * elections in them. Returns how many there are; negative: the error. */
static int read_member(struct reading *r, const struct cv_cluster *c, const char *member,
                       void (*log)(void *user, const char *line), void *user,
                       struct cv_errtext *reterr)
{
    char path[FILES_MAX][PATH_MAX], line[CV_ERRTEXT_BYTES];
    int count = 0;
    int code = cv__reach_old_file(c, member, SUFFIX, OLD_BYTES, path[1], reterr);
    if (code == CV_OK) {
        code = cv__reach_file(c, member, r->election, SUFFIX, OLD_BYTES, path[3], reterr);
    }
    if (code != CV_OK) {
        return code;
    }
    for (uint32_t i = 0; i < FILES_MAX; i += 2) {
        (void)snprintf(path[i], PATH_MAX, "%.*s.old", (int)(PATH_MAX - OLD_BYTES - 1), path[i + 1]);
    }
    r->number++;
    for (uint32_t i = 0; i < FILES_MAX; i++) {
        const int64_t damaged = read_lines(path[i], on_entry, r);
        if (damaged < 0 && errno != ENOENT) {
            return cv__fail(reterr, CV_E_STORE, "cannot read the audit trail '%s': %s", path[i],
                            strerror(errno));
        }
        if (damaged > 0) {
            format_damage(path[i], damaged, line);
            log(user, line);
        }
        count += damaged >= 0;
    }
    on_trail_end(r);
    return r->has_no_memory ? cv__fail(reterr, CV_E_MEMORY, "out of memory") : count;
}

/* Has the member a trail of any election? Then nobody led in the one that was asked for. */
static bool has_trail(const struct cv_cluster *c, const char *member)
{
    char first[2 * CV_CLUSTER_NAME_BYTES + 2];
    const int length = snprintf(first, sizeof first, "%s.%s@", c->name, member);
    DIR *folder = opendir(c->state);
    const struct dirent *entry;
    bool is_found = false;
    while (folder != NULL && !is_found && (entry = readdir(folder)) != NULL) {
        is_found = strncmp(entry->d_name, first, (size_t)length) == 0 &&
                   strstr(entry->d_name + length, "." SUFFIX) != NULL;
    }
    if (folder != NULL) {
        (void)closedir(folder); /* it was only read */
    }
    return is_found;
}

static int fail_none(const struct cv_cluster *c, const char *member, struct cv_errtext *reterr)
{
    return cv__fail(reterr, CV_E_STORE,
                    "there is no audit trail of %s%s%s of the cluster '%s' in '%s': it is on the "
                    "hosts where members run",
                    member != NULL ? "member '" : "a member", member != NULL ? member : "",
                    member != NULL ? "'" : "", c->name, c->state);
}

int cv__peers_trail_read(const struct cv_cluster *c, const char *member, const char *election,
                         void (*past)(void *user, const struct cv_store_past *past),
                         void (*log)(void *user, const char *line), void *user,
                         struct cv_errtext *reterr)
{
    struct reading r = {.election = election};
    uint32_t promises, assumes;
    int code = CV_OK, found = 0;
    if (member != NULL && cv__cluster_find(c, member) == NULL) {
        return cv__cluster_fail_member(c, member, reterr);
    }
    for (uint32_t i = 0; i < c->member_count && code == CV_OK; i++) {
        if (member == NULL || strcmp(member, c->member[i].name) == 0) {
            const int count = read_member(&r, c, c->member[i].name, log, user, reterr);
            code = count < 0 ? count : CV_OK;
            found += count > 0 || (count == 0 && has_trail(c, c->member[i].name));
        }
    }
    if (code == CV_OK && found == 0) {
        code = fail_none(c, member, reterr);
    }
    if (code == CV_OK) {
        cv__core_contract(c->protocol, &c->config, &promises, &assumes);
        tell(&r, (promises & CV_PROP(AT_MOST_ONE_LEADER)) != 0, past, user);
    }
    free(r.seen);
    return code;
}
