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

/* Invariants: waiting[0] is at work iff is_at_work; `count` are valid; closing: no more calls to
 * the user but `closed`. */
struct cv_remote {
    uv_loop_t *loop;
    char election[CV_ELECTION_BYTES];
    char node[CV_NODE_BYTES];
    uint64_t label;
    char version[CV_STORE_VERSION_BYTES]; /* empty: it is not told */
    void (*answered)(void *user, const struct cv_store_answer *answer);
    void *user;

    void *store;                  /* lent to the two below */
    void (*begin)(void *store);   /* with waiting[0], which stays there until it is answered */
    void (*give_up)(void *store); /* waiting[0] is out of time; has to end in an answer */
    struct cv_remote_request waiting[CV_REMOTE_WAITING_MAX];
    uint32_t count;
    uint64_t replaced[CV_REMOTE_REPLACED_MAX]; /* request numbers, answered when the loop turns */
    uint32_t replaced_count;
    bool is_at_work;
    bool has_notification; /* to be told after the answer that is at work */
    uv_timer_t kick, deadline;

    bool is_closing;
    uint32_t handle_count; /* uv handles that have to be closed, ours and the store's */
    void (*last)(void *store);
    void (*closed)(void *user);
    void *closed_user;
};

/* The rest of *remote is zero. */
void cv__remote_init(struct cv_remote *remote, const struct cv_store_setting *setting, void *store,
                     void (*begin)(void *store), void (*give_up)(void *store));

/* Takes a request, to be begun on the loop; it may take the place of another, see above. */
void cv__remote_add(struct cv_remote *remote, const struct cv_store_request *request,
                    bool is_resign_request);

/* The same for what a list() and a forget() ask for. */
void cv__remote_list(struct cv_remote *remote, uint64_t request, struct cv_store_list *list);
void cv__remote_forget(struct cv_remote *remote, uint64_t request);

/* The one at work; asserts that there is one. */
struct cv_remote_request *cv__remote_current(struct cv_remote *remote);

/* A server keeps something for us for `sure_ns` from our instant `since_ns` on, or from later on:
 * how much of that can be counted on from `asked_ns` on? What has passed is longer on a clock that
 * is faster than ours, so that a part of it is taken off, too: the core allows for drift only in
 * what it is told. May be negative. */
int64_t cv__remote_left_ns(int64_t since_ns, int64_t sure_ns, int64_t asked_ns);

/* Answers the one at work; `request` is filled in. The store may be closed when this returns. */
void cv__remote_answer(struct cv_remote *remote, struct cv_store_answer answer);
void cv__remote_fail(struct cv_remote *remote, const char *format, ...) CV_PRINTF(2, 3);

/* Answers all that wait, whether at work or not, with the same words. */
void cv__remote_fail_all(struct cv_remote *remote, const char *why);

/* CV_STORE_CHANGED. Not from within ask(). While a request is at work it waits for the answer,
 * which may be older than the change: a user that hears the two in this order asks again. */
void cv__remote_notify(struct cv_remote *remote);

/* Closing: stops our timers, and closes each handle of the store; `last` comes when all are gone
 * and frees the store; it has to call remote->closed(remote->closed_user) after that. */
void cv__remote_close_begin(struct cv_remote *remote, void (*closed)(void *user), void *user);
void cv__remote_close_handle(struct cv_remote *remote, uv_handle_t *handle);
void cv__remote_close_end(struct cv_remote *remote, void (*last)(void *store));

/* Everything but letters, digits, '-', '_', '.' and '~' as %XX, and a dot in front too: a name for
 * any kind of tree, whose slashes mean nothing. */
void cv__remote_escape(const char *name, char ret_text[CV_REMOTE_TEXT_BYTES]);

/* The other way. False: it is too long, or no such name. */
bool cv__remote_unescape(const char *text, char *ret_name, size_t name_bytes);

/* Host number `index` of an address as host:port, with brackets around an IPv6 address; the port is
 * `port` where none is written. */
#define CV_REMOTE_ENDPOINT_BYTES 272
CV_NODISCARD int cv__remote_endpoint(const struct cv_address *address, uint32_t index,
                                     uint32_t port, char ret_text[CV_REMOTE_ENDPOINT_BYTES],
                                     struct cv_errtext *reterr);

/* A secret from the file `path` (its first line) or, without one, from the environment. CV_OK with
 * an empty text: neither says anything. A file that every user can read or change is refused. */
CV_NODISCARD int cv__remote_secret(const char *path, const char *variable, char *ret_text,
                                   size_t text_bytes, struct cv_errtext *reterr);

/* The first line of a message, without the full stop and spaces at its end. */
void cv__remote_one_line(const char *message, char *ret_line, size_t line_bytes);

#endif
