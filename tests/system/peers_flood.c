/* tests/system/peers_flood.c - datagrams that a member of a cluster has to drop, many of them.
 *
 *   peers_flood FILE ELECTION AS TARGET KEY COUNT RATE
 *
 * Sends COUNT datagrams to member TARGET, at most RATE a second, of each kind in turn. It uses the
 * address of member AS, which must not run, and the cluster's key: that is the worst that somebody
 * else can do. KEY is the file of another key. Prints how many of each kind were sent. */
#include "core/types.h"
#include "os/clock.h"
#include "runtime/reach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH 64u /* datagrams, after which it looks at the clock */
#define PORT_NS_MAX (10 * NS_PER_S)

enum kind {
    KIND_VERSION,
    KIND_KEY,
    KIND_CLUSTER,
    KIND_GENERATION,
    KIND_REPLAYED,
    KIND_TRUNCATED,
    KIND_OVERSIZED,
    KIND_ADDRESS,
    KIND_COUNT
};

static const char *const kind_names[KIND_COUNT] = {
    "version", "key", "cluster", "generation", "replayed", "truncated", "oversized", "address",
};

/* One end of a cluster that this program pretends to be; its frames are kept, not sent. */
struct end {
    struct cv_peers *peers;
    uint8_t bytes[CV_PEERS_FRAME_BYTES_MAX];
    size_t byte_count;
};

struct flood {
    struct cv_udp_address address[CV_CLUSTER_MEMBERS_MAX];
    cv_id as, target;
    int fd, strange_fd; /* the socket of member AS; a socket of no member */
    struct end ours, key, cluster, generation;
    struct end repeated; /* always the same frame */
    uint64_t sent[KIND_COUNT];
};

static _Noreturn void fail(const char *why)
{
    (void)fprintf(stderr, "peers_flood: %s\n", why);
    exit(2);
}

static void caught(void *user, const struct cv_udp_address *to, const uint8_t *bytes,
                   size_t byte_count)
{
    struct end *end = user;
    (void)to;
    memcpy(end->bytes, bytes, byte_count);
    end->byte_count = byte_count;
}

static void take(void *user, const struct cv_peers_item *item)
{
    (void)user; /* it ignores all that it receives */
    (void)item;
}

static void open_end(struct end *end, const struct flood *f, const struct cv_cluster *cluster,
                     const char *election)
{
    struct cv_errtext why;
    const struct cv_peers_setting setting = {
        .self = f->as, .address = f->address, .user = end, .send = caught, .take = take};
    if (cv__reach_frames(cluster, election, &setting, &end->peers, &why) != CV_OK) {
        fail(why.text);
    }
}

/* The next frame of this end to the target, without an item. */
static void make_frame(struct end *end, cv_id target)
{
    end->byte_count = 0;
    cv__peers_greet(end->peers, target);
    cv__peers_flush(end->peers, cv__clock_now_ns());
    CV_ASSERT(end->byte_count > 0);
}

static const struct end *make(struct flood *f, enum kind kind, size_t *ret_byte_count)
{
    struct end *end = kind == KIND_KEY          ? &f->key
                      : kind == KIND_CLUSTER    ? &f->cluster
                      : kind == KIND_GENERATION ? &f->generation
                      : kind == KIND_REPLAYED   ? &f->repeated
                                                : &f->ours;
    if (kind != KIND_REPLAYED) {
        make_frame(end, f->target);
    }
    *ret_byte_count = kind == KIND_TRUNCATED   ? CV_FRAME_HEAD_BYTES
                      : kind == KIND_OVERSIZED ? CV_PEERS_FRAME_BYTES_MAX + 1
                                               : end->byte_count;
    if (kind == KIND_VERSION) {
        end->bytes[2]++;
    }
    return end;
}

