/* src/cli/cmd_elect.c - `conclave elect NAME`: campaigns, and prints one line for each change. */
#include "cli/cli.h"
#include "cli/follow.h"

static int run(int argc, char **argv)
{
    return cv__follow(argc, argv, /* is_observer= */ false);
}

const struct cv_verb cv__verb_elect = {
    .name = "elect",
    .summary = "take part in an election, and print each change",
    .help =
        "usage: conclave elect NAME [--via ADDRESS] [--lease TIME] [--node NAME] [--json]\n"
        "                           [--trace FILE]\n\n"
        "Campaigns until interrupted, prints one line for each change, and resigns at the end.\n"
        "To run a command while leading, use 'conclave run'.\n\n"
        "  --via ADDRESS  where the election is held; default: CONCLAVE_VIA, or a file of this "
        "user\n"
        "  --lease TIME   a leader that is not heard of is replaced after this; default 5s\n"
        "  --node NAME    what this contender is called; default: host name and process id\n"
        "  --changes N    stop after N changes\n"
        "  --json         one object for each change\n"
        "  --trace FILE   write what this contender gets and does, for 'conclave play FILE...'\n\n"
        "--via multicast:GROUP:PORT?OPTIONS elects among the members of a multicast group, who "
        "need\n"
        "not know each other (see 'conclave protocols anon'). OPTIONS, joined by '&':\n"
        "  interface=NAME|ADDRESS  where the group is (127.0.0.1: this host only)\n"
        "  key=FILE | insecure     authenticated frames ('conclave keygen'), or not\n"
        "  sequencer=snmp:HOST:PORT/COMMUNITY | file:PATH   where numbers come from\n"
        "  ttl=1  state=FILE  eta=  eps=  R=  and the other options of the protocol\n\n"
        "Exit status: 0 interrupted, 1 it cannot save what it must remember, 2 wrong usage or bad\n"
        "input.\n",
    .run = run,
    .is_told = true,
};
