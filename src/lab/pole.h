/* src/lab/pole.h - the tables of `conclave lab pole`: pole.c repeats the figures and judges them,
 * pole_random.c makes random wide-area networks, pole_tables.c defines the columns, pole_plot.c
 * draws the tables, and pole_run.c runs the worlds. */
#ifndef CV_LAB_POLE_H
#define CV_LAB_POLE_H

#include "lab/pole_run.h"

struct cv_lab_pole {
    struct cv_table figures;     /* the paper's figures beside the measured ones */
    struct cv_table timeline;    /* fig. 4b; for the plot only */
    struct cv_table leaders;     /* fig. 6: every deployment under every leader */
    struct cv_table mean;        /* fig. 7a and b */
    struct cv_table worst;       /* fig. 7c */
    struct cv_table snapshot;    /* fig. 8a */
    struct cv_table sites;       /* fig. 8b */
    struct cv_table resignation; /* requests move, and the leader with them */
    struct cv_table live;        /* the leaders that real processes elect */
    struct cv_table random;      /* each oracle's leader against the best possible leader */
    char **text;                 /* the texts of the cells */
    uint32_t text_count, text_capacity;
};

/* Tables without rows. */
extern const struct cv_lab_pole cv__lab_pole_empty;

/* A text that lives as long as the tables. */
const char *cv__lab_pole_text(struct cv_lab_pole *pole, const char *format, ...) CV_PRINTF(2, 3);
void cv__lab_pole_fini(struct cv_lab_pole *pole);

/* Elects in this number of random networks with `recovery` and `history`, and judges `recovery`. */
void cv__lab_pole_judge_recovery(struct cv_lab_report *report, uint64_t count);
/* Elects in this number of random networks with every oracle, for the table. */
void cv__lab_pole_random(struct cv_lab_pole *pole, struct cv_lab_report *report, uint64_t count);

/* One election on a real network: which server succeeds p5 by this oracle? */
struct cv_lab_live_case {
    uint32_t number; /* of the deployment */
    double share;    /* p of fig. 7; NAN: requests arrive evenly */
    struct cv_lab_wan wan;
    const char *oracle, *option; /* the oracle's name, and the option's value */
    bool goes_round;
    bool is_measured; /* scores are computed from round trips, which each member measures */
    uint32_t said;    /* bits 1 << id: the paper's leaders; 0: it names none */
};
/* Runs the cases in namespaces with real processes; returns the exit status. */
int cv__lab_pole_live(struct cv_lab_pole *pole, struct cv_lab_report *report,
                      const struct cv_lab_live_case *cases, uint32_t case_count);

/* Draws all plots into the folder; false and a message if one could not be drawn. */
bool cv__lab_pole_plot(const struct cv_lab_pole *pole, const char *folder);

#endif
