/* src/lab/auto.c - `conclave lab auto`: profile=auto of `pole` against the fixed profiles, in
 * random networks.
 *
 * A network has three or five nodes. The longest round trip between two of them is drawn from 0.1
 * to 150 ms, evenly on a logarithmic scale; the round trips of the other pairs are between a
 * quarter of it and all of it. Jitter adds 1 to 20 % to each delay on average, with a heavy tail
 * (Pareto). Half of the networks lose messages, up to 5 %. In half of the networks nodes are
 * scheduled late. Such a node is late with its timers and with its messages, so lateness is
 * modelled by pauses of 1 to 20 ms, of any node at any time, 0.1 to 10 in a second in the whole
 * network. Clocks drift by up to 100 ppm.
 *
 * Each profile runs in each network with the same seed, so delays, drift and pauses are the same.
 * First nothing fails for two minutes, enough time for `auto` to narrow its lease. Then the leader
 * crashes, at any instant between two heartbeats. */
#include "lab/auto.h"

#include "base/command.h"

#include <math.h>

#define STREAM 904u
#define NETWORKS 1000u
#define NETWORKS_TINY 6u
#define RUNS_MAX 100u
#define ENOUGH 300u /* means of fewer networks say little: they are printed, not judged */

#define RTT_MS_MIN 0.1
#define RTT_MS_MAX 150.0
#define NODES_MAX 5u
#define LATE_MS_MAX 20 /* longest pause */
#define LATES 5        /* as in pole_tune.c */

#define FROM_NS (10 * NS_PER_S)   /* the first election is over */
#define QUIET_NS (120 * NS_PER_S) /* time without a fault, the same for all profiles */
#define LOOK_NS (100 * NS_PER_MS)
#define CRASH_MS 100             /* the leader crashes within this time after that */
#define STEP_NS (NS_PER_MS / 10) /* resolution of the time to the next leader */
#define LIMIT_NS (10 * NS_PER_S) /* without a common leader for longer: counted as no leader */
#define RUN_S 1000               /* longer than any run, so the end of a world is not judged */

enum { LOOPBACK, LAN, WAN, AUTO, PROFILE_COUNT };
static const char *const profiles[] = {"loopback", "lan", "wan", "auto"};

/* Classes by the longest round trip and by disturbance: none, losses, or lateness; then all. */
enum {
    LAN_QUIET,
    LAN_LOSSY,
    LAN_BUSY,
    STATE_COUNT,
    CLASS_COUNT = 3 * STATE_COUNT,
    ALL = CLASS_COUNT
};
static const char *const places[] = {"LAN", "metro", "WAN", "all"};
static const char *const states[] = {"quiet", "lossy", "busy", "all"};

static const char *place_of(uint32_t class)
{
    return places[class / STATE_COUNT];
}

static const char *state_of(uint32_t class)
{
    return states[class == ALL ? STATE_COUNT : class % STATE_COUNT];
}

/* ---- Networks -------------------------------------------------------------------------------- */

struct network {
    uint32_t node_count;
    double rtt_ms[NODES_MAX + 1][NODES_MAX + 1]; /* [smaller id][larger id] */
    double longest_ms, jitter_pct, loss_pct;
    double pauses; /* per second */
    int64_t crash_ns;
};

static double between(struct sim_rng *rng, double least, double most)
{
    return least + (most - least) * sim_rng_unit(rng);
}

static double between_log(struct sim_rng *rng, double least, double most)
{
    return least * pow(most / least, sim_rng_unit(rng));
}

