/* verify/pole_trace.pml - can the model of `pole` follow a trace?
 *
 * tools/validate-trace turns a trace into steps: what a process sent, what it told its application, which faults hit it,
 * and how much time passed. Each step is possible only if the rules of pole.pml allow it; events that a trace does not
 * show (a process follows itself, gives up a claim, ...) may happen before it. spin looks for a run to the end. */
#define TRACE
#define LEASE lease
int lease;
#include "pole.pml"
#include "steps.pml"

int flight_epoch[FLIGHTS], flight_left[FLIGHTS]; /* messages under way that the trace names later; 0 is not used */

inline load_beat(from, who, flight)
{
    beat_epoch[from].at[who] = flight_epoch[flight];
    beat_left[from].at[who] = flight_left[flight]
}

inline store_follow(from, who, flight)
{
    flight_epoch[flight] = follow_epoch[who].at[from];
    flight_left[flight] = follow_left[who].at[from];
    follow_epoch[who].at[from] = 0;
    follow_left[who].at[from] = 0
}

inline pass_flights(dt)
{
    k = 0;
    do
    :: k < FLIGHTS -> SHORTER(flight_left[k], dt); k++
    :: else -> break
    od
}

/* Events that the trace does not show. */
inline unseen(who)
{
    if
    :: true
    :: MAY_FOLLOW_SELF(who) -> follow_self(who)
    :: MAY_GIVE_UP(who) -> give_up(who)
    fi
}

inline claims(who, e)
{
    if
    :: is_up[who] && claim[who] == e
    :: MAY_STAND(who, e) -> stand(who, e)
    :: MAY_RAISE(who, e) -> raise(who, e)
    fi
}

inline leads(who, e)
{
    if
    :: token[who] == e
    :: MAY_LEAD(who) && claim[who] == e -> lead(who)
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
        :: op == PASS -> pass(x); pass_flights(x)
        :: op == BEAT -> /* HEARTBEAT of epoch x leaves; y: the token of an established leader, or 0 */
            claims(a, x);
            if :: true :: MAY_FOLLOW_SELF(a) -> follow_self(a) fi;
            if :: y == 0 :: y > 0 -> leads(a, y) fi;
            if :: c > 0 -> flight_epoch[c] = x; flight_left[c] = LEASE :: else -> skip fi
        :: op == FOLLOW && is_up[a] -> /* the heartbeat c of b is followed; the answer is d */
            load_beat(b, a, c);
            MAY_FOLLOW(b, a) && beat_epoch[b].at[a] == x;
            hear(b, a);
            store_follow(b, a, d)
        :: op == TRY && is_up[a] -> /* the same, if it happens at this moment */
            load_beat(b, a, c);
            if
            :: !is_decided[d] && MAY_FOLLOW(b, a) -> hear(b, a); store_follow(b, a, d); is_decided[d] = true
            :: beat_epoch[b].at[a] = 0; beat_left[b].at[a] = 0
            fi
        :: op == DECIDED && is_decided[d] && flight_epoch[d] == x -> is_decided[d] = false
        :: op == ANSWER && is_up[a] ->
            follow_epoch[b].at[a] = flight_epoch[d];
            follow_left[b].at[a] = flight_left[d];
            take_answer(b, a)
        :: op == LED && is_up[a] -> leads(a, x); y <= valid[a] /* until y from now, at least */
        :: op == LOST && is_up[a] -> token[a] = 0
        :: op == REFUSE && is_up[a] -> /* a claim of its own that was not seen yet, or not before a crash */
            if
            :: x == followed_epoch[a]
            :: MAY_STAND(a, x) -> stand(a, x); MAY_FOLLOW_SELF(a); follow_self(a)
            :: x > followed_epoch[a] -> followed_epoch[a] = x; followed_leader[a] = a
            fi
        :: op == RELEASE && !LEADS(a) && x >= claimed[a] ->
            if :: x > claimed[a] && MAY_STAND(a, x) -> stand(a, x) :: x == claimed[a] fi;
            MAY_RELEASE(a);
            give_up(a)
        :: op == FREED && is_up[a] -> release_epoch[b].at[a] = x; hear_release(b, a)
        :: op == FAREWELL && !is_up[a] -> left[a] = 0 /* a witness saw that no process of it is left */
        :: op == CRASH && is_up[a] -> crash(a)
        :: op == START && !is_up[a] -> recover(a)
        fi;
        DONE
    }
    :: c_expr { now.at >= step_count } -> c_code { end_reached(); }
    od
}
