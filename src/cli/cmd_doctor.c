/* src/cli/cmd_doctor.c - `conclave doctor`: what is wrong here, and what to do about it.
 *
 * Holds an election of its own in the store, with a name that nobody else uses: it asks for it,
 * renews it a few times, gives it back and removes it. So it needs what a contender needs, and
 * measures what a contender would see. Then it reads which version each contender of the other
 * elections runs. */
#include "base/json.h"
#include "base/screen.h"
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "cli/peers.h"
#include "core/duration.h"
#include "core/errors.h"
#include "os/clock.h"
#include "os/loop.h"
#include "os/realtime.h"
#include "protocols/lease_config.h"
#include "runtime/place.h"

#include <conclave/conclave.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PROBE_PREFIX "conclave-doctor-" /* of the names of our own elections */
#define RENEWALS 5u
#define RENEWALS_NS_MAX (4 * NS_PER_S) /* with a slow store fewer of them tell enough */
#define PATIENCE_MS 8000               /* for each request */
#define REQUEST_NS_MAX (5 * NS_PER_S)  /* a store gives up then, however long the lease is */
#define COLUMNS_MIN 60u
#define REMARKS_MAX 2u             /* of a store, about its settings */
#define WALL_ERROR_NS_MAX NS_PER_S /* jobs tolerate more; times in a history do not */

enum finding { FINE, WARNING, WRONG };

struct doctor {
    const char *via;
    const char *file; /* of a cluster of peers */
    int64_t lease_ns;
    bool is_json;
    struct cv_json json;
    uint32_t wrong_count;
};

/* ---- Findings -------------------------------------------------------------------------------- */

static void tell(struct doctor *d, enum finding finding, const char *check, const char *what,
                 const char *advice)
{
    static const char *const words[] = {[FINE] = "ok", [WARNING] = "warning", [WRONG] = "WRONG"};
    d->wrong_count += finding == WRONG;
    if (d->is_json) {
        cv__json_open(&d->json, NULL, '{');
        cv__json_text(&d->json, "check", check);
        cv__json_text(&d->json, "finding", finding == WRONG ? "wrong" : words[finding]);
        cv__json_text(&d->json, "what", what);
        if (advice != NULL) {
            cv__json_text(&d->json, "advice", advice);
        } else {
            cv__json_null(&d->json, "advice");
        }
        cv__json_close(&d->json, '}');
        return;
    }
    const bool is_narrow = cv__screen_limit() < COLUMNS_MIN; /* no room for a column of checks */
    cv__print(stdout, is_narrow ? "%-8s %s: %s\n" : "%-8s %-12s %s\n", words[finding], check, what);
    if (advice != NULL) {
        cv__print(stdout, is_narrow ? "%-8s %sto do: %s\n" : "%-8s %-12s to do: %s\n", "", "",
                  advice);
    }
}

/* ---- The clock ------------------------------------------------------------------------------- */

static int64_t usual_drift_ppb(void)
{
    struct cv_config config;
    cv_config_init(&config, cv_protocol_find("lease"), 1, 1);
    return config.drift_ppb;
}

/* `allowed_ppb`: how far a clock may drift by the promises here. */
static void check_clock(struct doctor *d, int64_t allowed_ppb)
{
    struct timex state = {.modes = 0};
    char what[200];
    if (adjtimex(&state) < 0) {
        tell(d, WARNING, "clock", "the kernel does not report how its clock is corrected", NULL);
        return;
    }
    const double drift_ppm = (double)state.freq / 65536.0;
    const double allowed_ppm = (double)allowed_ppb / 1e3;
    if (drift_ppm > allowed_ppm || drift_ppm < -allowed_ppm) {
        (void)snprintf(
            what, sizeof what,
            "corrected by %.0f ppm, but leases allow for %.0f: there could be two leaders",
            drift_ppm, allowed_ppm);
        tell(d, WRONG, "clock", what,
             "find out why the clock drifts so much (hardware, virtual machine) before you rely on "
             "leases here");
        return;
    }
    const int64_t error_ns = state.maxerror * NS_PER_US;
    const bool is_loose = (state.status & STA_UNSYNC) != 0 || error_ns > WALL_ERROR_NS_MAX;
    (void)snprintf(what, sizeof what, "corrected by %.1f ppm of the %.0f that leases allow for%s",
                   drift_ppm, allowed_ppm, is_loose ? "; the time of day is not synchronised" : "");
    tell(d, is_loose ? WARNING : FINE, "clock", what,
         is_loose ? "run an NTP client; leadership does not depend on the time of day, but history "
                    "and --every do"
                  : NULL);
}

