#!/usr/bin/env python3
"""bench/bench_run.py CONCLAVE STAMP host|servers|memory [--tiny] - `conclave run` compared with similar commands.

STAMP is the command that all of them run (bench/stamp.c): it writes the instant of its first action. A take-over
is measured from kill(2) to the next command's first action, and a start from spawning to that action. All times
are of CLOCK_MONOTONIC.
  host     on one machine, with sqlite: what a start costs, a take-over after kill -9 of the supervisor,
           an idle contender; beside it flock(1)
  servers  within tools/with-servers: hand-over and take-over on postgres and etcd; beside them psql with
           an advisory lock, and `etcdctl lock`
  memory   within tools/with-servers: the memory of a waiting contender on each store. Once beside others that
           use the same program and libraries, and once with copies of them (libraries=own), as if it were
           the only one on the machine; only the C library, which every process uses, stays shared
Commands that are not installed are left out with a message. Tiny: the same in miniature, to check that it
still works; its figures mean nothing."""

import os
import pathlib
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT = 60  # seconds; only a failure takes so long


class Failure(Exception):
    pass


def await_that(condition, what):
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"timed out after {LIMIT} s waiting for: {what}")
        time.sleep(0.002)


def spread(times_ms):
    return (f"runs={len(times_ms)} p50_ms={statistics.median(times_ms):.3f} "
            f"min_ms={min(times_ms):.3f} max_ms={max(times_ms):.3f}")


def say(line):
    print(line, flush=True)


def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


class Stamps:
    """A pipe that the commands write to: one line each."""

    def __init__(self, folder):
        self.path = tempfile.mktemp(dir=folder, prefix="stamps-")
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)  # for writing, too, so that reading never meets its end
        self.text = b""
        self.pids = set()

    def next(self, limit_s=LIMIT):
        """(instant in ns, process id) of the next command that began; None: there was none."""
        while b"\n" not in self.text:
            if not select.select([self.fd], [], [], limit_s)[0]:
                return None
            self.text += os.read(self.fd, 4096)
        line, self.text = self.text.split(b"\n", 1)
        instant, pid, _ = line.split()
        self.pids.add(int(pid))
        return int(instant), int(pid)

    def expect(self):
        stamp = self.next()
        if stamp is None:
            raise Failure(f"no command began within {LIMIT} s")
        return stamp


