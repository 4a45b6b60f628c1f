#!/usr/bin/env python3
"""Traces of real members of a cluster: the same kinds of lines as in the simulator, and the beliefs that members print.

test_traces.py CONCLAVE PEERS_CLAIMS [TEST...]; see peer_cluster.py. Where there is node, the page's own code
joins the traces, by the program that JOIN names. Where there is spin, its model of pole must be able to follow the
traces: VALIDATE names the program that checks that."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from peer_cluster import CONCLAVE, PATIENCE_S, Cluster, Skipped, check, run, running, until, work  # pylint: disable=wrong-import-position

REQUIRED = {"send", "deliver", "timer", "start", "persist", "belief", "renew"}


def lines(path):
    """Whole lines only: a killed process may leave a partial line."""
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def schema():
    """The fields that the simulator writes for each event of the same protocol."""
    scenario, trace = work / "pole.scn", work / "sim.trace"
    scenario.write_text("protocol pole lease=300ms delta=5ms sigma=5ms heartbeat=30ms round=30ms timeout=200ms\nnodes 3\n"
                        "link * delay 1ms jitter 50%\nat 2s resign leader\nat 4s crash leader\nrun 8s\n")
    subprocess.run([CONCLAVE, "sim", str(scenario), "--trace", str(trace)], check=True, stdout=subprocess.DEVNULL)
    header, *records = lines(trace)
    fields, types = {}, {}
    for record in records:
        fields.setdefault(record["event"], set()).update(record)
        if record["event"] == "send":
            types[record["type"]] = set(record["fields"])
    return set(header), fields, types


class Members:
    """Each member runs `conclave elect` and writes a trace; stdout has one object for each change."""

    def __init__(self):
        self.cluster = Cluster()
        self.processes = {}
        self.traces = {}
        for name in self.cluster.names:
            self.begin(name, f"{name}.trace")

    def begin(self, name, trace):
        self.traces[name] = self.cluster.folder / trace
        with open(self.shown_path(name), "w") as out:
            self.processes[name] = subprocess.Popen(
                [CONCLAVE, "elect", "e", "--via", f"peers:{self.cluster.file(name)}", "--node", name, "--json",
                 "--trace", str(self.traces[name])], stdin=subprocess.DEVNULL, stdout=out)
        running.append(self.processes[name])

    def shown_path(self, name):
        return self.cluster.folder / f"{name}.out"

    def trace_path(self, name):
        return self.traces[name]

    def shown(self, name):
        """Leader and token of each change that it printed."""
        number = {None: 0, **{n: i + 1 for i, n in enumerate(self.cluster.names)}}
        return [(number[one["leader"]], one["token"]) for one in lines(self.shown_path(name))]

    def agree(self, names):
        def agreed():
            last = {self.shown(name)[-1] if self.shown(name) else (0, 0) for name in names}
            return last.pop()[0] if len(last) == 1 else 0
        return self.cluster.names[until(f"{names} agree", agreed) - 1]

    def last_s(self, name):
        """The time of its last event, by the machine's clock."""
        header, *records = lines(self.trace_path(name))
        return header["began_s"] + records[-1]["t_s"]

    def end(self, name, how):
        self.processes[name].send_signal(how)
        status = self.processes[name].wait(PATIENCE_S)
        running.remove(self.processes.pop(name))
        return status


def check_lines(header, records, known):
    known_header, fields, types = known
    check("header", header.keys() == known_header | {"self", "label", "began_s"})
    seen = set()
    last_s = 0
    for record in records:
        event = record["event"]
        seen.add(event)
        if event == "action":
            continue
        optional = {"deliver": {"fields", "delay_max_s"}}.get(event, set())
        check(f"{event} is one of the simulator's", event in fields)
        check(f"{record} has the fields of the simulator's", fields[event] - optional <= record.keys() <= fields[event] | optional)
        if event in ("send", "deliver") and record["type"] in types:
            check(f"{record} has the fields of its type", record["fields"].keys() == types[record["type"]])
        check("time goes on", 0 <= last_s <= record["t_s"])
        last_s = record["t_s"]
    return seen


def traces_of_three_members_are_complete():
    known = schema()
    members = Members()
    leader = members.agree(members.cluster.names)
    members.end(leader, signal.SIGKILL)
    others = members.cluster.others(leader)
    until("another leads", lambda: members.agree(others) != leader)
    until("enough time has passed for the page to see which member has ended",
          lambda: min(map(members.last_s, others)) > members.last_s(leader) + 1.1)
    for name in others:
        check("it ends well", members.end(name, signal.SIGTERM) == 0)
    seen = set()
    for i, name in enumerate(members.cluster.names):
        header, *records = lines(members.trace_path(name))
        check("the header names the member", (header["self"], header["nodes"], header["protocol"]) == (i + 1, 3, "pole"))
        seen |= check_lines(header, records, known)
        beliefs = [(one["leader"], one["token"]) for one in records if one["event"] == "belief"]
        shown = [pair for pair in members.shown(name) if pair[0] != 0]
        check(f"{name} believed what it printed: {shown} of {beliefs}", shown and set(shown) <= set(beliefs))
    check(f"no trace has these events: {REQUIRED - seen}", REQUIRED <= seen)
    join(members, members.cluster.names.index(leader) + 1)


def join(members, first_leader):
    """The page shows one trace of all three, in which deliveries are matched with sends."""
    node = shutil.which("node")
    if node is None or "JOIN" not in os.environ:
        print("# node is missing: the page's reader is not tested")
        return
    paths = [str(members.trace_path(name)) for name in members.cluster.names]
    result = subprocess.run([node, os.environ["JOIN"], *paths], capture_output=True, text=True, timeout=PATIENCE_S)
    check(result.stderr, result.returncode == 0)
    told = json.loads(result.stdout)
    check(f"{told}: both leaders", {first_leader} < set(told["leaders"]))
    check(f"{told}: messages have their senders", told["matched"] > 0.9 * told["delivered"] > 0)
    check(f"{told}: one node ended", told["crashed"] == [first_leader])
    check(f"{told}: a change of belief leads back to another node's message", told["deepest"] >= 3)


def the_model_can_follow_the_traces_of_members():
    if shutil.which("spin") is None or "VALIDATE" not in os.environ:
        raise Skipped("spin is missing")
    members = Members()
    names = members.cluster.names
    killed = members.agree(names)
    first_trace = members.trace_path(killed)
    members.end(killed, signal.SIGKILL)
    others = members.cluster.others(killed)
    until("another leads", lambda: members.agree(others) != killed)
    members.begin(killed, f"{killed}-again.trace")
    stopped = members.agree(names)
    members.processes[stopped].send_signal(signal.SIGSTOP)
    others = members.cluster.others(stopped)
    until("a third leadership", lambda: members.agree(others) != stopped)
    members.processes[stopped].send_signal(signal.SIGCONT)
    members.agree(names)
    for name in names:
        check("it ends well", members.end(name, signal.SIGTERM) == 0)
    paths = [str(path) for path in [first_trace, *map(members.trace_path, names)]]
    result = subprocess.run([os.environ["VALIDATE"], "--merge", *paths], capture_output=True, text=True, timeout=PATIENCE_S)
    check(result.stdout + result.stderr, result.returncode == 0)


sys.exit(run([traces_of_three_members_are_complete, the_model_can_follow_the_traces_of_members]))
