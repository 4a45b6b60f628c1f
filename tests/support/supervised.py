"""tests/support/supervised.py - one supervisor with its command, for tests of which processes outlive which.

Real processes, real signals, a pretended election (supervise.c). Waits for conditions, never for a fixed time;
the limit of a wait only makes a failing test end. The command itself writes the time of each of its steps, from
/proc/uptime, which is CLOCK_BOOTTIME in hundredths of a second: no step may come after the deadline. A test that
uses this is called with the paths of supervise, phoenix and conclave, and prints TAP."""

import fcntl
import mmap
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

from points import Skipped, await_value, run_points

SUPERVISE, PHOENIX, CONCLAVE = sys.argv[1:4]
WAIT_S = 30
WORK = tempfile.mkdtemp(prefix="conclave-test-")
os.environ["XDG_RUNTIME_DIR"] = WORK
# Under nohup, or in a shell's background, some of these are ignored, and a supervisor leaves an ignored signal ignored.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

TREE = """#!/bin/sh
# DEPTH FILE: ignores SIGTERM, starts one like itself as an orphan with its own session, and steps.
trap '' TERM
if [ "$1" -gt 1 ]; then (setsid "$0" $(($1 - 1)) "$2" &) ; fi
echo $$ >>"$2"
while :; do read -r now rest </proc/uptime; echo "$now" >>"$2.step.$$"; sleep 0.005; done
"""


def wait_until(what, condition):
    value = await_value(condition, WAIT_S, pause=0.002)
    assert value is not None, "never happened: " + what
    return value


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def lines_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().split("\n")[:-1]
    except FileNotFoundError:
        return []


class Run:
    """One process of supervise.c, its output and its events."""

    count = 0
    all = []

    def __init__(self, *command, options=(), stdin=subprocess.DEVNULL, pass_fds=(), **more):
        Run.count += 1
        self.name = os.path.join(WORK, f"run{Run.count}")
        self.lock = self.name + ".lock"
        self.pid_file = self.name + ".pids"
        self.out = open(self.name + ".out", "w+", encoding="utf-8")
        self.err = open(self.name + ".err", "w+", encoding="utf-8")
        ours, theirs = socket.socketpair()
        self.talk = ours
        self.buffer = b""
        command = [word.replace("PIDS", self.pid_file) for word in command]
        options = [word.replace("PIDS", self.pid_file) for word in options]
        self.process = subprocess.Popen(
            [SUPERVISE, "--talk", str(theirs.fileno()), "--lock", self.lock, *options, "--", *command],
            stdin=stdin, stdout=self.out, stderr=self.err,
            pass_fds=[theirs.fileno(), *pass_fds], **more)
        theirs.close()
        Run.all.append(self)
        self.guard = int(self.event("guard")[1])

    def line(self):
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.talk], [], [], WAIT_S)
            assert ready, "no event for a long time"
            got = self.talk.recv(4096)
            if not got:
                return None
            self.buffer += got
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode().split()

    def event(self, kind):
        """The next event of that kind; others are skipped."""
        while True:
            words = self.line()
            assert words, f"it ended without '{kind}'"
            if words[0] == kind:
                return words

    def say(self, word):
        self.talk.sendall(word.encode() + b"\n")

    def output(self):
        with open(self.name + ".out", encoding="utf-8") as file:
            return file.read()

    def pids(self, count):
        return wait_until(f"{count} processes", lambda: len(lines_of(self.pid_file)) == count and
                          [int(pid) for pid in lines_of(self.pid_file)])

    def stepping(self, count):
        """The processes of TREE, when each of them has made a step."""
        pids = self.pids(count)
        for pid in pids:
            wait_until("a step", lambda: lines_of(f"{self.pid_file}.step.{pid}"))
        return pids

    def last_step(self, pids):
        return max(float(lines_of(f"{self.pid_file}.step.{pid}")[-1]) for pid in pids)

    def lease(self):
        path = wait_until("the lease file", lambda: [
            name for name in os.listdir(os.path.join(WORK, "conclave"))
            if name.startswith(f"run-{self.process.pid}-")])[0]
        with open(os.path.join(WORK, "conclave", path), "rb") as file:
            page = mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_READ)
        assert page[:8] == b"CVLEASE\0", page[:8]
        while True:
            sequence = struct.unpack_from("=Q", page, 56)[0]
            run, token, valid_until_ns = struct.unpack_from("=QQq", page, 64 + 24 * (sequence % 2))
            if struct.unpack_from("=Q", page, 56)[0] == sequence:
                return run, token, valid_until_ns / 1e9

    def lock_is_free(self):
        fd = os.open(self.lock, os.O_RDWR)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        finally:
            os.close(fd)

    def all_gone(self, pids):
        wait_until("the last copy of the lock is closed", self.lock_is_free)
        for pid in pids:
            assert not is_alive(pid), f"process {pid} is alive though no process has the lock"
        wait_until("the guard's end", lambda: not is_alive(self.guard))
        wait_until("no lease file", lambda: not [
            name for name in os.listdir(os.path.join(WORK, "conclave"))
            if name.startswith(f"run-{self.process.pid}-")])

    def status(self):
        return self.process.wait(WAIT_S)

    @classmethod
    def clean_all(cls):
        for run in cls.all:
            run.clean()
        cls.all.clear()

    def clean(self):
        for pid in [self.process.pid, self.guard] + [int(pid) for pid in lines_of(self.pid_file)]:
            try:
                if pid == self.process.pid and self.process.returncode is not None:
                    continue
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                if SUPERVISE.encode() in words or any(WORK.encode() in word for word in words):
                    os.kill(pid, signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass
        self.process.wait(WAIT_S)
        self.talk.close()


def tree(depth, *options, **more):
    run = Run(os.path.join(WORK, "tree"), str(depth), "PIDS", options=options, **more)
    command = int(run.event("started")[1])
    return run, sorted(run.stepping(depth), key=lambda pid: pid != command)  # the command first


def run_all(tests):
    """Runs (name, function) one after the other; returns the exit status. Words after the paths choose tests."""
    with open(os.path.join(WORK, "tree"), "w", encoding="utf-8") as file:
        file.write(TREE)
    os.chmod(os.path.join(WORK, "tree"), 0o755)
    wanted = sys.argv[4:] or os.environ.get("CV_TEST_ONLY", "").split()
    chosen = [(name, function) for name, function in tests
              if not wanted or any(word in name for word in wanted)]
    status = run_points(chosen, clean_up=Run.clean_all)
    shutil.rmtree(WORK, ignore_errors=True)
    return status
