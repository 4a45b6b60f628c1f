#!/usr/bin/env python3
"""tests/chaos/library.py CONCLAVE CLAIMS STALL [--store KIND] [--seconds S] [--seed N] [--only WORD] - torture
programs that embed the library.

Five processes of CLAIMS (tests/system/peers_claims.c) are candidates in one election. Each records every claim to
lead, with its token and its end, on the clock of the host. One fault at a time: the leader resigns, ends, is killed
or stopped; so is the contender that is registered as the next one, while the leader resigns; a disk stalls (STALL,
preloaded). `conclave run` never registers as the next one (docs/adr/0065), so only these runs reach what
src/stores/sqlite_next.h describes, between processes. All faults come in turn, in an order that is drawn anew
each time; the run ends when S seconds are over and each had its turn.

KIND is sqlite, or one that tools/with-servers has started: postgres, etcd, zookeeper.

Judged: no two claims overlap, and tokens grow (src/properties, by way of CLAIMS); somebody leads within a bound
after each fault; the leaderships of sqlite that were given to a registered contender are counted, and there are some;
nobody dies by itself. The same seed gives the same faults, but not the same run. Exit status: 0 no violation, 1
there was one. Speaks TAP."""

import argparse
import contextlib
import os
import pathlib
import random
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

NODES = 5
LEASE_S = 1.0
LIVENESS_S = 30  # after a fault, on a busy machine
RACE_S = 0.004   # a hand-over takes less, so that a fault hits any part of it


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Died(Exception):
    pass


class Contender:
    """One process after the other, with one log."""

    def __init__(self, number, work, words, stall):
        self.name = f"n{number}"
        self.log = work / f"claims.{number}"
        self.errors = work / f"errors.{number}"
        self.switch = work / f"stall.{number}"
        self.switch.write_bytes(bytes(8))
        self.log.touch()
        self.words = [*words[:-1], self.name, str(self.log), words[-1]]
        self.env = dict(os.environ, CV_CHAOS_STALL=str(self.switch), LD_PRELOAD=stall,
                        CONCLAVE_MODULES=os.path.dirname(os.path.dirname(words[0])))
        self.process = None
        self.offset = 0
        self.claim = None  # of the present process: (from, token, until)
        self.tokens = set()
        self.may_end = False

    def start(self):
        with open(self.errors, "ab") as errors:
            self.process = subprocess.Popen(self.words, env=self.env, stdin=subprocess.DEVNULL, stderr=errors)
        self.claim, self.may_end = None, False

    def read(self):
        """What it has claimed since the last time."""
        with open(self.log, "rb") as log:
            log.seek(self.offset)
            text = log.read()
        text = text[:text.rfind(b"\n") + 1]
        self.offset += len(text)
        for line in text.decode().splitlines():
            words = line.split()
            if int(words[1]) != self.process.pid:
                continue
            if words[0] == "claim":
                self.claim = int(words[2]), int(words[3]), int(words[4])
                self.tokens.add(self.claim[1])
            elif words[0] == "end":
                self.claim = None

    def leads(self):
        return self.claim is not None and self.claim[2] > boot_ns()

    def send(self, signo):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signo)

    def state(self):
        with contextlib.suppress(OSError, IndexError):
            stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(errors="replace")
            return stat.rsplit(")", 1)[1].split()[0]
        return "X"

    def stop(self):
        self.send(signal.SIGSTOP)
        await_value(lambda: self.state() in "TZX", LIVENESS_S, pause=0.0005)

    def kill(self):
        """The others need not wait for its lease: what it claimed ends here, and not later than it was seen."""
        killed_ns = boot_ns()
        self.send(signal.SIGKILL)
        self.process.wait()
        self.read()
        if self.claim is not None:
            with open(self.log, "a", encoding="utf-8") as log:
                log.write(f"end {self.process.pid} {max(killed_ns, self.claim[0])}\n")
        self.may_end = True

    def said(self):
        return self.errors.read_text(errors="replace")[-400:].strip()


