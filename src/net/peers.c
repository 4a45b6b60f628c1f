/* src/net/peers.c - frames with stamps and items between the members of a cluster; see peers.h. */
#include "net/peers.h"

#include "core/bytes.h"
#include "core/errors.h"
#include "core/types.h"
#include "net/drift.h"

#include <stdlib.h>
#include <string.h>

#define ROUND_SHARE 8 /* a new round trip counts for this part of the mean */

struct peer {
    struct cv_udp_address address;
    uint64_t life;         /* it has named ours; 0: none has yet */
    uint64_t old_life;     /* the one before: its frames come too late */
    uint64_t guessed_life; /* of a frame that did not; used until a life is known */
    uint64_t greet_life;   /* what the next greeting answers; 0: nothing special */
    struct cv_echo echo;
    struct cv_drift drift;
    uint64_t drift_boot; /* of the clock that it compares ours with */
    struct cv_peers_view view;
    uint32_t first_number, largest_number; /* of its frames to us, in this life of it */
    uint32_t number;                       /* of our frames to it */
    bool must_greet;
    size_t item_bytes; /* of the next frame */
    uint8_t item[CV_PEERS_PAYLOAD_BYTES];
};

struct cv_peers {
    struct cv_peers_setting setting; /* its keys, channel and addresses are not used any more */
    struct cv_frames *frames;
    uint64_t life;
    uint64_t lives; /* how many lives of peers were ever known */
    uint64_t count[CV_PEERS_FATE_COUNT];
    uint8_t payload[CV_PEERS_FRAME_BYTES_MAX], sealed[CV_PEERS_FRAME_BYTES_MAX];
    struct peer peer[]; /* of member i + 1 */
};

/* The head of a payload, decoded. */
struct head {
    cv_id from, to;
    struct cv_peers_same same;
    uint32_t number;
    uint64_t to_life;
    struct cv_stamp stamp;
};

static const char *const fate_names[] = {
#define FATE_NAME(name, text) [CV_PEERS_##name] = text,
    CV_PEERS_FATE_MAP(FATE_NAME)
#undef FATE_NAME
};

const char *cv__peers_fate_name(enum cv_peers_fate fate)
{
    CV_ASSERT(fate < CV_PEERS_FATE_COUNT);
    return fate_names[fate];
}

static struct peer *peer_of(struct cv_peers *p, cv_id id)
{
    CV_ASSERT(id >= 1);
    CV_ASSERT(id <= p->setting.member_count);
    CV_ASSERT(id != p->setting.self);
    return &p->peer[id - 1];
}

static uint64_t life_of(const uint8_t *sender)
{
    return cv__bytes_get(sender, 8) | 1; /* 0 means none */
}

int cv__peers_new(const struct cv_peers_setting *setting, struct cv_peers **ret_peers,
                  struct cv_errtext *reterr)
{
    CV_ASSERT(setting->self <= setting->member_count);
    struct cv_peers *p = calloc(1, sizeof *p + (size_t)setting->member_count * sizeof p->peer[0]);
    if (p == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory for %u members", setting->member_count);
    }
    const int code = cv__frames_new(setting->channel, setting->key, &p->frames, reterr);
    if (code != CV_OK) {
        free(p);
        return code;
    }
    if (setting->next_key != NULL) {
        cv__frames_accept(p->frames, setting->next_key);
    }
    p->setting = *setting;
    p->life = life_of(cv__frames_self(p->frames));
    for (uint32_t i = 0; i < setting->member_count; i++) {
        p->peer[i].address = setting->address[i];
        p->peer[i].view.delay_ns = CV_DELAY_UNKNOWN;
    }
    *ret_peers = p;
    return CV_OK;
}

void cv__peers_free(struct cv_peers *p)
{
    if (p != NULL) {
        cv__frames_free(p->frames);
        free(p);
    }
}

/* ---- Sending --------------------------------------------------------------------------------- */

