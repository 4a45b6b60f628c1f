/* src/report/timeline.c - a run drawn in a terminal. */
#include "report/timeline.h"

#include "base/json.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define LABEL_COLUMNS 10u
#define ROWS_MAX 64u /* more rows would not fit a screen */
#define WIDTH_MIN 10u
#define AXIS_STEP_MIN 9u /* columns of the longest instant */

struct canvas {
    const struct sim_world *world;
    uint32_t width; /* cells of a row */
    char *cell;     /* rows of `width` */
    bool has_colour;
    FILE *out;
};

static uint32_t cell_at(const struct canvas *c, int64_t ns)
{
    const int64_t run_ns = cv__max64(c->world->scenario->run_ns, 1);
    const int64_t at = (int64_t)((__int128)ns * c->width / run_ns);
    return at < c->width ? (uint32_t)at : c->width - 1;
}

/* Fills the cells of a span, at least one. */
static void fill(struct canvas *c, cv_id node, int64_t from_ns, int64_t to_ns, char what)
{
    char *row = c->cell + (node - 1) * (size_t)c->width;
    const uint32_t first = cell_at(c, from_ns);
    const uint32_t last = to_ns > from_ns ? cell_at(c, to_ns - 1) : first;
    memset(row + first, what, last - first + 1);
}

/* Paints from each change of a node's belief to the next. A time without a leader is painted over
 * following one, so that it is seen however short it was. */
static void paint_beliefs(struct canvas *c)
{
    const struct sim_world *w = c->world;
    const int64_t known = -1;
    int64_t unknown_ns[ROWS_MAX]; /* since when the node knows no leader */
    for (uint32_t i = 0; i < ROWS_MAX; i++) {
        unknown_ns[i] = known;
    }
    for (uint32_t i = 0; i < w->history.view_count; i++) {
        const struct sim_view *v = &w->history.view[i];
        if (v->node <= ROWS_MAX && v->leader != CV_ID_NONE) {
            fill(c, v->node, v->at_ns, w->scenario->run_ns, '-');
        }
        if (v->node <= ROWS_MAX && unknown_ns[v->node - 1] != known) {
            fill(c, v->node, unknown_ns[v->node - 1], v->at_ns, '.');
        }
        if (v->node <= ROWS_MAX) {
            unknown_ns[v->node - 1] = v->leader == CV_ID_NONE ? v->at_ns : known;
        }
    }
    for (uint32_t i = 0; i < w->node_count && i < ROWS_MAX; i++) {
        if (unknown_ns[i] != known) {
            fill(c, i + 1, unknown_ns[i], w->scenario->run_ns, '.');
        }
    }
}

static void paint_leaderships(struct canvas *c)
{
    const struct sim_history *h = &c->world->history;
    for (uint32_t i = 0; i < h->span_count; i++) {
        if (h->span[i].node <= ROWS_MAX) {
            fill(c, h->span[i].node, h->span[i].from_ns, h->span[i].to_ns, '#');
        }
    }
}

/* Fills like fill(), but a paused leader still holds its leadership: shows both. */
static void fill_pause(struct canvas *c, cv_id node, int64_t from_ns, int64_t to_ns)
{
    char *row = c->cell + (node - 1) * (size_t)c->width;
    const uint32_t last = to_ns > from_ns ? cell_at(c, to_ns - 1) : cell_at(c, from_ns);
    for (uint32_t at = cell_at(c, from_ns); at <= last; at++) {
        row[at] = row[at] == '#' ? '%' : '~';
    }
}

static void paint_lives(struct canvas *c)
{
    const struct sim_world *w = c->world;
    for (uint32_t i = 0; i < w->history.life_count; i++) {
        const struct sim_life_change *l = &w->history.life[i];
        if (l->node > ROWS_MAX || l->life == SIM_LIFE_UP) {
            continue;
        }
        int64_t to_ns = w->scenario->run_ns;
        for (uint32_t j = i + 1; j < w->history.life_count; j++) {
            if (w->history.life[j].node == l->node) {
                to_ns = w->history.life[j].at_ns;
                break;
            }
        }
        if (l->life == SIM_LIFE_DOWN) {
            fill(c, l->node, l->at_ns, to_ns, 'x');
        } else {
            fill_pause(c, l->node, l->at_ns, to_ns);
        }
    }
}