static struct network draw_network(uint64_t seed)
{
    struct sim_rng rng;
    sim_rng_init(&rng, seed, STREAM);
    struct network n = {.node_count = sim_rng_range(&rng, 0, 1) == 0 ? 3 : 5,
                        .longest_ms = between_log(&rng, RTT_MS_MIN, RTT_MS_MAX),
                        .jitter_pct = between_log(&rng, 1, 20)};
    const cv_id far = (cv_id)sim_rng_range(&rng, 2, n.node_count);
    for (cv_id id = 2; id <= n.node_count; id++) {
        for (cv_id other = 1; other < id; other++) {
            n.rtt_ms[other][id] = n.longest_ms * between(&rng, 0.25, 1);
        }
    }
    n.rtt_ms[sim_rng_range(&rng, 1, far - 1)][far] = n.longest_ms;
    const bool loses = sim_rng_range(&rng, 0, 1) == 1;
    const bool is_late = sim_rng_range(&rng, 0, 1) == 1;
    n.loss_pct = loses ? between(&rng, 0, 5) : 0;
    n.pauses = is_late ? between_log(&rng, 0.1, 10) : 0;
    n.crash_ns = FROM_NS + QUIET_NS + sim_rng_range(&rng, 0, CRASH_MS * NS_PER_MS);
    return n;
}

static uint32_t class_of(const struct network *n)
{
    const uint32_t place = n->longest_ms < 1 ? 0 : n->longest_ms <= 10 ? 1 : 2;
    const uint32_t state = n->pauses > 0 ? 2 : n->loss_pct > 0 ? 1 : 0;
    return STATE_COUNT * place + state;
}

static struct sim_scenario *scenario_of(const struct network *n, const char *profile)
{
    char links[640], pauses[96] = "";
    size_t length = 0;
    for (cv_id id = 2; id <= n->node_count; id++) {
        for (cv_id other = 1; other < id; other++) {
            const int added =
                snprintf(links + length, sizeof links - length, "link %u-%u delay %.6fms\n", other,
                         id, n->rtt_ms[other][id] / 2);
            CV_ASSERT(added > 0 && (size_t)added < sizeof links - length);
            length += (size_t)added;
        }
    }
    if (n->pauses > 0) {
        const int added =
            snprintf(pauses, sizeof pauses,
                     "random faults rate %.6f/s kinds pause lasting 1ms..%dms "
                     "until %llds\n",
                     n->pauses, LATE_MS_MAX, (long long)((n->crash_ns + 2 * LIMIT_NS) / NS_PER_S));
        CV_ASSERT(added > 0 && (size_t)added < sizeof pauses);
    }
    return cv__lab_scenario("protocol pole profile=%s\nnodes %u\nstart within 50ms\n"
                            "clock * drift random 100ppm\n"
                            "link * jitter %.6f%% dist=pareto loss %.6f%%\n%s%srun %ds\n",
                            profile, n->node_count, n->jitter_pct, n->loss_pct, links, pauses,
                            RUN_S);
}

/* ---- One run --------------------------------------------------------------------------------- */

struct outcome {
    uint64_t changes;   /* leaderships that began in the time without a fault */
    double led_share;   /* share of that time with a leader */
    double failover_ms; /* NAN: no leader in time */
    bool is_sound;
};

static double led_share(struct sim_world *w)
{
    uint32_t looked = 0;
    uint32_t led = 0;
    for (int64_t at_ns = FROM_NS + LOOK_NS; at_ns <= FROM_NS + QUIET_NS; at_ns += LOOK_NS) {
        sim_world_run(w, at_ns);
        looked++;
        led += cv__lab_leader(w) != CV_ID_NONE;
    }
    return (double)led / looked;
}

/* Is there a leader that all running nodes follow? */
static bool is_led(const struct sim_world *w)
{
    const cv_id leader = cv__lab_leader(w);
    for (cv_id id = 1; id <= w->node_count && leader != CV_ID_NONE; id++) {
        if (w->node[id - 1].is_up && w->properties.node[id - 1].leader != leader) {
            return false;
        }
    }
    return leader != CV_ID_NONE;
}

static bool await(struct sim_world *w, bool (*is_done)(const struct sim_world *))
{
    const int64_t limit_ns = w->now_ns + LIMIT_NS;
    while (!is_done(w) && w->now_ns < limit_ns) {
        sim_world_run(w, w->now_ns + STEP_NS);
    }
    return is_done(w);
}

