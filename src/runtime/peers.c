/* src/runtime/peers.c - one member of a cluster; see peers.h. */
#include "runtime/peers.h"

#include "core/bytes.h"
#include "core/duration.h"
#include "core/errors.h"
#include "core/types.h"
#include "os/clock.h"
#include "os/realtime.h"
#include "runtime/farewell.h"
#include "runtime/guest.h"
#include "runtime/joining.h"
#include "runtime/port.h"
#include "runtime/reach.h"
#include "runtime/slots.h"

#include <conclave/conclave.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOINING_MS 50u /* between two questions of a member that joins */
#define WAIT_SHARE 50  /* waiting is longer than needed by this part: clocks drift */
#define SILENCE_NS_MAX (2 * NS_PER_S)
#define GREETING_MS 250u /* between two greetings of a peer that does not answer; or ... */
#define EARLY_MS 200u    /* ... so long, if there is something else to do */

#define MEMORY_BYTES 17u
#define STATE_SUFFIX "state"
#define LOCK_BYTES (sizeof ".lock" - 1)

/* Invariant: parts that are not there are NULL or negative, so that a half-built one can be
 * closed. */
struct cv_peering {
    struct cv_peering_setting setting; /* loop, shared, timers, told; the rest is not used */
    struct cv_cluster cluster;
    cv_id self;
    bool is_candidate;
    struct cv_port *port;
    struct cv_port_user port_user;
    struct cv_peers *peers;
    struct cv_slots *slots;
    struct cv_host *host;
    struct cv_farewell farewell;
    bool is_taking_part;    /* the core was started */
    bool is_joining;        /* it has no state: see joining.h */
    bool others_have_state; /* one of them has said so */
    int64_t bound_ns;       /* so long after its start no promise of an earlier life binds it */
    int64_t bound_until_ns; /* by a promise of an earlier generation; 0: none */
    struct cv_joining joining;
    struct cv_joining_answer answer[CV_CLUSTER_MEMBERS_MAX];
    uint64_t dead[CV_CLUSTER_MEMBERS_MAX]; /* the life that its witness said is over; 0: none */
    struct cv_leadership leadership;       /* the latest that was told; its list is not kept */
    int64_t reported[CV_INPUT_COUNT];      /* before it takes part: the core hears of it then */
    uint32_t has_reported;                 /* bit i: of input i */

    uv_check_t turn;
    uv_timer_t tick;
    uint32_t handle_count, closing_count; /* of the two above; of all parts */
    uint64_t looked_ms;                   /* when it looked around last, by the loop's clock */
    uint32_t told_fates;                  /* bit f: a datagram of that fate was reported */
    struct cv_peers_same told_same[CV_CLUSTER_MEMBERS_MAX]; /* what was logged about each member */
    char told_trouble[CV_ERRTEXT_BYTES];
    bool is_closing;
    void (*closed)(void *data);
    void *closed_data;
};

static void say(struct cv_peering *p, const char *line)
{
    p->setting.told.log(p->setting.told.self, line);
}

/* Why it does not take part, or no longer does; the same line is not told twice. */
static void tell_trouble(struct cv_peering *p, const char *line)
{
    if (strcmp(line, p->told_trouble) != 0) {
        (void)snprintf(p->told_trouble, sizeof p->told_trouble, "%s", line);
        p->setting.told.trouble(p->setting.told.self, p->told_trouble);
    }
}

static uint64_t base_of(const struct cv_cluster *cluster)
{
    return (uint64_t)(cluster->generation - 1) << CV_CLUSTER_TOKEN_BITS;
}

/* No promise of a core with this configuration binds for longer. */
static int64_t promise_ns(const struct cv_cluster *c)
{
    const int64_t lease_ns = c->protocol->lease_ns != NULL ? c->protocol->lease_ns(&c->config) : 0;
    return cv__max64(lease_ns, c->protocol->settle_ns(&c->config));
}

/* ---- The network ----------------------------------------------------------------------------- */

