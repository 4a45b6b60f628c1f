/* src/lab/pole_plot.c - the plots of `conclave lab pole`, as scripts for gnuplot. A script contains
 * its data, so a plot depends only on the measurements. */
#include "core/types.h"
#include "lab/pole.h"

#include <stddef.h>

static const char timeline_script[] =
    "set title 'Two sites: latency before and after the crash of p5 (fig. 4b)'\n"
    "set xlabel 'seconds'\nset ylabel 'ms'\nset yrange [1:3000]\nset logscale y\n"
    "set style data lines\n"
    "plot $timeline using 1:2 title 'history, D1' linewidth 2, \\\n"
    "  '' using 1:3 title 'history, D2' linewidth 2, \\\n"
    "  '' using 1:4 title 'rotating, D1' linewidth 2, \\\n"
    "  '' using 1:5 title 'rotating, D2' linewidth 2\n";

static const char leaders_script[] =
    "set title 'Latency at each data centre under each leader (fig. 6)'\n"
    "set ylabel 'ms'\nset yrange [0:*]\nset style data histograms\n"
    "set style histogram clustered gap 1\nset style fill solid 0.7 border -1\n"
    "set xtics rotate by -45\n"
    "plot $leaders using 3:xticlabels(sprintf('%d: %s', column(1), strcol(2))) "
    "title 'D1', \\\n"
    "  '' using 4 title 'D2', '' using 5 title 'D3', \\\n"
    "  '' using 7 title 'mean' with points pointtype 7\n";

static const char mean_script[] =
    "set multiplot layout 1,3 title 'Mean latency over the share of one site (fig. "
    "7a, b)'\n"
    "set xlabel 'p'\nset ylabel 'ms'\nset yrange [0:170]\nset style data linespoints\n"
    "set key inside top left vertical maxrows 6 font ',9' samplen 1\nset xtics 0.5\n"
    "do for [k=0:2] {\n"
    "set title word('two-sites deployment-1 deployment-3', k + 1)\n"
    "plot for [c=3:8] $mean using 2:c every ::5*k::5*k+4 title "
    "word('history rotating consensus worst-case request latency', c - 2)\n"
    "unset key\n}\nunset multiplot\n";

static const char worst_script[] =
    "set multiplot layout 1,2 title 'Latency at the slowest site (fig. 7c)'\n"
    "set xlabel 'p'\nset ylabel 'ms'\nset yrange [0:280]\nset style data linespoints\n"
    "set key inside top left vertical maxrows 6 font ',9' samplen 1\nset xtics 0.5\n"
    "do for [k=1:2] {\n"
    "set title word('deployment-1 deployment-3', k)\n"
    "plot for [c=3:8] $worst using 2:c every ::5*k::5*k+4 title "
    "word('history rotating consensus worst-case request latency', c - 2)\n"
    "unset key\n}\nunset multiplot\n";

static const char snapshot_script[] =
    "set title 'Recovery with an outdated p1 (fig. 8a)'\n"
    "set xlabel 'snapshot in MB'\nset ylabel 'seconds'\nset key inside top left "
    "vertical maxrows 6\n"
    "set style data linespoints\n"
    "plot for [r in '0 9.88 20.75 77.06'] $snapshot using "
    "2:(abs(column(1) - r) < 0.001 ? column(5) / 1000 : NaN) title "
    "'rotating (p1), '.r.' ms', \\\n"
    "  $snapshot using 2:(abs(column(1) - 77.06) < 0.001 ? column(3) / 1000 : NaN) "
    "title 'history (p4), 77.06 ms' linewidth 2, \\\n"
    "  '' using 2:(abs(column(1) - 77.06) < 0.001 ? column(8) / 1000 : NaN) "
    "title 'recovery, 77.06 ms' pointtype 4\n";

static const char sites_script[] =
    "set title 'Recovery with an outdated D2 (fig. 8b)'\n"
    "set xlabel 'snapshot in MB'\nset ylabel 'seconds'\nset key inside top left "
    "vertical maxrows 6\n"
    "set yrange [0:*]\nset style data linespoints\n"
    "plot $sites using 1:($2/1000) title 'p1', '' using 1:($3/1000) title 'p4', \\\n"
    "  '' using 1:($4/1000) title 'history' pointtype 6, \\\n"
    "  '' using 1:($6/1000) title 'recovery' pointtype 4\n";

static const char random_script[] =
    "set title 'Random networks: times as long as under the best possible leader'\n"
    "set ylabel 'times (geometric mean)'\nset yrange [0.9:*]\nset ytics 0.2\nset "
    "bmargin 9\n"
    "set style data histograms\nset style histogram clustered gap 1\n"
    "set style fill solid 0.7 border -1\nset xtics rotate by -45\n"
    "n = |$random| / 3\n"
    "plot $random using 4:xticlabels(2) every ::0::n-1 title 'mean latency', \\\n"
    "  '' using 4 every ::n::2*n-1 title 'worst-case latency', \\\n"
    "  '' using 4 every ::2*n::3*n-1 title 'recovery time'\n";

/* Each plot: its file, its table and its script. */
static const struct {
    const char *name;
    size_t table_offset;
    const char *script;
} plots[] = {
    {"pole-crash", offsetof(struct cv_lab_pole, timeline), timeline_script},
    {"pole-leaders", offsetof(struct cv_lab_pole, leaders), leaders_script},
    {"pole-mean", offsetof(struct cv_lab_pole, mean), mean_script},
    {"pole-worst", offsetof(struct cv_lab_pole, worst), worst_script},
    {"pole-snapshot", offsetof(struct cv_lab_pole, snapshot), snapshot_script},
    {"pole-sites", offsetof(struct cv_lab_pole, sites), sites_script},
    {"pole-random", offsetof(struct cv_lab_pole, random), random_script},
};

bool cv__lab_pole_plot(const struct cv_lab_pole *p, const char *folder)
{
    for (size_t i = 0; i < COUNT_OF(plots); i++) {
        const struct cv_table *table =
            (const struct cv_table *)((const char *)p + plots[i].table_offset);
        if (!cv__plot_draw(folder, plots[i].name, table, plots[i].script)) {
            return false;
        }
    }
    return true;
}
