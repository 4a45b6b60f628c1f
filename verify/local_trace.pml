/* verify/local_trace.pml - can the model of `local` follow a trace? See pole_trace.pml. */
#define TRACE
#define LOCK lease
int lease;
#include "local.pml"
#include "steps.pml"

/* Not in the trace: a process that does not lead may forget its request. */
inline unseen(p)
{
    if
    :: true
    :: is_up[p] && lead_left[p] == 0 && locked_to[p] == p -> give_up(p)
    fi
}

active proctype follower()
{
    d_step {
        c_code { now.lease = (int)read_steps(); };
        begin()
    }
    do
    :: atomic { c_expr { now.at < step_count } ->
        FETCH;
        if :: op == PASS :: else -> unseen(a) fi;
        if
        :: op == PASS -> pass(x)
        :: op == ASK && is_up[a] -> /* ELECTION leaves, for the first time or again */
            if :: x == request[a] + 1 -> ask(a) :: x == request[a] fi;
            if :: true :: MAY_SUPPORT(a, a) -> support_self(a) fi
        :: op == SUPPORT && MAY_SUPPORT(a, b) -> lock(a, b, x, y) /* request x of life y of b is supported */
        :: op == TRY -> /* the same, if it happens at this moment */
            if
            :: true
            :: !is_decided[d] && MAY_SUPPORT(a, b) -> lock(a, b, x, y); is_decided[d] = true
            fi
        :: op == DECIDED && is_decided[d] -> is_decided[d] = false
        :: op == ANSWER && is_up[a] -> take_reply(b, a, x)
        :: op == LED && is_up[a] -> /* until y from now, at least */
            count_replies(a);
            if
            :: lead_left[a] >= y
            :: MAY_LEAD(a) -> lead(a); lead_left[a] >= y
            fi
        :: op == LOST && is_up[a] -> lead_left[a] = 0; end_leadership(a)
        :: op == HEARD && is_up[a] && locked_to[a] == b && locked_left[a] > 0 /* it follows the process that it supports */
        :: op == RELEASE && MAY_RELEASE(a) && x <= request[a] -> give_up(a)
        :: op == FREED && is_up[a] -> hear_release(b, a, x, y)
        :: op == CRASH && is_up[a] -> crash(a)
        :: op == START && !is_up[a] -> recover(a)
        fi;
        DONE
    }
    :: c_expr { now.at >= step_count } -> c_code { end_reached(); }
    od
}
