#!/usr/bin/env python3
"""tests/stores/test_run.py CONCLAVE KIND - `conclave run` on a store, for real.

The same suite for each KIND: `sqlite` on a file of its own, what tools/with-servers has started
(postgres, pooler, etcd, zookeeper), or `peers`, the members of a cluster, which has no store. Real contenders run a
worker; holders, supervisors, guards, children and grandchildren are killed and stopped. The worker itself reports
another one that was alive when it started, and a fenced counter reports a write of an earlier leader (stage.py).
Speaks TAP. Waits for conditions with generous limits and judges no speed."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from stage import LIMIT, Failure, Members, Relay, Stage, await_that

BINDING = pathlib.Path(__file__).resolve().parent.parent.parent / "bindings" / "python"


# ---- the tests -------------------------------------------------------------------------------------


def exclusive_among_twenty(stage):
    for _ in range(20):
        stage.spawn()
    _, token, _, _ = stage.await_start()
    written = len(stage.lines("write"))
    await_that(lambda: len(stage.lines("write")) > written + 20, "the worker to go on")
    if [start[1] for start in stage.starts()] != [token]:
        raise Failure(f"more than one of twenty ran its worker: {stage.starts()}")


def kill(stage, victims, sign, expect_new=True):
    for _ in range(3):
        stage.spawn()
    node, token, child, grandchild = stage.await_start()
    targets = {"supervisor": stage.process[node].pid, "guard": stage.guard(node), "child": child,
               "grandchild": grandchild}
    for victim in victims:
        if sign == signal.SIGSTOP:
            stage.stop(targets[victim])
        else:
            os.kill(targets[victim], sign)
    if not expect_new:
        written = len(stage.lines("write"))
        await_that(lambda: len(stage.lines("write")) > written + 10, "the worker to go on")
        os.kill(stage.process[node].pid, signal.SIGKILL)
    stage.await_start(after=token)


def supervisor_killed(stage):
    kill(stage, ["supervisor"], signal.SIGKILL)


def supervisor_stopped(stage):
    kill(stage, ["supervisor"], signal.SIGSTOP)


def guard_killed(stage):
    kill(stage, ["guard"], signal.SIGKILL)


def guard_stopped_then_supervisor_killed(stage):
    kill(stage, ["guard"], signal.SIGSTOP, expect_new=False)


def child_killed(stage):
    kill(stage, ["child"], signal.SIGKILL)


def child_stopped_then_supervisor_killed(stage):
    for _ in range(3):
        stage.spawn()
    node, token, child, grandchild = stage.await_start()
    stage.stop(child)
    stage.stop(grandchild)
    os.kill(stage.process[node].pid, signal.SIGKILL)
    stage.await_start(after=token)


def grandchild_killed_then_supervisor_killed(stage):
    kill(stage, ["grandchild"], signal.SIGKILL, expect_new=False)


def killed_again_and_again(stage):
    token = 0
    for _ in range(3):
        stage.spawn()
    for _ in range(8):
        node, token, _, _ = stage.await_start(after=token)
        os.kill(stage.process[node].pid, signal.SIGKILL)
        stage.spawn()
    stage.await_start(after=token)


def superseded_by_a_lower_id_that_comes_back(stage):
    """With `local` the lowest id leads, so a member that was stopped and wakes up takes over from a live leader. The
    worker of that leader ignores SIGTERM: it needs all the time that its leader was promised."""
    for _ in range(stage.member_count):
        stage.spawn()
    stage.await_start()
    for _ in range(2):
        _, token, _, _ = await_leader(stage, "n0")
        stage.stop(stage.process["n0"].pid)
        node, token, _, _ = stage.await_start(after=token)
        written = len(stage.lines("write"))
        await_that(lambda: len(stage.lines("write")) > written + 5, "the second worker to work")
        os.kill(stage.process["n0"].pid, signal.SIGCONT)
        stage.await_start(after=token)
    await_leader(stage, "n0")
    said = (stage.folder / f"{node}.err").read_text()
    if stage.process[node].poll() is not None or "store" in said or said.count("leadership lost (expired)") != 2:
        raise Failure(f"{node} was superseded twice and says:\n{said}")


def await_leader(stage, node):
    """The worker of that node, when it is the latest one."""
    return await_that(lambda: next((start for start in stage.starts()[-1:] if start[0] == node), None), f"{node} leads")


def leases_of_different_lengths(stage):  # traps.md T26
    stage.spawn(options=["--lease", "3s"])
    node, token, _, _ = stage.await_start()
    for lease in ("1s", "2s"):
        stage.spawn(options=["--lease", lease])
    written = len(stage.lines("write"))
    await_that(lambda: len(stage.lines("write")) > written + 80, "the worker to outlast the others")
    if len(stage.starts()) != 1:
        raise Failure("a contender with a shorter lease took over")
    os.kill(stage.process[node].pid, signal.SIGSTOP)
    stage.stopped.add(stage.process[node].pid)
    stage.await_start(after=token)


def resigns_to_a_named_node(stage):
    for _ in range(4):
        stage.spawn()
    node, token, _, _ = stage.await_start()
    heir = next(name for name in reversed(list(stage.process)) if name != node)
    if stage.kind not in ("pooler", "peers"):  # there the waiting contenders are not known
        await_that(lambda: heir in (one["node"] for one in told(stage)["waiting"]), "the heir waits")
    done = stage.conclave("resign", "--to", heir)
    if done.returncode != 0:
        raise Failure(f"resign: {done.stdout}{done.stderr}")
    new = stage.await_start(after=token)
    if new[0] != heir:
        raise Failure(f"{new[0]} leads, and not {heir}")


def resigns_to_a_node_with_letters_of_another_alphabet(stage):
    """PostgreSQL shows the waiting contenders in ASCII."""
    heir = "bureau d'été " + 30 * "ж"
    stage.spawn(command=["sleep", "1000"])
    await_that(lambda: told(stage).get("leader"), "a leader")
    stage.spawn(command=["sleep", "1000"], options=["--node", heir])
    if stage.kind != "pooler":
        await_that(lambda: told(stage)["waiting"], "the heir waits")
    done = stage.conclave("resign", "--to", heir)
    if done.returncode != 0 or told(stage)["leader"] != heir:
        raise Failure(f"resign: {done.returncode} {done.stdout}{done.stderr}")


def resign_says_that_the_heir_does_not_lead(stage):
    """To the store a stopped process still waits. SQLite keeps the record for it for a while; elsewhere a stopped heir
    gets the record, and is reported as the leader."""
    if stage.kind != "sqlite":
        return
    names = [stage.spawn(command=["sleep", "1000"]) for _ in range(3)]
    first = await_that(lambda: told(stage).get("leader"), "a leader")
    heir, other = [name for name in names if name != first]
    await_that(lambda: len(told(stage)["waiting"]) == 2, "both wait")
    stage.stop(stage.process[heir].pid)
    done = stage.conclave("resign", "--to", heir, "--wait", "30s")
    if done.returncode != 1 or f"{heir} did not take over" not in done.stderr or \
            told(stage)["leader"] not in (first, other):
        raise Failure(f"resign: {done.returncode} {done.stdout}{done.stderr}")


def resignations_in_a_row(stage):
    """No contender stands back for long when all have resigned lately: the lease is longer than the wait."""
    for _ in range(3):
        stage.spawn(command=["sleep", "1000"], options=["--lease", "120s"])
    for number in range(10):
        await_that(lambda: stage.conclave("status").returncode == 0, f"leader {number}")
        done = stage.conclave("resign", "--wait", "20s")
        if done.returncode != 0:
            raise Failure(f"resignation {number}: {done.stdout}{done.stderr}")


def status_history_and_watch(stage):
    watcher = subprocess.Popen([stage.program, "watch", stage.name, "--via", stage.address, "--json"],
                               env=stage.environment, stdout=subprocess.PIPE, text=True)
    try:
        stage.spawn(options=["--once"])
        node, token, _, _ = stage.await_start()
        seen = {}
        while seen.get("leader") != node:
            seen = json.loads(watcher.stdout.readline())
        if seen["token"] != token:
            raise Failure(f"watch says {seen}")
    finally:
        watcher.kill()
        watcher.wait()
        watcher.stdout.close()
    said = stage.conclave("status").stdout
    if (" at most " in said) != (stage.kind == "zookeeper") or "s left of a lease" not in said:
        raise Failure(f"only ZooKeeper does not say what is left of a lease: {said}")
    status = stage.conclave("status", "--json")
    told = json.loads(status.stdout)
    if status.returncode != 0 or told["leader"] != node or told["token"] != token:
        raise Failure(f"status says {told}")
    os.kill(stage.process[node].pid, signal.SIGKILL)
    await_that(lambda: stage.conclave("status").returncode == 1, "that nobody leads")
    stage.spawn()
    _, second, _, _ = stage.await_start(after=token)
    def trail():
        history = stage.conclave("history", "--json")
        return json.loads(history.stdout) if history.returncode == 0 else []
    await_that(lambda: [row["token"] for row in trail()] == [token, second], "both in the history")
    first = trail()[0]
    shown = stage.conclave("history").stdout
    if ("(ended then or before)" in shown) != (first["why"] in ("expired", "gone")):
        raise Failure(f"history says more about the end than is known: {shown}")
    middle = (first["from_unix_s"] + first["to_unix_s"]) / 2
    at = stage.conclave("history", "--at", f"@{middle:.6f}", "--json")
    if [row["leader"] for row in json.loads(at.stdout)] != [node]:
        raise Failure(f"history --at says {at.stdout}")


def a_stopped_leader_ends_in_the_history_before_the_next(stage):
    """It learns that it was replaced when it is continued; no process noted when its work ended."""
    first = stage.spawn(command=["sleep", "1000"])
    await_that(lambda: told(stage).get("leader") == first, "a leader")
    second = stage.spawn(command=["sleep", "1000"])
    stage.stop(stage.process[first].pid)
    await_that(lambda: told(stage).get("leader") == second, "the other leads")
    os.kill(stage.process[first].pid, signal.SIGCONT)
    await_that(lambda: "leadership lost (" in (stage.folder / f"{first}.err").read_text(), "it knows")
    def ended():
        rows = json.loads(stage.conclave("history", "--json").stdout)
        return rows if len(rows) == 2 and rows[0]["why"] != "gone" else None
    rows = await_that(ended, "it is in the history")
    if [row["leader"] for row in rows] != [first, second] or \
            rows[0]["to_unix_s"] > rows[1]["from_unix_s"] or \
            rows[1]["nobody_before_is_at_least"] != (rows[0]["why"] in ("expired", "gone")):
        raise Failure(f"history says {rows}")


def told(stage, *arguments, machine=None):
    done = stage.conclave("status", "--json", *arguments, machine=machine)
    return json.loads(done.stdout) if done.stdout else {}


# ---- why it ended, as told on other machines

# What a store cannot know is not reported: the first word is for a leader whose process is gone, the second for one
# that was stopped until its lease was over.
UNSAID = {"sqlite": ("died", "expired"), "postgres": ("expired", "expired"), "pooler": ("expired", "expired"),
          "etcd": ("gone", "gone"), "zookeeper": ("gone", "gone")}


def history(stage, machine, address=None):
    done = stage.conclave("history", "--json", machine=machine, address=address)
    return {row["token"]: row["why"] for row in json.loads(done.stdout or "[]")}


def begin_command(stage, go_on):
    return stage.spawn(command=["sh", "-c", f"while [ -e {go_on} ]; do sleep 0.02; done"], machine="first")


LIBRARY_CONTENDER = """
import os, sys, time
import conclave
name, address, node, lease, go_on = sys.argv[1:]
with conclave.Election(name, address, node=node, lease=float(lease), progress=float(lease) / 3) as election:
    while True:
        if os.path.exists(go_on):
            election.progress()
        time.sleep(0.02)
