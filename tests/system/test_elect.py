#!/usr/bin/env python3
"""Real participants on a real network: `conclave elect` on loopback multicast, with Debian's snmpd as
the sequencer, and in network namespaces where those may be made.

Needs CONCLAVE and SOURCE_ROOT. Run without arguments it starts itself again beside an SNMP agent
(tools/with-snmpd). Waits for conditions, not for fixed times; ends only processes that it started; prints TAP."""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from points import await_value, why_no_namespaces  # pylint: disable=wrong-import-position

CONCLAVE = os.environ["CONCLAVE"]
WITH_SNMPD = os.path.join(os.environ["SOURCE_ROOT"], "tools", "with-snmpd")
GROUP = "239.255.67.86"
PATIENCE_S = 60  # only a failure takes so long
PACE = "eta=60ms&eps=300ms"  # slow enough for a machine that is busy with other things

points = []
members = []
work = pathlib.Path(tempfile.mkdtemp())


class Failed(Exception):
    pass


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(what, condition):
    """Waits until the condition is true, and returns its value."""
    value = await_value(condition, PATIENCE_S)
    if value is None:
        for member in members:
            print(f"# {member.describe()}")
        raise Failed(f"never happened: {what}")
    return value


def check(what, condition):
    if not condition:
        raise Failed(what)


