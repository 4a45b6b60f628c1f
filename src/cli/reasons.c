/* src/cli/reasons.c - see reasons.h. */
#include "cli/reasons.h"

#include "core/types.h"

static const struct cv_reason_text texts[] = {
    [CV_REASON_STARTED] = {"nothing is known yet", "wait for the first answer"},
    [CV_REASON_ELECTED] = {"a new leader", "nothing"},
    [CV_REASON_RENEWED] = {"the same leadership, prolonged", "nothing"},
    [CV_REASON_EXPIRED] = {"the lease ran out before it was renewed",
                           "look for pauses of the leader's machine, or a store that answers too "
                           "slowly for this lease; use a longer --lease"},
    [CV_REASON_SUSPECTED] = {"the leader fell silent",
                             "see whether its machine or the network is down"},
    [CV_REASON_SUPERSEDED] = {"a newer or stronger claim was heard, or the store has given the "
                              "leadership to another",
                              "if nobody restored the store from a copy, look for a pause of the "
                              "leader that was longer than its lease"},
    [CV_REASON_RESIGNED] = {"the leader stepped down by request, or when it was told to end",
                            "nothing"},
    [CV_REASON_LOST_QUORUM] = {"the leader does not reach a majority of the members any more",
                               "see which members are down or cut off"},
    [CV_REASON_STORE_UNREACHABLE] =
        {"the store did not answer until the lease was nearly over",
         "'conclave status' says whether the store answers now; see its log and the network"},
    [CV_REASON_STOPPED] = {"this process takes no part any more",
                           "if nobody stopped it: what it must remember could not be saved; see "
                           "its messages"},
    [CV_REASON_NO_PROGRESS] = {"the leader's work was stuck, so its lease was not renewed",
                               "see what its command or application hangs at"},
    [CV_REASON_DIED] = {"the leader's process is gone, and so is what it had started",
                        "see why it was killed: its exit status, the kernel's log, its memory"},
    [CV_REASON_FINISHED] = {"the command ended by itself", "nothing"},
    [CV_REASON_GONE] = {"nobody holds it any more; the store does not say whether the leader "
                        "resigned, died or was late",
                        "if it was not killed, 'conclave history' on the leader's machine knows "
                        "more"},
};
_Static_assert(COUNT_OF(texts) == CV_REASON_COUNT, "every reason has a text");

const struct cv_reason_text *cv__reason_text(enum cv_reason reason)
{
    CV_ASSERT((uint32_t)reason < CV_REASON_COUNT);
    return &texts[reason];
}
