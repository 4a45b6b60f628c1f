/* src/explore/story.c - a path as a scenario; see story.h. */
#include "explore/story.h"

#include "base/memory.h"
#include "core/duration.h"
#include "core/errors.h"
#include "core/options.h"
#include "explore/choices.h"
#include "explore/service.h"

#include <stdlib.h>
#include <string.h>

/* ---- In short -------------------------------------------------------------------------------- */

static void write_at(FILE *out, int64_t at_ns)
{
    char text[CV_DURATION_TEXT_BYTES];
    (void)fprintf(out, "at %s ", cv__duration_format(at_ns, text));
}

static void write_group(FILE *out, const struct explore_model *model, uint32_t group, uint32_t side)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        if ((group >> i & 1) == side) {
            (void)fprintf(out, " %u", i + 1);
        }
    }
}

/* A lost message was sent a tick ago: the link is down from half a tick before that. */
static void write_loss(FILE *out, const struct explore_model *model,
                       const struct explore_message *m)
{
    const int64_t sent_ns = model->elapsed_ns + m->sent_ns - explore_now_ns(EXPLORE_REAL);
    const int64_t half_ns = model->tick_ns / 2;
    write_at(out, cv__max64(0, sent_ns - half_ns));
    (void)fprintf(out, "link %u>%u down\n", m->from + 1u, m->to + 1u);
    write_at(out, sent_ns + half_ns);
    (void)fprintf(out, "link %u>%u up\n", m->from + 1u, m->to + 1u);
}

static const char *service_name(const struct explore_model *model)
{
    return model->service == EXPLORE_STORE ? "store" : "sequencer";
}

/* Nodes that lose the connection to the store or the sequencer (in one direction or both), or get
 * it back. */
static void write_service_cut(FILE *out, const struct explore_model *model, uint32_t group,
                              const char *verb, const char *way)
{
    for (uint32_t i = 0; i < model->node_count && model->service != EXPLORE_NO_SERVICE; i++) {
        if ((group >> i & 1) != 0) {
            write_at(out, model->elapsed_ns);
            (void)fprintf(out, "%s %s %u%s\n", service_name(model), verb, i + 1, way);
        }
    }
}

static void write_one_way(FILE *out, const struct explore_model *model, uint32_t group,
                          bool is_from, const char *state)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        for (uint32_t j = 0; j < model->node_count; j++) {
            if ((group >> i & 1) == is_from && (group >> j & 1) != is_from) {
                write_at(out, model->elapsed_ns);
                (void)fprintf(out, "link %u>%u %s\n", i + 1, j + 1, state);
            }
        }
    }
}

static void write_partition(FILE *out, const struct explore_model *model, uint32_t group)
{
    write_at(out, model->elapsed_ns);
    (void)fprintf(out, "partition");
    write_group(out, model, group, 0);
    (void)fprintf(out, " |");
    write_group(out, model, group, 1);
    (void)fprintf(out, "\n");
}

/* The nodes of a group are cut off from the others and from the store or sequencer: both ways, or
 * only what they send (CUT_FROM), or what is sent to them. */
static void write_cut(FILE *out, const struct explore_model *model, uint32_t group,
                      enum explore_way way)
{
    static const char *const ways[] = {
        [EXPLORE_BOTH_WAYS] = "",
        [EXPLORE_FROM_GROUP] = " queries",
        [EXPLORE_TO_GROUP] = " answers",
    };
    const uint32_t everybody = (1u << model->node_count) - 1;
    if (group != everybody && way == EXPLORE_BOTH_WAYS) {
        write_partition(out, model, group);
    } else if (group != everybody) {
        write_one_way(out, model, group, way == EXPLORE_FROM_GROUP, "down");
    }
    write_service_cut(out, model, group, "cut", ways[way]);
}

static void write_heal(FILE *out, const struct explore_model *model, const struct explore_world *w)
{
    write_at(out, model->elapsed_ns);
    (void)fprintf(out, "heal\n");
    write_service_cut(out, model, w->h.partition, "mend", "");
}

