/* src/cli/inquiry.c - see inquiry.h. */
#include "cli/inquiry.h"

#include "cli/cli.h"
#include "core/errors.h"
#include "core/text.h"
#include "os/clock.h"
#include "os/loop.h"
#include "runtime/backend.h"
#include "runtime/place.h"
#include "runtime/trail.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct asking {
    struct cv_inquiry *inquiry;
    struct cv_errtext why;
    bool is_answered;
    uv_timer_t patience;
    uv_poll_t stop;
};

static void on_answer(void *user, const struct cv_store_answer *answer)
{
    struct asking *asking = user;
    if (answer->request == 0 || asking->is_answered) {
        return; /* a notification, not the answer */
    }
    asking->is_answered = true;
    asking->inquiry->verdict = answer->verdict;
    if (answer->record != NULL) {
        asking->inquiry->record = *answer->record;
    }
    if (answer->verdict == CV_STORE_FAILED) {
        (void)cv__fail(&asking->why, CV_E_STORE, "%s",
                       answer->why != NULL ? answer->why : "the store did not answer");
    }
    uv_stop(asking->patience.loop);
}

static void on_patience(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void on_stop(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    uv_stop(poll->loop);
}

static void on_closed(void *user)
{
    (void)user; /* the loop ends when nothing is left */
}

/* Says why the address is not a store: it is another kind of address, or it is unknown. */
static void fail_storeless(const char *address, struct cv_errtext *reterr)
{
    const struct cv_backend_kind *kind;
    struct cv_backend_contract contract;
    const int code =
        cv__backend_find(address, /* accepts_two_leaders= */ true, &kind, &contract, reterr);
    if (code == CV_OK) {
        (void)cv__fail(
            reterr, CV_E_INVALID,
            "'%.*s' is not a store, and this command needs one; 'conclave watch' shows who leads",
            (int)strcspn(address, "?"), address);
    }
}

const char *cv__inquiry_via(const char *given)
{
    const char *set = getenv("CONCLAVE_VIA");
    return given != NULL ? given : set != NULL && set[0] != '\0' ? set : NULL;
}

const struct cv_store_kind *cv__inquiry_kind(const char *via, char **ret_address)
{
    struct cv_errtext error;
    const char *source = via == NULL && cv__inquiry_via(NULL) != NULL ? "CONCLAVE_VIA: " : "";
    if (cv__place_address(cv__inquiry_via(via), ret_address, &error) != CV_OK) {
        cv__complain("%s%s", source, error.text);
        return NULL;
    }
    const struct cv_store_kind *kind = cv__store_find(*ret_address);
    if (kind == NULL) {
        fail_storeless(*ret_address, &error);
        cv__complain("%s%s", source, error.text);
        free(*ret_address);
        *ret_address = NULL;
    }
    return kind;
}

const char *cv__inquiry_absent_file(const struct cv_store_kind *kind, const char *address)
{
    /* Only a store of one host is a file. */
    const char *path = kind->inherit != NULL ? strchr(address, ':') + 1 : NULL;
    if (path == NULL || access(path, F_OK) == 0 || errno != ENOENT) {
        return NULL;
    }
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int bytes = slash != NULL ? (int)(slash + 1 - path) : 0;
    (void)snprintf(folder, sizeof folder, "%.*s.", bytes, path);
    return access(folder, X_OK) == 0 ? path : NULL; /* otherwise opening it will report that */
}

/* One of the things that can be asked. */
struct question {
    bool asks_to_resign, forgets;
    struct cv_store_list *list; /* not NULL: for a list */
    const char *heir;
    struct cv_store_runs *runs; /* not NULL: about runs */
    int patience_ms;
    const int *stop_fd; /* when it can be read, nobody waits for the answer any more; may be NULL */
};

static void question_ask(const struct cv_store_kind *kind, struct cv_store *store,
                         const struct question *question)
{
    if (question->runs != NULL) {
        kind->runs(store, 1, question->runs);
    } else if (question->list != NULL) {
        kind->list(store, 1, question->list);
    } else if (question->forgets) {
        kind->forget(store, 1);
    } else if (question->asks_to_resign) {
        kind->request_resign(store, 1, question->heir);
    } else {
        kind->ask(store, &(struct cv_store_request){.verb = CV_STORE_READ, .request = 1});
    }
}

/* False: it cannot be watched. */
static bool stop_watch(struct asking *asking, uv_loop_t *loop, const int *stop_fd)
{
    return stop_fd != NULL && uv_poll_init(loop, &asking->stop, *stop_fd) == 0 &&
           uv_poll_start(&asking->stop, UV_READABLE, on_stop) == 0;
}

static int inquire(const struct cv_store_kind *kind, const char *address, const char *election,
                   const struct question *question, struct cv_inquiry *ret_inquiry,
                   struct cv_errtext *reterr)
{
    uv_loop_t loop;
    if (cv__inquiry_absent_file(kind, address) != NULL) {
        *ret_inquiry = (struct cv_inquiry){.verdict = CV_STORE_FREE};
        return CV_OK;
    }
    int code = cv__loop_init(&loop, reterr);
    if (code != CV_OK) {
        return code;
    }
    struct cv_shared_list shared = {0};
    struct asking asking = {.inquiry = ret_inquiry};
    *ret_inquiry = (struct cv_inquiry){.verdict = CV_STORE_FAILED};
    const struct cv_store_setting setting = {
        .loop = &loop,
        .shared = &shared,
        .address = address,
        .election = election,
        .node = "conclave",
        .label = cv__clock_random() | 1,
        .patience_ms = (uint32_t)question->patience_ms,
        .answered = on_answer,
        .user = &asking,
    };
    struct cv_store *store;
    code = kind->open(&store, &setting, reterr);
    if (code == CV_OK) {
        (void)uv_timer_init(&loop, &asking.patience); /* cannot fail, nor can the start */
        (void)uv_timer_start(&asking.patience, on_patience, (uint64_t)question->patience_ms, 0);
        const bool may_stop = stop_watch(&asking, &loop, question->stop_fd);
        question_ask(kind, store, question);
        cv__loop_run(&loop);
        kind->close(store, on_closed, NULL);
        uv_close((uv_handle_t *)&asking.patience, NULL);
        if (may_stop) {
            uv_close((uv_handle_t *)&asking.stop, NULL);
        }
        if (!asking.is_answered) {
            /* The message leaves out the address: it may contain a password. */
            code = cv__fail(reterr, CV_E_STORE, "no answer from the %s: store within %g s",
                            kind->scheme, question->patience_ms / 1e3);
        } else if (ret_inquiry->verdict == CV_STORE_FAILED) {
            code = cv__fail(reterr, CV_E_STORE, "%s", asking.why.text);
        }
    }
    asking.is_answered = true;
    cv__loop_run(&loop);        /* what is closing */
    (void)uv_loop_close(&loop); /* the process ends soon, whatever is left */
    return code;
}

static void on_nothing(void *user, const struct cv_store_answer *answer)
{
    (void)user; /* nothing was asked */
    (void)answer;
}

/* Opens and closes the store, without asking it anything. */
static int try_open(const struct cv_store_kind *kind, const char *address, bool needs_no_secrets,
                    struct cv_errtext *reterr)
{
    uv_loop_t loop;
    if (kind->inherit != NULL) {
        return CV_OK; /* opening a file creates it */
    }
    int code = cv__loop_init(&loop, reterr);
    if (code != CV_OK) {
        return code;
    }
    struct cv_shared_list shared = {0};
    const struct cv_store_setting setting = {
        .loop = &loop,
        .shared = &shared,
        .address = address,
        .election = "check",
        .node = "conclave",
        .label = cv__clock_random() | 1,
        .needs_no_secrets = needs_no_secrets,
        .answered = on_nothing,
    };
    struct cv_store *store;
    code = kind->open(&store, &setting, reterr);
    if (code == CV_OK) {
        kind->close(store, on_closed, NULL);
    }
    cv__loop_run(&loop);        /* what is closing */
    (void)uv_loop_close(&loop); /* the process ends soon, whatever is left */
    return code;
}

int cv__inquiry_check(const struct cv_store_kind *kind, const char *address, int64_t lease_ns,
                      struct cv_errtext *reterr)
{
    const int code = cv__backend_check_lease(kind, lease_ns, reterr);
    return code == CV_OK ? try_open(kind, address, /* needs_no_secrets= */ false, reterr) : code;
}

bool cv__inquiry_is_written_right(const struct cv_store_kind *kind, const char *address,
                                  struct cv_errtext *reterr)
{
    return try_open(kind, address, /* needs_no_secrets= */ true, reterr) != CV_E_INVALID;
}

int cv__inquire(const struct cv_store_kind *kind, const char *address, const char *election,
                bool asks_to_resign, const char *heir, struct cv_inquiry *ret_inquiry,
                struct cv_errtext *reterr)
{
    const struct question question = {
        .asks_to_resign = asks_to_resign, .heir = heir, .patience_ms = CV_INQUIRY_MS};
    return inquire(kind, address, election, &question, ret_inquiry, reterr);
}

int cv__inquire_or_stop(const struct cv_store_kind *kind, const char *address, const char *election,
                        int stop_fd, struct cv_inquiry *ret_inquiry, struct cv_errtext *reterr)
{
    const struct question question = {.patience_ms = CV_INQUIRY_MS, .stop_fd = &stop_fd};
    return inquire(kind, address, election, &question, ret_inquiry, reterr);
}

bool cv__inquiry_was_silent(int64_t began_ns)
{
    /* Stores that give up themselves do so a little earlier. */
    return cv__clock_now_ns() - began_ns > CV_INQUIRY_MS * NS_PER_MS / 10 * 9;
}

int cv__inquire_runs(const struct cv_store_kind *kind, const char *address, const char *election,
                     struct cv_store_runs *runs, int patience_ms,
                     enum cv_store_verdict *ret_verdict, struct cv_errtext *reterr)
{
    const struct question question = {.runs = runs, .patience_ms = patience_ms};
    struct cv_inquiry inquiry;
    const int code = inquire(kind, address, election, &question, &inquiry, reterr);
    *ret_verdict = inquiry.verdict;
    return code;
}

int cv__inquire_list(const struct cv_store_kind *kind, const char *address, const char *election,
                     struct cv_store_list *list, struct cv_errtext *reterr)
{
    const struct question question = {.list = list, .patience_ms = CV_INQUIRY_MS};
    struct cv_inquiry inquiry;
    list->count = 0;
    list->is_cut = false;
    return inquire(kind, address, election, &question, &inquiry, reterr);
}

int cv__inquire_forget(const struct cv_store_kind *kind, const char *address, const char *election,
                       int patience_ms, bool *ret_is_held, struct cv_errtext *reterr)
{
    const struct question question = {.forgets = true, .patience_ms = patience_ms};
    struct cv_inquiry inquiry;
    const int code = inquire(kind, address, election, &question, &inquiry, reterr);
    *ret_is_held = inquiry.verdict == CV_STORE_HELD;
    return code;
}

int cv__inquire_names(const struct cv_store_kind *kind, const char *address,
                      void (*name)(void *user, const char *name), void *user,
                      struct cv_errtext *reterr)
{
    if (cv__inquiry_absent_file(kind, address) != NULL) {
        return CV_OK;
    }
    if (kind->names != NULL) {
        return kind->names(address, name, user, reterr);
    }
    struct cv_store_list *list = calloc(1, sizeof *list);
    if (list == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    list->of = CV_STORE_LIST_NAMES;
    const int code = cv__inquire_list(kind, address, "conclave", list, reterr);
    for (uint32_t i = 0; code == CV_OK && i < list->count; i++) {
        if (cv__store_election_is_valid(list->entry[i].name)) { /* others may write there, too */
            name(user, list->entry[i].name);
        }
    }
    if (list->is_cut) {
        cv__complain("the list is cut: there are more elections");
    }
    free(list);
    return code;
}

int cv__inquire_trail(const struct cv_store_kind *kind, const char *address, const char *election,
                      void (*past)(void *user, const struct cv_store_past *past), void *user,
                      struct cv_errtext *reterr)
{
    return cv__inquiry_absent_file(kind, address) != NULL
               ? CV_OK
               : cv__trail_read(kind, address, election, past, user, reterr);
}

struct alike {
    const char *election;
    char nearest[CV_ELECTION_BYTES]; /* of the names so far; empty: none is near */
    bool is_known;
};

static void compare_name(void *user, const char *name)
{
    struct alike *a = user;
    const char *const known[] = {a->nearest, name, NULL};
    const char *found = cv__text_nearest(a->election, a->nearest[0] != '\0' ? known : known + 1);
    a->is_known = a->is_known || strcmp(name, a->election) == 0;
    if (found == name) {
        (void)snprintf(a->nearest, sizeof a->nearest, "%s", name);
    }
}

int cv__inquire_similar(const struct cv_store_kind *kind, const char *address, const char *election,
                        char text[CV_ALIKE_BYTES], bool *ret_is_known, struct cv_errtext *reterr)
{
    struct alike a = {.election = election};
    text[0] = '\0';
    const int code = cv__inquire_names(kind, address, compare_name, &a, reterr);
    *ret_is_known = a.is_known;
    if (code == CV_OK && !a.is_known && a.nearest[0] != '\0') {
        (void)snprintf(text, CV_ALIKE_BYTES, "; did you mean '%s'?", a.nearest);
    }
    return code;
}

const char *cv__inquire_alike(const struct cv_store_kind *kind, const char *address,
                              const char *election, char text[CV_ALIKE_BYTES])
{
    struct cv_errtext unused; /* then nothing is suggested */
    bool is_known;
    return cv__inquire_similar(kind, address, election, text, &is_known, &unused) == CV_OK ? text
                                                                                           : "";
}

int cv__inquiry_tell_resigned(const char *name, const char *leader, uint64_t token,
                              const char *heir)
{
    CV_ASSERT(leader != NULL || token == 0);
    const bool is_done = heir == NULL || (leader != NULL && strcmp(leader, heir) == 0);
    char who[CV_NODE_BYTES + 64] = "nobody leads now";
    if (leader != NULL) {
        (void)snprintf(who, sizeof who, "%s leads now, token %llu", leader,
                       (unsigned long long)token);
    }
    if (is_done) {
        cv__print(stdout, "%s: %s\n", name, who);
        return EXIT_FINE;
    }
    cv__complain("%s: %s; %s did not take over", name, who, heir);
    return EXIT_NO;
}

const char *cv__inquiry_wall_text(int64_t wall_ns, char buffer[CV_INQUIRY_WALL_BYTES])
{
    const time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm local;
    if (wall_ns == 0 || localtime_r(&seconds, &local) == NULL) {
        return "unknown";
    }
    (void)strftime(buffer, CV_INQUIRY_WALL_BYTES, "%Y-%m-%d %H:%M:%S", &local);
    return buffer;
}
