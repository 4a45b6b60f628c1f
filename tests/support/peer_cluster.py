"""tests/support/peer_cluster.py - members of a cluster as real processes, for tests.

Used by programs that are called as PROGRAM CONCLAVE PEERS_CLAIMS [TEST...]. A test waits for conditions,
not for fixed times, and ends only processes that it started; run() prints TAP. Where a test needs it, a proxy
between the members loses messages and cuts links."""

import concurrent.futures
import contextlib
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
import traceback

from points import Skipped, await_value

CONCLAVE, CLAIMS = sys.argv[1:3]
PATIENCE_S = int(os.environ.get("CV_TEST_PATIENCE_S", 180))  # only a failure takes so long, or a disk that stalls
# Slow enough for a busy machine; the promises do not depend on it.
PACE = "heartbeat = 30ms\ntimeout = 200ms\nround = 30ms\nlease = 300ms\ndelta = 5ms\nsigma = 5ms\n"
# The same for tests that wait for leases again and again; and for tests in which the leader must not change.
QUICK = "heartbeat = 20ms\ntimeout = 100ms\nround = 20ms\nlease = 120ms\ndelta = 4ms\nsigma = 4ms\n"
STEADY = "heartbeat = 200ms\ntimeout = 2s\nround = 60ms\nlease = 3s\ndelta = 10ms\nsigma = 10ms\n"
# A member that does not run for a while is not passed over: the best one leads even on a busy machine.
PATIENT = "heartbeat = 50ms\ntimeout = 400ms\nround = 500ms\nlease = 1s\ndelta = 10ms\nsigma = 10ms\n"

STEADY_S = 0.6  # many times the timeouts of clusters for which it is used

work = pathlib.Path(tempfile.mkdtemp())
running = []


class Failed(Exception):
    pass


def check(what, condition):
    if not condition:
        raise Failed(what)


def until(what, condition):
    """Waits until the condition is true, and returns its value. `what` may be a function, called after a failure."""
    value = await_value(condition, PATIENCE_S)
    if value is None:
        raise Failed(f"never happened: {what() if callable(what) else what}")
    return value


FIRST_PORT, BLOCK_PORTS, BLOCKS = 15000, 64, 250  # all below the ports that the kernel hands out
blocks_taken, candidates, port_lock = [], iter(()), threading.Lock()


def take_block():
    """Ports of this program until it ends: a socket with the number of their block keeps other programs from taking
    them, also while the member that uses one is dead or has not started yet."""
    for block in random.sample(range(BLOCKS), BLOCKS):
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holder.bind(f"\0conclave-test-ports-{block}")
        except OSError:
            holder.close()
            continue
        blocks_taken.append(holder)
        return iter(range(FIRST_PORT + block * BLOCK_PORTS, FIRST_PORT + (block + 1) * BLOCK_PORTS))
    raise Failed("all ports for tests are taken")


def free_ports(count):
    """Ports that no other cluster of these tests has got, and that no other program uses now."""
    global candidates
    ports = []
    with port_lock:
        while len(ports) < count:
            port = next(candidates, None)
            if port is None:
                candidates = take_block()
                continue
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s, contextlib.suppress(OSError):
                s.bind(("127.0.0.1", port))
                ports.append(port)
    return ports


