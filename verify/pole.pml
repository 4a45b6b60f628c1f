/* verify/pole.pml - claims, promises and leases of `pole`, as a model for spin.
 *
 * Written from [Becker11, sec. 3.1] and the rules that our design adds to it, not from the code. Who is chosen by
 * its score decides only who claims; here anybody claims at any time, which allows more than any selection does.
 * The rules have names, P1 to P8.
 *
 *   P1  a process never follows a smaller epoch than one it followed, nor an equal one of another leader
 *   P2  the pair (epoch, leader) survives a crash
 *   P3  a FOLLOW is a promise to follow nobody else for a lease; following oneself is one, too
 *   P4  a process that restarts follows nobody for a lease, unless it never promised
 *   P5  a leader counts a lease from the moment at which it sent what was answered
 *   P6  a leader needs a majority, itself included, at its epoch
 *   P7  when the time is over, it is over: answers that come later do not revive it
 *   P8  RELEASE frees promises: only of one who does not lead, and not within a lease of its start
 *
 * Time is one clock that goes on in ticks at any moment: messages take any time, are lost, and come in any order.
 * Not modelled: drift, scores and selection, reserved epochs, the witness.
 *
 * Switched off by a macro, P1 to P5 lead to an error; `make verify` checks that as well. P8 can be switched off without an
 * error for two processes; without P6 no search has ended yet; P7 has no switch. */

#ifndef N
#define N 3
#endif
#ifndef LEASE
#define LEASE 2
#endif
#ifndef EPOCHS
#define EPOCHS 2 /* 1 to EPOCHS; a run that needs more ends there */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef RELEASES
#define RELEASES 1
#endif

/* One heartbeat and one answer under way for each pair; a newer one replaces an older one, or the other way round. */
typedef row { byte at[N] };

byte followed_epoch[N], followed_leader[N]; /* durable; leader N: none */
byte promise[N];                            /* ticks left of the promise to followed_leader */
byte quarantine[N];
byte claim[N];                              /* epoch that is claimed; 0: none */
row answered[N];                            /* ticks left of a lease that began when the answered heartbeat was sent */
row beat_epoch[N], beat_left[N];            /* heartbeat from [i] to .at[j]: epoch 0: none; left of a lease since it was sent */
row follow_epoch[N], follow_left[N];        /* answer from [i] to .at[j] */
row release_epoch[N];                       /* RELEASE from [i] to .at[j] under way */
row released[N];                            /* at [i]: heartbeats of .at[j] up to this epoch are ignored */
byte token[N];                              /* of the leadership that is held; 0: none */
byte left[N];                               /* ticks left of one that a crash left behind: its work may still run */
byte started[N];                            /* ticks since the start, up to LEASE */
bool is_up[N];
byte token_max;
byte crashes, releases;

/* How long the leadership of i still lasts: the time of its quorum, oneself always answering. */
#if N == 2
#define VALID(i) (answered[i].at[1 - (i)])
#else
#define OTHER1(i) (((i) + 1) % 3)
#define OTHER2(i) (((i) + 2) % 3)
#define VALID(i) (answered[i].at[OTHER1(i)] > answered[i].at[OTHER2(i)] -> answered[i].at[OTHER1(i)] : answered[i].at[OTHER2(i)])
#endif

#ifdef WITHOUT_P6
#define HAS_SELF(i) true
#else
#define HAS_SELF(i) (followed_leader[i] == (i) && followed_epoch[i] == claim[i])
#endif

#define LEADS(i) (token[i] > 0)

byte i, j, k;

inline stop_claim(who)
{
    claim[who] = 0;
    token[who] = 0;
    k = 0;
    do
    :: k < N -> answered[who].at[k] = 0; k++
    :: else -> break
    od
}

/* Somebody stands: its own promise must be free, and is made to itself. */
inline stand(who)
{
    claim[who] = followed_epoch[who] + 1;
#ifndef WITHOUT_P3
    followed_epoch[who] = claim[who];
    followed_leader[who] = who;
    promise[who] = LEASE;
#else
    followed_epoch[who] = claim[who];
    followed_leader[who] = who;
#endif
}

inline check_leader(who)
{
    if
    :: claim[who] > 0 && !LEADS(who) && VALID(who) > 0 && HAS_SELF(who) ->
        token[who] = claim[who];
        assert(token[who] > token_max); /* token-monotonic */
        token_max = token[who];
        k = 0;
        do /* at-most-one-leader */
        :: k < N -> assert(k == who || (token[k] == 0 && left[k] == 0)); k++
        :: else -> break
        od;
        assert(left[who] == 0)
    :: else -> skip
    fi
}

/* Time goes on; what lasts is a tick shorter. A leader always keeps its promise to itself. */
inline tick()
{
    i = 0;
    do
    :: i < N ->
        if :: promise[i] > 0 -> promise[i]-- :: else -> skip fi;
        if :: quarantine[i] > 0 -> quarantine[i]-- :: else -> skip fi;
        if :: left[i] > 0 -> left[i]-- :: else -> skip fi;
        if :: is_up[i] && started[i] < LEASE -> started[i]++ :: else -> skip fi;
        j = 0;
        do
        :: j < N ->
            if :: answered[i].at[j] > 0 -> answered[i].at[j]-- :: else -> skip fi;
            if :: beat_left[i].at[j] > 0 -> beat_left[i].at[j]-- :: else -> skip fi;
            if :: follow_left[i].at[j] > 0 -> follow_left[i].at[j]-- :: else -> skip fi;
            j++
        :: else -> break
        od;
        if
        :: LEADS(i) && VALID(i) == 0 -> stop_claim(i)
        :: LEADS(i) && VALID(i) > 0 -> promise[i] = LEASE
        :: else -> skip
        fi;
        i++
    :: else -> break
    od
}

