#!/usr/bin/env python3
"""Real members of a cluster on loopback: they elect, are killed, stopped, restarted with and without
their state, cut off and flooded; every claim of a member is recorded and judged.

test_peers.py CONCLAVE PEERS_CLAIMS [TEST...]; see peer_cluster.py."""

import concurrent.futures
import json
import mmap
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from peer_cluster import (  # pylint: disable=wrong-import-position
    CLAIMS, CONCLAVE, PACE, PATIENCE_S, PATIENT, QUICK, STEADY, Cluster, Proxy, Skipped, Version6, ask, check, free_ports,
    random_faults, run, running, until)


# ---- the tests ------------------------------------------------------------------------------------

def judge_notices_two_leaders_and_tokens_that_do_not_grow():
    """All tests below rely on it."""
    cluster = Cluster(2)

    def verdict(*logs):
        for name, log in zip(cluster.names, logs):
            cluster.log(name).write_text(log)
        result = cluster.judge()
        check(f"{result}", result.returncode == (1 if "broken: " in result.stdout else 0))
        return sorted(line.split(": ")[1] for line in result.stdout.splitlines() if line.startswith("broken: "))

    one = "claim 71 1000 5 2000\nclaim 71 1500 5 2500\n"  # renewed
    check("one after the other", verdict(one, "claim 72 2500 6 3000\n") == [])
    check("before the renewed lease is over", verdict(one, "claim 72 2499 6 3000\n") == ["at-most-one-leader"])
    check("it has ended early", verdict(one + "end 71 2400\n", "claim 72 2400 6 3000\n") == [])
    check("an earlier process has ended", verdict(one + "end 70 2400\n", "claim 72 2400 6 3000\n") == ["at-most-one-leader"])
    check("the same token again", verdict(one, "claim 72 2600 5 3000\n") == ["token-monotonic"])
    check("a smaller token", verdict(one, "claim 72 2600 4 3000\n") == ["token-monotonic"])


def a_port_is_given_to_one_cluster_only():
    """Here and in other programs: a member that finds its port taken does not start, and its cluster waits for ever."""
    program = ("import sys; sys.path.append(sys.argv[3]); import peer_cluster; "
               "print(*peer_cluster.free_ports(400), flush=True); sys.stdin.read(); peer_cluster.work.rmdir()")
    support = pathlib.Path(sys.modules["peer_cluster"].__file__).parent
    others = []
    for _ in range(3):  # they keep their ports as long as they run
        others.append(subprocess.Popen([sys.executable, "-c", program, CONCLAVE, CLAIMS, support], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True))
        running.append(others[-1])
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        given = [port for ports in pool.map(free_ports, [100] * 4) for port in ports]
    for other in others:
        given += map(int, other.stdout.readline().split())
    for other in others:
        other.communicate()
        running.remove(other)
    check(f"1600 different ones: {len(set(given))} of {len(given)}", len(set(given)) == len(given) == 1600)


def two_leaders_of_a_divided_cluster_are_noticed():
    """The same with real members, of a protocol that does not exclude two leaders."""
    cluster = Cluster(3, Proxy, protocol="bully", options="heartbeat = 30ms\ntimeout = 120ms\ndelta = 15ms\n", allows_two=True)
    cluster.start()
    leader, _ = cluster.agree()
    cluster.cut(lambda i, j: leader in (i, j))
    until(lambda: f"two lead, and the judge says so: {cluster.describe()}", lambda: (
        lambda result: result.returncode == 1 and "broken: at-most-one-leader" in result.stdout)(cluster.judge()))
    cluster.close()


def members_elect_and_survive_kills_and_restarts():
    cluster = Cluster(3)
    cluster.start()
    leader, token = cluster.agree()
    for _ in range(2):
        cluster.end(leader)
        dead = leader
        leader, token = cluster.agree(cluster.others(dead), token)
        cluster.start(dead)  # with its state
        leader, token = cluster.agree(above=token - 1)
    for name in cluster.names:
        cluster.end(name)
    cluster.start()  # no member is left that could tell the others what they forgot
    cluster.agree(above=token)
    cluster.close()


def stopped_leader_does_not_lead_when_it_wakes_up():
    """It is asked at the first instant after the stop (see peers_claims.c), when another member leads already."""
    cluster = Cluster(3, options=QUICK)
    cluster.start()
    leader, token = cluster.agree()
    for _ in range(8):  # its own threads may run first, and would hide a missing check of the clock
        stopped = cluster.processes[leader]
        stopped.send_signal(signal.SIGSTOP)
        old, old_token = leader, token
        leader, token = cluster.agree(cluster.others(old), token)
        stopped.send_signal(signal.SIGCONT)
        leader, token = cluster.agree(above=old_token)
    cluster.close()


class Fenced:
    """Members that write to one fenced resource while they lead: see peers_fenced.c."""

    WORDS = ["token", "accepted", "refused", "too_late"]  # then of each member: how often it asked, its latest token

    def __init__(self, cluster):
        path = cluster.folder / "resource"
        path.write_bytes(bytes(8 * (len(self.WORDS) + 2 * 8)))
        with open(path, "r+b") as file:
            self.words = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
        program = pathlib.Path(CLAIMS).parent / "peers_fenced"
        self.processes = [subprocess.Popen([program, "e", str(cluster.file(name)), name, str(i), str(path)],
                                           stdin=subprocess.DEVNULL) for i, name in enumerate(cluster.names)]
        running.extend(self.processes)

    def __getattr__(self, word):
        return self.words[self.WORDS.index(word)]

    def asked(self, process):
        return self.words[len(self.WORDS) + 2 * self.processes.index(process)]

    def leader(self, above):
        """The member that wrote with the largest token, and that token."""
        def latest():
            tokens = [self.words[len(self.WORDS) + 2 * i + 1] for i in range(len(self.processes))]
            return (self.processes[tokens.index(max(tokens))], max(tokens)) if max(tokens) > above else None
        return until(f"there is a leader with a token above {above}", latest)


