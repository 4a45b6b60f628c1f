/* src/lab/wan.c - an emulated wide-area network on one machine; see wan.h. */
#include "lab/wan.h"

#include "core/errors.h"
#include "os/clock.h"
#include "sim/rng.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <math.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAN_NETWORK 0x0a4d0000u /* 10.77.0.0/24 */
#define WAN_PACKET_BYTES 1600u  /* more than an interface's usual 1500 */
#define WAN_PACKETS_MAX 128u    /* in flight in one direction of a pair */
#define READS_MAX 64u           /* packets of one node before the clock is checked again */
#define SLACK_NS 1              /* the kernel's default of 50 us would add to delays */
#define IDLE_NS NS_PER_S

struct packet {
    int64_t due_ns;
    uint32_t byte_count;
    uint8_t bytes[WAN_PACKET_BYTES];
};

/* One direction of a pair: a ring of packets in the order of their departure. */
struct way {
    struct cv_wan_link link;
    uint32_t first, count;
    struct packet packet[WAN_PACKETS_MAX];
};

struct cv_wan {
    uint32_t node_count;
    int device[CV_WAN_NODES_MAX], name_space[CV_WAN_NODES_MAX];
    int control;  /* our end; -1: none */
    pid_t passer; /* the process that passes packets; 0: none */
    struct sim_rng rng;
    struct way *way; /* from * node_count + to */
};

/* A request on the control socket; the answer is one byte. */
struct request {
    uint32_t from, to;
    struct cv_wan_link link;
};

/* ---- The process that passes packets --------------------------------------------------------- */

static struct way *way_of(struct cv_wan *w, uint32_t from, uint32_t to)
{
    CV_ASSERT(from < w->node_count);
    CV_ASSERT(to < w->node_count);
    return &w->way[from * w->node_count + to];
}

/* Normally distributed: [Becker11, sec. 4.1] says only that there is jitter. */
static int64_t delay_of(struct cv_wan *w, const struct cv_wan_link *link)
{
    if (link->jitter_percent == 0) {
        return link->delay_ns;
    }
    const double u = (double)(sim_rng_next(&w->rng) >> 11) * 0x1p-53;
    const double v = (double)(sim_rng_next(&w->rng) >> 11) * 0x1p-53;
    const double normal = sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
    const double factor = 1 + normal * link->jitter_percent / 100;
    return factor > 0 ? (int64_t)((double)link->delay_ns * factor) : 0;
}

/* The node to which a packet is addressed; 0: none of ours. */
static uint32_t receiver_of(const struct cv_wan *w, const uint8_t *bytes, size_t byte_count)
{
    if (byte_count < 20 || bytes[0] >> 4 != 4) { /* not IPv4 */
        return 0;
    }
    const uint32_t to = (uint32_t)bytes[16] << 24 | (uint32_t)bytes[17] << 16 |
                        (uint32_t)bytes[18] << 8 | bytes[19];
    return to > WAN_NETWORK && to <= WAN_NETWORK + w->node_count ? to - WAN_NETWORK : 0;
}

static void take_in(struct cv_wan *w, uint32_t from, const uint8_t *bytes, size_t byte_count)
{
    const uint32_t to = receiver_of(w, bytes, byte_count);
    if (to == 0 || to - 1 == from) {
        return;
    }
    struct way *way = way_of(w, from, to - 1);
    if (way->link.is_cut || way->count == WAN_PACKETS_MAX ||
        sim_rng_next(&w->rng) % 100 < way->link.loss_percent) {
        return;
    }
    int64_t due_ns = cv__clock_now_ns() + delay_of(w, &way->link);
    if (way->count > 0) {
        const uint32_t last = (way->first + way->count - 1) % WAN_PACKETS_MAX;
        due_ns = cv__max64(due_ns, way->packet[last].due_ns);
    }
    struct packet *p = &way->packet[(way->first + way->count) % WAN_PACKETS_MAX];
    p->due_ns = due_ns;
    p->byte_count = (uint32_t)byte_count;
    memcpy(p->bytes, bytes, byte_count);
    way->count++;
}

