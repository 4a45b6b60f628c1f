/* src/cli/peers_check.c - what a host must have to run a member; see peers.h. */
#include "cli/peers.h"
#include "core/errors.h"
#include "net/key.h"
#include "os/realtime.h"
#include "runtime/reach.h"

#include <stdio.h>

/* Otherwise a key that this user may not read, or that others may, would be noticed only when the
 * member starts. */
static uint32_t check_key(const char *path, cv_cluster_say *say, void *user)
{
    struct cv_key key;
    struct cv_errtext why;
    if (cv__key_read(path, &key, &why) != CV_OK) {
        say(user, 0, why.text);
        return 1;
    }
    cv__key_forget(&key);
    return 0;
}

uint32_t cv__cli_peers_check_host(const struct cv_cluster *cluster, cv_cluster_say *say, void *user)
{
    uint32_t mistakes = check_key(cluster->key, say, user);
    if (cluster->next_key[0] != '\0') {
        mistakes += check_key(cluster->next_key, say, user);
    }
    struct cv_errtext why;
    if (cv__reach_folder(cluster, &why) != CV_OK) {
        say(user, 0, why.text);
        mistakes++;
    }
    struct cv_udp_address address[CV_CLUSTER_MEMBERS_MAX];
    if (cv__reach_addresses(cluster, /* self= */ 1, address, &why) != CV_OK) {
        say(user, 0, why.text);
        mistakes++;
    }
    return mistakes;
}

const char *cv__cli_peers_describe(const struct cv_cluster *c, char buffer[CV_ERRTEXT_BYTES])
{
    (void)snprintf(buffer, CV_ERRTEXT_BYTES, "cluster %s, generation %u, protocol %s, %u member%s",
                   c->name, c->generation, c->protocol->name, c->member_count,
                   c->member_count == 1 ? "" : "s");
    return buffer;
}

int64_t cv__cli_peers_lease_floor_ns(const struct cv_cluster *cluster, struct cv_errtext *ret_why)
{
    if (!cluster->is_realtime) {
        (void)snprintf(ret_why->text, sizeof ret_why->text, "realtime = no");
    } else if (cv__realtime_is_permitted(ret_why) == CV_OK) {
        (void)snprintf(ret_why->text, sizeof ret_why->text,
                       "real-time scheduling is permitted here");
        return CV_LEASE_FLOOR_NS_REALTIME;
    }
    return CV_LEASE_FLOOR_NS_USUAL;
}

bool cv__cli_peers_locks_memory(const struct cv_cluster *cluster, struct cv_errtext *ret_why)
{
    if (!cluster->is_realtime) {
        (void)snprintf(ret_why->text, sizeof ret_why->text, "realtime = no");
        return false;
    }
    if (cv__realtime_may_lock_memory(ret_why) != CV_OK) {
        return false;
    }
    (void)snprintf(ret_why->text, sizeof ret_why->text, "memory may be locked here");
    return true;
}
