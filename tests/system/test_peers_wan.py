#!/usr/bin/env python3
"""Real members of a cluster in network namespaces of their own: cut off from each other in every way, with
losses and delays, restarted one after the other, with a new key. All their claims are judged.

test_peers_wan.py CONCLAVE PEERS_CLAIMS [TEST...]; see peer_cluster.py. Skipped where namespaces cannot be
made. `make peers-soak` runs the random faults for longer: CHAOS_SECONDS, CHAOS_SEED."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from peer_cluster import (  # pylint: disable=wrong-import-position
    CONCLAVE, PACE, QUICK, Cluster, Wan, check, random_faults, run, running, until)

LOCAL = "majority = yes\ndelta = 20ms\nsigma = 10ms\nep = 20ms\nexpires = 280ms\n"
SECONDS, SEED = float(os.environ.get("CHAOS_SECONDS", 2)), int(os.environ.get("CHAOS_SEED", 1))


def members_find_themselves_by_their_addresses():
    """On hosts of their own they need no --node: each is the member with an address of its host."""
    cluster = Cluster(3, Wan, options=QUICK)
    via = f"peers:{cluster.file('a')}"
    shutil.rmtree(cluster.folder / "state-b")  # one file for all, as on real hosts
    inside = lambda name, *words: [*cluster.proxy.inside(name), CONCLAVE, *words, "--via", via]
    for name in cluster.names:
        with open(cluster.folder / f"{name}.out", "w") as output:
            running.append(subprocess.Popen(inside(name, "elect", "e"), stdin=subprocess.DEVNULL, stdout=output))
    said = lambda *words: subprocess.run(inside("b", *words), capture_output=True, text=True, check=False)
    seen = until("all take part", lambda: (lambda s: s if s.get("leader") and len(s["waiting"]) == 2 else None)(
        json.loads(said("status", "e", "--json").stdout or "{}")))
    check(f"{seen}", sorted([seen["leader"]] + [one["node"] for one in seen["waiting"]]) == cluster.names)
    until(f"{seen['leader']} knows that it leads",
          lambda: "(this process)" in (cluster.folder / f"{seen['leader']}.out").read_text() or None)
    reported = said("report", "e", "--load", "3")
    check(f"{reported}", reported.returncode == 0)
    cluster.close()


def elect_despite_cuts(cluster):
    """The leader is cut off both ways, then not heard, then does not hear: each time the others elect another."""
    cluster.start()
    leader, token = cluster.agree()
    for is_cut in (lambda i, j: leader in (i, j), lambda i, j: i == leader, lambda i, j: j == leader):
        cluster.cut(is_cut)
        leader, token = cluster.agree(cluster.others(leader), token)
        cluster.heal()
        leader, token = cluster.agree(above=token - 1)
    return leader, token


def three_members_whose_leader_is_cut_off():
    cluster = Cluster(3, Wan, options=QUICK)
    elect_despite_cuts(cluster)
    cluster.close()


def five_members_in_a_star_and_in_a_chain():
    cluster = Cluster(5, Wan, options=QUICK)
    cluster.start()
    leader, token = cluster.agree()
    for _ in range(2):
        hub = cluster.others(leader)[0]
        cluster.cut(lambda i, j: hub not in (i, j))
        leader, token = cluster.agree([hub], token)  # only the hub is connected to a majority
        cluster.heal()
        leader, token = cluster.agree(above=token - 1)
        cluster.cut(lambda i, j: abs(ord(i) - ord(j)) > 1)
        leader, token = cluster.agree(["c"], token - 1)  # in the middle
        cluster.heal()
        leader, token = cluster.agree(above=token - 1)
        pair = {leader, cluster.others(leader)[0]}  # two are too few to lead: the other three elect
        cluster.cut(lambda i, j: (i in pair) != (j in pair))
        leader, token = cluster.agree([n for n in cluster.names if n not in pair], token)
        cluster.heal()
        leader, token = cluster.agree(above=token - 1)
    cluster.close()


def seven_members_lose_a_tenth_and_restart_one_by_one():
    cluster = Cluster(7, Wan, options=PACE)
    cluster.proxy.delay(2000, 20)
    cluster.proxy.loss = 0.1
    cluster.start()
    leader, token = cluster.agree()
    for name in [leader] + cluster.others(leader)[:2]:
        cluster.end(name)
        _, token = cluster.agree(cluster.others(name), token if name == leader else token - 1)
        cluster.start(name)
        _, token = cluster.agree(above=token - 1)
    cluster.close()


def local_majority_whose_leader_is_cut_off():
    cluster = Cluster(3, Wan, options=LOCAL, protocol="local")
    elect_despite_cuts(cluster)
    cluster.close()


def key_is_replaced_while_messages_are_lost():
    cluster = Cluster(3, Wan, options=QUICK)
    subprocess.run([CONCLAVE, "keygen", str(cluster.folder / "key2")], check=True)
    cluster.proxy.loss = 0.1
    cluster.start()
    _, token = cluster.agree()
    cluster.replace_key("key2", token)
    cluster.close()


def random_faults_of(count, protocol, options):
    cluster = Cluster(count, Wan, options=options, protocol=protocol)
    cluster.proxy.delay(1000, 30)
    random_faults(cluster, SECONDS, SEED)
    cluster.close()


def random_faults_of_three():
    random_faults_of(3, "pole", QUICK)


def random_faults_of_seven():
    random_faults_of(7, "pole", QUICK)


def random_faults_of_five_with_local():
    random_faults_of(5, "local", LOCAL)


sys.exit(run([members_find_themselves_by_their_addresses, three_members_whose_leader_is_cut_off, five_members_in_a_star_and_in_a_chain,
              seven_members_lose_a_tenth_and_restart_one_by_one, local_majority_whose_leader_is_cut_off,
              key_is_replaced_while_messages_are_lost, random_faults_of_three, random_faults_of_seven,
              random_faults_of_five_with_local], at_once=3))
