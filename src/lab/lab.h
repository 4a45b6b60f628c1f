/* src/lab/lab.h - what the experiments of `conclave lab` share: scenarios from text, samples,
 * tables and claims that are printed for people or as JSON, and plots drawn by gnuplot.
 *
 * An experiment fills tables and judges claims; a report prints both in the requested form. Equal
 * inputs give equal bytes, in tables and in plots. Memory grows with the measurements; running out
 * of it ends the program. Progress is shown only at a terminal and is not part of the output. */
#ifndef CV_LAB_LAB_H
#define CV_LAB_LAB_H

#include "scenario/scenario.h"
#include "sim/world.h"

/* A scenario from text, formatted as by printf(). The text is ours: a mistake in it ends the
 * program. */
struct sim_scenario *cv__lab_scenario(const char *format, ...) CV_PRINTF(1, 2);

/* Calls sim_world_new() and counts the run: at a terminal a line on standard error shows the number
 * of runs. */
struct sim_world *cv__lab_world(const struct sim_scenario *scenario, uint64_t seed,
                                const struct sim_world_options *options);

/* The present leader; the first one, if there are several. CV_ID_NONE: none. */
cv_id cv__lab_leader(const struct sim_world *world);
/* Was every promise of the protocol kept so far? */
bool cv__lab_is_sound(const struct sim_world *world);

/* ---- Options --------------------------------------------------------------------------------- */

/* The options of an experiment; zero or NULL: not given. */
struct cv_lab_options {
    uint64_t run_count;    /* --runs */
    uint64_t random_count; /* --random: the number of random networks */
    uint64_t seed;         /* --seed: the seed of the first random network */
    const char *folder;    /* --plots: the folder for plots */
    const char *live;      /* --live: the address of a sequencer, if the experiment needs one */
    bool is_live, is_tiny, is_json;
};

/* Every experiment takes --plots, --runs (min..max) and --json; `more` has the first letters of
 * further options, and L if --live takes an address. False: the command line is wrong or the folder
 * does not exist, and a message was printed, before the minutes of work. */
bool cv__lab_options_read(int argc, char **argv, const char *experiment, const char *more,
                          uint64_t runs_min, uint64_t runs_max, struct cv_lab_options *ret_options);

/* ---- Samples --------------------------------------------------------------------------------- */

struct cv_samples {
    double *value;
    uint32_t count, capacity;
    bool is_sorted;
};

void cv__samples_add(struct cv_samples *samples, double value);
/* These need at least one sample. The percentile is by nearest rank: the smallest sample for which
 * this share of all samples is not larger. 0 gives the smallest sample, 100 the largest. */
double cv__samples_mean(const struct cv_samples *samples);
double cv__samples_percentile(struct cv_samples *samples, double percent);
void cv__samples_fini(struct cv_samples *samples);

/* The straight line through points (least squares), and the share of the variance it explains. */
struct cv_line {
    double slope, offset, r_squared;
};
struct cv_line cv__lab_fit(const double *x, const double *y, uint32_t count);

/* ---- Tables and claims ----------------------------------------------------------------------- */

#define CV_COLUMNS_MAX 20u

struct cv_column {
    const char *name;  /* the key in JSON and the heading of the column */
    uint32_t width;    /* minimum width when printed */
    uint32_t decimals; /* of numbers */
    bool is_text;
};

/* A number, or a text that outlives the table. NAN: not known ("-", and null in JSON). */
struct cv_cell {
    double number;
    const char *text;
};

struct cv_table {
    const char *name;                        /* the key in JSON, and the name of the plot data */
    const char *about;                       /* a sentence or two above the table */
    struct cv_column column[CV_COLUMNS_MAX]; /* ends with a name of NULL, or is full */
    struct cv_cell *cell;                    /* row by row */
    uint32_t cell_count, cell_capacity;
};

#define CV_NUMBER(x) ((struct cv_cell){.number = (x)})
#define CV_TEXT(x) ((struct cv_cell){.text = (x)})
/* cv__table_row(table, CV_TEXT("direct"), CV_NUMBER(8)): as many cells as there are columns. */
#define cv__table_row(table, ...)                                 \
    cv__table_add((table), (const struct cv_cell[]){__VA_ARGS__}, \
                  COUNT_OF(((const struct cv_cell[]){__VA_ARGS__})))
void cv__table_add(struct cv_table *table, const struct cv_cell *cell, uint32_t count);
void cv__table_fini(struct cv_table *table);

/* What a paper says, and what was measured. CV_TOLD: the claim is printed, but not judged. */
enum cv_agreement { CV_AGREES, CV_DISAGREES, CV_TOLD };
#define CV_JUDGED(agrees) ((agrees) ? CV_AGREES : CV_DISAGREES)

struct cv_claim {
    const char *said; /* outlives the claim */
    char seen[160];
    enum cv_agreement agreement;
};

struct cv_lab_report {
    const char *experiment;
    bool is_json;
    bool has_failed; /* a judged claim disagrees */
    struct cv_claim *claim;
    uint32_t claim_count, claim_capacity;
};

/* Begins the output with the text `about`. */
void cv__lab_report_begin(struct cv_lab_report *report, const char *about);
void cv__lab_report_table(struct cv_lab_report *report, const struct cv_table *table);
void cv__lab_report_claim(struct cv_lab_report *report, enum cv_agreement agreement,
                          const char *said, const char *seen_format, ...) CV_PRINTF(4, 5);
/* Prints the claims and frees the report's memory; returns the exit status. */
int cv__lab_report_end(struct cv_lab_report *report);

/* ---- Plots ----------------------------------------------------------------------------------- */

/* Is gnuplot installed? If not, one line on stderr says so. */
bool cv__plot_can(void);

/* Starts gnuplot for an empty plot `name`.svg in `folder`; it reads its script from the returned
 * stream. NULL and a message if it cannot be started. */
FILE *cv__plot_open(const char *folder, const char *name);
/* The table's rows as the data block $name: numbers as they are, texts quoted, "?" for unknown. */
void cv__plot_table(FILE *script, const struct cv_table *table);
/* Draws the plot. False and a message if gnuplot refused the script or could not write. */
bool cv__plot_close(FILE *script, const char *name);
/* The three steps for one table; a table without rows is not drawn. */
bool cv__plot_draw(const char *folder, const char *name, const struct cv_table *table,
                   const char *script_text);

/* ---- The experiments ------------------------------------------------------------------------- */

int cv__lab_anon(int argc, char **argv);
int cv__lab_auto(int argc, char **argv);
int cv__lab_classic(int argc, char **argv);
int cv__lab_local(int argc, char **argv);
int cv__lab_pole(int argc, char **argv);

#endif
