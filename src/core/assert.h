/* src/core/assert.h - assertions that stay on in releases.
 *
 * An assertion is for what only our own bug can cause; a leader that stops is better than two.
 * The pure parts only declare what happens on failure; assert.c, which is not one of them, does it.
 * A host that wants to survive a failed assertion of a core (the simulator reports it as a broken
 * property) sets a trap for its thread. */
#ifndef CV_CORE_ASSERT_H
#define CV_CORE_ASSERT_H

struct cv_assert_trap {
    /* Must not return. */
    void (*fail)(struct cv_assert_trap *trap, const char *expression, const char *file, int line);
};

/* The trap of this thread, NULL for none: then a failed assertion prints a line and aborts. */
extern _Thread_local struct cv_assert_trap *cv__assert_trap;

/* Cold: compilers move what leads here out of the way of the rest. */
__attribute__((cold)) _Noreturn void cv__assert_fail(const char *expression, const char *file,
                                                     int line);

#define CV_ASSERT(condition) \
    ((condition) ? (void)0 : cv__assert_fail(#condition, __FILE__, __LINE__))

#endif
