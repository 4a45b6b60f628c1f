/* src/stores/zk_queue.c - the names below an election in ZooKeeper, taken apart: who is first, and
 * which node is before our own. Other names are not ours and are passed over; so are nodes that
 * only look like ours and are not ephemeral, as a copy of the tree has them: they would never go
 * away. A list of names does not show the difference. It shows when such a node is looked at,
 * because it is the first or stands before ours; then its name is remembered until the next
 * connection. */
#include "stores/zk_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* c-, sixteen digits, a number, the contender's name, and the sequence: what else is below the
 * queue is not ours. */
void cv__zk_place_read(const char *name, struct cv_zk_place *ret_place)
{
    memset(ret_place, 0, sizeof *ret_place);
    ret_place->name = name;
    const char *last = strrchr(name, '-');
    if (strncmp(name, "c-", 2) != 0 || strspn(name + 2, "0123456789abcdef") != 16 ||
        name[18] != '-') {
        return;
    }
    const char *attempt = name + 19;
    const size_t attempt_bytes = strspn(attempt, "0123456789");
    const char *node = attempt + attempt_bytes + 1;
    if (attempt_bytes == 0 || attempt_bytes > 20 || attempt[attempt_bytes] != '-' || last < node ||
        strspn(last + 1, "0123456789") != 10 || last[11] != '\0') {
        return;
    }
    ret_place->label = strtoull(name + 2, NULL, 16);
    ret_place->attempt = strtoull(attempt, NULL, 10);
    (void)snprintf(ret_place->node, sizeof ret_place->node, "%.*s", (int)(last - node), node);
    ret_place->sequence = strtoll(last + 1, NULL, 10);
    ret_place->is_ours = true;
}

static bool is_stranger(const struct cv_store *store, const char *name)
{
    for (uint32_t i = 0; i < store->stranger_count; i++) {
        if (strcmp(store->strangers[i], name) == 0) {
            return true;
        }
    }
    return false;
}

bool cv__zk_place_find(const struct cv_store *store, const char *name,
                       struct cv_zk_place *ret_place)
{
    cv__zk_place_read(name, ret_place);
    return ret_place->is_ours && !is_stranger(store, name);
}

void cv__zk_child_path(const struct cv_store *store, const char *name,
                       char ret_path[CV_ZK_PATH_BYTES])
{
    const int length = snprintf(ret_path, CV_ZK_PATH_BYTES, "%s/%s", store->election, name);
    if (length < 0 || length >= CV_ZK_PATH_BYTES) {
        ret_path[0] = '\0'; /* nobody of ours makes such long names */
    }
}

/* Sequence numbers grow with the czxid: both count what was made under this parent. */
void cv__zk_queue_read(const struct cv_store *store, const struct String_vector *names,
                       struct cv_zk_queue *ret_queue)
{
    memset(ret_queue, 0, sizeof *ret_queue);
    struct cv_zk_place place;
    for (int pass = 0; pass < 2; pass++) { /* ours first, then the one before it */
        for (int i = 0; i < names->count; i++) {
            if (!cv__zk_place_find(store, names->data[i], &place)) {
                continue;
            }
            const bool is_own = store->attempt != 0 && place.label == store->remote.label &&
                                place.attempt == store->attempt;
            if (pass == 0 && is_own &&
                (!ret_queue->own.is_ours || place.sequence < ret_queue->own.sequence)) {
                ret_queue->own = place;
            }
            if (pass == 0 &&
                (!ret_queue->first.is_ours || place.sequence < ret_queue->first.sequence)) {
                ret_queue->first = place;
            }
            if (pass == 1 && ret_queue->own.is_ours && place.sequence < ret_queue->own.sequence &&
                (!ret_queue->before.is_ours || place.sequence > ret_queue->before.sequence)) {
                ret_queue->before = place;
            }
        }
    }
}