/* ---- The state folder ------------------------------------------------------------------------ */

#define FOLDER_ADVICE "set CONCLAVE_STATE to a folder that this user may write to"
#define ROOM_ADVICE "free some space on the disk of the file: contenders need to write"

/* Is there room for a file? By writing to one that has no name. 0, or an errno. */
static int try_to_write(const char *folder)
{
    static const char page[4096];
    struct statvfs disk;
    const int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == ENOSPC || errno == EDQUOT)) {
        return errno;
    }
    if (fd < 0) { /* not every file system has files without a name */
        const bool is_full = statvfs(folder, &disk) == 0 && disk.f_blocks > 0 && disk.f_bavail == 0;
        return is_full ? ENOSPC : 0;
    }
    const int wrong = write(fd, page, sizeof page) == (ssize_t)sizeof page ? 0 : ENOSPC;
    (void)close(fd);
    return wrong;
}

static void check_folder(struct doctor *d)
{
    struct cv_errtext error;
    char *path;
    char what[CV_ERRTEXT_BYTES];
    if (cv__place_file("history.db", &path, &error) != CV_OK) {
        tell(d, WARNING, "folder", error.text, FOLDER_ADVICE);
        return;
    }
    *strrchr(path, '/') = '\0'; /* it is the path of a file in the folder */
    const bool is_writable = access(path, R_OK | W_OK | X_OK) == 0;
    const int full = is_writable ? try_to_write(path) : 0;
    const bool is_usable = is_writable && full == 0;
    (void)snprintf(what, sizeof what, "%s%s%s", path, is_usable ? "" : " cannot be written",
                   full != 0 ? ": no space left on its disk" : "");
    tell(d, is_usable ? FINE : WARNING, "folder", what, is_usable ? NULL : FOLDER_ADVICE);
    free(path);
}

/* ---- The store ------------------------------------------------------------------------------- */

enum stage { READING, RUNS, ACQUIRING, RENEWING, RELEASING, FORGETTING, DONE };

/* An election of our own. */
struct probe {
    const struct cv_store_kind *kind;
    struct cv_store *store;
    uv_loop_t loop;
    uv_timer_t patience;
    int64_t lease_ns;
    bool is_opened; /* otherwise what the address says was refused, and no server was asked */
    enum stage stage;
    uint64_t request, token;
    uint32_t renewal_count;
    int64_t asked_ns;
    int64_t longest_ns, sum_ns; /* of the renewals */
    bool is_late;               /* the store gave up a request that takes part, for lack of time */
    struct cv_store_runs runs;
    struct cv_errtext why; /* why it stopped at this stage */
    char remark[REMARKS_MAX][PATH_MAX + 200];
    uint32_t remark_count;
};

static void ask(struct probe *p)
{
    static const enum cv_store_verb verbs[] = {[READING] = CV_STORE_READ,
                                               [RUNS] = CV_STORE_READ,
                                               [ACQUIRING] = CV_STORE_ACQUIRE,
                                               [RENEWING] = CV_STORE_RENEW,
                                               [RELEASING] = CV_STORE_RELEASE};
    p->asked_ns = cv__clock_now_ns();
    p->request++;
    (void)uv_timer_again(&p->patience); /* fails for one that was never started only */
    if (p->stage == RUNS) {
        p->runs.token = 0;
        p->kind->runs(p->store, p->request, &p->runs);
    } else if (p->stage == FORGETTING) {
        p->kind->forget(p->store, p->request);
    } else {
        const struct cv_store_request request = {.verb = verbs[p->stage],
                                                 .request = p->request,
                                                 .attempt = 1,
                                                 .token = p->token,
                                                 /* Connecting may take longer than a fifth. */
                                                 .lease_ns = p->stage == READING ? 0 : p->lease_ns};
        p->kind->ask(p->store, &request);
    }
}

static bool is_expected(const struct probe *p, enum cv_store_verdict verdict)
{
    static const enum cv_store_verdict wanted[] = {
        [READING] = CV_STORE_FREE,      [RUNS] = CV_STORE_GRANTED,
        [ACQUIRING] = CV_STORE_GRANTED, [RENEWING] = CV_STORE_GRANTED,
        [RELEASING] = CV_STORE_FREE,    [FORGETTING] = CV_STORE_GRANTED};
    return verdict == wanted[p->stage];
}

