/* verify/local.pml - requests, locks and leases of `local`, as a model for spin.
 *
 * Written from [Fetzer99] and the rules that our design adds to it, not from the code. Who is thought to be alive
 * decides only who stands and whom a free process supports; here anybody stands at any time, and supports
 * whom it likes, which allows more than any alive set does. The rules have names, L1 to L6.
 *
 *   L1  a process that is locked to one process supports no other
 *   L2  a lock lasts lockTime from the receipt of the request
 *   L3  a leadership lasts lockTime from the sending of the request
 *   L4  a process supports itself before it leads
 *   L5  RELEASE frees a lock to that very request; a process that leads, or led on that request, sends none for it
 *   L6  a process that restarts supports nobody for lockTime
 *
 * Judged: support-one (no process supports two that lead at once), and with MAJORITY at-most-one-leader.
 * Time is one clock that goes on in ticks at any moment; messages take any time, are lost, come in any order.
 * Not modelled: drift, alive sets, tokens, the tree, rotation. Switched off by a macro, each rule but L4 leads to an
 * error with two processes, which `make verify` checks; L4 needs three, which was not tried to the end. */

#ifndef N
#define N 3
#endif
#ifndef LOCK
#define LOCK 2
#endif
#ifndef REQUESTS
#define REQUESTS 2 /* of each process; a run that needs more ends there */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif

typedef row { byte at[N] };
typedef flags { bool at[N] };

byte request[N];            /* number of the latest request; 0: none */
byte request_left[N];       /* ticks left of lockTime since it was sent */
flags reply[N];             /* who supports it */
byte lead_left[N];          /* ticks left of a leadership; 0: none */
flags support[N];           /* who supports that leadership */
byte locked_to[N];          /* N: nobody */
byte locked_request[N];
byte locked_left[N];
byte quarantine[N];
bool is_up[N];
row election[N];            /* from [i] to .at[j]: number of the request under way; 0: none */
row reply_under_way[N];     /* from [i] to .at[j]: number of the supported request */
row release[N];             /* from [i] to .at[j] */
byte crashes;
byte i, j, k;

#if N == 2
#define SUPPORTERS(p) (reply[p].at[0] + reply[p].at[1])
#else
#define SUPPORTERS(p) (reply[p].at[0] + reply[p].at[1] + reply[p].at[2])
#endif
#ifdef MAJORITY
#define ENOUGH(p) (2 * SUPPORTERS(p) > N)
#else
#define ENOUGH(p) (SUPPORTERS(p) >= 1)
#endif
#ifdef WITHOUT_L4
#define HAS_SELF(p) true
#else
#define HAS_SELF(p) reply[p].at[p]
#endif

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

/* The process supports a request, if it may. */
inline consider(who, p, number)
{
    if
#ifdef WITHOUT_L1
    :: quarantine[who] == 0 ->
#else
    :: quarantine[who] == 0 && (locked_left[who] == 0 || locked_to[who] == p) ->
#endif
        locked_to[who] = p;
        locked_request[who] = number;
#ifdef WITHOUT_L2
        locked_left[who] = LOCK - 1;
#else
        locked_left[who] = LOCK;
#endif
        if
        :: who == p -> reply[p].at[p] = true
        :: else -> reply_under_way[who].at[p] = number
        fi
    :: else -> skip
    fi
}

inline stand(p)
{
    request[p]++;
    request_left[p] = LOCK;
    clear_replies(p);
    k = 0;
    do
    :: k < N ->
        if :: k != p -> election[p].at[k] = request[p] :: else -> skip fi;
        k++
    :: else -> break
    od;
    consider(p, p, request[p])
}

inline lead(p)
{
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
        :: i != p && lead_left[i] > 0 ->
#ifdef MAJORITY
            assert(false); /* at-most-one-leader */
#endif
            k = 0;
            do /* support-one */
            :: k < N -> assert(!(support[i].at[k] && support[p].at[k])); k++
            :: else -> break
            od
        :: else -> skip
        fi;
        i++
    :: else -> break
    od
}

inline give_up(p)
{
    k = 0;
    do
    :: k < N ->
        if :: k != p -> release[p].at[k] = request[p] :: else -> skip fi;
        k++
    :: else -> break
    od;
    if
    :: locked_to[p] == p && locked_request[p] == request[p] -> locked_left[p] = 0
    :: else -> skip
    fi;
    request_left[p] = 0;
    clear_replies(p)
}

inline hear_release(p, who)
{
    if
    :: locked_to[who] == p && locked_request[who] == release[p].at[who] -> locked_left[who] = 0
    :: else -> skip
    fi;
    if /* a request that is overtaken by its release is ignored */
    :: election[p].at[who] == release[p].at[who] -> election[p].at[who] = 0
    :: else -> skip
    fi;
    release[p].at[who] = 0
}

/* What it leads by goes on without it: its work may still run. */
inline crash(p)
{
    crashes++;
    is_up[p] = false;
    request_left[p] = 0;
    clear_replies(p);
    locked_left[p] = 0;
    locked_to[p] = N;
    locked_request[p] = 0;
    quarantine[p] = 0
}

inline recover(p)
{
    is_up[p] = true;
#ifndef WITHOUT_L6
    quarantine[p] = LOCK
#endif
}

inline tick()
{
    i = 0;
    do
    :: i < N ->
        if :: request_left[i] > 0 -> request_left[i]-- :: else -> skip fi;
        if :: locked_left[i] > 0 -> locked_left[i]-- :: else -> skip fi;
        if :: quarantine[i] > 0 -> quarantine[i]-- :: else -> skip fi;
        if
        :: lead_left[i] > 0 ->
            lead_left[i]--;
            if :: lead_left[i] == 0 -> end_leadership(i) :: else -> skip fi
        :: else -> skip
        fi;
        i++
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
    d_step {
        i = 0;
        do
        :: i < N -> is_up[i] = true; locked_to[i] = N; i++
        :: else -> break
        od
    }
    do
    :: atomic {
        choose(a);
        choose(b);
        if
        :: a == 0 && b == 0 -> tick()
        :: a == b && is_up[a] && request[a] < REQUESTS -> stand(a)
        :: a != b && is_up[b] && election[a].at[b] > 0 -> consider(b, a, election[a].at[b]); election[a].at[b] = 0
        :: a != b && is_up[b] && reply_under_way[a].at[b] > 0 ->
            if
            :: reply_under_way[a].at[b] == request[b] && request_left[b] > 0 -> reply[b].at[a] = true
            :: else -> skip
            fi;
            reply_under_way[a].at[b] = 0
#ifdef WITHOUT_L3
        :: a == b && is_up[a] && HAS_SELF(a) && ENOUGH(a) && request[a] > 0 -> lead(a)
#else
        :: a == b && is_up[a] && request_left[a] > 0 && HAS_SELF(a) && ENOUGH(a) -> lead(a)
#endif
#ifdef WITHOUT_L5
        :: a == b && is_up[a] && request[a] > 0 && request_left[a] > 0 -> give_up(a)
#else
        :: a == b && is_up[a] && request[a] > 0 && request_left[a] > 0 && lead_left[a] == 0 -> give_up(a)
#endif
        :: a != b && is_up[b] && release[a].at[b] > 0 -> hear_release(a, b)
        :: a == b && is_up[a] && crashes < CRASHES -> crash(a)
        :: a == b && !is_up[a] -> recover(a)
        :: else -> skip
        fi;
        a = 0; b = 0; i = 0; j = 0; k = 0
    }
    od
}