/* Reports a member with another file, once for each file that it uses. */
static void say_differs(struct cv_peering *p, cv_id id)
{
    const struct cv_peers_view view = cv__peers_view(p->peers, id);
    char what[CV_ERRTEXT_BYTES], line[CV_ERRTEXT_BYTES + 40];
    if (memcmp(&p->told_same[id - 1], &view.said, sizeof view.said) == 0) {
        return;
    }
    const struct cv_peers_same ours = cv__reach_same(&p->cluster);
    p->told_same[id - 1] = view.said;
    (void)snprintf(
        line, sizeof line, "%s: they do not hear each other",
        cv__reach_difference(p->cluster.member[id - 1].name, &view.said, "this one", &ours, what));
    say(p, line);
}

static void send_frame(void *user, const struct cv_udp_address *to, const uint8_t *bytes,
                       size_t byte_count)
{
    const struct cv_peering *p = user;
    (void)cv__udp_send(cv__port_fd(p->port), to, bytes,
                       byte_count); /* a failure is a lost message */
}

static void send_core(void *self, cv_id first, cv_id last, const uint8_t *bytes, size_t byte_count)
{
    struct cv_peering *p = self;
    CV_ASSERT(byte_count <= CV_PEERS_ITEM_BYTES_MAX);
    if (!p->setting.told.may_send(p->setting.told.self)) {
        return;
    }
    const int64_t now_ns = cv__clock_now_ns();
    for (cv_id id = first; id <= last && id <= p->cluster.member_count; id++) {
        if (id != p->self) {
            cv__peers_add(p->peers, id, CV_ITEM_CORE, bytes, byte_count, now_ns);
        }
    }
}

/* One line for the first datagram of each kind that is dropped. A member that sent it may have
 * another key. */
static void say_fate(struct cv_peering *p, enum cv_peers_fate fate,
                     const struct cv_udp_address *from)
{
    static const char *const what[CV_PEERS_FATE_COUNT] = {
        [CV_PEERS_OVERSIZED] = "datagrams that are longer than any frame",
        [CV_PEERS_FRAME] = "datagrams that do not authenticate: of another cluster, election or "
                           "key, replayed, or garbage",
        [CV_PEERS_MEMBER] = "frames from an unknown member, or for another member",
        [CV_PEERS_ADDRESS] = "frames of a member that come from a wrong address",
        [CV_PEERS_MALFORMED] = "frames with inconsistent content",
    };
    if (what[fate] == NULL || (p->told_fates & BIT(fate)) != 0) {
        return;
    }
    p->told_fates |= BIT(fate);
    char line[CV_ERRTEXT_BYTES], whose[CV_CLUSTER_NAME_BYTES + 64] = "";
    for (cv_id id = 1; id <= p->cluster.member_count; id++) {
        if (id != p->self && cv__udp_equal(from, cv__peers_address(p->peers, id))) {
            (void)snprintf(whose, sizeof whose, "; the first from the address of member '%s'",
                           p->cluster.member[id - 1].name);
        }
    }
    (void)snprintf(line, sizeof line, "dropping %s%s", what[fate], whose);
    say(p, line);
}

static void say_all_that_differ(struct cv_peering *p)
{
    for (cv_id id = 1; id <= p->cluster.member_count; id++) {
        if (id != p->self && cv__peers_view(p->peers, id).differs) {
            say_differs(p, id);
        }
    }
}

static void take_datagram(void *self, const struct cv_udp_datagram *d)
{
    struct cv_peering *p = self;
    if (p->is_closing) {
        return;
    }
    const enum cv_peers_fate fate =
        cv__peers_receive(p->peers, &d->from, d->buffer, d->byte_count, cv__clock_now_ns());
    if (fate == CV_PEERS_GENERATION || fate == CV_PEERS_SETTINGS) {
        say_all_that_differ(p);
    } else {
        say_fate(p, fate, &d->from);
    }
}

/* The witness must learn of a claim before the peers do. Without items to send there is none. */
static void flush(struct cv_peering *p)
{
    const int64_t now_ns = cv__clock_now_ns();
    if (cv__peers_has_items(p->peers) || p->farewell.lives != cv__peers_lives(p->peers)) {
        cv__farewell_renew(&p->farewell, p->peers, p->host, now_ns);
    }
    cv__peers_flush(p->peers, now_ns);
}

