/* src/lab/anon_live.c - `conclave lab anon --live SEQUENCER`: fig. 3 and Eq. 1 of [Wiesmann07]
 * with real processes, real multicast on the loopback interface and a real sequencer.
 *
 * Ten processes are forked once and go through the runs together, synchronised by a barrier in
 * shared memory. In each run every process opens a new participant of a new election, which waits
 * for a time drawn from (0, eps] as in the paper. Up to R - 1 numbers are used up before each run:
 * an election leaves the counter at the beginning of a round, and the next one must find it at any
 * place. When all processes have had a leader for a while, the leader resigns, and all ask at once
 * (Eq. 1). They write their times (all by the machine's clock) to the shared memory, and the parent
 * adds them up.
 *
 * Nothing is judged: the times depend on the machine and on its other work. */
#include "lab/anon.h"

#include "base/command.h"
#include "lab/lab.h"
#include "os/clock.h"
#include "runtime/multicast.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUP "239.255.67.86"
#define LOOK_MS 4u           /* how often a process checks whether the others are done */
#define RUN_MS_MAX 10000     /* a run that takes longer is given up, and counted */
#define CALIBRATE_COUNT 500u /* requests of each process */

enum task { TASK_BURN, TASK_ELECT, TASK_CALIBRATE_ONE, TASK_CALIBRATE_ALL, TASK_END };

/* The times of one process in one run; 0: it did not happen. */
struct times {
    int64_t started_ns, asked_ns, leader_ns;
    int64_t resigned_ns, next_leader_ns; /* the next leader is another process */
    uint64_t answers;
    double response_ms_sum;
    bool has_failed;
};

/* The parent writes the task before a barrier. Each process writes its own times. */
struct shared {
    pthread_barrier_t barrier;
    enum task task;
    int eta_ms, eps_ms;
    uint32_t round_size;
    uint64_t burn; /* numbers to use up before the run */
    uint64_t run;
    uint32_t port;
    atomic_uint with_leader, with_next_leader; /* numbers of processes */
    atomic_bool has_resigned;                  /* the leader has, with this label */
    atomic_ullong resigned_label;
    struct times times[CV_ANON_NODES];
    char error[CV_ERRTEXT_BYTES];
};

/* ---- One process ----------------------------------------------------------------------------- */

struct process {
    struct shared *shared;
    struct times *times; /* of this process */
    const char *sequencer;
    uv_loop_t loop;
    uv_timer_t look;
    struct cv_participant *participant;
    struct cv_counter counter; /* for calibration */
    uint64_t question;
    int64_t question_ns;
    uint64_t wanted;          /* numbers */
    int64_t leading_since_ns; /* 0: it does not lead */
    bool is_over;
};

static void on_leadership(void *self, const struct cv_leadership *l)
{
    struct process *p = self;
    const int64_t now_ns = cv__clock_now_ns();
    const bool is_leading = l->is_self;
    p->leading_since_ns = is_leading ? now_ns : 0;
    if (l->leader == CV_ID_NONE) {
        return;
    }
    if (p->times->leader_ns == 0) {
        p->times->leader_ns = now_ns;
        atomic_fetch_add(&p->shared->with_leader, 1);
    } else if (p->times->next_leader_ns == 0 && atomic_load(&p->shared->has_resigned) &&
               l->label != atomic_load(&p->shared->resigned_label)) {
        p->times->next_leader_ns = now_ns;
        atomic_fetch_add(&p->shared->with_next_leader, 1);
    }
}

static void on_asked(void *self, uint64_t request)
{
    struct process *p = self;
    p->question = request;
    p->question_ns = cv__clock_now_ns();
    if (p->times->asked_ns == 0 && p->times->leader_ns == 0) {
        p->times->asked_ns = p->question_ns;
    }
}

static void on_answered(void *self, uint64_t request, uint64_t number)
{
    struct process *p = self;
    /* Requests after the resignation belong to another election. */
    if (number != CV_SEQUENCE_NONE && request == p->question &&
        atomic_load(&p->shared->with_leader) < CV_ANON_NODES) {
        p->times->answers++;
        p->times->response_ms_sum += (double)(cv__clock_now_ns() - p->question_ns) / 1e6;
    }
}

/* When all processes have had a leader for a while, it resigns. When all have another, the run is
 * over. */
