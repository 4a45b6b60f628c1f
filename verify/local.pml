/* verify/local.pml - requests, locks and leases of `local`, as a model for spin.
 *
 * Written from [Fetzer99] and the rules that our design adds to it, not from the code. Alive sets decide only
 * which processes ask for support, and which one a free process supports; here any process asks at any time,
 * and a free process supports any other, which allows more than any alive set does. The rules are L1 to L7.
 *
 *   L1  a process that is locked to one process supports no other
 *   L2  a lock lasts lockTime from the receipt of the request
 *   L3  a leadership lasts lockTime from the sending of the request
 *   L4  a process supports itself before it leads
 *   L5  RELEASE frees a lock to that request, or to an earlier one of the same life; a process that leads sends none
 *   L6  a process that restarts supports nobody for lockTime, unless it never supported anybody
 *   L7  a lock that a later life of the same process takes over is not freed before the first one would have ended
 *
 * Judged: support-one (no process supports two that lead at once), and with MAJORITY at-most-one-leader.
 * Time is one clock that may advance at any moment; messages take any time, are lost, come in any order.
 * Not modelled: drift, alive sets, tokens, the tree, rotation. A macro switches each rule off: without it spin finds an
 * error with two processes, except for L4, and `make verify` checks that. L4 needs three; that search was not completed.
 *
 * With TRACE the model follows a trace of the program instead: see local_trace.pml. */

#ifndef N
#define N 3
#endif
#ifndef TRACE
#define NUMBER byte          /* of a request, or a time in ticks */
#define JUDGE(x) assert(x)
#else
#define NUMBER int           /* nanoseconds */
#define JUDGE(x) (x)         /* a run that breaks it ends here */
#endif
#ifndef LOCK
#define LOCK 2
#endif
#ifndef REQUESTS
#define REQUESTS 2 /* per process; a run that needs more ends there */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif

typedef row { NUMBER at[N] };
typedef flags { bool at[N] };

NUMBER request[N];          /* number of the latest request; 0: none */
NUMBER request_left[N];     /* time left of lockTime since it was sent */
flags reply[N];             /* the processes that support it */
NUMBER lead_left[N];        /* time left of a leadership; 0: none */
NUMBER left[N];             /* time left of a leadership that a crash left behind: its work may still run */
flags support[N];           /* the processes that support that leadership */
byte locked_to[N];          /* N: none */
NUMBER locked_request[N];
byte locked_life[N];        /* of the process that it is locked to */
NUMBER locked_left[N];
NUMBER earlier_left[N];     /* how long an earlier life of that process may still lead by this lock */
NUMBER quarantine[N];
bool has_supported[N];      /* durable */
byte life[N];
bool is_up[N];
row election[N];            /* from [i] to .at[j]: number of the request under way; 0: none */
row election_life[N];
row reply_under_way[N];     /* from [i] to .at[j]: number of the supported request */
row release[N];             /* from [i] to .at[j] */
row release_life[N];
byte crashes;
byte i, j, k, n;

#ifdef MAJORITY
#define LEAST (N / 2 + 1)
#else
#define LEAST 1
#endif
#ifdef WITHOUT_L4
#define HAS_SELF(p) true
#else
#define HAS_SELF(p) reply[p].at[p]
#endif
#ifdef WITHOUT_L1
#define MAY_SUPPORT(who, p) (is_up[who] && quarantine[who] == 0)
#else
#define MAY_SUPPORT(who, p) (is_up[who] && quarantine[who] == 0 && (locked_left[who] == 0 || locked_to[who] == p))
#endif
#ifdef WITHOUT_L3
#define MAY_LEAD(p) (is_up[p] && request[p] > 0 && HAS_SELF(p) && n >= LEAST)
#else
#define MAY_LEAD(p) (is_up[p] && request_left[p] > 0 && HAS_SELF(p) && n >= LEAST) /* n: see count_replies() */
#endif
#ifdef WITHOUT_L5
#define MAY_RELEASE(p) (is_up[p] && request[p] > 0)
#else
#define MAY_RELEASE(p) (is_up[p] && request[p] > 0 && lead_left[p] == 0)
#endif

inline count_replies(p)
{
    n = 0;
    k = 0;
    do
    :: k < N -> n = n + reply[p].at[k]; k++
    :: else -> break
    od
}

inline clear_replies(p)
{
    k = 0;
    do
    :: k < N -> reply[p].at[k] = false; k++
    :: else -> break
    od
}

inline end_leadership(p)
{
    k = 0;
    do
    :: k < N -> support[p].at[k] = false; k++
    :: else -> break
    od
}

/* The process locks to a request: see MAY_SUPPORT. */
inline lock(who, p, number, its_life)
{
    if
    :: locked_to[who] != p || locked_left[who] == 0 -> earlier_left[who] = 0
#ifndef WITHOUT_L7
    :: locked_to[who] == p && locked_left[who] > 0 && locked_life[who] < its_life -> earlier_left[who] = locked_left[who]
#endif
    :: else -> skip
    fi;
    if
    :: locked_to[who] != p || locked_left[who] == 0 || number > locked_request[who] ->
        locked_request[who] = number;
        locked_life[who] = its_life
    :: else -> skip /* overtaken */
    fi;
    locked_to[who] = p;
    has_supported[who] = true;
#ifdef WITHOUT_L2
    locked_left[who] = LOCK - 1
#else
    locked_left[who] = LOCK
#endif
}

inline unlock(who)
{
    locked_to[who] = N;
    locked_left[who] = 0;
    locked_request[who] = 0;
    locked_life[who] = 0;
    earlier_left[who] = 0
}

inline support_self(p)
{
    lock(p, p, request[p], life[p]);
    reply[p].at[p] = true
}