/* ---- Joining --------------------------------------------------------------------------------- */

/* The names of those that have not answered. */
static void name_silent(const struct cv_peering *p, char *text, size_t text_bytes)
{
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < p->cluster.member_count && length < text_bytes; i++) {
        if (i + 1 != p->self && !p->answer[i].is_there) {
            length += (size_t)snprintf(text + length, text_bytes - length, "%s%s",
                                       length > 0 ? ", " : "", p->cluster.member[i].name);
        }
    }
}

/* Rounded up. */
static long long bound_s(const struct cv_peering *p)
{
    return (long long)((p->bound_ns + NS_PER_S - 1) / NS_PER_S);
}

static void tell_waiting(struct cv_peering *p)
{
    char names[256], line[CV_ERRTEXT_BYTES];
    name_silent(p, names, sizeof names);
    const char *silent = names[0] != '\0' ? "; no answer yet from " : "";
    const uint32_t needed = (p->cluster.member_count + 1) / 2;
    if (p->others_have_state && p->joining.is_past_promises) {
        (void)snprintf(line, sizeof line,
                       "this member has no state: it joins when %u members with a state have "
                       "answered%s%s; if fewer have one, stop all members and raise 'generation'",
                       needed, silent, names);
    } else if (p->others_have_state) {
        (void)snprintf(
            line, sizeof line,
            "this member has no state, but others have: it joins %lld s after its start, "
            "when all that it may have promised has expired, if %u members with a state "
            "answer%s%s",
            bound_s(p), needed, silent, names);
    } else {
        (void)snprintf(line, sizeof line,
                       "this member has no state: it joins when all others have answered that "
                       "they have none%s%s",
                       silent, names);
    }
    tell_trouble(p, line);
}

static void on_tick(uv_timer_t *tick);

static void take_part(struct cv_peering *p)
{
    struct cv_errtext why;
    CV_ASSERT(!p->is_taking_part);
    p->is_taking_part = true;
    tell_trouble(p, "");
    const int code = cv__host_start(p->host, &why);
    CV_ASSERT(code == CV_OK); /* its record is in memory */
    if (!p->is_candidate) {
        cv__host_campaign(p->host, false);
    }
    for (uint32_t i = 0; i < CV_INPUT_COUNT; i++) {
        if ((p->has_reported & BIT(i)) != 0) {
            cv__host_report(p->host, (enum cv_input)i, p->reported[i]);
        }
    }
    p->looked_ms = uv_now(p->setting.loop);
    (void)uv_timer_start(&p->tick, on_tick, GREETING_MS, GREETING_MS); /* has a callback */
}

static void look_whether_to_join(struct cv_peering *p)
{
    uint64_t floor, word[CV_PERSIST_WORDS_MAX];
    struct cv_errtext why;
    CV_ASSERT(p->is_joining);
    if (p->is_taking_part || cv__joining_decide(&p->joining, &floor) == CV_JOINING_WAIT) {
        return;
    }
    const uint32_t word_count = p->cluster.protocol->restore(NULL, 0, floor, word);
    if (cv__slots_create(p->slots, word, word_count, &why) != CV_OK) {
        tell_trouble(p, why.text); /* and tries again */
        return;
    }
    take_part(p);
}

static void ask_all(struct cv_peering *p)
{
    uint8_t bytes[8];
    cv__bytes_put(bytes, p->joining.question, sizeof bytes);
    for (cv_id id = 1; id <= p->cluster.member_count; id++) {
        if (id != p->self &&
            p->answer[id - 1].memory != CV_JOINING_STATE) { /* it may have a state by now */
            cv__peers_add(p->peers, id, CV_ITEM_ASK, bytes, sizeof bytes, cv__clock_now_ns());
        }
    }
}