static bool has_leader(const struct sim_world *w)
{
    return cv__lab_leader(w) != CV_ID_NONE;
}

static double fail_over(struct sim_world *w)
{
    if (!await(w, has_leader)) {
        return NAN;
    }
    const int64_t crash_ns = w->now_ns + 1;
    const struct sim_action crash = {
        .at_ns = crash_ns, .kind = SIM_ACTION_CRASH, .node = cv__lab_leader(w)};
    sim_world_schedule_action(w, &crash);
    sim_world_run(w, crash_ns);
    return await(w, is_led) ? (double)(w->now_ns - crash_ns) / NS_PER_MS : NAN;
}

static struct outcome run(const struct network *n, const char *profile, uint64_t seed)
{
    struct sim_scenario *scenario = scenario_of(n, profile);
    const struct sim_world_options options = {0};
    struct sim_world *w = cv__lab_world(scenario, seed, &options);
    struct outcome o = {0};
    sim_world_run(w, FROM_NS);
    const uint64_t before = w->begun_count;
    o.led_share = led_share(w);
    o.changes = w->begun_count - before;
    sim_world_run(w, n->crash_ns);
    o.failover_ms = fail_over(w);
    o.is_sound = cv__lab_is_sound(w);
    sim_world_free(w);
    sim_scenario_free(scenario);
    return o;
}

/* ---- What was seen --------------------------------------------------------------------------- */

struct tally {
    struct cv_samples failover_ms;
    uint64_t run_count, changes, leaderless;
    double led; /* sum of the shares of time with a leader */
};

static void count(struct tally *t, const struct outcome *o)
{
    t->run_count++;
    t->changes += o->changes;
    t->led += o->led_share;
    if (isnan(o->failover_ms)) {
        t->leaderless++;
    } else {
        cv__samples_add(&t->failover_ms, o->failover_ms);
    }
}

static double mean_ms(const struct tally *t)
{
    return t->failover_ms.count > 0 ? cv__samples_mean(&t->failover_ms) : NAN;
}

static double changes_per_hour(const struct tally *t)
{
    const double hours = (double)t->run_count * QUIET_NS / NS_PER_S / 3600;
    return t->run_count > 0 ? (double)t->changes / hours : NAN;
}

/* A profile is unusable if it changes leaders more than once in an hour or elects none. */
static bool is_stable(const struct tally *t)
{
    return t->leaderless == 0 && changes_per_hour(t) <= 1;
}

struct lab {
    struct cv_lab_auto tables;
    struct cv_lab_report report;
    struct tally tally[CLASS_COUNT + 1][PROFILE_COUNT];
    struct tally bin[CV_LAB_AUTO_BINS][PROFILE_COUNT]; /* by the longest round trip */
    uint64_t network_count, unsound_count;
};

static uint32_t bin_of(const struct network *n)
{
    const double at = log(n->longest_ms / RTT_MS_MIN) / log(RTT_MS_MAX / RTT_MS_MIN);
    const uint32_t bin = (uint32_t)(at * CV_LAB_AUTO_BINS);
    return bin < CV_LAB_AUTO_BINS ? bin : CV_LAB_AUTO_BINS - 1;
}

static void measure(struct lab *lab, uint64_t first_seed, uint64_t run_count)
{
    for (uint64_t i = 0; i < lab->network_count; i++) {
        const struct network n = draw_network(first_seed + i);
        const uint32_t class = class_of(&n);
        for (uint64_t k = 0; k < run_count * PROFILE_COUNT; k++) {
            const uint32_t profile = k % PROFILE_COUNT;
            const uint64_t seed = (first_seed + i) * RUNS_MAX + k / PROFILE_COUNT;
            const struct outcome o = run(&n, profiles[profile], seed);
            count(&lab->tally[class][profile], &o);
            count(&lab->tally[ALL][profile], &o);
            count(&lab->bin[bin_of(&n)][profile], &o);
            lab->unsound_count += !o.is_sound;
        }
    }
}

