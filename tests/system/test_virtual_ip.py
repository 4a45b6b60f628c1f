#!/usr/bin/env python3
"""tests/system/test_virtual_ip.py CONCLAVE SCRIPT - examples/virtual-ip: the address is never on two machines.

Two machines are network namespaces, joined by a bridge in a third one. Without CV_TEST_ETCD the election
is a file, as if they shared one; with it (tools/with-servers etcd) it is held by etcd, which the two
reach through a relay on the bridge, so that a machine can be cut off. While processes are killed, stopped,
cut off or asked to resign, a thread checks all the time which of the two has the address. Prints TAP."""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from points import await_value, why_no_namespaces  # pylint: disable=wrong-import-position

CONCLAVE, SCRIPT = (os.path.abspath(path) for path in sys.argv[1:3])
WAIT_S = 60
ADDRESS = "10.78.0.100"
HUB = f"cvip{os.getpid()}hub"
HOSTS = [f"cvip{os.getpid()}{name}" for name in "ab"]
WORK = tempfile.mkdtemp(prefix="conclave-test-")
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def until(what, condition):
    value = await_value(condition, WAIT_S)
    assert value is not None, "never happened: " + what
    return value


def ip(*words, at=None):
    prefix = ["ip", "netns", "exec", at] if at else []
    return subprocess.run([*prefix, "ip", *words], check=True, capture_output=True, text=True).stdout


class Namespaces:
    """Each thread has a namespace of its own; a socket belongs to the one in which it was created."""

    def __init__(self):
        self.fds = {name: os.open(f"/run/netns/{name}", os.O_RDONLY) for name in [HUB, *HOSTS]}

    def enter(self, name):
        if libc.setns(self.fds[name], CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    def has_address(self, name):
        """An address can be bound iff it is on this machine."""
        self.enter(name)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((ADDRESS, 0))
                return True
            except OSError:
                return False


class Watcher(threading.Thread):
    """Checks all the time. Both have it if one had it before and after the other was seen to have it."""

    def __init__(self, namespaces):
        super().__init__(daemon=True)
        self.namespaces = namespaces
        self.seen = (False, False)
        self.looks = 0
        self.on_two = 0
        self.is_over = False

    def run(self):
        while not self.is_over:
            first = self.namespaces.has_address(HOSTS[0])
            second = self.namespaces.has_address(HOSTS[1])
            if first and second and self.namespaces.has_address(HOSTS[0]):
                self.on_two += 1
            self.seen = (first, second)
            self.looks += 1
            time.sleep(0.001)


class Relay(threading.Thread):
    """On the bridge of the hub: forwards connections to a port of this machine's loopback."""

    def __init__(self, namespaces, port):
        super().__init__(daemon=True)
        self.port = port
        os_ready = threading.Event()

        def listen():
            namespaces.enter(HUB)
            self.listener = socket.create_server(("10.78.0.254", port))
            os_ready.set()

        maker = threading.Thread(target=listen)
        maker.start()
        maker.join()
        assert os_ready.is_set(), "the relay cannot listen"

    @staticmethod
    def pump(source, sink):
        try:
            while chunk := source.recv(65536):
                sink.sendall(chunk)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def run(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.create_connection(("127.0.0.1", self.port))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=pair, daemon=True).start()


class Machine:
    def __init__(self, number, via, lease):
        self.name = HOSTS[number]
        self.number = number
        self.err = open(os.path.join(WORK, f"{self.name}.err"), "a", encoding="utf-8")
        where = f"{ADDRESS}/24 eth0"
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.name, CONCLAVE, "run", "vip", "--via", via, "--lease", lease,
             "--node", self.name, "--verbose", "--cleanup", f"{SCRIPT} down {where}", "--",
             SCRIPT, "up", *where.split()],
            stdin=subprocess.DEVNULL, stdout=self.err, stderr=self.err)

    def guard(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="utf-8") as file:
            return int(file.read().split()[0])

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


class World:
    def __init__(self, via, lease):
        self.via, self.lease = via, lease
        self.namespaces = Namespaces()
        self.watcher = Watcher(self.namespaces)
        self.watcher.start()
        self.machines = [Machine(i, via, lease) for i in range(2)]

    def holder(self):
        """The number of the machine with the address, when exactly one has it."""
        seen = self.watcher.seen
        return None if seen[0] == seen[1] else seen.index(True)

    def settled(self, number=None):
        """Waits until one machine (this one) has the address, and the hub, a neighbour, knows the way to it."""
        until("one has the address",
              lambda: self.holder() is not None and (number is None or self.holder() == number))
        number = self.holder() if number is None else number
        mac = re.search(r"link/ether (\S+)", ip("link", "show", "eth0", at=HOSTS[number])).group(1)
        until("the neighbours know", lambda: mac in ip("neigh", "show", ADDRESS, at=HUB))
        return number

    def passes_on(self, number):
        """The address moves from this machine to the other; then this one takes part again."""
        self.settled(1 - number)
        self.machines[number].end()
        self.machines[number] = Machine(number, self.via, self.lease)

    def close(self):
        for machine in self.machines:
            machine.end()
        self.watcher.is_over = True
        self.watcher.join()


def after_a_kill(world):
    number = world.settled()
    world.machines[number].process.kill()
    world.passes_on(number)