static void on_answer(void *user, const struct cv_store_answer *answer)
{
    struct probe *p = user;
    if (answer->request != p->request) {
        return; /* a notification */
    }
    const int64_t taken_ns = cv__clock_now_ns() - p->asked_ns;
    if (!is_expected(p, answer->verdict)) {
        const int64_t limit_ns = cv__min64(p->lease_ns / 5, REQUEST_NS_MAX);
        p->is_late = (p->stage == ACQUIRING || p->stage == RENEWING) && p->kind->inherit == NULL &&
                     taken_ns > limit_ns - limit_ns / 10;
        (void)cv__fail(&p->why, CV_E_STORE, "%s",
                       answer->why != NULL ? answer->why : "its answer is not valid");
        uv_stop(&p->loop);
        return;
    }
    if (p->stage == ACQUIRING) {
        p->token = answer->token;
    }
    if (p->stage == RENEWING) {
        p->longest_ns = cv__max64(p->longest_ns, taken_ns);
        p->sum_ns += taken_ns;
        p->renewal_count++;
    }
    if (p->stage != RENEWING || p->renewal_count == RENEWALS || p->sum_ns > RENEWALS_NS_MAX) {
        p->stage++;
    }
    if (p->stage == DONE) {
        uv_stop(&p->loop);
    } else {
        ask(p);
    }
}

/* What contenders would print at their start. */
static void on_remark(void *user, const char *line)
{
    struct probe *p = user;
    if (p->remark_count < REMARKS_MAX) {
        (void)snprintf(p->remark[p->remark_count++], sizeof p->remark[0], "%s", line);
    }
}

static void on_patience(uv_timer_t *timer)
{
    struct probe *p = timer->data;
    (void)cv__fail(&p->why, CV_E_STORE, "no answer within %d s", PATIENCE_MS / 1000);
    uv_stop(timer->loop);
}

static void on_closed(void *user)
{
    (void)user; /* the loop ends when nothing is left */
}

static bool probe_run(struct probe *p, const char *address)
{
    struct cv_shared_list shared = {0};
    char name[64], node[64];
    (void)snprintf(name, sizeof name, PROBE_PREFIX "%016" PRIx64, cv__clock_random());
    (void)snprintf(node, sizeof node, "doctor:%ld", (long)getpid());
    const struct cv_store_setting setting = {.loop = &p->loop,
                                             .shared = &shared,
                                             .address = address,
                                             .election = name,
                                             .node = node,
                                             .label = cv__clock_random() | 1,
                                             .patience_ms = PATIENCE_MS,
                                             .answered = on_answer,
                                             .log = on_remark,
                                             .user = p};
    if (cv__loop_init(&p->loop, &p->why) != CV_OK) {
        return false;
    }
    p->is_opened = p->kind->open(&p->store, &setting, &p->why) == CV_OK;
    if (p->is_opened) {
        (void)uv_timer_init(&p->loop, &p->patience); /* cannot fail, nor can the start */
        p->patience.data = p;
        (void)uv_timer_start(&p->patience, on_patience, PATIENCE_MS, PATIENCE_MS);
        ask(p);
        cv__loop_run(&p->loop);
        p->request = 0;
        p->kind->close(p->store, on_closed, NULL);
        uv_close((uv_handle_t *)&p->patience, NULL);
    }
    cv__loop_run(&p->loop);        /* what is closing */
    (void)uv_loop_close(&p->loop); /* the process ends soon, whatever is left */
    return p->stage == DONE;
}

/* Rounded up. */
static int64_t whole_us(int64_t ns)
{
    return (ns + NS_PER_US - 1) / NS_PER_US * NS_PER_US;
}

static void tell_latency(struct doctor *d, const struct probe *p)
{
    char what[200], advice[200], average[CV_DURATION_TEXT_BYTES], longest[CV_DURATION_TEXT_BYTES];
    char lease[CV_DURATION_TEXT_BYTES];
    /* A request times out after a fifth of the lease. Warn at a quarter of that: the slowest of
     * five renewals is not the slowest there will be. */
    const bool is_late = p->longest_ns > d->lease_ns / 5;
    const bool is_slow = p->longest_ns > d->lease_ns / 20;
    (void)snprintf(what, sizeof what,
                   "%u renewal%s took %s on average, %s at most, with a lease of %s",
                   p->renewal_count, p->renewal_count == 1 ? "" : "s",
                   cv__duration_format(whole_us(p->sum_ns / p->renewal_count), average),
                   cv__duration_format(whole_us(p->longest_ns), longest),
                   cv__duration_format(d->lease_ns, lease));
    (void)snprintf(advice, sizeof advice,
                   "use --lease %.0fs or more, or find out why the store is slow",
                   (double)p->longest_ns * 20 / 1e9 + 1);
    tell(d,
         is_late   ? WRONG
         : is_slow ? WARNING
                   : FINE,
         "latency", what, is_late || is_slow ? advice : NULL);
}