"""


def begin_library(stage, go_on):
    """A program that shows progress only while a file exists."""
    node, lease = stage.next_node(), stage.lease.replace("ms", "e-3").rstrip("s")
    environment = dict(stage.on("first"), CONCLAVE_LIBRARY=str(library_of(stage)), PYTHONPATH=str(BINDING))
    stage.process[node] = subprocess.Popen(
        [sys.executable, "-c", LIBRARY_CONTENDER, stage.name, stage.address, node, lease, str(go_on)],
        stdin=subprocess.DEVNULL, env=environment)
    return node


def library_of(stage):
    return pathlib.Path(stage.program).parent / "libconclave.so.0"


def hear(stage, end, why, is_followed, begin=begin_command):
    """`end` ends the leadership of a contender; watch, status and history show the reason on machines that had
    nothing to do with it, and on that of the successor."""
    seen = stage.watch("elsewhere")
    go_on = stage.folder / "go-on"
    go_on.touch()
    first = begin(stage, go_on)
    token = await_that(lambda: told(stage).get("token") if told(stage).get("leader") == first else None, "a leader")
    await_that(lambda: any(line["token"] == token for line in seen()), "the watcher sees it")
    if is_followed:
        second = stage.spawn(command=["sleep", "1000"], machine="second")
        if stage.kind != "pooler":  # there the waiting contenders are not known
            await_that(lambda: told(stage)["waiting"], "the other waits")
    end(first, go_on)
    def is_told():
        return [line for line in seen() if line["last_token"] == token]
    last = await_that(is_told, "the watcher sees its end")[0]
    if last["last_reason"] != why or (last["leader"] is None and last["reason"] != why):
        raise Failure(f"watch says {last}, and not {why}")
    machines = ["elsewhere"]
    if is_followed:
        await_that(lambda: told(stage).get("leader") == second, "the other leads")
        machines.append("second")
    for machine in machines:
        await_that(lambda m=machine: history(stage, m).get(token) == why,
                   f"history on {machine} says {why}: {history(stage, machine)}")
    for machine in [*machines, "nowhere before"]:
        said = told(stage, machine=machine)
        if said["last_reason"] != why and not (said["leader"] is None and said["ended"] == why):
            raise Failure(f"status on {machine} says {said}, and not {why}")


def others_hear_that_the_command_ended(stage):
    hear(stage, lambda _, go_on: go_on.unlink(), "finished", is_followed=False)


def others_hear_that_the_command_ended_before_another_began(stage):
    hear(stage, lambda _, go_on: go_on.unlink(), "finished", is_followed=True)


def others_hear_that_the_leader_resigned(stage):
    def resign(_first, _go_on):
        done = stage.conclave("resign", machine="console")
        if done.returncode != 0:
            raise Failure(f"resign: {done.stdout}{done.stderr}")
    hear(stage, resign, "resigned", is_followed=True)


def others_hear_that_the_work_of_the_leader_was_stuck(stage):
    if b"__asan_init" in library_of(stage).read_bytes():
        return  # Python cannot load it
    hear(stage, lambda _, go_on: go_on.unlink(), "no-progress", is_followed=True, begin=begin_library)


def others_do_not_hear_more_of_a_killed_leader_than_is_known(stage):
    hear(stage, lambda first, _: stage.process[first].kill(), UNSAID[stage.kind][0], is_followed=True)


def others_do_not_hear_more_of_a_stopped_leader_than_is_known(stage):
    hear(stage, lambda first, _: stage.stop(stage.process[first].pid), UNSAID[stage.kind][1], is_followed=True)


@contextlib.contextmanager
def an_outage(stage):
    if stage.kind == "sqlite":
        with contextlib.closing(sqlite3.connect(stage.address.removeprefix("sqlite:"), isolation_level=None)) as lock:
            lock.execute("BEGIN EXCLUSIVE")
            yield
        return
    server, count = ("postgres", 1) if stage.kind in ("postgres", "pooler") else (stage.kind, 3)
    stop, go_on = ("kill", "start") if server == "postgres" else ("freeze", "thaw")
    for number in range(1, count + 1):
        subprocess.run([os.environ["CV_TEST_SERVERS_CTL"], server, stop, str(number)], check=True,
                       stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        for number in range(1, count + 1):
            subprocess.run([os.environ["CV_TEST_SERVERS_CTL"], server, go_on, str(number)], check=True,
                           stdout=subprocess.DEVNULL)


def an_outage_is_not_reported_as_something_else(stage):
    """The leader's own machine knows the outage; others may only know that the lease ran out, or nothing."""
    seen = stage.watch("elsewhere")
    first = stage.spawn(command=["sleep", "1000"], machine="first")
    token = await_that(lambda: told(stage).get("token") if told(stage).get("leader") == first else None, "a leader")
    await_that(lambda: any(line["token"] == token for line in seen()), "the watcher sees it")
    second = stage.spawn(command=["sleep", "1000"], machine="second")
    await_that(lambda: told(stage)["waiting"] or stage.kind == "pooler", "the other waits")
    with an_outage(stage):
        await_that(lambda: "leadership lost (store-unreachable)" in (stage.folder / f"{first}.err").read_text(),
                   "the leader gives up")
    leaders = (first, second)
    await_that(lambda: told(stage).get("leader") in leaders and told(stage)["token"] > token, "another leadership")
    if stage.kind in ("etcd", "zookeeper"):
        await_that(lambda: history(stage, "first").get(token) == "store-unreachable", "its own history says so")
    for machine in ("first", "elsewhere", "second", "nowhere before"):
        words = {history(stage, machine).get(token), told(stage, machine=machine)["last_reason"]} - {None}
        if not words <= {"store-unreachable", "expired", "gone"}:
            raise Failure(f"on {machine}: {words}")
    reasons = {line["last_reason"] for line in seen() if line["last_token"] == token}
    if not reasons <= {"store-unreachable", "expired", "gone"}:
        raise Failure(f"watch says {reasons}")


