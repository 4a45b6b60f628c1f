/* src/lab/lab.c - what the experiments of `conclave lab` share; see lab.h. */
#include "lab/lab.h"

#include "base/command.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/screen.h"
#include "os/clock.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool option_apply(int option, uint64_t runs_min, uint64_t runs_max, struct cv_lab_options *o)
{
    switch (option) {
    case 'p':
        o->folder = optarg;
        return true;
    case 'r':
        return cv__command_number("--runs", optarg, runs_min, runs_max, &o->run_count);
    case 'n':
        return cv__command_number("--random", optarg, 1, 1000000, &o->random_count);
    case 's':
        return cv__command_number("--seed", optarg, 1, UINT32_MAX, &o->seed);
    case 'l':
        o->live = optarg; /* NULL: this experiment's --live takes no address */
        o->is_live = true;
        return true;
    case 'j':
        o->is_json = true;
        return true;
    case 't':
        o->is_tiny = true;
        return true;
    default:
        return false; /* a message was printed */
    }
}

/* Can files be written to this folder? If not, one line on stderr says so. */
static bool is_folder(const char *folder)
{
    char inside[PATH_MAX];
    const int need = snprintf(inside, sizeof inside, "%s/.", folder);
    if (need > 0 && (size_t)need < sizeof inside && access(inside, W_OK | X_OK) == 0) {
        return true;
    }
    (void)fprintf(stderr, "conclave: cannot write plots to the folder '%s'\n", folder);
    return false;
}

bool cv__lab_options_read(int argc, char **argv, const char *experiment, const char *more,
                          uint64_t runs_min, uint64_t runs_max, struct cv_lab_options *ret_options)
{
    static const struct option known[] = {
        {"plots", required_argument, NULL, 'p'},  {"runs", required_argument, NULL, 'r'},
        {"json", no_argument, NULL, 'j'},         {"live", required_argument, NULL, 'l'},
        {"random", required_argument, NULL, 'n'}, {"tiny", no_argument, NULL, 't'},
        {"seed", required_argument, NULL, 's'},
    };
    struct option longs[COUNT_OF(known) + 1] = {{0}};
    uint32_t count = 0;
    for (uint32_t i = 0; i < COUNT_OF(known); i++) {
        if (strchr("prj", known[i].val) != NULL || strchr(more, known[i].name[0]) != NULL) {
            longs[count++] = known[i];
            if (known[i].val == 'l' && strchr(more, 'L') == NULL) {
                longs[count - 1].has_arg = no_argument;
            }
        }
    }
    *ret_options = (struct cv_lab_options){0};
    int option;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
        if (!option_apply(option, runs_min, runs_max, ret_options)) {
            return false;
        }
    }
    if (optind < argc) {
        cv__complain("lab %s takes options only, not '%s'", experiment, argv[optind]);
        return false;
    }
    return ret_options->folder == NULL || is_folder(ret_options->folder);
}

struct sim_scenario *cv__lab_scenario(const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CV_ASSERT(length > 0 && (size_t)length < sizeof text);
    struct sim_scenario *scenario;
    struct cv_errtext why;
    if (sim_scenario_parse("lab", text, (size_t)length, &scenario, &why) != CV_OK) {
        (void)fprintf(stderr, "conclave: %s\n", why.text);
        abort(); /* the text is ours */
    }
    return scenario;
}

/* ---- Progress -------------------------------------------------------------------------------- */

#define PROGRESS_NS (100 * NS_PER_MS)

/* The progress of the experiment; all its worlds run in one thread. */
static struct {
    uint64_t run_count;
    int64_t begin_ns, shown_ns;
    bool is_shown;
} progress;

struct sim_world *cv__lab_world(const struct sim_scenario *scenario, uint64_t seed,
                                const struct sim_world_options *options)
{
    const int64_t now_ns = cv__clock_now_ns();
    progress.begin_ns = progress.run_count == 0 ? now_ns : progress.begin_ns;
    progress.run_count++;
    if (now_ns - progress.shown_ns >= PROGRESS_NS && cv__screen_shows_progress()) {
        progress.is_shown = true;
        progress.shown_ns = now_ns;
        char line[64];
        (void)snprintf(line, sizeof line, "%llu runs, %lld s ",
                       (unsigned long long)progress.run_count,
                       (long long)((now_ns - progress.begin_ns) / NS_PER_S));
        cv__screen_progress(line);
    }
    return sim_world_new(scenario, seed, options);
}