static void tell_late(struct doctor *d, const struct probe *p)
{
    char what[CV_ERRTEXT_BYTES + 100], lease[CV_DURATION_TEXT_BYTES];
    (void)snprintf(what, sizeof what,
                   "a request took longer than contenders wait with a lease of %s: %s",
                   cv__duration_format(d->lease_ns, lease), p->why.text);
    tell(d, WRONG, "latency", what, "use a longer --lease, or find out why the store is slow");
}

/* What to do about an error that contains these words. NULL: the error says it itself. */
static const struct {
    const char *words, *advice;
} advices[] = {
    {"store init", "run 'conclave store init ADDRESS' once, as a user who may create tables"},
    {"no password supplied", "set PGPASSWORD, or write the password to ~/.pgpass"},
    {"permission denied for",
     "run 'conclave store init ADDRESS' as the user that the contenders use, or grant that user "
     "the rights on the tables"},
    {"does not support SSL", "leave sslmode=require out of the address, or use a server with TLS"},
    {"SSL certificate problem",
     "add cacert=FILE to the address: the certificate of the authority of the server, as PEM"},
    {"leave tls=yes out", "leave tls=yes out of the address, or use the server's port with TLS"},
    {"if it is a TLS port",
     "check that the address has the port of etcd; if the server uses TLS, add tls=yes to the "
     "address, and cacert=FILE if the server's authority is your own"},
    {"tls=yes",
     "add tls=yes to the address, and cacert=FILE if the server's authority is your own"},
    {"add cert=FILE",
     "if the server asks for client certificates, add cert=FILE&key=FILE to the address: the "
     "certificate and the key of this client, as PEM"},
    {"authentication failed", "check the user in the address and the password"},
    {"authentication is not enabled",
     "leave the user out of the address, or enable authentication on the servers"},
    {"run chmod", NULL},
    {"has no password", NULL},
    {"address is refused", NULL},
    {"several names", NULL},
    {"chmod o-w", NULL},
    {"database \"", "create that database, or name another one in the address"},
    {"host name", "check the host in the address, and the name service of this machine"},
    {"resolve host", "check the host in the address, and the name service of this machine"},
    {"disk is full", ROOM_ADVICE},
    {"Read-only file system",
     "use a file in a file system that is mounted for writing: contenders need to write"},
    {"not a database", "use another file: this one is not a database"},
    {"locked by", "let that process finish or end it; meanwhile nobody can be elected or renewed"},
};

static const char *advice_for(const char *why, const char *otherwise)
{
    for (size_t i = 0; i < COUNT_OF(advices); i++) {
        if (strstr(why, advices[i].words) != NULL) {
            return advices[i].advice;
        }
    }
    return otherwise;
}

/* What to check if the store does not answer at all. */
static const char *advice_for_silence(const struct probe *p)
{
    return advice_for(
        p->why.text,
        p->kind->inherit != NULL
            ? "check the path, and the owner, group and mode of the file and of its folder"
        : p->is_opened ? "check the address, the network, and that the server runs"
                       : "correct the address, or the file or variable that it refers to; no "
                         "server was asked");
}

/* The folder of a file; empty: its path is too long. */
static void folder_of(const char *path, char ret_folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    const int bytes = slash == NULL || slash == path ? 1 : (int)(slash - path);
    if (snprintf(ret_folder, PATH_MAX, "%.*s", bytes, slash == NULL ? "." : path) >= PATH_MAX) {
        ret_folder[0] = '\0';
    }
}

/* A folder for the users of a group: files in it get its group, and the group may write to it. */
static bool folder_is_shared(const char *folder)
{
    struct stat is;
    return stat(folder, &is) == 0 && (is.st_mode & S_ISGID) != 0 && (is.st_mode & S_IWGRP) != 0;
}

