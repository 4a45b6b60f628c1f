/* src/lab/auto_plot.c - the plots of `conclave lab auto`, as scripts for gnuplot. */
#include "lab/auto.h"

#define OVER_ROUND_TRIPS                                                             \
    "set xlabel 'longest round trip in ms'\nset logscale xy\nset xrange [0.1:150]\n" \
    "names = 'loopback lan wan auto'\n"

bool cv__lab_auto_plot(const struct cv_lab_auto *tables, const char *folder)
{
    return cv__plot_draw(folder, "auto-failover", &tables->curve,
                         "set title 'Random networks: from the crash of the leader to the next'\n"
                         "set ylabel 'ms (mean)'\n" OVER_ROUND_TRIPS
                         "plot for [i=1:4] $curve using 1:(column(i + 1)) title word(names, i) "
                         "linewidth (i == 4 ? 3 : 1)\n") &&
           cv__plot_draw(
               folder, "auto-changes", &tables->curve,
               "set title 'Random networks: changes of leader without a fault'\n"
               "set ylabel 'in an hour'\n" OVER_ROUND_TRIPS
               "set yrange [0.05:*]\nset ytics add ('0' 0.1)\n" /* 0 has no logarithm */
               "plot for [i=1:4] $curve using 1:(column(i + 5) > 0.1 ? column(i + 5) : 0.1) "
               "title word(names, i) linewidth (i == 4 ? 3 : 1)\n");
}
