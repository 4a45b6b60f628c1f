#!/usr/bin/env python3
"""bench/compare_handover.py [--tiny] STORE TURNS BUILD BUILD... - hand-overs of several builds on the same servers.

Servers differ between two starts more than builds do: a Java server compiles itself as it runs, and which member leads
is up to the servers. So the builds take turns on one set of running servers, TURNS times each, after one turn that does
not count: tools/with-servers KIND -- bench/compare_handover.py KIND 10 build-before build. Each turn is
`bench_handover --quick`, a process of its own with new connections. To measure an older version, build this
bench_handover.c (with round_trip.c and figures.h) in its tree. A Java server needs some 200 hand-overs until it runs
compiled code for them: compare once before the comparison that counts. Tiny: only checks that it still works.

Prints for each build the median of its turns' medians, the fastest and the slowest turn, and the ratio to the first build."""

import os
import re
import statistics
import subprocess
import sys


def turn(build, store, options):
    """The median of one run, in milliseconds."""
    done = subprocess.run([f"{build}/bench/bench_handover", *options, "--quick", "--store", store], check=True, text=True,
                          stdout=subprocess.PIPE, env=dict(os.environ, CONCLAVE_MODULES=os.path.abspath(build)))
    found = re.search(r"p50_ms=([0-9.]+)", done.stdout)
    if not found:
        sys.exit(f"compare_handover: {build} printed no hand-over: {done.stdout.strip()}")
    return float(found.group(1))


def main():
    options, words = (["--tiny"], sys.argv[2:]) if sys.argv[1:2] == ["--tiny"] else ([], sys.argv[1:])
    if len(words) < 3 or not words[1].isdigit() or words[1] == "0":
        sys.exit(__doc__.splitlines()[0])
    store, turns, builds = words[0], int(words[1]), words[2:]
    times = [[] for _ in builds]
    for number in range(-1, turns):
        for i, build in enumerate(builds):
            ms = turn(build, store, options)
            if number >= 0:
                times[i].append(ms)
    middle = [statistics.median(of) for of in times]
    print(f"# bench=compare_handover store={store} turns={turns}")
    for i, build in enumerate(builds):
        print(f"handover store={store} build={build} p50_ms={middle[i]:.3f} turns_min_ms={min(times[i]):.3f} "
              f"turns_max_ms={max(times[i]):.3f} of_first={middle[i] / middle[0]:.2f} "
              f"turns_ms={','.join(f'{ms:.2f}' for ms in times[i])}")


if __name__ == "__main__":
    main()
