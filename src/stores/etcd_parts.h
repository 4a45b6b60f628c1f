/* src/stores/etcd_parts.h - the state of a server, shared by etcd_server.c and etcd_lease.c. */
#ifndef CV_STORES_ETCD_PARTS_H
#define CV_STORES_ETCD_PARTS_H

#include "stores/etcd_server.h"

#define KEY_BYTES CV_ETCD_KEY_BYTES

enum lease_work { WORK_NONE, WORK_GRANT, WORK_PROLONG };

/* A lease that was granted and is never prolonged. */
struct holding {
    int64_t id;       /* 0: none */
    int64_t until_ns; /* until then it protects the keys under it */
};

/* Invariants: a call for the waiting lease is on its way exactly while work is not WORK_NONE, one
 * for a holding lease exactly while hold_number is not 0. */
struct cv_etcd_lease {
    struct cv_etcd_lease *next;
    struct cv_etcd_server *server;
    int64_t ttl_s;  /* as we ask for it */
    int64_t ttl_ns; /* what counts: at most what was requested and what was answered */
    uint32_t user_count;
    uint64_t call_count; /* elections wait for one of these numbers */

    /* The waiting lease, which is kept alive. */
    int64_t id;
    bool is_there;
    int64_t heard_ns; /* when the latest call that found it was sent */
    int64_t until_ns; /* until then it protects the keys under it, by its grant alone */
    enum lease_work work;
    uint64_t work_number;
    int64_t sent_ns; /* of the latest keep-alive or grant */

    struct holding holding, former;
    int64_t asked_id;     /* of the holding lease that is asked for */
    uint64_t hold_number; /* of that call; 0: none is */

    uv_timer_t beat;
    uint32_t beat_count;
};

/* The key of an election that was closed. */
struct cv_etcd_orphan {
    struct cv_etcd_orphan *next;
    int64_t until_ns;
    char key[KEY_BYTES];
};

struct cv_etcd_server {
    struct cv_shared shared; /* first: the list points here */
    uv_loop_t *loop;
    struct cv_etcd_wire wire;
    char prefix[CV_ETCD_PREFIX_BYTES];
    uint64_t label;
    struct cv_etcd_election *elections;
    uint32_t election_count;
    struct cv_etcd_lease *leases;
    uint64_t lease_count;
    struct cv_etcd_orphan *orphans;

    struct cv_http_call *stream; /* NULL: nothing is watched */
    bool is_whole;               /* it watches the whole prefix; otherwise the only election */
    bool is_created;             /* the server has confirmed it */
    int64_t stream_revision;     /* it reports everything from this one on */
    uv_timer_t again;            /* begins the stream again */
    uv_timer_t tell;             /* tells the marked elections, from the loop */
    uint64_t pause_ms;

    uint32_t handle_count; /* closing: how many are still open */
};

/* Tells all that something may have changed; `lease`: only those that use it. Each may close
 * elections, also the last one. */
void cv__etcd_tell_changed(struct cv_etcd_server *server, const struct cv_etcd_lease *lease);

/* Deletes the orphans whose time is over. */
void cv__etcd_orphans_end(struct cv_etcd_server *server);

#endif
