#!/usr/bin/env python3
"""bench/bench_cluster.py CONCLAVE PEERS_CLAIMS [--tiny] - three members of a cluster on one machine.

Members are tests/system/peers_claims.c: they write the instant from which cv_leads() is true, so a
take-over is measured from the signal to the next claim, all on CLOCK_BOOTTIME.
  stop    the leader gets SIGSTOP: no witness tells the others
  cut     the leader's link to the bridge goes down: members in network namespaces; as root
  kill    the leader gets SIGKILL
  resign  `conclave resign`, from the old leader's last instant to the next one's first
  idle    processor and memory of all three together while nothing happens
  bare    processor of three bare processes with the same heartbeats: see bare_beats.c
Tiny: the same in miniature, to check that it still works; its figures mean nothing."""

import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from namespaces import Network  # pylint: disable=wrong-import-position
from ports import free_ports  # pylint: disable=wrong-import-position

CONCLAVE, CLAIMS = sys.argv[1:3]
TINY = "--tiny" in sys.argv
LIMIT_S = 60  # only a failure takes so long
NAMES = ["a", "b", "c"]
AGE_S = 0.02 if "--tiny" in sys.argv else 0.3  # a witness gives certain hints once its member is older than a lease
# The required median and maximum of each, in milliseconds.
ASKED = {("pole", "loopback", "stop"): (15, 20), ("pole", "lan", "stop"): (50, 60),
         ("pole", "loopback", "cut"): (15, 20), ("pole", "lan", "cut"): (50, 60),
         ("local", "loopback", "stop"): (12, 30), ("pole", "loopback", "resign"): (1, None)}
ASKED.update({(protocol, profile, "kill"): (1, 5) for protocol, profile in
              (("pole", "lan"), ("pole", "loopback"), ("local", "loopback"))})