static void put_head(uint8_t at[CV_PEERS_HEAD_BYTES], const struct head *h)
{
    cv__bytes_put(at, h->from, 2);
    cv__bytes_put(at + 2, h->to, 2);
    cv__bytes_put(at + 4, h->same.generation, 4);
    cv__bytes_put(at + 8, h->same.protocol, 4);
    cv__bytes_put(at + 12, h->same.options, 4);
    cv__bytes_put(at + 16, h->same.members, 4);
    cv__bytes_put(at + 20, h->number, 4);
    cv__bytes_put(at + 24, h->to_life, 8);
    cv__bytes_put(at + 32, h->stamp.boot, 8);
    cv__bytes_put(at + 40, (uint64_t)h->stamp.sent_ns, 8);
    cv__bytes_put(at + 48, (uint64_t)h->stamp.echo.peer_sent_ns, 8);
    cv__bytes_put(at + 56, (uint64_t)h->stamp.echo.received_ns, 8);
    cv__bytes_put(at + 64, h->stamp.echo.peer_boot, 8);
}

static struct head get_head(const uint8_t at[CV_PEERS_HEAD_BYTES])
{
    return (struct head){
        .from = (cv_id)cv__bytes_get(at, 2),
        .to = (cv_id)cv__bytes_get(at + 2, 2),
        .same = {.generation = (uint32_t)cv__bytes_get(at + 4, 4),
                 .protocol = (uint32_t)cv__bytes_get(at + 8, 4),
                 .options = (uint32_t)cv__bytes_get(at + 12, 4),
                 .members = (uint32_t)cv__bytes_get(at + 16, 4)},
        .number = (uint32_t)cv__bytes_get(at + 20, 4),
        .to_life = cv__bytes_get(at + 24, 8),
        .stamp = {.boot = cv__bytes_get(at + 32, 8),
                  .sent_ns = (int64_t)cv__bytes_get(at + 40, 8),
                  .echo = {.peer_sent_ns = (int64_t)cv__bytes_get(at + 48, 8),
                           .received_ns = (int64_t)cv__bytes_get(at + 56, 8),
                           .peer_boot = cv__bytes_get(at + 64, 8)}},
    };
}

/* A payload whose items are in place behind the head. */
static void send_payload(struct cv_peers *p, const struct head *head,
                         const struct cv_udp_address *to, size_t item_bytes)
{
    CV_ASSERT(CV_PEERS_HEAD_BYTES + item_bytes + CV_FRAME_EXTRA_BYTES <= sizeof p->sealed);
    put_head(p->payload, head);
    const size_t byte_count =
        cv__frame_seal(p->frames, p->payload, CV_PEERS_HEAD_BYTES + item_bytes, p->sealed);
    p->setting.send(p->setting.user, to, p->sealed, byte_count);
}

static struct head new_head(const struct cv_peers *p, cv_id to, uint64_t to_life, int64_t now_ns)
{
    return (struct head){
        .from = p->setting.self,
        .to = to,
        .same = p->setting.same,
        .to_life = to_life,
        .stamp = {.boot = p->setting.boot, .sent_ns = now_ns},
    };
}

static void send_to(struct cv_peers *p, cv_id to, uint64_t to_life, size_t item_bytes,
                    int64_t now_ns)
{
    struct peer *peer = peer_of(p, to);
    struct head head = new_head(p, to, to_life, now_ns);
    head.number = ++peer->number;
    head.stamp.echo = peer->echo;
    send_payload(p, &head, &peer->address, item_bytes);
    peer->view.sent_ns = now_ns;
}

size_t cv__peers_put_item(uint8_t *at, uint32_t kind, const uint8_t *bytes, size_t byte_count)
{
    CV_ASSERT(kind > 0);
    CV_ASSERT(kind <= UINT8_MAX);
    CV_ASSERT(byte_count <= CV_PEERS_ITEM_BYTES_MAX);
    at[0] = (uint8_t)kind;
    cv__bytes_put(at + 1, byte_count, 2);
    if (byte_count > 0) {
        memcpy(at + CV_PEERS_ITEM_BYTES, bytes, byte_count);
    }
    return CV_PEERS_ITEM_BYTES + byte_count;
}

