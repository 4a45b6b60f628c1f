/* src/protocols/bully.h - the parts of the plain bully that bully-improved uses too. */
#ifndef CV_PROTOCOLS_BULLY_H
#define CV_PROTOCOLS_BULLY_H

#include "protocols/classic.h"

enum {
    BULLY_ELECTION = CLASSIC_MESSAGE_COUNT, /* who is above me? */
    BULLY_ANSWER,                           /* I am; wait */
    BULLY_COORDINATOR,                      /* I lead */
    BULLY_MESSAGE_COUNT,
};
#define BULLY_MESSAGES                                                                     \
    CLASSIC_MESSAGES, [BULLY_ELECTION] = CV_MESSAGE_TYPE("ELECTION", CLASSIC_TERM_FIELDS), \
                      [BULLY_ANSWER] = CV_MESSAGE_TYPE("ANSWER", CLASSIC_TERM_FIELDS),     \
                      [BULLY_COORDINATOR] = CV_MESSAGE_TYPE("COORDINATOR", CLASSIC_TERM_FIELDS)

enum {
    BULLY_ASKING = CLASSIC_ROLE_COUNT, /* sent ELECTION, waits T for an ANSWER */
    BULLY_WAITING,                     /* a higher id elects: waits for its COORDINATOR */
    BULLY_ROLE_COUNT,
};

/* The plain rules, and the improved ones, which differ in on_orphaned. */
extern const struct classic_rules cv__bully_rules;
extern const struct classic_rules cv__bully_heir_rules;

int cv__bully_configure(struct cv_config *config, struct cv_errtext *reterr);
int64_t cv__bully_settle_ns(const struct cv_config *config);
void cv__bully_init(void *state, const struct cv_config *config);
void cv__bully_check(const void *state);

#endif
