/* tests/support/local.c - see local.h. */
#include "support/local.h"

#include "support/support.h"

#include <stdio.h>

struct solo *local_process(cv_id self, uint32_t members, const char *options)
{
    char text[200];
    (void)snprintf(text, sizeof text, "ep=8ms expires=92.014408ms lock=123.014408ms %s", options);
    return solo_new("local", self, members, text);
}

bool local_is_supported(struct solo *c, cv_id candidate, uint64_t request, uint64_t token)
{
    solo_draft(c, "ELECTION");
    solo_put(c, "request", request);
    solo_put(c, "token", token);
    solo_put_set(c, "alive", BIT(c->config.self)); /* it hears us */
    solo_hear(c, candidate, FAST_NS);
    cv_id to = CV_ID_NONE;
    const struct cv_message *reply = solo_said_to(c, "REPLY", &to);
    assert_non_null(reply); /* every fast ELECTION is answered */
    assert_int_equal(to, candidate);
    assert_int_equal(solo_field(c, reply, "request"), request);
    return solo_field(c, reply, "supports") != 0;
}

void local_hear_release(struct solo *c, cv_id from, uint64_t request)
{
    solo_draft(c, "RELEASE");
    solo_put(c, "request", request);
    solo_hear(c, from, FAST_NS);
}

void local_hear_reply(struct solo *c, cv_id from, uint64_t request, bool supports)
{
    solo_draft(c, "REPLY");
    solo_put(c, "request", request);
    solo_put(c, "supports", supports);
    solo_hear(c, from, FAST_NS);
}

int64_t local_elect(struct solo *c)
{
    assert_int_equal(c->config.self, 1);
    for (uint32_t round = 0; round < 10; round++) {
        const struct cv_message *m = solo_await(c, "ELECTION", EXPIRES_NS);
        const uint64_t request = solo_field(c, m, "request");
        for (cv_id id = 2; id <= c->config.member_count; id++) {
            local_hear_reply(c, id, request, true);
        }
        if (solo_told(c) != NULL && solo_told(c)->leader == 1) {
            return (int64_t)request;
        }
    }
    fail_msg("not elected");
    return 0;
}
