/* verify/pole.pml - claims, promises and leases of `pole`, as a model for spin.
 *
 * Written from [Becker11, sec. 3.1] and the rules that our design adds to it, not from the code. The choice by
 * score decides only which process claims; here any process claims at any time, which allows more than any
 * selection does. The rules are P1 to P9.
 *
 *   P1  a process never follows a smaller epoch than one it followed, nor an equal one of another leader
 *   P2  the pair (epoch, leader) survives a crash
 *   P3  a FOLLOW is a promise to follow nobody else for a lease; following oneself is one, too
 *   P4  a process that restarts follows nobody for a lease, unless it never promised
 *   P5  a leader counts a lease from the moment at which it sent the answered heartbeat
 *   P6  a leader needs a majority, itself included, at its epoch
 *   P7  a leadership ends with its time: answers that come later do not revive it
 *   P8  RELEASE frees promises: sent only by a process that does not lead, and not within a lease of its start
 *   P9  a claim may be raised to a larger epoch; a leader keeps its token, others begin again to count answers
 *
 * Time is one clock that may advance at any moment: messages take any time, are lost, and come in any order.
 * Not modelled: drift, scores and selection, reserved epochs.
 *
 * Macros switch rules off: without one of P1 to P5 spin finds an error, and `make verify` checks that as well. Without P8
 * two processes show no error; without P6 no search has ended yet; P7 has no switch.
 *
 * With TRACE the model follows a trace of the program instead: see pole_trace.pml. */

#ifndef N
#define N 3
#endif
#define QUORUM (N / 2 + 1)
#ifndef TRACE
#define NUMBER byte          /* an epoch, or a time in ticks */
#define JUDGE(x) assert(x)
#else
#define NUMBER int           /* nanoseconds */
#define JUDGE(x) (x)         /* a run that breaks it ends here */
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
typedef row { NUMBER at[N] };

NUMBER followed_epoch[N];        /* durable, with ... */
byte followed_leader[N];         /* N: none */
NUMBER promise[N];               /* time left of the promise to followed_leader */
NUMBER quarantine[N];
NUMBER claim[N];                 /* the claimed epoch; 0: none */
NUMBER claimed[N];               /* the largest epoch that this life claimed */
row answered[N];                 /* time left of a lease that began when the answered heartbeat was sent */
NUMBER valid[N];                 /* time left of the majority with the most time left: follows from `answered` */
row beat_epoch[N], beat_left[N]; /* heartbeat from [i] to .at[j]: epoch 0: none; left of a lease since it was sent */
row follow_epoch[N], follow_left[N]; /* answer from [i] to .at[j] */
row release_epoch[N];            /* RELEASE from [i] to .at[j] under way */
row released[N];                 /* at [i]: heartbeats of .at[j] up to this epoch are ignored */
NUMBER token[N];                 /* of the leadership that is held; 0: none */
NUMBER left[N];                  /* time left of one that a crash left behind: its work may still run */
NUMBER started[N];               /* time since the start, up to LEASE */
bool is_up[N];
NUMBER token_max;
byte crashes, releases;
byte i, j, k, n;

#ifdef WITHOUT_P6
#define HAS_SELF(i) true
#else
#define HAS_SELF(i) (followed_leader[i] == (i) && followed_epoch[i] == claim[i])
#endif
#ifdef WITHOUT_P1
#define IS_NEWER(e, l, who) true
#else
#define IS_NEWER(e, l, who) ((e) > followed_epoch[who] || ((e) == followed_epoch[who] && (l) == followed_leader[who]))
#endif
#define IS_FREE(l, who) (promise[who] == 0 || followed_leader[who] == (l))
#define LEADS(i) (token[i] > 0)
#define MAX_OF(x, y) ((x) > (y) -> (x) : (y))