static void answer_memory(struct cv_peering *p, const struct cv_peers_item *item)
{
    uint8_t bytes[MEMORY_BYTES];
    struct cv_slots_record r;
    const bool has_state = cv__slots_latest(p->slots, &r);
    uint64_t floor = base_of(&p->cluster); /* all tokens of earlier generations are below */
    if (has_state && r.generation == p->cluster.generation) {
        floor = p->cluster.protocol->floor(r.word, r.word_count);
    }
    memcpy(bytes, item->bytes, 8);
    bytes[8] = has_state                              ? CV_JOINING_STATE
               : p->is_joining && p->joining.is_ready ? CV_JOINING_READY
                                                      : CV_JOINING_NOTHING;
    cv__bytes_put(bytes + 9, floor, 8);
    cv__peers_add(p->peers, item->from, CV_ITEM_MEMORY, bytes, sizeof bytes, cv__clock_now_ns());
}

static void on_memory(struct cv_peering *p, const struct cv_peers_item *item)
{
    if (p->is_joining && !p->is_taking_part && item->bytes[8] <= CV_JOINING_READY) {
        p->others_have_state = p->others_have_state || item->bytes[8] == CV_JOINING_STATE;
        cv__joining_hear(&p->joining, item->from, cv__bytes_get(item->bytes, 8),
                         (enum cv_joining_memory)item->bytes[8], cv__bytes_get(item->bytes + 9, 8));
        look_whether_to_join(p);
    }
}

/* For a record of an earlier generation: its tokens no longer count, but its promise binds until
 * the lease ends, because other members may not know the new generation yet. */
static int raise_record(struct cv_peering *p, const struct cv_slots_record *r,
                        struct cv_errtext *reterr)
{
    const struct cv_protocol *protocol = p->cluster.protocol;
    uint64_t word[CV_PERSIST_WORDS_MAX];
    const uint32_t word_count =
        r->is_of_protocol ? protocol->restore(r->word, r->word_count, base_of(&p->cluster), word)
                          : protocol->restore(NULL, 0, base_of(&p->cluster), word);
    return cv__slots_save(p->slots, word, word_count, reterr);
}

static void wait_for_old_promises(struct cv_peering *p)
{
    struct cv_slots_record record;
    struct cv_errtext why;
    if (cv__clock_now_ns() < p->bound_until_ns) {
        char line[CV_ERRTEXT_BYTES];
        (void)snprintf(line, sizeof line,
                       "this member has just changed to a new generation: it waits for %lld s, "
                       "until its promises in the old one have expired",
                       bound_s(p));
        tell_trouble(p, line);
    } else if (cv__slots_latest(p->slots, &record) && raise_record(p, &record, &why) != CV_OK) {
        tell_trouble(p, why.text); /* and tries again */
    } else {
        take_part(p);
    }
}

static void go_on_joining(struct cv_peering *p)
{
    const bool is_new = cv__joining_at(&p->joining, cv__clock_now_ns(), cv__clock_random());
    ask_all(p);
    look_whether_to_join(p);
    if (!p->is_taking_part && !is_new) { /* a new question: nobody can have answered it yet */
        tell_waiting(p);
    }
}

/* Followers may have nothing to send to each other. They send greetings, so that each knows which
 * members it can reach. */
static void greet_the_silent(struct cv_peering *p)
{
    const int64_t now_ns = cv__clock_now_ns();
    for (cv_id id = 1; id <= p->cluster.member_count; id++) {
        const struct cv_peers_view view = cv__peers_view(p->peers, id);
        if (id != p->self && (view.life == 0 || now_ns - view.sent_ns > SILENCE_NS_MAX)) {
            cv__peers_greet(p->peers, id);
        }
    }
}

/* If somebody kills one process of a member, the other one may be killed as well. */
static void look_at_witness(struct cv_peering *p)
{
    if (p->farewell.witness != NULL && !cv__witness_look(p->farewell.witness)) {
        say(p, "the witness of this member was killed, and cannot be started again: if this "
               "process is killed, the other members wait for its lease");
        cv__farewell_close(&p->farewell);
    }
}

static void look_around(struct cv_peering *p)
{
    greet_the_silent(p);
    look_at_witness(p);
    p->looked_ms = uv_now(p->setting.loop);
}

static void on_tick(uv_timer_t *tick)
{
    struct cv_peering *p = tick->data;
    if (p->is_taking_part) {
        look_around(p);
    } else if (p->is_joining) {
        go_on_joining(p);
    } else {
        wait_for_old_promises(p);
    }
    flush(p); /* libuv runs timers after the check */
}