/* Marks leaderships that are so short that their node's crash or pause hides them. */
static void paint_hidden(struct canvas *c)
{
    const struct sim_history *h = &c->world->history;
    for (uint32_t i = 0; i < h->span_count; i++) {
        const struct sim_leadership_span *span = &h->span[i];
        if (span->node > ROWS_MAX) {
            continue;
        }
        char *row = c->cell + (span->node - 1) * (size_t)c->width;
        const uint32_t first = cell_at(c, span->from_ns);
        const uint32_t last = span->to_ns > span->from_ns ? cell_at(c, span->to_ns - 1) : first;
        bool is_seen = false;
        for (uint32_t at = first; at <= last; at++) {
            is_seen = is_seen || row[at] == '#' || row[at] == '%' || row[at] == '*';
        }
        if (!is_seen) {
            row[first] = '*';
        }
    }
}

static const char *cell_colour(char what)
{
    switch (what) {
    case '#':
        return "\033[1;32m";
    case '%':
    case '*':
        return "\033[1;33m";
    case 'x':
        return "\033[31m";
    case '~':
        return "\033[33m";
    case '-':
        return "\033[36m";
    default:
        return "\033[2m";
    }
}

static void draw_row(const struct canvas *c, const char *label, const char *row)
{
    (void)fprintf(c->out, "%-*s", (int)LABEL_COLUMNS, label);
    char last = '\0';
    for (uint32_t i = 0; i < c->width; i++) {
        if (c->has_colour && row[i] != last) {
            (void)fputs(last != '\0' ? "\033[0m" : "", c->out);
            (void)fputs(cell_colour(row[i]), c->out);
            last = row[i];
        }
        (void)fputc(row[i], c->out);
    }
    (void)fputs(c->has_colour ? "\033[0m\n" : "\n", c->out);
}

static void draw_axis(const struct canvas *c)
{
    const int64_t run_ns = c->world->scenario->run_ns;
    (void)fprintf(c->out, "%-*s", (int)LABEL_COLUMNS, "");
    const uint32_t step = c->width / 5 > AXIS_STEP_MIN ? c->width / 5 : AXIS_STEP_MIN;
    for (uint32_t at = 0; at + 8 <= c->width; at += step) {
        char label[32];
        const double at_s = (double)run_ns * at / c->width / (double)NS_PER_S;
        (void)snprintf(label, sizeof label, at_s < 1000 ? "|%.3gs" : "|%.0fs", at_s);
        (void)fprintf(c->out, "%-*s", (int)step, label);
    }
    (void)fputc('\n', c->out);
}

static void draw_faults(struct canvas *c)
{
    const struct sim_world *w = c->world;
    char *row = cv__allocate(c->width + 1, 1);
    memset(row, ' ', c->width);
    for (uint32_t i = 0; i < w->history.done_action_count; i++) {
        row[cell_at(c, w->history.done_action[i].at_ns)] = '!';
    }
    draw_row(c, "faults", row);
    free(row);
}

static void list_faults(const struct canvas *c)
{
    const struct sim_world *w = c->world;
    const uint32_t most = 30;
    for (uint32_t i = 0; i < w->history.done_action_count && i < most; i++) {
        (void)fputs("  ! ", c->out);
        sim_action_print(&w->history.done_action[i].action, w->node_count, c->out);
        (void)fputc('\n', c->out);
    }
    if (w->history.done_action_count > most) {
        (void)fprintf(c->out, "  ! ... and %u more\n", w->history.done_action_count - most);
    }
}