def woken_leader_neither_leads_nor_writes():
    """`make peers-soak` runs this for longer, with short leases."""
    stops = int(os.environ.get("STOPS", 20))
    cluster = Cluster(3, options=os.environ.get("STOPS_OPTIONS", QUICK).replace(",", "\n") + "\n")
    fenced = Fenced(cluster)
    leader, token = fenced.leader(0)
    for _ in range(stops):
        stopped = leader
        stopped.send_signal(signal.SIGSTOP)
        leader, token = fenced.leader(token)
        asked = fenced.asked(stopped)
        stopped.send_signal(signal.SIGCONT)
        until("it asks again", lambda before=asked, process=stopped: fenced.asked(process) > before + 10)
        leader, token = fenced.leader(token - 1)
    print(f"# {stops} leaders stopped: {fenced.accepted} writes accepted, {fenced.refused} refused, "
          f"{fenced.too_late} answers too late")
    check("old tokens were tried, and refused", fenced.refused >= stops)
    check("nobody is told that it leads after another did", fenced.too_late == 0)
    cluster.close()


def claims(cluster, name, pid):
    """The claims of one process of a member: from, token, until."""
    lines = [line.split() for line in cluster.log(name).read_text().splitlines()]
    return [tuple(map(int, words[2:5])) for words in lines if words[:2] == ["claim", str(pid)] and len(words) == 5]


def killed_leader_is_replaced_before_its_lease_is_over():
    """Its witness makes that possible: without one, no claim begins before the previous one has ended."""
    cluster = Cluster(3, options=STEADY.replace("timeout = 2s", "timeout = 1500ms")
                      .replace("lease = 3s", "lease = 1600ms"))
    cluster.start()
    leader, token = cluster.agree()
    pid = cluster.processes[leader].pid
    starts = lambda: [since for since, _, _ in claims(cluster, leader, pid)] or [0]
    until("it has lived for longer than a promise to an earlier life may bind",
          lambda: max(starts()) - min(starts()) > 2.2e9)
    cluster.end(leader)
    successor, new_token = cluster.agree(cluster.others(leader), token)
    old_until = max(end for _, _, end in claims(cluster, leader, pid))
    new_from = min(since for since, number, _ in claims(cluster, successor, cluster.processes[successor].pid)
                   if number == new_token)
    check(f"{(old_until - new_from) / 1e6} ms before the end of its lease", new_from < old_until)
    cluster.close()


def member_without_its_state_joins_anew_above_all_tokens():
    cluster = Cluster(3, options=QUICK)
    cluster.start("a")
    table = until("one answers", lambda: (lambda t: t if "joining" in t else None)(
        subprocess.run([CONCLAVE, "members", str(cluster.file("a")), "e"], capture_output=True, text=True).stdout))
    check(f"unknown values are not shown as 0: {table}", re.search(r"0/2 +0/2 +- +- +0.00% +- ", table))
    cluster.start("b")
    until("both wait for c", lambda: all("no answer yet from c" in cluster.sees(n)[2] for n in "ab"))
    check("no state, no leader", cluster.agreed() is None and not any(map(cluster.has_state, "ab")))
    cluster.start("c")
    leader, token = cluster.agree()
    for wiped in (cluster.others(leader)[0], leader):
        cluster.end(wiped)
        cluster.wipe(wiped)
        _, token = cluster.agree(cluster.others(wiped), 0)
        cluster.start(wiped)
        until("it says how long it waits", lambda who=wiped: re.search(
            r"has no state, but others have: it joins \d+ s after its start", cluster.said(who)))
        _, token = cluster.agree(above=token - 1)
    # A majority without state: the third member is not enough.
    first, second = "a", "b"
    cluster.end(first)
    cluster.end(second)
    cluster.wipe(first)
    cluster.wipe(second)
    cluster.start(first, second)
    until("both wait, and say what helps", lambda: all(
        re.search("has no state: it joins when 2 members with a state have answered.*raise 'generation'", cluster.sees(n)[2])
        for n in (first, second)))
    until("c has no leader", lambda: re.search("(?m)^c +no leader +- ", ask("members", str(cluster.file("a")), "e")))
    until("c has no leader", lambda: cluster.sees("c")[1] == "-")
    check("they have not joined", not cluster.has_state(first) and not cluster.has_state(second))
    # A new generation ends that; its tokens are larger.
    for name in cluster.names:
        cluster.end(name)
        cluster.write(name, QUICK, generation=2)
    cluster.start()
    _, token = cluster.agree()
    check(f"token {token} is of generation 2", token > 1 << 40)
    cluster.close()


def first_record(cluster, name):
    """The words of the record with which a member of `pole` joined, as long as it is in the file: see slots.c."""
    path = cluster.folder / f"state-{name}" / f"test.{name}@e.state"
    data = path.read_bytes() if path.exists() else b""
    for slot in (data[:512], data[4096:4608]):
        if len(slot) == 512 and slot[:4] == b"CVS1" and int.from_bytes(slot[8:16], "little") == 1:
            return struct.unpack_from("<4Q", slot, 132)
    return None


def member_without_its_state_begins_above_what_the_others_remember():
    """It would also learn of their tokens by following a leader, but that may be too late: so this looks at its record."""
    cluster = Cluster(3)
    cluster.start()
    leader, token = cluster.agree()
    wiped, _ = cluster.others(leader)
    check("the first members begin with an empty record", first_record(cluster, wiped) in (None, (0, 0, 0, 0)))
    cluster.end(wiped)
    cluster.wipe(wiped)
    cluster.start(wiped)
    followed, _, _, claimed = until("it joins", lambda: first_record(cluster, wiped))
    check(f"it follows nobody up to {followed}, claims nothing up to {claimed}; known: {token}",
          followed >= token and claimed >= token)
    cluster.close()


def member_without_its_state_forgets_no_promise():
    """A leader has its majority by a member that then loses its state; together with the third it could elect another."""
    cluster = Cluster(3, Proxy, options=PACE.replace("300ms", "900ms"))
    cluster.start()
    leader, token = cluster.agree()
    third, wiped = cluster.others(leader)
    cluster.cut(lambda i, j: third in (i, j))
    until("the third has no leader", lambda: cluster.sees(third)[1] == "-")
    cluster.end(wiped)
    cluster.wipe(wiped)
    cluster.cut(lambda i, j: leader in (i, j))
    cluster.start(wiped)
    until("the leader has no majority", lambda: cluster.sees(leader)[1] == "-")
    check("it has not joined, since only one with a state answers", not cluster.has_state(wiped))
    cluster.heal()
    cluster.agree(above=token - 1)
    cluster.close()


