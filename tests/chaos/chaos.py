#!/usr/bin/env python3
"""tests/chaos/chaos.py CONCLAVE WORKER STALL RELAY [--store KIND] [--seconds S] [--seed N] [--only WORD]
- `conclave run` under many faults, one after the other.

Five `conclave run` of one election, each ready to run WORKER (tests/chaos/worker.c), which notes the time
every millisecond. One fault at a time: a process is killed or stopped (supervisor, guard, command,
grandchild, a waiting contender), the leader is asked to resign, a disk stalls (STALL, preloaded), a connection
is delayed, silenced, refused or cut (RELAY), a server is killed or stopped. Then it waits for the next leader,
and goes on. One fault in eight is a double one: supervisor and guard together.

KIND is sqlite, or one that tools/with-servers has started: postgres, etcd, zookeeper.

Judged: no process of a leadership runs when a later one has begun; tokens grow, and each belongs to one
command; there is a leader within a bound after each fault; no process is left at the end; descriptors do not
pile up; no process dies by an assertion. A violation is a failure, except an overlap after a double fault, which is
only reported (docs/supervisor.md says for which stores it cannot be excluded). The same seed gives the same
faults, but not the same run. Exit status: 0 no violation, 1 there was one. Speaks TAP."""

import argparse
import contextlib
import ctypes
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from control_group import own_group  # pylint: disable=wrong-import-position

NODES = 5
LEASE_S = 1.0
LIVENESS_S = 30  # after a fault, on a busy machine
NOTE = struct.Struct("=Q7q")
PR_SET_CHILD_SUBREAPER = 36
ENDING = {"kill supervisor", "kill guard", "kill command", "terminate supervisor"}  # faults that end a leadership
ABORTS = {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, 134, 139, 135, 132}


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def stat_of(pid):
    """State and parent, or None."""
    try:
        rest = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
        return rest[0], int(rest[1])
    except (OSError, IndexError):
        return None


def parent_of(pid):
    stat = stat_of(pid)
    return stat[1] if stat is not None else 0


def is_worker(pid):
    with contextlib.suppress(OSError):
        stat = stat_of(pid)
        return stat is not None and stat[0] not in "ZX" and \
            pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("chaos_worker")
    return False


def send(pid, signo):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signo)


class Note:
    def __init__(self, data):
        (self.token, self.pid, self.role, _, self.first, self.last,
         self.overlap_token, self.overlap_pid) = NOTE.unpack(data)