def an_outage_does_not_explain_the_end_of_the_next_leadership(stage):
    seen = stage.watch("elsewhere")
    node = stage.spawn(command=["sleep", "1000"])
    token = await_that(lambda: told(stage).get("token") if told(stage).get("leader") == node else None, "a leader")
    await_that(lambda: any(line["token"] == token for line in seen()), "the watcher sees it")
    with an_outage(stage):
        await_that(lambda: "leadership lost (" in (stage.folder / f"{node}.err").read_text(), "it gives up")
        await_that(lambda: seen()[-1]["leader"] is None, "its lease is over")
        other = stage.spawn(command=["true"], options=["-w", "4s"])  # the first does not release that long
        if stage.process[other].wait(timeout=LIMIT) != 125:
            raise Failure("another one got an answer in an outage")
    later = await_that(lambda: told(stage)["token"] if (stage.folder / f"{node}.err").read_text().count("elected") >= 2
                       and told(stage).get("token", 0) > token else None, "it leads again")
    stage.process[node].terminate()
    stage.process[node].wait(timeout=LIMIT)
    # A store that has just come back may fail again: then the leader itself said so of this leadership.
    last = (stage.folder / f"{node}.err").read_text().rpartition("elected")[2]
    expected = "store-unreachable" if "leadership lost (store-unreachable)" in last else "resigned"
    if history(stage, None).get(later) != expected:
        raise Failure(f"{expected}, and history says {history(stage, None)}")


def a_stopped_leader_does_not_blame_the_store(stage):
    """It goes on when its command is gone, and its lease is not over yet."""
    node = stage.spawn(command=["sh", "-c", f"echo $$ >{stage.folder}/pid; exec sleep 1000"])
    pid = await_that(lambda: (stage.folder / "pid").exists() and (stage.folder / "pid").read_text().strip(), "a leader")
    await_that(lambda: "runs as process" in (stage.folder / f"{node}.err").read_text(), "it knows")
    stage.stop(stage.process[node].pid)
    await_that(lambda: not os.path.exists(f"/proc/{pid}"), "the guard ends the command")
    os.kill(stage.process[node].pid, signal.SIGCONT)
    said = await_that(lambda: re.search(r"leadership lost \(.*\)", (stage.folder / f"{node}.err").read_text()), "its end")
    if said.group() != "leadership lost (expired)":
        raise Failure(f"it was stopped, and says: {said.group()}")


def a_watcher_that_slept_does_not_report_the_reason_of_another_leadership(stage):
    """It saw the first leadership begin and the second one end."""
    seen = stage.watch("elsewhere")
    go_on = stage.folder / "go-on"
    go_on.touch()
    first = stage.spawn(command=["sh", "-c", f"while [ -e {go_on} ]; do sleep 0.02; done"])
    token = await_that(lambda: told(stage).get("token") if told(stage).get("leader") == first else None, "a leader")
    await_that(lambda: any(line["token"] == token for line in seen()), "the watcher sees it")
    watcher = stage.process["watch elsewhere"].pid
    stage.stop(watcher)
    go_on.unlink()
    await_that(lambda: told(stage).get("leader") is None, "its end")
    second = stage.spawn(command=["sleep", "1000"])
    await_that(lambda: told(stage).get("leader") == second, "the second")
    stage.process[second].kill()
    await_that(lambda: told(stage).get("leader") is None, "the end of that")
    os.kill(watcher, signal.SIGCONT)
    last = await_that(lambda: [line for line in seen() if line["leader"] is None and line["token"] == token],
                      "the watcher sees that nobody leads")[0]
    if last["reason"] not in ("gone", "finished"):
        raise Failure(f"watch says {last}")


def a_watcher_that_is_cut_off_does_not_say_that_nobody_leads(stage):
    stage.lease = "5s"  # the leader is not cut off, and must not change on a busy machine either
    node = stage.spawn(command=["sleep", "1000"])
    token = await_that(lambda: told(stage).get("token") if told(stage).get("leader") == node else None, "a leader")
    path = stage.folder / "watch.text"
    with Relay(stage) as relay:
        seen = stage.watch("cut off", relay.address)
        await_that(lambda: any(line["leader"] == node and line["leader_known"] for line in seen()), "both see it")
        with open(path, "w") as output:
            stage.process["watch"] = subprocess.Popen(
                [stage.program, "watch", stage.name, "--via", relay.address], stdin=subprocess.DEVNULL,
                env=stage.environment, stdout=output, stderr=subprocess.DEVNULL)
        await_that(lambda: f"{node} leads" in path.read_text(), "the watcher sees it")
        relay.tell("swallow")
        await_that(lambda: "(store-unreachable)" in path.read_text(), "the watcher knows nothing any more")
        last = await_that(lambda: seen()[-1] if seen()[-1]["leader"] is None else None, "nor does the other one")
        if last["leader_known"] or last["last_token"] is not None:
            raise Failure(f"it goes on, and watch says {last}")
        if stage.kind != "postgres" and history(stage, "cut off", relay.address) != {token: None}:
            raise Failure(f"it goes on, and history says {history(stage, 'cut off', relay.address)}")
        relay.tell("heal")
        await_that(lambda: path.read_text().count(f"{node} leads") >= 2, "the watcher sees it again")
        await_that(lambda: seen()[-1]["leader"] == node, "and the other one")
        relay.tell("swallow")
        await_that(lambda: seen()[-1]["leader"] is None, "they know nothing once more")
        stage.process[node].terminate()
        stage.process[node].wait(timeout=LIMIT)
        relay.tell("heal")
        last = await_that(lambda: seen()[-1] if seen()[-1]["leader_known"] else None, "they know that nobody leads")
        if (last["leader"], last["reason"], last["last_token"], last["last_reason"]) != (None, "resigned", token, "resigned"):
            raise Failure(f"watch says {last}")
        await_that(lambda: history(stage, "cut off", relay.address).get(token) == "resigned", "history says so, too")
        await_that(lambda: "nobody leads (resigned)" in path.read_text(), "the first one, too")
        for before, after in zip(seen(), seen()[1:]):  # not a line for each server that is tried in vain
            texts = {line["trouble"] for line in (before, after)}
            if None not in texts and all(before[key] == after[key] for key in after if key not in ("t_unix_s", "trouble")):
                raise Failure(f"watch repeats itself: {before}, {after}")
    said = path.read_text()
    if "nobody leads (store-unreachable)" in said or \
            re.search(r"it is not known who leads.*\n.*no leader is known \(store-unreachable\)", said):
        raise Failure(f"watch says {said}")


