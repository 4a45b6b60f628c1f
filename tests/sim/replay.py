#!/usr/bin/env python3
"""tests/sim/replay.py CONCLAVE [--larger] - the simulator replays the counterexamples of the exhaustive search.

Properties that a protocol does not promise break in small searches. One TAP point for each: the scenario that
`conclave explore` writes breaks the same property in `conclave sim`. The counterexamples of planted bugs are replayed by
their own tests (tests/planted/run.py). --larger: three nodes as well."""

import argparse
import pathlib
import shlex
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "planted"))
from replay import replay  # pylint: disable=wrong-import-position,import-error

CLASSICAL = ("bully", "bully-improved", "bully-modified", "ring", "ring-modified")
TWO_LEADERS = ("partition", "pause", "one-way")
OTHERS = (
    "bully --budget crash,recover --property at-most-one-leader",
    "ring --budget crash,recover --property at-most-one-leader",
    "ring --budget loss --property at-most-one-leader",
    "ring-modified --budget loss --property at-most-one-leader",
    "ring --budget late --property at-most-one-leader",
    "ring-modified --budget late --property at-most-one-leader",
    "ring --budget slow --property at-most-one-leader",
    "ring-modified --budget slow --property token-monotonic",
    "local --budget slow --property at-most-one-leader",
    "bully-modified --budget crash,witness --property token-monotonic",
    "ring-modified --budget crash,witness --property leader-order",
    "anon --budget loss --property at-most-one-leader",
    "anon --budget late --property at-most-one-leader",
    "local --budget partition --property at-most-one-leader",
    "local --budget one-way --property at-most-one-leader",
    "anon --budget partition --property at-most-one-leader",
    "anon --budget pause --property at-most-one-leader",
    "bully --drift=sf --budget pause --property at-most-one-leader",
    "ring --delay 2 --budget partition --property at-most-one-leader",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("conclave")
    parser.add_argument("--larger", action="store_true")
    args = parser.parse_args()
    searches = [f"{protocol} --budget {budget} --property at-most-one-leader"
                for protocol in CLASSICAL for budget in TWO_LEADERS] + list(OTHERS)
    if args.larger:
        searches += [f"{words} -n 3 --states 20000000" for words in searches]
    print(f"1..{len(searches)}", flush=True)
    results = [replay(args.conclave, shlex.split(words)).print_replay(number, words)
               for number, words in enumerate(searches, 1)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