static void flush_one(struct cv_peers *p, cv_id to, int64_t now_ns)
{
    struct peer *peer = peer_of(p, to);
    if (peer->must_greet && peer->greet_life != 0 && peer->greet_life != peer->life) {
        /* It did not know our life, and we may not know its current one. */
        send_to(p, to, peer->greet_life, 0, now_ns);
        peer->must_greet = false;
    }
    peer->greet_life = 0;
    if (peer->item_bytes > 0 || peer->must_greet) {
        memcpy(p->payload + CV_PEERS_HEAD_BYTES, peer->item, peer->item_bytes);
        const size_t item_bytes = peer->item_bytes;
        peer->item_bytes = 0;
        peer->must_greet = false;
        send_to(p, to, peer->life != 0 ? peer->life : peer->guessed_life, item_bytes, now_ns);
    }
}

void cv__peers_add(struct cv_peers *p, cv_id to, uint32_t kind, const uint8_t *bytes,
                   size_t byte_count, int64_t now_ns)
{
    struct peer *peer = peer_of(p, to);
    const size_t needed = CV_PEERS_ITEM_BYTES + byte_count;
    if (peer->item_bytes + needed > sizeof peer->item) {
        flush_one(p, to, now_ns);
    }
    if (needed > sizeof peer->item) {
        (void)cv__peers_put_item(p->payload + CV_PEERS_HEAD_BYTES, kind, bytes, byte_count);
        send_to(p, to, peer->life != 0 ? peer->life : peer->guessed_life, needed, now_ns);
        return;
    }
    peer->item_bytes += cv__peers_put_item(peer->item + peer->item_bytes, kind, bytes, byte_count);
}

void cv__peers_greet(struct cv_peers *p, cv_id to)
{
    peer_of(p, to)->must_greet = true;
}

bool cv__peers_has_items(const struct cv_peers *p)
{
    bool has_items = false;
    for (uint32_t i = 0; i < p->setting.member_count; i++) {
        has_items = has_items || p->peer[i].item_bytes > 0;
    }
    return has_items;
}

void cv__peers_flush(struct cv_peers *p, int64_t now_ns)
{
    for (cv_id id = 1; id <= p->setting.member_count; id++) {
        if (id != p->setting.self) {
            flush_one(p, id, now_ns);
        }
    }
}

void cv__peers_answer(struct cv_peers *p, const struct cv_peers_item *question, uint32_t kind,
                      const uint8_t *bytes, size_t byte_count, int64_t now_ns)
{
    CV_ASSERT(question->from == CV_ID_NONE);
    const struct head head = new_head(p, CV_ID_NONE, question->life, now_ns);
    const size_t item_bytes =
        cv__peers_put_item(p->payload + CV_PEERS_HEAD_BYTES, kind, bytes, byte_count);
    send_payload(p, &head, question->source, item_bytes);
}

/* It has no echo, so nobody computes a delay from a stamp that is old when it is sent. */
size_t cv__peers_seal_last(struct cv_peers *p, cv_id to, const uint8_t *items, size_t item_bytes,
                           int64_t now_ns, uint8_t ret_bytes[CV_PEERS_FRAME_BYTES_MAX])
{
    const struct peer *peer = peer_of(p, to);
    CV_ASSERT(CV_PEERS_HEAD_BYTES + item_bytes + CV_FRAME_EXTRA_BYTES <= CV_PEERS_FRAME_BYTES_MAX);
    if (peer->life == 0) {
        return 0;
    }
    struct head head = new_head(p, to, peer->life, now_ns);
    head.number = peer->number + 1;
    put_head(p->payload, &head);
    memcpy(p->payload + CV_PEERS_HEAD_BYTES, items, item_bytes);
    return cv__frame_seal_last(p->frames, p->payload, CV_PEERS_HEAD_BYTES + item_bytes, ret_bytes);
}

/* ---- Receiving ------------------------------------------------------------------------------- */

static bool is_same(const struct cv_peers_same *a, const struct cv_peers_same *b)
{
    return a->generation == b->generation && a->protocol == b->protocol &&
           a->options == b->options && a->members == b->members;
}

