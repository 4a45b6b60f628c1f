/* src/lab/pole_live.c - `conclave lab pole --live`: the leaders that five processes of this program
 * elect in the deployments of [Becker11, Table 3], on an emulated wide-area network.
 *
 * Each member is `conclave elect` in a separate network namespace, with UDP between them and the
 * paper's round trips (lab/wan.h). p5 is made leader as in the paper, and killed when the others
 * have measured their round trips. The new leader is compared with the paper's, and with the
 * simulator's in the same deployment. The time at which it began to lead is read from its audit
 * trail. No requests are served here: their rates are reported to the members, as an application
 * would report them. This needs root. */
#include "lab/live_trail.h"
#include "lab/pole.h"

#include "base/command.h"
#include "lab/pole_run.h"
#include "lab/wan.h"
#include "net/key.h"
#include "os/clock.h"
#include "runtime/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVERS 5u
#define FIRST 5u /* leads first, and is killed */
#define ELECTION "live"
#define LOOK_NS (300 * NS_PER_MS) /* wait for answers across the network */
#define PATIENCE_NS (60 * NS_PER_S)
#define SETTLE_NS \
    (4 * NS_PER_S) /* time for twenty probes, and for the leases that a witness waits */
#define JITTER_PERCENT 2u
#define HISTORY_LENGTH 1000 /* the same for all members */

struct live {
    struct cv_lab_pole *pole;
    struct cv_wan *wan;
    char folder[64];
    uint32_t case_count, agree_count, tie_count, differ_count;

    /* The present case. */
    struct cv_cluster cluster;
    struct cv_guest *guest;
    struct cv_guest_status status[CV_CLUSTER_MEMBERS_MAX];
    pid_t pid[SERVERS + 1]; /* 0: the member does not run */
};

/* ---- Files ----------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static FILE *open_file(const struct live *v, const char *name)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", v->folder, name);
    return fopen(path, "we");
}

/* Each case has its own cluster and state folder. */
static bool write_cluster(const struct live *v, const struct cv_lab_wan *wan, const char *oracle)
{
    char state[PATH_MAX];
    (void)snprintf(state, sizeof state, "%s/state%u", v->folder, v->case_count);
    FILE *file = mkdir(state, 0700) == 0 ? open_file(v, "live.ini") : NULL;
    if (file == NULL) {
        return false;
    }
    (void)fprintf(file,
                  "[cluster]\nname = live%u\ngeneration = 1\nkey = key\nstate = state%u\n"
                  "protocol = pole\n[options]\nprofile = wan\nprobe = 200ms\noracle = %s\n",
                  v->case_count, v->case_count, oracle);
    for (cv_id id = 1; id <= SERVERS; id++) {
        char address[CV_WAN_ADDRESS_BYTES];
        cv__wan_address(id, address);
        (void)fprintf(file, "[member p%u]\nid = %u\naddress = %s:7100\nsite = D%u\n", id, id,
                      address, wan->site[id]);
    }
    return fclose(file) == 0;
}

static bool make_folder(struct live *v, struct cv_errtext *reterr)
{
    struct cv_key key;
    char path[PATH_MAX];
    (void)snprintf(v->folder, sizeof v->folder, "/tmp/conclave-lab-XXXXXX");
    if (mkdtemp(v->folder) == NULL) {
        (void)snprintf(reterr->text, sizeof reterr->text, "cannot make a folder in /tmp: %s",
                       strerror(errno));
        v->folder[0] = '\0';
        return false;
    }
    (void)snprintf(path, sizeof path, "%s/key", v->folder);
    const bool is_fine =
        cv__key_generate(&key, reterr) == CV_OK && cv__key_write(&key, path, reterr) == CV_OK;
    cv__key_forget(&key);
    return is_fine;
}

/* ---- Members --------------------------------------------------------------------------------- */