/* Erases the line of progress before a result is printed. */
static void progress_clear(void)
{
    if (progress.is_shown) {
        progress.is_shown = false;
        cv__screen_progress("");
    }
}

cv_id cv__lab_leader(const struct sim_world *w)
{
    for (cv_id id = 1; id <= w->node_count; id++) {
        if (sim_world_holds(w, id)) {
            return id;
        }
    }
    return CV_ID_NONE;
}

bool cv__lab_is_sound(const struct sim_world *w)
{
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        if ((w->scenario->promises & BIT(i)) != 0 && w->properties.broken[i].is_broken) {
            return false;
        }
    }
    return !w->is_over;
}

/* ---- Samples --------------------------------------------------------------------------------- */

void cv__samples_add(struct cv_samples *s, double value)
{
    s->value = cv__grow(s->value, &s->capacity, s->count, sizeof *s->value);
    s->value[s->count++] = value;
    s->is_sorted = false;
}

double cv__samples_mean(const struct cv_samples *s)
{
    CV_ASSERT(s->count > 0);
    double sum = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        sum += s->value[i];
    }
    return sum / s->count;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

double cv__samples_percentile(struct cv_samples *s, double percent)
{
    CV_ASSERT(s->count > 0);
    CV_ASSERT(percent >= 0 && percent <= 100);
    if (!s->is_sorted) {
        qsort(s->value, s->count, sizeof *s->value, compare);
        s->is_sorted = true;
    }
    const double rank = ceil(percent / 100 * s->count);
    return s->value[rank < 1 ? 0 : (uint32_t)rank - 1];
}

void cv__samples_fini(struct cv_samples *s)
{
    free(s->value);
    memset(s, 0, sizeof *s);
}