/* Will others of the group be able to write to a file that this user makes there? */
static void check_umask(struct doctor *d, const char *folder)
{
    char what[PATH_MAX + 160];
    const mode_t mask = umask(0);
    (void)umask(mask);
    if ((mask & S_IWGRP) == 0 || !folder_is_shared(folder) ||
        getxattr(folder, "system.posix_acl_default", NULL, 0) > 0) { /* that replaces the umask */
        return;
    }
    (void)snprintf(what, sizeof what,
                   "the folder '%s' is for a group, but with umask %03o only this user could write "
                   "to a file made there",
                   folder, (unsigned)mask);
    tell(d, WARNING, "permissions", what,
         "run 'umask 007' before 'conclave run' (systemd: UMask=0007)");
}

/* Files that are there: may others of the group write to them? */
static void check_group(struct doctor *d, const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm", ".alive"};
    char folder[PATH_MAX], what[PATH_MAX + 160], advice[COUNT_OF(ends) * PATH_MAX + 160];
    folder_of(path, folder);
    if (!folder_is_shared(folder)) {
        return;
    }
    size_t length = (size_t)snprintf(advice, sizeof advice, "as their owner: chmod -R g+w");
    uint32_t closed_count = 0;
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        char one[PATH_MAX];
        struct stat is;
        const int bytes = snprintf(one, sizeof one, "%s%s", path, ends[i]);
        if (bytes < PATH_MAX && stat(one, &is) == 0 && (is.st_mode & S_IWGRP) == 0) {
            length += (size_t)snprintf(advice + length, sizeof advice - length, " '%s'", one);
            closed_count++;
        }
    }
    if (closed_count > 0) {
        (void)snprintf(what, sizeof what,
                       "the folder '%s' is for a group, but the group may not write to '%s' or the "
                       "files beside it: other users cannot take part",
                       folder, path);
        tell(d, WARNING, "permissions", what, advice);
    }
}

/* Makes nothing: the file would belong to this user, with the umask of this command. */
static void check_absent_file(struct doctor *d, const struct cv_store_kind *kind, const char *path)
{
    char folder[PATH_MAX], what[PATH_MAX + 160];
    folder_of(path, folder);
    if (access(folder, W_OK | X_OK) != 0) {
        (void)snprintf(what, sizeof what,
                       "%s: the file does not exist yet, and this user cannot create it in '%s': "
                       "%s",
                       kind->scheme, folder, strerror(errno));
        tell(d, WRONG, "store", what,
             advice_for(what, "check the path, and the owner, group and mode of the folder"));
        return;
    }
    if (try_to_write(folder) != 0) {
        (void)snprintf(what, sizeof what,
                       "%s: the file does not exist yet, and there is no space for it in '%s'",
                       kind->scheme, folder);
        tell(d, WRONG, "store", what, ROOM_ADVICE);
        return;
    }
    (void)snprintf(what, sizeof what,
                   "%s: the file does not exist yet; the first contender creates it", kind->scheme);
    tell(d, FINE, "store", what, NULL);
    check_umask(d, folder);
}

/* The store answers, but what later versions need is missing. */
static bool is_of_older_version(const struct probe *p)
{
    return p->stage == RUNS && (strstr(p->why.text, "store init") != NULL ||
                                strstr(p->why.text, "no such table") != NULL);
}

static void tell_version(struct doctor *d, const struct probe *p, const char *address)
{
    char what[100];
    struct cv_errtext unused; /* otherwise its absence disturbs nobody */
    bool has_gaps = false;
    if (p->kind->look_for_gaps != NULL &&
        p->kind->look_for_gaps(address, &has_gaps, &unused) == CV_OK && has_gaps) {
        tell(d, WARNING, "version",
             "the store was prepared by an older version: all works, but hand-overs are slower, "
             "or versions of contenders are not known",
             "run 'conclave store init ADDRESS' once more");
        return;
    }
    (void)snprintf(what, sizeof what, "conclave %s; the store is prepared for it", cv_version());
    tell(d, FINE, "version", what, NULL);
}