/* Passes on the packets that are due; returns the next instant at which one is. */
static int64_t pass_on(struct cv_wan *w, int64_t now_ns)
{
    int64_t next_ns = now_ns + IDLE_NS;
    for (uint32_t i = 0; i < w->node_count * w->node_count; i++) {
        struct way *way = &w->way[i];
        while (way->count > 0 && way->packet[way->first].due_ns <= now_ns) {
            const struct packet *p = &way->packet[way->first];
            if (!way->link.is_cut &&
                write(w->device[i % w->node_count], p->bytes, p->byte_count) < 0) {
                /* the node's queue is full: lost, as in a router */
            }
            way->first = (way->first + 1) % WAN_PACKETS_MAX;
            way->count--;
        }
        if (way->count > 0) {
            next_ns = cv__min64(next_ns, way->packet[way->first].due_ns);
        }
    }
    return next_ns;
}

static void read_node(struct cv_wan *w, uint32_t node)
{
    uint8_t bytes[WAN_PACKET_BYTES];
    for (uint32_t i = 0; i < READS_MAX; i++) {
        const ssize_t count = read(w->device[node], bytes, sizeof bytes);
        if (count <= 0) {
            break;
        }
        take_in(w, node, bytes, (size_t)count);
    }
}

static void pass_packets(struct cv_wan *w, int control)
{
    struct pollfd waits[CV_WAN_NODES_MAX + 1];
    for (uint32_t i = 0; i < w->node_count; i++) {
        waits[i] = (struct pollfd){.fd = w->device[i], .events = POLLIN};
    }
    waits[w->node_count] = (struct pollfd){.fd = control, .events = POLLIN};
    for (;;) {
        const int64_t now_ns = cv__clock_now_ns();
        const int64_t left_ns = cv__max64(pass_on(w, now_ns) - cv__clock_now_ns(), 0);
        const struct timespec wait = {left_ns / NS_PER_S, left_ns % NS_PER_S};
        (void)ppoll(waits, w->node_count + 1, &wait, NULL); /* EINTR: the loop goes on */
        for (uint32_t i = 0; i < w->node_count; i++) {
            if (waits[i].revents != 0) {
                read_node(w, i);
            }
        }
        if (waits[w->node_count].revents != 0) {
            struct request r;
            if (recv(control, &r, sizeof r, 0) != (ssize_t)sizeof r) {
                return; /* the owner is gone */
            }
            way_of(w, r.from, r.to)->link = r.link;
            (void)send(control, "", 1, MSG_NOSIGNAL);
        }
    }
}

/* ---- Namespaces and devices ------------------------------------------------------------------ */

void cv__wan_address(uint32_t node, char ret_address[CV_WAN_ADDRESS_BYTES])
{
    CV_ASSERT(node >= 1);
    CV_ASSERT(node <= CV_WAN_NODES_MAX);
    const struct in_addr address = {.s_addr = htonl(WAN_NETWORK + node)};
    (void)inet_ntop(AF_INET, &address, ret_address, CV_WAN_ADDRESS_BYTES); /* it fits */
}

static bool set_address(int fd, struct ifreq *request, unsigned long what, uint32_t address)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(address)}};
    memcpy(&request->ifr_addr, &in, sizeof in);
    return ioctl(fd, what, request) == 0;
}

/* Makes the device of a node in the namespace of this thread; -1: failed. */
static int make_device(uint32_t node)
{
    struct ifreq r = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    (void)snprintf(r.ifr_name, sizeof r.ifr_name, "wan0");
    const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_fine = device >= 0 && fd >= 0 && ioctl(device, TUNSETIFF, &r) == 0 &&
                   set_address(fd, &r, SIOCSIFADDR, WAN_NETWORK + node) &&
                   set_address(fd, &r, SIOCSIFNETMASK, 0xffffff00u);
    if (is_fine) {
        r.ifr_flags = IFF_UP | IFF_RUNNING;
        is_fine = ioctl(fd, SIOCSIFFLAGS, &r) == 0;
        (void)snprintf(r.ifr_name, sizeof r.ifr_name, "lo");
        r.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
        is_fine = is_fine && ioctl(fd, SIOCSIFFLAGS, &r) == 0;
    }
    const int code = errno;
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    if (!is_fine && device >= 0) {
        (void)close(device);
    }
    errno = code;
    return is_fine ? device : -1;
}