def member_without_its_state_waits_for_the_end_of_its_promise():
    """A leader leads by the promise of one member, which then forgets it; both others tell what they remember. If
    it took part at once, it and the third would elect another while the leader's lease lasts."""
    cluster = Cluster(3, Proxy, options=STEADY.replace("timeout = 2s", "timeout = 700ms").replace("lease = 3s", "lease = 1s"))
    cluster.start()
    leader, token = cluster.agree()
    third, wiped = cluster.others(leader)
    cluster.cut(lambda i, j: {i, j} == {leader, third})
    until("the third has no leader", lambda: cluster.sees(third)[1] == "-")
    cluster.end(wiped)
    cluster.wipe(wiped)
    cluster.start(wiped)
    until("it has joined", lambda: cluster.has_state(wiped))
    cluster.cut(lambda i, j: leader in (i, j))
    cluster.agree([third, wiped], token)
    cluster.heal()
    cluster.agree(above=token)
    cluster.close()


def refuse_to_start(cluster, name, part, election="e"):
    result = subprocess.run([CONCLAVE, "elect", election, "--via", f"peers:{cluster.file(name)}", "--node", name],
                            capture_output=True, text=True, timeout=PATIENCE_S)
    check(f"'{part}' in {result.stderr!r}", result.returncode == 2 and part in result.stderr and
          result.stderr.count("\n") == 1)


def a_member_that_could_cause_two_leaders_does_not_start():
    options = STEADY.replace("timeout = 2s", "timeout = 700ms").replace("lease = 3s", "lease = 1s")
    cluster = Cluster(3, options=options)
    cluster.start()
    leader, token = cluster.agree()
    refuse_to_start(cluster, "a", "is in use: this member runs already")
    refuse_to_start(cluster, "a", "another election of it needs a file with other ports", election="other")
    down = cluster.others(leader)[0]
    cluster.end(down)
    state = cluster.folder / f"state-{down}" / f"test.{down}@e.state"
    away = state.parent.rename(cluster.folder / "away")
    refuse_to_start(cluster, down, "the state folder ")
    away.rename(state.parent)
    whole = state.read_bytes()
    state.write_bytes(whole[:40] + b"\1" + whole[41:])
    refuse_to_start(cluster, down, "is damaged: its check sum is wrong")
    check("a damaged state is not replaced", state.read_bytes() != whole)
    state.write_bytes(whole)
    cluster.write(down, generation=2)
    cluster.start(down)
    until("they refuse each other", lambda: f"member '{down}' is of generation 2 and this one of 1" in
          cluster.said(leader) and f"is of generation 1 and this one of 2" in cluster.said(down))
    cluster.end(down)
    cluster.write(down)
    refuse_to_start(cluster, down, "generation 2: not of member")
    state.unlink()
    more = f"[member x]\nid = 4\naddress = 127.0.0.1:{free_ports(1)[0]}\n"
    longer = options.replace("lease = 1s", "lease = 2s")
    for others, protocol, members, what in (
            (longer, "pole", "", "other options"), ("majority = yes\n", "local", "", "another protocol"),
            (options, "pole", more, "other members"), (longer, "pole", more, "other options and other members"),
            ("majority = yes\n", "local", more, "another protocol and other members")):
        cluster.write(down, options=others, protocol=protocol)
        with open(cluster.file(down), "a") as file:
            file.write(members)
        cluster.start(down)
        until(f"they refuse each other: {what}", lambda what=what: all(
            f"member '{whom}' has {what} than this one, in the same generation 1" in cluster.said(by)
            for whom, by in ((down, leader), (leader, down))))
        said = ask("members", str(cluster.file(leader)), "e", status=1)
        check(f"the table says whose file differs: {said}", re.search(f"(?m)^{down} +differs", said) and
              re.search(f"(?m)^{leader} +leads", said) and
              f"member '{down}' has {what} than '{cluster.file(leader)}', in the same generation 1" in said)
        check("it leads nobody", not cluster.has_state(down))
        cluster.end(down)
    (cluster.folder / "key2").write_text(subprocess.run([CONCLAVE, "keygen"], check=True, text=True,
                                                        capture_output=True).stdout)
    os.chmod(cluster.folder / "key2", 0o600)
    cluster.write(down, key="key2")
    cluster.start(down)
    until("another key is reported, with the member it may belong to", lambda: all(
        re.search(f"do not authenticate.*; the first from the address of member '[{whose}]'", cluster.said(by))
        for whose, by in ((down, leader), ("".join(cluster.others(down)), down))))
    check("it leads nobody", not cluster.has_state(down))
    cluster.end(down)
    os.chmod(cluster.folder / "key2", 0o644)
    refuse_to_start(cluster, down, "every user may read the key file")
    whole = cluster.file(down).read_text().replace("key2", "key")
    other = cluster.others(down)[0]
    cluster.file(down).write_text(whole.replace(f"127.0.0.1:{cluster.ports[other]}",
                                                f"localhost:{cluster.ports[down]}"))
    first, second = sorted([down, other])
    refuse_to_start(cluster, down, f"members '{first}' (")
    check("one address behind two names", f"and '{second}' (" in
          ask("members", str(cluster.file(down)), "--check", status=2))
    check("the others went on", cluster.agreed(cluster.others(down)) == (leader, token))
    refused = subprocess.run([CONCLAVE, "elect", "e", "--via", f"peers:{cluster.file('a')}"],
                             capture_output=True, text=True)
    check(refused.stderr, "members 'a' and 'b' are both on this host; give --node NAME" in refused.stderr)
    refused = subprocess.run([CONCLAVE, "elect", "e", "--via", f"peers:{cluster.file('a')}", "--node", "x"],
                             capture_output=True, text=True)
    check(refused.stderr, "unknown member 'x'; known: a, b, c" in refused.stderr)
    cluster.close()


