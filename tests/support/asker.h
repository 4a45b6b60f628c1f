/* tests/support/asker.h - a client of a sequencer, on a loop of its own. */
#ifndef CV_TESTS_ASKER_H
#define CV_TESTS_ASKER_H

#include "sequencers/sequencer.h"
#include "support/support.h"

struct asker {
    uv_loop_t loop;
    struct cv_counter sequencer;
    uint64_t request, number; /* of the latest answer */
    uint32_t answers, troubles;
    bool is_closed;
    char trouble[CV_ERRTEXT_BYTES]; /* the latest one */
};

void asker_open(struct asker *a, const char *address);
void asker_close(struct asker *a);
/* A sequencer with this address is refused, with these words. */
void asker_refused(const char *address, int code, const char *words);
void asker_turn_until_answered(struct asker *a, uint32_t answers);

#endif
