#!/usr/bin/env python3
"""tests/scenario/run.py CONCLAVE FOLDER [--under COMMAND] [--at-most N] - runs the scenarios there.

One TAP point per *.scn file. `conclave sim FILE` must exit with 0; a scenario whose name ends in .fails.scn
must not meet its own expectations, with exit status 1. Status 2 (a scenario that does not parse) always fails."""

import argparse
import concurrent.futures
import os
import pathlib
import shlex
import subprocess
import sys

LINES_SHOWN_MAX = 20


def run(command):
    """(exit status, output) of one run; a program that hangs is killed and reported."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", stdin=subprocess.DEVNULL, timeout=100)
    except subprocess.TimeoutExpired:
        return None, "it did not end within 100 s"
    return done.returncode, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("conclave")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--under", default="", help="a command to run the program under")
    parser.add_argument("--at-most", type=int, help="run only so many of them, evenly chosen")
    args = parser.parse_args()

    files = sorted(args.folder.rglob("*.scn"))
    if args.at_most and len(files) > args.at_most:
        files = [files[i * len(files) // args.at_most] for i in range(args.at_most)]
    commands = [shlex.split(args.under) + [args.conclave, "sim", str(file)] for file in files]
    print(f"1..{max(1, len(files))}", flush=True)
    if not files:
        print(f"not ok 1 - there are scenarios below {args.folder}")
        return 1

    all_well = True
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(run, commands)
        for number, (file, command, (status, output)) in enumerate(zip(files, commands, results), 1):
            wanted = 1 if file.name.endswith(".fails.scn") else 0
            is_ok = status == wanted
            name = file.relative_to(args.folder).as_posix()
            print(f"{'ok' if is_ok else 'not ok'} {number} - {name}", flush=True)
            if not is_ok:
                all_well = False
                print(f"# exit status {status}, not {wanted}: {shlex.join(command)}")
                for line in output.splitlines()[-LINES_SHOWN_MAX:]:
                    print(f"#   {line}")
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