static _Noreturn void become_member(const struct live *v, cv_id id)
{
    char via[PATH_MAX], name[16], log[PATH_MAX];
    (void)snprintf(via, sizeof via, "peers:%s/live.ini", v->folder);
    (void)snprintf(name, sizeof name, "p%u", id);
    (void)snprintf(log, sizeof log, "%s/%s.log", v->folder, name);
    const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0 &&
        prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
        setns(cv__wan_namespace(v->wan, id), CLONE_NEWNET) == 0) {
        (void)execl("/proc/self/exe", "conclave", "elect", ELECTION, "--via", via, "--node", name,
                    (char *)NULL);
    }
    _exit(127);
}

static void kill_member(struct live *v, cv_id id)
{
    if (v->pid[id] > 0) {
        (void)kill(v->pid[id], SIGKILL); /* our child; not reaped yet, so the pid is its own */
        (void)waitpid(v->pid[id], NULL, 0);
        v->pid[id] = 0;
    }
}

static bool start_members(struct live *v)
{
    for (cv_id id = 1; id <= SERVERS; id++) {
        const pid_t pid = fork();
        if (pid == 0) {
            become_member(v, id);
        }
        if (pid < 0) {
            return false;
        }
        v->pid[id] = pid;
    }
    return true;
}

/* ---- Questions to the members ---------------------------------------------------------------- */

/* The leader that the members 1..last follow; CV_ID_NONE: they disagree, or do not answer yet. */
static cv_id agreed(struct live *v, cv_id last, uint64_t *ret_token)
{
    (void)cv__guest_ask(v->guest, LOOK_NS, v->status);
    for (cv_id id = 1; id <= last; id++) {
        const struct cv_guest_status *s = &v->status[id - 1];
        if (!s->has_answered || !s->has_joined || s->leader != v->status[0].leader ||
            s->token != v->status[0].token) {
            return CV_ID_NONE;
        }
    }
    *ret_token = v->status[0].token;
    return v->status[0].leader;
}

/* Waits until the members 1..last follow a leader with a larger token. */
static cv_id await_leader(struct live *v, cv_id last, uint64_t above, uint64_t *ret_token)
{
    const int64_t until_ns = cv__clock_now_ns() + PATIENCE_NS;
    while (cv__clock_now_ns() < until_ns) {
        const cv_id leader = agreed(v, last, ret_token);
        if (leader != CV_ID_NONE && *ret_token > above) {
            return leader;
        }
    }
    return CV_ID_NONE;
}

/* As in the simulator: the first leader hands over to p5, or, with `rotating`, leaders resign until
 * it is the turn of p5. Returns the token by which p5 leads; 0: it never did. */
static uint64_t bring_to_lead(struct live *v, bool goes_round)
{
    uint64_t token = 0;
    for (uint32_t i = 0; i < 4 * SERVERS; i++) {
        const cv_id leader = await_leader(v, SERVERS, token, &token);
        if (leader == FIRST || leader == CV_ID_NONE) {
            return leader == FIRST ? token : 0;
        }
        cv__guest_request_resign(v->guest, leader, token, goes_round ? CV_ID_NONE : FIRST);
    }
    return 0;
}

/* Divides the rate of a site among its servers. */
static bool report_rates(struct live *v, const struct cv_lab_wan *wan)
{
    uint32_t count[CV_LAB_SITES_MAX + 1] = {0};
    bool is_heard = true;
    for (cv_id id = 1; id <= SERVERS; id++) {
        count[wan->site[id]]++;
    }
    for (cv_id id = 1; id <= SERVERS; id++) {
        const uint32_t site = wan->site[id];
        const int64_t rate = (int64_t)lround(CV_LAB_RATE * wan->share[site] / count[site]);
        is_heard =
            is_heard && cv__guest_report(v->guest, id, CV_INPUT_REQUEST_RATE, rate, PATIENCE_NS) &&
            cv__guest_report(v->guest, id, CV_INPUT_HISTORY_LENGTH, HISTORY_LENGTH, PATIENCE_NS);
    }
    return is_heard;
}

