/* src/core/assert.h - assertions that stay on in releases.
 *
 * An assertion is for what only our own bug can cause; a leader that stops is better than two. The
 * pure parts only declare cv__assert_fail(); assert.c, which is not one of them, defines it. A host
 * that must survive a failed assertion of a core sets a trap for its thread; the simulator does,
 * and reports the assertion as a broken property. */
#ifndef CV_CORE_ASSERT_H
#define CV_CORE_ASSERT_H

struct cv_assert_trap {
    /* Must not return. */
    void (*fail)(struct cv_assert_trap *trap, const char *expression, const char *file, int line);
};

/* The trap of this thread, NULL for none: then a failed assertion prints a line and aborts. */
extern _Thread_local struct cv_assert_trap *cv__assert_trap;

/* Cold: the compiler moves calls of it out of the hot path. */
__attribute__((cold)) _Noreturn void cv__assert_fail(const char *expression, const char *file,
                                                     int line);

#define CV_ASSERT(condition) \
    ((condition) ? (void)0 : cv__assert_fail(#condition, __FILE__, __LINE__))

#endif
