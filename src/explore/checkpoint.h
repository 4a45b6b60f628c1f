/* src/explore/checkpoint.h - saves a search so that it can continue later.
 *
 * A file has the visited and the waiting worlds, in this machine's byte order, for exactly one
 * search of exactly one program: it begins with a line that identifies the search, and the hash of
 * the program. It ends with a hash of all that, because a single wrong bit in the visited worlds
 * could make a search call itself exhausted that is not. */
#ifndef CV_EXPLORE_CHECKPOINT_H
#define CV_EXPLORE_CHECKPOINT_H

#include "explore/frontier.h"
#include "explore/visited.h"
#include "explore/world.h"

struct explore_state {
    struct explore_visited visited;
    struct explore_queue level, next; /* next: one choice further away */
    struct explore_spool spool;
    uint64_t depth, transitions;
    double earlier_s;   /* how long was searched before */
    uint64_t is_beyond; /* worlds were met that are not explored */
    uint64_t spent;     /* as in struct explore_model */
    /* Why a path ended: a violation, which ends the search, or a bound of the world: then the
     * search is never exhausted, even if it continues later. */
    struct explore_end end;
};

/* Without a file the search begins. CV_E_MALFORMED: the file belongs to another search
 * or program, or is damaged. */
CV_NODISCARD int explore_checkpoint_read(const struct explore_model *model,
                                         struct explore_state *state, const char *path,
                                         struct cv_errtext *reterr);
/* Replaces the file. CV_E_STORE: it cannot be written. */
CV_NODISCARD int explore_checkpoint_write(const struct explore_model *model,
                                          struct explore_state *state, const char *path,
                                          struct cv_errtext *reterr);

#endif