static void on_look(uv_timer_t *timer)
{
    struct process *p = timer->data;
    struct shared *s = p->shared;
    const int64_t now_ns = cv__clock_now_ns();
    if (p->leading_since_ns != 0 && atomic_load(&s->with_leader) == CV_ANON_NODES &&
        now_ns - p->leading_since_ns > 2 * s->eta_ms * NS_PER_MS &&
        !atomic_load(&s->has_resigned)) {
        atomic_store(&s->resigned_label, cv__host_nonce(cv__participant_host(p->participant)));
        atomic_store(&s->has_resigned, true);
        p->times->resigned_ns = cv__clock_now_ns();
        cv__host_resign(cv__participant_host(p->participant), CV_ID_NONE);
    }
    p->times->has_failed = now_ns - p->times->started_ns > (int64_t)RUN_MS_MAX * NS_PER_MS;
    p->is_over = p->times->has_failed || atomic_load(&s->with_next_leader) == CV_ANON_NODES;
}

static void fail(struct process *p, const char *why)
{
    (void)snprintf(p->shared->error, sizeof p->shared->error, "%s", why);
    p->times->has_failed = true;
}

static void elect(struct process *p)
{
    const struct shared *s = p->shared;
    char text[1024];
    char name[64];
    (void)snprintf(text, sizeof text,
                   "multicast:" GROUP ":%u?interface=127.0.0.1&insecure&start=paper&eta=%dms"
                   "&eps=%dms&R=%u&sequencer=%s",
                   s->port, s->eta_ms, s->eps_ms, s->round_size, p->sequencer);
    (void)snprintf(name, sizeof name, "lab-%llu", (unsigned long long)s->run);
    struct cv_errtext why;
    const struct cv_participant_told told = {
        .self = p, .leadership = on_leadership, .asked = on_asked, .answered = on_answered};
    p->leading_since_ns = 0;
    p->is_over = false;
    p->times->started_ns = cv__clock_now_ns();
    if (cv__participant_open(&p->loop, NULL, name, text, &told, &p->participant, &why) != CV_OK) {
        fail(p, why.text);
        return;
    }
    (void)uv_timer_init(&p->loop, &p->look); /* cannot fail */
    p->look.data = p;
    (void)uv_timer_start(&p->look, on_look, LOOK_MS, LOOK_MS);
    while (!p->is_over) {
        (void)uv_run(&p->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&p->look, NULL);
    cv__participant_close(p->participant, NULL, NULL);
    (void)uv_run(&p->loop, UV_RUN_DEFAULT);
}

/* ---- Calibration: the time of an answer, for one process and for all at once ----------------- */

static void ask_next(struct process *p)
{
    p->question_ns = cv__clock_now_ns();
    p->counter.kind->ask(p->counter.self, ++p->question, CV_SEQUENCE_NONE);
}

static void on_calibrated(void *self, uint64_t request, uint64_t number)
{
    struct process *p = self;
    p->is_over = p->is_over || number == CV_SEQUENCE_NONE;
    on_answered(p, request, number);
    if (p->times->answers >= p->wanted || p->is_over) {
        p->is_over = true;
    } else {
        ask_next(p);
    }
}

static void give_up(uv_timer_t *timer)
{
    struct process *p = timer->data;
    p->is_over = true;
}

static void take_numbers(struct process *p, uint64_t count)
{
    p->wanted = count;
    const struct cv_sequencer_events events = {p, on_calibrated, NULL};
    struct cv_errtext why;
    if (cv__sequencer_open(&p->loop, p->sequencer, &events, &p->counter, &why) != CV_OK) {
        fail(p, why.text);
        return;
    }
    (void)uv_timer_init(&p->loop, &p->look); /* cannot fail */
    p->look.data = p;
    (void)uv_timer_start(&p->look, give_up, RUN_MS_MAX, 0);
    p->is_over = false;
    ask_next(p);
    while (!p->is_over) {
        (void)uv_run(&p->loop, UV_RUN_ONCE);
    }
    if (p->times->answers < p->wanted) {
        fail(p, "the sequencer does not answer");
    }
    uv_close((uv_handle_t *)&p->look, NULL);
    p->counter.kind->close(p->counter.self, NULL, NULL);
    (void)uv_run(&p->loop, UV_RUN_DEFAULT);
}

_Noreturn static void be_process(struct shared *shared, uint32_t index, const char *sequencer)
{
    struct process p = {.shared = shared, .times = &shared->times[index], .sequencer = sequencer};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* no process outlives the parent */
    if (uv_loop_init(&p.loop) != 0) {
        abort();
    }
    for (;;) {
        (void)pthread_barrier_wait(&shared->barrier);
        memset(p.times, 0, sizeof *p.times);
        switch (shared->task) {
        case TASK_BURN:
            if (index == 0 && shared->burn > 0) {
                take_numbers(&p, shared->burn);
            }
            break;
        case TASK_ELECT:
            elect(&p);
            break;
        case TASK_CALIBRATE_ONE:
            if (index == 0) {
                take_numbers(&p, CALIBRATE_COUNT);
            }
            break;
        case TASK_CALIBRATE_ALL:
            take_numbers(&p, CALIBRATE_COUNT);
            break;
        case TASK_END:
            _exit(0);
        }
        (void)pthread_barrier_wait(&shared->barrier);
    }
}

/* ---- The parent ------------------------------------------------------------------------------ */

static void do_task(struct shared *s, enum task task)
{
    s->task = task;
    s->run++;
    atomic_store(&s->with_leader, 0);
    atomic_store(&s->with_next_leader, 0);
    atomic_store(&s->has_resigned, false);
    (void)pthread_barrier_wait(&s->barrier);
    if (task != TASK_END) {
        (void)pthread_barrier_wait(&s->barrier);
    }
}

struct point {
    struct cv_anon_sample overhead_ms, first_ms, asked, numbers, response_ms, spread_ms;
    struct cv_anon_sample after_ms; /* from a resignation to the next leader */
    uint64_t again, failed;
};

static double ms_between(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) / 1e6;
}

