"""tests/support/peer_cluster.py - members of a cluster as real processes, for tests.

Used by programs that are called as PROGRAM CONCLAVE PEERS_CLAIMS [TEST...]. A test waits for conditions,
not for times, and ends only what it started; run() prints TAP. Between the members is a proxy where a
test needs one: it loses and cuts."""

import concurrent.futures
import os
import pathlib
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

CONCLAVE, CLAIMS = sys.argv[1:3]
PATIENCE_S = 90  # nothing takes so long, unless it never happens
# Slow enough for a machine that is busy with other things; what is promised does not depend on it.
PACE = "heartbeat = 30ms\ntimeout = 200ms\nround = 30ms\nlease = 300ms\ndelta = 5ms\nsigma = 5ms\n"
# The same, where a test waits for leases again and again; and where a leader must not change.
QUICK = "heartbeat = 20ms\ntimeout = 100ms\nround = 20ms\nlease = 120ms\ndelta = 4ms\nsigma = 4ms\n"
STEADY = "heartbeat = 200ms\ntimeout = 2s\nround = 60ms\nlease = 3s\ndelta = 10ms\nsigma = 10ms\n"

work = pathlib.Path(tempfile.mkdtemp())
running = []


class Failed(Exception):
    pass


def check(what, condition):
    if not condition:
        raise Failed(what)