class Chaos:
    def __init__(self, args):
        self.args = args
        self.random = random.Random(args.seed)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="conclave-chaos-"))
        self.notes = self.work / "notes"
        self.notes.mkdir()
        self.counts = {}
        self.violations, self.reports = [], []
        self.doubles = set()  # tokens of leaderships with a double fault
        self.ends = {}        # token: the last step that was seen; only of the last few tokens
        self.commands = {}    # token: pids of its commands
        self.leaderships = 0
        self.gap_s_max = 0.0
        self.exits = {}
        self.fds = {}
        self.contenders = [None] * NODES
        self.relays = [None] * NODES
        self.address = f"sqlite:{self.work}/e.db"
        if args.store != "sqlite":
            self.address = os.environ["CV_TEST_" + args.store.upper()]
        self.election = f"chaos{os.getpid()}"
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become children of this process, and are counted

    # ---- contenders

    def relay(self, index):
        """The address of the store, through a proxy of this contender's own."""
        ports = re.findall(r"127\.0\.0\.1:(\d+)", self.address)
        if self.args.store == "sqlite" or not ports:
            return self.address
        if self.relays[index] is None:
            relay = subprocess.Popen([self.args.relay, *ports], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
            self.relays[index] = relay, dict(zip(ports, relay.stdout.readline().split()))
        mapping = self.relays[index][1]
        return re.sub(r"127\.0\.0\.1:(\d+)", lambda m: "127.0.0.1:" + mapping[m.group(1)],
                      self.address)

    def tell_relays(self, indices, word):
        for index in indices:
            if self.relays[index] is not None:
                relay = self.relays[index][0]
                relay.stdin.write(word + "\n")
                relay.stdin.flush()

    def start(self, index):
        stall = self.work / f"stall.{index}"
        if not stall.exists():
            stall.write_bytes(bytes(8))
        env = dict(os.environ, CV_CHAOS_STALL=str(stall), LD_PRELOAD=self.args.stall,
                   XDG_RUNTIME_DIR=str(self.work), CONCLAVE_STATE=str(self.work))
        with open(self.work / f"log.{index}", "ab") as log:
            self.contenders[index] = subprocess.Popen(
                [self.args.conclave, "run", self.election, "--via", self.relay(index), "--init",
                 "--node", f"n{index}", "--lease", f"{LEASE_S}s", "--grace", "200ms", "--",
                 self.args.worker, str(self.notes)],
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.fds[index] = None

    def revive(self):
        """Restarts contenders that have ended, and reaps orphans."""
        for index, process in enumerate(self.contenders):
            if process is None or process.poll() is not None:
                if process is not None:
                    code = process.returncode
                    self.exits[code] = self.exits.get(code, 0) + 1
                    if code in ABORTS:
                        self.violation(f"n{index} ended without a fault, status {code}: "
                                       + self.last_words(index))
                self.start(index)
        known = {process.pid for process in self.contenders}
        known |= {relay[0].pid for relay in self.relays if relay is not None}
        with contextlib.suppress(OSError):
            mine = pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
            for pid in map(int, mine.split()):
                stat = stat_of(pid)
                if pid not in known and stat is not None and stat[0] == "Z":
                    os.waitpid(pid, os.WNOHANG)

    def last_words(self, index):
        return (self.work / f"log.{index}").read_text(errors="replace")[-300:].strip()

    # ---- who leads

    def read_notes(self):
        found = []
        for path in self.notes.iterdir():
            with contextlib.suppress(OSError):
                data = path.read_bytes()
                if len(data) == NOTE.size:
                    note = Note(data)
                    if note.first:
                        found.append(note)
        return found

    def leader(self):
        """(token, command, guard, supervisor, index, orphan) of the leader whose command works, or None."""
        notes = self.read_notes()
        for note in sorted(notes, key=lambda note: -note.token):
            if note.role != 0 or not is_worker(note.pid):
                continue
            if boot_ns() - note.last > 500_000_000:
                continue
            guard = parent_of(note.pid)
            supervisor = parent_of(guard)
            for index, process in enumerate(self.contenders):
                if process is not None and process.pid == supervisor and process.poll() is None:
                    orphan = [n.pid for n in notes if n.token == note.token and n.role == 2]
                    if orphan:
                        return note.token, note.pid, guard, supervisor, index, orphan[0]
        return None

    def await_leader(self, after):
        begin = time.monotonic()
        while time.monotonic() < begin + LIVENESS_S:
            self.revive()
            leader = self.leader()
            if leader is not None:
                self.gap_s_max = max(self.gap_s_max, time.monotonic() - begin)
                return leader
            time.sleep(0.01)
        self.violation(f"nobody leads {LIVENESS_S} s after '{after}'")
        self.tell_processes()
        return None

    def await_end(self, command, after):
        """On a busy machine a killed leader still looks alive for a while: the next fault must not
        hit the rest of it, or two faults would count as one."""
        begin = time.monotonic()
        while is_worker(command):
            if time.monotonic() > begin + LIVENESS_S:
                self.violation(f"process {command} lives {LIVENESS_S} s after '{after}'")
                self.tell_processes()
                return
            time.sleep(0.001)

    def tell_processes(self):
        """Prints the tree of live processes: a violation can be traced only while they live."""
        def line(pid):
            with contextlib.suppress(OSError):
                comm = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
                where = pathlib.Path(f"/proc/{pid}/wchan").read_text().strip()
                return f"{pid} ({comm}) {stat_of(pid)} {where}"
            return f"{pid} is gone"

        for index, process in enumerate(self.contenders):
            print(f"#   n{index}: {line(process.pid)}", flush=True)
            for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
                if parent_of(pid) == process.pid or parent_of(parent_of(pid)) == process.pid:
                    print(f"#       {line(pid)}", flush=True)
        for note in self.read_notes():
            print(f"#   token {note.token}, role {note.role}: {line(note.pid)}, "
                  f"began {(boot_ns() - note.first) / 1e9:.3f} s ago, "
                  f"last seen {(boot_ns() - note.last) / 1e9:.3f} s ago", flush=True)

    # ---- the judge

    def violation(self, text):
        self.violations.append(text)
        print("# VIOLATION: " + text, flush=True)

    def overlap(self, earlier, later, text):
        if earlier in self.doubles:
            self.reports.append(text)
            print("# after a double fault: " + text, flush=True)
        else:
            self.violation(text)

    def judge(self, is_last=False):
        """Judges all noted leaderships, and forgets older ones that cannot change any more."""
        notes = self.read_notes()
        begins, ends = {}, {}
        for note in notes:
            begins[note.token] = min(begins.get(note.token, note.first), note.first)
            ends[note.token] = max(ends.get(note.token, 0), note.last)
            if note.overlap_pid:
                text = f"process {note.overlap_pid} of token {note.overlap_token} lived " \
                       f"when token {note.token} began"
                if text not in self.violations and text not in self.reports:
                    self.overlap(note.overlap_token, note.token, text)
            if note.role == 0:
                self.commands.setdefault(note.token, set()).add(note.pid)
                if len(self.commands[note.token]) == 2:
                    self.violation(f"token {note.token} has two commands")
        tokens = sorted(begins)
        for earlier, later in zip(tokens, tokens[1:]):
            late_ms = (ends[earlier] - begins[later]) / 1e6
            if late_ms > 0:
                known = f"token {earlier} ran "
                if not any(text.startswith(known) for text in self.violations + self.reports):
                    self.overlap(earlier, later, known + f"{late_ms:.3f} ms into token {later}")
            if begins[later] < begins[earlier]:
                self.violation(f"token {later} began before token {earlier}")
        forget = tokens if is_last else tokens[:-3]
        for note in notes:
            if note.token in forget and not is_worker(note.pid):
                with contextlib.suppress(OSError):
                    (self.notes / f"{note.token:020}.{note.pid}").unlink()
        self.leaderships = max(self.leaderships, len(self.commands))

    def watch_descriptors(self):
        for index, process in enumerate(self.contenders):
            with contextlib.suppress(OSError):
                count = len(os.listdir(f"/proc/{process.pid}/fd"))
                lowest = self.fds[index]
                self.fds[index] = count if lowest is None else min(lowest, count)
                if count > self.fds[index] + 40:
                    self.violation(f"n{index} has {count} descriptors, and had {self.fds[index]}")
                    self.fds[index] = count

    # ---- faults

    def pause(self, low, high):
        time.sleep(self.random.uniform(low, high))

    def stop_for_a_while(self, pid):
        send(pid, signal.SIGSTOP)
        self.pause(0.05, 2.5 * LEASE_S)
        send(pid, signal.SIGCONT)

    def waiting(self, leader):
        index = self.random.choice([i for i in range(NODES) if i != leader[4]])
        return self.contenders[index].pid

    def stall(self, indices):
        until = boot_ns() + int(self.random.uniform(0.05, 2.5 * LEASE_S) * 1e9)
        for index in indices:
            with open(self.work / f"stall.{index}", "r+b") as file:
                file.write(struct.pack("=q", until))
        while boot_ns() < until:
            time.sleep(0.01)

    def network(self, indices, word):
        self.tell_relays(indices, word)
        self.pause(0.1, 2.5 * LEASE_S)
        self.tell_relays(indices, "heal")

    def server(self, what):
        count = 1 if self.args.store == "postgres" else 3
        number = str(self.random.randint(1, count))
        undo = {"kill": "start", "freeze": "thaw"}[what]
        self.control(what, number)
        self.pause(0.1, 2.5 * LEASE_S)
        self.control(undo, number)

    def control(self, *words):
        subprocess.run([os.environ["CV_TEST_SERVERS_CTL"], self.args.store, *words],
                       stdout=subprocess.DEVNULL, check=False, timeout=120)

    def faults(self):
        resign = [self.args.conclave, "resign", self.election, "--via", self.address]
        everybody = range(NODES)
        table = {
            "kill supervisor": lambda l: send(l[3], signal.SIGKILL),
            "kill guard": lambda l: send(l[2], signal.SIGKILL),
            "kill command": lambda l: send(l[1], signal.SIGKILL),
            "kill grandchild": lambda l: send(l[5], signal.SIGKILL),
            "terminate supervisor": lambda l: send(l[3], signal.SIGTERM),
            "stop supervisor": lambda l: self.stop_for_a_while(l[3]),
            "stop guard": lambda l: self.stop_for_a_while(l[2]),
            "stop command": lambda l: self.stop_for_a_while(l[1]),
            "stop grandchild": lambda l: self.stop_for_a_while(l[5]),
            "kill waiting": lambda l: send(self.waiting(l), signal.SIGKILL),
            "stop waiting": lambda l: self.stop_for_a_while(self.waiting(l)),
            "resign": lambda l: subprocess.run(resign, stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL, check=False, timeout=60),
        }
        if self.args.store == "sqlite":
            table["stall disk of leader"] = lambda l: self.stall([l[4]])
            table["stall all disks"] = lambda l: self.stall(everybody)
        else:
            for word in ("delay 300", "swallow", "refuse", "cut"):
                table[f"{word}: leader"] = lambda l, word=word: self.network([l[4]], word)
                table[f"{word}: all"] = lambda l, word=word: self.network(everybody, word)
            table["kill server"] = lambda l: self.server("kill")
            table["freeze server"] = lambda l: self.server("freeze")
        return table

    def double_faults(self):
        def stop_and_kill(first, second, gap_s):
            send(first, signal.SIGSTOP)
            time.sleep(gap_s)
            send(second, signal.SIGKILL)
            self.pause(0.1, 2 * LEASE_S)
            send(first, signal.SIGCONT)

        def stop_both(leader):
            send(leader[2], signal.SIGSTOP)
            send(leader[3], signal.SIGSTOP)
            send(leader[2], signal.SIGSTOP)
            self.pause(0.1, 2.5 * LEASE_S)
            send(leader[3], signal.SIGCONT)
            send(leader[2], signal.SIGCONT)

        def kill_both(leader):
            send(leader[3], signal.SIGKILL)
            send(leader[2], signal.SIGKILL)

        return {
            "kill supervisor and guard": kill_both,
            "stop supervisor, kill guard": lambda l: stop_and_kill(l[3], l[2], 0),
            "stop guard, kill supervisor": lambda l: stop_and_kill(l[2], l[3], 0.1),
            "stop supervisor and guard": stop_both,
        }

    def strays(self):
        """Processes of a leadership without supervisor and guard: only this test ends them."""
        for note in self.read_notes():
            stat = stat_of(note.pid)
            if stat is not None and stat[1] == os.getpid() and is_worker(note.pid):
                self.counts["strays ended"] = self.counts.get("strays ended", 0) + 1
                send(note.pid, signal.SIGKILL)

    def one_fault(self):
        leader = self.await_leader("the last fault")
        if leader is None:
            return False
        is_double = self.random.randrange(8) == 0
        table = self.double_faults() if is_double else self.faults()
        if self.args.only:
            table = {**self.faults(), **self.double_faults()}
            table = {name: fault for name, fault in table.items() if self.args.only in name}
            is_double = False
        name = self.random.choice(sorted(table))
        is_double = is_double or name in self.double_faults()
        self.counts[name] = self.counts.get(name, 0) + 1
        if is_double:
            self.doubles.add(leader[0])
        if self.args.verbose:
            print(f"# {boot_ns() / 1e9:.3f} {name}: {leader}", flush=True)
        self.pause(0, 0.2)
        table[name](leader)
        if name in ENDING:
            self.await_end(leader[1], name)
        if is_double:
            self.pause(0, 2 * LEASE_S)  # long enough for a lease to run out while they live
            self.strays()
        self.revive()
        is_fine = self.await_leader(name) is not None
        self.judge()
        self.watch_descriptors()
        return is_fine

    def end(self):
        for process in self.contenders:
            if process is not None:
                send(process.pid, signal.SIGTERM)
        give_up = time.monotonic() + LIVENESS_S
        for index, process in enumerate(self.contenders):
            try:
                process.wait(max(0.1, give_up - time.monotonic()))
                if process.returncode in ABORTS:
                    self.violation(f"n{index} ended with a failure: " + self.last_words(index))
            except subprocess.TimeoutExpired:
                self.violation(f"n{index} does not end: " + self.last_words(index))
                process.kill()
        self.judge(is_last=True)
        for note in self.read_notes():
            if is_worker(note.pid):
                self.violation(f"process {note.pid} of token {note.token} is left at the end")
                send(note.pid, signal.SIGKILL)
        for relay in self.relays:
            if relay is not None:
                relay[0].stdin.close()
                relay[0].wait(LIVENESS_S)

    def run(self):
        print(f"# store={self.args.store} seconds={self.args.seconds} seed={self.args.seed}", flush=True)
        until = time.monotonic() + self.args.seconds
        try:
            while time.monotonic() < until and self.one_fault():
                pass
        finally:
            self.end()
        faults = sum(count for name, count in self.counts.items() if name != "strays ended")
        print(f"# leaderships={self.leaderships} faults={faults} violations={len(self.violations)} "
              f"after_double_faults={len(self.reports)} slowest_recovery_s={self.gap_s_max:.1f}")
        print("# " + ", ".join(f"{name}: {count}" for name, count in sorted(self.counts.items())))
        print("# exit statuses: " + ", ".join(f"{code}: {count}" for code, count in
                                              sorted(self.exits.items())))
        is_fine = not self.violations and self.leaderships > 1 and faults > 0
        print("1..1\n" + ("ok 1" if is_fine else "not ok 1") + " - one fault at a time, one leader")
        if is_fine or not self.args.keep:
            shutil.rmtree(self.work, ignore_errors=True)
        else:
            print(f"# the output of the contenders: {self.work}")
        return 0 if is_fine else 1


def main():
    parser = argparse.ArgumentParser()
    for name in ("conclave", "worker", "stall", "relay"):
        parser.add_argument(name, type=os.path.abspath)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", help="faults with this in their name, double ones too")
    parser.add_argument("--keep", action="store_true", help="keep the folder after a failure")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    with own_group():
        return Chaos(args).run()


if __name__ == "__main__":
    sys.exit(main())