static void fill_tables(struct lab *lab)
{
    for (uint32_t class = 0; class <= ALL; class ++) {
        for (uint32_t i = 0; i < PROFILE_COUNT && lab->tally[class][i].run_count > 0; i++) {
            struct tally *t = &lab->tally[class][i];
            cv__table_row(
                &lab->tables.classes, CV_TEXT(place_of(class)), CV_TEXT(state_of(class)),
                CV_NUMBER((double)t->run_count), CV_TEXT(profiles[i]), CV_NUMBER(mean_ms(t)),
                CV_NUMBER(t->failover_ms.count > 0 ? cv__samples_percentile(&t->failover_ms, 95)
                                                   : NAN),
                CV_NUMBER((double)t->changes), CV_NUMBER(changes_per_hour(t)),
                CV_NUMBER(100 * t->led / (double)t->run_count), CV_NUMBER((double)t->leaderless));
        }
    }
    for (uint32_t bin = 0; bin < CV_LAB_AUTO_BINS; bin++) {
        const struct tally *t = lab->bin[bin];
        const double middle_ms =
            RTT_MS_MIN * pow(RTT_MS_MAX / RTT_MS_MIN, (bin + 0.5) / CV_LAB_AUTO_BINS);
        cv__table_row(&lab->tables.curve, CV_NUMBER(middle_ms), CV_NUMBER(mean_ms(&t[0])),
                      CV_NUMBER(mean_ms(&t[1])), CV_NUMBER(mean_ms(&t[2])),
                      CV_NUMBER(mean_ms(&t[3])), CV_NUMBER(changes_per_hour(&t[0])),
                      CV_NUMBER(changes_per_hour(&t[1])), CV_NUMBER(changes_per_hour(&t[2])),
                      CV_NUMBER(changes_per_hour(&t[3])));
    }
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

/* The fastest fixed profile that is stable in this class; AUTO: none is. */
static uint32_t best_fixed(const struct tally *by_profile)
{
    uint32_t best = AUTO;
    for (uint32_t i = 0; i < AUTO; i++) {
        if (is_stable(&by_profile[i]) &&
            (best == AUTO || mean_ms(&by_profile[i]) < mean_ms(&by_profile[best]))) {
            best = i;
        }
    }
    return best;
}

/* An operator who knows the class of a network can choose the best fixed profile for it. `auto`
 * does not claim to be faster than that profile: the comparison is printed, not judged. */
static void tell_class(struct lab *lab, uint32_t class)
{
    static const char *const said[] = {"LAN, quiet: beside the best fixed profile",
                                       "LAN, lossy: the same",
                                       "LAN, busy: the same",
                                       "metro, quiet: the same",
                                       "metro, lossy: the same",
                                       "metro, busy: the same",
                                       "WAN, quiet: the same",
                                       "WAN, lossy: the same",
                                       "WAN, busy: the same"};
    const struct tally *t = lab->tally[class];
    const uint32_t best = best_fixed(t);
    if (t[AUTO].run_count == 0) {
        return;
    }
    if (best == AUTO) {
        cv__lab_report_claim(&lab->report, CV_TOLD, said[class],
                             "auto %.1f ms; no fixed profile is stable", mean_ms(&t[AUTO]));
        return;
    }
    const double times = mean_ms(&t[AUTO]) / mean_ms(&t[best]);
    cv__lab_report_claim(&lab->report, CV_TOLD, said[class],
                         "auto %.1f ms, %s %s with %.1f ms (%+.0f %%)", mean_ms(&t[AUTO]),
                         times < 1 ? "faster than" : "slower than", profiles[best],
                         mean_ms(&t[best]), 100 * (times - 1));
}

/* The failover time of a profile in all runs of a range of classes. */
struct average {
    double mean_ms;  /* NAN: no run */
    double error_ms; /* the standard error of the mean */
};

static struct average average(const struct lab *lab, uint32_t first, uint32_t last,
                              uint32_t profile)
{
    double sum = 0, squares = 0;
    double count = 0;
    for (uint32_t class = first; class <= last; class ++) {
        const struct cv_samples *samples = &lab->tally[class][profile].failover_ms;
        for (size_t i = 0; i < samples->count; i++) {
            sum += samples->value[i];
            squares += samples->value[i] * samples->value[i];
        }
        count += (double)samples->count;
    }
    const double mean = count > 0 ? sum / count : NAN;
    return (struct average){mean, sqrt(fmax(0, squares / count - mean * mean) / count)};
}

/* "On a LAN as fast as `loopback` allows with the measured lateness." Without late nodes this means
 * as fast as `loopback`: not slower by more than the noise of the two means, twice their standard
 * error. With late nodes `loopback` changes leaders all the time: not a yardstick. There the rule
 * of pole_tune.c is checked: a lease of LATES times the lateness, which is at most LATE_MS_MAX. A
 * lease that widened without need would be longer. */
static void judge_lan(struct lab *lab, bool is_judged)
{
    const struct average quick = average(lab, LAN_QUIET, LAN_LOSSY, LOOPBACK);
    const struct average own = average(lab, LAN_QUIET, LAN_LOSSY, AUTO);
    const struct average late = average(lab, LAN_BUSY, LAN_BUSY, AUTO);
    const double noise_ms = 2 * hypot(quick.error_ms, own.error_ms);
    const double most_ms = quick.mean_ms + LATES * LATE_MS_MAX;
    if (!isnan(own.mean_ms)) {
        cv__lab_report_claim(
            &lab->report, is_judged ? CV_JUDGED(own.mean_ms <= quick.mean_ms + noise_ms) : CV_TOLD,
            "LANs without late nodes: auto is as fast as loopback",
            "auto %.2f ms, loopback %.2f ms; noise %.2f ms", own.mean_ms, quick.mean_ms, noise_ms);
    }
    if (!isnan(late.mean_ms) && !isnan(most_ms)) {
        cv__lab_report_claim(
            &lab->report, is_judged ? CV_JUDGED(late.mean_ms <= most_ms) : CV_TOLD,
            "LANs with late nodes: auto is slower than loopback without late nodes by at most "
            "five times the longest lateness",
            "auto %.1f ms, %.1f ms allowed", late.mean_ms, most_ms);
    }
}

static void judge_all(struct lab *lab, bool is_judged)
{
    const struct tally *t = lab->tally[ALL];
    const uint32_t best = best_fixed(t);
    const bool is_faster = best == AUTO || mean_ms(&t[AUTO]) < mean_ms(&t[best]);
    cv__lab_report_claim(&lab->report, is_judged ? CV_JUDGED(is_faster) : CV_TOLD,
                         "all networks: auto is faster than every fixed profile that is stable in "
                         "all",
                         "auto %.1f ms, %s %.1f ms", mean_ms(&t[AUTO]),
                         best == AUTO ? "none is stable:" : profiles[best],
                         best == AUTO ? 0.0 : mean_ms(&t[best]));
}

static void judge(struct lab *lab)
{
    const struct tally *all = lab->tally[ALL];
    const bool is_judged = lab->network_count >= ENOUGH;
    const double more = (double)all[AUTO].changes - (double)all[WAN].changes;
    const double noise = 2 * sqrt((double)(all[AUTO].changes + all[WAN].changes));
    cv__lab_report_claim(&lab->report, CV_JUDGED(more <= noise),
                         "auto changes leaders without a fault no more often than wan",
                         "auto %llu, wan %llu in %.1f hours each",
                         (unsigned long long)all[AUTO].changes,
                         (unsigned long long)all[WAN].changes,
                         (double)all[AUTO].run_count * QUIET_NS / NS_PER_S / 3600);
    cv__lab_report_claim(&lab->report, CV_JUDGED(all[AUTO].leaderless == 0),
                         "auto elects a leader in every network, and another after its crash",
                         "%llu of %llu runs without", (unsigned long long)all[AUTO].leaderless,
                         (unsigned long long)all[AUTO].run_count);
    judge_all(lab, is_judged);
    judge_lan(lab, is_judged);
    cv__lab_report_claim(&lab->report, CV_JUDGED(lab->unsound_count == 0),
                         "no profile breaks a promise in any network", "%llu runs: %s",
                         (unsigned long long)all[AUTO].run_count * PROFILE_COUNT,
                         lab->unsound_count == 0 ? "none broken" : "some broken");
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        tell_class(lab, class);
    }
}

