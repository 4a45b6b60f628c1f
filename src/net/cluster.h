/* src/net/cluster.h - the file of a cluster: its members and how they elect, in INI form.
 *
 *   [cluster]
 *   name = orders                   ; several clusters may share hosts and even a key
 *   generation = 1                  ; grows when members, protocol or options change
 *   key = orders.key                ; conclave keygen; relative to this file's folder
 *   next-key = orders.key.new       ; also accepted, while keys are replaced
 *   state = /var/lib/conclave       ; folder for the durable state of members
 *   protocol = pole                 ; the default
 *   realtime = yes                  ; real-time scheduling if it is permitted; the default
 *   drift = 100                     ; ppm that a clock may gain or lose; the default
 *
 *   [options]                       ; of the protocol, as 'conclave protocols' lists them
 *   profile = lan
 *
 *   [member a]
 *   id = 1                          ; 1 to the number of members, each once
 *   address = 10.0.0.1:7100         ; or [fd00::1]:7100, or name.example:7100
 *   site = north                    ; its location, for people and for report; optional
 *   preference = 2                  ; the largest is elected (oracle = preference); optional
 *
 * Every mistake is reported with its line; a file with a mistake is refused. Reading opens only the
 * file itself; members open keys, folders and sockets later. */
#ifndef CV_NET_CLUSTER_H
#define CV_NET_CLUSTER_H

#include "core/types.h"

#include <limits.h>

#define CV_CLUSTER_MEMBERS_MAX 64u      /* each sends to each: more would be a different design */
#define CV_CLUSTER_NAME_BYTES 41        /* of a cluster, a member or a site, with the final zero */
#define CV_CLUSTER_HOST_BYTES 128       /* of an address, with the final zero */
#define CV_CLUSTER_FILE_BYTES_MAX 65536 /* of the file */
/* Tokens of a generation begin above (generation - 1) << CV_CLUSTER_TOKEN_BITS, so that they grow
 * from one generation to the next; with this bound they stay below 2^53, which JSON can carry. */
#define CV_CLUSTER_TOKEN_BITS 40u
#define CV_CLUSTER_GENERATION_MAX 8191u

struct cv_cluster_member {
    char name[CV_CLUSTER_NAME_BYTES];
    char site[CV_CLUSTER_NAME_BYTES];
    char host[CV_CLUSTER_HOST_BYTES]; /* without brackets */
    uint32_t port;
    uint32_t preference; /* 0: none was given */
    cv_id id;
    uint32_t line; /* where its section begins */
};

/* Invariants after reading without a mistake: member[i].id is i + 1; names and addresses are
 * different; the configuration passed cv_core_configure() for member 1. */
struct cv_cluster {
    char name[CV_CLUSTER_NAME_BYTES];
    uint32_t generation;
    char key[PATH_MAX], next_key[PATH_MAX], state[PATH_MAX]; /* next_key may be empty */
    bool is_realtime; /* unless the file says no: see os/realtime.h */
    bool has_witness; /* unless the file says no: see runtime/witness.h */
    const struct cv_protocol *protocol;
    struct cv_config config;
    uint32_t member_count;
    struct cv_cluster_member member[CV_CLUSTER_MEMBERS_MAX];
};

/* Called for each mistake; line 0: the file as a whole. `text` has no newline. */
typedef void cv_cluster_say(void *user, uint32_t line, const char *text);

/* Reads a text. `folder` is that of the file, for relative paths. Returns the number of mistakes;
 * with any, *ret_cluster must not be used. */
uint32_t cv__cluster_parse(const char *text, size_t byte_count, const char *folder,
                           struct cv_cluster *ret_cluster, cv_cluster_say *say, void *user);

/* Reads a file; one that cannot be read is a mistake, too. */
uint32_t cv__cluster_check(const char *path, struct cv_cluster *ret_cluster, cv_cluster_say *say,
                           void *user);

/* The same for callers that want one line: CV_OK, or CV_E_INVALID and the first mistake as
 * "FILE:LINE: text". CV_E_LIMIT: no descriptors are left. */
CV_NODISCARD int cv__cluster_read(const char *path, struct cv_cluster *ret_cluster,
                                  struct cv_errtext *reterr);

/* The member of that name; NULL: there is none. */
const struct cv_cluster_member *cv__cluster_find(const struct cv_cluster *cluster,
                                                 const char *name);

/* CV_E_INVALID, because no member has that name: says which names there are. */
int cv__cluster_fail_member(const struct cv_cluster *cluster, const char *name,
                            struct cv_errtext *reterr);

#endif
