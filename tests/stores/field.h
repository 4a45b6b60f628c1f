/* tests/stores/field.h - contenders for one election on one loop, and a ledger of what they hold.
 *
 * The ledger checks the promises of stores/store.h at every GRANTED answer, in every test: no other
 * lease is running, a new attempt has the largest token so far, and an attempt that is granted
 * again has its token from before. */
#ifndef CV_TESTS_STORES_FIELD_H
#define CV_TESTS_STORES_FIELD_H

#include "stores/store.h"
#include "support/support.h"

#define FIELD_CONTENDERS_MAX 24
#define FIELD_REQUESTS_MAX 64

struct field;

struct contender {
    struct field *field;
    struct cv_shared_list own_list; /* contenders stand for processes, ... */
    struct cv_shared_list *list;    /* ... unless several share the list of one */
    char election[CV_ELECTION_BYTES];
    bool is_closed;
    struct cv_store *store;
    char node[CV_NODE_BYTES];
    uint64_t label;
    uint64_t request;      /* the latest one */
    enum cv_reason reason; /* that it gives with its next request */

    /* Answers to the requests, by number modulo FIELD_REQUESTS_MAX. */
    struct {
        uint64_t request;
        enum cv_store_verb verb;
        uint64_t attempt;
        int64_t asked_ns;
        bool is_answered;
        bool is_runs;                  /* its GRANTED is not a leadership */
        struct cv_store_answer answer; /* `record` points to the one below */
        struct cv_store_record record;
        char why[512];
    } asked[FIELD_REQUESTS_MAX];
    uint32_t notification_count;
    uint32_t log_count; /* lines for the operator */
    char logged[512];   /* the latest */

    /* The ledger: this attempt holds until then. */
    uint64_t held_attempt, held_token;
    int64_t held_until_ns;
    uint64_t token_max; /* of all its grants */

    /* For contenders that campaign by themselves. */
    bool is_campaigning;
    uint64_t attempt;
    int64_t lease_ns;
    uint32_t renewals_left;
    uint64_t waits_for;            /* the request under way */
    enum cv_store_verb again_verb; /* the next request, if nothing else happens */
    uv_timer_t again;
    bool has_timer;
};

struct field {
    uv_loop_t loop;
    const struct cv_store_kind *kind;
    char address[512];
    char election[CV_ELECTION_BYTES];
    struct contender contender[FIELD_CONTENDERS_MAX];
    uint32_t count;
    uint32_t change_count; /* grants to an attempt that had none before */
    uint64_t random;
    char broken[512]; /* the first promise that was broken */
    uv_timer_t tick;
    uint32_t closed_count;
};

int64_t field_now_ns(void);

/* A field on an address, with a new election name unless one is given. */
struct field *field_new(const char *address, const char *election);
void field_free(struct field *field);

/* Opens one more contender, at the field's address or at another one of the same store. */
struct contender *field_join(struct field *field, const char *node, const char *address);

/* The same in the process of `beside`: they share connections. `election`: another one, unless
 * NULL. */
struct contender *field_join_beside(struct contender *beside, const char *node,
                                    const char *election, const char *address);

/* A contender with the same identity: its requests are like late ones of the original. */
struct contender *field_join_copy(struct contender *original);

/* Closes one contender and waits for it; the others go on. */
void field_close(struct contender *c);

/* ask_now() asks and returns at once; await() waits for the answer; ask_once() does both; ask()
 * repeats that until the answer is not FAILED, as the core would: every request may be repeated. */
uint64_t ask_now(struct contender *c, enum cv_store_verb verb, uint64_t attempt, int64_t lease_ns,
                 const char *heir);
const struct cv_store_answer *await(struct contender *c, uint64_t request);
const struct cv_store_answer *ask_once(struct contender *c, enum cv_store_verb verb,
                                       uint64_t attempt, int64_t lease_ns);
const struct cv_store_answer *ask(struct contender *c, enum cv_store_verb verb, uint64_t attempt,
                                  int64_t lease_ns);
const struct cv_store_answer *ask_to_resign(struct contender *c, const char *heir);
/* Reads or writes the runs of a job, until the answer is not FAILED. */
enum cv_store_verdict ask_runs(struct contender *c, struct cv_store_runs *runs);

/* Asks for the lease, again and again as answers and notifications advise, until it is granted. */
const struct cv_store_answer *acquire(struct contender *c, uint64_t attempt, int64_t lease_ns);

/* Runs the loop until the condition holds; the test fails after a generous bound, or as soon as a
 * promise is broken. */
void run_until(struct field *field, bool (*is_true)(void *user), void *user, const char *what);
/* A condition for run_until(): the contender was notified of a change. */
bool is_notified(void *contender);
bool is_held(void *contender);
void run_for(struct field *field, int64_t ns);

/* Acquires, renews that many times, releases, and begins again. */
void campaign(struct contender *c, int64_t lease_ns, uint32_t renewals);

#endif