def elections_of_the_same_members_have_a_file_each():
    """With one name, one state folder and other ports: neither election knows of the other."""
    one, two = Cluster(3), Cluster(3, election="other", options=STEADY)
    for name in one.names:
        folder = two.folder / f"state-{name}"
        folder.rmdir()
        folder.symlink_to(one.folder / f"state-{name}")
    two.start()
    untouched = two.agree()
    one.start()
    leader, token = one.agree()
    one.end(leader)
    leader, token = one.agree(one.others(leader), token)
    check("the other election goes on", two.agree() == untouched)
    for name in list(one.processes):
        one.end(name)
    one.start()  # with their states, not those of the other election
    one.agree(above=token)
    check("the other election goes on", two.agree() == untouched)
    one.close()
    two.close()


def members_have_addresses_of_ipv6():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
        try:
            s.bind(("::1", 0))
        except OSError as why:
            raise Skipped(f"no IPv6 here: {why}") from why
    cluster = Cluster(3, Version6, options=QUICK)
    cluster.start()
    leader, token = cluster.agree()
    cluster.end(leader)
    cluster.agree(cluster.others(leader), token)
    cluster.close()


def five_members_lose_messages_and_each_other():
    cluster = Cluster(5, Proxy)
    cluster.proxy.loss = 0.1
    cluster.start()
    leader, token = cluster.agree()
    for _ in range(2):
        cluster.cut(lambda i, j: leader in (i, j))
        old = leader
        leader, token = cluster.agree(cluster.others(old), token)
        cluster.heal()
        leader, token = cluster.agree(above=token - 1)
        # One way only: the leader hears the others, which do not hear it.
        old = leader
        cluster.cut(lambda i, j: i == leader)
        leader, token = cluster.agree(cluster.others(old), token)
        cluster.heal()
        leader, token = cluster.agree(above=token - 1)
    # Exactly a majority is left, three of five, so each message of each of them is needed: a lost one must be repeated.
    cluster.proxy.loss = 0.3
    for name in cluster.others(leader)[:2]:
        cluster.end(name)
    for _ in range(4):
        cluster.end(leader)
        cluster.start(leader)
        leader, token = cluster.agree(above=token)
    cluster.close()


def random_faults_never_make_two_leaders(seconds=3.0, seed=1):
    """For longer: CHAOS_SECONDS=300 CHAOS_SEED=7 test_peers.py ... random_faults_never_make_two_leaders"""
    seconds, seed = float(os.environ.get("CHAOS_SECONDS", seconds)), int(os.environ.get("CHAOS_SEED", seed))
    cluster = Cluster(5, Proxy, options=QUICK)
    random_faults(cluster, seconds, seed)
    cluster.close()