def the_leader_is_not_asked_to_resign_in_favour_of_itself(stage):
    node = stage.spawn()
    _, token, _, _ = stage.await_start()
    done = stage.conclave("resign", "--to", node)
    if done.returncode != 0 or "leads already" not in done.stdout:
        raise Failure(f"resign: {done.returncode} {done.stdout}{done.stderr}")
    written = len(stage.lines("write"))
    await_that(lambda: len(stage.lines("write")) > written + 5, "the worker to go on")
    seen = told(stage)
    if (seen["leader"], seen["token"], seen["asked_to_resign"]) != (node, token, False):
        raise Failure(f"status says {seen}")


def status_says_who_led_last_while_nobody_leads(stage):
    """Also if nobody was there to record its end."""
    first = stage.spawn(command=["sleep", "1000"])
    await_that(lambda: told(stage).get("leader") == first, "a leader")
    stage.process[first].terminate()
    stage.process[first].wait(timeout=LIMIT)
    second = stage.spawn(command=["sleep", "1000"])
    await_that(lambda: told(stage).get("leader") == second, "another leader")
    token = await_that(lambda: max(history(stage, None)) if len(history(stage, None)) == 2 else None, "both in the history")
    os.kill(stage.process[second].pid, signal.SIGKILL)
    await_that(lambda: told(stage)["leader"] is None, "that nobody leads")
    seen = told(stage)
    if seen["last_leader"] != second or seen["last_reason"] != (seen["ended"] or "gone"):
        raise Failure(f"{second} led last with {token}, and status says {seen}")
    said = stage.conclave("status").stdout
    if f"  before: {second}, token {token}, until " not in said:
        raise Failure(f"status says {said}")
    if stage.kind in ("sqlite", "postgres", "pooler"):  # the others do not keep the end of a lease
        end = await_that(lambda: told(stage)["last_end_unix_s"], "its lease is over")
        row = json.loads(stage.conclave("history", "--json").stdout)[-1]
        if (row["token"], row["to_unix_s"], row["why"]) != (token, end, seen["ended"]):
            raise Failure(f"the lease ended at {end}, and history says {row}")


def status_says_that_the_leader_was_asked_to_resign(stage):
    """A program that leads on, whatever it is asked for."""
    go_on = stage.folder / "go-on"
    go_on.touch()
    stage.lease = "5s"
    node = begin_library(stage, go_on)
    await_that(lambda: told(stage).get("leader") == node, "a leader")
    if told(stage)["asked_to_resign"]:
        raise Failure(f"status says {told(stage)}")
    await_that(lambda: stage.conclave("resign", "--wait", "0s") and told(stage)["asked_to_resign"] and
               "asked to resign" in stage.conclave("status").stdout, "that it was asked to resign")


def a_leader_that_leads_again_has_not_handed_over(stage):
    node = stage.spawn()
    _, token, _, _ = stage.await_start()
    done = stage.conclave("resign", "--wait", "30s")
    if done.returncode != 1 or f"{node} leads again" not in done.stderr:
        raise Failure(f"resign: {done.returncode} {done.stdout}{done.stderr}")
    stage.await_start(after=token)


def a_leader_that_leads_again_after_another_has_handed_over(stage):
    """The other one leads for a moment, while the command that asked is stopped."""
    stage.lease = "5s"  # nobody may lose it in between, also on a busy machine
    first = stage.spawn(command=["sleep", "1000"])
    token = await_that(lambda: told(stage).get("token") if told(stage).get("leader") == first else None, "a leader")
    second = stage.spawn(command=["true"])
    await_that(lambda: f"{first} leads" in (stage.folder / f"{second}.err").read_text(), "a contender that waits")
    asking = subprocess.Popen([stage.program, "resign", stage.name, "--via", stage.address, "--wait", "60s"],
                              env=stage.environment, stdout=subprocess.PIPE, text=True)
    stage.process["resign"] = asking
    await_that(lambda: "resign" in (stage.folder / f"{first}.err").read_text(), "it is asked")
    stage.stop(asking.pid)
    stage.process[second].wait(timeout=LIMIT)
    await_that(lambda: told(stage).get("leader") == first and told(stage)["token"] > token, "it leads again")
    os.kill(asking.pid, signal.SIGCONT)
    said, _ = asking.communicate(timeout=LIMIT)
    if asking.returncode != 0 or not re.search(f"{second} (leads now|took over), token", said):
        raise Failure(f"resign: {asking.returncode} {said}")


def a_killed_contender_is_not_reported_as_the_next_leader(stage):
    """In the queue of etcd and ZooKeeper it comes next until its lease is over."""
    first, killed, second = stage.spawn(command=["sleep", "1000"]), None, None
    await_that(lambda: told(stage).get("leader") == first, "a leader")
    for _ in range(2):
        killed, second = second, stage.spawn(command=["sleep", "1000"])
        await_that(lambda: f"{first} leads" in (stage.folder / f"{second}.err").read_text(), "a contender that waits")
    os.kill(stage.process[killed].pid, signal.SIGKILL)
    done = stage.conclave("resign", "--wait", "30s")
    if done.returncode != 0 or f"{second} leads now" not in done.stdout:
        raise Failure(f"resign: {done.returncode} {done.stdout}{done.stderr}")
    await_that(lambda: "elected" in (stage.folder / f"{second}.err").read_text(), "it leads")


def history_says_how_a_run_ended_that_nobody_asked_to_end(stage):
    stage.process[stage.spawn(command=["/nonexistent/command"])].wait(timeout=LIMIT)
    await_that(lambda: list(history(stage, None).values()) == ["finished"], "the command could not be started")
    node = stage.spawn(command=["sleep", "1000"])
    token = await_that(lambda: told(stage).get("token") if told(stage).get("leader") == node else None, "a leader")
    await_that(lambda: "runs as process" in (stage.folder / f"{node}.err").read_text(), "its command runs")
    os.kill(stage.guard(node), signal.SIGKILL)
    stage.process[node].wait(timeout=LIMIT)
    await_that(lambda: history(stage, None).get(token) == "died", "the guard was killed")


def status_names_the_waiting_contenders(stage):
    """A pooler's sessions cannot be told apart, so there no contender is known to wait."""
    begin = time.time()
    stage.spawn()
    stage.await_start()
    for _ in range(2):
        stage.spawn()
    expected = [] if stage.kind == "pooler" else ["n1", "n2"]
    seen = await_that(lambda: (told(stage) if sorted(one["node"] for one in told(stage)["waiting"]) ==
                               expected else None), "both are known to wait")
    if seen["leader"] != "n0" or any(not begin - 5 < one["since_unix_s"] < time.time() + 5
                                     for one in seen["waiting"]):
        raise Failure(f"status says {seen}")
    for name in ("n2", "n1"):
        os.kill(stage.process[name].pid, signal.SIGKILL)
    await_that(lambda: told(stage)["waiting"] == [], "the killed are not known to wait")


def a_contender_that_led_waits_since_its_leadership_ended(stage):
    stage.spawn()
    _, token, _, _ = stage.await_start()
    began = await_that(lambda: told(stage)["since_unix_s"], "since when it leads")
    stage.spawn()
    await_that(lambda: told(stage)["waiting"] or stage.kind == "pooler", "the other waits")
    stage.conclave("resign")
    waiting = await_that(lambda: (told(stage)["waiting"] or stage.kind == "pooler") if told(stage)["token"] > token and
                         told(stage)["leader"] == "n1" else None, "the former leader waits")
    if stage.kind != "pooler" and (waiting[0]["node"] != "n0" or waiting[0]["since_unix_s"] < began):
        raise Failure(f"it led since {began}, and status says {waiting}")


def an_absent_heir_disturbs_nobody(stage):
    stage.spawn()
    _, token, _, _ = stage.await_start()
    stage.spawn()
    await_that(lambda: told(stage)["waiting"] or stage.kind == "pooler", "the other waits")
    if stage.kind == "pooler":
        return  # waiting contenders are not known, so no heir is refused
    for options in ([], ["--wait", "0.3s"]):
        done = stage.conclave("resign", "--to", "nobody", *options)
        if done.returncode != 1 or "waiting: n1" not in done.stderr or told(stage)["token"] != token:
            raise Failure(f"resign: {done.returncode} {done.stdout}{done.stderr}")
    late = subprocess.Popen([stage.program, "resign", stage.name, "--via", stage.address, "--to", "n2",
                             "--wait", "60s"], env=stage.environment, stdout=subprocess.PIPE, text=True)
    stage.spawn()
    said, _ = late.communicate(timeout=LIMIT)
    if late.returncode != 0 or "n2 leads now" not in said:
        raise Failure(f"resign --wait: {late.returncode} {said}")