/* When the leadership ended that a fault hit; the instant of the fault if none is known. */
static int64_t end_of_hit(const struct sim_history *h, const struct sim_election *e)
{
    for (uint32_t i = 0; i < h->span_count; i++) {
        const struct sim_leadership_span *span = &h->span[i];
        if (span->node == e->of && span->from_ns <= e->fault_ns && span->to_ns > e->fault_ns) {
            return span->to_ns;
        }
    }
    return e->fault_ns;
}

static void list_elections(const struct canvas *c)
{
    const struct sim_world *w = c->world;
    for (uint32_t i = 0; i < w->history.election_count && i < 30; i++) {
        const struct sim_election *e = &w->history.election[i];
        const int64_t end_ns = end_of_hit(&w->history, e);
        const bool is_last = i + 1 == w->history.election_count;
        const bool goes_on = end_ns >= w->scenario->run_ns;
        if (e->elected_ns < 0 && (e->of == CV_ID_NONE || !is_last || goes_on)) {
            continue; /* the next one tells of the new leader, or none is needed */
        }
        if (e->of == CV_ID_NONE) {
            (void)fprintf(c->out, "  first leader after %.1f ms\n",
                          (double)(e->elected_ns - e->fault_ns) / 1e6);
            continue;
        }
        (void)fprintf(c->out, "  at %.3fs a fault hits leader %u", (double)e->fault_ns / 1e9,
                      e->of);
        if (end_ns > e->fault_ns) { /* a short pause, or a fault that it does not notice */
            (void)fprintf(c->out, ", which leads until %.3fs", (double)end_ns / 1e9);
        }
        if (e->elected_ns < 0) {
            (void)fprintf(c->out, ": no new one leads until the end of the run\n");
            continue;
        }
        (void)fprintf(c->out, ": a new one leads after %.1f ms\n",
                      (double)(e->elected_ns - e->fault_ns) / 1e6);
    }
}

/* Writes as many entries in a line as fit. */
static void draw_legend(const struct canvas *c)
{
    static const char *const texts[] = {"# leads",
                                        "- follows",
                                        ". knows no leader",
                                        "x down",
                                        "~ paused",
                                        "% paused while leading",
                                        "* led less than a character"};
    uint32_t used = 0;
    for (uint32_t i = 0; i < COUNT_OF(texts); i++) {
        const uint32_t length = (uint32_t)strlen(texts[i]);
        const bool fits = used > 0 && used + 2 + length <= c->width;
        if (fits) {
            (void)fprintf(c->out, "  %s", texts[i]);
        } else {
            (void)fprintf(c->out, "%s%*s%s", used > 0 ? "\n" : "", (int)LABEL_COLUMNS, "",
                          texts[i]);
        }
        used = fits ? used + 2 + length : length;
    }
    (void)fputc('\n', c->out);
}

void sim_timeline_draw(const struct sim_world *w, uint32_t columns, bool has_colour, FILE *out)
{
    struct canvas c = {.world = w, .out = out, .has_colour = has_colour};
    c.width = columns > LABEL_COLUMNS + WIDTH_MIN ? columns - LABEL_COLUMNS : WIDTH_MIN;
    const uint32_t rows = w->node_count < ROWS_MAX ? w->node_count : ROWS_MAX;
    c.cell = cv__allocate(rows, c.width);
    memset(c.cell, '.', (size_t)rows * c.width);
    paint_beliefs(&c);
    paint_leaderships(&c);
    paint_lives(&c);
    paint_hidden(&c);

    draw_axis(&c);
    for (uint32_t i = 0; i < rows; i++) {
        char label[LABEL_COLUMNS + 1];
        (void)snprintf(label, sizeof label, "node %u", i + 1);
        draw_row(&c, label, c.cell + i * (size_t)c.width);
    }
    if (rows < w->node_count) {
        (void)fprintf(out, "... and %u nodes more\n", w->node_count - rows);
    }
    draw_faults(&c);
    draw_legend(&c);
    list_faults(&c);
    list_elections(&c);
    free(c.cell);
}