/* What one turn of the loop has to say to a peer goes in one frame. A member that is awake anyway
 * looks around a little early: its timer, which would wake it up for that alone, begins anew. */
static void on_turn(uv_check_t *turn)
{
    struct cv_peering *p = turn->data;
    if (p->is_taking_part && uv_now(p->setting.loop) - p->looked_ms >= EARLY_MS) {
        look_around(p);
        (void)uv_timer_again(&p->tick); /* it repeats */
    }
    flush(p);
}

/* ---- What others say ------------------------------------------------------------------------- */

static void on_resign_item(struct cv_peering *p, const struct cv_peers_item *item)
{
    const uint64_t token = cv__bytes_get(item->bytes, 8);
    const cv_id heir = (cv_id)cv__bytes_get(item->bytes + 8, 2);
    if (p->leadership.is_self && p->leadership.token == token && heir <= p->cluster.member_count) {
        p->setting.told.resign_requested(p->setting.told.self, token, heir);
    }
}

static struct cv_guest_status status_of(const struct cv_peering *p)
{
    const struct cv_leadership *l = &p->leadership;
    const int64_t now_ns = cv__clock_now_ns();
    struct cv_guest_status status = {
        .has_joined = p->is_taking_part,
        .is_leading = l->is_self && (l->valid_until_ns == 0 || l->valid_until_ns > now_ns),
        .has_majority = l->has_majority,
        .leader = l->leader,
        .token = l->token,
        .left_ns = l->is_self && l->valid_until_ns != 0 ? l->valid_until_ns - now_ns : 0,
        .life = cv__peers_life(p->peers),
        .generation = p->cluster.generation,
        .version = CV_VERSION,
    };
    for (uint32_t i = 0; i < p->cluster.member_count; i++) {
        const struct cv_peers_view view = cv__peers_view(p->peers, i + 1);
        status.link[i] = (struct cv_guest_link){
            .is_heard = view.life != 0,
            .differs = view.differs,
            .ago_ns = view.life != 0 ? now_ns - view.heard_ns : 0,
            .delay_ns = view.delay_ns,
            .round_ns = view.round_ns,
            .drift_ppb = view.drift_ppb,
            .received = (uint32_t)view.received,
            .lost = (uint32_t)view.lost,
        };
    }
    return status;
}

static void answer_guest(struct cv_peering *p, const struct cv_peers_item *item)
{
    uint8_t bytes[CV_GUEST_STATUS_BYTES_MAX];
    const struct cv_guest_status status = status_of(p);
    const size_t byte_count = cv__guest_encode(&status, p->cluster.member_count, bytes);
    cv__peers_answer(p->peers, item, CV_ITEM_STATUS, bytes, byte_count, cv__clock_now_ns());
}

static void take_guest_item(struct cv_peering *p, const struct cv_peers_item *item)
{
    if (item->kind == CV_ITEM_QUESTION) {
        answer_guest(p, item);
    } else if (item->kind == CV_ITEM_REPORT && item->byte_count == CV_ITEM_REPORT_BYTES &&
               item->bytes[0] < CV_INPUT_COUNT) {
        cv__peering_report(p, (enum cv_input)item->bytes[0],
                           (int64_t)cv__bytes_get(item->bytes + 1, 8));
        answer_guest(p, item);
    } else if (item->kind == CV_ITEM_RESIGN && item->byte_count == CV_ITEM_RESIGN_BYTES) {
        on_resign_item(p, item);
    }
}

static void take_item(void *user, const struct cv_peers_item *item)
{
    struct cv_peering *p = user;
    if (p->is_closing) {
        return;
    }
    if (item->from == CV_ID_NONE) {
        take_guest_item(p, item);
        return;
    }
    switch (item->kind) {
    case CV_ITEM_CORE:
        cv__host_message(p->host, item->from, item->bytes, item->byte_count, item->delay_ns_max);
        break;
    case CV_ITEM_ASK:
        if (item->byte_count == 8) {
            answer_memory(p, item);
        }
        break;
    case CV_ITEM_MEMORY:
        if (item->byte_count == MEMORY_BYTES) {
            on_memory(p, item);
        }
        break;
    case CV_ITEM_RESIGN:
        if (item->byte_count == CV_ITEM_RESIGN_BYTES) {
            on_resign_item(p, item);
        }
        break;
    case CV_ITEM_DOWN:
        if (item->byte_count == 1) {
            p->dead[item->from - 1] = item->bytes[0] == 1 ? item->life : 0;
            cv__host_peer_down(p->host, item->from, item->bytes[0] == 1);
        }
        break;
    default:
        break; /* of a later version */
    }
}