def until(what, condition):
    """Waits until the condition is true, and returns its value."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise Failed(f"never happened: {what}")


def free_ports(count):
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def ask(*arguments, status=0):
    result = subprocess.run([CONCLAVE, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    check(f"{arguments}: {result}", result.returncode == status)
    return result.stdout + result.stderr


class Proxy(threading.Thread):
    """Between each two members. Member i knows j by a port of the proxy, and the other way round."""

    def __init__(self, members):
        super().__init__(daemon=True)
        self.members, self.loss, self.cuts, self.over = members, 0.0, set(), False
        self.chance = random.Random(1)
        self.sockets = {}
        for i in members:
            for j in members:
                if i != j:
                    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    s.bind(("127.0.0.1", 0))
                    s.setblocking(False)
                    self.sockets[i, j] = s  # what i takes for j

    def port(self, i, j):
        return self.sockets[i, j].getsockname()[1]

    def run(self):
        places = {s: pair for pair, s in self.sockets.items()}
        while not self.over:
            for s in select.select(list(places), [], [], 0.05)[0]:
                i, j = places[s]
                try:
                    data = s.recv(65536)
                    if (i, j) not in self.cuts and self.chance.random() >= self.loss:
                        self.sockets[j, i].sendto(data, ("127.0.0.1", self.members[j]))
                except OSError:
                    pass  # the late answer to an earlier datagram, whose receiver is gone

    def isolate(self, who):
        self.cuts = {(i, j) for i, j in self.sockets if who in (i, j)}


class Cluster:
    """Each member has a file of its own, and a state folder."""

    def __init__(self, count=3, proxied=False, options=PACE, protocol="pole", more="", allows_two=False):
        self.options, self.protocol, self.allows_two = options, protocol, allows_two
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=work))
        self.names = [chr(ord("a") + i) for i in range(count)]
        self.ports = dict(zip(self.names, free_ports(count)))
        self.proxy = Proxy(self.ports) if proxied else None
        if self.proxy:
            self.proxy.start()
        subprocess.run([CONCLAVE, "keygen", str(self.folder / "key")], check=True)
        self.processes = {}
        for name in self.names:
            (self.folder / f"state-{name}").mkdir()
            self.write(name, more=more)

    def write(self, name, options=None, protocol=None, more="", generation=1, key="key"):
        """The file of one member: its own, because the proxy gives the others other ports."""
        options = self.options if options is None else options
        protocol = protocol or self.protocol
        text = (f"[cluster]\nname = test\ngeneration = {generation}\nkey = {key}\nprotocol = {protocol}\n"
                f"state = state-{name}\n{more}[options]\n{options}")
        for i, other in enumerate(self.names):
            port = (self.ports[other] if other == name or not self.proxy
                    else self.proxy.port(name, other))
            text += f"[member {other}]\nid = {i + 1}\naddress = 127.0.0.1:{port}\n"
        self.file(name).write_text(text)

    def file(self, name):
        return self.folder / f"{name}.ini"

    def log(self, name):
        return self.folder / f"{name}.log"

    def said(self, name):
        path = self.folder / f"{name}.err"
        return path.read_text() if path.exists() else ""

    def start(self, *names):
        for name in names or self.names:
            with open(self.folder / f"{name}.err", "a") as err:
                process = subprocess.Popen(
                    [CLAIMS, "member", "e", str(self.file(name)), name, str(self.log(name))] +
                    (["allows-two"] if self.allows_two else []), stdin=subprocess.DEVNULL, stderr=err)
            running.append(process)
            self.processes[name] = process

    def end(self, name, how=signal.SIGKILL):
        process = self.processes.pop(name)
        process.send_signal(how)
        process.wait()
        running.remove(process)

    def sees(self, name):
        """What the present process of a member said last: token, leader, trouble."""
        if not self.log(name).exists() or name not in self.processes:
            return 0, "-", ""
        pid = str(self.processes[name].pid)
        for line in reversed(self.log(name).read_text().splitlines()):
            words = line.split(" ", 4)
            if words[0] == "sees" and words[1] == pid and len(words) == 5:
                return int(words[2]), words[3], words[4]
        return 0, "-", ""

    def agreed(self, names=None, above=0):
        seen = {self.sees(name)[:2] for name in names or self.processes}
        if len(seen) != 1:
            return None
        token, leader = seen.pop()
        return (leader, token) if leader != "-" and token > above else None

    def agree(self, names=None, above=0):
        return until(f"{names or list(self.processes)} agree on a leader above {above}: "
                     f"{[self.sees(n) for n in self.names]} {[self.said(n) for n in self.names]}",
                     lambda: self.agreed(names, above))

    def others(self, name):
        return [n for n in self.names if n != name]

    def has_state(self, name):
        return (self.folder / f"state-{name}" / f"test.{name}.state").exists()

    def wipe(self, name):
        """The member loses its state; it does not run."""
        for path in (self.folder / f"state-{name}").iterdir():
            path.unlink()

    def close(self):
        for name in list(self.processes):
            self.end(name)
        if self.proxy:
            self.proxy.over = True
            self.proxy.join()
        result = subprocess.run([CLAIMS, "judge"] + [str(self.log(n)) for n in self.names],
                                capture_output=True, text=True)
        print(f"# {self.protocol}: {result.stdout.splitlines()[-1]}")
        check(f"at most one leader, and tokens grow: {result.stdout}", self.allows_two or result.returncode == 0)


def attempt(test):
    """What went wrong, or None; and how long it took."""
    began = time.monotonic()
    wrong = None
    try:
        test()
    except (Failed, subprocess.SubprocessError, OSError) as why:
        wrong = str(why)
    return wrong, time.monotonic() - began


def run(all_tests, at_once=1):
    """Runs those that the command line names, or all, so many at the same time; returns the exit status."""
    wanted = sys.argv[3:]
    tests = [test for test in all_tests if not wanted or test.__name__ in wanted]
    is_fine = True
    print(f"1..{len(tests)}")
    for first in range(0, len(tests), at_once):
        batch = tests[first:first + at_once]
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            results = list(pool.map(attempt, batch))
        for process in list(running):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
            running.remove(process)
        for number, (test, (wrong, seconds)) in enumerate(zip(batch, results), first + 1):
            print(f"{'not ok' if wrong else 'ok'} {number} - {test.__name__} # {seconds:.1f} s", flush=True)
            if wrong:
                print(f"# {wrong}", flush=True)
                is_fine = False
    subprocess.run(["rm", "-rf", str(work)], check=False)
    return 0 if is_fine else 1