def an_heir_that_leads_as_soon_as_it_comes_leads_already(stage):
    if stage.kind == "pooler":
        return  # as above
    early = subprocess.Popen([stage.program, "resign", stage.name, "--via", stage.address, "--to", "n0",
                              "--wait", "60s"], env=stage.environment, stdout=subprocess.PIPE, text=True)
    stage.spawn()
    said, _ = early.communicate(timeout=LIMIT)
    if early.returncode != 0 or "n0 leads already" not in said:
        raise Failure(f"resign --wait: {early.returncode} {said}")


def resigns_there_and_back(stage):
    """The one that has just resigned is an heir like the others."""
    if stage.kind == "pooler":
        return  # as above
    stage.lease = "5s"  # nobody may lose it in between, also on a busy machine
    stage.spawn(command=["sleep", "1000"])
    await_that(lambda: told(stage).get("leader") == "n0", "a leader")
    stage.spawn(command=["sleep", "1000"])
    await_that(lambda: told(stage)["waiting"], "the other waits")
    for heir in ("n1", "n0") * 3:
        done = stage.conclave("resign", "--to", heir)
        if done.returncode != 0 or f"{heir} leads now" not in done.stdout:
            raise Failure(f"resign --to {heir}: {done.returncode} {done.stdout}{done.stderr}")


def names_are_listed_and_forgotten(stage):
    def names():
        done = subprocess.run([stage.program, "status", "--via", stage.address, "--json"],
                              env=stage.environment, capture_output=True, text=True, check=True,
                              timeout=LIMIT)
        return [json.loads(line)["election"] for line in done.stdout.splitlines()]

    job = stage.spawn(command=["true"], options=["--every", "1d"])
    if stage.process[job].wait(timeout=LIMIT) != 0 or stage.name not in names():
        raise Failure(f"not listed: {names()}")
    node = stage.spawn()
    _, token, _, _ = stage.await_start()
    refused = stage.conclave("forget")
    if refused.returncode != 1 or "still has contenders" not in refused.stderr:
        raise Failure(f"forget: {refused.returncode} {refused.stderr}")
    if stage.name not in names() or not json.loads(stage.conclave("history", "--json").stdout):
        raise Failure("it was forgotten although it has contenders")
    os.kill(stage.process[node].pid, signal.SIGKILL)
    await_that(lambda: stage.conclave("forget").returncode == 0, "the end of it")
    left = stage.conclave("history", "--json")
    if stage.name in names() or left.returncode != 1:
        raise Failure(f"it is not forgotten: {names()} {left.stdout}")
    if stage.conclave("forget").returncode != 0:
        raise Failure("forgetting an unknown election succeeds")
    again = stage.spawn(command=["sh", "-c", f'echo "job $CONCLAVE_NODE $CONCLAVE_TOKEN" >>{stage.log}'],
                        options=["--every", "1d"])
    if stage.process[again].wait(timeout=LIMIT) != 0:
        raise Failure("the job fails")
    if [int(row[2]) > token for row in stage.lines("job")] != [True]:
        raise Failure(f"after {token}: {stage.lines('job')}")


