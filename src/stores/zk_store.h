/* src/stores/zk_store.h - declarations shared only by the parts of the ZooKeeper store: zookeeper.c
 * (requests), zk_queue.c (the names in the queue), zk_grant.c (acquiring and renewing),
 * zk_release.c (releasing and asking to resign), zk_runs.c (the runs of a job), zk_list.c (lists,
 * and removing an election), zk_note.c (how the latest leadership ended), zk_address.c. */
#ifndef CV_STORES_ZK_STORE_H
#define CV_STORES_ZK_STORE_H

#include "core/address.h"
#include "stores/zk_client.h"

/* One name in the queue, taken apart. */
struct cv_zk_place {
    bool is_ours; /* it is the name of a contender */
    uint64_t label, attempt;
    int64_t sequence;
    char node[3 * CV_NODE_BYTES]; /* escaped */
    const char *name;
};

/* The queue as a list of its names shows it. */
struct cv_zk_queue {
    struct cv_zk_place first, own, before; /* is_ours: it exists */
};

#define CV_ZK_STRANGERS_MAX 8 /* nodes that only look like ours */
#define CV_ZK_ROUNDS_MAX 8    /* tries of one request, while others come and go */

/* One ensemble and its sessions, for all elections of a loop. */
struct cv_zk_server {
    struct cv_shared shared; /* first: the list points to it */
    uv_loop_t *loop;
    struct cv_zk *sessions; /* at most one for each time-out */
    struct cv_store *stores;
    char hosts[CV_ZK_HOSTS_BYTES];
    uint32_t host_count;
    char auth[256]; /* user:password; empty: none */
};

/* The note of the current leadership. */
struct cv_zk_note {
    uint64_t token;             /* the leadership that it was seen to be written for; 0: none */
    bool is_read;               /* the next two are known */
    int version;                /* of the node that it is in */
    struct cv_value_note found; /* what was there before it */
};

/* One contender in one election. */
struct cv_store {
    struct cv_remote remote;
    struct cv_zk_server *server;
    struct cv_store *next; /* of the server's stores */
    struct cv_shared_list *list;
    struct cv_zk_user user;      /* of a session, from the first request on */
    struct cv_zk_orphan *orphan; /* allocated in advance for close(), which must not fail */
    char election[CV_ZK_BASE_BYTES + CV_REMOTE_TEXT_BYTES]; /* the path of the queue */
    char request_path[CV_ZK_PATH_BYTES];
    char node[3 * CV_NODE_BYTES]; /* escaped */

    /* The attempt: zero if there is none. */
    uint64_t attempt;
    int64_t lease_ns;
    uint64_t token;             /* once it was granted */
    int64_t granted_until_ns;   /* what the core believes */
    char own[CV_ZK_PATH_BYTES]; /* the node; empty: none that we know of */
    uint64_t own_czxid;         /* of the node, as its last write showed */
    bool is_confirmed;          /* this session has created it, or was seen to own it */
    bool is_next;               /* only the holder was before it in the last list */
    bool is_own_watched;        /* this connection reports its end */
    bool is_own_ended;          /* it has reported that */
    bool is_before_fair;        /* `watched` is of a contender that deposes others first */
    bool is_first;              /* an event said that no node is before it: see zk_grant.c */
    bool is_taken;              /* granted by a proof that is a while old */
    bool has_waited;            /* another node was before it: its value says since when */
    bool is_request_unwatched;  /* we lead, and are not told of a new resign request */
    bool may_exist;             /* `create` was sent: look before it is sent again */
    int64_t since_wall_ns;
    char watched[CV_ZK_PATH_BYTES]; /* the node before ours */
    struct cv_zk_note note;
    struct cv_store_end lost; /* our latest leadership, and why it ended if that is known */
    char strangers[CV_ZK_STRANGERS_MAX][CV_ZK_NAME_BYTES];
    uint32_t stranger_count;

    /* The request at work. */
    bool is_begun;
    uint32_t round_count;
    bool is_queue_made;        /* by this request: if it is still missing, so are its parents */
    int name_count;            /* in the list of the queue */
    struct cv_value_note seen; /* the note, as it was after that list */
    char wish_seen[CV_VALUE_BYTES]; /* the resign request, likewise; empty: not read, or none */
    struct cv_store_record record;
    char heir_requested[CV_NODE_BYTES];
    struct cv_zk_waiter *waiters; /* list(): those whose times are still to be asked for */
    uint32_t waiter_count, waiter_next;
};