/* ---- The experiment -------------------------------------------------------------------------- */

static const struct cv_lab_auto empty = {
    .classes = {.name = "classes",
                .about = "Longest round trip: LAN below 1 ms, metro up to 10 ms, WAN above. lossy: "
                         "messages are lost, no node is late;\nbusy: nodes are late, and "
                         "messages may be lost. mean_ms, p95_ms: from the leader's crash until "
                         "all nodes\nfollow another. changes: leaderships that began without a "
                         "fault; led_pct: share of that time with a\nleader; leaderless: runs "
                         "without a leader in time.",
                .column = {{"network", 7, 0, true},
                           {"state", 5, 0, true},
                           {"runs", 5, 0, false},
                           {"profile", 8, 0, true},
                           {"mean_ms", 8, 1, false},
                           {"p95_ms", 8, 1, false},
                           {"changes", 8, 0, false},
                           {"per_hour", 9, 2, false},
                           {"led_pct", 7, 2, false},
                           {"leaderless", 10, 0, false}}},
    .curve = {.name = "curve",
              .column = {{"rtt_ms", 0, 0, false},
                         {"loopback_ms", 0, 0, false},
                         {"lan_ms", 0, 0, false},
                         {"wan_ms", 0, 0, false},
                         {"auto_ms", 0, 0, false},
                         {"loopback_per_hour", 0, 0, false},
                         {"lan_per_hour", 0, 0, false},
                         {"wan_per_hour", 0, 0, false},
                         {"auto_per_hour", 0, 0, false}}},
};

