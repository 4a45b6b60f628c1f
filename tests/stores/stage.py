"""tests/stores/stage.py - contenders of `conclave run` for the tests of test_run.py: a Stage with their log, the
Members of a cluster, and a Relay that cuts them off from their servers."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from points import await_value  # pylint: disable=wrong-import-position

LIMIT = 60  # seconds; only a failure takes so long

# Each line of the log is one write(2) with O_APPEND. The resource (lines `write`) refuses tokens below
# the largest it has seen. A worker reports (`overlap`) if the previous one or its grandchild is alive.
WORKER = r"""
log=$1
say() { echo "$1 $CONCLAVE_NODE $CONCLAVE_TOKEN $$ $2" >>"$log"; }
for pid in $(cat "$log.pids" 2>/dev/null); do
    if kill -0 $pid 2>/dev/null; then say overlap $pid; fi
done
trap '' TERM
(setsid sh -c 'trap "" TERM; echo $$ >>"$1.pids.$CONCLAVE_TOKEN"; while :; do sleep 0.05; done' - "$log" &)
while [ ! -s "$log.pids.$CONCLAVE_TOKEN" ]; do sleep 0.01; done
echo $$ >>"$log.pids.$CONCLAVE_TOKEN"
mv "$log.pids.$CONCLAVE_TOKEN" "$log.pids"
say start "$(head -n 1 "$log.pids")"
while :; do
    (
        flock 9
        read -r fence <"$log.fence" || fence=0
        if [ "$CONCLAVE_TOKEN" -lt "$fence" ]; then
            say refused
        else
            echo "$CONCLAVE_TOKEN" >"$log.fence"
            say write
        fi
    ) 9>"$log.lock"
    sleep 0.05
