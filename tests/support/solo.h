/* tests/support/solo.h - a single core; the test plays the rest of the world.
 *
 * The test decides what the core hears and when, and sees exactly what it sends, saves and
 * believes. Nothing is random: a timer fires at the latest instant that the core asked for.
 * Messages and their fields are named as in the protocol's table. For up to 63 members, whose sets
 * are written as bits of ids (bit i: member i). */
#ifndef CV_TESTS_SOLO_H
#define CV_TESTS_SOLO_H

#include "core/types.h"

struct solo {
    const struct cv_protocol *protocol;
    struct cv_config config;
    void *state;
    struct cv_effects out;           /* of the latest step */
    int64_t now_ns;                  /* the local clock; a test may move it on */
    int64_t timer_ns[CV_TIMERS_MAX]; /* when each fires; 0: not armed */
    uint64_t persisted[CV_PERSIST_WORDS_MAX];
    uint32_t persisted_count;
    cv_id leader;   /* the leader that it believes in */
    uint64_t nonce; /* of its next life; 0 unless a test sets it */
    struct cv_message draft;
    uint64_t draft_word[CV_LISTS_MAX];
};

/* Sets options that are written as "name=value name=value". */
void config_set_all(struct cv_config *config, const struct cv_protocol *protocol,
                    const char *options);

/* A core that was just started. Options as "name=value name=value". */
struct solo *solo_new(const char *protocol, cv_id self, uint32_t members, const char *options);
void solo_free(struct solo *solo);

/* Gives it an event; now_ns is filled in. */
void solo_step(struct solo *solo, struct cv_event event);
/* It crashes and starts again, with the record that it had saved. */
void solo_restart(struct solo *solo);

/* Lets time pass and timers fire. solo_pause(): no timer fires, since the process is paused. */
void solo_wait_until(struct solo *solo, int64_t until_ns);
void solo_pause(struct solo *solo, int64_t ns);
/* Lets time pass until the core sends a message of that type, which is returned; the test fails if
 * it does not within the limit. */
const struct cv_message *solo_await(struct solo *solo, const char *type, int64_t limit_ns);

/* The message of that type that the latest step sent; NULL: none. *ret_to: its receiver, CV_ID_NONE
 * for all. */
const struct cv_message *solo_said(const struct solo *solo, const char *type);
const struct cv_message *solo_said_to(const struct solo *solo, const char *type, cv_id *ret_to);
uint32_t solo_send_count(const struct solo *solo);
/* The note of the latest step that has this text; the test fails if there is none. */
const struct cv_note *solo_noted(const struct solo *solo, const char *text);
/* The latest belief that the latest step told; NULL: none. */
const struct cv_leadership *solo_told(const struct solo *solo);

/* A field of a message, or a set in it. */
uint64_t solo_field(const struct solo *solo, const struct cv_message *message, const char *name);
uint64_t solo_set(const struct solo *solo, const struct cv_message *message, const char *name);

/* solo_draft() begins a message of that type, in which ids are 1 and all else is 0 or empty;
 * solo_put() fills it in; solo_hear() delivers it, with that bound on its delay. */
void solo_draft(struct solo *solo, const char *type);
void solo_put(struct solo *solo, const char *name, uint64_t value);
void solo_put_set(struct solo *solo, const char *name, uint64_t bits_of_ids);
void solo_hear(struct solo *solo, cv_id from, int64_t bound_ns);
/* Delivers a message that another core sent. */
void solo_hear_copy(struct solo *solo, cv_id from, const struct cv_message *message,
                    int64_t bound_ns);

#endif