/* ---- The other services ---------------------------------------------------------------------- */

static void on_leadership(void *self, const struct cv_leadership *leadership)
{
    struct cv_peering *p = self;
    p->leadership = *leadership;
    p->leadership.members = (struct cv_list){0};
    p->setting.told.leadership(p->setting.told.self, leadership);
}

static void on_trouble(void *self, const char *line)
{
    say(self, line);
}

static int load(void *self, uint64_t ret_word[CV_PERSIST_WORDS_MAX], uint32_t *ret_count,
                struct cv_errtext *reterr)
{
    const struct cv_peering *p = self;
    struct cv_slots_record r;
    const bool has_state = cv__slots_latest(p->slots, &r);
    (void)reterr;
    CV_ASSERT(has_state); /* it has joined */
    memcpy(ret_word, r.word, r.word_count * sizeof *r.word);
    *ret_count = r.word_count;
    return CV_OK;
}

static int save(void *self, const uint64_t *word, uint32_t word_count, struct cv_errtext *reterr)
{
    return cv__slots_save(((struct cv_peering *)self)->slots, word, word_count, reterr);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static int open_network(struct cv_peering *p, const char *election, struct cv_errtext *reterr)
{
    struct cv_udp_address address[CV_CLUSTER_MEMBERS_MAX];
    const struct cv_peers_setting setting = {
        .self = p->self, .address = address, .user = p, .send = send_frame, .take = take_item};
    int code = cv__reach_addresses(&p->cluster, p->self, address, reterr);
    if (code == CV_OK) {
        code = cv__reach_frames(&p->cluster, election, &setting, &p->peers, reterr);
    }
    if (code == CV_OK) {
        p->port_user =
            (struct cv_port_user){.channel = cv__frames_channel(cv__peers_frames(p->peers)),
                                  .self = p,
                                  .take = take_datagram};
        code = cv__port_join(p->setting.loop, p->setting.shared, &address[p->self - 1],
                             &p->port_user, &p->port, reterr);
    }
    return code;
}

/* Each election has its own state. In earlier versions a member had one state, for one election. */
static int name_state(const struct cv_peering *p, const char *election, char ret_path[PATH_MAX],
                      struct cv_errtext *reterr)
{
    const char *member = p->cluster.member[p->self - 1].name;
    char old_path[PATH_MAX];
    int code = cv__reach_folder(&p->cluster, reterr);
    if (code == CV_OK) {
        code = cv__reach_file(&p->cluster, member, election, STATE_SUFFIX, LOCK_BYTES, ret_path,
                              reterr);
    }
    if (code == CV_OK) {
        code = cv__reach_old_file(&p->cluster, member, STATE_SUFFIX, LOCK_BYTES, old_path, reterr);
    }
    return code == CV_OK ? cv__slots_adopt(old_path, ret_path, reterr) : code;
}

static int open_state(struct cv_peering *p, const char *election, struct cv_errtext *reterr)
{
    const struct cv_cluster *c = &p->cluster;
    char path[PATH_MAX];
    int code = name_state(p, election, path, reterr);
    if (code != CV_OK) {
        return code;
    }
    const struct cv_slots_owner owner = {.cluster = c->name,
                                         .protocol = c->protocol->name,
                                         .self = p->self,
                                         .member_count = c->member_count,
                                         .generation = c->generation,
                                         .lease_ns = promise_ns(c)};
    struct cv_slots_record record;
    code = cv__slots_open(path, &owner, &p->slots, reterr);
    if (code == CV_OK && cv__slots_latest(p->slots, &record) && record.generation < c->generation) {
        p->bound_ns = record.lease_ns + record.lease_ns / WAIT_SHARE;
        p->bound_until_ns = cv__clock_now_ns() + p->bound_ns;
    }
    return code;
}

static int make_host(struct cv_peering *p, struct cv_errtext *reterr)
{
    struct cv_config config = p->cluster.config;
    config.self = p->self;
    const int code = cv_core_configure(p->cluster.protocol, &config, reterr);
    if (code != CV_OK) {
        return code;
    }
    const struct cv_host_services services = {
        .transport = {p, send_core},
        .persist = {.self = p, .load = load, .save = save, .is_quick = true},
        .told = {p, on_leadership, on_trouble},
        .time = {.timers = p->setting.timers},
        .recorder = p->setting.recorder,
    };
    return cv__host_new(p->setting.loop, p->cluster.protocol, &config, &services, &p->host, reterr);
}

static void add_handles(struct cv_peering *p)
{
    (void)uv_check_init(p->setting.loop, &p->turn); /* these cannot fail */
    (void)uv_timer_init(p->setting.loop, &p->tick);
    p->turn.data = p;
    p->tick.data = p;
    p->handle_count = 2;
    (void)uv_check_start(&p->turn, on_turn); /* these have callbacks: cannot fail */
    uv_update_time(p->setting.loop);         /* the turn may have begun long ago */
    (void)uv_timer_start(&p->tick, on_tick, 0, JOINING_MS);
}

/* A member works without them, so a refusal is only reported, by its first election. */
static void ask_for_realtime(struct cv_peering *p)
{
    struct cv_errtext why;
    char line[2 * CV_ERRTEXT_BYTES], floor[CV_DURATION_TEXT_BYTES];
    if (!p->cluster.is_realtime) {
        return;
    }
    const bool is_first = cv__port_is_alone(p->port);
    if (cv__realtime_begin(&why) != CV_OK && is_first) {
        (void)snprintf(line, sizeof line,
                       "%s; on a busy machine leases below about %s can be lost without a fault; "
                       "to permit it: " CV_REALTIME_GRANT,
                       why.text, cv__duration_format(CV_LEASE_FLOOR_NS_USUAL, floor));
        say(p, line);
    }
    if (cv__realtime_lock_memory(&why) != CV_OK && is_first) {
        (void)snprintf(line, sizeof line, "%s; " CV_MEMORY_COST "; to permit it: " CV_MEMORY_GRANT,
                       why.text);
        say(p, line);
    }
}

/* A member works without it: a leader that is killed is then replaced when its lease is over. */
static void start_witness(struct cv_peering *p)
{
    struct cv_errtext why;
    const struct cv_cluster *c = &p->cluster;
    const int64_t wait_ns =
        c->protocol->lease_ns != NULL ? c->protocol->lease_ns(&c->config) : promise_ns(c);
    const int64_t certain_ns = cv__clock_now_ns() + wait_ns + wait_ns / WAIT_SHARE;
    if (c->has_witness && cv__farewell_open(&p->farewell, cv__port_fd(p->port), p->self,
                                            c->member_count, certain_ns, &why) != CV_OK) {
        char line[2 * CV_ERRTEXT_BYTES];
        (void)snprintf(line, sizeof line,
                       "no witness for this member (%s): if it is killed, the other members wait "
                       "for its lease",
                       why.text);
        say(p, line);
    }
}

static int start(struct cv_peering *p, const char *election, struct cv_errtext *reterr)
{
    int code = open_network(p, election, reterr);
    if (code == CV_OK) {
        code = open_state(p, election, reterr);
    }
    if (code == CV_OK) {
        code = make_host(p, reterr);
    }
    if (code != CV_OK) {
        return code;
    }
    add_handles(p);
    start_witness(p); /* a child, which needs neither */
    ask_for_realtime(p);
    struct cv_slots_record record;
    if (!cv__slots_latest(p->slots, &record)) {
        const int64_t wait_ns = promise_ns(&p->cluster);
        p->bound_ns = wait_ns + wait_ns / WAIT_SHARE;
        cv__joining_begin(&p->joining, p->self, p->cluster.member_count, base_of(&p->cluster),
                          cv__clock_now_ns() + p->bound_ns, cv__clock_random(), p->answer);
        p->is_joining = true;
    } else if (p->bound_until_ns == 0) {
        take_part(p);
    }
    return CV_OK;
}

int cv__peering_open(const struct cv_peering_setting *setting, struct cv_peering **ret_peering,
                     struct cv_errtext *reterr)
{
    struct cv_peering *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory to take part in '%s'", setting->election);
    }
    p->setting = *setting;
    p->cluster = *setting->cluster;
    p->self = setting->self;
    p->is_candidate = setting->is_candidate;
    const int code = start(p, setting->election, reterr);
    if (code != CV_OK) {
        cv__peering_close(p, NULL, NULL);
        return code;
    }
    *ret_peering = p;
    return CV_OK;
}

