/* src/cli/cmd_elect.c - `conclave elect NAME`: campaigns, and prints one line for each change. */
#include "cli/cli.h"
#include "cli/follow.h"

static int run(int argc, char **argv)
{
    return cv__follow(argc, argv, /* is_observer= */ false);
}

const struct cv_verb cv__verb_elect = {
    .name = "elect",
    .summary = "take part in an election and print each change",
    .help =
        "usage: conclave elect NAME [--via ADDRESS] [--lease TIME] [--node NAME] [--changes N]\n"
        "                           [--json] [--trace FILE]\n\n"
        "Takes part in the election NAME until interrupted, and prints one line for each change.\n"
        "If it leads when interrupted, it resigns. To run a command while leading, use\n"
        "'conclave run'.\n\n"
        "  --via ADDRESS  store or cluster of the election; default: $CONCLAVE_VIA, or a file\n"
        "                 of this user\n"
        "  --lease TIME   a leader that does not renew within this time is replaced; default 5s\n"
        "  --node NAME    name of this contender; default: host name and process id\n"
        "  --changes N    stop after N changes\n"
        "  --json         print one object for each change\n"
        "  --trace FILE   record this contender's events, for 'conclave play FILE...'\n\n"
        "--via multicast:GROUP:PORT?OPTIONS elects among the members of a multicast group. They\n"
        "need not know each other (see 'conclave protocols anon'). OPTIONS, joined by '&':\n"
        "  interface=NAME|ADDRESS  the interface of the group (127.0.0.1: this host only)\n"
        "  key=FILE | insecure     authenticate frames with this key ('conclave keygen'), or not\n"
        "  sequencer=snmp:HOST:PORT/COMMUNITY | file:PATH   where numbers come from\n"
        "  ttl=1  state=FILE  eta=  eps=  R=  and the other options of the protocol\n\n"
        "Exit status: 0 interrupted, 1 its state cannot be saved, 2 wrong usage or bad input.\n",
    .run = run,
    .is_told = true,
};