class Library:
    def __init__(self, args):
        self.args = args
        self.random = random.Random(args.seed)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="conclave-library-"))
        self.file = self.work / "e.db"
        self.is_sqlite = args.store == "sqlite"
        address = f"sqlite:{self.file}" if self.is_sqlite else os.environ["CV_TEST_" + args.store.upper()]
        subprocess.run([args.conclave, "store", "init", address], stdout=subprocess.DEVNULL, check=True)
        words = [args.claims, "contender", f"library{os.getpid()}", address, str(int(LEASE_S * 1000))]
        self.contenders = [Contender(number, self.work, words, args.stall) for number in range(NODES)]
        self.counts = {}
        self.violations = []
        self.registered = set()  # (name, token): it was next
        self.slowest_s = 0.0
        self.deck = []

    def violation(self, text):
        self.violations.append(text)
        print("# VIOLATION: " + text, flush=True)

    # ---- who leads, and who is next

    def revive(self):
        for one in self.contenders:
            if one.process is None or one.process.poll() is not None:
                if one.process is not None and not one.may_end:
                    self.violation(f"{one.name} died by itself, status {one.process.returncode}: {one.said()}")
                    raise Died
                one.start()

    def leader(self, above=0):
        """Who leads with a token above this one."""
        self.revive()
        for one in self.contenders:
            one.read()
        return next((one for one in self.contenders if one.leads() and one.claim[1] > above), None)

    def await_leader(self, after, above=0):
        begin = time.monotonic()
        leader = await_value(lambda: self.leader(above), LIVENESS_S, pause=0.002)
        if leader is None:
            self.violation(f"nobody leads {LIVENESS_S} s after '{after}'; states: "
                           + " ".join(one.state() for one in self.contenders))
            raise Died
        self.slowest_s = max(self.slowest_s, time.monotonic() - begin)
        return leader

    def find_registered(self):
        """Who is registered as the next one, and may be given the record."""
        with contextlib.suppress(sqlite3.Error):
            with contextlib.closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=1)) as file:
                row = file.execute("SELECT n.node, n.token FROM conclave_next n JOIN conclave_election e"
                                   " USING (election) WHERE n.token > e.token AND n.label <> e.label").fetchone()
            if row is not None:
                return next(((one, row[1]) for one in self.contenders if one.name == row[0]), None)
        return None

    def await_next(self, leader):
        """The contender that follows this leader, if it resigns."""
        if not self.is_sqlite:
            return self.random.choice([one for one in self.contenders if one is not leader])
        found = await_value(self.find_registered, LIVENESS_S, pause=0.005)
        if found is None:
            self.violation(f"nobody has registered as the next one in {LIVENESS_S} s")
            raise Died
        self.registered.add((found[0].name, found[1]))
        return found[0]

    # ---- faults

    def pause(self, low, high):
        time.sleep(self.random.uniform(low, high))

    def stop_for_a_while(self, one):
        one.stop()
        self.pause(0.02, 1.5 * LEASE_S)
        one.send(signal.SIGCONT)

    def resign(self, leader):
        leader.send(signal.SIGUSR1)

    def resign_and_hit(self, leader, hit):
        self.resign(leader)
        self.pause(0, RACE_S)
        hit()

    def terminate(self, one):
        one.may_end = True
        one.send(signal.SIGTERM)

    def give_up(self, one):
        """It is not a candidate for a moment."""
        one.send(signal.SIGUSR2)

    def stop_next(self, leader, is_late):
        following = self.await_next(leader)
        following.stop()
        token = leader.claim[1]
        self.resign(leader)
        if is_late:  # what it was given is over when it reads of it
            self.await_leader("resign while the next is stopped", above=token)
            self.pause(0, 0.1)
        else:
            self.pause(0, 1.5 * LEASE_S)
        following.send(signal.SIGCONT)

    def stall(self, contenders):
        until = boot_ns() + int(self.random.uniform(0.05, 1.5 * LEASE_S) * 1e9)
        for one in contenders:
            with open(one.switch, "r+b") as file:
                file.write(struct.pack("=q", until))
        return until

    def stall_and_resign(self, leader, contenders, is_killed=False):
        until = self.stall(contenders)
        self.resign(leader)
        if is_killed:  # what it was about to write is not written
            self.pause(0, 0.3)
            leader.kill()
            return
        time.sleep(max(0, (until - boot_ns()) / 1e9))

    def resign_in_turn(self, leader):
        for _ in range(8):
            token = leader.claim[1]
            self.await_next(leader)
            self.resign(leader)
            leader = self.await_leader("resign", above=token)

    def faults(self):
        waiting = lambda l: self.random.choice([one for one in self.contenders if one is not l])
        following = self.await_next
        table = {
            "resign": self.resign,
            "resign in turn": self.resign_in_turn,
            "terminate leader": self.terminate,
            "kill leader": lambda l: l.kill(),
            "kill waiting": lambda l: waiting(l).kill(),
            "kill next": lambda l: following(l).kill(),
            "terminate next": lambda l: self.terminate(following(l)),
            "next gives up": lambda l: self.give_up(following(l)),
            "stop leader": self.stop_for_a_while,
            "stop waiting": lambda l: self.stop_for_a_while(waiting(l)),
            "resign, kill leader": lambda l: self.resign_and_hit(l, l.kill),
            "resign, stop leader": lambda l: self.resign_and_hit(l, lambda: self.stop_for_a_while(l)),
            "resign, kill next": lambda l: self.resign_and_hit(l, following(l).kill),
            "resign, stop next": lambda l: self.resign_and_hit(
                l, lambda one=following(l): self.stop_for_a_while(one)),
            "resign, terminate next": lambda l: self.resign_and_hit(l, lambda one=following(l): self.terminate(one)),
            "resign, next gives up": lambda l: self.resign_and_hit(l, lambda one=following(l): self.give_up(one)),
            "stop next, resign": lambda l: self.stop_next(l, is_late=False),
            "stop next, resign, late": lambda l: self.stop_next(l, is_late=True),
        }
        if self.is_sqlite:
            table["stall leader, resign"] = lambda l: self.stall_and_resign(l, [l])
            table["stall leader, resign, kill leader"] = lambda l: self.stall_and_resign(l, [l], is_killed=True)
            table["stall next, resign"] = lambda l: self.stall_and_resign(l, [following(l)])
            table["stall all, resign"] = lambda l: self.stall_and_resign(l, self.contenders)
        return {name: fault for name, fault in table.items() if self.args.only in name}

    def one_fault(self):
        table = self.faults()
        if not self.deck:
            self.deck = sorted(table)
            self.random.shuffle(self.deck)
        name = self.deck.pop()
        leader = self.await_leader("the last fault")
        if self.is_sqlite and self.random.randrange(4) != 0:
            self.await_next(leader)
            leader = self.await_leader("the last fault")
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.args.verbose:
            print(f"# {boot_ns() / 1e9:.3f} {name}: {leader.name} leads with {leader.claim[1]}", flush=True)
        token = leader.claim[1]
        table[name](leader)
        is_over = "resign" in name or name in ("kill leader", "terminate leader")
        self.await_leader(name, above=token if is_over else 0)

    # ---- the end

    def judge(self):
        logs = [str(one.log) for one in self.contenders]
        judged = subprocess.run([self.args.claims, "judge", *logs], capture_output=True, text=True, check=False)
        if judged.returncode != 0:
            for line in [line for line in judged.stdout.splitlines() if line.startswith("broken")] or ["not judged"]:
                self.violation(line)

    def end(self):
        for one in self.contenders:
            if one.process is not None:
                one.may_end = True
                one.send(signal.SIGCONT)
                one.send(signal.SIGTERM)
        for one in self.contenders:
            if one.process is None:
                continue
            try:
                one.process.wait(LIVENESS_S)
            except subprocess.TimeoutExpired:
                self.violation(f"{one.name} does not end: {one.said()}")
                one.process.kill()
                one.process.wait()
            if one.process.returncode not in (0, -signal.SIGKILL, -signal.SIGTERM):
                self.violation(f"{one.name} ended with status {one.process.returncode}: {one.said()}")
            one.read()

    def run(self):
        print(f"# store={self.args.store} seconds={self.args.seconds} seed={self.args.seed}", flush=True)
        until = time.monotonic() + self.args.seconds
        try:
            while time.monotonic() < until or self.deck:  # each of them at least once
                self.one_fault()
        except Died:
            pass
        finally:
            self.end()
        self.judge()
        tokens = set().union(*(one.tokens for one in self.contenders))
        given = sum(token in one.tokens for one in self.contenders for name, token in self.registered
                    if name == one.name)
        print(f"# leaderships={len(tokens)} given={given} faults={sum(self.counts.values())} "
              f"violations={len(self.violations)} slowest_recovery_s={self.slowest_s:.1f}")
        print("# " + ", ".join(f"{name}: {count}" for name, count in sorted(self.counts.items())))
        is_fine = not self.violations and len(tokens) > 1 and (given > 0 or not self.is_sqlite)
        print("1..1\n" + ("ok 1" if is_fine else "not ok 1") + " - programs that embed the library, one leader")
        if is_fine or not self.args.keep:
            shutil.rmtree(self.work, ignore_errors=True)
        else:
            print(f"# what they claimed and said: {self.work}")
        return 0 if is_fine else 1


def main():
    parser = argparse.ArgumentParser()
    for name in ("conclave", "claims", "stall"):
        parser.add_argument(name, type=os.path.abspath)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="faults with this in their name")
    parser.add_argument("--keep", action="store_true", help="keep the folder after a failure")
    parser.add_argument("--verbose", action="store_true")
    for signo in (signal.SIGUSR1, signal.SIGUSR2):  # inherited: one that has just been started does not die of it
        signal.signal(signo, signal.SIG_IGN)
    return Library(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
