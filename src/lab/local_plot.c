/* src/lab/local_plot.c - the plots of `conclave lab local`, as scripts for gnuplot. A script
 * contains its data, so a plot depends only on the measurements. */
#include "lab/local.h"

#include <stdio.h>

static bool plot_election(const struct cv_lab_local *l, const char *folder)
{
    static const char name[] = "local-election-time";
    FILE *script = cv__plot_open(folder, name);
    if (script == NULL) {
        return false;
    }
    cv__plot_table(script, &l->election);
    (void)fputs("set multiplot layout 1,2 title 'Election time by number of processes'\n"
                "set xlabel 'processes'\nset ylabel 'ms'\n"
                "set xrange [0.5:8.5]\nset yrange [0:8]\n"
                "plot $election using 1:2 title 'paper (from its figures)' with lines linewidth 6 "
                "linecolor rgb '#f0c060', \\\n"
                "  '' using 1:3 title 'mean' linetype 1 pointtype 7, \\\n"
                "  '' using 1:4 title '99 %' linetype 2 pointtype 4\n"
                "set logscale xy 2\nset xrange [1.8:300]\nset yrange [2:256]\n"
                "plot $election using 1:2 title 'paper (from its figures)' with lines linewidth 6 "
                "linecolor rgb '#f0c060', \\\n"
                "  '' using 1:3 title 'mean' linetype 1 pointtype 7, \\\n"
                "  '' using 1:4 title '99 %' linetype 2 pointtype 4\n"
                "unset multiplot\n",
                script);
    return cv__plot_close(script, name);
}

static bool plot_histogram(const struct cv_lab_local *l, const char *folder)
{
    static const char name[] = "local-election-distribution";
    FILE *script = cv__plot_open(folder, name);
    if (script == NULL) {
        return false;
    }
    cv__plot_table(script, &l->histogram);
    (void)fputs("set title 'Distribution of the election time'\n"
                "set xlabel 'election time in ms'\nset ylabel '% of elections'\nset xrange [2:8]\n"
                "set style data histeps\n"
                "plot $histogram using 1:2 title '2 processes' linewidth 2, \\\n"
                "  '' using 1:3 title '4 processes' linewidth 2, \\\n"
                "  '' using 1:4 title '6 processes' linewidth 2, \\\n"
                "  '' using 1:5 title '8 processes' linewidth 2\n",
                script);
    return cv__plot_close(script, name);
}

static bool plot_waits(const struct cv_lab_local *l, const char *folder, const char *name,
                       const char *title, const char *curves)
{
    if (l->waits.cell_count == 0) {
        return true; /* runs failed, as the report says: there is nothing to draw */
    }
    FILE *script = cv__plot_open(folder, name);
    if (script == NULL) {
        return false;
    }
    cv__plot_table(script, &l->waits);
    (void)fprintf(script,
                  "set title '%s'\nset xlabel 'ms since the fault'\n"
                  "set ylabel '%% of runs that have a new leader'\n"
                  "set xrange [0:500]\nset yrange [0:100]\nset style data lines\n%s",
                  title, curves);
    return cv__plot_close(script, name);
}

static bool plot_collation(const struct cv_lab_local *l, const char *folder)
{
    static const char name[] = "local-collation";
    FILE *script = cv__plot_open(folder, name);
    if (script == NULL) {
        return false;
    }
    cv__plot_table(script, &l->collation);
    (void)fputs("set title 'Election time: direct answers and trees'\n"
                "set logscale xy 2\nset xlabel 'processes'\nset ylabel 'ms'\n"
                "plot $collation using 1:2 title 'direct' linewidth 2 linetype 6, \\\n"
                "  '' using 1:3 title 'tree of 2', '' using 1:5 title 'tree of 4', \\\n"
                "  '' using 1:6 title 'tree of 8', '' using 1:7 title 'tree of 16', \\\n"
                "  '' using 1:8 title 'tree of 32'\n",
                script);
    return cv__plot_close(script, name);
}

bool cv__lab_local_plot(const struct cv_lab_local *l, const char *folder)
{
    /* The columns of $waits: 1 is the share, then the cases in their order. */
    return plot_election(l, folder) && plot_histogram(l, folder) &&
           plot_waits(l, folder, "local-new-leader-split", "A new leader after a split of 8",
                      "plot $waits using 2:1 title 'lock 130 ms, all at once' linewidth 2, \\\n"
                      "  '' using 3:1 title 'lock 130 ms, in id order' linewidth 2, \\\n"
                      "  '' using 4:1 title 'lock 390 ms, all at once' linewidth 2, \\\n"
                      "  '' using 5:1 title 'lock 390 ms, in id order' linewidth 2\n") &&
           plot_waits(l, folder, "local-new-leader-crash",
                      "A new leader of 8 after a crash, in id order",
                      "plot $waits using 7:1 title 'crash, lock 130 ms' linewidth 2, \\\n"
                      "  '' using 9:1 title 'crash, lock 390 ms' linewidth 2, \\\n"
                      "  '' using 11:1 title 'hint, lock 130 ms' linewidth 2, \\\n"
                      "  '' using 13:1 title 'hint, lock 390 ms' linewidth 2, \\\n"
                      "  '' using 17:1 title 'certain hint, lock 390 ms' linewidth 2\n") &&
           plot_collation(l, folder);
}