static void add_run(struct point *point, const struct shared *s)
{
    int64_t started_ns = INT64_MAX;
    int64_t first_ns = INT64_MAX;
    int64_t resigned_ns = 0;
    int64_t next_ns = INT64_MAX;
    uint32_t asked = 0;
    uint64_t numbers = 0;
    for (uint32_t i = 0; i < CV_ANON_NODES; i++) {
        const struct times *t = &s->times[i];
        if (t->has_failed) {
            point->failed++;
            return;
        }
        started_ns = cv__min64(started_ns, t->started_ns);
        first_ns = cv__min64(first_ns, t->leader_ns);
        resigned_ns = cv__max64(resigned_ns, t->resigned_ns);
        next_ns = cv__min64(next_ns, t->next_leader_ns);
    }
    for (uint32_t i = 0; i < CV_ANON_NODES; i++) {
        const struct times *t = &s->times[i];
        if (t->asked_ns != 0) {
            asked++;
            cv__lab_anon_sample_add(&point->overhead_ms, ms_between(t->asked_ns, t->leader_ns));
        }
        if (t->answers > 0) {
            cv__lab_anon_sample_add(&point->response_ms, t->response_ms_sum / (double)t->answers);
        }
        if (t->leader_ns != first_ns) {
            cv__lab_anon_sample_add(&point->spread_ms, ms_between(first_ns, t->leader_ns));
        }
        numbers += t->answers;
    }
    cv__lab_anon_sample_add(&point->asked, asked);
    cv__lab_anon_sample_add(&point->numbers, (double)numbers);
    cv__lab_anon_sample_add(&point->first_ms, ms_between(started_ns, first_ns));
    if (resigned_ns != 0 && ms_between(resigned_ns, next_ns) < s->eps_ms) {
        cv__lab_anon_sample_add(&point->after_ms, ms_between(resigned_ns, next_ns));
    } else {
        point->again++; /* the process that resigned was elected again, or a false suspicion */
    }
}

struct calibration {
    double one_ms, all_ms; /* time of an answer: for one process, and for ten at once */
};

static bool run_calibration(struct shared *s, struct calibration *c)
{
    do_task(s, TASK_CALIBRATE_ONE);
    c->one_ms = s->times[0].response_ms_sum / CALIBRATE_COUNT;
    bool is_fine = !s->times[0].has_failed;
    do_task(s, TASK_CALIBRATE_ALL);
    c->all_ms = 0;
    for (uint32_t i = 0; i < CV_ANON_NODES; i++) {
        c->all_ms += s->times[i].response_ms_sum / CALIBRATE_COUNT / CV_ANON_NODES;
        is_fine = is_fine && !s->times[i].has_failed;
    }
    return is_fine;
}

/* Ten processes that ask all the time keep the sequencer busy: each waits for ten turns. */
static double seq_ms_of(const struct calibration *c)
{
    return c->all_ms / CV_ANON_NODES;
}

static double par_ms_of(const struct calibration *c)
{
    return fmax(c->one_ms - seq_ms_of(c), 0);
}

/* Eq. 1 as in the simulated half: t_par + R t_seq + 2 t_net, with the measured values. */
static double eq1_ms(const struct calibration *c, uint32_t r, double net_ms)
{
    return par_ms_of(c) + r * seq_ms_of(c) + 2 * net_ms;
}