/* Gives every item to the owner. False: their lengths do not fit the frame, and none was given. The
 * bytes must not be those of p->payload, which an answer overwrites. */
static bool take_items(struct cv_peers *p, struct cv_peers_item item, const uint8_t *bytes,
                       size_t byte_count)
{
    for (size_t at = 0; at < byte_count;) {
        if (byte_count - at < CV_PEERS_ITEM_BYTES || bytes[at] == 0) {
            return false;
        }
        const size_t length = (size_t)cv__bytes_get(bytes + at + 1, 2);
        if (length > byte_count - at - CV_PEERS_ITEM_BYTES) {
            return false;
        }
        at += CV_PEERS_ITEM_BYTES + length;
    }
    for (size_t at = 0; at < byte_count;) {
        item.kind = bytes[at];
        item.byte_count = (size_t)cv__bytes_get(bytes + at + 1, 2);
        item.bytes = bytes + at + CV_PEERS_ITEM_BYTES;
        p->setting.take(p->setting.user, &item);
        at += CV_PEERS_ITEM_BYTES + item.byte_count;
    }
    return true;
}

/* It has named our current life, so the frame is new: what it says of itself is up to date. */
static void learn(struct cv_peers *p, cv_id from, const struct head *h, uint64_t life,
                  int64_t now_ns)
{
    struct peer *peer = peer_of(p, from);
    if (peer->life != life) {
        peer->old_life = peer->life;
        peer->life = life;
        p->lives++;
        peer->first_number = h->number;
        peer->largest_number = h->number - 1;
        peer->view.received = 0;
        peer->must_greet = true; /* so that it learns that we know its life */
    }
    peer->largest_number = h->number > peer->largest_number ? h->number : peer->largest_number;
    peer->view.life = life;
    peer->view.heard_before_ns = peer->view.heard_ns;
    peer->view.heard_ns = now_ns;
    peer->view.received++;
    const uint64_t sent = (uint64_t)peer->largest_number - peer->first_number + 1;
    peer->view.lost = sent > peer->view.received ? sent - peer->view.received : 0;
    peer->view.delay_ns =
        cv__delay_bound(&h->stamp, p->setting.boot, now_ns, p->setting.drift_ppb, 0);
    if (peer->view.delay_ns != CV_DELAY_UNKNOWN) {
        const int64_t round_ns =
            now_ns - h->stamp.echo.peer_sent_ns - (h->stamp.sent_ns - h->stamp.echo.received_ns);
        peer->view.round_ns +=
            peer->view.round_ns == 0 ? round_ns : (round_ns - peer->view.round_ns) / ROUND_SHARE;
        if (peer->drift_boot != h->stamp.boot) {
            peer->drift = (struct cv_drift){0};
            peer->drift_boot = h->stamp.boot;
        }
        cv__drift_add(&peer->drift, now_ns, h->stamp.sent_ns, round_ns);
    }
    cv__echo_update(&peer->echo, &h->stamp, now_ns, p->setting.drift_ppb);
}

static enum cv_peers_fate from_member(struct cv_peers *p, const struct head *h,
                                      struct cv_peers_item *item, const uint8_t *bytes,
                                      size_t byte_count, int64_t now_ns)
{
    struct peer *peer = peer_of(p, h->from);
    if (!cv__udp_equal(item->source, &peer->address)) {
        return CV_PEERS_ADDRESS;
    }
    peer->view.said = h->same;
    peer->view.differs = !is_same(&h->same, &p->setting.same);
    if (h->same.generation != p->setting.same.generation) {
        return CV_PEERS_GENERATION;
    }
    if (peer->view.differs) {
        return CV_PEERS_SETTINGS;
    }
    if (peer->old_life != 0 && item->life == peer->old_life) {
        return CV_PEERS_GREETING;
    }
    if (h->to_life != p->life) {
        peer->guessed_life = item->life;
        peer->greet_life = item->life;
        peer->must_greet = true;
        return CV_PEERS_GREETING;
    }
    learn(p, h->from, h, item->life, now_ns);
    item->delay_ns_max = peer->view.delay_ns;
    return take_items(p, *item, bytes, byte_count) ? CV_PEERS_ACCEPTED : CV_PEERS_MALFORMED;
}

