#!/usr/bin/env python3
"""bench/trace_handover.py BUILD STORE [--tiny] - where the microseconds of a hand-over go.

Runs bench_handover --store STORE with the library stamps preloaded. Prints the median time between two notes, for
the hand-overs with the most common sequence of steps. On sqlite: all steps, with their threads (numbered in the order
in which they first appear: 1 is the caller). For a store with servers: only the steps of our own processes between
resignation and next leader: tools/with-servers KIND -- bench/trace_handover.py BUILD KIND. The time between `sent`
and `hears` is spent in the network and the server."""

import collections
import os
import statistics
import subprocess
import sys
import tempfile

SILENT = {"epoll_wait", "epoll_pwait", "poll"}  # shown only if something has come


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
    """Writes of pages follow each other: keeps only the first and the last of them."""
    kept = []
    for at, thread, what in one:
        if what.startswith("pwrite64") and kept and kept[-1][1:] == (thread, "pages written"):
            kept[-1] = (at, thread, "pages written")
        else:
            kept.append((at, thread, "pages written" if what == "pwrite64)" else what))
    return [step for step in kept if step[2] != "pwrite64("]


SENDS = {"send", "sendto", "sendmsg", "writev"}  # to a server; a loop publishes by write


def bursts(one, thread):
    """What a thread did each time it woke up: [(woke up at, [(at, what)])]; wake-ups without an action are left out."""
    times = []
    for at, who, what in one:
        if who == thread and what in SILENT:
            times.append((at, []))
        elif who == thread and times:
            times[-1][1].append((at, what))
    return [(at, done) for at, done in times if any(what in SENDS or what == "write" for _, what in done)]


def steps(one):
    """The steps from the resignation to the next leader, for a store with servers; None: not recognised."""
    caller = one[0][1]
    loops = [who for _, who, what in one if who != caller and what in SILENT]
    heirs = [who for _, who, what in one if loops and who not in (caller, loops[0]) and what == "write"]
    if not heirs:
        return None
    giver, heir = loops[0], heirs[-1]
    way = [(0, "the caller", "resigns")]
    for at, done in bursts(one, giver):
        way.append((at, "the leader's loop", "wakes up" if len(way) == 1 else "hears"))
        sent = [when for when, what in done if what in SENDS]
        if sent:  # the first request is the release; later ones do not matter
            way.append((sent[-1], "the leader's loop", "has sent its release"))
            break
    for at, done in bursts(one, heir):
        told = [when for when, what in done if what == "write"]
        sent = [when for when, what in done if what in SENDS and not (told and when > told[0])]
        if at < way[-1][0] and not told:
            continue  # a keep-alive
        way.append((at, "the next one's loop", "hears"))
        if sent:
            way.append((sent[-1], "the next one's loop", "has sent a request"))
        if told:
            way.append((told[0], "the next one's loop", "publishes that it leads"))
            break
    way.append((one[-1][0], "the caller", "knows"))
    return way


def main():
    build, store = sys.argv[1:3]
    with tempfile.NamedTemporaryFile() as notes:
        more = {"LD_PRELOAD": f"{build}/bench/libstamps.so", "STAMPS": notes.name, "CONCLAVE_MODULES": build}
        done = subprocess.run([f"{build}/bench/bench_handover", *sys.argv[3:], "--store", store], check=True, text=True,
                              stdout=subprocess.PIPE, env=dict(os.environ, **more))
        print(done.stdout.splitlines()[-1])
        ways = collections.defaultdict(list)
        total = 0
        for one in handovers(notes.name):
            total += 1
            one = squeeze(one) if store == "sqlite" else steps(one)
            if one is not None:
                ways[tuple(step[1:] for step in one)].append([step[0] for step in one])
    if not ways:
        sys.exit("no hand-over was recognised")
    way, times = max(ways.items(), key=lambda item: len(item[1]))
    print(f"# {len(times)} of {total} hand-overs had these steps; medians in us")
    print(f"{'after':>8} {'at':>8}  {'thread' if store == 'sqlite' else 'who':20} what")
    for i, (thread, what) in enumerate(way):
        after = statistics.median((t[i] - t[max(i - 1, 0)]) / 1000 for t in times)
        at = statistics.median(t[i] / 1000 for t in times)
        print(f"{after:8.0f} {at:8.0f}  {thread!s:20} {what}")


if __name__ == "__main__":
    main()
