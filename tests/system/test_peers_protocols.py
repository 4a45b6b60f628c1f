#!/usr/bin/env python3
"""Every protocol among real members. Three on loopback elect a leader, and again after it was killed, stopped and
continued, or restarted, and after members lost their states; five and seven elect again after it was killed. In
network namespaces, where these can be made, three, five and seven elect again after it was cut off. So do three that
lose every third message. In the end each cluster keeps one leader.

test_peers_protocols.py CONCLAVE PEERS_CLAIMS [TEST...]; see peer_cluster.py. Protocols that promise at most one
leader are judged by it; `conclave run` and cv_open() refuse the others, unless two leaders were accepted."""

import pathlib
import signal
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from peer_cluster import CLAIMS, QUICK, Cluster, Proxy, Wan, ask, check, run, until  # pylint: disable=wrong-import-position

# Short leases, because the tests wait for them again and again; the verdict does not depend on their length.
LOCAL = "delta = 10ms\nsigma = 10ms\nep = 15ms\nexpires = 180ms\n"
CLASSIC = "heartbeat = 30ms\ntimeout = 120ms\ndelta = 15ms\n"


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
    """With all members running; returns the token. A protocol that promises a rightful leader has it in the end."""
    rightful = {"bully": -1, "bully-modified": -1, "local": 0}
    found = until(lambda: f"the rightful one leads: {[cluster.sees(n) for n in cluster.names]}", lambda: (
        lambda settled: settled if protocol not in rightful or settled[0] == cluster.names[rightful[protocol]] else None)(
            cluster.settle()))
    return found[1]


def story(protocol, options, allows_two):
    cluster = Cluster(3, protocol=protocol, options=options, allows_two=allows_two)
    if allows_two:
        refuse(cluster)
    cluster.start()
    leader, _ = cluster.agree()
    stopped = cluster.processes[leader]
    stopped.send_signal(signal.SIGSTOP)
    agree_without(cluster, leader)
    stopped.send_signal(signal.SIGCONT)
    leader, _ = cluster.agree()
    cluster.end(leader)
    agree_without(cluster, leader)
    cluster.start(leader)  # with its state
    leader, _ = cluster.agree()
    for name in (leader, cluster.others(leader)[0]):
        cluster.end(name)
        cluster.wipe(name)
        agree_without(cluster, name)
        cluster.start(name)
        cluster.agree()
    token = settle(cluster, protocol)
    for name in cluster.names:  # all at once, with their states: what they forget now, no member knows
        cluster.end(name)
    cluster.start()
    check("tokens grow", settle(cluster, protocol) > token)
    cluster.close()


KINDS = {
    "pole": ("pole", QUICK, False),
    "local_with_a_majority": ("local", "majority = yes\n" + LOCAL, False),
    "local": ("local", LOCAL, True),
    "bully": ("bully", CLASSIC, True),
    "bully_improved": ("bully-improved", CLASSIC, True),
    "bully_modified": ("bully-modified", CLASSIC, True),
    "ring": ("ring", CLASSIC, True),
    "ring_modified": ("ring-modified", CLASSIC, True),
}


def in_namespaces(count, protocol, options, allows_two):
    cluster = Cluster(count, Wan, protocol=protocol, options=options, allows_two=allows_two)
    cluster.start()
    leader, _ = cluster.agree()
    cluster.cut(lambda i, j: leader in (i, j))
    agree_without(cluster, leader)
    cluster.heal()
    settle(cluster, protocol)
    cluster.close()


def on_loopback(count, protocol, options, allows_two):
    cluster = Cluster(count, protocol=protocol, options=options, allows_two=allows_two)
    cluster.start()
    leader, _ = cluster.agree()
    cluster.end(leader)
    agree_without(cluster, leader)
    cluster.start(leader)
    settle(cluster, protocol)
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
             tests_of(on_loopback, "_of_five", 5) + tests_of(on_loopback, "_of_seven", 7) +
             tests_of(in_namespaces, "_of_three_in_namespaces", 3) + tests_of(in_namespaces, "_of_five_in_namespaces", 5) +
             tests_of(in_namespaces, "_of_seven_in_namespaces", 7), at_once=4))
