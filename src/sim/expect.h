/* src/sim/expect.h - judging what a scenario expects; the verdicts are in the world. */
#ifndef CV_SIM_EXPECT_H
#define CV_SIM_EXPECT_H

#include <stdint.h>

struct cv_world;

/* Expectations of an instant from `from_ns` on and before `before_ns`, when everything up to and
 * including that instant has happened. */
void cv__expect_judge(struct cv_world *world, int64_t from_ns, int64_t before_ns);

/* Those of the whole run, at its end. */
void cv__expect_finish(struct cv_world *world);

#endif
