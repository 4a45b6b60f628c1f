/* src/cli/cmd_watch.c - `conclave watch NAME`: prints one line for each change of the leader. */
#include "cli/cli.h"
#include "cli/follow.h"

static int run(int argc, char **argv)
{
    return cv__follow(argc, argv, /* is_observer= */ true);
}

const struct cv_verb cv__verb_watch = {
    .name = "watch",
    .summary = "follow an election without taking part",
    .help = "usage: conclave watch NAME [--via ADDRESS] [--lease TIME] [--changes N] [--json]\n\n"
            "Prints who leads now, then one line for each change, until interrupted.\n\n"
            "  --via ADDRESS  store or cluster of the election; default: $CONCLAVE_VIA, or a file\n"
            "                 of this user\n"
            "  --lease TIME   how often to ask a store that sends no notifications; default 5s\n"
            "  --changes N    stop after N changes\n"
            "  --json         print one object for each change\n\n"
            "Exit status: 0 interrupted, 2 wrong usage or bad input.\n",
    .run = run,
    .is_told = true,
};
