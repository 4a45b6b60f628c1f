#!/usr/bin/env python3
"""Every protocol among real members. Three, five and seven on loopback elect a leader, and again after it was stopped
and continued, or killed and restarted with its state or without. In network namespaces, where these can be made, they
elect again after it was cut off in both directions or in one, and after cuts that leave a deaf member, a chain or a
star. Three that lose every third message elect, and so do three that get a new key and a new version, one after the
other. In the end each cluster keeps one leader.

test_peers_protocols.py CONCLAVE PEERS_CLAIMS [TEST...]; see peer_cluster.py. Protocols that promise at most one
leader are judged by it; `conclave run` and cv_open() refuse the others, unless two leaders were accepted."""

import json
import pathlib
import signal
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from peer_cluster import CLAIMS, QUICK, Cluster, Proxy, Wan, ask, check, run, until  # pylint: disable=wrong-import-position

# Short leases, because the tests wait for them again and again; the verdict does not depend on their length.
LOCAL = "delta = 10ms\nsigma = 10ms\nep = 15ms\nexpires = 180ms\n"
CLASSIC = "heartbeat = 30ms\ntimeout = 120ms\ndelta = 15ms\n"
# A list goes round all members, and skips one that does not run for a while: on a busy machine they never agreed.
RING = "heartbeat = 30ms\ntimeout = 250ms\ndelta = 25ms\n"


def refuse(cluster):
    """A protocol that may have two leaders is refused, unless the caller accepts that."""
    name = cluster.names[0]
    part = "does not promise at-most-one-leader"
    said = ask("run", "e", "--via", f"peers:{cluster.file(name)}", "--node", name, "--", "true", status=2)
    check(f"run refuses it: {said}", part in said)
    refused = subprocess.run([CLAIMS, "member", "e", str(cluster.file(name)), name, str(cluster.log(name))],
                             capture_output=True, text=True)
    check(f"cv_open() refuses it: {refused}", refused.returncode == 2 and part in refused.stderr)
    cluster.log(name).unlink()


def agree_without(cluster, leader):
    """The others follow one of them."""
    others = cluster.others(leader)

    def agreed():
        found = cluster.agreed(others)
        return found if found and found[0] != leader else None
    return until(lambda: f"{others} agree on one of them: {[cluster.sees(n) for n in others]}", agreed)


def settle(cluster, protocol):
    """With all members running; returns leader and token. A protocol that promises a rightful leader has it in the end."""
    rightful = {"bully": -1, "bully-modified": -1, "local": 0}
    return until(lambda: f"the rightful one leads: {[cluster.sees(n) for n in cluster.names]}", lambda: (
        lambda settled: settled if protocol not in rightful or settled[0] == cluster.names[rightful[protocol]] else None)(
            cluster.settle()))


def stop_leader(cluster, protocol):
    """When it wakes up, the claim of another one is among the messages that it has not read yet."""
    leader, _ = settle(cluster, protocol)
    stopped = cluster.processes[leader]
    stopped.send_signal(signal.SIGSTOP)
    agree_without(cluster, leader)
    stopped.send_signal(signal.SIGCONT)
    settle(cluster, protocol)


def kill(cluster, name, wipes=False):
    """It comes back when the others agree; with its state, or without."""
    cluster.end(name)
    if wipes:
        cluster.wipe(name)
    agree_without(cluster, name)
    cluster.start(name)
    return cluster.agree()[0]


def story(protocol, options, allows_two):
    cluster = Cluster(3, protocol=protocol, options=options, allows_two=allows_two)
    if allows_two:
        refuse(cluster)
    cluster.start()
    stop_leader(cluster, protocol)
    leader = kill(cluster, cluster.agree()[0])
    for name in (leader, cluster.others(leader)[0]):
        kill(cluster, name, wipes=True)
    token = settle(cluster, protocol)[1]
    for name in cluster.names:  # all at once, with their states: what they forget now, no member knows
        cluster.end(name)
    cluster.start()
    check("tokens grow", settle(cluster, protocol)[1] > token)
    cluster.close()


KINDS = {
    "pole": ("pole", QUICK, False),
    "local_with_a_majority": ("local", "majority = yes\n" + LOCAL, False),
    "local": ("local", LOCAL, True),
    "bully": ("bully", CLASSIC, True),
    "bully_improved": ("bully-improved", CLASSIC, True),
    "bully_modified": ("bully-modified", CLASSIC, True),
    "ring": ("ring", RING, True),
    "ring_modified": ("ring-modified", CLASSIC, True),
}