/* False: there is no more to check. The store does not answer at all, or is not there yet. */
static bool check_store(struct doctor *d, const struct cv_store_kind *kind, const char *address)
{
    const char *absent = cv__inquiry_absent_file(kind, address);
    if (absent != NULL) {
        check_absent_file(d, kind, absent);
        return false;
    }
    struct probe *p = calloc(1, sizeof *p);
    char what[CV_ERRTEXT_BYTES + 32];
    if (p == NULL) {
        tell(d, WRONG, "store", "out of memory", NULL);
        return false;
    }
    p->kind = kind;
    p->lease_ns = d->lease_ns;
    const bool is_fine = probe_run(p, address);
    (void)snprintf(what, sizeof what, "%s: %s", kind->scheme,
                   p->stage > READING ? "it answers" : p->why.text);
    tell(d, p->stage > READING ? FINE : WRONG, "store", what,
         p->stage > READING ? NULL : advice_for_silence(p));
    for (uint32_t i = 0; i < p->remark_count; i++) {
        tell(d, WARNING, "store", p->remark[i], NULL);
    }
    const bool is_old = is_of_older_version(p);
    if (is_old) {
        tell(d, WRONG, "version", p->why.text,
             "the store was prepared by an older version: run 'conclave store init ADDRESS' once "
             "more");
    } else if (p->stage > RUNS) {
        tell_version(d, p, address);
    }
    if (p->is_late) {
        tell_late(d, p);
    } else if (p->stage > READING && !is_old) {
        const bool is_locked = !is_fine && strstr(p->why.text, "locked by") != NULL;
        tell(d, is_fine ? FINE : WRONG, is_locked ? "lock" : "permissions",
             is_fine ? "this user may take part in elections" : p->why.text,
             is_fine ? NULL
                     : advice_for(p->why.text,
                                  "contenders need to write: check the file's and its folder's "
                                  "owner, group and mode, or the user's rights on the server"));
    }
    if (p->stage > READING && kind->inherit != NULL) { /* only a store of one host is a file */
        check_group(d, strchr(address, ':') + 1);
    }
    if (p->stage > RENEWING) {
        tell_latency(d, p);
    }
    const bool is_answering = p->stage > READING;
    free(p);
    return is_answering;
}

/* ---- The versions of contenders -------------------------------------------------------------- */

struct versions {
    struct doctor *doctor;
    const struct cv_store_kind *kind;
    const char *address;
    bool is_silent;                /* the store does not answer any more, and is not asked again */
    struct cv_store_list *waiting; /* those of the election that is being checked */
    uint32_t election_count, contender_count, other_count, silent_count;
    char silent[200]; /* names of contenders that do not report it, as many as fit */
};

static void note_silent(struct versions *v, const char *node)
{
    const size_t length = strlen(v->silent);
    if (length + strlen(node) + sizeof ", ..." <= sizeof v->silent) {
        (void)sprintf(v->silent + length, "%s%s", length > 0 ? ", " : "", node);
    } else if (length + sizeof ", ..." <= sizeof v->silent &&
               (length < 3 || strcmp(v->silent + length - 3, "...") != 0)) {
        (void)strcpy(v->silent + length, ", ...");
    }
    v->silent_count++;
}

static void compare_version(struct versions *v, const char *what, const char *node,
                            const char *election, const char *version)
{
    char text[CV_ERRTEXT_BYTES];
    v->contender_count++;
    if (version[0] == '\0') {
        note_silent(v, node);
    } else if (strcmp(version, cv_version()) != 0) {
        v->other_count++;
        (void)snprintf(text, sizeof text, "%s %s of '%s' runs %s; this is %s", what, node, election,
                       version, cv_version());
        tell(v->doctor, WARNING, "contenders", text,
             "update all contenders of an election to the same version; CHANGELOG says whether "
             "these two versions work together");
    }
}

static void check_election(void *user, const char *election)
{
    struct versions *v = user;
    struct cv_inquiry inquiry;
    struct cv_errtext error;
    char text[sizeof error.text + CV_ELECTION_BYTES + 40];
    if (v->is_silent || strncmp(election, PROBE_PREFIX, strlen(PROBE_PREFIX)) == 0) {
        return; /* or it is the probe of another doctor */
    }
    const int64_t began_ns = cv__clock_now_ns();
    memset(v->waiting, 0, sizeof *v->waiting);
    if (cv__inquire(v->kind, v->address, election, /* asks_to_resign= */ false, NULL, &inquiry,
                    &error) != CV_OK ||
        cv__inquire_list(v->kind, v->address, election, v->waiting, &error) != CV_OK) {
        v->is_silent = cv__inquiry_was_silent(began_ns);
        (void)snprintf(text, sizeof text, "%s: %s%s", election, error.text,
                       v->is_silent ? "; later ones were not asked for" : "");
        tell(v->doctor, WARNING, "contenders", text, NULL);
        return;
    }
    v->election_count++;
    if (inquiry.verdict == CV_STORE_HELD) {
        compare_version(v, "leader", inquiry.record.node, election, inquiry.record.version);
    }
    for (uint32_t i = 0; i < v->waiting->count; i++) {
        const struct cv_store_listed *one = &v->waiting->entry[i];
        compare_version(v, "contender", one->name, election, one->version);
    }
}

