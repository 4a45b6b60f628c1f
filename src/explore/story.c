/* src/explore/story.c - a path as a scenario; see story.h. */
#include "explore/story.h"

#include "core/duration.h"
#include "core/errors.h"
#include "explore/choices.h"

#include <stdlib.h>
#include <string.h>

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

/* A message that is lost was sent a tick ago: the link is down from half a tick before that. */
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

/* Nodes that reach the store no more, or again. A sequencer cannot be cut off from single nodes. */
static bool write_store_cut(FILE *out, const struct explore_model *model, uint32_t group,
                            const char *verb)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        if ((group >> i & 1) != 0) {
            write_at(out, model->elapsed_ns);
            (void)fprintf(out, "store %s %u\n", verb, i + 1);
        }
    }
    return model->service == EXPLORE_STORE;
}

static bool write_one_way(FILE *out, const struct explore_model *model, uint32_t group,
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
    return model->service == EXPLORE_NO_SERVICE;
}

/* False: no scenario can say it. */
static bool write_choice(FILE *out, const struct explore_model *model, struct explore_world *world,
                         const struct explore_choice *choice)
{
    static const char *const verbs[EXPLORE_ACT_COUNT] = {
        [EXPLORE_ACT_CRASH] = "crash",
        [EXPLORE_ACT_RECOVER] = "recover",
        [EXPLORE_ACT_WAKE] = "resume",
        [EXPLORE_ACT_RESIGN] = "resign",
    };
    switch (choice->act) {
    case EXPLORE_ACT_END:
    case EXPLORE_ACT_TIMER:
    case EXPLORE_ACT_DELIVER:
        return true;
    case EXPLORE_ACT_EXPIRE:
        return true;
    case EXPLORE_ACT_LOSE:
        if (explore_message_at(model, world, choice->what)->kind != EXPLORE_PEER) {
            return false;
        }
        write_loss(out, model, explore_message_at(model, world, choice->what));
        return true;
    case EXPLORE_ACT_CUT:
        if (model->service != EXPLORE_NO_SERVICE) {
            return write_store_cut(out, model, choice->what, "cut");
        }
        write_at(out, model->elapsed_ns);
        (void)fprintf(out, "partition");
        write_group(out, model, choice->what, 0);
        (void)fprintf(out, " |");
        write_group(out, model, choice->what, 1);
        (void)fprintf(out, "\n");
        return true;
    case EXPLORE_ACT_CUT_FROM:
    case EXPLORE_ACT_CUT_TO:
        return write_one_way(out, model, choice->what, choice->act == EXPLORE_ACT_CUT_FROM, "down");
    case EXPLORE_ACT_HEAL:
        if (world->h.way != EXPLORE_BOTH_WAYS) {
            return write_one_way(out, model, world->h.partition, world->h.way == EXPLORE_FROM_GROUP,
                                 "up");
        }
        if (model->service != EXPLORE_NO_SERVICE) {
            return write_store_cut(out, model, world->h.partition, "mend");
        }
        write_at(out, model->elapsed_ns);
        (void)fprintf(out, "heal\n");
        return true;
    case EXPLORE_ACT_PAUSE:
        write_at(out, model->elapsed_ns);
        (void)fprintf(out, "pause %u for 1h\n", choice->node + 1u);
        return true;
    default:
        if (verbs[choice->act] == NULL) {
            return false;
        }
        write_at(out, model->elapsed_ns);
        (void)fprintf(out, "%s %u\n", verbs[choice->act], choice->node + 1u);
        return true;
    }
}

static void write_head(FILE *out, const struct explore_model *model,
                       const struct explore_result *result)
{
    (void)fprintf(out, "# Found by 'conclave explore %s': %s\nprotocol %s", model->protocol->name,
                  result->detail, model->protocol->name);
    for (uint32_t i = 0; model->protocol->options[i].name != NULL; i++) {
        char text[CV_DURATION_TEXT_BYTES];
        if (model->protocol->options[i].kind == CV_OPTION_TIME) {
            (void)fprintf(out, " %s=%s", model->protocol->options[i].name,
                          cv__duration_format(model->config[0].option[i], text));
        }
    }
    (void)fprintf(out, "\nnodes %u\ndrift-bound 0ppm\n", model->node_count);
}

static bool write_path(FILE *out, struct explore_model *model, const struct explore_result *result)
{
    struct explore_world *world = explore_world_new(model);
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    bool is_told = true;
    memset(&model->end, 0, sizeof model->end);
    model->elapsed_ns = 0;
    explore_world_begin(model, world);
    for (uint32_t i = 0; is_told && i < result->path_count && explore_settle(model, world); i++) {
        const uint32_t count = explore_choices(model, world, choice);
        CV_ASSERT(result->path[i] < count);
        is_told = write_choice(out, model, world, &choice[result->path[i]]);
        (void)explore_do(model, world, &choice[result->path[i]]);
    }
    if (is_told && !model->end.is_broken) {
        (void)explore_settle(model, world); /* what time alone breaks */
    }
    free(world);
    return is_told;
}

int explore_story(struct explore_model *model, const struct explore_result *result, FILE *out,
                  struct cv_errtext *reterr)
{
    CV_ASSERT(result->outcome == EXPLORE_BROKEN);
    char *text = NULL;
    size_t length = 0;
    FILE *story = open_memstream(&text, &length);
    if (story == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory for a scenario");
    }
    write_head(story, model, result);
    const bool is_told = write_path(story, model, result) &&
                         model->delay_max_ns == model->tick_ns && model->config[0].drift_ppb == 0;
    char run[CV_DURATION_TEXT_BYTES];
    (void)fprintf(story, "run %s\nexpect broken %s\n",
                  cv__duration_format(model->elapsed_ns + model->tick_ns, run),
                  cv_property_name(result->property));
    (void)fclose(story);
    if (is_told) {
        (void)fwrite(text, 1, length, out);
    }
    free(text);
    return is_told
               ? CV_OK
               : cv__fail(reterr, CV_E_INVALID,
                          "this trace cannot be written as a scenario: it needs a late, repeated "
                          "or overtaking message, a crash in the middle of a step, a witness, a "
                          "reboot, a disk that fails, or drift");
}