static void on_part_closed(void *data)
{
    struct cv_peering *p = data;
    CV_ASSERT(p->closing_count > 0);
    p->closing_count--;
    if (p->closing_count > 0) {
        return;
    }
    if (p->port != NULL) {
        cv__port_leave(p->port, &p->port_user);
    }
    cv__peers_free(p->peers);
    cv__slots_close(p->slots);
    void (*closed)(void *data) = p->closed;
    void *closed_data = p->closed_data;
    free(p);
    if (closed != NULL) {
        closed(closed_data);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

void cv__peering_close(struct cv_peering *p, void (*closed)(void *data), void *data)
{
    CV_ASSERT(!p->is_closing);
    p->is_closing = true;
    p->closed = closed;
    p->closed_data = data;
    p->closing_count = 1 + p->handle_count; /* this function, and the handles */
    if (p->port != NULL) {
        cv__peers_flush(p->peers, cv__clock_now_ns());
    }
    cv__farewell_close(&p->farewell); /* what there was to say has been said */
    if (p->handle_count > 0) {
        uv_close((uv_handle_t *)&p->turn, on_handle_closed);
        uv_close((uv_handle_t *)&p->tick, on_handle_closed);
    }
    if (p->host != NULL) {
        p->closing_count++;
        cv__host_free(p->host, on_part_closed, p);
    }
    on_part_closed(p);
}

/* ---- What the application wants -------------------------------------------------------------- */

void cv__peering_campaign(struct cv_peering *p, bool is_candidate)
{
    p->is_candidate = is_candidate;
    cv__host_campaign(p->host, is_candidate); /* take_part() does it for one that joins */
}

void cv__peering_resign(struct cv_peering *p, cv_id heir)
{
    cv__host_resign(p->host, heir != p->self ? heir : CV_ID_NONE);
}

bool cv__peering_request_resign(struct cv_peering *p, cv_id heir)
{
    const struct cv_leadership *l = &p->leadership;
    uint8_t bytes[CV_ITEM_RESIGN_BYTES];
    if (l->leader == CV_ID_NONE) {
        return false;
    }
    if (l->is_self) {
        p->setting.told.resign_requested(p->setting.told.self, l->token, heir);
        return true;
    }
    cv__bytes_put(bytes, l->token, 8);
    cv__bytes_put(bytes + 8, heir, 2);
    cv__peers_add(p->peers, l->leader, CV_ITEM_RESIGN, bytes, sizeof bytes, cv__clock_now_ns());
    return true;
}

void cv__peering_report(struct cv_peering *p, enum cv_input input, int64_t value)
{
    CV_ASSERT(input < CV_INPUT_COUNT);
    if (p->is_taking_part) {
        cv__host_report(p->host, input, value);
    } else {
        p->reported[input] = value;
        p->has_reported |= BIT(input);
    }
}

int cv__peering_lifeline(const struct cv_peering *p)
{
    return p->farewell.witness != NULL ? cv__witness_lifeline(p->farewell.witness) : -1;
}

bool cv__peering_is_dead(const struct cv_peering *p, cv_id member)
{
    const uint64_t life = p->dead[member - 1];
    return life != 0 && life == cv__peers_view(p->peers, member).life;
}

const struct cv_peers *cv__peering_peers(const struct cv_peering *p)
{
    return p->peers;
}