static void check_versions(struct doctor *d, const struct cv_store_kind *kind, const char *address)
{
    struct versions v = {
        .doctor = d, .kind = kind, .address = address, .waiting = calloc(1, sizeof *v.waiting)};
    struct cv_errtext error;
    char text[400];
    if (v.waiting == NULL) {
        tell(d, WRONG, "contenders", "out of memory", NULL);
        return;
    }
    if (cv__inquire_names(kind, address, check_election, &v, &error) != CV_OK) {
        tell(d, WARNING, "contenders", error.text, NULL);
    } else if (v.silent_count > 0) {
        (void)snprintf(text, sizeof text, "%u of %u do not report their version: %s",
                       v.silent_count, v.contender_count, v.silent);
        tell(d, WARNING, "contenders", text,
             kind->create == NULL
                 ? "update them: earlier versions do not report it"
                 : "run 'conclave store init ADDRESS' once more and update contenders of earlier "
                   "versions; on PostgreSQL a waiting contender with a long name cannot report its "
                   "version");
    } else if (v.other_count == 0 && !v.is_silent) {
        (void)snprintf(text, sizeof text, "%u in %u elections, none of another version",
                       v.contender_count, v.election_count);
        tell(d, FINE, "contenders", v.contender_count > 0 ? text : "no contenders now", NULL);
    }
    free(v.waiting);
}

/* ---- The members of a cluster ---------------------------------------------------------------- */

/* A mistake in the file. */
static void tell_mistake(void *user, uint32_t line, const char *text)
{
    struct doctor *d = user;
    char what[2 * CV_ERRTEXT_BYTES];
    if (line > 0) {
        (void)snprintf(what, sizeof what, "%s:%u: %s", d->file, line, text);
    } else {
        (void)snprintf(what, sizeof what, "%s: %s", d->file, text);
    }
    tell(d, WRONG, "cluster", what, NULL);
}

/* Something that is missing on this host. */
static void tell_missing(void *user, uint32_t line, const char *text)
{
    (void)line;
    tell(user, WRONG, "cluster", text, NULL);
}

/* Will a member have what it asks for when it starts? */
static void check_timeliness(struct doctor *d, const struct cv_cluster *cluster)
{
    char what[CV_ERRTEXT_BYTES + 80], floor[CV_DURATION_TEXT_BYTES];
    struct cv_errtext why;
    const bool is_off = !cluster->is_realtime;
    const int64_t floor_ns = cv__cli_peers_lease_floor_ns(cluster, &why);
    const bool is_usual = floor_ns == CV_LEASE_FLOOR_NS_USUAL;
    (void)snprintf(what, sizeof what, "on a busy machine use a lease of %s or more: %s",
                   cv__duration_format(floor_ns, floor), why.text);
    tell(d, is_usual ? WARNING : FINE, "scheduling", what,
         !is_usual ? NULL
         : is_off  ? "remove 'realtime = no' from the file, or use longer leases"
                   : "permit real-time scheduling (" CV_REALTIME_GRANT "), or use longer leases");
    const bool locks = cv__cli_peers_locks_memory(cluster, &why);
    (void)snprintf(what, sizeof what, "%s: %s",
                   locks ? "when memory is short, leases are kept" : CV_MEMORY_COST, why.text);
    tell(d, locks ? FINE : WARNING, "memory", what,
         locks    ? NULL
         : is_off ? "remove 'realtime = no' from the file"
                  : "permit memory to be locked (" CV_MEMORY_GRANT ")");
}

static void check_peers(struct doctor *d, const char *address)
{
    static struct cv_cluster cluster; /* some kilobytes */
    d->file = strchr(address, ':') + 1;
    char what[CV_ERRTEXT_BYTES + 80];
    const bool is_right = cv__cluster_check(d->file, &cluster, tell_mistake, d) == 0;
    check_clock(d, is_right ? cluster.config.drift_ppb : usual_drift_ppb());
    if (!is_right || cv__cli_peers_check_host(&cluster, tell_missing, d) > 0) {
        return;
    }
    tell(d, FINE, "cluster", cv__cli_peers_describe(&cluster, what), NULL);
    check_timeliness(d, &cluster);
    (void)snprintf(what, sizeof what, "'conclave members %s ELECTION' asks the running members",
                   d->file);
    tell(d, FINE, "members", what, NULL);
}