def after_a_stop(world):
    number = world.settled()
    world.machines[number].process.send_signal(signal.SIGSTOP)
    world.passes_on(number)


def after_a_resignation(world):
    number = world.settled()
    to = HOSTS[1 - number]
    until("it hands over", lambda: subprocess.run(
        ["ip", "netns", "exec", HOSTS[0], CONCLAVE, "resign", "vip", "--via", world.via, "--to", to],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0)
    world.settled(1 - number)


def after_a_partition(world):
    number = world.settled()
    ip("link", "set", f"v{number}", "down", at=HUB)
    world.settled(1 - number)
    ip("link", "set", f"v{number}", "up", at=HUB)


def an_ipv6_address_is_announced(world):
    address = "2001:db8:78::100"
    macs = [re.search(r"link/ether (\S+)", ip("link", "show", "eth0", at=name)).group(1) for name in HOSTS]
    # A neighbour that knows the way to the former leader. It asks nobody, because it sends nothing.
    ip("neigh", "replace", address, "lladdr", macs[1], "dev", "bridge", "nud", "stale", at=HUB)
    where = f"{address}/64 eth0"
    with subprocess.Popen(
            ["ip", "netns", "exec", HOSTS[0], CONCLAVE, "run", "vip6", "--via", world.via, "--lease", world.lease,
             "--cleanup", f"{SCRIPT} down {where}", "--", SCRIPT, "up", *where.split()],
            stdin=subprocess.DEVNULL, stdout=world.machines[0].err, stderr=world.machines[0].err) as leader:
        try:
            until("the neighbour knows", lambda: macs[0] in ip("neigh", "show", address, at=HUB))
            assert "tentative" not in ip("-6", "address", "show", "dev", "eth0", "to", address, at=HOSTS[0])
        finally:
            leader.terminate()
    assert not ip("-6", "address", "show", "dev", "eth0", "to", address, at=HOSTS[0]), "it is still there"


def after_a_kill_of_both(world):
    number = world.settled()
    machine = world.machines[number]
    both = (machine.guard(), machine.process.pid)
    for pid in both:
        os.kill(pid, signal.SIGSTOP)  # so that neither can react to the death of the other
    for pid in both:
        os.kill(pid, signal.SIGKILL)
    world.passes_on(number)


def make_network():
    for name in [HUB, *HOSTS]:
        ip("netns", "add", name)
        ip("link", "set", "lo", "up", at=name)
    ip("link", "add", "bridge", "type", "bridge", at=HUB)
    ip("link", "set", "bridge", "up", at=HUB)
    ip("addr", "add", "10.78.0.254/24", "dev", "bridge", at=HUB)
    # A neighbour accepts every announcement at once, even an unsolicited one, or one right after another.
    subprocess.run(["ip", "netns", "exec", HUB, "sh", "-c",
                    "echo 0 >/proc/sys/net/ipv4/neigh/bridge/locktime;"
                    "echo 1 >/proc/sys/net/ipv4/conf/bridge/arp_accept"], check=True)
    for i, name in enumerate(HOSTS):
        ip("link", "add", f"v{i}", "type", "veth", "peer", "name", "eth0", "netns", name, at=HUB)
        ip("link", "set", f"v{i}", "master", "bridge", "up", at=HUB)
        ip("addr", "add", f"10.78.0.{i + 1}/24", "dev", "eth0", at=name)
        ip("link", "set", "eth0", "up", at=name)


def main():
    skipped = why_no_namespaces()
    if skipped:
        print(f"1..0 # SKIP {skipped}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the clean-up runs
    os.environ["PATH"] = os.path.dirname(CONCLAVE) + ":" + os.environ["PATH"]
    os.environ["CONCLAVE_STATE"] = os.environ["XDG_RUNTIME_DIR"] = WORK
    etcd = os.environ.get("CV_TEST_ETCD")
    tests = [after_a_partition, after_a_kill_of_both] if etcd \
        else [after_a_kill, after_a_stop, after_a_resignation, an_ipv6_address_is_announced]
    print(f"1..{len(tests)}", flush=True)
    world = None
    failed = 0
    try:
        make_network()
        via = f"sqlite:{WORK}/vip.db"
        if etcd:
            port = int(re.search(r"127\.0\.0\.1:(\d+)", etcd).group(1))
            Relay(Namespaces(), port).start()
            via = re.sub(r"127\.0\.0\.1:.*?(?=/|\?|$)", f"10.78.0.254:{port}", etcd)
        world = World(via, "6s")
        for number, test in enumerate(tests, 1):
            try:
                test(world)
                assert world.watcher.on_two == 0, f"{world.watcher.on_two} times on two machines"
                print(f"ok {number} - {test.__name__} # {world.watcher.looks} looks", flush=True)
            except Exception:  # pylint: disable=broad-except
                failed += 1
                print(f"not ok {number} - {test.__name__}", flush=True)
                said = [open(machine.err.name, encoding="utf-8").read() for machine in world.machines]
                for line in (traceback.format_exc() + "".join(said)).splitlines():
                    print("# " + line, flush=True)
                break
    finally:
        if world:
            world.close()
        for name in [HUB, *HOSTS]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        shutil.rmtree(WORK, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