static bool set_links(struct live *v, const struct cv_lab_wan *wan)
{
    bool is_set = true;
    for (uint32_t from = 1; from <= SERVERS; from++) {
        for (uint32_t to = 1; to <= SERVERS; to++) {
            const uint32_t low = wan->site[from] < wan->site[to] ? wan->site[from] : wan->site[to];
            const uint32_t high = wan->site[from] + wan->site[to] - low;
            const double rtt_ms = low != high ? wan->rtt_ms[low][high] : 0.1;
            const struct cv_wan_link link = {.delay_ns = (int64_t)(rtt_ms / 2 * NS_PER_MS),
                                             .jitter_percent = low != high ? JITTER_PERCENT : 0};
            is_set = is_set && (from == to || cv__wan_set(v->wan, from, to, &link));
        }
    }
    return is_set;
}

static void settle(void)
{
    const int64_t until_ns = cv__clock_now_ns() + SETTLE_NS;
    for (int64_t left_ns; (left_ns = until_ns - cv__clock_now_ns()) > 0;) {
        (void)poll(NULL, 0, (int)(left_ns / NS_PER_MS) + 1); /* EINTR: the loop checks again */
    }
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Reads the leader's own trail, which is written a little after it began to lead. 0: there is no
 * entry. */
static int64_t began_wall_ns(const struct live *v, cv_id leader, uint64_t token)
{
    const int64_t until_ns = cv__clock_now_ns() + PATIENCE_NS;
    int64_t wall_ns = 0;
    while (wall_ns == 0 && cv__clock_now_ns() < until_ns) {
        wall_ns =
            cv__lab_live_began(&v->cluster, v->cluster.member[leader - 1].name, ELECTION, token);
    }
    return wall_ns;
}

/* p5 leads and is killed; finds the new leader. Returns NULL, or what went wrong. */
static const char *run_members(struct live *v, const struct cv_lab_live_case *c, cv_id *ret_leader,
                               double *ret_ms)
{
    uint64_t token;
    if (!start_members(v)) {
        return "cannot start a process";
    }
    if (await_leader(v, SERVERS, 0, &token) == CV_ID_NONE) {
        return "the members elect no leader";
    }
    if (!report_rates(v, &c->wan)) {
        return "a member does not answer";
    }
    token = bring_to_lead(v, c->goes_round);
    if (token == 0) {
        return "cannot make p5 the leader";
    }
    settle();
    const int64_t killed_ns = cv__clock_wall_ns();
    kill_member(v, FIRST);
    *ret_leader = await_leader(v, SERVERS - 1, token, &token);
    if (*ret_leader == CV_ID_NONE) {
        return "no member succeeds p5";
    }
    *ret_ms = (double)(began_wall_ns(v, *ret_leader, token) - killed_ns) / NS_PER_MS;
    return NULL;
}

static const char *run_case(struct live *v, const struct cv_lab_live_case *c, cv_id *ret_leader,
                            double *ret_ms)
{
    static struct cv_errtext why;
    char path[PATH_MAX];
    v->case_count++;
    (void)snprintf(path, sizeof path, "%s/live.ini", v->folder);
    if (!set_links(v, &c->wan)) {
        return "the emulated network is gone";
    }
    if (!write_cluster(v, &c->wan, c->option)) {
        return "cannot write the file of the cluster";
    }
    if (cv__cluster_read(path, &v->cluster, &why) != CV_OK ||
        cv__guest_open(&v->cluster, ELECTION, &v->guest, &why) != CV_OK) {
        return why.text;
    }
    const char *trouble = run_members(v, c, ret_leader, ret_ms);
    for (cv_id id = 1; id <= SERVERS; id++) {
        kill_member(v, id);
    }
    cv__guest_close(v->guest);
    v->guest = NULL;
    return trouble;
}

static cv_id simulated(const struct cv_lab_live_case *c)
{
    const struct cv_lab_setting setting = {.wan = c->wan,
                                           .oracle = c->option,
                                           .goes_round = c->goes_round,
                                           .every = 10,
                                           .crash_s = 25,
                                           .end_s = 40};
    return cv__lab_pole_run(&setting, 1, NULL, NULL).leader;
}

/* `wanted`: the paper's leader, or the simulator's where the paper names none. An oracle that
 * compares round trips cannot distinguish two servers of one data centre: set_links() gives them
 * the same round trips to all other servers, so their scores are equal but for jitter. Then both
 * are right. With any other oracle only the wanted one is right. */
static const char *judge(struct live *v, const struct cv_lab_live_case *c, uint32_t wanted,
                         cv_id leader)
{
    if ((wanted & (1u << leader)) != 0) {
        v->agree_count++;
        return "agrees";
    }
    for (cv_id id = 1; id <= SERVERS && c->is_measured; id++) {
        if ((wanted & (1u << id)) != 0 && c->wan.site[id] == c->wan.site[leader]) {
            v->tie_count++;
            return "tie";
        }
    }
    v->differ_count++;
    return "DIFFERS";
}

static bool measure(struct live *v, const struct cv_lab_live_case *c)
{
    cv_id leader = CV_ID_NONE;
    double ms = NAN;
    const char *trouble = run_case(v, c, &leader, &ms);
    if (trouble != NULL) {
        cv__complain("deployment %u, %s: %s", c->number, c->oracle, trouble);
        return false;
    }
    const cv_id model = simulated(c);
    const uint32_t wanted = c->said != 0 ? c->said : 1u << model;
    const char *verdict = judge(v, c, wanted, leader);
    char said[16] = "";
    for (cv_id id = 1; id <= SERVERS; id++) {
        if ((c->said & (1u << id)) != 0) {
            const size_t length = strlen(said);
            (void)snprintf(said + length, sizeof said - length, "%sp%u", length > 0 ? "," : "", id);
        }
    }
    cv__table_row(&v->pole->live, CV_NUMBER(c->number), CV_NUMBER(c->share), CV_TEXT(c->oracle),
                  CV_TEXT(cv__lab_pole_text(v->pole, "%s", said)),
                  CV_TEXT(cv__lab_pole_text(v->pole, "p%u", model)),
                  CV_TEXT(cv__lab_pole_text(v->pole, "p%u", leader)), CV_NUMBER(ms),
                  CV_TEXT(verdict));
    return true;
}

int cv__lab_pole_live(struct cv_lab_pole *pole, struct cv_lab_report *report,
                      const struct cv_lab_live_case *cases, uint32_t case_count)
{
    struct live *v = calloc(1, sizeof *v);
    struct cv_errtext why = {"out of memory"};
    bool is_fine = v != NULL && cv__wan_open(SERVERS, &v->wan, &why) == CV_OK;
    if (is_fine) {
        v->pole = pole;
        is_fine = make_folder(v, &why);
    }
    /* Questions to members are sent from the namespace of p5. */
    if (is_fine && setns(cv__wan_namespace(v->wan, FIRST), CLONE_NEWNET) != 0) {
        (void)snprintf(why.text, sizeof why.text, "cannot enter a namespace: %s", strerror(errno));
        is_fine = false;
    }
    if (!is_fine) {
        cv__complain("lab pole --live: %s", why.text);
    }
    for (uint32_t i = 0; i < case_count && is_fine; i++) {
        is_fine = measure(v, &cases[i]);
    }
    if (is_fine) {
        cv__lab_report_begin(
            report, "Five processes of this program, with UDP between namespaces and the paper's "
                    "round trips (jitter 2 %).");
        cv__lab_report_table(report, &pole->live);
        cv__lab_report_claim(report, CV_JUDGED(v->differ_count == 0),
                             "each oracle elects the paper's leader on a real network (the "
                             "simulator's, where the paper names none); an oracle that compares "
                             "round trips may elect a server with the same ones",
                             "%u that leader, %u with the same round trips, %u others",
                             v->agree_count, v->tie_count, v->differ_count);
    }
    if (v != NULL && v->folder[0] != '\0') {
        (void)nftw(v->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS); /* leftovers are in /tmp */
    }
    if (v != NULL) {
        cv__wan_close(v->wan);
        free(v);
    }
    return is_fine ? cv__lab_report_end(report) : EXIT_USAGE;
}