def commands_wait_for_a_slow_server(stage):
    """Connecting to PostgreSQL takes four answers, more than a second here."""
    listed = subprocess.run([stage.program, "status", "--via", stage.address, "--json"], env=stage.environment,
                            capture_output=True, text=True, timeout=LIMIT, check=False)
    for line in listed.stdout.splitlines():  # of earlier tests: the doctor would ask about each of them
        subprocess.run([stage.program, "forget", json.loads(line)["election"], "--via", stage.address],
                       env=stage.environment, capture_output=True, timeout=LIMIT, check=False)
    with Relay(stage) as relay:
        stage.address = relay.address
        relay.tell("delay 350")
        job = stage.spawn(command=["true"], options=["--every", "1d", "--lease", "30s"])
        if stage.process[job].wait(timeout=LIMIT) != 0:
            raise Failure("the job is not run")
        for command, status in (("status", 1), ("resign", 1), ("history", 0), ("forget", 0)):
            done = stage.conclave(command)
            if done.returncode != status or "answer" in done.stderr:
                raise Failure(f"{command}: {done.returncode} {done.stderr}")
        done = subprocess.run([stage.program, "doctor", "--via", stage.address, "--json"], env=stage.environment,
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        found = {one["check"]: one["finding"] for one in json.loads(done.stdout)}
        if found["store"] != "ok" or found.get("permissions") == "wrong" or found.get("latency", "ok") == "ok":
            raise Failure(f"the doctor does not say that it is slow: {done.stdout}")


def watch_says_first_that_nobody_leads(stage):
    done = stage.conclave("watch", "--changes", "1", "--json")
    seen = json.loads(done.stdout)
    if done.returncode != 0 or seen["leader"] is not None:
        raise Failure(f"watch says {seen}")


def a_late_watcher_says_once_why_nobody_leads(stage):
    """It has seen neither of the two leaderships that are over."""
    stage.process[stage.spawn(command=["true"])].wait(timeout=LIMIT)
    second = stage.spawn(command=["sleep", "1000"])
    token = await_that(lambda: told(stage).get("token") if told(stage).get("leader") == second else None, "a leader")
    stage.process[second].terminate()
    stage.process[second].wait(timeout=LIMIT)
    seen = stage.watch("elsewhere")
    await_that(seen, "the watcher says something")
    third = stage.spawn(command=["sleep", "1000"])
    await_that(lambda: any(line["leader"] == third for line in seen()), "the watcher sees the third")
    lines = [(line["leader"], line["last_token"], line["last_reason"]) for line in seen()]
    if lines != [(None, token, "resigned"), (third, token, "resigned")]:
        raise Failure(f"{second} led with {token}, and watch says {seen()}")


def the_doctor_finds_nothing_wrong(stage):
    done = subprocess.run([stage.program, "doctor", "--via", stage.address, "--json", "--lease", "60s"],
                          env=stage.environment, capture_output=True, text=True, timeout=LIMIT,
                          check=False)
    found = {one["check"]: one["finding"] for one in json.loads(done.stdout)}
    if done.returncode != 0 or "wrong" in found.values() or \
            not {"clock", "folder", "store", "version", "permissions", "latency"} <= found.keys():
        raise Failure(f"doctor: {done.returncode} {done.stdout} {done.stderr}")


def a_lease_that_the_servers_cut_is_reported(stage):
    """The servers of this test keep sessions for five seconds at most."""
    said = "the servers cut leases of 60s to 5s; use a lease of 5s or less"
    for lease, expected in (("60s", True), ("5s", False)):
        done = stage.conclave("run", "--lease", lease, "--", "true")
        if done.returncode != 0 or (said in done.stderr) != expected:
            raise Failure(f"run: {done.returncode} {done.stderr}")
        done = subprocess.run([stage.program, "doctor", "--via", stage.address, "--json", "--lease", lease],
                              env=stage.environment, capture_output=True, text=True, timeout=LIMIT, check=False)
        if done.returncode != 0 or any(said in one["what"] and one["finding"] == "warning"
                                       for one in json.loads(done.stdout)) != expected:
            raise Failure(f"doctor: {done.returncode} {done.stdout}")
    done = stage.conclave("watch", "--lease", "60s", "--changes", "1")
    if done.returncode != 0 or done.stderr:
        raise Failure(f"watch, which does not ask for a lease: {done.returncode} {done.stderr}")


def the_doctor_says_what_tls_needs(stage):
    """A server that asks for a certificate, and a port without TLS."""
    host = os.environ["CV_TEST_ETCD_TLS"].partition("?")
    kept = "&".join(one for one in host[2].split("&") if not one.startswith(("cert=", "key=")))
    first = stage.address.split(",")[0]
    for address, words in ((f"{host[0]}?{kept}", "add cert=FILE&key=FILE to the address"),
                           (f"{first}?tls=yes", "leave tls=yes out of the address")):
        done = subprocess.run([stage.program, "doctor", "--via", address, "--json"], env=stage.environment,
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        advice = [one["advice"] for one in json.loads(done.stdout) if one["check"] == "store"]
        if done.returncode != 1 or len(advice) != 1 or words not in (advice[0] or ""):
            raise Failure(f"doctor {address}: {done.returncode} {done.stdout}")


def the_doctor_knows_missing_rights(stage):
    if stage.kind != "postgres":
        return
    for verb, expected in (("REVOKE ALL ON conclave_runs FROM", "grant that user the rights"),
                           ("GRANT ALL ON conclave_runs TO", "")):
        subprocess.run(["psql", "-q", "-X", stage.address, "-c", f"{verb} current_user"], check=True)
        done = subprocess.run([stage.program, "doctor", "--via", stage.address, "--json", "--lease", "60s"],
                              env=stage.environment, capture_output=True, text=True, timeout=LIMIT, check=False)
        advices = [one["advice"] for one in json.loads(done.stdout) if one["finding"] == "wrong"]
        if [expected in advice for advice in advices] != ([True] if expected else []):
            raise Failure(f"after {verb}: {done.returncode} {done.stdout}")


def the_doctor_knows_tables_of_an_older_version(stage):
    if stage.kind != "postgres":
        return
    for table, column in (("history", "version"), ("lease", "next_secret")):
        for verb, finding in ((f"DROP COLUMN {column}", "warning"), ("", "ok")):
            if verb:
                subprocess.run(["psql", "-q", "-X", stage.address, "-c", f"ALTER TABLE conclave_{table} {verb}"], check=True)
            else:
                subprocess.run([stage.program, "store", "init", stage.address], check=True, stdout=subprocess.DEVNULL)
            done = subprocess.run([stage.program, "doctor", "--via", stage.address, "--json", "--lease", "60s"],
                                  env=stage.environment, capture_output=True, text=True, timeout=LIMIT, check=False)
            said = [one for one in json.loads(done.stdout) if one["check"] == "version"]
            if [one["finding"] for one in said] != [finding] or ("store init" in str(said[0]["advice"])) == (finding == "ok"):
                raise Failure(f"after {verb}: {done.returncode} {done.stdout}")


def the_doctor_knows_servers_without_users(stage):
    if stage.kind != "etcd":
        return
    environment = dict(stage.environment, CONCLAVE_ETCD_PASSWORD="geheim")
    address = stage.address.replace("etcd://", "etcd://root@")
    done = subprocess.run([stage.program, "doctor", "--via", address, "--json"], env=environment, capture_output=True,
                          text=True, timeout=LIMIT, check=False)
    advice = [one["advice"] for one in json.loads(done.stdout) if one["finding"] == "wrong"]
    if len(advice) != 1 or "leave the user out of the address" not in (advice[0] or ""):
        raise Failure(f"doctor {address}: {done.returncode} {done.stdout}")


def the_doctor_names_other_versions(stage):
    """A leader and a waiting contender of a later version; a pooler's sessions cannot be told apart."""
    def versions():
        done = subprocess.run([stage.program, "doctor", "--via", stage.address, "--json", "--lease", "60s"],
                              env=stage.environment, capture_output=True, text=True, timeout=LIMIT,
                              check=False)
        if done.returncode != 0:
            raise Failure(f"doctor: {done.returncode} {done.stdout} {done.stderr}")
        return [one["what"] for one in json.loads(done.stdout)
                if one["check"] == "contenders" and stage.name in one["what"]]

    own = subprocess.run([stage.program, "--version"], capture_output=True, text=True,
                         check=True).stdout.split()[1]
    later = str(pathlib.Path(stage.program).parent / "tests" / "conclave_next")
    stage.environment["CONCLAVE_MODULES"] = str(pathlib.Path(stage.program).parent)
    stage.spawn(command=["sleep", "1000"])
    await_that(lambda: told(stage).get("leader") == "n0", "a leader")
    if versions():
        raise Failure(f"none of another version is there: {versions()}")
    same, stage.program = stage.program, later
    stage.spawn(command=["sleep", "1000"])
    stage.program = same
    waiting = [] if stage.kind == "pooler" else [("n1", "99.1.0")]
    await_that(lambda: [(one["node"], one["version"]) for one in told(stage)["waiting"]] == waiting,
               "the later version waits")
    wanted = [f"contender n1 of '{stage.name}' runs 99.1.0; this is {own}"] if waiting else []
    if versions() != wanted or told(stage)["leader_version"] != own:
        raise Failure(f"doctor says {versions()}, status {told(stage)}")
    stage.process["n0"].send_signal(signal.SIGTERM)
    await_that(lambda: told(stage).get("leader") == "n1", "the later version leads")
    if versions() != [f"leader n1 of '{stage.name}' runs 99.1.0; this is {own}"]:
        raise Failure(f"doctor says {versions()}, status {told(stage)}")


def exit_statuses(stage):
    def status(*options, command):
        node = stage.spawn(command=command, options=options)
        return stage.process[node].wait(timeout=LIMIT)
    for command, expected in ((["true"], 0), (["sh", "-c", "exit 7"], 7),
                              (["sh", "-c", "kill -9 $$"], 137), (["no-such-command"], 127),
                              (["/etc/passwd"], 126)):
        found = status(command=command)
        if found != expected:
            raise Failure(f"{command}: exit status {found}, not {expected}")
    stage.spawn()
    stage.await_start()
    for options, expected in ((["-n"], 1), (["-n", "-E", "42"], 42), (["-w", "0.1"], 1)):
        found = status(*options, command=["true"])
        if found != expected:
            raise Failure(f"{options}: exit status {found}, not {expected}")


def a_period_is_run_once(stage):
    """Three start together, one later, and all again in the next period under another name."""
    job = ["sh", "-c", f'echo "ran $CONCLAVE_NODE $CONCLAVE_TOKEN" >>{stage.log}']
    every = ["--every", "1d"]
    nodes = [stage.spawn(command=job, options=every) for _ in range(3)]
    found = [stage.process[node].wait(timeout=LIMIT) for node in nodes]
    later = stage.spawn(command=job, options=every)
    found.append(stage.process[later].wait(timeout=LIMIT))
    if found != [0, 0, 0, 0] or len(stage.lines("ran")) != 1:
        raise Failure(f"exit statuses {found}, runs {stage.lines('ran')}")
    if "is done" not in (stage.folder / f"{later}.err").read_text():
        raise Failure("the later one does not say why it does nothing")
    _, node, token = stage.lines("ran")[0]
    history = stage.conclave("history", "--json")
    runs = [row for row in json.loads(history.stdout) if "period_unix_s" in row]
    if len(runs) != 1 or (runs[0]["node"], runs[0]["token"], runs[0]["status"]) != (node, int(token), 0):
        raise Failure(f"history says {history.stdout}")
    led = [row for row in json.loads(history.stdout) if "period_unix_s" not in row]
    if {row["why"] for row in led} != {"finished"} or any(row["to_unix_s"] < row["from_unix_s"] for row in led):
        raise Failure(f"those that found it done resigned, or ended before they began: {led}")


def a_job_whose_runner_is_killed_is_run_by_another(stage):
    """The first run never ends by itself; a later run finds its mark and ends at once."""
    job = ["sh", "-c", f"""mkdir {stage.folder}/first 2>/dev/null; is_first=$?
        echo "ran $CONCLAVE_NODE $CONCLAVE_TOKEN" >>{stage.log}
        if [ $is_first = 0 ]; then sleep 1000; fi"""]
    nodes = [stage.spawn(command=job, options=["--every", "1d"]) for _ in range(3)]
    await_that(lambda: stage.lines("ran"), "a run")
    runner = stage.lines("ran")[0][1]
    stage.process[runner].kill()
    found = [stage.process[node].wait(timeout=LIMIT) for node in nodes if node != runner]
    runs = stage.lines("ran")
    if found != [0, 0] or len(runs) != 2 or runs[1][1] == runner:
        raise Failure(f"exit statuses {found}, runs {runs}")


def a_failed_job_is_tried_again_by_the_next_leader(stage):
    job = ["sh", "-c", f'echo "ran $CONCLAVE_NODE $CONCLAVE_TOKEN" >>{stage.log}; exit 7']
    nodes = [stage.spawn(command=job, options=["--every", "1d", "--retry", "1"]) for _ in range(2)]
    found = sorted(stage.process[node].wait(timeout=LIMIT) for node in nodes)
    runs = stage.lines("ran")
    if len(runs) != 2 or len({run[2] for run in runs}) != 2 or found not in ([1, 7], [7, 7]):
        raise Failure(f"exit statuses {found}, runs {runs}")
    late = stage.spawn(command=job, options=["--every", "1d", "--retry", "1", "-E", "42"])
    if stage.process[late].wait(timeout=LIMIT) != 42 or len(stage.lines("ran")) != 2:
        raise Failure("a job that failed as often as allowed was tried again")


def a_job_that_was_hung_up_is_run_again_unless_it_failed_later(stage):
    """SIGHUP ends the first one. The second one only notes it, and fails for its own reasons."""
    job = ["sh", "-c", f"""echo "ran $CONCLAVE_NODE $CONCLAVE_TOKEN" >>{stage.log}
        if mkdir {stage.folder}/first 2>/dev/null; then sleep 1000; fi
        trap 'exit 3' HUP; echo "ready $CONCLAVE_NODE" >>{stage.log}; while :; do sleep 0.05; done"""]
    options = ["--every", "1d", "--retry", "0"]
    for expected, is_ready in ((129, (stage.folder / "first").exists), (3, lambda: stage.lines("ready"))):
        node = stage.spawn(command=job, options=options)
        await_that(is_ready, "a run")
        stage.process[node].send_signal(signal.SIGHUP)
        found = stage.process[node].wait(timeout=LIMIT)
        if found != expected:
            raise Failure(f"exit status {found}, not {expected}")
    late = stage.spawn(command=job, options=options)
    found = stage.process[late].wait(timeout=LIMIT)
    if found != 1 or len(stage.lines("ran")) != 2:
        raise Failure(f"exit status {found}, runs {stage.lines('ran')}")


def a_job_that_survives_being_hung_up_and_fails_is_tried_again(stage):
    """As without SIGHUP: by the same contender, if no other one waits."""
    job = ["sh", "-c", f"""echo "ran $CONCLAVE_NODE $CONCLAVE_TOKEN" >>{stage.log}
        mkdir {stage.folder}/first 2>/dev/null || exit 0
        trap 'exit 3' HUP; echo "ready $CONCLAVE_NODE" >>{stage.log}; while :; do sleep 0.05; done"""]
    node = stage.spawn(command=job, options=["--every", "1d"])
    await_that(lambda: stage.lines("ready"), "a run")
    stage.process[node].send_signal(signal.SIGHUP)
    found = stage.process[node].wait(timeout=LIMIT)
    if found != 0 or len(stage.lines("ran")) != 2:
        raise Failure(f"exit status {found}, runs {stage.lines('ran')}")


def hooks_hear_of_a_failed_job_before_the_next_leader_ends(stage):
    mark = stage.folder / "heard"
    hook = f'echo "hook $CONCLAVE_NODE $CONCLAVE_TOKEN $CONCLAVE_ROLE $CONCLAVE_REASON" >>{stage.log}'
    job = ["sh", "-c", f"""echo "ran $CONCLAVE_NODE $CONCLAVE_TOKEN" >>{stage.log}
        if mkdir {stage.folder}/first 2>/dev/null; then exit 7; fi
        while [ ! -e {mark} ]; do sleep 0.05; done"""]
    pipes = {}
    for node in ("one", "two"):
        path = stage.folder / f"fifo.{node}"
        options = ["--every", "1d", "--on-lost", hook, "--fifo", str(path)]
        pipes[stage.spawn(command=job, options=options)] = path
    files = {}
    for node, path in pipes.items():
        await_that(path.exists, "the pipe")
        files[node] = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    await_that(lambda: len(stage.lines("ran")) == 2, "the second try")
    _, loser, token = stage.lines("ran")[0]
    await_that(lambda: ["hook", loser, token, "BACKUP", "finished"] in stage.lines("hook"), "the hook of the first")
    told = os.read(files[loser], 4096).decode()
    if not told.endswith(" BACKUP 100\n"):
        raise Failure(f"the pipe says {told}")
    mark.touch()
    found = {stage.process[node].wait(timeout=LIMIT) for node in pipes}
    for fd in files.values():
        os.close(fd)
    if found != {0}:
        raise Failure(f"exit statuses {found}")


def at_most_once_is_not_repeated_when_the_runner_died(stage):
    job = ["sh", "-c", f'echo "ran $CONCLAVE_NODE $CONCLAVE_TOKEN" >>{stage.log}; sleep 1000']
    options = ["--every", "1d", "--at-most-once"]
    first = stage.spawn(command=job, options=options)
    await_that(lambda: stage.lines("ran"), "a run")
    second = stage.spawn(command=job, options=options)
    stage.process[first].kill()
    found = stage.process[second].wait(timeout=LIMIT)
    told = (stage.folder / f"{second}.err").read_text()
    if found != 124 or len(stage.lines("ran")) != 1 or "did not end" not in told:
        raise Failure(f"exit status {found}, runs {stage.lines('ran')}, said: {told}")


def at_most_once_records_the_status_of_a_run_that_was_told_to_end(stage):
    job = ["sh", "-c", f"""trap 'exit 9' TERM; echo "ran $CONCLAVE_NODE $CONCLAVE_TOKEN" >>{stage.log}
        while :; do sleep 0.05; done"""]
    options = ["--every", "1d", "--at-most-once"]
    first = stage.spawn(command=job, options=options)
    await_that(lambda: stage.lines("ran"), "a run")
    stage.process[first].terminate()
    ended = stage.process[first].wait(timeout=LIMIT)
    second = stage.spawn(command=job, options=options)
    found = stage.process[second].wait(timeout=LIMIT)
    told = (stage.folder / f"{second}.err").read_text()
    if (ended, found) != (9, 1) or len(stage.lines("ran")) != 1 or "failed with status 9" not in told:
        raise Failure(f"exit statuses {ended}, {found}, runs {stage.lines('ran')}, said: {told}")


def a_runner_that_was_replaced_cannot_record_its_run(stage):
    """The first runner is stopped as a whole: another one runs the job, and the first one learns of that."""
    mark = stage.folder / "go"
    job = ["sh", "-c", f"""echo "ran $CONCLAVE_NODE $CONCLAVE_TOKEN" >>{stage.log}
        if mkdir {stage.folder}/first 2>/dev/null; then
            trap '' TERM; while [ ! -e {mark} ]; do sleep 0.05; done; fi"""]
    first = stage.spawn(command=job, options=["--every", "1d", "--once"])
    await_that(lambda: stage.lines("ran"), "a run")
    stage.stop(stage.process[first].pid)
    second = stage.spawn(command=job, options=["--every", "1d"])
    if stage.process[second].wait(timeout=LIMIT) != 0:
        raise Failure("nobody ran it instead")
    mark.touch()
    os.kill(stage.process[first].pid, signal.SIGCONT)
    found = stage.process[first].wait(timeout=LIMIT)
    runs = [row for row in json.loads(stage.conclave("history", "--json").stdout)
            if "period_unix_s" in row]
    if found != 124 or [run["node"] for run in runs] != [second]:
        raise Failure(f"the one that was replaced ended with {found}; runs {runs}")


def the_promises_of_explain_are_kept(stage):
    """Outages and pauses a little shorter than those that are tolerated; then one that is too long,
    and a crash. (tests/system/test_run_cli.sh does this on a file.)"""
    lease, grace = "5s", "0.2s" if stage.kind == "zookeeper" else "1.5s"
    said = subprocess.run([stage.program, "explain", stage.address, "--lease", lease, "--grace", grace, "--json"],
                          capture_output=True, check=True).stdout
    promised = json.loads(said)
    stopped, started = stage.folder / "stopped", stage.folder / "started"
    stopped.touch()
    started.touch()
    command = ["sh", "-c", f"""trap 'date +%s.%N >>{stopped}; exit 0' TERM
        echo "$CONCLAVE_LEASE_FILE" >{stage.folder}/lease-file
        date +%s.%N >>{started}; while :; do sleep 0.02; done"""]
    options = ["--lease", lease, "--grace", grace]

    def times(path):
        return [float(line) for line in path.read_text().split("\n")[:-1]]

    def left():
        path = (stage.folder / "lease-file").read_text().strip()
        done = subprocess.run([stage.program, "check-lease", "--json"], check=False, capture_output=True,
                              env=dict(stage.environment, CONCLAVE_LEASE_FILE=path))
        return json.loads(done.stdout)["remaining_s"] if done.returncode == 0 else 0

    def renewal_is_due():
        """Waits for the worst moment: a renewal has been seen, and the next one is due soon."""
        before = left()
        def is_more():
            nonlocal before
            before, last = left(), before
            return before > last
        await_that(is_more, "a renewal")
        renew = promised["grant_s"] - promised["run_pause_tolerated_s"] - promised["run_grace_s"]
        await_that(lambda: left() < promised["grant_s"] - 0.8 * renew, "a renewal to be due")

    with Relay(stage) as relay:
        direct, stage.address = stage.address, relay.address
        first = stage.spawn(command=command, options=options)
        stage.address = direct
        await_that(lambda: times(started), "the command")
        for _ in range(2):
            renewal_is_due()
            relay.tell("swallow")
            time.sleep(0.8 * promised["run_outage_tolerated_s"])
            relay.tell("heal")
            renewal_is_due()
            os.kill(stage.process[first].pid, signal.SIGSTOP)
            time.sleep(0.8 * promised["run_pause_tolerated_s"])
            os.kill(stage.process[first].pid, signal.SIGCONT)
        renewal_is_due()
        if times(stopped) or len(times(started)) != 1:
            raise Failure(f"{promised}: stopped at {times(stopped)}, started at {times(started)}")
        relay.tell("swallow")
        begin = time.time()
        await_that(lambda: times(stopped), "the end of the command in a long outage")
        relay.tell("heal")
        after = times(stopped)[0] - begin
        if not promised["run_pause_tolerated_s"] - 0.1 < after < promised["grant_s"]:
            raise Failure(f"{promised}: stopped {after} s after an outage began")

        stage.spawn(command=command, options=options)
        second = stage.spawn(command=command, options=options)
        await_that(lambda: told(stage).get("leader") and told(stage)["waiting"], "a leader, and one that waits")
        await_that(lambda: len(times(started)) == 2, "the command runs")
        leader = told(stage)["leader"]
        begin = time.time()
        stage.process[leader].kill()
        await_that(lambda: len(times(started)) == 3, "the other one's command")
        if times(started)[2] - begin > promised["crash_takeover_max_s"]:
            raise Failure(f"{promised}: taken over after {times(started)[2] - begin} s, {second} waits")


TESTS = [exclusive_among_twenty, supervisor_killed, supervisor_stopped, guard_killed,
         guard_stopped_then_supervisor_killed, child_killed, child_stopped_then_supervisor_killed,
         grandchild_killed_then_supervisor_killed, killed_again_and_again,
         leases_of_different_lengths, resigns_to_a_named_node, resigns_to_a_node_with_letters_of_another_alphabet,
         resign_says_that_the_heir_does_not_lead, resignations_in_a_row,
         status_history_and_watch, exit_statuses, a_period_is_run_once,
         a_job_whose_runner_is_killed_is_run_by_another,
         a_failed_job_is_tried_again_by_the_next_leader, a_job_that_was_hung_up_is_run_again_unless_it_failed_later,
         a_job_that_survives_being_hung_up_and_fails_is_tried_again,
         hooks_hear_of_a_failed_job_before_the_next_leader_ends,
         at_most_once_is_not_repeated_when_the_runner_died,
         at_most_once_records_the_status_of_a_run_that_was_told_to_end,
         status_names_the_waiting_contenders, a_contender_that_led_waits_since_its_leadership_ended,
         an_absent_heir_disturbs_nobody, an_heir_that_leads_as_soon_as_it_comes_leads_already, resigns_there_and_back,
         names_are_listed_and_forgotten,
         commands_wait_for_a_slow_server, watch_says_first_that_nobody_leads,
         a_late_watcher_says_once_why_nobody_leads,
         the_doctor_finds_nothing_wrong, a_lease_that_the_servers_cut_is_reported, the_doctor_says_what_tls_needs,
         the_doctor_knows_missing_rights, the_doctor_knows_tables_of_an_older_version, the_doctor_knows_servers_without_users, the_doctor_names_other_versions,
         a_stopped_leader_ends_in_the_history_before_the_next,
         a_runner_that_was_replaced_cannot_record_its_run, others_hear_that_the_command_ended,
         others_hear_that_the_command_ended_before_another_began, others_hear_that_the_leader_resigned,
         others_hear_that_the_work_of_the_leader_was_stuck,
         others_do_not_hear_more_of_a_killed_leader_than_is_known,
         others_do_not_hear_more_of_a_stopped_leader_than_is_known, an_outage_is_not_reported_as_something_else,
         an_outage_does_not_explain_the_end_of_the_next_leadership, a_stopped_leader_does_not_blame_the_store,
         a_watcher_that_slept_does_not_report_the_reason_of_another_leadership,
         a_watcher_that_is_cut_off_does_not_say_that_nobody_leads,
         history_says_how_a_run_ended_that_nobody_asked_to_end,
         status_says_that_the_leader_was_asked_to_resign, status_says_who_led_last_while_nobody_leads,
         a_leader_that_leads_again_has_not_handed_over, a_leader_that_leads_again_after_another_has_handed_over, a_killed_contender_is_not_reported_as_the_next_leader,
         the_leader_is_not_asked_to_resign_in_favour_of_itself, the_promises_of_explain_are_kept]


# Tests that need neither a store nor contenders with names of their own: how many members they have, and a lease in
# milliseconds, which is long where no other may lead for a while.
AMONG_PEERS = {test: (3, 600) for test in TESTS[:TESTS.index(leases_of_different_lengths)]}
AMONG_PEERS.update({exclusive_among_twenty: (20, 3000), resigns_to_a_named_node: (4, 2000),
                    superseded_by_a_lower_id_that_comes_back: (3, 1500, "local")})


def stage_of(test, program, kind, address, folder):
    if kind == "peers":
        return Members(program, kind, folder, test.__name__, *AMONG_PEERS[test])
    return Stage(program, kind, address, folder, test.__name__)


def address_of(kind, folder):
    if kind == "sqlite":
        return f"sqlite:{folder}/elections.db"
    return os.environ[f"CV_TEST_{kind.upper()}"]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program = str(pathlib.Path(sys.argv[1]).resolve())
    only = os.environ.get("CV_TEST_ONLY", "")
    folder = tempfile.mkdtemp(prefix="conclave-run-")
    address = ""
    if sys.argv[2] != "peers":
        address = address_of(sys.argv[2], folder)
        subprocess.run([program, "store", "init", address], check=True, stdout=subprocess.DEVNULL)
    failed = number = 0
    for test in TESTS if sys.argv[2] != "peers" else AMONG_PEERS:
        if only not in test.__name__ or (test is resignations_in_a_row and sys.argv[2] == "pooler"):
            continue  # there are no notifications through a pooler: contenders ask only a few times per lease
        if test in (the_promises_of_explain_are_kept, a_watcher_that_is_cut_off_does_not_say_that_nobody_leads,
                    commands_wait_for_a_slow_server) and sys.argv[2] in ("sqlite", "pooler"):
            continue  # there are no servers to cut off, or they are PostgreSQL again
        if test is the_doctor_says_what_tls_needs and sys.argv[2] != "etcd":
            continue
        if test is a_lease_that_the_servers_cut_is_reported and sys.argv[2] != "zookeeper":
            continue
        number += 1
        name = test.__name__.replace("_", " ")
        try:
            with stage_of(test, program, sys.argv[2], address, folder) as stage:
                test(stage)
                stage.check()
            print(f"ok {number} - {name}", flush=True)
        except (Failure, subprocess.TimeoutExpired) as failure:
            failed += 1
            print(f"not ok {number} - {name}", flush=True)
            for line in str(failure).splitlines():
                print(f"# {line}", flush=True)
    print(f"1..{number}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