static void lab_fini(struct lab *lab)
{
    for (uint32_t i = 0; i < PROFILE_COUNT; i++) {
        for (uint32_t class = 0; class <= ALL; class ++) {
            cv__samples_fini(&lab->tally[class][i].failover_ms);
        }
        for (uint32_t bin = 0; bin < CV_LAB_AUTO_BINS; bin++) {
            cv__samples_fini(&lab->bin[bin][i].failover_ms);
        }
    }
    cv__table_fini(&lab->tables.classes);
    cv__table_fini(&lab->tables.curve);
}

int cv__lab_auto(int argc, char **argv)
{
    struct lab lab = {.tables = empty};
    struct cv_lab_options options;
    if (!cv__lab_options_read(argc, argv, "auto", "rst", 1, RUNS_MAX, &options)) {
        return EXIT_USAGE;
    }
    const bool draws = options.folder != NULL && cv__plot_can();
    lab.network_count = options.random_count > 0 ? options.random_count
                        : options.is_tiny        ? NETWORKS_TINY
                                                 : NETWORKS;
    lab.report = (struct cv_lab_report){.experiment = "auto", .is_json = options.is_json};
    cv__lab_report_begin(
        &lab.report, "profile=auto of `pole` against the fixed profiles, in random networks of "
                     "3 or 5 nodes with round trips of 0.1 to\n150 ms. Half of the networks lose "
                     "up to 5 % of messages; in half of them nodes pause for 1 to 20 ms. "
                     "After two\nminutes without a fault the leader crashes.");
    measure(&lab, options.seed > 0 ? options.seed : 1,
            options.run_count > 0 ? options.run_count : 1);
    fill_tables(&lab);
    cv__lab_report_table(&lab.report, &lab.tables.classes);
    judge(&lab);
    int status = cv__lab_report_end(&lab.report);
    if (draws && !cv__lab_auto_plot(&lab.tables, options.folder)) {
        status = EXIT_USAGE;
    }
    lab_fini(&lab);
    return status;
}