#define MAY_STAND(who, e) (is_up[who] && claim[who] == 0 && (e) > followed_epoch[who] && (e) > claimed[who])
#define MAY_RAISE(who, e) (is_up[who] && claim[who] > 0 && (e) > followed_epoch[who] && (e) > claimed[who])
#define MAY_FOLLOW_SELF(who) (is_up[who] && claim[who] > followed_epoch[who] && IS_FREE(who, who) && quarantine[who] == 0)
#define MAY_LEAD(who) (is_up[who] && claim[who] > 0 && !LEADS(who) && valid[who] > 0 && HAS_SELF(who))
#define MAY_GIVE_UP(who) (is_up[who] && claim[who] > 0 && !LEADS(who))
#ifdef WITHOUT_P8
#define MAY_RELEASE(who) (is_up[who] && claimed[who] > 0)
#else
#define MAY_RELEASE(who) (is_up[who] && claimed[who] > 0 && started[who] == LEASE)
#endif

inline forget_answers(who)
{
    k = 0;
    do
    :: k < N -> answered[who].at[k] = 0; k++
    :: else -> break
    od;
    valid[who] = 0
}

inline stop_claim(who)
{
    claim[who] = 0;
    token[who] = 0;
    forget_answers(who)
}

inline stand(who, e)
{
    claim[who] = e;
    claimed[who] = e
}

inline raise(who, e)
{
    claim[who] = e;
    claimed[who] = e;
    if
    :: !LEADS(who) -> forget_answers(who)
    :: else -> skip
    fi
}

/* Its own promise must be free; it then promises itself. */
inline follow_self(who)
{
    followed_epoch[who] = claim[who];
    followed_leader[who] = who;
#ifndef WITHOUT_P3
    promise[who] = LEASE
#endif
}

/* Nothing depends on the promise to itself of a process that does not lead. */
inline give_up(who)
{
    stop_claim(who);
    if :: followed_leader[who] == who -> promise[who] = 0 :: else -> skip fi
}

inline lead(who)
{
    token[who] = claim[who];
    JUDGE(token[who] > token_max); /* token-monotonic */
    token_max = token[who];
    k = 0;
    do /* at-most-one-leader */
    :: k < N -> JUDGE((k == who || token[k] == 0) && left[k] == 0); k++
    :: else -> break
    od
}

#define SHORTER(x, dt) x = ((x) > (dt) -> (x) - (dt) : 0)

/* Time passes, and all that is left becomes shorter. A leader always renews its promise to
 * itself. */
inline pass(dt)
{
    i = 0;
    do
    :: i < N ->
        SHORTER(promise[i], dt);
        SHORTER(quarantine[i], dt);
        SHORTER(left[i], dt);
        SHORTER(valid[i], dt);
        if :: is_up[i] -> started[i] = (LEASE - started[i] > (dt) -> started[i] + (dt) : LEASE) :: else -> skip fi;
        j = 0;
        do
        :: j < N ->
            SHORTER(answered[i].at[j], dt);
            SHORTER(beat_left[i].at[j], dt);
            SHORTER(follow_left[i].at[j], dt);
            j++
        :: else -> break
        od;
        if
        :: LEADS(i) && valid[i] == 0 -> stop_claim(i)
        :: LEADS(i) && valid[i] > 0 -> promise[i] = LEASE
        :: else -> skip
        fi;
        i++
    :: else -> break
    od
}

/* A heartbeat reaches another process, which follows it if it may. */
#define MAY_FOLLOW(from, who) (IS_NEWER(beat_epoch[from].at[who], from, who) && IS_FREE(from, who) && \
                               quarantine[who] == 0 && beat_epoch[from].at[who] > released[who].at[from])