/* Faults of nodes and links are written in the same way in both forms. False: it is not one. */
static bool write_fault(FILE *out, const struct explore_model *model,
                        const struct explore_world *world, const struct explore_choice *choice)
{
    static const char *const verbs[EXPLORE_ACT_COUNT] = {
        [EXPLORE_ACT_CRASH] = "crash",     [EXPLORE_ACT_CRASH_WITNESSED] = "crash",
        [EXPLORE_ACT_RECOVER] = "recover", [EXPLORE_ACT_REBOOT] = "recover",
        [EXPLORE_ACT_PAUSE] = "pause",     [EXPLORE_ACT_WAKE] = "resume",
        [EXPLORE_ACT_RESIGN] = "resign",
    };
    switch (choice->act) {
    case EXPLORE_ACT_CUT:
        write_cut(out, model, choice->what, EXPLORE_BOTH_WAYS);
        return true;
    case EXPLORE_ACT_CUT_FROM:
        write_cut(out, model, choice->what, EXPLORE_FROM_GROUP);
        return true;
    case EXPLORE_ACT_CUT_TO:
        write_cut(out, model, choice->what, EXPLORE_TO_GROUP);
        return true;
    case EXPLORE_ACT_HEAL:
        write_heal(out, model, world);
        return true;
    default:
        break;
    }
    if (verbs[choice->act] == NULL) {
        return false;
    }
    char back[CV_DURATION_TEXT_BYTES];
    write_at(out, model->elapsed_ns);
    (void)fprintf(out, "%s %u", verbs[choice->act], choice->node + 1u);
    if (choice->act == EXPLORE_ACT_CRASH_WITNESSED) {
        (void)fprintf(out, " witnessed");
    } else if (choice->act == EXPLORE_ACT_REBOOT) {
        (void)fprintf(out, " back %s",
                      cv__duration_format(EXPLORE_REBOOT_TICKS * model->tick_ns, back));
    } else if (choice->act == EXPLORE_ACT_PAUSE) {
        (void)fprintf(out, " for 1h"); /* until it is resumed */
    }
    (void)fprintf(out, "\n");
    return true;
}

/* False: it cannot be written in the short form. */
static bool write_short(FILE *out, const struct explore_model *model, struct explore_world *world,
                        const struct explore_choice *choice)
{
    switch (choice->act) {
    case EXPLORE_ACT_TIMER:
    case EXPLORE_ACT_DELIVER:
        return choice->record == EXPLORE_RECORD_SAVED;
    case EXPLORE_ACT_END:
    case EXPLORE_ACT_EXPIRE:
    case EXPLORE_ACT_MISS: /* the simulator has its own order in this instant */
        return true;
    case EXPLORE_ACT_LOSE:
        if (explore_message_at(model, world, choice->what)->kind != EXPLORE_PEER) {
            return false;
        }
        write_loss(out, model, explore_message_at(model, world, choice->what));
        return true;
    case EXPLORE_ACT_CRASH_WITNESSED: /* the short form does not say when each node hears of it */
        return false;
    default:
        return write_fault(out, model, world, choice);
    }
}

/* ---- The manual form ------------------------------------------------------------------------- */

/* How the simulator identifies a message. */
struct sent {
    uint8_t from, to;
    uint8_t type; /* UINT8_MAX: it has none in the simulator */
    bool is_witness;
    int64_t at_ns;
    uint64_t number; /* among like messages */
};

#define LONGEST_NS (30 * 24 * 3600 * NS_PER_S) /* no scenario is longer */

struct teller {
    FILE *out;
    struct explore_model *model;
    enum explore_story_kind kind;
    struct sent *sent; /* by the message's number - 1 */
    uint32_t sent_count, sent_capacity;
    bool is_settling; /* the present lines are not of a choice: they come with time */
};

static bool is_alike(const struct sent *a, const struct sent *b)
{
    return a->from == b->from && a->to == b->to && a->type == b->type &&
           a->is_witness == b->is_witness && a->at_ns == b->at_ns;
}

