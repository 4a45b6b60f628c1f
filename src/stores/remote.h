/* src/stores/remote.h - a queue of requests, shared by the stores with a server.
 *
 * Requests are handled one after the other. The queue tells the store to begin a request (from the
 * loop, never from within ask()), and the store ends it with cv__remote_answer(). Each request has
 * a deadline, a fifth of its lease: a later answer would hardly be in time. At the deadline of the
 * current request the store is told to give it up, and the answer is FAILED. Waiting requests have
 * their own deadlines.
 *
 * A server that hangs while the user goes on asking fills the queue. Then a new request replaces
 * one that has not begun, of the same kind if there is one; the replaced one is answered FAILED. If
 * this happens more often in one turn of the loop than there are places for it, the later answer
 * stands for both (store.h). */
#ifndef CV_STORES_REMOTE_H
#define CV_STORES_REMOTE_H

#include "core/address.h"
#include "stores/store.h"

#define CV_REMOTE_WAITING_MAX 16 /* the core has one or two, a command a few */
#define CV_REMOTE_REPLACED_MAX (2 * CV_REMOTE_WAITING_MAX)
#define CV_REMOTE_WHY_BYTES 512
#define CV_REMOTE_TEXT_BYTES (3 * CV_ELECTION_BYTES) /* a name with everything odd as %XX */

struct cv_remote_request {
    struct cv_store_request ask; /* heir points to `heir`, or is NULL */
    bool is_resign_request;
    int64_t asked_ns, deadline_ns; /* cv__clock_now_ns() */
    char heir[CV_NODE_BYTES];
};

/* Invariants: waiting[0] is at work iff is_at_work; `count` entries are valid; while closing, only
 * `closed` of the user is called. */
struct cv_remote {
    uv_loop_t *loop;
    char election[CV_ELECTION_BYTES];
    char node[CV_NODE_BYTES];
    uint64_t label;
    char version[CV_STORE_VERSION_BYTES]; /* empty: it is not published */
    void (*answered)(void *user, const struct cv_store_answer *answer);
    void (*log)(void *user, const char *line); /* NULL: nobody listens */
    void *user;

    void *store;                  /* lent to the two below */
    void (*begin)(void *store);   /* with waiting[0], which stays there until it is answered */
    void (*give_up)(void *store); /* waiting[0] is out of time; has to end in an answer */
    struct cv_remote_request waiting[CV_REMOTE_WAITING_MAX];
    uint32_t count;
    uint64_t replaced[CV_REMOTE_REPLACED_MAX]; /* request numbers, answered when the loop turns */
    uint32_t replaced_count;
    bool is_at_work;
    bool has_notification; /* to be sent after the answer to the request at work */
    /* The answer is a grant that should be renewed soon: a notification follows it, after a pause
     * in which the callers hear of the grant. On a machine that also runs servers, the renewal
     * would take the processors from them. */
    bool renews_soon;
    uv_timer_t kick, deadline, soon;

    bool is_closing;
    uint32_t handle_count; /* uv handles that have to be closed, ours and the store's */
    void (*last)(void *store);
    void (*closed)(void *user);
    void *closed_user;
};

/* *remote must be zeroed before. */
void cv__remote_init(struct cv_remote *remote, const struct cv_store_setting *setting, void *store,
                     void (*begin)(void *store), void (*give_up)(void *store));

/* Queues a request; the loop begins it. It may replace another, see above. */
void cv__remote_add(struct cv_remote *remote, const struct cv_store_request *request,
                    bool is_resign_request);

/* The same for list() and forget(). */
void cv__remote_list(struct cv_remote *remote, uint64_t request, struct cv_store_list *list);
void cv__remote_forget(struct cv_remote *remote, uint64_t request);

/* The request at work; asserts that there is one. */
struct cv_remote_request *cv__remote_current(struct cv_remote *remote);

/* A server keeps something for us until at least `sure_ns` after our instant `since_ns`. How much
 * of that is certainly left at `asked_ns`? On a clock that is faster than ours more time has
 * passed, so a part of the time passed is subtracted, too: the core allows for drift only in the
 * duration that it is given. May be negative. */
int64_t cv__remote_left_ns(int64_t since_ns, int64_t sure_ns, int64_t asked_ns);

/* Answers the request at work; `request` is filled in. The store may be closed when this
 * returns. */
void cv__remote_answer(struct cv_remote *remote, struct cv_store_answer answer);
void cv__remote_fail(struct cv_remote *remote, const char *format, ...) CV_PRINTF(2, 3);

/* Answers all requests, at work or not, with the same reason. */
void cv__remote_fail_all(struct cv_remote *remote, const char *why);

/* Sends CV_STORE_CHANGED. Not from within ask(). While a request is at work, the notification waits
 * until it is answered: the answer may be older than the change, and a user that gets the
 * notification after it asks again. */
void cv__remote_notify(struct cv_remote *remote);

/* Closing: begin, then close each handle of the store, then end, which also closes our timers. When
 * all handles are closed, `last` is called: it frees the store, and then has to call
 * remote->closed(remote->closed_user). */
void cv__remote_close_begin(struct cv_remote *remote, void (*closed)(void *user), void *user);
void cv__remote_close_handle(struct cv_remote *remote, uv_handle_t *handle);
void cv__remote_close_end(struct cv_remote *remote, void (*last)(void *store));

/* Writes all but letters, digits, '-', '_', '.' and '~' as %XX, also a dot at the beginning. The
 * result has no slashes, and is a valid name in any kind of tree. */
void cv__remote_escape(const char *name, char ret_text[CV_REMOTE_TEXT_BYTES]);

/* The reverse. False: it is too long, or not such a name. */
bool cv__remote_unescape(const char *text, char *ret_name, size_t name_bytes);

/* Host number `index` of an address as host:port, with brackets around an IPv6 address; `port` is
 * the default. */
#define CV_REMOTE_ENDPOINT_BYTES 272
CV_NODISCARD int cv__remote_endpoint(const struct cv_address *address, uint32_t index,
                                     uint32_t port, char ret_text[CV_REMOTE_ENDPOINT_BYTES],
                                     struct cv_errtext *reterr);

/* A secret from the file `path` (its first line) or, without one, from the environment. CV_OK with
 * an empty text: neither is set. A file that every user can read or change is refused. */
CV_NODISCARD int cv__remote_secret(const char *path, const char *variable, char *ret_text,
                                   size_t text_bytes, struct cv_errtext *reterr);

/* The first line of a message, without the full stop and spaces at its end. */
void cv__remote_one_line(const char *message, char *ret_line, size_t line_bytes);

#endif