static void send_one(struct flood *f, enum kind kind)
{
    static uint8_t bytes[CV_PEERS_FRAME_BYTES_MAX + 1];
    size_t byte_count;
    const struct end *end = make(f, kind, &byte_count);
    memcpy(bytes, end->bytes, end->byte_count);
    const int fd = kind == KIND_ADDRESS ? f->strange_fd : f->fd;
    f->sent[kind] += cv__udp_send(fd, &f->address[f->target - 1], bytes, byte_count);
}

static cv_id member_of(const struct cv_cluster *cluster, const char *name)
{
    const struct cv_cluster_member *m = cv__cluster_find(cluster, name);
    if (m == NULL) {
        fail("unknown member");
    }
    return m->id;
}

/* The witness of a dead member still has its address for some milliseconds. */
static int open_as(struct flood *f, struct cv_errtext *reterr)
{
    const int64_t until_ns = cv__clock_now_ns() + PORT_NS_MAX;
    int code = cv__udp_open(&f->address[f->as - 1], &f->fd, reterr);
    while (code == CV_E_INVALID && cv__clock_now_ns() < until_ns) {
        (void)poll(NULL, 0, /* timeout_ms= */ 5);
        code = cv__udp_open(&f->address[f->as - 1], &f->fd, reterr);
    }
    return code;
}

static void open_flood(struct flood *f, char **argument)
{
    static struct cv_cluster cluster, other;
    struct cv_errtext why;
    if (cv__cluster_read(argument[0], &cluster, &why) != CV_OK) {
        fail(why.text);
    }
    f->as = member_of(&cluster, argument[2]);
    f->target = member_of(&cluster, argument[3]);
    if (cv__reach_addresses(&cluster, f->as, f->address, &why) != CV_OK ||
        open_as(f, &why) != CV_OK) {
        fail(why.text);
    }
    struct cv_udp_address any = f->address[f->as - 1];
    any.v4.sin_port = 0;
    if (cv__udp_open(&any, &f->strange_fd, &why) != CV_OK) {
        fail(why.text);
    }
    open_end(&f->ours, f, &cluster, argument[1]);
    open_end(&f->repeated, f, &cluster, argument[1]);
    make_frame(&f->repeated, f->target);
    other = cluster;
    (void)snprintf(other.key, sizeof other.key, "%s", argument[4]);
    open_end(&f->key, f, &other, argument[1]);
    other = cluster;
    other.name[0] ^= 1;
    open_end(&f->cluster, f, &other, argument[1]);
    other = cluster;
    other.generation++;
    open_end(&f->generation, f, &other, argument[1]);
}

int main(int argc, char **argv)
{
    static struct flood f;
    if (argc != 8) {
        fail("FILE ELECTION AS TARGET KEY COUNT RATE");
    }
    open_flood(&f, argv + 1);
    const uint64_t count = strtoull(argv[6], NULL, 10), rate = strtoull(argv[7], NULL, 10);
    const int64_t began_ns = cv__clock_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        send_one(&f, i % KIND_COUNT);
        if (i % BATCH == 0) {
            const int64_t ahead_ns = began_ns + (int64_t)(i * NS_PER_S / rate) - cv__clock_now_ns();
            (void)poll(NULL, 0, ahead_ns > 0 ? (int)(ahead_ns / NS_PER_MS) : 0);
        }
    }
    const double seconds = (double)(cv__clock_now_ns() - began_ns) / NS_PER_S;
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        (void)printf("%s=%llu ", kind_names[kind], (unsigned long long)f.sent[kind]);
        cv__peers_free(kind == KIND_KEY          ? f.key.peers
                       : kind == KIND_CLUSTER    ? f.cluster.peers
                       : kind == KIND_GENERATION ? f.generation.peers
                       : kind == KIND_REPLAYED   ? f.repeated.peers
                       : kind == KIND_VERSION    ? f.ours.peers
                                                 : NULL);
    }
    (void)printf("rate=%.0f\n", (double)count / seconds);
    return 0;
}
