/* src/runtime/farewell.c - see farewell.h. */
#include "runtime/farewell.h"

#include "runtime/guest.h"

#include <string.h>

int cv__farewell_open(struct cv_farewell *f, int socket_fd, cv_id self, uint32_t member_count,
                      int64_t certain_ns, struct cv_errtext *reterr)
{
    *f = (struct cv_farewell){.self = self, .member_count = member_count, .certain_ns = certain_ns};
    return cv__witness_new(socket_fd, member_count, &f->witness, reterr);
}

void cv__farewell_close(struct cv_farewell *f)
{
    cv__witness_free(f->witness);
    f->witness = NULL;
}

/* DOWN comes first: a member that gets only the release would wait for a proposal of this one. */
static size_t put_items(const struct cv_farewell *f, struct cv_host *host, int64_t now_ns,
                        uint8_t ret_items[sizeof f->items])
{
    const uint8_t is_certain = now_ns >= f->certain_ns;
    const uint8_t *message = NULL;
    size_t length = cv__peers_put_item(ret_items, CV_ITEM_DOWN, &is_certain, 1);
    const size_t message_bytes = is_certain ? cv__host_farewell(host, &message) : 0;
    if (message_bytes > 0) {
        CV_ASSERT(length + CV_PEERS_ITEM_BYTES + message_bytes <= sizeof f->items);
        length += cv__peers_put_item(ret_items + length, CV_ITEM_CORE, message, message_bytes);
    }
    return length;
}

/* Each round has frames of its own: a frame is accepted once, and a repeated one is reported. */
static void seal_round(struct cv_farewell *f, struct cv_peers *peers, int64_t now_ns)
{
    uint8_t frame[CV_PEERS_FRAME_BYTES_MAX];
    for (cv_id id = 1; id <= f->member_count; id++) {
        const size_t byte_count =
            id != f->self ? cv__peers_seal_last(peers, id, f->items, f->item_bytes, now_ns, frame)
                          : 0;
        if (byte_count > 0) {
            cv__witness_add(f->witness, cv__peers_address(peers, id), frame, byte_count);
        }
    }
}

static void seal(struct cv_farewell *f, struct cv_peers *peers, int64_t now_ns)
{
    cv__witness_begin(f->witness);
    for (uint32_t round = 0; round < CV_WITNESS_ROUNDS; round++) {
        seal_round(f, peers, now_ns);
    }
    cv__witness_commit(f->witness);
}

void cv__farewell_renew(struct cv_farewell *f, struct cv_peers *peers, struct cv_host *host,
                        int64_t now_ns)
{
    uint8_t items[sizeof f->items];
    if (f->witness == NULL) {
        return;
    }
    const size_t item_bytes = put_items(f, host, now_ns, items);
    if (f->is_sealed && f->lives == cv__peers_lives(peers) && f->item_bytes == item_bytes &&
        memcmp(f->items, items, item_bytes) == 0) {
        return;
    }
    f->is_sealed = true;
    f->lives = cv__peers_lives(peers);
    f->item_bytes = item_bytes;
    memcpy(f->items, items, item_bytes);
    seal(f, peers, now_ns);
}