done
"""


class Failure(Exception):
    pass


def await_that(condition, what):
    value = await_value(condition, LIMIT)
    if value is None:
        raise Failure(f"timed out after {LIMIT} s waiting for: {what}")
    return value


def children(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            text = pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text()
            found += [int(word) for word in text.split()]
    return found


class Stage:
    """Contenders of one election, and their log; ends them all."""

    def __init__(self, program, kind, address, folder, name, lease="2s"):
        self.kind = kind
        self.program, self.address, self.lease = program, address, lease
        self.name = f"{name} {os.getpid()}"  # stores keep their elections between suites
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
        self.log = self.folder / "log"
        self.log.write_text("")
        self.process = {}
        self.count = 0
        self.stopped = set()
        self.environment = dict(os.environ, CONCLAVE_STATE=str(self.folder / "state"))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for pid in self.stopped:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        for process in self.process.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.process.values():
            # SIGTERM is passed on to the worker, which ignores it and is then killed with its tree.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.2)
            if process.poll() is None:
                process.kill()
                process.wait()
        return False

    def lease_options(self):
        return ["--lease", self.lease]

    def next_node(self):
        self.count += 1
        return f"n{self.count - 1}"

    def spawn(self, command=None, options=(), machine=None):
        node = self.next_node()
        command = command or ["sh", "-c", WORKER, "worker", str(self.log)]
        arguments = [self.program, "run", self.name, "--via", self.address, "--node", node,
                     *self.lease_options(), "--verbose", *options, "--", *command]
        with open(self.folder / f"{node}.err", "w") as errors:
            self.process[node] = subprocess.Popen(arguments, stdin=subprocess.DEVNULL,
                                                  env=self.on(machine), stderr=errors)
        return node

    def watch(self, machine, address=None):
        """A watcher on another machine; returns a function that reads what it has printed so far."""
        path = self.folder / f"watch.{machine}"
        with open(path, "w") as output:
            self.process[f"watch {machine}"] = subprocess.Popen(
                [self.program, "watch", self.name, "--via", address or self.address, "--json"], stdin=subprocess.DEVNULL,
                env=self.on(machine), stdout=output)
        return lambda: [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def conclave(self, verb, *arguments, machine=None, address=None):
        return subprocess.run([self.program, verb, self.name, "--via", address or self.address, *arguments],
                              env=self.on(machine), capture_output=True, text=True,
                              timeout=LIMIT, check=False)

    def on(self, machine):
        """The environment on another machine, which has a state folder of its own."""
        return dict(self.environment, CONCLAVE_STATE=str(self.folder / machine)) if machine else self.environment

    def lines(self, what=None):
        rows = [line.split() for line in self.log.read_text().splitlines()]
        return [row for row in rows if what is None or row[0] == what]

    def starts(self):
        return [(row[1], int(row[2]), int(row[3]), int(row[4])) for row in self.lines("start")]

    def await_start(self, after=0):
        """The first worker with a larger token: (node, token, pid, grandchild)."""
        def found():
            return next((start for start in self.starts() if start[1] > after), None)
        try:
            return await_that(found, f"a worker with a token above {after}")
        except Failure as failure:
            notes = "\n".join(f"{path.name}: {path.read_text()}"
                              for path in sorted(self.folder.glob("*.err")))
            raise Failure(f"{failure}\n{notes}") from failure

    def guard(self, node):
        return children(self.process[node].pid)[0]

    def stop(self, pid):
        self.stopped.add(pid)
        os.kill(pid, signal.SIGSTOP)

    def check(self):
        overlaps = self.lines("overlap")
        if overlaps:
            raise Failure(f"a worker found another one alive: {overlaps}")
        tokens = [int(row[2]) for row in self.lines("write")]
        if tokens != sorted(tokens):
            raise Failure("the resource accepted a token below an earlier one")
        starts = [start[1] for start in self.starts()]
        if len(set(starts)) != len(starts) or starts != sorted(starts):
            raise Failure(f"tokens of workers do not grow: {starts}")


class Relay:
    """Between contenders and the servers of an address. During an outage answers are lost; when it ends, the
    connections are cut."""

    def __init__(self, stage):
        ports = re.findall(r":(\d+)", stage.address.split("://")[1])
        self.process = subprocess.Popen([str(pathlib.Path(stage.program).parent / "tests" / "chaos_relay"), *ports],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = stage.address
        for server, own in zip(ports, self.process.stdout.readline().split()):
            self.address = self.address.replace(f":{server}", f":{own}")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()


class Members(Stage):
    """The same among the members of a cluster. Its file names the members and the lease; a majority must run
    before any member can lead."""

    def __init__(self, program, kind, folder, name, count, lease_ms, protocol="pole"):
        super().__init__(program, kind, "", folder, name)
        (self.folder / "states").mkdir()
        subprocess.run([program, "keygen", str(self.folder / "key")], check=True)
        text = (f"[cluster]\nname = test\ngeneration = 1\nkey = key\nstate = states\nprotocol = {protocol}\n"
                "[options]\ndelta = 10ms\nsigma = 10ms\n")
        if protocol == "local":
            text += f"majority = yes\nep = 50ms\nlock = {lease_ms}ms\n"
        else:
            text += (f"lease = {lease_ms}ms\nheartbeat = {lease_ms // 10}ms\ntimeout = {lease_ms * 2 // 3}ms\n"
                     "round = 60ms\n")
        sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
        for number, one in enumerate(sockets):
            one.bind(("127.0.0.1", 0))
            text += f"[member n{number}]\nid = {number + 1}\naddress = 127.0.0.1:{one.getsockname()[1]}\n"
        for one in sockets:
            one.close()
        (self.folder / "cluster.ini").write_text(text)
        self.address, self.member_count = f"peers:{self.folder}/cluster.ini", count

    def lease_options(self):
        return []

    def next_node(self):
        """A member that never ran, or whose process is dead."""
        if len(self.process) < self.member_count:
            return f"n{len(self.process)}"
        return await_that(lambda: next((n for n, p in self.process.items() if p.poll() is not None), None),
                          "the death of a member")

    def await_start(self, after=0):
        if after == 0:  # the first start needs all members
            await_that(lambda: len(list((self.folder / "states").glob("*.state"))) == self.member_count,
                       "all members to join")
        return super().await_start(after)