/* ---- The command line ------------------------------------------------------------------------ */

static void check_contender(struct doctor *d, const struct cv_store_kind *kind, const char *address)
{
    char what[128], least[CV_DURATION_TEXT_BYTES], asked[CV_DURATION_TEXT_BYTES];
    if (d->lease_ns < kind->lease_ns_min) {
        (void)snprintf(what, sizeof what, "%s is too short for %s: at least %s",
                       cv__duration_format(d->lease_ns, asked), kind->scheme,
                       cv__duration_format(kind->lease_ns_min, least));
        tell(d, WRONG, "lease", what, "use a longer --lease, here and for the contenders");
        d->lease_ns = kind->lease_ns_min;
    }
    if (d->lease_ns > LEASE_NS_MAX) {
        (void)snprintf(what, sizeof what, "%s is too long: at most 24h",
                       cv__duration_format(d->lease_ns, asked));
        tell(d, WRONG, "lease", what, "use a shorter --lease, here and for the contenders");
        d->lease_ns = LEASE_NS_MAX;
    }
    check_folder(d);
    if (check_store(d, kind, address)) {
        check_versions(d, kind, address);
    }
}

static int examine(struct doctor *d)
{
    const char *via = cv__inquiry_via(d->via);
    const char *peers = cv__cli_peers_is(via) ? via : NULL;
    char *address = NULL;
    struct cv_errtext error;
    const bool has_place =
        via != NULL || cv__place_address(/* address= */ NULL, &address, &error) == CV_OK;
    free(address);
    address = NULL;
    const struct cv_store_kind *kind =
        peers != NULL || !has_place ? NULL : cv__inquiry_kind(d->via, &address);
    if (kind == NULL && peers == NULL && has_place) {
        return EXIT_USAGE;
    }
    d->json.out = stdout;
    if (d->is_json) {
        cv__json_open(&d->json, NULL, '[');
    }
    if (peers != NULL) {
        check_peers(d, peers);
    } else {
        check_clock(d, usual_drift_ppb());
        if (kind == NULL) { /* without --via, elections are in a file in that folder */
            tell(d, WRONG, "folder", error.text, FOLDER_ADVICE ", or an address with --via");
        } else {
            check_contender(d, kind, address);
        }
    }
    if (d->is_json) {
        cv__json_close(&d->json, ']');
        (void)printf("\n");
    }
    free(address);
    return d->wrong_count > 0 ? EXIT_NO : EXIT_FINE;
}

static int run(int argc, char **argv)
{
    static const struct option longs[] = {{"via", required_argument, NULL, 'v'},
                                          {"lease", required_argument, NULL, 'l'},
                                          {"json", no_argument, NULL, 'j'},
                                          {0}};
    struct doctor doctor = {.lease_ns = 5 * NS_PER_S};
    int option;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
        switch (option) {
        case 'v':
            doctor.via = optarg;
            break;
        case 'l':
            if (!cv__command_time("--lease", optarg, &doctor.lease_ns)) {
                return EXIT_USAGE;
            }
            break;
        case 'j':
            doctor.is_json = true;
            break;
        default:
            return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        return cv__wrong_usage("doctor takes no argument, not '%s'", argv[optind]);
    }
    return examine(&doctor);
}

const struct cv_verb cv__verb_doctor = {
    .name = "doctor",
    .summary = "check this machine and the store, and say what to fix",
    .help =
        "usage: conclave doctor [--via ADDRESS] [--lease TIME] [--json]\n\n"
        "Checks what an election needs: the clock, this user's state folder, and the store. Can\n"
        "the store be reached, was it prepared for this version, may this user write, and does it\n"
        "answer fast enough for the lease? To find out, it holds an election of its own for a\n"
        "moment, and removes it. A SQLite file that does not exist is not created. It also lists\n"
        "contenders that run another version. With peers:FILE it checks the file, its keys, the\n"
        "state folder, the addresses, and whether real-time scheduling and locked memory are\n"
        "permitted.\n\n"
        "  --via ADDRESS  store or cluster to check; default: $CONCLAVE_VIA, or a file of this\n"
        "                 user\n"
        "  --lease TIME   as for 'conclave run'; default 5s\n"
        "  --json         print a list of objects\n\n"
        "Exit status: 0 nothing is wrong (there may be warnings), 1 something is, 2 wrong usage.\n",
    .run = run,
    .is_told = true,
};