static bool run_figure(struct shared *s, const char *figure, int eta_ms, int eps_ms, uint64_t runs,
                       const struct calibration *calibration, struct cv_table *table,
                       struct cv_table *eq1, struct cv_lab_report *report)
{
    double round_size[CV_ANON_ROUND_MAX];
    double overhead[CV_ANON_ROUND_MAX];
    uint64_t failed = 0;
    s->eta_ms = eta_ms;
    s->eps_ms = eps_ms;
    for (uint32_t r = 1; r <= CV_ANON_ROUND_MAX; r++) {
        struct point p = {0};
        s->round_size = r;
        for (uint64_t i = 0; i < runs; i++) {
            s->burn = cv__clock_random() % r;
            do_task(s, TASK_BURN);
            do_task(s, TASK_ELECT);
            add_run(&p, s);
        }
        failed += p.failed;
        if (p.overhead_ms.count == 0) {
            return false;
        }
        round_size[r - 1] = r;
        overhead[r - 1] = cv__lab_anon_mean(&p.overhead_ms);
        const double net_ms = cv__lab_anon_mean(&p.spread_ms);
        cv__table_row(
            table, CV_NUMBER(r), CV_NUMBER(overhead[r - 1]),
            CV_NUMBER(cv__lab_anon_interval(&p.overhead_ms)),
            CV_NUMBER(cv__lab_anon_mean(&p.first_ms)),
            CV_NUMBER(cv__lab_anon_interval(&p.first_ms)), CV_NUMBER(cv__lab_anon_mean(&p.asked)),
            CV_NUMBER(cv__lab_anon_mean(&p.numbers)), CV_NUMBER(cv__lab_anon_mean(&p.response_ms)),
            CV_NUMBER(net_ms), CV_NUMBER((double)p.failed));
        cv__table_row(eq1, CV_NUMBER(r), CV_NUMBER(eq1_ms(calibration, r, net_ms)),
                      CV_NUMBER(cv__lab_anon_mean(&p.after_ms)),
                      CV_NUMBER(cv__lab_anon_interval(&p.after_ms)), CV_NUMBER(p.after_ms.max),
                      CV_NUMBER((double)p.again));
    }
    cv__lab_report_table(report, table);
    cv__lab_report_table(report, eq1);
    const struct cv_line line = cv__lab_fit(round_size, overhead, CV_ANON_ROUND_MAX);
    cv__lab_report_claim(report, CV_TOLD,
                         "election time increases roughly as a linear function of the size of the "
                         "round",
                         "fig. %s live: a line with %.3f ms for each number explains %.1f %%; %llu "
                         "runs given up",
                         figure, line.slope, 100 * line.r_squared, (unsigned long long)failed);
    return true;
}

/* ---- The experiment -------------------------------------------------------------------------- */

#define FIG3_COLUMNS                                                                             \
    {                                                                                            \
        {"R", 3, 0, false}, {"overhead_ms", 11, 3, false}, {"ci99_ms", 8, 3, false},             \
            {"first_leader_ms", 15, 3, false}, {"first_ci99_ms", 13, 3, false},                  \
            {"proposers", 9, 1, false}, {"numbers", 8, 1, false}, {"response_ms", 11, 3, false}, \
            {"spread_ms", 9, 3, false}, {"failed", 6, 0, false},                                 \
    }
#define EQ1_COLUMNS                                                                         \
    {                                                                                       \
        {"R", 3, 0, false}, {"eq1_ms", 8, 3, false}, {"mean_ms", 8, 3, false},              \
            {"ci99_ms", 8, 3, false}, {"longest_ms", 10, 3, false}, {"again", 6, 0, false}, \
    }

static bool plot(const struct cv_table *fast, const struct cv_table *slow, const char *folder,
                 const char *sequencer)
{
    char name[64];
    (void)snprintf(name, sizeof name, "anon-live-%.*s", (int)strcspn(sequencer, ":"), sequencer);
    FILE *script = cv__plot_open(folder, name);
    if (script == NULL) {
        return false;
    }
    cv__plot_table(script, fast);
    cv__plot_table(script, slow);
    (void)fprintf(script,
                  "set title 'Election overhead over the size of rounds, live on %.*s, 99 %% "
                  "confidence'\n"
                  "set xlabel 'R, numbers of a round'\nset ylabel 'ms'\nset key left top\n"
                  "set xrange [0:10.5]\nset yrange [0:*]\n"
                  "plot $fig3a_live using 1:2:3 title 'eta = 10 ms, eps = 30 ms' with yerrorlines "
                  "linetype 1 pointtype 7, \\\n"
                  "  $fig3b_live using 1:2:3 title 'eta = 50 ms, eps = 150 ms' with yerrorlines "
                  "linetype 2 pointtype 4\n",
                  (int)strcspn(sequencer, ":"), sequencer);
    return cv__plot_close(script, name);
}

