/* src/explore/describe.c - says in a trace what a choice is; see describe.h. */
#include "explore/describe.h"

#include "explore/service.h"

#include <stdio.h>
#include <string.h>

static const char *const act_verbs[EXPLORE_ACT_COUNT] = {
    [EXPLORE_ACT_DELIVER] = "reaches",
    [EXPLORE_ACT_OVERTAKE] = "overtakes and reaches",
    [EXPLORE_ACT_DUPLICATE] = "reaches, and will once more,",
    [EXPLORE_ACT_OVERTAKE_TWICE] = "overtakes and reaches, and will once more,",
    [EXPLORE_ACT_SAVED] = "has saved its record",
    [EXPLORE_ACT_SAVED_CRASH] = "crashes when its record is durable",
    [EXPLORE_ACT_SAVE_FAIL] = "cannot save its record",
    [EXPLORE_ACT_SAVE_FAIL_LATE] = "learns that saving failed, although its record is durable",
    [EXPLORE_ACT_LOSE] = "is lost on its way to",
    [EXPLORE_ACT_MISS] = "comes while nothing runs at",
    [EXPLORE_ACT_DELAY] = "will be late at",
    [EXPLORE_ACT_FORGET] = "was late and never reaches",
    [EXPLORE_ACT_CRASH] = "crashes",
    [EXPLORE_ACT_CRASH_WITNESSED] = "crashes, and its witness sees it",
    [EXPLORE_ACT_RECOVER] = "recovers",
    [EXPLORE_ACT_REBOOT] = "recovers, and its clock starts again",
    [EXPLORE_ACT_PAUSE] = "is paused",
    [EXPLORE_ACT_WAKE] = "goes on",
    [EXPLORE_ACT_RESIGN] = "is asked to resign",
};

static const char *const records[EXPLORE_RECORD_COUNT] = {
    [EXPLORE_RECORD_SAVED] = "",
    [EXPLORE_RECORD_CRASH] = "; it crashes at its record",
    [EXPLORE_RECORD_FAIL] = "; its disk fails",
    [EXPLORE_RECORD_FAIL_LATE] = "; its disk fails although the record is durable",
    [EXPLORE_RECORD_SLOW] = "; its disk is slow",
};

static void describe_message(struct explore_model *model, const struct explore_choice *choice)
{
    const char *verb = act_verbs[choice->act];
    const char *more = records[choice->record];
    const struct explore_message *m = explore_message_at(model, model->world, choice->what);
    if (explore_is_of_witness(m)) {
        static const char *const says[] = {
            [EXPLORE_HINT] = "a hint that it is down",
            [EXPLORE_CERTAIN] = "its certain death",
            [EXPLORE_FAREWELL] = "its certain death and its farewell",
        };
        explore_tell(model, "the witness of node %u (%s) %s node %u%s", m->from + 1u, says[m->kind],
                     verb, m->to + 1u, more);
        return;
    }
    if (m->kind != EXPLORE_PEER) {
        const bool is_query = m->kind == EXPLORE_QUERY;
        const char *name = explore_service_message_name(model, m);
        explore_tell(model, is_query ? "%s of node %u %s the service%s" : "%s for node %u %s it%s",
                     name, (is_query ? m->from : m->to) + 1u, verb, more);
        return;
    }
    const struct cv_message_type *type = &model->protocol->messages[m->type];
    char text[160] = "";
    size_t length = 0;
    for (uint32_t i = 0; type->fields[i].kind != CV_FIELD_END && length < sizeof text; i++) {
        uint32_t clock;
        const bool is_instant = explore_is_instant(m->word[i], &clock);
        const double value = is_instant
                                 ? (double)((int64_t)m->word[i] - explore_now_ns(clock)) / 1e6
                                 : (double)m->word[i];
        const int written =
            snprintf(text + length, sizeof text - length, is_instant ? " %s=%+gms" : " %s=%.17g",
                     type->fields[i].name, value);
        length += written > 0 ? (size_t)written : 0;
    }
    explore_tell(model, "%s from %u %s node %u%s:%s", type->name, m->from + 1u, verb, m->to + 1u,
                 more, text);
}

static void describe_timer(struct explore_model *model, const struct explore_choice *choice)
{
    const char *name = model->timers[choice->what];
    explore_tell(model, "node %u: timer %u%s%s%s%s", choice->node + 1u, choice->what,
                 name != NULL ? " (" : "", name != NULL ? name : "", name != NULL ? ")" : "",
                 records[choice->record]);
}

static void describe_cut(struct explore_model *model, const struct explore_choice *choice)
{
    char group[40] = "";
    for (uint32_t i = 0; i < model->node_count; i++) {
        const size_t length = strlen(group);
        if ((choice->what >> i & 1) != 0) {
            (void)snprintf(group + length, sizeof group - length, " %u", i + 1);
        }
    }
    explore_tell(model,
                 choice->act == EXPLORE_ACT_CUT        ? "partition:%s apart from the others"
                 : choice->act == EXPLORE_ACT_CUT_FROM ? "one-way cut: nobody else hears%s"
                                                       : "one-way cut: nobody else is heard by%s",
                 group);
}

static void describe_restart(struct explore_model *model, const struct explore_choice *choice)
{
    explore_tell(model, "the %s restarts%s",
                 model->service == EXPLORE_STORE ? "store" : "sequencer",
                 choice->what == EXPLORE_RESTART_SILENTLY  ? ", silently"
                 : choice->what == EXPLORE_RESTART_EXTENDS ? " and extends the lease"
                                                           : "");
}

void explore_describe(struct explore_model *model, const struct explore_choice *choice)
{
    if (model->say == NULL) {
        return;
    }
    switch (choice->act) {
    case EXPLORE_ACT_END:
        break;
    case EXPLORE_ACT_TIMER:
        describe_timer(model, choice);
        break;
    case EXPLORE_ACT_CUT:
    case EXPLORE_ACT_CUT_FROM:
    case EXPLORE_ACT_CUT_TO:
        describe_cut(model, choice);
        break;
    case EXPLORE_ACT_HEAL:
        explore_tell(model, "the partition heals");
        break;
    case EXPLORE_ACT_EXPIRE:
        explore_tell(model, "the record's time is over");
        break;
    case EXPLORE_ACT_RESTART:
        describe_restart(model, choice);
        break;
    case EXPLORE_ACT_CRASH:
    case EXPLORE_ACT_CRASH_WITNESSED:
    case EXPLORE_ACT_RECOVER:
    case EXPLORE_ACT_REBOOT:
    case EXPLORE_ACT_PAUSE:
    case EXPLORE_ACT_WAKE:
    case EXPLORE_ACT_RESIGN:
    case EXPLORE_ACT_SAVED:
    case EXPLORE_ACT_SAVED_CRASH:
    case EXPLORE_ACT_SAVE_FAIL:
    case EXPLORE_ACT_SAVE_FAIL_LATE:
        explore_tell(model, "node %u %s", choice->node + 1u, act_verbs[choice->act]);
        break;
    default:
        describe_message(model, choice);
    }
}