inline ask(p)
{
    request[p]++;
    request_left[p] = LOCK;
    clear_replies(p)
}

inline lead(p)
{
    JUDGE(left[p] == 0);
#ifdef WITHOUT_L3
    lead_left[p] = LOCK;
#else
    lead_left[p] = request_left[p];
#endif
    k = 0;
    do
    :: k < N -> support[p].at[k] = reply[p].at[k]; k++
    :: else -> break
    od;
    i = 0;
    do
    :: i < N ->
        if
        :: i != p && (lead_left[i] > 0 || left[i] > 0) ->
#ifdef MAJORITY
            JUDGE(false); /* at-most-one-leader */
#endif
            k = 0;
            do /* support-one */
            :: k < N -> JUDGE(!(support[i].at[k] && support[p].at[k])); k++
            :: else -> break
            od
        :: else -> skip
        fi;
        i++
    :: else -> break
    od
}

/* Nothing depends on its lock to itself, and answers to its earlier requests do not count any
 * more. */
inline give_up(p)
{
    if
    :: locked_to[p] == p -> unlock(p)
    :: else -> skip
    fi;
    request_left[p] = 0;
    clear_replies(p)
}

inline send_releases(p)
{
    k = 0;
    do
    :: k < N ->
        if :: k != p -> release[p].at[k] = request[p]; release_life[p].at[k] = life[p] :: else -> skip fi;
        k++
    :: else -> break
    od;
    give_up(p)
}

inline hear_release(p, who, number, its_life)
{
    if
    :: locked_to[who] == p && locked_life[who] == its_life && locked_request[who] <= number ->
        if
        :: earlier_left[who] > 0 -> locked_left[who] = earlier_left[who]
        :: else -> unlock(who)
        fi
    :: else -> skip
    fi
}

inline take_reply(from, p, number)
{
    if
    :: number == request[p] && request_left[p] > 0 -> reply[p].at[from] = true
    :: else -> skip
    fi
}

/* Its leadership goes on without it: its work may still run. */
inline crash(p)
{
    crashes++;
    is_up[p] = false;
    if :: lead_left[p] > 0 -> left[p] = lead_left[p] :: else -> skip fi;
    lead_left[p] = 0;
    request_left[p] = 0;
    clear_replies(p);
    unlock(p);
    quarantine[p] = 0
}

inline recover(p)
{
    is_up[p] = true;
    life[p]++;
#ifndef WITHOUT_L6
    if :: has_supported[p] -> quarantine[p] = LOCK :: else -> skip fi
#endif
}

#define SHORTER(x, dt) x = ((x) > (dt) -> (x) - (dt) : 0)

inline pass(dt)
{
    i = 0;
    do
    :: i < N ->
        SHORTER(request_left[i], dt);
        SHORTER(locked_left[i], dt);
        SHORTER(earlier_left[i], dt);
        SHORTER(quarantine[i], dt);
        if
        :: lead_left[i] > 0 || left[i] > 0 ->
            SHORTER(lead_left[i], dt);
            SHORTER(left[i], dt);
            if :: lead_left[i] == 0 && left[i] == 0 -> end_leadership(i) :: else -> skip fi
        :: else -> skip
        fi;
        i++
    :: else -> break
    od
}

inline begin()
{
    i = 0;
    do
    :: i < N -> is_up[i] = true; locked_to[i] = N; i++
    :: else -> break
    od;
    i = 0
}

#ifndef TRACE
inline send_elections(p)
{
    k = 0;
    do
    :: k < N ->
        if :: k != p -> election[p].at[k] = request[p]; election_life[p].at[k] = life[p] :: else -> skip fi;
        k++
    :: else -> break
    od
}

inline choose(x)
{
    x = 0;
    do
    :: x < N - 1 -> x++
    :: break
    od
}

active proctype world()
{
    byte a, b;
    d_step { begin() }
    do
    :: atomic {
        choose(a);
        choose(b);
        count_replies(a);
        if
        :: a == 0 && b == 0 -> pass(1)
        :: a == b && is_up[a] && request[a] < REQUESTS ->
            ask(a);
            send_elections(a);
            if :: MAY_SUPPORT(a, a) -> support_self(a) :: else -> skip fi
        :: a != b && is_up[b] && election[a].at[b] > 0 ->
            if
            :: MAY_SUPPORT(b, a) ->
                lock(b, a, election[a].at[b], election_life[a].at[b]);
                reply_under_way[b].at[a] = election[a].at[b]
            :: else -> skip
            fi;
            election[a].at[b] = 0;
            election_life[a].at[b] = 0
        :: a != b && is_up[b] && reply_under_way[a].at[b] > 0 ->
            take_reply(a, b, reply_under_way[a].at[b]);
            reply_under_way[a].at[b] = 0
        :: a == b && MAY_LEAD(a) -> lead(a)
        :: a == b && is_up[a] && lead_left[a] > 0 -> lead_left[a] = 0; end_leadership(a) /* resigns */
        :: a == b && MAY_RELEASE(a) -> send_releases(a)
        :: a != b && is_up[b] && release[a].at[b] > 0 ->
            hear_release(a, b, release[a].at[b], release_life[a].at[b]);
            if /* a request that is overtaken by its release is ignored */
            :: election[a].at[b] <= release[a].at[b] && election_life[a].at[b] == release_life[a].at[b] ->
                election[a].at[b] = 0;
                election_life[a].at[b] = 0
            :: else -> skip
            fi;
            release[a].at[b] = 0;
            release_life[a].at[b] = 0
        :: a == b && is_up[a] && crashes < CRASHES -> crash(a)
        :: a == b && !is_up[a] -> recover(a)
        :: else -> skip
        fi;
        a = 0; b = 0; i = 0; j = 0; k = 0; n = 0
    }
    od
}
#endif