struct cv_line cv__lab_fit(const double *x, const double *y, uint32_t count)
{
    CV_ASSERT(count >= 2);
    double mean_x = 0;
    double mean_y = 0;
    for (uint32_t i = 0; i < count; i++) {
        mean_x += x[i] / count;
        mean_y += y[i] / count;
    }
    double xx = 0;
    double xy = 0;
    double yy = 0;
    for (uint32_t i = 0; i < count; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
        yy += (y[i] - mean_y) * (y[i] - mean_y);
    }
    CV_ASSERT(xx > 0);
    const double slope = xy / xx;
    return (struct cv_line){slope, mean_y - slope * mean_x, yy > 0 ? xy * xy / (xx * yy) : 1};
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static uint32_t column_count(const struct cv_table *table)
{
    uint32_t count = 0;
    while (count < CV_COLUMNS_MAX && table->column[count].name != NULL) {
        count++;
    }
    return count;
}

void cv__table_add(struct cv_table *table, const struct cv_cell *cell, uint32_t count)
{
    CV_ASSERT(count == column_count(table));
    for (uint32_t i = 0; i < count; i++) {
        CV_ASSERT(table->column[i].is_text == (cell[i].text != NULL));
        table->cell =
            cv__grow(table->cell, &table->cell_capacity, table->cell_count, sizeof *table->cell);
        table->cell[table->cell_count++] = cell[i];
    }
}

void cv__table_fini(struct cv_table *table)
{
    free(table->cell);
    table->cell = NULL;
    table->cell_count = 0;
    table->cell_capacity = 0;
}

/* Prints a cell. Texts are aligned left, numbers right. */
static void print_cell(const struct cv_column *column, const struct cv_cell *cell, bool is_last)
{
    const int width = (int)column->width;
    if (column->is_text) {
        (void)printf("%-*s", is_last ? 0 : width, cell->text);
    } else if (isnan(cell->number)) {
        (void)printf("%*s", width, "-");
    } else {
        (void)printf("%*.*f", width, (int)column->decimals, cell->number);
    }
}

static uint32_t table_width(const struct cv_table *table, uint32_t columns)
{
    uint32_t width = 0;
    for (uint32_t i = 0; i < columns; i++) {
        const uint32_t name_width = (uint32_t)strlen(table->column[i].name);
        width += 2 + (name_width > table->column[i].width ? name_width : table->column[i].width);
    }
    return width - 2;
}

/* If the screen is too narrow for the table, a row is "name value, name value ...". */
static void print_rows(const struct cv_table *table, uint32_t columns)
{
    for (uint32_t i = 0; i < table->cell_count; i++) {
        const uint32_t at = i % columns;
        const struct cv_column bare = {.is_text = table->column[at].is_text,
                                       .decimals = table->column[at].decimals};
        (void)printf("%s ", table->column[at].name);
        print_cell(&bare, &table->cell[i], /* is_last= */ true);
        (void)printf("%s", at + 1 == columns ? "\n" : ", ");
    }
}

static void print_table(const struct cv_table *table)
{
    const uint32_t columns = column_count(table);
    (void)printf("\n%s\n\n", table->about);
    if (table_width(table, columns) > cv__screen_limit()) {
        print_rows(table, columns);
        return;
    }
    for (uint32_t i = 0; i < columns; i++) {
        const struct cv_column *column = &table->column[i];
        const int width = (int)column->width;
        (void)printf(column->is_text ? "%s%-*s" : "%s%*s", i > 0 ? "  " : "",
                     column->is_text && i + 1 == columns ? 0 : width, column->name);
    }
    for (uint32_t i = 0; i < table->cell_count; i++) {
        const uint32_t at = i % columns;
        (void)printf("%s", at == 0 ? "\n" : "  ");
        print_cell(&table->column[at], &table->cell[i], at + 1 == columns);
    }
    (void)printf("\n");
}

static void json_table(const struct cv_table *table)
{
    const uint32_t columns = column_count(table);
    struct cv_json json = {.out = stdout, .needs_comma = true};
    cv__json_open(&json, table->name, '[');
    for (uint32_t i = 0; i < table->cell_count; i++) {
        const struct cv_column *column = &table->column[i % columns];
        if (i % columns == 0) {
            cv__json_open(&json, NULL, '{');
        }
        if (column->is_text) {
            cv__json_text(&json, column->name, table->cell[i].text);
        } else if (isnan(table->cell[i].number)) {
            cv__json_null(&json, column->name);
        } else {
            cv__json_double(&json, column->name, table->cell[i].number);
        }
        if (i % columns == columns - 1) {
            cv__json_close(&json, '}');
        }
    }
    cv__json_close(&json, ']');
}

/* ---- The report ------------------------------------------------------------------------------ */

static const char *const agreement_names[] = {
    [CV_AGREES] = "agrees",
    [CV_DISAGREES] = "DISAGREES",
    [CV_TOLD] = "not judged",
};

void cv__lab_report_begin(struct cv_lab_report *report, const char *about)
{
    if (!report->is_json) {
        (void)printf("%s\n", about);
        return;
    }
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "experiment", report->experiment);
}

void cv__lab_report_table(struct cv_lab_report *report, const struct cv_table *table)
{
    progress_clear();
    if (report->is_json) {
        json_table(table);
    } else {
        print_table(table);
    }
    (void)fflush(stdout); /* an experiment takes minutes: show what is there */
}

void cv__lab_report_claim(struct cv_lab_report *report, enum cv_agreement agreement,
                          const char *said, const char *seen_format, ...)
{
    report->claim = cv__grow(report->claim, &report->claim_capacity, report->claim_count,
                             sizeof *report->claim);
    struct cv_claim *claim = &report->claim[report->claim_count++];
    claim->said = said;
    claim->agreement = agreement;
    va_list args;
    va_start(args, seen_format);
    (void)vsnprintf(claim->seen, sizeof claim->seen, seen_format, args);
    va_end(args);
    report->has_failed = report->has_failed || agreement == CV_DISAGREES;
}

static void print_claims(const struct cv_lab_report *report)
{
    (void)printf("\nClaims, and what was seen:\n\n");
    for (uint32_t i = 0; i < report->claim_count; i++) {
        const struct cv_claim *claim = &report->claim[i];
        (void)printf("%-10s  %s\n%-10s  seen: %s\n", agreement_names[claim->agreement], claim->said,
                     "", claim->seen);
    }
}

