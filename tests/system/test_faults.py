#!/usr/bin/env python3
"""tests/system/test_faults.py CONCLAVE WORKER STALL SCARCE - `conclave run` when the machine misbehaves.

A disk stalls, the wall clock is set, a machine stops just between the question "do I lead?" and the action
(traps.md T7, T4 and T2), and no process, thread or descriptor is available. STALL and SCARCE (tests/chaos/stall.c,
scarce.c) are preloaded, WORKER (tests/chaos/worker.c) notes the time every millisecond. Speaks TAP. Waits for
conditions with generous limits and judges no speed."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from points import await_value  # pylint: disable=wrong-import-position

LIMIT = 60   # seconds; only a failure takes so long
LEASE_S = 1.0
NOTE = struct.Struct("=Q7q")
CONCLAVE, WORKER, STALL, SCARCE = sys.argv[1:5]
SCARCITY = struct.Struct("=3q")  # until when (ns), which start fails, how many starts there were


class Failure(Exception):
    pass


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def await_that(condition, what):
    value = await_value(condition, LIMIT)
    if value is None:
        raise Failure(f"not within {LIMIT} s: {what}")
    return value


class Contender:
    """One `conclave run`, with a disk and a wall clock of its own."""

    def __init__(self, stage, name, *command):
        self.switch = stage.work / f"{name}.faults"
        self.switch.write_bytes(bytes(16))
        self.scarce = stage.work / f"{name}.scarce"
        self.scarce.write_bytes(bytes(SCARCITY.size))
        env = dict(stage.env, CV_CHAOS_STALL=str(self.switch), CV_CHAOS_SCARCE=str(self.scarce),
                   LD_PRELOAD=f"{STALL}:{SCARCE}")
        self.log = stage.work / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [CONCLAVE, "run", "job", "--via", f"sqlite:{stage.work}/e.db", "--node", name,
                 "--lease", f"{LEASE_S}s", "--grace", "200ms", "--",
                 *(command or (WORKER, str(stage.notes)))],
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stall_disk(self, seconds):
        """Returns when it begins."""
        begin_ns = boot_ns()
        with open(self.switch, "r+b") as file:
            file.write(struct.pack("=q", begin_ns + int(seconds * 1e9)))
        return boot_ns()

    def run_out_of_processes(self, seconds):
        with open(self.scarce, "r+b") as file:
            file.write(struct.pack("=q", boot_ns() + int(seconds * 1e9)))

    def set_wall_clock(self, seconds):
        with open(self.switch, "r+b") as file:
            file.seek(8)
            file.write(struct.pack("=q", int(seconds * 1e9)))

    def check_alive(self):
        if self.process.poll() is not None:
            raise Failure(f"it ended with status {self.process.returncode}: {self.log.read_text()}")


class Stage:
    def __init__(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="conclave-faults-"))
        self.notes = self.work / "notes"
        self.notes.mkdir()
        self.contenders = []
        self.env = dict(os.environ, XDG_RUNTIME_DIR=str(self.work), CONCLAVE_STATE=str(self.work), CONCLAVE=CONCLAVE)

    def start(self, name, *command):
        contender = Contender(self, name, *command)
        self.contenders.append(contender)
        return contender

    def leaderships(self):
        """token: (first, last) of all its processes."""
        found = {}
        for path in self.notes.iterdir():
            data = path.read_bytes()
            if len(data) == NOTE.size:
                token, _, _, _, first, last, _, overlap_pid = NOTE.unpack(data)
                if overlap_pid:
                    raise Failure(f"process {overlap_pid} lived when token {token} began")
                if first:
                    known = found.get(token, (first, last))
                    found[token] = min(known[0], first), max(known[1], last)
        return found

    def await_token(self, above=0):
        return await_that(lambda: max((t for t in self.leaderships() if t > above), default=0),
                          f"a leader with a token above {above}")

    def await_waiting(self, *names):
        """Until they do: a contender that is still opening the file gives up if a disk stalls for long."""
        def waits():
            said = subprocess.run([CONCLAVE, "status", "job", "--json", "--via", f"sqlite:{self.work}/e.db"], env=self.env,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False)
            return said.returncode == 0 and set(names) <= {one["node"] for one in json.loads(said.stdout)["waiting"]}
        await_that(waits, f"that {names} wait")

    def end(self):
        for contender in self.contenders:
            contender.stall_disk(0)
            contender.run_out_of_processes(0)
            with contextlib.suppress(ProcessLookupError):
                contender.process.send_signal(signal.SIGCONT)
                contender.process.terminate()
        for contender in self.contenders:
            contender.process.wait(LIMIT)
        shutil.rmtree(self.work, ignore_errors=True)


def a_leader_whose_disk_stalls_stops_in_time(stage):  # T7
    leader = stage.start("a")
    token = stage.await_token()
    waiting = stage.start("b")
    stage.await_waiting("b")
    begin_ns = leader.stall_disk(3 * LEASE_S)
    # Its lease was requested before the disk stalled: no process of its command may run beyond it.
    deadline_ns = begin_ns + int(LEASE_S * 1e9)
    await_that(lambda: boot_ns() > deadline_ns + 300_000_000, "the end of the lease")
    last_ns = stage.leaderships()[token][1]
    if last_ns > deadline_ns:
        raise Failure(f"it ran {(last_ns - deadline_ns) / 1e6:.1f} ms beyond its lease")
    leader.check_alive()
    waiting.check_alive()
    later = stage.await_token(above=token)
    if stage.leaderships()[later][0] <= last_ns:
        raise Failure("two led at once")
    leader.check_alive()
    waiting.check_alive()


def everybodys_disk_stalls_and_nobody_aborts(stage):  # T7
    leader = stage.start("a")
    token = stage.await_token()
    contenders = [leader, stage.start("b"), stage.start("c")]
    stage.await_waiting("b", "c")
    for contender in contenders:
        contender.stall_disk(3 * LEASE_S)
    stage.await_token(above=token)
    for contender in contenders:
        contender.check_alive()


def a_wall_clock_that_is_set_changes_nothing(stage):  # T4
    leader = stage.start("a")
    token = stage.await_token()
    waiting = stage.start("b")
    for jump_s in (3600, -7200, 86400, 0):
        leader.set_wall_clock(jump_s)
        waiting.set_wall_clock(-jump_s)
        now_ns = boot_ns()
        await_that(lambda n=now_ns: stage.leaderships()[token][1] > n + int(0.7 * LEASE_S * 1e9),
                   f"that the leader goes on after a jump of {jump_s} s")
        leader.check_alive()
        waiting.check_alive()
    if len(stage.leaderships()) != 1:
        raise Failure("the leadership has changed")


# A worker that checks its lease, and then writes down what it is about to do. It does nothing more: its action is
# under way.
ASKS = """
"$CONCLAVE" check-lease && echo "$CONCLAVE_TOKEN" >>"$1"
while :; do sleep 1; done
"""


class Resource:
    """A resource that leaders write to; a fenced one compares tokens."""

    def __init__(self, path, is_fenced):
        self.db = sqlite3.connect(path)
        self.db.execute("CREATE TABLE resource (token INTEGER, value TEXT)")
        self.db.execute("INSERT INTO resource VALUES (0, '')")
        self.is_fenced = is_fenced

    def write(self, token, value):
        where = "WHERE token <= ?1" if self.is_fenced else "WHERE ?1 = ?1"
        done = self.db.execute(f"UPDATE resource SET token = ?1, value = ?2 {where}", (token, value))
        return done.rowcount == 1

    def value(self):
        return self.db.execute("SELECT value FROM resource").fetchone()[0]


def tree_of(pid):
    with contextlib.suppress(OSError):
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield from tree_of(int(child))
    yield pid


def a_pause_between_question_and_action_is_fenced(stage):  # T2
    asked = stage.work / "asked"
    command = ("sh", "-c", ASKS, "-", str(asked))

    def tokens():
        return [int(line) for line in asked.read_text().split()] if asked.exists() else []

    old = stage.start("a", *command)
    first = await_that(tokens, "the question")[0]
    # Right after the check the whole machine stops: supervisor, guard and command. The action of the command
    # is under way already. (On this store the next contender waits until they are gone.)
    for pid in list(tree_of(old.process.pid)):
        with contextlib.suppress(ProcessLookupError):  # a short-lived child of the command's
            os.kill(pid, signal.SIGKILL)
    stage.start("b", *command)
    second = await_that(lambda: [t for t in tokens() if t != first], "the next leader")[0]
    if second <= first:
        raise Failure(f"token {second} after {first}")
    fenced = Resource(stage.work / "fenced.db", is_fenced=True)
    open_to_all = Resource(stage.work / "open.db", is_fenced=False)
    for resource in (fenced, open_to_all):
        if not resource.write(second, "new"):
            raise Failure("the leader was refused")
    # The action of the first leader was under way all the time, and arrives now.
    if fenced.write(first, "old") or fenced.value() != "new":
        raise Failure("an action of an earlier leadership was accepted")
    if not open_to_all.write(first, "old") or open_to_all.value() != "old":
        raise Failure("the unfenced resource refused the old action: this test proves nothing")


def check_outcome(command, env, what, **more):
    """The command works, or says in one line why not; it is neither killed by a signal nor silent. True: it works."""
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False, **more)
    said = done.stdout.splitlines()
    is_said = len(said) == 1 and said[0].startswith("conclave: ")
    works = done.returncode == 0 or (command[1] == "status" and done.returncode == 1 and not is_said)
    if not works and (done.returncode not in (2, 125) or not is_said):
        raise Failure(f"{what}: status {done.returncode}, said {said}")
    return works


def commands(stage):
    via = f"sqlite:{stage.work}/e.db"
    return [[CONCLAVE, "run", "job", "--via", via, "-n", "--on-elected", ":", "--", "true"],
            [CONCLAVE, "run", "job", "--via", via, "--every", "1s", "--", "true"],
            [CONCLAVE, "status", "job", "--via", via],
            [CONCLAVE, "elect", "job", "--via", via, "--once"]]


def a_start_without_processes_or_threads_says_so(stage):
    switch = stage.work / "scarce"
    env = dict(stage.env, CV_CHAOS_SCARCE=str(switch), LD_PRELOAD=SCARCE)
    for command in commands(stage):
        failures, fail_at = 0, 1
        while True:
            switch.write_bytes(SCARCITY.pack(0, fail_at, 0))
            failures += not check_outcome(command, env, f"{command[1]}, beginning {fail_at} fails")
            if SCARCITY.unpack(switch.read_bytes())[2] < fail_at:
                break  # there are no more starts
            fail_at += 1
        if failures == 0:
            raise Failure(f"{command[1]}: no lack of processes made it fail")


def a_start_without_descriptors_says_so(stage):
    for command in commands(stage)[::2]:  # run, and a command without an engine
        works = [check_outcome(command, stage.env, f"{command[1]}, {limit} descriptors",
                               preexec_fn=lambda n=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
                 for limit in range(5, 31)]
        if works[0] or not works[-1]:
            raise Failure(f"{command[1]}: {works}")


def contenders_live_through_a_lack_of_processes(stage):
    led = stage.work / "led"
    # The command starts no process itself: that would fail and end the command.
    contenders = [stage.start(name, "sh", "-c", 'echo "$CONCLAVE_TOKEN" >>"$1"; exec sleep 1000', "-", str(led))
                  for name in "ab"]

    def tokens():
        return led.read_text().split() if led.exists() else []

    def is_waiting():
        status = subprocess.run([CONCLAVE, "status", "job", "--via", f"sqlite:{stage.work}/e.db"], env=stage.env,
                                stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False)
        return b"waiting: " in status.stdout

    await_that(tokens, "a leader")
    await_that(is_waiting, "the other one")  # it has started, too
    for contender in contenders:
        contender.run_out_of_processes(2 * LEASE_S)
    resigned = subprocess.run([CONCLAVE, "resign", "job", "--via", f"sqlite:{stage.work}/e.db"], env=stage.env,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False)
    if resigned.returncode != 0:
        raise Failure(f"resign: {resigned.stderr.decode()}")
    await_that(lambda: len(tokens()) > 1, "the next leader")
    for contender in contenders:
        contender.check_alive()


TESTS = [
    a_start_without_processes_or_threads_says_so,
    a_start_without_descriptors_says_so,
    contenders_live_through_a_lack_of_processes,
    a_leader_whose_disk_stalls_stops_in_time,
    everybodys_disk_stalls_and_nobody_aborts,
    a_wall_clock_that_is_set_changes_nothing,
    a_pause_between_question_and_action_is_fenced,
]


def main():
    tests = [test for test in TESTS if os.environ.get("CV_TEST_ONLY", "") in test.__name__]
    print(f"1..{len(tests)}")
    failed = 0
    for number, test in enumerate(tests, 1):
        stage = Stage()
        why = None
        try:
            test(stage)
        except Exception as failure:  # pylint: disable=broad-except
            why = str(failure) if isinstance(failure, Failure) else repr(failure)
        finally:
            stage.end()
        failed += why is not None
        print(f"{'not ' if why else ''}ok {number} - {test.__name__}", flush=True)
        if why:
            print(f"# {why}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