static struct shared *shared_new(void)
{
    struct shared *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) {
        return NULL;
    }
    pthread_barrierattr_t attributes;
    (void)pthread_barrierattr_init(&attributes);
    (void)pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    (void)pthread_barrier_init(&s->barrier, &attributes, CV_ANON_NODES + 1);
    (void)pthread_barrierattr_destroy(&attributes);
    s->run = (uint64_t)getpid() << 32; /* part of the elections' names: two labs never meet */
    s->port = 20000 + (uint32_t)getpid() % 10000;
    return s;
}

static int run_all(struct shared *s, const struct cv_anon_live *settings)
{
    struct cv_table calibrated = {
        .name = "sequencer",
        .about = "The sequencer: time of an answer for one process, and for ten that ask all the "
                 "time; and the\nterms of Eq. 1 that follow",
        .column = {{"one_ms", 8, 3, false},
                   {"ten_ms", 8, 3, false},
                   {"t_par_ms", 9, 3, false},
                   {"t_seq_ms", 9, 3, false}},
    };
    struct cv_table fast = {.name = "fig3a_live",
                            .about = "Fig. 3a live: eta = 10 ms, eps = 30 ms",
                            .column = FIG3_COLUMNS};
    struct cv_table slow = {.name = "fig3b_live",
                            .about = "Fig. 3b live: eta = 50 ms, eps = 150 ms",
                            .column = FIG3_COLUMNS};
    static const char about_eq1[] =
        "Eq. 1 without its eps/2: the leader resigns, and all processes ask at once.\n"
        "again: how often the next leader came later than eps, because the process that had\n"
        "resigned was elected again";
    struct cv_table fast_eq1 = {.name = "eq1a_live", .about = about_eq1, .column = EQ1_COLUMNS};
    struct cv_table slow_eq1 = {.name = "eq1b_live", .about = about_eq1, .column = EQ1_COLUMNS};
    struct calibration c;
    if (!run_calibration(s, &c)) {
        return cv__cannot("%s", s->error);
    }
    struct cv_lab_report report = {.experiment = "anon-live", .is_json = settings->is_json};
    cv__lab_report_begin(&report,
                         "The measurements of [Wiesmann07, sec. 7] with ten real processes, "
                         "multicast on the\nloopback interface and a real sequencer.");
    cv__table_row(&calibrated, CV_NUMBER(c.one_ms), CV_NUMBER(c.all_ms), CV_NUMBER(par_ms_of(&c)),
                  CV_NUMBER(seq_ms_of(&c)));
    cv__lab_report_table(&report, &calibrated);
    const bool is_fine =
        run_figure(s, "3a", 10, 30, settings->runs, &c, &fast, &fast_eq1, &report) &&
        run_figure(s, "3b", 50, 150, settings->runs, &c, &slow, &slow_eq1, &report);
    int status = cv__lab_report_end(&report);
    if (!is_fine) {
        status = cv__cannot("%s", s->error[0] != '\0' ? s->error : "no leader was elected");
    } else if (settings->folder != NULL && cv__plot_can() &&
               !plot(&fast, &slow, settings->folder, settings->sequencer)) {
        status = EXIT_USAGE;
    }
    cv__table_fini(&calibrated);
    cv__table_fini(&fast);
    cv__table_fini(&slow);
    cv__table_fini(&fast_eq1);
    cv__table_fini(&slow_eq1);
    return status;
}

int cv__lab_anon_live(const struct cv_anon_live *settings)
{
    struct shared *s = shared_new();
    if (s == NULL) {
        return cv__cannot("no shared memory: %s", strerror(errno));
    }
    pid_t child[CV_ANON_NODES];
    for (uint32_t i = 0; i < CV_ANON_NODES; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            be_process(s, i, settings->sequencer);
        }
        if (child[i] < 0) { /* those already started end with this process */
            return cv__cannot("cannot start a process: %s", strerror(errno));
        }
    }
    const int status = run_all(s, settings);
    do_task(s, TASK_END);
    for (uint32_t i = 0; i < CV_ANON_NODES; i++) {
        (void)waitpid(child[i], NULL, 0);
    }
    (void)munmap(s, sizeof *s);
    return status;
}