def ask(*arguments, status=0):
    result = subprocess.run([CONCLAVE, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    check(f"{arguments}: {result}", result.returncode == status)
    return result.stdout + result.stderr


class Proxy(threading.Thread):
    """Between each two members: member i reaches j at a port of the proxy, and the other way round."""

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
                    self.sockets[i, j] = s  # to i, this is j
        self.pairs = list(self.sockets)
        self.start()

    def address(self, i, j):
        """The address at which i reaches j."""
        return f"127.0.0.1:{self.members[j] if i == j else self.sockets[i, j].getsockname()[1]}"

    def inside(self, name):  # pylint: disable=unused-argument
        """The words that a command of that member begins with."""
        return []

    def close(self):
        self.over = True
        self.join()

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
                    pass  # a late error about an earlier datagram, whose receiver is gone



class Version6:
    """Members with addresses of IPv6. To a test it is like a Proxy that does nothing."""

    def __init__(self, members):
        self.members = members

    def address(self, _, j):
        return f"[::1]:{self.members[j]}"

    def inside(self, name):  # pylint: disable=unused-argument
        return []

    def close(self):
        pass


class Wan:
    """A namespace for each member, and the switch of src/lab/wan.c between them, which delays, loses and cuts. To a
    test it is like a Proxy."""

    def __init__(self, members):
        program = pathlib.Path(CLAIMS).parent / "wan_switch"
        self.names = list(members)
        self.pairs = [(i, j) for i in members for j in members if i != j]
        self.delay_us, self.jitter, self.state = 0, 0, ({}, 0.0)
        self.switch = subprocess.Popen([program, str(len(self.names))], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        running.append(self.switch)
        words = self.switch.stdout.readline().split()
        if words[0] != "ready":
            raise Skipped(" ".join(words))
        self.spaces = dict(zip(self.names, words[1:]))
        self.apply(set(), 0.0)

    def apply(self, cuts, loss):
        for i, j in self.pairs:
            self.switch.stdin.write(f"{self.names.index(i) + 1} {self.names.index(j) + 1} {self.delay_us} {self.jitter} "
                                    f"{int(loss * 100)} {int((i, j) in cuts)}\n")
        self.switch.stdin.flush()
        for _ in self.pairs:
            check("the switch obeys", self.switch.stdout.readline() == "ok\n")
        self.state = cuts, loss

    def delay(self, delay_us, jitter):
        self.delay_us, self.jitter = delay_us, jitter
        self.apply(*self.state)

    cuts = property(lambda self: self.state[0], lambda self, cuts: self.apply(cuts, self.state[1]))
    loss = property(lambda self: self.state[1], lambda self, loss: self.apply(self.state[0], loss))

    def address(self, _, j):
        return f"10.77.0.{self.names.index(j) + 1}:7100"

    def inside(self, name):
        return ["nsenter", f"--net=/proc/{self.switch.pid}/fd/{self.spaces[name]}"]

    def close(self):
        self.switch.stdin.close()
        self.switch.wait()
        running.remove(self.switch)


class Cluster:
    """Each member has a file of its own, and a state folder."""

    def __init__(self, count=3, between=None, options=PACE, protocol="pole", more="", allows_two=False,
                 election="e"):
        self.election = election
        self.options, self.protocol, self.allows_two = options, protocol, allows_two
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=work))
        self.names = [chr(ord("a") + i) for i in range(count)]
        self.ports = dict(zip(self.names, free_ports(count)))
        self.proxy = between(self.ports) if between else None  # Proxy or Wan
        subprocess.run([CONCLAVE, "keygen", str(self.folder / "key")], check=True)
        self.program = CLAIMS  # of members that are started from now on
        self.processes = {}
        self.has_led = False  # a member was seen to lead
        for name in self.names:
            (self.folder / f"state-{name}").mkdir()
            self.write(name, more=more)

    def write(self, name, options=None, protocol=None, more="", generation=1, key="key"):
        """The cluster file of one member. Each has its own, because the proxy has other ports for each."""
        options = self.options if options is None else options
        protocol = protocol or self.protocol
        text = (f"[cluster]\nname = test\ngeneration = {generation}\nkey = {key}\nprotocol = {protocol}\n"
                f"state = state-{name}\n{more}[options]\n{options}")
        for i, other in enumerate(self.names):
            address = self.proxy.address(name, other) if self.proxy else f"127.0.0.1:{self.ports[other]}"
            text += f"[member {other}]\nid = {i + 1}\naddress = {address}\n"
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
                    (self.proxy.inside(name) if self.proxy else []) +
                    [self.program, "member", self.election, str(self.file(name)), name, str(self.log(name))] +
                    (["allows-two"] if self.allows_two else []), stdin=subprocess.DEVNULL, stderr=err)
            running.append(process)
            self.processes[name] = process

    def end(self, name, how=signal.SIGKILL):
        process = self.processes.pop(name)
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        process.send_signal(how)
        process.wait()
        running.remove(process)
        with open(self.log(name), "a") as log:  # a dead process does not act by its lease any more
            log.write(f"end {process.pid} {now_ns}\n")

    def sees(self, name):
        """What the present process of a member wrote last: token, leader, trouble."""
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

    def replace_key(self, key, token):
        """In three rounds, member by member: accept the new key, use it, drop the old one."""
        for used, more in (("key", f"next-key = {key}\n"), (key, "next-key = key\n"), (key, "")):
            for name in self.names:
                self.end(name)
                self.write(name, key=used, more=more)
                self.start(name)
                _, token = self.agree(above=token - 1)

    def describe(self):
        """What each member sees and said last, and the status of those that have exited: for failures."""
        return "; ".join(f"{n} {self.sees(n)}, exit status {self.processes[n].poll() if n in self.processes else '-'}, "
                         f"said {self.said(n).splitlines()[-5:]}" for n in self.names)

    def agree(self, names=None, above=0):
        found = until(lambda: f"{names or list(self.processes)} agree on a leader above {above}: {self.describe()}",
                      lambda: self.agreed(names, above))
        self.has_led = True
        return found

    def settle(self):
        """Waits until all agree, for several times as long as it takes to suspect a silent leader."""
        since = {}  # leadership: since when all agree on it

        def steady():
            found, now = self.agreed(), time.monotonic()
            if found is None or found not in since:
                since.clear()
            return found if found and now - since.setdefault(found, now) > STEADY_S else None
        return until(lambda: f"they stay with one leader: {self.describe()}", steady)

    def others(self, name):
        return [n for n in self.names if n != name]

    def cut(self, is_cut):
        """Cuts the directions (from, to) for which `is_cut` is true, and no others."""
        self.proxy.cuts = {(i, j) for i, j in self.proxy.pairs if is_cut(i, j)}

    def heal(self):
        self.proxy.cuts = set()

    def has_state(self, name):
        return (self.folder / f"state-{name}" / f"test.{name}@{self.election}.state").exists()

    def wipe(self, name):
        """The member, which does not run, loses its state."""
        for path in (self.folder / f"state-{name}").iterdir():
            path.unlink()

    def close(self):
        if self.has_led and self.processes:  # otherwise the judge would find nothing wrong
            until("what a leader claims is recorded", lambda: any(
                line.startswith("claim ") for n in self.names if self.log(n).exists()
                for line in self.log(n).read_text().splitlines()))
        for name in list(self.processes):
            self.end(name)
        if self.proxy:
            self.proxy.close()
        result = self.judge()
        print(f"# {self.protocol}: {result.stdout.splitlines()[-1]}")
        check(f"at most one leader, and tokens grow: {result.stdout}", self.allows_two or result.returncode == 0)

    def judge(self):
        """Of what was recorded. Exit status 1: two led at once, or a token did not grow."""
        return subprocess.run([CLAIMS, "judge"] + [str(self.log(n)) for n in self.names], capture_output=True, text=True,
                              check=False)


