/* src/sim/history.c - the history of a run; see history.h. */
#include "sim/history.h"

#include <stdlib.h>

void sim_history_fini(struct sim_history *history)
{
    free(history->span);
    free(history->view);
    free(history->election);
    free(history->life);
    free(history->done_action);
    free(history->ask);
    free(history->score);
}