/* Records a new message; one that waits for a disk is sent later, with another number. */
static void add_sent(struct teller *t, const struct explore_message *m)
{
    struct sent sent = {
        .from = m->from,
        .to = m->to,
        .type = m->kind == EXPLORE_PEER ? m->type : UINT8_MAX,
        .is_witness = explore_is_of_witness(m),
        .at_ns = t->model->elapsed_ns,
        .number = 1,
    };
    for (uint32_t i = 0; i < t->sent_count; i++) {
        sent.number += is_alike(&t->sent[i], &sent);
    }
    const uint64_t number = explore_message_number(t->model, m);
    while (t->sent_count < number) { /* messages that are gone already are not used */
        t->sent = cv__grow(t->sent, &t->sent_capacity, t->sent_count, sizeof *t->sent);
        t->sent[t->sent_count++] = (struct sent){.at_ns = -1};
    }
    if (m->deferred == 0) {
        t->sent[number - 1] = sent;
    }
}

static void note_sent(struct teller *t, struct explore_world *world)
{
    const uint32_t before = t->sent_count;
    for (uint32_t i = 0; i < world->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(t->model, world, i);
        if (explore_message_number(t->model, m) > before) {
            add_sent(t, m);
        }
    }
}

static void write_end_of_way(const struct teller *t, uint32_t actor)
{
    if (actor == EXPLORE_SERVICE) {
        (void)fprintf(t->out, "%s", service_name(t->model));
    } else {
        (void)fprintf(t->out, "%u", actor + 1);
    }
}

/* deliver 1>2 type HEARTBEAT sent 3ms */
static void write_message(const struct teller *t, const char *verb, const struct explore_message *m,
                          const char *more)
{
    const uint64_t number = explore_message_number(t->model, m);
    CV_ASSERT(number >= 1 && number <= t->sent_count);
    const struct sent *sent = &t->sent[number - 1];
    CV_ASSERT(sent->at_ns >= 0);
    char at[CV_DURATION_TEXT_BYTES];
    write_at(t->out, t->model->elapsed_ns);
    (void)fprintf(t->out, "%s ", verb);
    write_end_of_way(t, sent->from);
    (void)fprintf(t->out, ">");
    write_end_of_way(t, sent->to);
    if (sent->type != UINT8_MAX) {
        (void)fprintf(t->out, " type %s", t->model->protocol->messages[sent->type].name);
    }
    (void)fprintf(t->out, " sent %s", cv__duration_format(sent->at_ns, at));
    if (sent->number > 1) {
        (void)fprintf(t->out, " number %llu", (unsigned long long)sent->number);
    }
    (void)fprintf(t->out, "%s%s\n", sent->is_witness ? " witness" : "", more);
}

/* How the record of this step is saved, or how a slow save ends. */
static void write_disk(const struct teller *t, const struct explore_choice *choice)
{
    static const char *const of_step[EXPLORE_RECORD_COUNT] = {
        [EXPLORE_RECORD_CRASH] = "next crashes",
        [EXPLORE_RECORD_FAIL] = "next fails",
        [EXPLORE_RECORD_FAIL_LATE] = "next fails-durable",
        [EXPLORE_RECORD_SLOW] = "next slow",
    };
    static const char *const of_end[EXPLORE_ACT_COUNT] = {
        [EXPLORE_ACT_SAVED] = "done",
        [EXPLORE_ACT_SAVED_CRASH] = "done crashes",
        [EXPLORE_ACT_SAVE_FAIL] = "done fails",
        [EXPLORE_ACT_SAVE_FAIL_LATE] = "done fails-durable",
    };
    const char *how =
        of_step[choice->record] != NULL ? of_step[choice->record] : of_end[choice->act];
    if (how != NULL) {
        write_at(t->out, t->model->elapsed_ns);
        (void)fprintf(t->out, "disk %u %s\n", choice->node + 1u, how);
    }
}