static void json_claims(const struct cv_lab_report *report)
{
    struct cv_json json = {.out = stdout, .needs_comma = true};
    cv__json_open(&json, "claims", '[');
    for (uint32_t i = 0; i < report->claim_count; i++) {
        const struct cv_claim *claim = &report->claim[i];
        cv__json_open(&json, NULL, '{');
        cv__json_text(&json, "said", claim->said);
        cv__json_text(&json, "seen", claim->seen);
        if (claim->agreement == CV_TOLD) {
            cv__json_null(&json, "agrees");
        } else {
            cv__json_bool(&json, "agrees", claim->agreement == CV_AGREES);
        }
        cv__json_close(&json, '}');
    }
    cv__json_close(&json, ']');
    cv__json_bool(&json, "ok", !report->has_failed);
    cv__json_close(&json, '}');
    (void)printf("\n");
}

int cv__lab_report_end(struct cv_lab_report *report)
{
    progress_clear();
    if (report->is_json) {
        json_claims(report);
    } else {
        print_claims(report);
    }
    free(report->claim);
    report->claim = NULL;
    report->claim_count = 0;
    report->claim_capacity = 0;
    return report->has_failed ? EXIT_NO : EXIT_FINE;
}

/* ---- Plots ----------------------------------------------------------------------------------- */

bool cv__plot_can(void)
{
    const char *path = getenv("PATH");
    for (const char *at = path != NULL ? path : ""; *at != '\0';) {
        const size_t length = strcspn(at, ":");
        char file[PATH_MAX];
        const int need = snprintf(file, sizeof file, "%.*s/gnuplot", (int)length, at);
        if (need > 0 && (size_t)need < sizeof file && access(file, X_OK) == 0) {
            return true;
        }
        at += length + (at[length] == ':');
    }
    (void)fprintf(stderr,
                  "conclave: plots are skipped: gnuplot is not installed (package gnuplot-nox)\n");
    return false;
}

FILE *cv__plot_open(const char *folder, const char *name)
{
    FILE *script = popen("gnuplot", "w");
    if (script == NULL) {
        (void)fprintf(stderr, "conclave: cannot start gnuplot: %s\n", strerror(errno));
        return NULL;
    }
    (void)fprintf(script,
                  "set terminal svg size 760,460 font 'sans-serif,13' background '#ffffff'\n"
                  "set output '");
    for (const char *at = folder; *at != '\0'; at++) {
        (void)fprintf(script, *at == '\'' ? "''" : "%c", *at);
    }
    /* The colours are those of the playground (web/page/palette.js). */
    (void)fprintf(
        script,
        "/%s.svg'\n"
        "set encoding utf8\nset datafile missing '?'\nset style data linespoints\n"
        "set grid linetype 1 linecolor rgb '#dddddd'\n"
        "set key outside top center horizontal\n"
        "set linetype 1 linecolor rgb '#0072b2'\nset linetype 2 linecolor rgb '#d55e00'\n"
        "set linetype 3 linecolor rgb '#009e73'\nset linetype 4 linecolor rgb '#cc79a7'\n"
        "set linetype 5 linecolor rgb '#e69f00'\nset linetype 6 linecolor rgb '#56b4e9'\n",
        name);
    return script;
}

void cv__plot_table(FILE *script, const struct cv_table *table)
{
    const uint32_t columns = column_count(table);
    (void)fprintf(script, "$%s << EOD\n", table->name);
    for (uint32_t i = 0; i < table->cell_count; i++) {
        const struct cv_cell *cell = &table->cell[i];
        if (cell->text != NULL) {
            (void)fprintf(script, "\"%s\"", cell->text);
        } else if (isnan(cell->number)) {
            (void)fprintf(script, "?");
        } else {
            (void)fprintf(script, "%.6g", cell->number);
        }
        (void)fprintf(script, i % columns == columns - 1 ? "\n" : " ");
    }
    (void)fprintf(script, "EOD\n");
}

bool cv__plot_close(FILE *script, const char *name)
{
    const int status = pclose(script);
    if (status != 0) {
        (void)fprintf(stderr, "conclave: gnuplot could not draw %s.svg (status %d)\n", name,
                      status);
    }
    return status == 0;
}

bool cv__plot_draw(const char *folder, const char *name, const struct cv_table *table,
                   const char *script_text)
{
    if (table->cell_count == 0) {
        return true;
    }
    FILE *script = cv__plot_open(folder, name);
    if (script == NULL) {
        return false;
    }
    cv__plot_table(script, table);
    (void)fputs(script_text, script);
    return cv__plot_close(script, name);
}
