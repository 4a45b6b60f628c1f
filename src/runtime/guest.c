/* src/runtime/guest.c - see guest.h. */
#include "runtime/guest.h"

#include "core/bytes.h"
#include "core/errors.h"
#include "core/types.h"
#include "net/peers.h"
#include "os/clock.h"
#include "runtime/reach.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_VERSION 2u
#define STATUS_HEAD_BYTES 48u
#define LINK_BYTES 41u
#define ASK_AGAIN_NS (100 * NS_PER_MS) /* datagrams are lost */

_Static_assert(CV_GUEST_STATUS_BYTES_MAX >= STATUS_HEAD_BYTES + CV_CLUSTER_MEMBERS_MAX * LINK_BYTES,
               "room for all");
_Static_assert(CV_GUEST_STATUS_BYTES_MAX <= CV_PEERS_ITEM_BYTES_MAX, "one item");

struct cv_guest {
    struct cv_cluster cluster;
    struct cv_peers *peers;
    int fd;
    struct cv_guest_status *status; /* where answers go; NULL: no question is open */
    uint32_t answered;
};

/* ---- The bytes of an answer ------------------------------------------------------------------ */

static uint32_t flags_of(bool a, bool b, bool c)
{
    return (a ? 1u : 0u) | (b ? 2u : 0u) | (c ? 4u : 0u);
}

size_t cv__guest_encode(const struct cv_guest_status *s, uint32_t member_count,
                        uint8_t at[CV_GUEST_STATUS_BYTES_MAX])
{
    CV_ASSERT(member_count <= CV_CLUSTER_MEMBERS_MAX);
    memset(at, 0, CV_GUEST_STATUS_BYTES_MAX);
    at[0] = STATUS_VERSION;
    at[1] = (uint8_t)flags_of(s->has_joined, s->is_leading, s->has_majority);
    cv__bytes_put(at + 2, s->leader, 2);
    cv__bytes_put(at + 4, s->generation, 4);
    cv__bytes_put(at + 8, s->token, 8);
    cv__bytes_put(at + 16, (uint64_t)s->left_ns, 8);
    cv__bytes_put(at + 24, s->life, 8);
    memcpy(at + 32, s->version, sizeof s->version);
    for (uint32_t i = 0; i < member_count; i++) {
        uint8_t *to = at + STATUS_HEAD_BYTES + i * LINK_BYTES;
        const struct cv_guest_link *link = &s->link[i];
        to[0] = (uint8_t)flags_of(link->is_heard, link->differs, false);
        cv__bytes_put(to + 1, (uint64_t)link->ago_ns, 8);
        cv__bytes_put(to + 9, (uint64_t)link->delay_ns, 8);
        cv__bytes_put(to + 17, (uint64_t)link->round_ns, 8);
        cv__bytes_put(to + 25, link->received, 4);
        cv__bytes_put(to + 29, link->lost, 4);
        cv__bytes_put(to + 33, (uint64_t)link->drift_ppb, 8);
    }
    return STATUS_HEAD_BYTES + (size_t)member_count * LINK_BYTES;
}

bool cv__guest_decode(const uint8_t *at, size_t byte_count, uint32_t member_count,
                      struct cv_guest_status *s)
{
    if (byte_count != STATUS_HEAD_BYTES + (size_t)member_count * LINK_BYTES ||
        at[0] != STATUS_VERSION || cv__bytes_get(at + 2, 2) > member_count) {
        return false;
    }
    *s = (struct cv_guest_status){
        .has_answered = true,
        .has_joined = (at[1] & 1) != 0,
        .is_leading = (at[1] & 2) != 0,
        .has_majority = (at[1] & 4) != 0,
        .leader = (cv_id)cv__bytes_get(at + 2, 2),
        .generation = (uint32_t)cv__bytes_get(at + 4, 4),
        .token = cv__bytes_get(at + 8, 8),
        .left_ns = (int64_t)cv__bytes_get(at + 16, 8),
        .life = cv__bytes_get(at + 24, 8),
    };
    memcpy(s->version, at + 32, sizeof s->version - 1);
    for (uint32_t i = 0; i < member_count; i++) {
        const uint8_t *from = at + STATUS_HEAD_BYTES + i * LINK_BYTES;
        s->link[i] = (struct cv_guest_link){
            .is_heard = (from[0] & 1) != 0,
            .differs = (from[0] & 2) != 0,
            .ago_ns = (int64_t)cv__bytes_get(from + 1, 8),
            .delay_ns = (int64_t)cv__bytes_get(from + 9, 8),
            .round_ns = (int64_t)cv__bytes_get(from + 17, 8),
            .received = (uint32_t)cv__bytes_get(from + 25, 4),
            .lost = (uint32_t)cv__bytes_get(from + 29, 4),
            .drift_ppb = (int64_t)cv__bytes_get(from + 33, 8),
        };
    }
    return true;
}

/* ---- The guest ------------------------------------------------------------------------------- */

static void send_frame(void *user, const struct cv_udp_address *to, const uint8_t *bytes,
                       size_t byte_count)
{
    const struct cv_guest *g = user;
    (void)cv__udp_send(g->fd, to, bytes, byte_count); /* if it is lost, we ask again */
}

static void take_item(void *user, const struct cv_peers_item *item)
{
    struct cv_guest *g = user;
    struct cv_guest_status status;
    if (item->kind != CV_ITEM_STATUS || item->from == CV_ID_NONE || g->status == NULL ||
        !cv__guest_decode(item->bytes, item->byte_count, g->cluster.member_count, &status)) {
        return;
    }
    g->answered += !g->status[item->from - 1].has_answered;
    g->status[item->from - 1] = status;
}