static void write_restart(const struct teller *t, uint32_t how)
{
    static const char *const of_store[] = {
        [EXPLORE_RESTART_FAILS] = "restart",
        [EXPLORE_RESTART_SILENTLY] = "restart silent",
        [EXPLORE_RESTART_EXTENDS] = "restart extend",
    };
    static const char *const of_sequencer[] = {
        [EXPLORE_RESTART_FAILS] = "reset",
        [EXPLORE_RESTART_SILENTLY] = "wipe",
    };
    write_at(t->out, t->model->elapsed_ns);
    (void)fprintf(t->out, "%s %s\n", service_name(t->model),
                  t->model->service == EXPLORE_STORE ? of_store[how] : of_sequencer[how]);
}

static void write_by_hand(const struct teller *t, struct explore_world *world,
                          const struct explore_choice *choice)
{
    const struct explore_message *m = explore_message_at(t->model, world, choice->what);
    write_disk(t, choice);
    switch (choice->act) {
    case EXPLORE_ACT_END:
    case EXPLORE_ACT_EXPIRE: /* comes by itself */
    case EXPLORE_ACT_SAVED:
    case EXPLORE_ACT_SAVED_CRASH:
    case EXPLORE_ACT_SAVE_FAIL:
    case EXPLORE_ACT_SAVE_FAIL_LATE:
        break;
    case EXPLORE_ACT_TIMER:
        write_at(t->out, t->model->elapsed_ns);
        (void)fprintf(t->out, "fire %u %u\n", choice->node + 1u, choice->what);
        break;
    case EXPLORE_ACT_DELIVER:
    case EXPLORE_ACT_OVERTAKE:
        write_message(t, "deliver", m, "");
        break;
    case EXPLORE_ACT_DUPLICATE:
    case EXPLORE_ACT_OVERTAKE_TWICE:
        write_message(t, "deliver", m, " again");
        break;
    case EXPLORE_ACT_LOSE:
    case EXPLORE_ACT_MISS:
    case EXPLORE_ACT_FORGET:
        write_message(t, "lose", m, "");
        break;
    case EXPLORE_ACT_DELAY:
        write_message(t, "late", m, "");
        break;
    case EXPLORE_ACT_RESTART:
        write_restart(t, choice->what);
        break;
    default: {
        const bool is_fault = write_fault(t->out, t->model, world, choice);
        CV_ASSERT(is_fault);
        break;
    }
    }
}

/* Consequences of a choice or of time become comments; the choice itself is a line of the
 * scenario. */
static void write_comment(void *context, int64_t at_ns, const char *line)
{
    struct teller *t = context;
    (void)at_ns;
    if (t->kind == EXPLORE_STORY_BY_HAND && (t->is_settling || line[0] == ' ')) {
        (void)fprintf(t->out, "#   %s\n", line + strspn(line, " "));
    }
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Writes every option that differs from its default. */
static void write_options(FILE *out, const struct explore_model *model)
{
    struct cv_config usual;
    cv_config_init(&usual, model->protocol, 1, model->node_count);
    for (uint32_t i = 0; model->protocol->options[i].name != NULL; i++) {
        const struct cv_option *option = &model->protocol->options[i];
        struct cv_option_text text;
        if (option->kind == CV_OPTION_TIME || model->config[0].option[i] != usual.option[i]) {
            (void)fprintf(out, " %s=%s", option->name,
                          cv__config_format(&model->config[0], option, i, &text));
        }
    }
}

static void write_clocks(FILE *out, const struct explore_model *model)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        if (model->period_ns[i] != model->tick_ns) {
            (void)fprintf(out, "clock %u drift %s1/%d\n", i + 1,
                          model->period_ns[i] > model->tick_ns ? "-" : "", EXPLORE_DRIFT_PARTS);
        }
    }
    const int64_t period_ns = model->period_ns[EXPLORE_SERVICE];
    if (model->service == EXPLORE_STORE && period_ns != model->tick_ns) {
        (void)fprintf(out, "store drift %s1/%d\n", period_ns > model->tick_ns ? "-" : "",
                      EXPLORE_DRIFT_PARTS);
    }
}