def lose_sight(cluster, is_cut, who, leader):
    """With these directions cut, `who` no longer follows the leader."""
    cluster.cut(is_cut)
    until(lambda: f"{who} no longer follows {leader}: {cluster.describe()}", lambda: cluster.sees(who)[1] != leader)
    cluster.heal()


def in_namespaces(count, protocol, options, allows_two):
    cluster = Cluster(count, Wan, protocol=protocol, options=options, allows_two=allows_two)
    cluster.start()
    leader, _ = cluster.agree()
    cluster.cut(lambda i, j: leader in (i, j))
    agree_without(cluster, leader)
    cluster.heal()
    leader, _ = settle(cluster, protocol)
    cluster.cut(lambda i, j: i == leader)  # no other member hears it
    agree_without(cluster, leader)
    cluster.heal()
    leader, _ = settle(cluster, protocol)
    deaf = cluster.others(leader)[0]
    lose_sight(cluster, lambda i, j: j == deaf, deaf, leader)
    leader, _ = settle(cluster, protocol)
    chain = [leader] + cluster.others(leader)
    lose_sight(cluster, lambda i, j: abs(chain.index(i) - chain.index(j)) > 1, chain[-1], leader)
    leader, _ = settle(cluster, protocol)
    hub, leaf = cluster.others(leader)[:2]
    lose_sight(cluster, lambda i, j: hub not in (i, j), leaf, leader)
    settle(cluster, protocol)
    cluster.close()


def on_loopback(count, protocol, options, allows_two):
    cluster = Cluster(count, protocol=protocol, options=options, allows_two=allows_two)
    cluster.start()
    stop_leader(cluster, protocol)
    leader = kill(cluster, cluster.agree()[0])
    kill(cluster, leader, wipes=True)
    settle(cluster, protocol)
    cluster.close()


def with_changes(protocol, options, allows_two):
    """A new key, and a new version of the program, member by member; the others go on."""
    cluster = Cluster(3, protocol=protocol, options=options, allows_two=allows_two)
    ask("keygen", "--rotate", str(cluster.folder / "key"))
    cluster.start()
    cluster.agree()
    for key, next_key, program in (("key", "key.next", "peers_claims"), ("key.next", "key", "peers_next"),
                                   ("key.next", None, "peers_next")):
        cluster.program = pathlib.Path(CLAIMS).parent / program
        for name in cluster.names:
            cluster.end(name)
            agree_without(cluster, name)
            cluster.write(name, key=key, more=f"next-key = {next_key}\n" if next_key else "")
            cluster.start(name)
            cluster.agree()
    settle(cluster, protocol)
    table = json.loads(ask("members", str(cluster.file("a")), "e", "--json"))
    check(f"all are new, and use the new key: {table}", [m["version"] for m in table["members"]] == ["99.1.0"] * 3)
    cluster.close()


def with_losses(protocol, options, allows_two):
    """Any message of an election may be lost: a member that waits for it must not wait for ever."""
    cluster = Cluster(3, Proxy, protocol=protocol, options=options, allows_two=allows_two)
    cluster.proxy.loss = 0.3
    cluster.start()
    for _ in range(5):
        leader, _ = cluster.agree()
        cluster.end(leader)
        agree_without(cluster, leader)
        cluster.start(leader)
    cluster.proxy.loss = 0
    settle(cluster, protocol)
    cluster.close()


def tests_of(function, suffix, *count):
    """One test for each protocol, named after it."""
    def make(name, kind):
        def test():
            function(*count, *kind)
        test.__name__ = name + suffix
        return test
    return [make(name, kind) for name, kind in KINDS.items()]


sys.exit(run(tests_of(story, "") + tests_of(with_losses, "_with_losses") +
             tests_of(with_changes, "_with_changes") +
             tests_of(on_loopback, "_of_five", 5) + tests_of(on_loopback, "_of_seven", 7) +
             tests_of(in_namespaces, "_of_three_in_namespaces", 3) + tests_of(in_namespaces, "_of_five_in_namespaces", 5) +
             tests_of(in_namespaces, "_of_seven_in_namespaces", 7), at_once=4))
