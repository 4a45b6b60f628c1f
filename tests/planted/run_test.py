#!/usr/bin/env python3
"""tests/planted/run_test.py PLANTED PLANT - a planted bug is caught by a test of the part that has it.

PLANTED is the test program with the bug; the same program without it runs among the other tests. One TAP point:
the test that the plant names in `breaks` fails, and the program ends with a failure."""

import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from plant import Plant  # pylint: disable=wrong-import-position


def main():
    program, plant = sys.argv[1], Plant(sys.argv[2])
    broken = plant.values["breaks"]
    done = subprocess.run([program, broken], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, timeout=110)
    is_caught = done.returncode != 0 and any(
        line.startswith("not ok") and line.rstrip().endswith(broken) for line in done.stdout.splitlines())
    print(f"1..1\n{'ok' if is_caught else 'not ok'} 1 - {plant.name} breaks {broken}")
    if not is_caught:
        print("\n".join(f"# {line}" for line in done.stdout.splitlines()[-20:]))
    return 0 if is_caught else 1


if __name__ == "__main__":
    sys.exit(main())