def random_faults(cluster, seconds, seed):
    """Kills, stops, cuts, loses and forgets, one after the other, and heals all at the end."""
    chance = random.Random(seed)
    cluster.start()
    cluster.agree()
    end = time.monotonic() + seconds
    counts = {}
    while time.monotonic() < end:
        name, other = chance.sample(cluster.names, 2)
        leader = cluster.sees(name)[1]  # as one member sees it; looking again may find none
        if chance.random() < 0.5 and leader in cluster.names:
            name = leader
        action = chance.choice(["kill", "stop", "isolate", "deaf", "mute", "cut", "lose", "wipe"])
        counts[action] = counts.get(action, 0) + 1
        pause = chance.random() * 0.4
        if action == "kill":
            cluster.end(name)
            time.sleep(pause)
            cluster.start(name)
        elif action == "stop":
            cluster.processes[name].send_signal(signal.SIGSTOP)
            time.sleep(pause)
            cluster.processes[name].send_signal(signal.SIGCONT)
        elif action == "wipe":  # one at a time: fewer than a majority
            cluster.proxy.cuts, cluster.proxy.loss = set(), 0.0
            cluster.end(name)
            cluster.wipe(name)
            cluster.start(name)
            until(lambda who=name: f"{who} has joined: {cluster.describe()}", lambda who=name: cluster.has_state(who))
        elif action == "lose":
            cluster.proxy.loss = chance.random() * 0.3
            time.sleep(pause)
            cluster.proxy.loss = 0.0
        else:
            cluster.cut(lambda i, j: {
                "isolate": name in (i, j), "deaf": j == name, "mute": i == name, "cut": {i, j} == {name, other}}[action])
            time.sleep(pause)
            if chance.random() < 0.7:  # otherwise the next fault comes on top
                cluster.heal()
    cluster.proxy.cuts, cluster.proxy.loss = set(), 0.0
    cluster.agree()
    print(f"# seed {seed}: {counts}")


def attempt(test):
    """Returns what went wrong, or None, and a remark: why the test was skipped, or how long it took."""
    began = time.monotonic()
    wrong, skipped = None, ""
    try:
        test()
    except Skipped as why:
        skipped = f" # SKIP {why}"
    except (Failed, subprocess.SubprocessError, OSError) as why:
        wrong = str(why)
    except Exception:  # a mistake of the test: it must not leave its processes running
        wrong = traceback.format_exc()
    return wrong, skipped or f" # {time.monotonic() - began:.1f} s"


def run(all_tests, at_once=1):
    """Runs the tests that the command line or CV_TEST_ONLY names, or all, `at_once` at a time; returns the exit status."""
    wanted = sys.argv[3:] or os.environ.get("CV_TEST_ONLY", "").split()
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
        for number, (test, (wrong, remark)) in enumerate(zip(batch, results), first + 1):
            print(f"{'not ok' if wrong else 'ok'} {number} - {test.__name__}{remark}", flush=True)
            if wrong:
                print("# " + wrong.strip().replace("\n", "\n# "), flush=True)
                is_fine = False
    subprocess.run(["rm", "-rf", str(work)], check=False)
    return 0 if is_fine else 1