static int make_nodes(struct cv_wan *w, struct cv_errtext *reterr)
{
    const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (home < 0) {
        return cv__fail(reterr, CV_E_IO, "cannot open this process's network namespace: %s",
                        strerror(errno));
    }
    int code = CV_OK;
    bool is_away = false;
    for (uint32_t i = 0; i < w->node_count && code == CV_OK; i++) {
        if (unshare(CLONE_NEWNET) != 0) {
            code = cv__fail(reterr, CV_E_IO, "cannot make a network namespace: %s (needs root)",
                            strerror(errno));
            break;
        }
        is_away = true;
        w->name_space[i] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        w->device[i] = make_device(i + 1);
        if (w->name_space[i] < 0 || w->device[i] < 0) {
            code = cv__fail(reterr, CV_E_IO, "cannot make a network device: %s", strerror(errno));
        }
    }
    if (is_away && setns(home, CLONE_NEWNET) != 0 && code == CV_OK) {
        code =
            cv__fail(reterr, CV_E_IO, "cannot return to the host's network: %s", strerror(errno));
    }
    (void)close(home); /* was only read */
    return code;
}

static int start_passing(struct cv_wan *w, struct cv_errtext *reterr)
{
    int end[2];
    const pid_t owner = getpid();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end) != 0) {
        return cv__fail(reterr, CV_E_IO, "cannot make a socket: %s", strerror(errno));
    }
    w->control = end[0];
    w->passer = fork();
    if (w->passer == 0) {
        (void)close(end[0]); /* so that the socket closes when the owner dies */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_TIMERSLACK, SLACK_NS);
        if (getppid() == owner) {
            pass_packets(w, end[1]);
        }
        _exit(0);
    }
    (void)close(end[1]); /* the other process has it */
    if (w->passer < 0) {
        w->passer = 0;
        return cv__fail(reterr, CV_E_IO, "cannot start a process: %s", strerror(errno));
    }
    return CV_OK;
}

int cv__wan_open(uint32_t node_count, struct cv_wan **ret_wan, struct cv_errtext *reterr)
{
    CV_ASSERT(node_count >= 1);
    CV_ASSERT(node_count <= CV_WAN_NODES_MAX);
    struct cv_wan *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    w->node_count = node_count;
    w->control = -1;
    sim_rng_init(&w->rng, /* seed= */ 1, /* stream= */ 0);
    for (uint32_t i = 0; i < node_count; i++) {
        w->device[i] = w->name_space[i] = -1;
    }
    w->way = calloc((size_t)node_count * node_count, sizeof w->way[0]);
    int code = w->way != NULL ? make_nodes(w, reterr)
                              : cv__fail(reterr, CV_E_MEMORY, "no memory for packets in flight");
    if (code == CV_OK) {
        code = start_passing(w, reterr);
    }
    if (code != CV_OK) {
        cv__wan_close(w);
        return code;
    }
    *ret_wan = w;
    return CV_OK;
}

void cv__wan_close(struct cv_wan *w)
{
    if (w == NULL) {
        return;
    }
    if (w->passer > 0) {
        (void)kill(w->passer, SIGKILL); /* our child; not reaped yet, so the pid is its own */
        (void)waitpid(w->passer, NULL, 0);
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->device[i] >= 0) {
            (void)close(w->device[i]);
        }
        if (w->name_space[i] >= 0) {
            (void)close(w->name_space[i]);
        }
    }
    if (w->control >= 0) {
        (void)close(w->control);
    }
    free(w->way);
    free(w);
}

bool cv__wan_set(struct cv_wan *w, uint32_t from, uint32_t to, const struct cv_wan_link *link)
{
    CV_ASSERT(from >= 1);
    CV_ASSERT(from <= w->node_count);
    CV_ASSERT(to >= 1);
    CV_ASSERT(to <= w->node_count);
    struct request r;
    memset(&r, 0, sizeof r); /* the padding is sent, too */
    r.from = from - 1;
    r.to = to - 1;
    r.link = *link;
    char done;
    return send(w->control, &r, sizeof r, MSG_NOSIGNAL) == (ssize_t)sizeof r &&
           recv(w->control, &done, 1, 0) == 1;
}

int cv__wan_namespace(const struct cv_wan *w, uint32_t node)
{
    CV_ASSERT(node >= 1);
    CV_ASSERT(node <= w->node_count);
    return w->name_space[node - 1];
}
