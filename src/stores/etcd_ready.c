/* src/stores/etcd_ready.c - the next contender in the queue has its key under a holding lease in
 * advance, so that it holds the election as soon as it sees that the holder's key was deleted.
 *
 * A *ready* key was put under a holding lease (etcd_server.h) by a transaction whose answer was
 * received. It is put again, under a newer lease, about every third of the lease's length.
 *
 * Why no further request is needed when the holder's key is deleted, at revision X. That
 * transaction saw our key at a revision R. The stream of events began at R + 1 or before, reports
 * all events in the order of revisions, and never splits a revision. So when the event of X has
 * come, a deletion of our own key up to X has come, too, even one in the same transaction (by a
 * holder that resigned in favour of a contender behind us). If there was none, our key existed at
 * X and was first: keys before it only disappear, and the last of them is gone. From then on its
 * lease protects it, until the instant that is known from its grant.
 *
 * The put has a condition: the key is still under the lease under which it was last seen. So a late
 * copy of the put, after a renewal has moved the key, changes nothing; otherwise it would return
 * the key to a lease that ends before the grant.
 *
 * Such a put cannot be combined with others, so only a few elections of a loop are ready. */
#include "stores/etcd_store.h"

#include "core/assert.h"
#include "os/clock.h"

#include <inttypes.h>
#include <string.h>

#define READY_ELECTIONS_MAX 8 /* of one loop and server: each costs a write in a third of a lease */

void cv__etcd_ready_end(struct cv_store *store)
{
    if (store->ready.txn != NULL) {
        cv__etcd_txn_cancel(store->ready.txn);
    }
    store->ready = (struct cv_etcd_ready){0};
}

static void on_ready(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    struct cv_etcd_ready *ready = &store->ready;
    const bool is_put = answer->code == CV_ETCD_OK &&
                        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer->reply, "succeeded"));
    CV_ASSERT(ready->asked_id != 0);
    *ready = is_put ? (struct cv_etcd_ready){.lease = ready->asked_id,
                                             .until_ns = ready->asked_until_ns,
                                             .revision = answer->revision,
                                             .create_revision = ready->create_revision}
                    : (struct cv_etcd_ready){0}; /* the next look shows its lease */
}

void cv__etcd_ready_make(struct cv_store *store)
{
    struct cv_etcd_ready *ready = &store->ready;
    const struct cv_etcd_key *own = &store->look.own;
    const int64_t lease_id = cv__etcd_hold_id(&store->election);
    if (ready->txn != NULL || lease_id == 0 || lease_id == ready->lease || !own->is_there ||
        store->token != 0 || !cv__etcd_hold_is_ready(&store->election) ||
        cv__etcd_next_count(&store->election) > READY_ELECTIONS_MAX) {
        return;
    }
    struct cv_text64 key64;
    struct cv_etcd_body body = {0};
    cv__etcd_body_print(
        &body,
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"%" PRIu64
        "\"},{\"key\":\"%s\",\"target\":\"LEASE\",\"lease\":\"%" PRId64 "\"}],\"success\":[",
        cv__etcd_encode(store->election.key, &key64), own->create_revision, key64.text,
        ready->lease != 0 ? ready->lease : own->lease);
    cv__etcd_body_put(store, lease_id, &body);
    cv__etcd_body_print(&body, "]}");
    ready->asked_id = lease_id;
    ready->asked_until_ns = cv__etcd_until_ns(&store->election, lease_id);
    ready->create_revision = own->create_revision;
    ready->txn = cv__etcd_txn(cv__etcd_wire_of(&store->election), CV_ETCD_ALONE, 1, NULL, &body,
                              ready->asked_until_ns, on_ready, store);
}

bool cv__etcd_ready_is_proved(const struct cv_store *store)
{
    const struct cv_etcd_ready *ready = &store->ready;
    return ready->lease != 0 && ready->create_revision == store->look.own.create_revision &&
           store->election.own_deleted_revision <= ready->revision &&
           cv__etcd_has_told_since(&store->election, ready->revision);
}
