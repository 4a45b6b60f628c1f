#!/usr/bin/env python3
"""bench/trace_handover.py BUILD STORE [--tiny] - where the microseconds of a hand-over go.

Runs bench_handover --store STORE with the library stamps preloaded and prints, for the hand-overs that went the
most common way, the median time between two notes: what was done, by which thread (in the order in which they first
appear: 1 is the caller). For a store with servers: tools/with-servers KIND -- bench/trace_handover.py BUILD KIND."""

import collections
import os
import statistics
import subprocess
import sys
import tempfile

SILENT = {"epoll_wait", "epoll_pwait", "poll"}  # only worth a line if something has come


def handovers(path):
    """For each hand-over: [(ns since its beginning, thread, what)]."""
    begin, seen, threads = None, [], {}
    for line in open(path, encoding="ascii"):
        at, thread, what, result = line.split()
        if what == "resign":
            begin, seen, threads = int(at), [], {}
        if begin is None or (what in SILENT and int(result) <= 0):
            continue
        number = threads.setdefault(thread, len(threads) + 1)
        seen.append((int(at) - begin, number, what))
        if what == "leads":
            yield sorted(seen)
            begin = None


def squeeze(one):
    """Writes of pages follow each other: only the first and the last of them count."""
    kept = []
    for at, thread, what in one:
        if what.startswith("pwrite64") and kept and kept[-1][1:] == (thread, "pages written"):
            kept[-1] = (at, thread, "pages written")
        else:
            kept.append((at, thread, "pages written" if what == "pwrite64)" else what))
    return [step for step in kept if step[2] != "pwrite64("]


def main():
    build, store = sys.argv[1:3]
    with tempfile.NamedTemporaryFile() as notes:
        more = {"LD_PRELOAD": f"{build}/bench/libstamps.so", "STAMPS": notes.name, "CONCLAVE_MODULES": build}
        done = subprocess.run([f"{build}/bench/bench_handover", *sys.argv[3:], "--store", store], check=True, text=True,
                              stdout=subprocess.PIPE, env=dict(os.environ, **more))
        print(done.stdout.splitlines()[-1])
        ways = collections.defaultdict(list)
        for one in handovers(notes.name):
            one = squeeze(one)
            ways[tuple(step[1:] for step in one)].append([step[0] for step in one])
    total = sum(map(len, ways.values()))
    way, times = max(ways.items(), key=lambda item: len(item[1]))
    print(f"# {len(times)} of {total} hand-overs went this way; medians in us")
    print(f"{'after':>8} {'at':>8}  thread  what")
    for i, (thread, what) in enumerate(way):
        after = statistics.median((t[i] - t[max(i - 1, 0)]) / 1000 for t in times)
        at = statistics.median(t[i] / 1000 for t in times)
        print(f"{after:8.0f} {at:8.0f}  {thread:6}  {what}")


if __name__ == "__main__":
    main()
