/* src/os/clock.h - the clocks and the random numbers of a real process.
 *
 * Only this module reads the clock that decides elections, and draws random instants and labels.
 * The clock is never set back and counts through suspend (CLOCK_BOOTTIME): a leader that slept must
 * not believe that no time has passed. libsodium draws keys and nonces of frames; base/stopwatch.h
 * measures how long a command took. */
#ifndef CV_OS_CLOCK_H
#define CV_OS_CLOCK_H

#include <stdint.h>

/* Nanoseconds since the host was started; always > 0. */
int64_t cv__clock_now_ns(void);

/* CLOCK_REALTIME, which can be set: for people to read, and for the period of `run --every`. No
 * leadership depends on it. */
int64_t cv__clock_wall_ns(void);

/* A timer of that clock (timerfd) becomes readable at that instant; INT64_MAX: never. An instant in
 * the past makes it readable at once. */
void cv__clock_arm(int timer_fd, int64_t at_ns);

/* A number that all processes of one boot and one time namespace share, and that differs in any
 * other. Drawn at random if the kernel does not report the boot. Never 0. */
uint64_t cv__clock_boot(void);

/* 64 unpredictable bits, for nonces and for instants within a range. */
uint64_t cv__clock_random(void);

#endif
