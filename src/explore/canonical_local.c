/* src/explore/canonical_local.c - scratch, and times that are over; see canonical.h. */
#include "explore/canonical.h"
#include "protocols/local_state.h"

static void forget_past(struct local *l, int64_t now_ns)
{
    cv__set_clear(set_of(l, SET_SCRATCH), l->member_count);
    if (l->collate == 0) {
        l->answered_request_ns = 0;
    }
    if (l->rotate_ns == 0 || !is_leading(l)) {
        l->turn_began_ns = 0;
    }
    if (l->boot_until_ns <= now_ns) {
        l->boot_until_ns = 0;
    }
    if (!is_leading(l)) {
        l->expiration_ns = 0;
    }
    if (l->lost_until_ns <= now_ns) {
        l->lost = CV_ID_NONE;
        l->lost_until_ns = 0;
    }
    if (l->request_ns == 0) {
        cv__set_clear(set_of(l, SET_REPLY), l->member_count);
        l->request_token = 0;
    }
    if (!is_leading(l) && l->led_token < l->token_seen &&
        (l->request_ns == 0 || l->led_token < l->request_token)) {
        l->led_token = 0; /* every later request is for a larger one, too */
    }
    if (!is_leading(l)) {
        l->token = 0;
    }
    if (l->candidate_since_ns != 0) {
        l->candidate_since_ns = cv__max64(l->candidate_since_ns, now_ns - l->wait_ns);
    }
}

void explore_canonical_local(const struct explore_model *model, struct explore_world *w)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct explore_node *n = explore_node_at(model, w, i);
        if (n->is_up) {
            forget_past((struct local *)n->core, explore_now_ns(i));
        }
    }
    explore_canonical_lives(model, w);
}