static void write_head(const struct teller *t, const struct explore_result *result)
{
    const struct explore_model *model = t->model;
    (void)fprintf(t->out, "# Found by 'conclave explore %s': %s\nprotocol %s",
                  model->protocol->name, result->detail, model->protocol->name);
    write_options(t->out, model);
    (void)fprintf(t->out, "\nnodes %u\ndrift-bound %.9gppm\n", model->node_count,
                  (double)model->config[0].drift_ppb / 1e3);
    write_clocks(t->out, model);
    if (t->kind == EXPLORE_STORY_BY_HAND) {
        (void)fprintf(t->out, "manual\n");
    }
}

static bool settle(struct teller *t, struct explore_world *world)
{
    t->is_settling = true;
    const bool goes_on = explore_settle(t->model, world);
    t->is_settling = false;
    return goes_on;
}

static bool write_path(struct teller *t, const struct explore_result *result)
{
    struct explore_model *model = t->model;
    struct explore_world *world = explore_world_new(model);
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    bool is_told = true;
    model->elapsed_ns = 0;
    explore_world_begin(model, world);
    note_sent(t, world);
    for (uint32_t i = 0; is_told && i < result->path_count && settle(t, world); i++) {
        const uint32_t count = explore_choices(model, world, choice);
        CV_ASSERT(result->path[i] < count);
        const struct explore_choice *chosen = &choice[result->path[i]];
        if (t->kind == EXPLORE_STORY_SHORT) {
            is_told = write_short(t->out, model, world, chosen);
        } else {
            write_by_hand(t, world, chosen);
        }
        (void)explore_do(model, world, chosen);
        note_sent(t, world);
    }
    if (is_told && !model->end.is_broken) {
        (void)settle(t, world); /* shows a property that breaks when time passes */
    }
    free(world);
    return is_told && model->elapsed_ns < LONGEST_NS;
}

/* The same worlds as in the search, but messages have numbers. */
static struct explore_model *open_numbered(const struct explore_model *like)
{
    struct explore_model *model = cv__allocate(1, sizeof *model);
    struct cv_errtext why;
    *model = *like;
    model->numbers_messages = true;
    model->message_number = 0;
    memset(&model->end, 0, sizeof model->end);
    const int error = explore_model_init(model, &why);
    CV_ASSERT(error == CV_OK); /* as it was for the search */
    return model;
}

static bool tell(struct teller *t, const struct explore_result *result)
{
    const struct explore_model *model = t->model;
    write_head(t, result);
    const bool is_regular =
        model->delay_max_ns == model->tick_ns && model->config[0].drift_ppb == 0;
    const bool is_told = (is_regular || t->kind == EXPLORE_STORY_BY_HAND) && write_path(t, result);
    char run[CV_DURATION_TEXT_BYTES];
    (void)fprintf(t->out, "run %s\nexpect broken %s\n",
                  cv__duration_format(model->elapsed_ns + model->tick_ns, run),
                  cv_property_name(result->property));
    return is_told;
}

int explore_story(struct explore_model *model, const struct explore_result *result,
                  enum explore_story_kind kind, FILE *out, struct cv_errtext *reterr)
{
    CV_ASSERT(result->outcome == EXPLORE_BROKEN);
    char *text = NULL;
    size_t length = 0;
    struct teller t = {.out = open_memstream(&text, &length), .kind = kind};
    if (t.out == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory is left for a scenario");
    }
    t.model = open_numbered(model);
    t.model->say = write_comment;
    t.model->say_context = &t;
    const bool is_told = tell(&t, result);
    explore_model_fini(t.model);
    free(t.model);
    free(t.sent);
    (void)fclose(t.out);
    if (is_told) {
        (void)fwrite(text, 1, length, out);
    }
    free(text);
    return is_told ? CV_OK
                   : cv__fail(reterr, CV_E_INVALID, "%s",
                              kind == EXPLORE_STORY_SHORT
                                  ? "this path cannot be written in the short form"
                                  : "this path takes longer than 30 days, the limit of a scenario");
}
