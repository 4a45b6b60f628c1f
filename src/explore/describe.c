/* src/explore/describe.c - says in a trace what a choice is; see describe.h. */
#include "explore/describe.h"

#include "explore/service.h"

#include <stdio.h>
#include <string.h>

static void describe_message(struct explore_model *model, const char *verb, uint32_t index)
{
    const struct explore_message *m = explore_message_at(model, model->world, index);
    if (explore_is_of_witness(m)) {
        static const char *const says[] = {
            [EXPLORE_HINT] = "a hint that it is down",
            [EXPLORE_CERTAIN] = "its certain death",
            [EXPLORE_FAREWELL] = "its certain death and its farewell",
        };
        explore_tell(model, "the witness of node %u (%s) %s node %u", m->from + 1u, says[m->kind],
                     verb, m->to + 1u);
        return;
    }
    if (m->kind != EXPLORE_PEER) {
        const bool is_query = m->kind == EXPLORE_QUERY;
        const char *name = explore_service_message_name(model, m);
        explore_tell(model, is_query ? "%s of node %u %s the service" : "%s for node %u %s it",
                     name, (is_query ? m->from : m->to) + 1u, verb);
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
    explore_tell(model, "%s from %u %s node %u:%s", type->name, m->from + 1u, verb, m->to + 1u,
                 text);
}

static const char *const act_verbs[EXPLORE_ACT_COUNT] = {
    [EXPLORE_ACT_DELIVER] = "reaches",
    [EXPLORE_ACT_OVERTAKE] = "overtakes and reaches",
    [EXPLORE_ACT_DUPLICATE] = "reaches, and will once more,",
    [EXPLORE_ACT_DELIVER_CRASH] = "reaches, which crashes at its record,",
    [EXPLORE_ACT_DELIVER_FAIL] = "reaches, whose disk fails,",
    [EXPLORE_ACT_DELIVER_FAIL_LATE] = "reaches, whose disk fails although the record is durable,",
    [EXPLORE_ACT_DELIVER_SLOW] = "reaches, whose disk is slow,",
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

static void describe_timer(struct explore_model *model, const struct explore_choice *choice)
{
    const char *name = model->timers[choice->what];
    explore_tell(model, "node %u: timer %u%s%s%s%s", choice->node + 1u, choice->what,
                 name != NULL ? " (" : "", name != NULL ? name : "", name != NULL ? ")" : "",
                 choice->act == EXPLORE_ACT_TIMER         ? ""
                 : choice->act == EXPLORE_ACT_TIMER_CRASH ? ", and it crashes at its record"
                 : choice->act == EXPLORE_ACT_TIMER_SLOW  ? ", and its disk is slow"
                 : choice->act == EXPLORE_ACT_TIMER_FAIL
                     ? ", and its disk fails"
                     : ", and its disk fails although the record is durable");
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
    case EXPLORE_ACT_TIMER_CRASH:
    case EXPLORE_ACT_TIMER_FAIL:
    case EXPLORE_ACT_TIMER_FAIL_LATE:
    case EXPLORE_ACT_TIMER_SLOW:
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
        describe_message(model, act_verbs[choice->act], choice->what);
    }
}