class Disk:
    """The disk alone, without our code: writes and flushes 28 KiB, as much as one grant writes to the log."""

    BYTES = 28672

    def __init__(self, folder):
        self.fd = os.open(f"{folder}/flushed", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.times = []

    def flush(self):
        os.pwrite(self.fd, b"x" * self.BYTES, 0)
        begin = time.monotonic_ns()
        os.fdatasync(self.fd)
        self.times.append((time.monotonic_ns() - begin) / 1e6)


class Contest:
    """Contenders that run the command as soon as they may."""

    def __init__(self, folder, command, count=3, is_ready=None, is_loud=True):
        self.stamps = Stamps(folder)
        self.command = command(self.stamps.path)
        self.count = count
        self.is_ready = is_ready
        self.files = [] if is_loud else [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        self.pids = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for pid in self.stamps.pids:  # commands that outlived their wrapper: some of the other programs allow that
            try:
                if "stamp" in pathlib.Path(f"/proc/{pid}/comm").read_text():
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def fill(self):
        """Replaces contenders that are gone."""
        while len(self.pids) < self.count:
            self.pids.append(os.posix_spawn(self.command[0], self.command, os.environ,
                                            file_actions=self.files))

    def settle(self, leader, pause_s):
        """Waits until all others wait."""
        if self.is_ready is not None:
            await_that(lambda: all(self.is_ready(pid) for pid in self.pids if pid != leader),
                       "contenders to wait")
        time.sleep(pause_s)

    def owner(self, pid):
        """The contender that this command belongs to."""
        while pid not in self.pids:
            pid = parent(pid)
            if pid <= 1:
                raise Failure("a command without a contender")
        return pid

    def gone(self, pid):
        os.waitpid(pid, 0)
        self.pids.remove(pid)

    def measure(self, runs, kills_command, pause_s, after=None):
        """The times from the signal until the next command begins, in ms. `after` is called after each."""
        times = []
        self.fill()
        _, command = self.stamps.expect()
        for _ in range(runs):
            self.fill()
            leader = self.owner(command)
            self.settle(leader, pause_s)
            begin = time.monotonic_ns()
            if kills_command:
                os.kill(command, signal.SIGTERM)
            else:
                os.kill(leader, signal.SIGKILL)
            instant, command = self.stamps.expect()
            times.append((instant - begin) / 1e6)
            self.gone(leader)
            if after is not None:
                after()
        return times


class Bench:
    def __init__(self, program, stamp, folder, is_tiny):
        self.program, self.stamp, self.folder, self.is_tiny = program, stamp, folder, is_tiny
        self.flock = shutil.which("flock")
        self.etcdctl = shutil.which("etcdctl")
        self.psql = shutil.which("psql")

    def scaled(self, runs):
        return min(runs, 2) if self.is_tiny else runs

    def run(self, name, address, *options):
        """The command line of a contender, for a file of stamps."""
        return lambda path: [self.program, "run", name, "--via", address, *options, "--", self.stamp,
                             path, "600"]

    # ---- one host --------------------------------------------------------------------------------

    def start(self):
        """All kinds in turn, so that a slower machine slows all of them."""
        stamps = Stamps(self.folder)
        command = [self.stamp, stamps.path]
        subjects = {"direct": command}
        if self.flock:
            subjects["flock"] = [self.flock, f"{self.folder}/lock", *command]
        subjects["conclave"] = [self.program, "run", "start", "--via",
                                f"sqlite:{self.folder}/start", "--", *command]
        began = {name: [] for name in subjects}
        ended = {name: [] for name in subjects}
        for turn in range(-1, self.scaled(100)):  # one to warm up
            for name, argv in subjects.items():
                begin = time.monotonic_ns()
                pid = os.posix_spawn(argv[0], argv, os.environ)
                _, status = os.waitpid(pid, 0)
                end = time.monotonic_ns()
                instant, _ = stamps.expect()
                if status != 0:
                    raise Failure(f"{argv} ended with {status}")
                if turn >= 0:
                    began[name].append((instant - begin) / 1e6)
                    ended[name].append((end - begin) / 1e6)
        for until, times in (("first-action", began), ("gone", ended)):
            for name in subjects:
                adds = statistics.median(times[name]) - statistics.median(times["direct"])
                asked = " asked_adds_ms=10" if (name, until) == ("conclave", "first-action") else ""
                say(f"start by={name} until={until} {spread(times[name])} adds_p50_ms={adds:.3f}{asked}")

    @staticmethod
    def listens(pid):
        """Does this contender listen to the leader's lifeline?"""
        try:
            return any(".alive/" in os.readlink(entry)
                       for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            return False

    def takeover(self):
        runs = self.scaled(60)
        # Leaders die rarely. Contenders that are notified all the time look less often, and a leader that has
        # renewed its lease keeps the log short: a short lease makes these pauses short.
        with Contest(self.folder, self.run("takeover", f"sqlite:{self.folder}/takeover", "--lease", "1s"),
                     is_ready=self.listens) as contest:
            disk = Disk(self.folder)  # measured in between, so that a stalling disk affects both
            times = contest.measure(runs, kills_command=False, pause_s=0.5, after=disk.flush)
        say(f"takeover by=conclave store=sqlite kill=supervisor contenders=3 {spread(times)} "
            "asked_p50_ms=4 asked_max_ms=20")
        say(f"disk call=fdatasync bytes={Disk.BYTES} between=takeovers {spread(disk.times)}")
        if not self.flock:
            say("takeover by=flock skipped=not-installed")
            return
        lock = f"{self.folder}/lock"
        with Contest(self.folder, lambda path: [self.flock, "--no-fork", lock, self.stamp, path,
                                                "600"]) as contest:
            times = contest.measure(runs, kills_command=False, pause_s=0.05)
        say(f"takeover by=flock option=--no-fork kill=command contenders=3 {spread(times)}")
        with Contest(self.folder, lambda path: [self.flock, lock, self.stamp, path, "600"],
                     count=2) as contest:
            contest.fill()
            _, command = contest.stamps.expect()
            leader = contest.owner(command)
            time.sleep(0.1)
            os.kill(leader, signal.SIGKILL)
            contest.gone(leader)
            waited_s = 0.2 if self.is_tiny else 2
            taken = "no" if contest.stamps.next(waited_s) is None else "yes"
            say(f"takeover by=flock kill=wrapper waited_s={waited_s} taken={taken} "
                "(the command lives on, and holds the lock)")

    @staticmethod
    def cpu_ns(pid):
        return sum(int((task / "schedstat").read_text().split()[0])
                   for task in pathlib.Path(f"/proc/{pid}/task").iterdir())

    @staticmethod
    def memory_kib(pid):
        found = {}
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            key, value = line.split(":")
            found[key] = int(value.split()[0])
        return found["Rss"], found["Pss"], found["Private_Clean"] + found["Private_Dirty"]

    @staticmethod
    def processes(waiting):
        """The three processes of a contender, as soon as all of them are there."""
        await_that(lambda: children(waiting) and children(children(waiting)[0]), "the next process")
        guard, = children(waiting)
        return {"supervisor": waiting, "guard": guard, "next": children(guard)[0]}

    def idle(self):
        with Contest(self.folder, self.run("idle", f"sqlite:{self.folder}/idle"), count=2,
                     is_ready=self.listens) as contest:
            contest.fill()
            leader = contest.owner(contest.stamps.expect()[1])
            contest.settle(leader, pause_s=0.5)
            waiting, = [pid for pid in contest.pids if pid != leader]
            of = self.processes(waiting)
            before = {name: self.cpu_ns(pid) for name, pid in of.items()}
            begin = time.monotonic_ns()
            time.sleep(0.3 if self.is_tiny else 20)
            taken_ns = time.monotonic_ns() - begin
            sums = [0, 0]
            for name, pid in of.items():
                rss, pss, private = self.memory_kib(pid)
                percent = 100 * (self.cpu_ns(pid) - before[name]) / taken_ns
                sums = [sums[0] + pss, sums[1] + percent]
                say(f"idle of={name} over_s={taken_ns / 1e9:.1f} cpu_percent={percent:.4f} rss_kib={rss} "
                    f"pss_kib={pss} private_kib={private}")
            say(f"idle of=contender cpu_percent={sums[1]:.4f} pss_kib={sums[0]} asked_cpu_percent=0.1 "
                "asked_pss_kib=4096")

    def copies(self):
        """A folder with the program, its modules and all libraries but those of the C library."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder, prefix="own-"))
        files = [pathlib.Path(self.program), *pathlib.Path(self.program).parent.glob("conclave-*.so")]
        files += [pathlib.Path(path) for path in {
            path for file in files for path in re.findall(
                r"=> (/\S+)", subprocess.run(["ldd", file], capture_output=True, text=True).stdout)
            if not re.search(r"/lib(c|m|dl|pthread|resolv)\.so", path)}]
        for file in files:
            shutil.copy(file, folder)
        return folder

    def waiting_memory(self, store, address):
        """The proportional set size of a contender that waits, beside a leader."""
        name = f"memory {store} {os.getpid()}"
        with Contest(self.folder, self.run(name, address), count=1) as contest:
            contest.fill()
            contest.stamps.expect()
            own = self.copies()
            for libraries, program, more in (
                    ("shared", self.program, {}),
                    ("own", str(own / "conclave"), {"LD_LIBRARY_PATH": str(own), "CONCLAVE_MODULES": str(own)})):
                waiting = subprocess.Popen([program, "run", name, "--via", address, "--", self.stamp,
                                            contest.stamps.path, "600"], env=os.environ | more)
                try:
                    time.sleep(0.5 if self.is_tiny else 20)  # it has looked, waits, and has given back memory
                    of = self.processes(waiting.pid)
                    sizes = {part: self.memory_kib(pid) for part, pid in of.items()}
                finally:
                    waiting.terminate()
                    waiting.wait()
                pss = {part: size[1] for part, size in sizes.items()}
                private = sum(size[2] for size in sizes.values())
                say(f"memory of=contender store={store} libraries={libraries} pss_kib={sum(pss.values())} "
                    f"({', '.join(str(size) for size in pss.values())}) private_kib={private} "
                    "asked_pss_kib=4096")

    def host(self):
        self.start()
        self.takeover()
        self.idle()

    def memory(self):
        self.waiting_memory("sqlite", f"sqlite:{self.folder}/memory")
        for store, variable in (("postgres", "POSTGRES"), ("etcd", "ETCD"), ("etcd+tls", "ETCD_TLS"),
                                ("zookeeper", "ZOOKEEPER")):
            address = os.environ.get(f"CV_TEST_{variable}")
            if not address:
                say(f"memory of=contender store={store} skipped=no-server")
                continue
            if store == "postgres":
                subprocess.run([self.program, "store", "init", address], check=True,
                               stdout=subprocess.DEVNULL)
            self.waiting_memory(store, address)

    # ---- with servers ----------------------------------------------------------------------------

    def contest(self, label, command, runs, kills_command, pause_s=0.5, count=2):
        what = "handover" if kills_command else "takeover"
        # etcdctl reports each command that we end as an error
        is_loud = "etcdctl" not in label
        with Contest(self.folder, command, count=count, is_loud=is_loud) as contest:
            times = contest.measure(self.scaled(runs), kills_command, pause_s)
        say(f"{what} {label} contenders={count} {spread(times)}")

    def advisory_lock(self, path):
        url = os.environ["CV_TEST_POSTGRES"]
        return [self.psql, url, "-qAtX", "-o", "/dev/null", "-c", "SELECT pg_advisory_lock(6)", "-c",
                f"\\! exec {self.stamp} {path} 600"]

    def etcd_lock(self, name, *options):
        hosts = os.environ["CV_TEST_ETCD"].removeprefix("etcd://")
        return lambda path: [self.etcdctl, f"--endpoints={hosts}", "lock", *options, name, self.stamp,
                             path, "600"]

    def servers(self):
        os.environ["ETCDCTL_API"] = "3"
        pid = os.getpid()
        stores = {name: os.environ.get(f"CV_TEST_{name.upper()}") for name in ("postgres", "etcd")}
        shortest = {"postgres": "100ms", "etcd": "1s"}
        for store, address in stores.items():
            if not address:
                say(f"handover by=conclave store={store} skipped=no-server")
                continue
            subprocess.run([self.program, "store", "init", address], check=True,
                           stdout=subprocess.DEVNULL)
            self.contest(f"by=conclave store={store} end=command-ends",
                         self.run(f"handover {pid}", address), 10, kills_command=True)
            for lease in ["1s"] if self.is_tiny else dict.fromkeys(["5s", "1s", shortest[store]]):
                self.contest(f"by=conclave store={store} kill=supervisor lease={lease}",
                             self.run(f"takeover {lease} {pid}", address, "--lease", lease),
                             2 if lease == "5s" else 5, kills_command=False)
        if stores["postgres"] and self.psql:
            self.contest("by=psql lock=advisory end=command-ends", self.advisory_lock, 10,
                         kills_command=True)
            self.contest("by=psql lock=advisory kill=psql", self.advisory_lock, 10,
                         kills_command=False)
        if stores["etcd"] and self.etcdctl:
            self.contest("by=etcdctl end=command-ends", self.etcd_lock(f"/handover-{pid}"), 10,
                         kills_command=True)
            self.contest("by=etcdctl kill=etcdctl ttl_s=1", self.etcd_lock(f"/one-{pid}", "--ttl=1"), 5,
                         kills_command=False)
            if not self.is_tiny:
                self.contest("by=etcdctl kill=etcdctl ttl_s=10 (its default)",
                             self.etcd_lock(f"/default-{pid}"), 2, kills_command=False)
        else:
            say("takeover by=etcdctl skipped=not-installed")


def main():
    words = [word for word in sys.argv[1:] if word != "--tiny"]
    is_tiny = "--tiny" in sys.argv
    if len(words) != 3 or words[2] not in ("host", "servers", "memory"):
        print(__doc__, file=sys.stderr)
        return 2
    program, stamp, part = os.path.abspath(words[0]), os.path.abspath(words[1]), words[2]
    version = subprocess.run([program, "--version"], check=True, capture_output=True,
                             text=True).stdout.split()[-1]
    say(f"# bench=run part={part} version={version} clock=real cpus={os.cpu_count()} "
        f"load_1min={os.getloadavg()[0]:.1f}{' tiny' if is_tiny else ''}")
    folder = tempfile.mkdtemp(prefix="conclave-bench-")
    os.environ["CONCLAVE_STATE"] = folder
    try:
        getattr(Bench(program, stamp, folder, is_tiny), part)()
    except Failure as failure:
        print(f"bench_run: {failure}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