inline hear(from, who)
{
    if
    :: MAY_FOLLOW(from, who) ->
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

/* The time that QUORUM - 1 others, and the process itself, have at least. */
inline count_answers(who)
{
    j = 0;
    do
    :: j < N ->
        n = 0;
        k = 0;
        do
        :: k < N ->
            if :: k != who && answered[who].at[k] >= answered[who].at[j] -> n++ :: else -> skip fi;
            k++
        :: else -> break
        od;
        if
        :: j != who && n >= QUORUM - 1 -> valid[who] = MAX_OF(valid[who], answered[who].at[j])
        :: else -> skip
        fi;
        j++
    :: else -> break
    od;
    n = 0
}

inline take_answer(from, who)
{
    if
    :: claim[who] > 0 && follow_epoch[from].at[who] <= claim[who] &&
       follow_epoch[from].at[who] >= (LEADS(who) -> token[who] : claim[who]) ->
#ifdef WITHOUT_P5
        answered[who].at[from] = LEASE;
#else
        answered[who].at[from] = MAX_OF(answered[who].at[from], follow_left[from].at[who]);
#endif
        count_answers(who)
    :: else -> skip
    fi;
    follow_epoch[from].at[who] = 0;
    follow_left[from].at[who] = 0
}

/* Answers to heartbeats of an earlier life do not count: a heartbeat names the life of its
 * sender. */
inline crash(who)
{
    crashes++;
    if :: LEADS(who) -> left[who] = valid[who] :: else -> skip fi;
    stop_claim(who);
    is_up[who] = false;
    claimed[who] = 0;
    promise[who] = 0;
    quarantine[who] = 0;
    started[who] = 0;
#ifdef WITHOUT_P2
    followed_epoch[who] = 0;
    followed_leader[who] = N;
#endif
    k = 0;
    do
    :: k < N ->
        released[who].at[k] = 0;
        beat_left[who].at[k] = 0;
        follow_epoch[k].at[who] = 0;
        follow_left[k].at[who] = 0;
        k++
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

/* If it led, it stops leading before this leaves. */
inline send_releases(who)
{
    releases++;
    k = 0;
    do
    :: k < N ->
        if :: k != who -> release_epoch[who].at[k] = claimed[who] :: else -> skip fi;
        k++
    :: else -> break
    od;
    give_up(who)
}

inline hear_release(from, who)
{
    if
    :: followed_leader[who] == from && followed_epoch[who] <= release_epoch[from].at[who] -> promise[who] = 0
    :: else -> skip
    fi;
    released[who].at[from] = MAX_OF(released[who].at[from], release_epoch[from].at[who]);
    release_epoch[from].at[who] = 0
}

inline begin()
{
    i = 0;
    do
    :: i < N -> is_up[i] = true; followed_leader[i] = N; started[i] = LEASE; i++
    :: else -> break
    od;
    i = 0
}

#ifndef TRACE
inline choose(x, below)
{
    x = 0;
    do
    :: x < below - 1 -> x++
    :: break
    od
}

active proctype world()
{
    byte a, b, e;
    d_step { begin() }
    do
    :: atomic {
        choose(a, N);
        choose(b, N);
        if
        :: a == 0 && b == 0 -> pass(1)
#ifdef STRAIGHT /* fewer ways, for three processes */
        :: a == b && followed_epoch[a] < EPOCHS && MAY_STAND(a, followed_epoch[a] + 1) && IS_FREE(a, a) ->
            e = followed_epoch[a] + 1; stand(a, e); follow_self(a)
#else
        :: a == b && MAY_STAND(a, followed_epoch[a] + 1) -> choose(e, EPOCHS); e++;
            if :: MAY_STAND(a, e) -> stand(a, e) :: else -> skip fi
        :: a == b && claim[a] > 0 && claim[a] < EPOCHS && MAY_RAISE(a, claim[a] + 1) -> e = claim[a] + 1; raise(a, e)
        :: a == b && MAY_FOLLOW_SELF(a) -> follow_self(a)
        :: a == b && MAY_GIVE_UP(a) -> give_up(a)
#endif
        :: a == b && MAY_LEAD(a) -> lead(a)
        :: a != b && is_up[a] && claim[a] > 0 -> /* sends it before or after the one under way, or that one is lost */
            beat_epoch[a].at[b] = claim[a];
            beat_left[a].at[b] = LEASE
        :: a != b && is_up[b] && beat_epoch[a].at[b] > 0 -> hear(a, b)
        :: a != b && is_up[b] && follow_epoch[a].at[b] > 0 -> take_answer(a, b)
        :: a == b && is_up[a] && crashes < CRASHES -> crash(a)
        :: a == b && !is_up[a] -> recover(a)
        :: a == b && releases < RELEASES && MAY_RELEASE(a) -> send_releases(a)
        :: a != b && is_up[b] && release_epoch[a].at[b] > 0 -> hear_release(a, b)
        :: else -> skip
        fi;
        a = 0; b = 0; e = 0; i = 0; j = 0; k = 0
    }
    od
}
#endif
