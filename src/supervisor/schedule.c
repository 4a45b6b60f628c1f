/* src/supervisor/schedule.c - see schedule.h. */
#include "supervisor/schedule.h"

int64_t cv__schedule_grace_ns_max(int64_t grant_ns)
{
    return grant_ns / 5 * 2;
}

int64_t cv__schedule_grace_ns(int64_t grant_ns)
{
    return cv__min64(cv__schedule_grace_ns_max(grant_ns), CV_GRACE_NS_DEFAULT);
}

struct cv_schedule cv__schedule(int64_t grace_ns, int64_t cleanup_ns, int64_t margin_ns)
{
    CV_ASSERT(grace_ns >= 0);
    CV_ASSERT(cleanup_ns >= 0);
    CV_ASSERT(margin_ns >= 0);
    if (margin_ns == 0) {
        margin_ns = cv__max64(CV_MARGIN_NS_MIN, cv__min64(grace_ns / 4, CV_MARGIN_NS_MAX));
    }
    return (struct cv_schedule){
        .grace_ns = grace_ns, .cleanup_ns = cleanup_ns, .margin_ns = margin_ns};
}

/* CV_NEVER_NS minus a span is still never, and a very early time does not overflow. */
static int64_t before(int64_t at_ns, int64_t span_ns)
{
    if (at_ns == CV_NEVER_NS) {
        return CV_NEVER_NS;
    }
    return at_ns < INT64_MIN + span_ns ? INT64_MIN : at_ns - span_ns;
}

static int64_t after(int64_t at_ns, int64_t span_ns)
{
    return at_ns > CV_NEVER_NS - span_ns ? CV_NEVER_NS : at_ns + span_ns;
}

int64_t cv__schedule_term_ns(const struct cv_schedule *schedule, int64_t valid_until_ns)
{
    return before(valid_until_ns,
                  cv__max64(schedule->grace_ns, schedule->margin_ns) + schedule->cleanup_ns);
}

int64_t cv__schedule_kill_ns(const struct cv_schedule *schedule, int64_t valid_until_ns,
                             int64_t stop_ns)
{
    return cv__min64(before(valid_until_ns, schedule->margin_ns + schedule->cleanup_ns),
                     after(stop_ns, schedule->grace_ns));
}

int64_t cv__schedule_rescue_ns(const struct cv_schedule *schedule, int64_t valid_until_ns,
                               int64_t stop_ns)
{
    return cv__min64(
        before(valid_until_ns, schedule->margin_ns / 2),
        after(after(stop_ns, schedule->grace_ns + schedule->cleanup_ns), CV_PATIENCE_NS));
}
