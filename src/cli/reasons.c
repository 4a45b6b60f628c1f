/* src/cli/reasons.c - see reasons.h. */
#include "cli/reasons.h"

#include "core/types.h"

static const struct cv_cli_reason texts[] = {
    [CV_REASON_STARTED] = {"nothing is known yet", "wait for the first answer"},
    [CV_REASON_ELECTED] = {"a new leader", "nothing"},
    [CV_REASON_RENEWED] = {"the same leadership, prolonged", "nothing"},
    [CV_REASON_EXPIRED] = {"the lease ran out before it was renewed",
                           "look for pauses of the leader's machine, or a store or members that "
                           "answer too slowly for this lease; use a longer lease"},
    [CV_REASON_SUSPECTED] = {"the leader fell silent",
                             "see whether its machine or the network is down"},
    [CV_REASON_SUPERSEDED] = {"another contender made a newer or stronger claim, or the store gave "
                              "the leadership to another contender",
                              "if the store was not restored from a copy, look for a pause of the "
                              "leader that was longer than its lease"},
    [CV_REASON_RESIGNED] =
        {"the leader resigned by request, or because its process was told to end", "nothing"},
    [CV_REASON_LOST_QUORUM] = {"the leader no longer reaches a majority of the members",
                               "see which members are down or cut off"},
    [CV_REASON_STORE_UNREACHABLE] =
        {"the store did not answer until the lease was nearly over",
         "'conclave status' says whether the store answers now; see its log and the network"},
    [CV_REASON_STOPPED] = {"this process no longer takes part",
                           "if nobody stopped it, its state could not be saved; see its messages"},
    [CV_REASON_NO_PROGRESS] = {"the leader's work was stuck, so its lease was not renewed",
                               "find out where its command or application hangs"},
    [CV_REASON_DIED] = {"the leader's process and everything that it started are gone",
                        "find out why: its exit status, the kernel's log, its memory use"},
    [CV_REASON_FINISHED] =
        {"the command ended, with success or not, or was killed, or a job was already done in this "
         "period",
         "see the exit status of 'conclave run', which is that of the command: after 0 nothing; "
         "137 "
         "is SIGKILL, perhaps from the kernel because memory was short (see its log)"},
    [CV_REASON_GONE] =
        {"the leadership ended, but the store does not record whether the leader resigned, died or "
         "was late",
         "if the leader was not killed, 'conclave history' on its machine shows more"},
};
_Static_assert(COUNT_OF(texts) == CV_REASON_COUNT, "every reason has a text");

const struct cv_cli_reason *cv__cli_reason(enum cv_reason reason)
{
    CV_ASSERT((uint32_t)reason < CV_REASON_COUNT);
    return &texts[reason];
}
