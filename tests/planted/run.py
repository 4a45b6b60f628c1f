#!/usr/bin/env python3
"""tests/planted/run.py CONCLAVE PLANTED PLANT - a planted bug is caught, and the real program passes.

Runs the plant's scenario with both programs and prints two TAP points: the real program finds nothing
wrong, the one with the bug exits with 1 and says that the property of `breaks` is BROKEN; or, if that
begins with `expect`, that this expectation is not met. A plant with `explore` has two more points: the
exhaustive search finds a violation, too; and the scenario that it writes breaks the same property in the simulator,
and does not without the bug (replay.py). tools/explore-plants checks that the search finds nothing in the real
program, because that takes longer."""

import argparse
import shlex
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from plant import Plant  # pylint: disable=wrong-import-position
from replay import replay  # pylint: disable=wrong-import-position

LINES_SHOWN_MAX = 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("conclave")
    parser.add_argument("planted")
    parser.add_argument("plant")
    args = parser.parse_args()
    plant = Plant(args.plant)
    breaks = plant.values["breaks"]

    simulation = ["sim", str(plant.scenario), "--runs", plant.values["runs"]]

    def point(number, program, words, name, is_right):
        command = [program] + words
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", stdin=subprocess.DEVNULL, timeout=110)
        is_ok = is_right(done.returncode, done.stdout.splitlines())
        print(f"{'ok' if is_ok else 'not ok'} {number} - {name}", flush=True)
        if not is_ok:
            print(f"# exit status {done.returncode}: {shlex.join(command)}")
            for line in done.stdout.splitlines()[-LINES_SHOWN_MAX:]:
                print(f"#   {line}")
        return is_ok

    def is_caught(status, lines):
        what, verdict = (breaks, "NO:") if breaks.startswith("expect") else (f"property {breaks}",
                                                                             "BROKEN")
        return status == 1 and any(what in line and verdict in line for line in lines)

    is_explored = "explore" in plant.values
    print("1..4" if is_explored else "1..2")
    results = [
        point(1, args.conclave, simulation, f"without the bug {plant.scenario.name} is fine",
              lambda status, lines: status == 0),
        point(2, args.planted, simulation, f"{plant.name} breaks {breaks}", is_caught),
    ]
    if is_explored:
        found = replay(args.planted, shlex.split(plant.values["explore"]), args.conclave)
        results += [found.print_search(3, plant.name), found.print_replay(4, plant.name)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