def flood_does_not_change_the_leader():
    """100,000 datagrams a second, or as many as the machine manages, to the leader and to a follower at once, from
    the address of the third member and with the cluster's key: each is dropped and counted by its reason."""
    cluster = Cluster(3, options=STEADY)
    subprocess.run([CONCLAVE, "keygen", str(cluster.folder / "other")], check=True)
    cluster.start()
    leader, token = cluster.agree()
    follower, absent = cluster.others(leader)
    cluster.end(absent)
    generator = pathlib.Path(CLAIMS).parent / "peers_flood"
    for target in (leader, follower):
        sent = subprocess.run([generator, str(cluster.file(absent)), "e", absent, target, str(cluster.folder / "other"),
                               "160000", "100000"], check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout
        sent = dict(word.split("=") for word in sent.split())
        print(f"# to the {'leader' if target == leader else 'follower'}: {sent}")
        check("the same leader", cluster.agree([leader, follower], token - 1) == (leader, token))
        check("the leader never paused", len({number for _, number, _ in claims(
            cluster, leader, cluster.processes[leader].pid)}) == 1)
        cluster.sent = sent
    cluster.start(absent)  # it is heard afterwards
    check("the same leader for all", cluster.agree(above=token - 1) == (leader, token))
    for target in (follower, leader):
        cluster.end(target, signal.SIGTERM)
        said = cluster.said(target)
        line = re.search(r": dropped datagrams, by reason: (.*)", said)[1]
        counted = {reason: int(count) for reason, count in map(str.split, line.split(", "))}
        print(f"# {target} dropped {counted}")
        # Datagrams that find the socket's queue full are dropped by the kernel, and not counted here.
        for kind, reason in (("version", "version"), ("key", "damaged"), ("cluster", "foreign"), ("replayed", "replayed"),
                             ("generation", "generation"), ("truncated", "truncated"), ("oversized", "oversized"),
                             ("address", "address")):
            check(f"{reason}: {counted.get(reason)} of {cluster.sent[kind]}",
                  0 < counted.get(reason, 0) <= int(cluster.sent[kind]))
    cluster.close()


def key_is_replaced_member_by_member():
    cluster = Cluster(3)
    steps = ask("keygen", "--rotate", str(cluster.folder / "key"))
    check(steps, "key.next'. Now change the cluster file of each member" in steps)
    cluster.start()
    _, token = cluster.agree()
    cluster.replace_key("key.next", token)
    cluster.close()


def new_version_is_installed_member_by_member():
    cluster = Cluster(3)
    cluster.start()
    _, token = cluster.agree()
    cluster.program = pathlib.Path(CLAIMS).parent / "peers_next"
    for count, name in enumerate(cluster.names, 1):
        cluster.end(name)
        cluster.start(name)
        leader, token = cluster.agree(above=token - 1)
        table = json.loads(ask("members", str(cluster.file(name)), "e", "--json"))
        new = [m["name"] for m in table["members"] if m["version"] == "99.1.0"]
        check(f"{count} of them are new: {table}", len(new) == count)
        until("old and new hear each other", lambda: all(
            m["hears"] == m["heard_by"] == 2 for m in json.loads(
                ask("members", str(cluster.file("a")), "e", "--json"))["members"]))
    cluster.end(leader)
    cluster.agree(cluster.others(leader), token)
    cluster.close()


def guests_see_the_leader_and_ask_it_to_resign():
    cluster = Cluster(3)
    via = f"peers:{cluster.file('a')}"
    silence = "none of the 3 members of 'test' answers: they do not run"
    check("nobody runs", silence in ask("status", "e", "--via", via, status=2))
    check("nobody runs", silence in ask("members", str(cluster.file("a")), "e", status=1))
    path = cluster.folder / "watched"
    with open(path, "w") as output:
        watcher = subprocess.Popen([CONCLAVE, "watch", "e", "--via", via], stdout=output, stderr=output,
                                   stdin=subprocess.DEVNULL)
    running.append(watcher)
    until("the watcher says so, too", lambda: silence in path.read_text())
    unknown = json.loads(ask("watch", "e", "--via", via, "--json", "--changes", "1").splitlines()[0])
    check(f"not even that nobody leads: {unknown}", (unknown["leader"], unknown["leader_known"]) == (None, False))
    cluster.start()
    leader, token = cluster.agree()
    until("the watcher goes on", lambda: f"e: {leader} leads, token {token}" in path.read_text())
    check(path.read_text(), path.read_text().count(silence) == 1)
    watcher.terminate()
    watcher.wait()
    running.remove(watcher)
    said = ask("status", "e", "--via", via)
    check(said, f"e: {leader} leads, token {token}, " in said and "ms left of a lease of 300ms; 3 of 3" in said)
    seen = json.loads(ask("status", "e", "--via", via, "--json"))
    check(f"{seen}", seen["leader"] == leader and seen["token"] == token and seen["answered"] == 3 and
          0 < seen["remaining_s"] <= seen["lease_s"] == 0.3)
    seen = json.loads(ask("watch", "e", "--via", via, "--json", "--changes", "1"))
    check(f"watch: {seen}", seen["leader"] == leader and seen["leader_known"])
    table = until("all hear all", lambda: (lambda t: t if all(
        m["hears"] == m["heard_by"] == 2 and m["leader"] == leader for m in t["members"]) else None)(
            json.loads(ask("members", str(cluster.file("b")), "e", "--json"))))
    check(f"{table}", sorted(m["state"] for m in table["members"]) == ["follows", "follows", "leads"])
    check(f"{table}", all(m["round_trip_s"] > 0 and m["delay_max_s"] > 0 and m["version"] and m["lost"] == 0 and
                          "clock_drift_ppm" in m for m in table["members"]) and
          len({m["start"] for m in table["members"]}) == 3)
    until("followers hear each other although they have nothing to say", lambda: (
        lambda h, t: time.time() > h[-1]["from_unix_s"] + 6 and all(
            m["hears"] == m["heard_by"] == 2 for m in t["members"]))(
                json.loads(ask("history", "e", "--via", via, "--json")),
                json.loads(ask("members", str(cluster.file("b")), "e", "--json"))))
    leader, token = cluster.agree()
    heir = cluster.others(leader)[1]
    said = ask("resign", "e", "--to", heir, "--via", via)
    check(f"resign: {said}", f"e: {heir} leads now" in said)
    leader, token = cluster.agree(above=token)
    check("the heir leads", leader == heir)
    check("already", "leads already" in ask("resign", "e", "--to", heir, "--via", via))
    check("a job", "--every needs a store" in ask("run", "e", "--every", "1d", "--via", via, "--", "true", status=2))
    check("unknown", "unknown member 'x'; known: a, b, c" in ask("resign", "e", "--to", "x", "--via", via, status=2))
    cluster.end(leader)
    cluster.agree(cluster.others(leader), token)
    check("one is missing", f"{leader} " in ask("members", str(cluster.file("a")), "e", status=1))
    subprocess.run([CONCLAVE, "keygen", str(cluster.folder / "other")], check=True)
    cluster.write(leader, key="other")
    ask("status", "e", "--via", f"peers:{cluster.file(leader)}", status=2)  # without the key, no answer
    other = cluster.others(leader)[0]
    ask("report", "e", "--via", via, "--node", other, "--history", "7", "--load", "3")
    check("nobody there", f"member '{leader}' does not answer" in ask(
        "report", "e", "--via", via, "--node", leader, "--load", "3", status=2))
    check("explain", "never, whatever is lost" in ask("explain", via))
    file = pathlib.Path(cluster.file("a"))
    file.write_text(re.sub(r"(?m)^(heartbeat|timeout|round|lease|profile|delta|sigma) = .*\n", "", file.read_text()))
    check("a measured lease", "10ms to 1s, as the leader measures" in ask("explain", via))
    cluster.close()


def resign_says_whether_the_heir_leads():
    """A member that started a moment ago may be passed over, since an earlier promise may still bind it."""
    cluster = Cluster(3, options=STEADY)
    via = f"peers:{cluster.file('a')}"
    cluster.start()
    leader, token = cluster.agree()
    young, other = cluster.others(leader)
    cluster.end(young)
    for options in ([], ["--wait", "0.3s"]):
        said = ask("resign", "e", "--to", young, "--via", via, *options, status=1)
        check(f"absent: {said}", f"{young} is not waiting, so the leader was not asked to resign; waiting: {other}" in said)
    check("the leadership goes on", cluster.agree([leader, other])[1] == token)
    cluster.start(young)
    seen = until("it takes part", lambda: (lambda s: s if len(s["waiting"]) == 2 else None)(
        json.loads(ask("status", "e", "--via", via, "--json"))))
    check(f"{seen}", sorted(one["node"] for one in seen["waiting"]) == sorted([young, other]))
    said = subprocess.run([CONCLAVE, "resign", "e", "--to", young, "--via", via, "--wait", "20s"],
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    now = json.loads(ask("status", "e", "--via", via, "--json"))["leader"]
    print(f"# {said.returncode}: {said.stdout}{said.stderr}")
    check(f"{now} leads: {said}", said.returncode == (0 if now == young else 1) and f"e: {now} leads now" in
          said.stdout + said.stderr and (now == young or f"{young} did not take over" in said.stderr))
    cluster.close()


def lease_floor_depends_on_real_time_scheduling():
    cluster = Cluster(3)
    via = f"peers:{cluster.file('a')}"
    floor = lambda: json.loads(ask("explain", via, "--json"))["lease_floor_s"]
    may = subprocess.run(["chrt", "-f", "10", "true"], stderr=subprocess.DEVNULL).returncode == 0
    check("the floor follows from the rights of this user", floor() == (0.015 if may else 0.1))
    file = pathlib.Path(cluster.file("a"))
    file.write_text(file.read_text().replace("[cluster]\n", "[cluster]\nrealtime = no\n"))
    check("not asked for", floor() == 0.1 and "100ms: realtime = no" in ask("explain", via))
    doctor = lambda status=0: {c["check"]: c for c in json.loads(ask("doctor", "--via", via, "--json", status=status))}
    found = doctor()
    check(f"doctor: {found}", found["cluster"]["finding"] == "ok" and all(
        found[one]["finding"] == "warning" and "remove 'realtime = no'" in found[one]["advice"]
        for one in ("scheduling", "memory")))
    file.write_text(file.read_text().replace("[cluster]\n", "[cluster]\ndrift = 77\n"))
    check("doctor knows what the file says of clocks", "of the 77 that leases allow for" in doctor()["clock"]["what"])
    (cluster.folder / "key").chmod(0o644)
    check("doctor looks at the key", "every user may read the key file" in doctor(status=1)["cluster"]["what"])
    cluster.close()


def locked_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmLck:\s+(\d+)", status)[1])


def each_permission_that_is_missing_is_said_once():
    """Real-time scheduling and locked memory are asked for apart. A limit that is large enough is enough."""
    cluster = Cluster(3)
    via = f"peers:{cluster.file('a')}"
    rights = ["setpriv", "--bounding-set=-ipc_lock,-sys_nice,-sys_resource"] if os.getuid() == 0 else []
    limits = lambda kib: ["prlimit", f"--memlock={kib * 1024}:{kib * 1024}", "--rtprio=0:0", *rights]
    if subprocess.run([*limits(64), "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skipped("limits and rights cannot be lowered here")
    scheduling, memory = "real-time scheduling is not permitted; ", "memory is not locked: the limit is 64 KiB, and "

    def told(kib, *words):
        return subprocess.run([*limits(kib), CONCLAVE, *words], capture_output=True, text=True, timeout=PATIENCE_S,
                              check=True).stdout

    def member(kib, *words):
        """What member a says until it waits for the others, and how much it has locked."""
        said, err = cluster.folder / "said", cluster.folder / "said.err"  # two, since threads write both
        with open(said, "w") as output, open(err, "w") as errors:
            process = subprocess.Popen([*limits(kib), CONCLAVE, words[0], "e", "--via", via, "--node", "a", *words[1:]],
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        running.append(process)
        until(err.read_text, lambda: "no answer yet from" in said.read_text() + err.read_text())
        locked = locked_kib(process.pid)
        process.terminate()
        process.wait()
        running.remove(process)
        return err.read_text(), locked

    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    enough = 32 * 1024 if hard == resource.RLIM_INFINITY else min(32 * 1024, hard // 1024)
    for words in (["elect"], ["run", "--grace", "50ms", "--", "true"]):
        said, locked = member(64, *words)
        check(f"both are missing: {said}", said.count(scheduling) == 1 and said.count(memory) == 1 and locked == 0)
        check(f"what it costs, and what to do: {said}", all(part in said for part in (
            "leases below about 100ms can be lost", "LimitRTPRIO=10", "when memory is short, leases can be lost",
            "LimitMEMLOCK=infinity")))
        if json.loads(told(enough, "explain", via, "--json"))["locks_memory"]:
            said, locked = member(enough, *words)
            check(f"{enough} KiB are enough: {locked}, {said}", locked > 1024 and scheduling in said and
                  "not locked" not in said)
    check("explain", not json.loads(told(64, "explain", via, "--json"))["locks_memory"])
    said = told(64, "explain", via)
    check(said, "100ms: real-time scheduling is not permitted (LimitRTPRIO=10" in said and memory in said and
          "(LimitMEMLOCK=infinity" in said)
    found = {c["check"]: c for c in json.loads(told(64, "doctor", "--via", via, "--json"))}
    check(f"{found}", all(found[one]["finding"] == "warning" and grant in found[one]["advice"] for one, grant in (
        ("scheduling", "LimitRTPRIO=10"), ("memory", "LimitMEMLOCK=infinity"))))
    file = pathlib.Path(cluster.file("a"))
    file.write_text(file.read_text().replace("[cluster]\n", "[cluster]\nrealtime = no\n"))
    said, locked = member(enough, "elect")
    check(f"not asked for: {said}", locked == 0 and "permitted" not in said and "not locked" not in said)
    cluster.close()


def history_shows_what_the_members_saw():
    cluster = Cluster(3, options=PATIENT)
    cluster.start()
    leader, token = cluster.agree()
    other, third = cluster.others(leader)
    via = f"peers:{cluster.file(other)}"
    trail = cluster.folder / f"state-{other}" / f"test.{other}@e.trail"
    until("a thread of its own has begun the trail", trail.exists)
    check("an election that nobody held", "other: no leadership is recorded" in
          ask("history", "other", "--via", via, status=1))
    check("this host has no trail of it", f"no audit trail of member '{leader}'" in
          ask("history", "e", "--via", via, "--node", leader, status=2))
    check("--node is for clusters", "--node works only with a cluster" in
          ask("history", "e", "--via", "sqlite:x.db", "--node", "a", status=2))
    until("its witness is certain", lambda: time.time() > 1.2 + json.loads(
        ask("history", "e", "--via", via, "--json"))[-1]["from_unix_s"])
    watched = cluster.folder / "watched"
    with open(watched, "w") as output:
        watcher = subprocess.Popen([CONCLAVE, "watch", "e", "--via", via, "--json"], stdout=output,
                                   stdin=subprocess.DEVNULL)
    running.append(watcher)
    changes = lambda: [json.loads(line) for line in watched.read_text().splitlines(True) if line.endswith("\n")]
    until("the watcher sees who leads", lambda: any(c["token"] == token for c in changes()))
    cluster.end(leader)
    second, token2 = cluster.agree(above=token)
    until("watch says why it ended", lambda: any((c["last_token"], c["last_reason"]) == (token, "died") for c in changes()))
    ask("resign", "e", "--via", via)
    _, token3 = cluster.agree(above=token2)

    def story():
        past = json.loads(ask("history", "e", "--via", via, "--json"))
        return past if past[-1]["token"] == token3 and past[-1]["why"] is None else None

    past = until("the trail has it all", story)
    of = {p["token"]: p for p in past}
    check(f"{past}", [p["token"] for p in past] == sorted(of) and of[token]["leader"] == leader)
    check(f"{of[token]}", of[token]["why"] == "died" and of[token]["last_renewed_unix_s"] <= of[token]["to_unix_s"])
    check(f"{of[token2]}", of[token2]["leader"] == second and of[token2]["why"] == "resigned")
    until("watch says that it resigned", lambda: any((c["last_token"], c["last_reason"]) == (token2, "resigned")
                                                     for c in changes()))
    watcher.terminate()
    watcher.wait()
    running.remove(watcher)
    shown = json.loads(ask("status", "e", "--via", via, "--json"))
    check(f"{shown}", (shown["last_token"], shown["last_reason"], shown["last_leader"]) == (token2, "resigned", second) and
          shown["since_unix_s"] >= shown["last_end_unix_s"])
    said = ask("status", "e", "--via", via)
    check(said, f"  before: {second}, token {token2}, until " in said and "(resigned)" in said and ", since 20" in said)
    check("nobody led for a while", all(p["nobody_before_s"] is None or p["nobody_before_s"] >= 0 for p in past))
    middle = (of[token2]["from_unix_s"] + of[token2]["to_unix_s"]) / 2
    at = json.loads(ask("history", "e", "--via", via, "--json", "--at", f"@{middle:.6f}"))
    check(f"{at}", [p["token"] for p in at] == [token2])
    cluster.end(other)
    trail.write_bytes(trail.read_bytes().replace(b"begin", b"beGin", 1))
    check("history reports the damage", "is damaged: 1 of its lines are left out" in ask("history", "e", "--via", via))
    cluster.start(other)  # the damage does not stop it
    until("the member reports the damage", lambda: "is damaged: 1 of its lines" in cluster.said(other))
    cluster.agree()
    check(f"{third} saw it, too", f" {token} " in ask("history", "e", "--via", f"peers:{cluster.file(third)}"))
    cluster.close()


def last_leadership_is_known_while_nobody_leads():
    cluster = Cluster(3, options=PATIENT)
    cluster.start()
    leader, token = cluster.agree()
    other, third = cluster.others(leader)
    via = f"peers:{cluster.file(third)}"
    watched = cluster.folder / "watched"
    with open(watched, "w") as output:
        watcher = subprocess.Popen([CONCLAVE, "watch", "e", "--via", via], stdout=output, stdin=subprocess.DEVNULL)
    running.append(watcher)
    until("the watcher sees who leads", lambda: f"{leader} leads, token {token}" in watched.read_text())
    cluster.end(other)
    cluster.end(leader)  # the third one has no majority

    def known():
        result = subprocess.run([CONCLAVE, "status", "e", "--via", via, "--json"], capture_output=True, text=True, check=False)
        shown = json.loads(result.stdout or "{}")
        return shown if shown.get("answered") == 1 and shown["leader"] is None and shown["last_token"] else None

    shown = until("status says that nobody leads", known)
    check(f"{shown}", (shown["token"], shown["last_token"], shown["last_leader"]) == (token, token, leader) and
          shown["ended"] == shown["last_reason"] and shown["ended"] in ("died", "suspected"))
    said = ask("status", "e", "--via", via, status=1)
    check(said, f"nobody leads (last token {token}, {shown['ended']})" in said and f"before: {leader}, token {token}" in said)
    until("watch says why", lambda: f"nobody leads ({shown['ended']})" in watched.read_text())
    watcher.terminate()
    watcher.wait()
    running.remove(watcher)
    cluster.close()


def killed_leader_is_reported_as_died():
    """Members that its witness told say so; of a stopped leader they only know that it is silent."""
    cluster = Cluster(3, options=PATIENT)
    cluster.start("a", "b")
    path = cluster.folder / "elect"
    with open(path, "w") as output:
        running.append(subprocess.Popen([CONCLAVE, "elect", "e", "--via", f"peers:{cluster.file('c')}", "--node", "c",
                                         "--json"], stdin=subprocess.DEVNULL, stdout=output))
    seen = lambda: [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    leader = lambda: seen()[-1]["leader"] if seen() else None
    until("somebody leads", leader)
    since = time.monotonic()
    until("it is older than a lease", lambda: time.monotonic() > since + 1.2)
    ask("resign", "e", "--to", "c", "--via", f"peers:{cluster.file('a')}")
    until("the heir leads", lambda: leader() == "c")
    check(f"a renewal is no change: {seen()}", "renewed" not in [one["reason"] for one in seen()])
    for sign, word in ((signal.SIGSTOP, "suspected"), (signal.SIGKILL, "died")):
        if until("somebody leads", leader) == "c":
            ask("resign", "e", "--via", f"peers:{cluster.file('a')}")
        until("another leads", lambda: leader() in ("a", "b"))
        since = time.monotonic()
        until("its witness is certain", lambda: time.monotonic() > since + 1.2 and leader() in ("a", "b"))
        last = seen()[-1]
        stopped = cluster.processes[last["leader"]]
        if sign == signal.SIGSTOP:
            stopped.send_signal(sign)
        else:
            cluster.end(last["leader"])  # the judge must know that its lease does not matter any more
        until(f"{word}", lambda: any((one["last_token"], one["last_reason"]) == (last["token"], word) for one in seen()))
        if sign == signal.SIGSTOP:
            stopped.send_signal(signal.SIGCONT)
    cluster.close()


def reported_history_decides_who_leads_next():
    cluster = Cluster(3, options=PATIENT)
    cluster.start()
    leader, token = cluster.agree()
    fewer, more = cluster.others(leader)
    for name, length in ((fewer, "5"), (more, "100")):
        ask("report", "e", "--via", f"peers:{cluster.file('a')}", "--node", name, "--history", length)
    cluster.end(leader)
    check("the longer history leads", cluster.agree([fewer, more], token)[0] == more)
    cluster.close()


def report_to_a_member_that_joins_is_kept():
    """It counts when the member takes part."""
    cluster = Cluster(3, options=PATIENT)
    via = f"peers:{cluster.file('a')}"
    cluster.start("a")
    until("it answers", lambda: "joining" in subprocess.run(
        [CONCLAVE, "members", str(cluster.file("a")), "e"], capture_output=True, text=True, check=False).stdout)
    ask("report", "e", "--via", via, "--node", "a", "--history", "100")
    cluster.start("b", "c")
    leader, token = cluster.agree()
    if leader != "a":  # it may have come too late for the first election
        cluster.end(leader)
        check("the longer history leads", cluster.agree(cluster.others(leader), token)[0] == "a")
    cluster.close()


def requests_of_a_site_decide_who_leads_next():
    cluster = Cluster(4, options=PATIENT + "oracle = request\n")
    site = {"a": "north", "b": "north", "c": "south", "d": "south"}
    for name in cluster.names:
        text = cluster.file(name).read_text()
        for other, where in site.items():
            text = text.replace(f"[member {other}]\n", f"[member {other}]\nsite = {where}\n")
        cluster.file(name).write_text(text)
    cluster.start()
    via = f"peers:{cluster.file('a')}"
    leader, token = cluster.agree()
    report = lambda where, rate, status=0: ask(
        "report", "e", "--via", via, "--site", where, "--request-rate", rate, status=status)
    check("unknown", "no member of 'test' has site = east" in report("east", "5", status=2))
    check("alone", "--site must be used with --request-rate" in
          ask("report", "e", "--via", via, "--site", "north", "--load", "5", status=2))
    busy = site[leader]  # the other member of that site has the most requests
    calm = "south" if busy == "north" else "north"
    report(busy, "901")
    report(calm, "300")
    cluster.end(leader)
    heir, token = cluster.agree(cluster.others(leader), token)
    check(f"{heir} is at {busy}", site[heir] == busy)
    report(busy, "100")  # all of them are the heir's now, and fewer than half of the others'
    cluster.start(leader)
    cluster.agree(above=token - 1)
    report(calm, "900")
    ask("report", "e", "--via", via, "--node", leader, "--request-rate", "0")
    cluster.end(heir)
    third, _ = cluster.agree(cluster.others(heir), token)
    check(f"{third} is at {calm}", site[third] == calm)
    cluster.close()


def run_says_that_a_short_lease_leaves_no_time_to_stop():
    cluster = Cluster(3, options="profile = auto\n")
    line = ["run", "e", "--via", f"peers:{cluster.file('a')}", "--node", "a", "--check"]
    check("4ms", "leaves the command 4ms from SIGTERM to SIGKILL" in ask(*line, "--", "true"))
    check("wanted", ask(*line, "--grace", "1ms", "--", "true") == "")
    cluster.write("a", options="profile = auto\nlease-min = 2s\n")
    check("long enough", ask(*line, "--", "true") == "")
    cluster.close()


def run_moves_the_command_to_another_member():
    cluster = Cluster(3, options="heartbeat = 100ms\ntimeout = 500ms\nlease = 1s\nround = 100ms\n"
                      "delta = 20ms\nsigma = 20ms\n")
    processes = {}
    for name in cluster.names:
        with open(cluster.folder / f"{name}.err", "w") as err:
            processes[name] = subprocess.Popen(
                [CONCLAVE, "run", "e", "--via", f"peers:{cluster.file(name)}", "--node", name, "--", "sh", "-c",
                 f"echo $CONCLAVE_NODE $CONCLAVE_TOKEN >>{cluster.folder}/ran; exec sleep 1000"],
                stdin=subprocess.DEVNULL, stderr=err)
        running.append(processes[name])
    ran = cluster.folder / "ran"

    def starts():
        return [line.split() for line in ran.read_text().splitlines()] if ran.exists() else []

    until("all have joined: the first start needs all members", lambda: all(map(cluster.has_state, cluster.names)))
    first = until("the command runs", starts)[0]
    processes[first[0]].kill()
    processes[first[0]].wait()
    running.remove(processes.pop(first[0]))
    until("another runs it", lambda: len(starts()) == 2)
    second = starts()[1]
    check(f"{first} {second}", second[0] != first[0] and int(second[1]) > int(first[1]))
    for process in processes.values():
        process.terminate()
        process.wait()
        running.remove(process)


TESTS = [
    judge_notices_two_leaders_and_tokens_that_do_not_grow,
    a_port_is_given_to_one_cluster_only,
    two_leaders_of_a_divided_cluster_are_noticed,
    members_elect_and_survive_kills_and_restarts,
    stopped_leader_does_not_lead_when_it_wakes_up,
    woken_leader_neither_leads_nor_writes,
    killed_leader_is_replaced_before_its_lease_is_over,
    member_without_its_state_joins_anew_above_all_tokens,
    member_without_its_state_begins_above_what_the_others_remember,
    member_without_its_state_forgets_no_promise,
    member_without_its_state_waits_for_the_end_of_its_promise,
    a_member_that_could_cause_two_leaders_does_not_start,
    elections_of_the_same_members_have_a_file_each,
    members_have_addresses_of_ipv6,
    five_members_lose_messages_and_each_other,
    random_faults_never_make_two_leaders,
    flood_does_not_change_the_leader,
    key_is_replaced_member_by_member,
    new_version_is_installed_member_by_member,
    guests_see_the_leader_and_ask_it_to_resign,
    resign_says_whether_the_heir_leads,
    lease_floor_depends_on_real_time_scheduling,
    each_permission_that_is_missing_is_said_once,
    history_shows_what_the_members_saw,
    last_leadership_is_known_while_nobody_leads,
    killed_leader_is_reported_as_died,
    reported_history_decides_who_leads_next,
    report_to_a_member_that_joins_is_kept,
    requests_of_a_site_decide_who_leads_next,
    run_moves_the_command_to_another_member,
    run_says_that_a_short_lease_leaves_no_time_to_stop,
]


sys.exit(run(TESTS))