LOOPBACK = "profile = loopback\nheartbeat = 3ms\ntimeout = 12ms\nround = 2500us\nlease = 15ms"


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Cluster:
    def __init__(self, folder, protocol, options, is_plain=False, network=None):
        self.network = network  # None: all are on loopback
        self.is_plain = is_plain  # `conclave elect`, which does not read the clock all the time
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
        subprocess.run([CONCLAVE, "keygen", str(self.folder / "key")], check=True)
        self.file = self.folder / "cluster.ini"
        text = (f"[cluster]\nname = bench\ngeneration = 1\nkey = key\nstate = .\nprotocol = {protocol}\n"
                f"[options]\n{options}\n")
        for i, (name, port) in enumerate(zip(NAMES, free_ports(len(NAMES)))):
            host = network.address(i) if network else "127.0.0.1"
            text += f"[member {name}]\nid = {i + 1}\naddress = {host}:{port}\n"
        self.file.write_text(text)
        self.processes, self.started = {}, {}
        for name in NAMES:
            self.start(name)

    def start(self, name):
        command = ([CONCLAVE, "elect", "e", "--via", f"peers:{self.file}", "--node", name] if self.is_plain else
                   [CLAIMS, "member", "e", str(self.file), name, str(self.folder / f"{name}.log")])
        self.started[name] = time.monotonic()
        command = (self.network.inside(NAMES.index(name)) if self.network else []) + command
        self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                stderr=subprocess.DEVNULL)

    def claims(self):
        """(token, first instant, member, process id) of each claim, the latest last."""
        found = {}
        for name in NAMES:
            path = self.folder / f"{name}.log"
            for line in path.read_text().splitlines() if path.exists() else []:
                words = line.split()
                if words[0] == "claim" and len(words) == 5:
                    found.setdefault(int(words[3]), (int(words[3]), int(words[2]), name, int(words[1])))
        return [found[token] for token in sorted(found)]

    def ends(self, name):
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        return [int(line.split()[2]) for line in lines if line.startswith("end ")]

    def next(self, above):
        """The claim with the first token larger than `above`."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            found = [claim for claim in self.claims() if claim[0] > above]
            if found:
                return found[0]
            time.sleep(0.002)
        raise SystemExit(f"timed out after {LIMIT_S} s waiting for a token above {above}")

    def settled(self, token):
        """Waits until all follow the leader with that token or a later one; returns the latest claim."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            latest = self.claims()[-1]
            seen = []
            for name in NAMES:
                lines = [line.split() for line in (self.folder / f"{name}.log").read_text().splitlines()
                         if line.startswith(f"sees {self.processes[name].pid} ")]
                seen.append(lines[-1][2:4] if lines else None)
            if latest[0] >= token and all(s == [str(latest[0]), latest[2]] for s in seen):
                return latest
            time.sleep(0.005)
        raise SystemExit(f"timed out after {LIMIT_S} s waiting for agreement on {token}")

    def close(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def take_over(cluster, how, runs):
    times = []
    latest = cluster.settled(cluster.next(0)[0])
    for _ in range(runs):
        time.sleep(max(0, max(cluster.started.values()) + AGE_S - time.monotonic()))
        latest = cluster.settled(latest[0])  # with `local` a lower id that comes back leads again
        process = cluster.processes[latest[2]]
        began = now_ns()
        if how == "cut":
            cluster.network.plug(NAMES.index(latest[2]), False)
        else:
            process.send_signal(how)
        following = cluster.next(latest[0])
        times.append((following[1] - began) / 1e6)
        if how == "cut":
            cluster.network.plug(NAMES.index(latest[2]), True)
        elif how == signal.SIGSTOP:
            process.send_signal(signal.SIGCONT)
        else:
            process.wait()
            cluster.start(latest[2])
        latest = cluster.settled(following[0])
    return times


def resign(cluster, runs):
    times = []
    latest = cluster.settled(cluster.next(0)[0])
    for _ in range(runs):
        heir = NAMES[(NAMES.index(latest[2]) + 1) % len(NAMES)]
        done = subprocess.run([CONCLAVE, "resign", "e", "--via", f"peers:{cluster.file}", "--to", heir], check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode not in (0, 1):  # 1: after the first start another may be elected
            sys.exit(f"bench_cluster: resign exited with {done.returncode}")
        following = cluster.next(latest[0])
        times.append((following[1] - cluster.ends(latest[2])[-1]) / 1e6)
        latest = cluster.settled(following[0])
        time.sleep(0 if TINY else 0.5)  # a leader that has just resigned stands back for a while
    return times


def idle(cluster, seconds):
    while subprocess.run([CONCLAVE, "status", "e", "--via", f"peers:{cluster.file}"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, timeout=LIMIT_S).returncode != 0:
        time.sleep(0.02)

    def used():
        ticks = 0
        for process in cluster.processes.values():
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    before, began = used(), time.monotonic()
    time.sleep(seconds)
    percent = 100 * (used() - before) / (time.monotonic() - began)
    resident = [int(line.split()[1]) for process in cluster.processes.values()
                for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
                if line.startswith("VmRSS:")]
    return percent, max(resident)


def bare(profile, seconds):
    """The processor time of the kernel alone with the same heartbeats."""
    program = pathlib.Path(CONCLAVE).resolve().parent / "bench" / "bare_beats"
    said = subprocess.run([program, {"lan": "10", "loopback": "3"}[profile], str(seconds)], capture_output=True,
                          text=True, check=True).stdout
    print(f"cluster what=bare profile={profile} n={len(NAMES)} processor_percent={float(said):.2f}", flush=True)


def report(name, protocol, profile, times):
    asked = ASKED.get((protocol, profile, name))
    beside = f" asked_p50_ms={asked[0]} asked_max_ms={asked[1]}" if asked else ""
    print(f"cluster what={name} protocol={protocol} profile={profile} n={len(NAMES)} runs={len(times)} "
          f"p50_ms={statistics.median(times):.2f} min_ms={min(times):.2f} max_ms={max(times):.2f}{beside}", flush=True)


def cut(folder, protocol, profile, options, runs):
    try:
        network = Network(len(NAMES))
    except (subprocess.CalledProcessError, OSError) as why:
        print(f"# cut: left out: no network namespaces here: {why}", flush=True)
        return
    try:
        cluster = Cluster(folder, protocol, options, network=network)
        try:
            report("cut", protocol, profile, take_over(cluster, "cut", runs))
        finally:
            cluster.close()
    finally:
        network.close()


def main():
    runs = 1 if TINY else 20
    folder = tempfile.mkdtemp()
    version = subprocess.run([CONCLAVE, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    print(f"# bench=cluster version={version} clock=boottime")
    try:
        kinds = [("pole", "profile = lan", "lan")] if TINY else [
            ("pole", "profile = lan", "lan"),
            ("pole", LOOPBACK, "loopback"),
            ("local", "profile = loopback\nmajority = yes", "loopback")]
        for protocol, options, profile in kinds:
            cluster = Cluster(folder, protocol, options)
            try:
                for name, how in (("stop", signal.SIGSTOP), ("kill", signal.SIGKILL)):
                    report(name, protocol, profile, take_over(cluster, how, runs))
                if protocol == "pole":
                    report("resign", protocol, profile, resign(cluster, runs))
            finally:
                cluster.close()
            if protocol == "pole":
                cut(folder, protocol, profile, options, runs)
            cluster = Cluster(folder, protocol, options, is_plain=True)
            try:
                percent, resident = idle(cluster, 0.2 if TINY else 5)
                print(f"cluster what=idle protocol={protocol} profile={profile} n={len(NAMES)} "
                      f"processor_percent={percent:.2f} resident_kib_max={resident}", flush=True)
            finally:
                cluster.close()
            if protocol == "pole":
                bare(profile, 0.2 if TINY else 5)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