/* A heartbeat of i reaches j. */
#ifdef WITHOUT_P1
#define IS_NEWER(e, l, who) true
#else
#define IS_NEWER(e, l, who) ((e) > followed_epoch[who] || ((e) == followed_epoch[who] && (l) == followed_leader[who]))
#endif
#define IS_FREE(l, who) (promise[who] == 0 || followed_leader[who] == (l))

inline hear(from, who)
{
    if
    :: IS_NEWER(beat_epoch[from].at[who], from, who) && IS_FREE(from, who) && quarantine[who] == 0 &&
       beat_epoch[from].at[who] > released[who].at[from] ->
        followed_epoch[who] = beat_epoch[from].at[who];
        followed_leader[who] = from;
#ifndef WITHOUT_P3
        promise[who] = LEASE;
#endif
        if :: claim[who] > 0 -> stop_claim(who) :: else -> skip fi;
        follow_epoch[who].at[from] = followed_epoch[who];
        follow_left[who].at[from] = beat_left[from].at[who]
    :: else -> skip
    fi;
    beat_epoch[from].at[who] = 0;
    beat_left[from].at[who] = 0
}

inline take_answer(from, who)
{
    if
    :: claim[who] > 0 && follow_epoch[from].at[who] == claim[who] ->
#ifdef WITHOUT_P5
        answered[who].at[from] = LEASE;
#else
        if
        :: follow_left[from].at[who] > answered[who].at[from] -> answered[who].at[from] = follow_left[from].at[who]
        :: else -> skip
        fi;
#endif
        check_leader(who)
    :: else -> skip
    fi;
    follow_epoch[from].at[who] = 0;
    follow_left[from].at[who] = 0
}

inline crash(who)
{
    crashes++;
    if :: LEADS(who) -> left[who] = VALID(who) :: else -> skip fi;
    stop_claim(who);
    is_up[who] = false;
    promise[who] = 0;
    quarantine[who] = 0;
    started[who] = 0;
#ifdef WITHOUT_P2
    followed_epoch[who] = 0;
    followed_leader[who] = N;
#endif
    k = 0;
    do
    :: k < N -> released[who].at[k] = 0; k++
    :: else -> break
    od
}

inline recover(who)
{
    is_up[who] = true;
#ifndef WITHOUT_P4
    if :: followed_leader[who] < N -> quarantine[who] = LEASE :: else -> skip fi
#endif
}

inline send_releases(who)
{
    releases++;
    k = 0;
    do
    :: k < N ->
        if :: k != who -> release_epoch[who].at[k] = followed_epoch[who] :: else -> skip fi;
        k++
    :: else -> break
    od;
    if :: followed_leader[who] == who -> promise[who] = 0 :: else -> skip fi;
    stop_claim(who)
}

inline hear_release(from, who)
{
    if
    :: followed_leader[who] == from && followed_epoch[who] <= release_epoch[from].at[who] -> promise[who] = 0
    :: else -> skip
    fi;
    if
    :: release_epoch[from].at[who] > released[who].at[from] -> released[who].at[from] = release_epoch[from].at[who]
    :: else -> skip
    fi;
    release_epoch[from].at[who] = 0
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
        :: i < N -> is_up[i] = true; followed_leader[i] = N; started[i] = LEASE; i++
        :: else -> break
        od
    }
    do
    :: atomic {
        choose(a);
        choose(b);
        if
        :: a == 0 && b == 0 -> tick()
        :: is_up[a] && claim[a] == 0 && promise[a] == 0 && quarantine[a] == 0 && followed_epoch[a] < EPOCHS && a == b ->
            stand(a)
        :: a != b && is_up[a] && claim[a] > 0 -> /* sends, before or after what is under way, or that is lost */
            beat_epoch[a].at[b] = claim[a];
            beat_left[a].at[b] = LEASE
        :: a != b && is_up[b] && beat_epoch[a].at[b] > 0 -> hear(a, b)
        :: a != b && is_up[b] && follow_epoch[a].at[b] > 0 && !(LEADS(b) && VALID(b) == 0) -> take_answer(a, b)
        :: a == b && is_up[a] && crashes < CRASHES -> crash(a)
        :: a == b && !is_up[a] -> recover(a)
#ifdef WITHOUT_P8
        :: a == b && is_up[a] && releases < RELEASES && followed_leader[a] == a -> send_releases(a)
#else
        :: a == b && is_up[a] && releases < RELEASES && followed_leader[a] == a && started[a] == LEASE -> send_releases(a)
#endif
        :: a != b && is_up[b] && release_epoch[a].at[b] > 0 -> hear_release(a, b)
        :: else -> skip
        fi;
        a = 0; b = 0; i = 0; j = 0; k = 0
    }
    od
}