class Member:
    """A participant; its output goes to files."""

    def __init__(self, via, name="test", prefix=()):
        stem = work / f"member{len(list(work.glob('*.out')))}"
        self.out, self.err = stem.with_suffix(".out"), stem.with_suffix(".err")
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.process = subprocess.Popen([*prefix, CONCLAVE, "elect", name, "--via", via, "--json"],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        members.append(self)

    def lines(self):
        text = self.out.read_text()
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def now(self):
        lines = self.lines()
        return lines[-1] if lines else None

    def said(self):
        return self.err.read_text()

    def is_up(self):
        return self.process.poll() is None

    def describe(self):
        return f"{self.out.name} status {self.process.poll()} {self.now()} {self.said()!r}"

    def kill(self):
        self.process.kill()
        self.process.wait()
        members.remove(self)

    def stop(self):
        self.process.terminate()
        status = self.process.wait(timeout=PATIENCE_S)
        members.remove(self)
        return status


def agreement(group, above=0):
    """The leader that all of them agree on, if there is one and its token is larger than `above`."""
    now = [member.now() for member in group]
    if not all(now) or len({(n["leader"], n["token"]) for n in now}) != 1:
        return None
    leaders = [m for m, n in zip(group, now) if n["role"] == "leader"]
    if len(leaders) != 1 or now[0]["leader"] is None or now[0]["token"] <= above:
        return None
    if leaders[0].now()["self"] != now[0]["leader"]:
        return None
    return leaders[0]


def agree(group, above=0):
    return until(f"{len(group)} agree on a leader with a token above {above}",
                 lambda: agreement(group, above))


def end_all():
    for member in list(members):
        member.kill()


def no_order_broken(group):
    """leader-order: tokens only grow within each life."""
    for member in group:
        tokens = [line["token"] for line in member.lines() if line["leader"] is not None]
        check(f"tokens of {member.out.name} grow: {tokens}", tokens == sorted(tokens))


# ---- the tests ------------------------------------------------------------------------------------

def via(sequencer, more="insecure", port=None, interface="127.0.0.1", r=4):
    return (f"multicast:{GROUP}:{port or free_port()}?interface={interface}&{PACE}&R={r}"
            f"&sequencer={sequencer}&{more}")


def snmp():
    return f"snmp:{os.environ['SNMP_ADDRESS']}/public"


def survives_kills(group, count):
    """Kills `count` leaders, one after the other; each time another one leads."""
    token = 0
    for _ in range(count):
        leader = agree(group, token)
        token = leader.now()["token"]
        leader.kill()
        group.remove(leader)
    agree(group, token)
    no_order_broken(group)


def ten_processes_with_a_key_elect_and_survive_kills():
    key = work / "key"
    subprocess.run([CONCLAVE, "keygen", str(key)], check=True)
    address = via(snmp(), f"key={key}")
    survives_kills([Member(address) for _ in range(10)], 4)


def numbers_grow_after_the_agent_restarts():
    address = via(snmp())
    group = [Member(address) for _ in range(4)]
    token = agree(group).now()["token"]
    for _ in range(2):
        subprocess.run(os.environ["SNMP_STOP"], shell=True, check=True)
        subprocess.run(os.environ["SNMP_START"], shell=True, check=True)
        generation = token >> 40
        for _ in range(4): # the first may still lead with a number from before the restart
            leader = agree(group)
            leader.kill()
            group.remove(leader)
            leader = agree(group, token)
            token = leader.now()["token"]
            group.append(Member(address))
            agree(group)
            if token >> 40 > generation:
                break
        check(f"{token} is of a later generation than {generation}", token >> 40 > generation)
    no_order_broken(group)


def an_agent_that_is_down_disturbs_nobody_and_is_reported():
    address = via(snmp())
    group = [Member(address) for _ in range(3)]
    leader = agree(group)
    subprocess.run(os.environ["SNMP_STOP"], shell=True, check=True)
    try:
        newcomer = Member(address)
        group.append(newcomer)
        agree(group)
        leader = agree(group)
        token = leader.now()["token"]
        leader.kill()
        group.remove(leader)
        until("a member reports that the agent does not answer",
              lambda: any("does not answer" in m.said() for m in group))
        check("nobody leads without a number",
              not any(n["role"] == "leader" and n["token"] > token for m in group for n in m.lines()))
        check("one line each", all(m.said().count("\n") <= 1 for m in group))
    finally:
        subprocess.run(os.environ["SNMP_START"], shell=True, check=True)
    agree(group, token)


def another_community_never_leads():
    member = Member(via(f"snmp:{os.environ['SNMP_ADDRESS']}/wrong"))
    until("it says so", lambda: "is the community right?" in member.said())
    check("it does not lead", not any(n["role"] == "leader" for n in member.lines()))
    check("it ends well", member.stop() == 0)
    check("in two lines", member.said().count("\n") == 2 and "silent" in member.said())


def resigning_hands_over():
    address = via(snmp())
    group = [Member(address) for _ in range(4)]
    token = 0
    for number in (signal.SIGTERM, signal.SIGINT):
        leader = agree(group, token)
        token = leader.now()["token"]
        group.remove(leader)
        leader.process.send_signal(number)
        check("exit status 0", leader.process.wait(timeout=PATIENCE_S) == 0)
        members.remove(leader)
        lines = leader.lines()
        last = max(i for i, line in enumerate(lines) if line["role"] == "leader")
        check("it says that it resigned", lines[last + 1]["reason"] == "resigned")
    agree(group, token)


def garbage_and_strangers_change_nothing():
    port = free_port()
    address = via(snmp(), port=port)
    group = [Member(address) for _ in range(3)]
    agree(group)
    key = work / "other-key"
    subprocess.run([CONCLAVE, "keygen", str(key)], check=True)
    stranger = Member(via(snmp(), f"key={key}", port=port))
    other = Member(via(snmp(), port=port), name="another")
    rng = random.Random(1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        for _ in range(500):
            begin = rng.choice([b"", b"CV", b"CV\x01\x00", b"CV\x02", b"NOTIFY * HTTP/1.1\r\n"])
            s.sendto(begin + rng.randbytes(rng.randrange(200)), (GROUP, port))
    for words in ("not of this election", "do not authenticate", "does not know"):
        until(f"'{words}' is told", lambda: all(words in m.said() for m in group))
    agree(group)
    until("the stranger leads itself", lambda: stranger.now() and stranger.now()["role"] == "leader")
    until("so does the other election", lambda: other.now() and other.now()["role"] == "leader")
    check("everybody is up", all(m.is_up() for m in [*group, stranger, other]))
    for m in group:
        lines = m.said().splitlines()
        check(f"one line for each reason: {lines}", len(lines) == len(set(lines)) <= 4)
    member = group.pop()
    check("it ends well", member.stop() == 0)
    check("and counts", "damaged" in member.said().splitlines()[-1])


def a_counter_in_a_file_can_replace_the_agent():
    address = via(f"file:{work}/numbers")
    survives_kills([Member(address) for _ in range(5)], 2)


def the_largest_token_is_kept_across_restarts():
    address = via(f"file:{work}/kept-numbers", f"insecure&persist=yes&state={work}/state")
    member = Member(address)
    until("it leads alone", lambda: member.now() and member.now()["role"] == "leader")
    token = member.now()["token"]
    member.kill()
    again = Member(address)
    until("it leads again", lambda: again.now() and again.now()["role"] == "leader")
    check("with a larger token", again.now()["token"] > token)
    second = subprocess.run([CONCLAVE, "elect", "test", "--via", address], capture_output=True,
                            text=True, timeout=PATIENCE_S)
    check("two do not share a state",
          second.returncode == 2 and "in use by another process" in second.stderr)


def namespaces_joined_by_a_bridge_elect():
    """Ten hosts: a network namespace each, joined by a bridge in an eleventh, where the agent is."""
    hub = f"cv{os.getpid()}hub"
    hosts = [f"cv{os.getpid()}h{i}" for i in range(10)]

    def ip(*words, at=None):
        prefix = ["ip", "netns", "exec", at] if at else []
        subprocess.run([*prefix, "ip", *words], check=True, capture_output=True)

    agent = None
    made = []
    try:
        for name in [hub, *hosts]:
            ip("netns", "add", name)
            made.append(name)
            ip("link", "set", "lo", "up", at=name)
        ip("link", "add", "bridge", "type", "bridge", at=hub)
        ip("link", "set", "bridge", "up", at=hub)
        ip("addr", "add", "10.77.0.254/24", "dev", "bridge", at=hub)
        for i, name in enumerate(hosts):
            ip("link", "add", f"v{i}", "type", "veth", "peer", "name", "eth0", "netns", name, at=hub)
            ip("link", "set", f"v{i}", "master", "bridge", "up", at=hub)
            ip("addr", "add", f"10.77.0.{i + 1}/24", "dev", "eth0", at=name)
            ip("link", "set", "eth0", "up", at=name)
        told = work / "agent"
        agent = subprocess.Popen(
            ["ip", "netns", "exec", hub, "env", "SNMP_HOST=10.77.0.254", WITH_SNMPD, "sh", "-c",
             f'echo "$SNMP_ADDRESS" >"{told}.new" && mv "{told}.new" "{told}" && cat >/dev/null'],
            stdin=subprocess.PIPE)
        until("the agent answers", told.exists)
        address = told.read_text().strip()
        group = []
        for i, name in enumerate(hosts):
            where = "eth0" if i % 2 else f"10.77.0.{i + 1}"
            group.append(Member(via(f"snmp:{address}/public", port=7400, interface=where),
                                prefix=("ip", "netns", "exec", name)))
        token = 0
        for _ in range(2):
            leader = agree(group, token)
            token = leader.now()["token"]
            leader.kill()
            group.remove(leader)
        leader = agree(group, token)
        token = leader.now()["token"]
        # The leader loses its link: the others go on, and it follows when it is back.
        lost = hosts.index(leader.process.args[3])
        ip("link", "set", f"v{lost}", "down", at=hub)
        rest = [m for m in group if m is not leader]
        agree(rest, token)
        ip("link", "set", f"v{lost}", "up", at=hub)
        agree(group, token)
        no_order_broken(group)
    finally:
        end_all()
        if agent:
            agent.terminate()
            agent.wait()
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False)


def sequencer(*words, status=0):
    done = subprocess.run([CONCLAVE, "sequencer", *words, "--json"], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    check(f"sequencer {words}: status {done.returncode}, {done.stderr}", done.returncode == status)
    return json.loads(done.stdout), done.stderr


def the_agents_numbers_are_all_different_and_grow():
    last = 0
    for clients in (1, 10):
        result, _ = sequencer(snmp(), "--count", "2000", "--clients", str(clients))
        check(f"none is lost or given twice: {result}",
              result["count"] == 2000 and result["missing"] == 0 and result["twice"] == 0)
        check("larger than before", result["first"] > last)
        last = result["last"]
    subprocess.run(os.environ["SNMP_STOP"], shell=True, check=True)
    result, words = sequencer(snmp(), "--count", "5", status=1)
    check("no agent, no number, one line",
          result["count"] == 0 and words.count("\n") == 1 and "does not answer" in words)
    subprocess.run(os.environ["SNMP_START"], shell=True, check=True)
    result, _ = sequencer(snmp(), "--count", "100")
    check(f"a restarted agent goes on above: {last} {result}", result["first"] > last)
    result, words = sequencer(f"snmp:{os.environ['SNMP_ADDRESS']}/wrong", "--count", "5", status=1)
    check("nor for another community", result["count"] == 0 and "community" in words)


TESTS = [
    the_agents_numbers_are_all_different_and_grow,
    ten_processes_with_a_key_elect_and_survive_kills,
    numbers_grow_after_the_agent_restarts,
    an_agent_that_is_down_disturbs_nobody_and_is_reported,
    another_community_never_leads,
    resigning_hands_over,
    garbage_and_strangers_change_nothing,
    a_counter_in_a_file_can_replace_the_agent,
    the_largest_token_is_kept_across_restarts,
    namespaces_joined_by_a_bridge_elect,
]


def why_skipped(test):
    return why_no_namespaces() if test is namespaces_joined_by_a_bridge_elect else None


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the clean-up runs
    if "SNMP_ADDRESS" not in os.environ:
        tried = subprocess.run([CONCLAVE, "sequencer", "snmp:127.0.0.1:no"], capture_output=True,
                               text=True, check=False)
        if "is not installed" in tried.stderr:
            print("1..0 # SKIP the module snmp was not built")
            return 0
        if subprocess.run([WITH_SNMPD, "true"], check=False).returncode == 77:
            print("1..0 # SKIP there is no snmpd")
            return 0
        os.execv(WITH_SNMPD, [WITH_SNMPD, sys.executable, __file__, *sys.argv[1:]])
    tests = [test for test in TESTS if not sys.argv[1:] or test.__name__ in sys.argv[1:]]
    print(f"1..{len(tests)}", flush=True)
    failures = 0
    try:
        for number, test in enumerate(tests, 1):
            name = test.__name__.replace("_", " ")
            skipped = why_skipped(test)
            if skipped:
                print(f"ok {number} - {name} # SKIP {skipped}", flush=True)
                continue
            begin = time.monotonic()
            try:
                test()
                print(f"ok {number} - {name}", flush=True)
            except (Failed, subprocess.SubprocessError, OSError) as failure:
                failures += 1
                print(f"not ok {number} - {name}\n#   {failure}", flush=True)
                for member in members:
                    print(f"#   {member.describe()}", flush=True)
            finally:
                end_all()
            print(f"#   {time.monotonic() - begin:.1f} s", flush=True)
    finally:
        end_all()
        shutil.rmtree(work, ignore_errors=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
