/* src/sim/expect.h - judges the expectations of a scenario; the results are in the world. */
#ifndef CV_SIM_EXPECT_H
#define CV_SIM_EXPECT_H

#include <stdint.h>

struct sim_world;

/* Expectations of an instant from `from_ns` on and before `before_ns`, when everything up to and
 * including that instant has happened. */
void sim_expect_judge(struct sim_world *world, int64_t from_ns, int64_t before_ns);

/* Judges the expectations about the whole run, at its end. */
void sim_expect_finish(struct sim_world *world);

#endif
