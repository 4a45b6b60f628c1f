#!/usr/bin/env python3
"""bench/bench_beside.py CONCLAVE PEERS_CLAIMS [--tiny] - time until the next leader, compared with other systems.

Three members of each on this machine, one system at a time, all in one run:
  conclave    `pole`, profile lan, and loopback with a lease of 15 ms; until cv_leads() is true in another process
  etcd        heartbeat 10 ms, election timeout 50 ms; until a survivor names another leader
  zookeeper   tick 20 ms; until a survivor says that it is the leader
  keepalived  VRRP version 3, adverts each 10 ms, in network namespaces; until another has become master
Only those that are installed. The leader gets SIGKILL, or SIGSTOP. `times_ours` compares with the faster of our
two. Tiny: the same in miniature, to check that it still works; its figures mean nothing."""

import http.client
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from bench_cluster import LIMIT_S, LOOPBACK, TINY, Cluster, take_over  # pylint: disable=wrong-import-position
from namespaces import Network  # pylint: disable=wrong-import-position
from ports import free_ports  # pylint: disable=wrong-import-position

RUNS = 1 if TINY else 20
SLOWER = 10 if TINY else 1  # among the tests the machine may be too busy for such short times
FAULTS = [("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)]


def wait_for(what, condition):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        value = condition()
        if value is not None and value is not False:
            return value
        time.sleep(0.0005)
    raise SystemExit(f"timed out after {LIMIT_S} s waiting for: {what}")


class Servers:
    """Three processes of a system; each subclass starts them, and asks one whether it leads."""

    def __init__(self, folder):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
        self.processes = [None] * 3
        self.prepare()
        for i in range(3):
            self.start(i)

    def start(self, i):
        self.processes[i] = subprocess.Popen(self.command(i), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL)

    def all_of(self, i):
        return [self.processes[i].pid]

    def settled(self):
        """Waits until all agree on a leader, and returns it."""
        return wait_for(f"{self.name} has a leader", lambda: self.leader(range(3)))

    def take_over(self, how):
        times = []
        for _ in range(RUNS):
            old = self.settled()
            others = [i for i in range(3) if i != old]
            began = time.monotonic()
            for pid in self.all_of(old):
                os.kill(pid, how)
            wait_for(f"another leads {self.name}", lambda o=old, rest=others: self.successor(o, rest))
            times.append(1000 * (time.monotonic() - began))
            if how == signal.SIGSTOP:
                for pid in self.all_of(old):
                    os.kill(pid, signal.SIGCONT)
            else:
                self.processes[old].wait()
                self.start(old)
        return times

    def close(self):
        for i in range(3):
            for pid in self.all_of(i):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.processes[i].wait()


class Etcd(Servers):
    name, setting = "etcd", f"heartbeat={10 * SLOWER}ms,election={50 * SLOWER}ms"

    @staticmethod
    def is_there():
        return shutil.which("etcd") is not None

    def prepare(self):
        found = free_ports(6, socket.SOCK_STREAM)
        self.client, self.peer = found[:3], found[3:]
        self.links = [None] * 3

    def command(self, i):
        client, peer = f"http://127.0.0.1:{self.client[i]}", f"http://127.0.0.1:{self.peer[i]}"
        cluster = ",".join(f"m{n}=http://127.0.0.1:{port}" for n, port in enumerate(self.peer))
        return ["etcd", "--name", f"m{i}", "--data-dir", str(self.folder / f"m{i}"), "--listen-client-urls", client,
                "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", cluster, "--heartbeat-interval", str(10 * SLOWER), "--election-timeout",
                str(50 * SLOWER),
                "--logger", "zap", "--log-level", "error"]

    def ask(self, i):
        """(own id, leader's id), or None."""
        try:
            if self.links[i] is None:
                self.links[i] = http.client.HTTPConnection("127.0.0.1", self.client[i], timeout=1)
            self.links[i].request("POST", "/v3/maintenance/status", body="{}")
            said = json.loads(self.links[i].getresponse().read())
            return said["header"]["member_id"], said.get("leader", "0")
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            self.links[i] = None
            return None

    def leader(self, who):
        said = {i: self.ask(i) for i in who}
        if None in said.values():
            return None
        named = {leader for _, leader in said.values()}
        self.old = named.copy()
        return next((i for i, (own, _) in said.items() if named == {own}), None)

    def successor(self, _, who):
        said = [self.ask(i) for i in who]
        return any(s and s[1] != "0" and s[1] not in self.old for s in said)


class ZooKeeper(Servers):
    name, setting = "zookeeper", f"tick={20 * SLOWER}ms"
    classes = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar"

    @staticmethod
    def is_there():
        return shutil.which("java") is not None and os.path.exists("/usr/share/java/zookeeper.jar")

    def prepare(self):
        found = free_ports(9, socket.SOCK_STREAM)
        self.client = found[:3]
        servers = "".join(f"server.{i + 1}=127.0.0.1:{found[3 + i]}:{found[6 + i]}\n" for i in range(3))
        for i, port in enumerate(self.client):
            (self.folder / str(i)).mkdir()
            (self.folder / str(i) / "myid").write_text(f"{i + 1}\n")
            (self.folder / f"{i}.cfg").write_text(
                f"tickTime={20 * SLOWER}\ninitLimit=500\nsyncLimit=5\ndataDir={self.folder}/{i}\nclientPort={port}\n"
                "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\nforceSync=no\n"
                + servers)

    def command(self, i):
        return ["java", "-Xmx96m", "-XX:+UseSerialGC", "-Dzookeeper.jmx.log4j.disable=true", "-Dzookeeper.forceSync=no",
                "-cp", self.classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.folder / f"{i}.cfg")]

    def mode(self, i):
        try:
            with socket.create_connection(("127.0.0.1", self.client[i]), 0.5) as s:
                s.sendall(b"srvr")
                said = b"".join(iter(lambda: s.recv(4096), b"")).decode()
        except OSError:
            return None
        return next((line[6:] for line in said.splitlines() if line.startswith("Mode: ")), None)

    def leader(self, who):
        modes = {i: self.mode(i) for i in who}
        if sorted(map(str, modes.values())) != ["follower", "follower", "leader"]:
            return None
        return next(i for i, mode in modes.items() if mode == "leader")

    def successor(self, _, who):
        return any(self.mode(i) == "leader" for i in who)


class Keepalived(Servers):
    name, setting = "keepalived", f"advert={10 * SLOWER}ms"
    address = "10.78.0.100"

    @staticmethod
    def is_there():
        return shutil.which("keepalived", path=os.environ.get("PATH", "") + ":/usr/sbin") is not None

    def prepare(self):
        self.network = Network(3)
        self.pipes = []
        for i in range(3):
            os.mkfifo(self.folder / f"{i}.fifo")
            self.pipes.append(os.open(self.folder / f"{i}.fifo", os.O_RDWR | os.O_NONBLOCK))
            (self.folder / f"{i}.conf").write_text(
                f"global_defs {{\n vrrp_version 3\n vrrp_notify_fifo {self.folder}/{i}.fifo\n vrrp_garp_master_refresh 0\n}}\n"
                f"vrrp_instance V {{\n state BACKUP\n interface eth0\n virtual_router_id 51\n priority {200 - 50 * i}\n"
                f" advert_int {0.01 * SLOWER:g}\n virtual_ipaddress {{\n  {self.address}/24\n }}\n}}\n")

    def command(self, i):
        for name in (f"{i}.pid", f"{i}.vrrp.pid"):
            (self.folder / name).unlink(missing_ok=True)
        return self.network.inside(i) + ["/usr/sbin/keepalived", "-n", "-l", "-P", "-f", str(self.folder / f"{i}.conf"), "-p",
                                         str(self.folder / f"{i}.pid"), "-r", str(self.folder / f"{i}.vrrp.pid")]

    def all_of(self, i):
        pid = self.processes[i].pid
        try:
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            children = []
        return [int(child) for child in children] + [pid]

    def leader(self, who):
        """The first process has the highest priority, and leads whenever it runs."""
        has = [self.address in subprocess.run(["ip", "-n", self.network.spaces[i], "addr"], capture_output=True,
                                              text=True).stdout for i in who]
        if has != [True, False, False] or len(self.all_of(0)) < 2:
            return None
        time.sleep(0.3 * SLOWER)  # until all have heard it
        for pipe in self.pipes:
            while select.select([pipe], [], [], 0)[0]:
                os.read(pipe, 4096)
        return 0

    def successor(self, _, who):
        return any(select.select([self.pipes[i]], [], [], 0)[0] and b"MASTER" in os.read(self.pipes[i], 4096)
                   for i in who)

    def close(self):
        super().close()
        self.network.close()
        for pipe in self.pipes:
            os.close(pipe)


def report(system, setting, what, times, ours):
    ratio = f" times_ours={statistics.median(times) / ours[what]:.1f}" if what in ours else ""
    print(f"beside system={system} setting={setting} what={what} n=3 runs={len(times)} p50_ms={statistics.median(times):.2f} "
          f"min_ms={min(times):.2f} max_ms={max(times):.2f}{ratio}", flush=True)


def measure_ours(folder):
    ours = {}
    for setting, options in (("lan", "profile = lan"), ("loopback", LOOPBACK)):
        cluster = Cluster(folder, "pole", options)
        try:
            for what, how in FAULTS:
                times = take_over(cluster, how, RUNS)
                report("conclave", setting, what, times, {})
                ours[what] = min(ours.get(what, LIMIT_S * 1000), statistics.median(times))
        finally:
            cluster.close()
    return ours


def main():
    print("# bench=beside clock=monotonic")
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    try:
        ours = measure_ours(folder)
        for kind in (Etcd, ZooKeeper, Keepalived):
            if not kind.is_there() or (kind is Keepalived and os.geteuid() != 0):
                print(f"# {kind.name}: left out: not installed, or needs root", flush=True)
                continue
            servers = kind(folder)
            try:
                for what, how in FAULTS:
                    report(kind.name, kind.setting, what, servers.take_over(how), ours)
            finally:
                servers.close()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