/* Parses a name; is_ours is false if it is not a contender's. Lends the name. */
void cv__zk_place_read(const char *name, struct cv_zk_place *ret_place);
/* The same; true only for one that takes part in the election. */
bool cv__zk_place_find(const struct cv_store *store, const char *name,
                       struct cv_zk_place *ret_place);
void cv__zk_child_path(const struct cv_store *store, const char *name,
                       char ret_path[CV_ZK_PATH_BYTES]);
void cv__zk_queue_read(const struct cv_store *store, const struct String_vector *names,
                       struct cv_zk_queue *ret_queue);

/* Ends the request at work: results of its operations are dropped from now on. */
void cv__zk_work_end(struct cv_store *store);
/* Ends it, and answers it FAILED or with store->record. */
void cv__zk_fail(struct cv_store *store, int rc);
void cv__zk_answer(struct cv_store *store, enum cv_store_verdict verdict, int64_t duration_ns);

/* Forgets the attempt. `why` its leadership ended, if it led and that is known. */
void cv__zk_attempt_forget(struct cv_store *store, enum cv_reason why);
/* The attempt's node is gone, or not ours any more; whether it held the election is remembered. */
void cv__zk_own_forget(struct cv_store *store);
/* The value of our node. */
void cv__zk_value_write(struct cv_store *store, char ret_value[CV_VALUE_BYTES]);
/* Does a contender with this value depose others before it deletes its own node? See zk_release.c.
 * Earlier versions do both at once. */
bool cv__zk_value_is_fair(const char *value);

/* Carries out ACQUIRE, or RENEW, and answers. */
void cv__zk_acquire(struct cv_store *store, const struct cv_store_request *ask);
void cv__zk_renew(struct cv_store *store, const struct cv_store_request *ask);

/* True: the node that was read is not a contender's, because it is not ephemeral. Then the request
 * is begun again without it, or has failed. */
bool cv__zk_is_passed_over(struct cv_store *store, const struct cv_zk_op *op);
/* The first node of the queue was read: answers who holds the election, by its data and its
 * czxid. */
void cv__zk_on_first(void *store, const struct cv_zk_op *op);
/* The first node of the queue was read. True: store->record says whose it is. False: it could not
 * be read, and the request is answered; or it is passed over, see cv__zk_is_passed_over(). */
bool cv__zk_read_holder(struct cv_store *store, const struct cv_zk_op *op);

/* A list of the queue came: the path of the first node; empty: there is none. False: it failed, and
 * the request is answered. */
bool cv__zk_first_path(struct cv_store *store, const struct cv_zk_op *op,
                       char ret_path[CV_ZK_PATH_BYTES]);
/* A list of the queue came: answers who holds the election. */
void cv__zk_on_names_read(void *store, const struct cv_zk_op *op);

/* Reads the note, after a list of the queue and before the first node: into store->seen. */
void cv__zk_note_look(struct cv_store *store);
/* Nobody is in the queue: reads the note, and answers FREE. */
void cv__zk_note_answer_free(struct cv_store *store);
/* We lead, or may lead: reads the note. A leader writes that its leadership has begun, if the note
 * does not say so. */
void cv__zk_note_ask(struct cv_store *store);
/* We lead from now on: writes that, if this request has read the note. Nobody waits for it. */
void cv__zk_note_begin(struct cv_store *store);
/* Copies what the note says of the leadership before ours into the record. */
void cv__zk_note_tell(const struct cv_store *store, struct cv_store_record *record);
/* Deletes the node of our leadership, and leaves a note. */
void cv__zk_give_back(struct cv_store *store, enum cv_reason why, cv_zk_then then);
/* Begins the request at work again. */
void cv__zk_begin_again(struct cv_store *store);

/* Ends the attempt, without waiting. `why` its leadership was lost, if it led and that is known. */
void cv__zk_give_up(struct cv_store *store, enum cv_reason why);
void cv__zk_release(struct cv_store *store, const struct cv_store_request *ask);
/* A list of the queue came: asks the holder to resign. */
void cv__zk_on_request_names(void *store, const struct cv_zk_op *op);
/* Reads or writes the text about runs. */
void cv__zk_runs_begin(struct cv_store *store, const struct cv_store_runs *runs);
/* Fills in a list; removes the election. */
void cv__zk_list_begin(struct cv_store *store, const struct cv_store_list *list);
void cv__zk_forget_begin(struct cv_store *store);

/* Hosts and credentials; the path of an election and what goes with it. */
CV_NODISCARD int cv__zk_read_server(struct cv_zk_server *server, const struct cv_address *address,
                                    struct cv_errtext *reterr);
CV_NODISCARD int cv__zk_read_path(struct cv_store *store, const struct cv_address *address,
                                  struct cv_errtext *reterr);

#endif