/* A guest asks, or a member answers a guest: neither has a session. */
static enum cv_peers_fate with_guest(struct cv_peers *p, const struct head *h,
                                     const struct cv_peers_item *item, const uint8_t *bytes,
                                     size_t byte_count)
{
    if (h->to == CV_ID_NONE) {
        if (h->to_life != p->life) {
            return CV_PEERS_GREETING; /* the answer to another question */
        }
        struct peer *peer = peer_of(p, h->from);
        peer->view.said = h->same;
        peer->view.differs = !is_same(&h->same, &p->setting.same);
    }
    return take_items(p, *item, bytes, byte_count) ? CV_PEERS_ACCEPTED : CV_PEERS_MALFORMED;
}

static enum cv_peers_fate receive(struct cv_peers *p, const struct cv_udp_address *from,
                                  const uint8_t *bytes, size_t byte_count, int64_t now_ns)
{
    uint8_t payload[CV_PEERS_FRAME_BYTES_MAX];
    size_t payload_bytes;
    if (byte_count > CV_PEERS_FRAME_BYTES_MAX) {
        return CV_PEERS_OVERSIZED;
    }
    if (cv__frame_open(p->frames, bytes, byte_count, payload, &payload_bytes) !=
        CV_FRAME_ACCEPTED) {
        return CV_PEERS_FRAME;
    }
    if (payload_bytes < CV_PEERS_HEAD_BYTES) {
        return CV_PEERS_MALFORMED;
    }
    const struct head h = get_head(payload);
    struct cv_peers_item item = {.from = h.from,
                                 .source = from,
                                 .life = life_of(cv__frame_sender(bytes)),
                                 .delay_ns_max = CV_DELAY_UNKNOWN};
    const uint8_t *items = payload + CV_PEERS_HEAD_BYTES;
    const size_t item_bytes = payload_bytes - CV_PEERS_HEAD_BYTES;
    if (h.from > p->setting.member_count || h.to != p->setting.self || h.from == h.to) {
        return CV_PEERS_MEMBER;
    }
    if (h.from == CV_ID_NONE || h.to == CV_ID_NONE) {
        return with_guest(p, &h, &item, items, item_bytes);
    }
    return from_member(p, &h, &item, items, item_bytes, now_ns);
}

enum cv_peers_fate cv__peers_receive(struct cv_peers *p, const struct cv_udp_address *from,
                                     const uint8_t *bytes, size_t byte_count, int64_t now_ns)
{
    const enum cv_peers_fate fate = receive(p, from, bytes, byte_count, now_ns);
    p->count[fate]++;
    return fate;
}

/* ---- What can be asked ----------------------------------------------------------------------- */

struct cv_peers_view cv__peers_view(const struct cv_peers *p, cv_id id)
{
    CV_ASSERT(id >= 1);
    CV_ASSERT(id <= p->setting.member_count);
    struct cv_peers_view view = p->peer[id - 1].view;
    view.drift_ppb = cv__drift_ppb(&p->peer[id - 1].drift);
    return view;
}

uint64_t cv__peers_life(const struct cv_peers *p)
{
    return p->life;
}

uint64_t cv__peers_lives(const struct cv_peers *p)
{
    return p->lives;
}

const struct cv_udp_address *cv__peers_address(const struct cv_peers *p, cv_id id)
{
    CV_ASSERT(id >= 1);
    CV_ASSERT(id <= p->setting.member_count);
    return &p->peer[id - 1].address;
}

uint64_t cv__peers_count(const struct cv_peers *p, enum cv_peers_fate fate)
{
    CV_ASSERT(fate < CV_PEERS_FATE_COUNT);
    return p->count[fate];
}

const struct cv_frames *cv__peers_frames(const struct cv_peers *p)
{
    return p->frames;
}
