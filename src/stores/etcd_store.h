/* src/stores/etcd_store.h - declarations shared only by the parts of the etcd store: etcd.c
 * (requests), etcd_look.c (reading the queue), etcd_ready.c (the next contender), etcd_release.c
 * (the end of an attempt), etcd_runs.c (the runs of a job), etcd_list.c (lists, and removing an
 * election), etcd_note.c (how the latest leadership ended). */
#ifndef CV_STORES_ETCD_STORE_H
#define CV_STORES_ETCD_STORE_H

#include "stores/etcd_server.h"

/* One of our keys. */
struct cv_etcd_key {
    bool is_there;
    uint64_t create_revision;
    int64_t lease;
    char value[CV_VALUE_BYTES];
};

/* What one linearizable transaction saw. */
struct cv_etcd_look {
    struct cv_etcd_key first, own, request;
    char first_key[CV_ETCD_KEY_BYTES];
    int64_t revision;
    struct cv_value_note note;
};

/* How the first key is looked for. */
enum cv_etcd_look_mode {
    CV_ETCD_LOOK_FIRST, /* the one with the lowest revision */
    CV_ETCD_LOOK_ALL,   /* that one is foreign: the names of all */
    CV_ETCD_LOOK_KNOWN, /* CV_ETCD_LOOK_ALL has found it: what does it say? */
};

/* Our key was put under a holding lease in advance; all zero: it was not. */
struct cv_etcd_ready {
    int64_t lease;            /* under which it was seen ... */
    int64_t revision;         /* ... at this revision; 0: none */
    int64_t until_ns;         /* until then that lease protects it */
    uint64_t create_revision; /* of the key */
    struct cv_etcd_txn *txn;  /* that puts it under the next one; NULL: none is on its way */
    int64_t asked_id, asked_until_ns;
};

/* The note of the present leadership. */
struct cv_etcd_note {
    uint64_t token; /* it is written for this one; 0: not yet */
    bool is_read;   /* `found` is what was there when it began */
    struct cv_value_note found;
    struct cv_etcd_txn *txn; /* that reads or writes it; NULL: none is on its way */
};

/* One contender in one election. */
struct cv_store {
    struct cv_remote remote;
    struct cv_etcd_election election;
    struct cv_shared_list *shared;

    /* The attempt: all zero if there is none. */
    uint64_t attempt;
    int64_t lease_ns;
    uint64_t token;           /* once it was granted */
    int64_t granted_until_ns; /* what the core was told */
    bool is_lost;             /* it was granted, and is over */
    bool is_queued;           /* it has waited */
    bool is_taken;            /* it was granted on a lease that was kept ready */
    struct cv_etcd_ready ready;
    struct cv_etcd_note note;
    struct cv_store_end lost; /* our latest leadership, and why it ended if that is known */
    uint64_t before_of;       /* the create revision of our key when election.before was found */
    int64_t since_wall_ns;
    int64_t hold_id;  /* the holding lease that its key was put under, or is about to be */
    uv_timer_t lapse; /* rings at granted_until_ns */

    /* The request at work. */
    struct cv_etcd_txn *txn;
    struct cv_etcd_call *call;
    uint32_t round_count;
    int64_t work_begin_ns, deadline_ns;
    bool has_looked; /* `look` is of this request */
    enum cv_etcd_look_mode look_mode;
    struct cv_etcd_look look;
    void (*looked)(struct cv_store *store);
};

/* Answers the request at work: FAILED. */
void cv__etcd_fail(struct cv_store *store, const char *why);

/* Asks for a transaction; `then` clears store->txn to begin with. */
void cv__etcd_ask(struct cv_store *store, enum cv_etcd_txn_kind kind, uint32_t op_count,
                  struct cv_etcd_body *body, cv_etcd_then then);

/* Counts one more look or lease of the request at work. False: too many; it is answered. */
bool cv__etcd_round_begin(struct cv_store *store);

/* Looks, and goes on with `looked` when store->look is filled in. If that fails, or has been tried
 * too often for this request, the request is answered instead. */
void cv__etcd_look(struct cv_store *store, void (*looked)(struct cv_store *store));

/* Answers HELD or FREE, according to the last look; remaining_ns < 0: not known. */
void cv__etcd_answer_seen(struct cv_store *store, int64_t remaining_ns);
void cv__etcd_answer_plain(struct cv_store *store);

/* The record according to the last look. */
void cv__etcd_record_read(const struct cv_store *store, struct cv_store_record *ret_record);

/* The keys of range number `index` in the answer to a transaction. */
const cJSON *cv__etcd_range(const struct cv_etcd_answer *answer, int index);
const cJSON *cv__etcd_kvs(const cJSON *range);

/* False: there is none, or it is not one of ours. Its name goes to ret_name unless that is NULL. */
bool cv__etcd_key_read(const struct cv_store *store, const cJSON *kv, struct cv_etcd_key *ret_key,
                       char *ret_name);

/* The name of the key of an attempt. */
void cv__etcd_attempt_key(const struct cv_store *store, uint64_t attempt,
                          char ret_key[CV_ETCD_KEY_BYTES]);
/* There is no attempt any more. Why its leadership ended, if it led and that is known. */
void cv__etcd_attempt_forget(struct cv_store *store, enum cv_reason why);
/* Asks for the deletion of its key. If it was granted, a note says why it ended; CV_REASON_STARTED:
 * that is not known. */
void cv__etcd_attempt_delete(struct cv_store *store, uint64_t attempt, enum cv_reason why,
                             cv_etcd_then then);
/* Carries out RELEASE, and answers. */
void cv__etcd_release(struct cv_store *store, const struct cv_store_request *request);
/* After a look: asks the holder to resign, and answers. */
void cv__etcd_request_resign(struct cv_store *store);

/* Reads or writes the text about runs, and answers. */
void cv__etcd_runs_begin(struct cv_store *store, const struct cv_store_runs *runs);

/* Prints a put of our key. One that is there keeps its revision. */
void cv__etcd_body_put(const struct cv_store *store, int64_t lease_id, struct cv_etcd_body *body);

/* We are next in the queue: puts our key under the present holding lease, if it is not yet. */
void cv__etcd_ready_make(struct cv_store *store);
/* Forgets that it was. */
void cv__etcd_ready_end(struct cv_store *store);
/* After the key before ours was deleted: do the events show that ours existed then, under the lease
 * in store->ready? */
bool cv__etcd_ready_is_proved(const struct cv_store *store);

/* Reads the note of a key; NULL: there is none. */
void cv__etcd_note_read(const cJSON *kv, struct cv_value_note *ret_note);
/* Prints the deletion of the key of our leadership; if it is there, a note says why. */
void cv__etcd_body_give_back(const struct cv_store *store, enum cv_reason why,
                             struct cv_etcd_body *body);
/* Prints the note alone, for a transaction that deletes the key. */
void cv__etcd_body_note(const struct cv_store *store, enum cv_reason why,
                        struct cv_etcd_body *body);
/* We lead: leaves a note that this leadership has begun, if that is not done. Nobody waits for
 * it. */
void cv__etcd_note_begin(struct cv_store *store);
/* We no longer lead: forgets the note. */
void cv__etcd_note_end(struct cv_store *store);

/* Fills in a list; removes what is known of the election. Both answer. */
void cv__etcd_list_begin(struct cv_store *store, const struct cv_store_list *list);
void cv__etcd_forget_begin(struct cv_store *store);

#endif