int cv__guest_open(const struct cv_cluster *cluster, const char *election,
                   struct cv_guest **ret_guest, struct cv_errtext *reterr)
{
    struct cv_guest *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    g->cluster = *cluster;
    g->fd = -1;
    struct cv_udp_address address[CV_CLUSTER_MEMBERS_MAX];
    int code = cv__reach_addresses(cluster, /* self= */ 1, address, reterr);
    if (code == CV_OK) {
        struct cv_udp_address any = {.bytes = address[0].bytes};
        any.any.sa_family = address[0].any.sa_family;
        code = cv__udp_open(&any, &g->fd, reterr);
    }
    if (code == CV_OK) {
        const struct cv_peers_setting setting = {.self = CV_ID_NONE,
                                                 .address = address,
                                                 .user = g,
                                                 .send = send_frame,
                                                 .take = take_item};
        code = cv__reach_frames(cluster, election, &setting, &g->peers, reterr);
    }
    if (code != CV_OK) {
        cv__guest_close(g);
        return code;
    }
    *ret_guest = g;
    return CV_OK;
}

void cv__guest_close(struct cv_guest *g)
{
    if (g == NULL) {
        return;
    }
    cv__peers_free(g->peers);
    if (g->fd >= 0) {
        (void)close(g->fd); /* a socket has nothing left to write */
    }
    free(g);
}

bool cv__guest_differs(const struct cv_guest *g, cv_id member, struct cv_peers_same *ret_said)
{
    const struct cv_peers_view view = cv__peers_view(g->peers, member);
    *ret_said = view.said;
    return view.differs;
}

/* Sends the item again to the members that it is for and that have not answered. */
static void ask_the_silent(struct cv_guest *g, const struct cv_peers_item *item)
{
    const int64_t now_ns = cv__clock_now_ns();
    for (cv_id id = 1; id <= g->cluster.member_count; id++) {
        const bool is_meant = item->from == CV_ID_NONE || item->from == id;
        if (is_meant && !g->status[id - 1].has_answered) {
            cv__peers_add(g->peers, id, item->kind, item->bytes, item->byte_count, now_ns);
        }
    }
    cv__peers_flush(g->peers, now_ns);
}

static void receive_all(struct cv_guest *g)
{
    static uint8_t bytes[CV_PEERS_FRAME_BYTES_MAX + 1];
    struct cv_udp_address from;
    size_t byte_count;
    while (cv__udp_receive(g->fd, &from, bytes, sizeof bytes, &byte_count)) {
        (void)cv__peers_receive(g->peers, &from, bytes, byte_count, cv__clock_now_ns());
    }
}

/* Sends the item to the member item->from, or to all. Waits for `wanted` answers, at most
 * wait_ns. */
static uint32_t converse(struct cv_guest *g, const struct cv_peers_item *item, uint32_t wanted,
                         int64_t wait_ns, struct cv_guest_status *status)
{
    const int64_t end_ns = cv__clock_now_ns() + wait_ns;
    int64_t asked_ns = 0;
    memset(status, 0, CV_CLUSTER_MEMBERS_MAX * sizeof *status);
    g->status = status;
    g->answered = 0;
    for (;;) {
        const int64_t now_ns = cv__clock_now_ns();
        if (g->answered >= wanted || now_ns >= end_ns) {
            break;
        }
        if (asked_ns == 0 || now_ns - asked_ns >= ASK_AGAIN_NS) {
            asked_ns = now_ns;
            ask_the_silent(g, item);
        }
        struct pollfd wait = {.fd = g->fd, .events = POLLIN};
        const int64_t next_ns = cv__min64(end_ns, asked_ns + ASK_AGAIN_NS);
        (void)poll(&wait, 1, (int)((next_ns - now_ns) / NS_PER_MS) + 1); /* EINTR: looks again */
        receive_all(g);
    }
    g->status = NULL;
    return g->answered;
}

uint32_t cv__guest_ask(struct cv_guest *g, int64_t wait_ns,
                       struct cv_guest_status status[CV_CLUSTER_MEMBERS_MAX])
{
    const struct cv_peers_item question = {.kind = CV_ITEM_QUESTION};
    return converse(g, &question, g->cluster.member_count, wait_ns, status);
}

bool cv__guest_report(struct cv_guest *g, cv_id member, enum cv_input input, int64_t value,
                      int64_t wait_ns)
{
    static struct cv_guest_status unused[CV_CLUSTER_MEMBERS_MAX];
    uint8_t bytes[CV_ITEM_REPORT_BYTES];
    bytes[0] = (uint8_t)input;
    cv__bytes_put(bytes + 1, (uint64_t)value, 8);
    const struct cv_peers_item report = {
        .kind = CV_ITEM_REPORT, .from = member, .bytes = bytes, .byte_count = sizeof bytes};
    return converse(g, &report, /* wanted= */ 1, wait_ns, unused) > 0;
}

void cv__guest_request_resign(struct cv_guest *g, cv_id leader, uint64_t token, cv_id heir)
{
    uint8_t bytes[CV_ITEM_RESIGN_BYTES];
    const int64_t now_ns = cv__clock_now_ns();
    cv__bytes_put(bytes, token, 8);
    cv__bytes_put(bytes + 8, heir, 2);
    cv__peers_add(g->peers, leader, CV_ITEM_RESIGN, bytes, sizeof bytes, now_ns);
    cv__peers_flush(g->peers, now_ns);
}

cv_id cv__guest_leader(const struct cv_guest_status *status, uint32_t member_count)
{
    cv_id leader = CV_ID_NONE;
    for (uint32_t i = 0; i < member_count; i++) {
        if (status[i].has_answered && status[i].is_leading &&
            (leader == CV_ID_NONE || status[i].token > status[leader - 1].token)) {
            leader = i + 1;
        }
    }
    return leader;
}
