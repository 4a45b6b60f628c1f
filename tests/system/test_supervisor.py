#!/usr/bin/env python3
"""tests/system/test_supervisor.py SUPERVISE PHOENIX CONCLAVE - no process of a command outlives the leadership.

What the tests share is in tests/support/supervised.py; those in a terminal are in test_supervisor_terminal.py."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from control_group import own_group  # pylint: disable=wrong-import-position
from supervised import (  # pylint: disable=wrong-import-position
    CONCLAVE, PHOENIX, Run, WAIT_S, WORK, is_alive, lines_of, run_all, state, tree, wait_until)


# ---- the exit status ------------------------------------------------------------------------------

def the_exit_status_is_the_commands():
    for command, status in (("true", 0), ("exit 3", 3), ("exit 255", 255), ("kill -9 $$", 137),
                            ("kill -TERM $$", 143), ("kill -PIPE $$", 141)):
        run = Run("sh", "-c", command)
        assert run.event("exited")[2] == str(status), command
        assert run.event("gone")[1:3] == ["exited", str(status)], command
        assert run.status() == status, command


def a_command_that_cannot_be_started_is_127_or_126():
    plain = os.path.join(WORK, "plain")
    with open(plain, "w", encoding="utf-8") as file:
        file.write("exit 5\n")
    for command, status in (("/no/such/command", 127), ("no-such-command-in-path", 127), (WORK, 126),
                            (plain, 126), (plain + "/below", 126)):
        run = Run(command)
        assert run.event("gone")[1:3] == ["not-started", str(status)], command
        assert run.status() == status, command
        with open(run.name + ".err", encoding="utf-8") as file:
            assert file.read().count("\n") == 1
    os.chmod(plain, 0o755)  # without #!, as a shell would run it
    assert Run(plain).status() == 5


# ---- what the command gets ------------------------------------------------------------------------

def the_command_gets_environment_and_lease_file():
    run = Run("sh", "-c", 'echo "$CONCLAVE_ELECTION $CONCLAVE_NODE $CONCLAVE_TOKEN"; '
              'stat -c "%a %s" "$CONCLAVE_LEASE_FILE"; read -r x', stdin=subprocess.PIPE)
    run.event("started")
    number, token, valid_until = run.lease()
    assert (number, token) == (1, 1)
    assert valid_until > time.clock_gettime(time.CLOCK_BOOTTIME)
    run.process.stdin.close()
    run.event("gone")
    run.status()
    assert run.output().split() == ["nightly", "host-1", "1", "600", "4096"], run.output()
    run.all_gone([])


def check_lease_tells_whether_the_leadership_is_valid():
    check = f'"{CONCLAVE}" check-lease'
    run = Run("sh", "-c", f"{check}; echo $?; {check} --json; {check} --min 1h -q; echo $?; "
              f"cp $CONCLAVE_LEASE_FILE {WORK}/copy; CONCLAVE_LEASE_FILE={WORK}/copy {check} -q; echo $?; "
              f"CONCLAVE_LEASE_FILE=/dev/null {check}; echo $?; unset CONCLAVE_LEASE_FILE; {check}; "
              f"echo $?; {check} --min soon; echo $?", options=["--lease", "100s", "--renew", "0s"])
    run.status()
    lines = run.output().splitlines()
    assert lines[0].startswith("leading for ") and lines[0].endswith(" with token 1"), lines
    told = json.loads(lines[2])
    assert told["election"] == "nightly" and told["node"] == "host-1" and told["token"] == 1
    assert told["valid"] is True and 0 < told["remaining_s"] < 100
    assert lines[1:2] + lines[3:] == ["0", "1", "0", "2", "2", "2"], lines
    with open(run.name + ".err", encoding="utf-8") as file:
        assert len(file.read().splitlines()) == 3


def check_lease_says_no_after_the_end():
    run = Run("sh", "-c", f"cp -l $CONCLAVE_LEASE_FILE {WORK}/link; read -r x", stdin=subprocess.PIPE)
    run.event("started")
    wait_until("the link", lambda: os.path.exists(WORK + "/link"))
    lease = {"CONCLAVE_LEASE_FILE": WORK + "/link"}
    assert subprocess.run([CONCLAVE, "check-lease", "-q"], env=lease, check=False).returncode == 0
    run.process.stdin.close()
    run.status()
    said = subprocess.run([CONCLAVE, "check-lease"], env=lease, check=False, capture_output=True)
    assert said.returncode == 1 and said.stdout == b"not leading\n"


def the_command_gets_no_descriptor_but_the_inherited_one():
    run = Run("sh", "-c", "exec ls -l /proc/self/fd")
    assert run.status() == 0
    fds = {line.split()[-3]: line.split()[-1] for line in run.output().splitlines()[1:]}
    inherited = [fd for fd, target in fds.items() if target == run.lock]
    assert len(inherited) == 1, fds
    others = [fd for fd, target in fds.items()
              if fd not in ("0", "1", "2") and fd not in inherited and "/fd" not in target]
    assert not others, fds


def the_command_gets_the_descriptors_that_we_were_started_with():
    with open("/etc/passwd") as given:
        run = Run("sh", "-c", f"exec readlink /proc/self/fd/{given.fileno()}",
                  pass_fds=[given.fileno()])
        assert run.status() == 0
        assert run.output() == "/etc/passwd\n"


def the_command_gets_signals_as_they_were():
    def ignore_hup():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    run = Run("grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status", preexec_fn=ignore_hup)
    assert run.status() == 0
    masks = {line.split(":")[0]: int(line.split()[1], 16) for line in run.output().splitlines()}
    # The program that runs the tests may ignore other signals, too.
    ours = pathlib.Path("/proc/self/status").read_text()
    ignored = int(next(line.split()[1] for line in ours.splitlines() if "SigIgn" in line), 16)
    dropped = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    expected = ignored & ~dropped | 1 << (signal.SIGHUP - 1)
    assert masks["SigBlk"] == 0 and masks["SigIgn"] == expected, (masks, expected)


def standard_input_passes_through():
    run = Run("cat", stdin=subprocess.PIPE)
    run.process.stdin.write(b"one\ntwo\n")
    run.process.stdin.close()
    assert run.status() == 0 and run.output() == "one\ntwo\n"


def signals_are_passed_on():
    names = ["HUP", "INT", "QUIT", "USR1", "USR2", "WINCH", "TERM"]
    traps = "".join(f"trap 'echo {name}' {name}; " for name in names)
    run = Run("sh", "-c", traps + "echo ready; while :; do sleep 0.01; done")
    wait_until("ready", lambda: "ready" in run.output())
    for name in names:
        run.process.send_signal(getattr(signal, "SIG" + name))
        assert run.event("signal")[1] == str(int(getattr(signal, "SIG" + name)))
        wait_until("the command got " + name, lambda: name in run.output().split())
    assert run.output().split() == ["ready"] + names
    run.say("kill")
    assert run.event("gone")[1:3] == ["stopped", "137"]


# ---- somebody is killed ---------------------------------------------------------------------------

def nothing_lives_when_the_supervisor_is_killed(*options):
    """At once: neither the lease nor the grace period has to end first."""
    run, pids = tree(3, "--lease", "1000s", "--grace", "500s", *options)
    assert not run.lock_is_free()
    run.process.kill()
    run.all_gone(pids)


def nothing_lives_when_the_guard_is_killed(*options):
    run, pids = tree(3, *options)
    os.kill(run.guard, signal.SIGKILL)
    assert run.event("gone")[1:4] == ["guard-died", "137", "killed"]
    assert run.status() == 137
    run.all_gone(pids)


def nothing_lives_when_the_command_is_killed(*options):
    run, pids = tree(3, *options)
    os.kill(pids[0], signal.SIGKILL)
    assert run.event("exited")[2] == "137"
    assert run.event("gone")[1:4] == ["exited", "137", "killed"]
    run.all_gone(pids)


def the_command_lives_on_when_a_grandchild_is_killed(*options):
    run, pids = tree(3, *options)
    os.kill(pids[2], signal.SIGKILL)
    wait_until("its end", lambda: not is_alive(pids[2]))
    before = run.lease()[2]
    wait_until("a renewal", lambda: run.lease()[2] > before)
    assert is_alive(pids[0]) and is_alive(pids[1])
    run.say("kill")
    run.event("gone")
    run.all_gone(pids)


def the_lock_is_held_when_supervisor_and_guard_are_killed():
    run, pids = tree(2)
    lose_both(run, pids)
    assert not run.lock_is_free(), "the lock is free though the grandchild lives"
    os.kill(pids[1], signal.SIGKILL)
    wait_until("the lock is free", run.lock_is_free)


def lose_both(run, pids):
    """Supervisor and guard are killed, and the grandchild lives."""
    run.process.send_signal(signal.SIGSTOP)
    os.kill(run.guard, signal.SIGKILL)
    wait_until("the kernel kills the command", lambda: not is_alive(pids[0]))
    run.process.kill()
    run.status()
    assert is_alive(pids[1]), "the grandchild was killed though supervisor and guard are dead"


def the_next_guard_kills_what_a_killed_supervisor_and_guard_have_left():
    if not has_group:
        raise Skipped("no control group can be made here")
    run, pids = tree(2)
    lose_both(run, pids)
    living, others = tree(2)
    assert not is_alive(pids[1]), "the next command began while the grandchild lived"
    again = Run("true")  # which leaves the processes of a living guard alone
    assert again.status() == 0
    assert all(is_alive(pid) for pid in others)
    living.say("kill")
    living.event("gone")


# ---- both out of action, with a store that knows of descendants -----------------------------------

class Pair:
    """Two `conclave run` of one election in a file; the first leads, and has a tree of processes."""

    def __init__(self):
        Run.count += 1
        Run.all.append(self)
        self.name = os.path.join(WORK, f"pair{Run.count}")
        self.processes = []
        self.first = self.start("first", os.path.join(WORK, "tree"), "2", self.name + ".pids")
        wait_until("the tree", lambda: len(lines_of(self.name + ".pids")) == 2)
        self.tree = [int(pid) for pid in lines_of(self.name + ".pids")]
        self.guard = int(pathlib.Path(
            f"/proc/{self.first.pid}/task/{self.first.pid}/children").read_text().split()[0])
        grandchild = [pid for pid in self.tree if parent(pid) == self.guard
                      and os.getsid(pid) == pid]
        assert len(grandchild) == 1, self.tree
        self.grandchild = grandchild[0]
        self.second = self.start("second", "sh", "-c", f"echo $$ >{self.name}.next; read -r x")

    def start(self, node, *command):
        process = subprocess.Popen(
            [CONCLAVE, "run", "pair", "--via", f"sqlite:{self.name}.db", "--lease", "500ms",
             "--node", node, "--", *command], stdin=subprocess.PIPE)
        self.processes.append(process)
        return process

    def status(self):
        return subprocess.run([CONCLAVE, "status", "pair", "--via", f"sqlite:{self.name}.db"],
                              capture_output=True, text=True, check=False).stdout

    def waits_for_the_grandchild(self):
        """The lease runs out, but the second does not lead before the grandchild is gone."""
        wait_until("the lease is over", lambda: "has expired" in self.status())
        assert is_alive(self.grandchild) and not lines_of(self.name + ".next")
        os.kill(self.grandchild, signal.SIGKILL)
        wait_until("the second leads", lambda: lines_of(self.name + ".next"))

    def clean(self):
        for process in self.processes:
            process.kill()  # then the kernel continues its guard
            process.wait(WAIT_S)
        for pid in lines_of(self.name + ".pids"):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if WORK.encode() in file.read():
                        os.kill(int(pid), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def nobody_leads_while_a_grandchild_of_a_stopped_supervisor_without_guard_lives():
    pair = Pair()
    pair.first.send_signal(signal.SIGSTOP)
    wait_until("it is stopped", lambda: state(pair.first.pid) == "T")
    os.kill(pair.guard, signal.SIGKILL)
    pair.waits_for_the_grandchild()


def nobody_leads_while_a_grandchild_of_a_stopped_pair_lives():
    pair = Pair()
    pair.first.send_signal(signal.SIGSTOP)
    wait_until("it is stopped", lambda: state(pair.first.pid) == "T")
    os.kill(pair.guard, signal.SIGSTOP)
    wait_until("the lease is over", lambda: "has expired" in pair.status())
    assert all(is_alive(pid) for pid in pair.tree) and not lines_of(pair.name + ".next")
    os.kill(pair.guard, signal.SIGCONT)  # it finds that the deadline has passed
    wait_until("the second leads", lambda: lines_of(pair.name + ".next"))
    assert not any(is_alive(pid) for pid in pair.tree)


def a_run_that_was_paused_with_its_guard_takes_part_again():
    """The supervisor wakes up first, finds that the guard is late, and replaces it."""
    pair = Pair()
    pair.first.send_signal(signal.SIGSTOP)
    wait_until("it is stopped", lambda: state(pair.first.pid) == "T")
    os.kill(pair.guard, signal.SIGSTOP)
    wait_until("the lease is over", lambda: "has expired" in pair.status())
    pair.first.send_signal(signal.SIGCONT)
    wait_until("the tree is gone", lambda: not any(is_alive(pid) for pid in pair.tree))
    pair.second.kill()  # it may lead by now
    wait_until("the first leads again", lambda: len(lines_of(pair.name + ".pids")) == 4)


def a_stopped_supervisor_alone_does_not_hold_up_the_others():
    pair = Pair()
    pair.first.send_signal(signal.SIGSTOP)
    wait_until("the second leads", lambda: lines_of(pair.name + ".next"))
    assert not any(is_alive(pid) for pid in pair.tree)


# ---- somebody is stopped --------------------------------------------------------------------------

def no_process_runs_after_the_deadline(run, pids, deadline):
    for pid in pids:
        wait_until(f"the end of {pid}", lambda: not is_alive(pid))
    last = run.last_step(pids)
    assert last <= deadline, f"a step at {last}, {last - deadline:.3f} s after the deadline"


def a_stopped_supervisor_does_not_prolong_the_command(*options):
    run, pids = tree(3, *options)
    run.process.send_signal(signal.SIGSTOP)
    wait_until("it is stopped", lambda: state(run.process.pid) == "T")
    deadline = run.lease()[2]
    no_process_runs_after_the_deadline(run, pids, deadline)
    run.process.send_signal(signal.SIGCONT)
    assert run.event("gone")[1:4] == ["deadline", "137", "killed"]
    assert run.status() == 137


def a_stopped_guard_is_continued():
    run, pids = tree(2)
    os.kill(run.guard, signal.SIGSTOP)
    wait_until("it runs again", lambda: state(run.guard) != "T")
    run.say("stop")
    assert run.event("gone")[1:4] == ["stopped", "137", "killed"]
    run.all_gone(pids)


def the_supervisor_keeps_the_deadline_when_the_guard_does_not_run():
    run, pids = tree(3)
    run.say("silent")
    while is_alive(run.guard):  # as often as it is continued
        try:
            os.kill(run.guard, signal.SIGSTOP)
            deadline = run.lease()[2]
        except (ProcessLookupError, FileNotFoundError, IndexError):
            break
        except AssertionError:
            break
    no_process_runs_after_the_deadline(run, pids, deadline)
    assert run.event("gone")[1] == "deadline"
    run.status()
    run.all_gone(pids)


def a_stopped_guard_wakes_up_when_a_stopped_supervisor_is_killed():
    run, pids = tree(2)
    run.process.send_signal(signal.SIGSTOP)
    wait_until("it is stopped", lambda: state(run.process.pid) == "T")
    os.kill(run.guard, signal.SIGSTOP)
    wait_until("so is the guard", lambda: state(run.guard) == "T")
    run.process.kill()
    run.all_gone(pids)


def a_stopped_command_is_ended_too():
    run = Run("sh", "-c", "trap 'echo bye; exit 7' TERM; echo $$ >PIDS; while :; do sleep 0.01; done")
    pid = run.pids(1)[0]
    os.kill(pid, signal.SIGSTOP)
    assert run.event("suspended")[2] == str(int(signal.SIGSTOP))
    run.say("stop")
    assert run.event("exited")[2] == "7" and run.output() == "bye\n"


# ---- the cleanup ------------------------------------------------------------------------------------

# Prints which processes of the command still live, and whether the lock is still held.
CLEANUP = '''for pid in $(cat PIDS); do ! kill -0 $pid 2>/dev/null || echo alive; done
lock=$(echo PIDS | sed 's/pids$/lock/')
flock -n "$lock" echo free
echo "clean $CONCLAVE_REASON $CONCLAVE_TOKEN $CONCLAVE_ELECTION"'''


def tree_with_cleanup(*options):
    return tree(3, "--cleanup", CLEANUP, "--cleanup-time", "10s", "--lease", "20s", *options)


def the_cleanup_follows_the_tree_when_the_supervisor_is_killed(*options):
    run, pids = tree_with_cleanup(*options)
    run.process.kill()
    run.all_gone(pids)
    assert run.output() == "clean died 1 nightly\n", run.output()


def the_cleanup_follows_the_tree_when_the_guard_is_killed(*options):
    run, pids = tree_with_cleanup(*options)
    os.kill(run.guard, signal.SIGKILL)
    words = run.event("gone")
    assert words[1:4] + words[5:] == ["guard-died", "137", "killed", "0"], words
    # When the guard is dead, only the caller still holds the lock.
    assert run.output() == "clean died 1 nightly\n", run.output()
    run.status()
    run.all_gone(pids)


def the_cleanup_follows_the_tree_when_it_is_stopped(*options):
    run, pids = tree_with_cleanup("--grace", "10ms", *options)
    run.say("stop")
    words = run.event("gone")
    assert words[1:4] + words[5:] == ["stopped", "137", "killed", "0"], words
    assert run.output() == "clean resigned 1 nightly\n", run.output()
    assert run.status() == 137
    run.all_gone(pids)


def the_cleanup_follows_a_command_that_ends():
    run = Run("sh", "-c", "exit 3",
              options=["--cleanup", "echo $CONCLAVE_REASON; exit 4", "--cleanup-time", "10s",
                       "--lease", "20s"])
    words = run.event("gone")
    assert words[1:3] + words[5:] == ["exited", "3", "4"], words
    assert run.output() == "finished\n" and run.status() == 3


def the_cleanup_is_over_before_the_deadline_of_a_stopped_supervisor():
    run, pids = tree(3, "--cleanup", CLEANUP + "; date +%s.%N >>PIDS.cleaned; sleep 99",
                     "--cleanup-time", "1s", "--lease", "3s")
    run.process.send_signal(signal.SIGSTOP)
    wait_until("it is stopped", lambda: state(run.process.pid) == "T")
    deadline = run.lease()[2]
    wait_until("the cleanup", lambda: lines_of(run.pid_file + ".cleaned"))
    begun = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert run.output() == "clean expired 1 nightly\n", run.output()
    assert begun < deadline, f"it began {begun - deadline} s after the deadline"
    run.process.send_signal(signal.SIGCONT)
    words = run.event("gone")
    assert words[1:4] + words[5:] == ["deadline", "137", "killed", "137"], words
    run.all_gone(pids)


def processes_that_a_cleanup_leaves_behind_are_killed():
    run = Run("true", options=["--cleanup", "sleep 99 & echo $! >PIDS", "--cleanup-time", "10s",
                               "--lease", "20s"])
    assert run.event("gone")[5] == "0"
    assert not is_alive(run.pids(1)[0])


def a_command_that_was_not_started_needs_no_cleanup():
    run = Run("/nowhere", options=["--cleanup", "echo clean", "--cleanup-time", "10s",
                                   "--lease", "20s"])
    words = run.event("gone")
    assert words[1:3] + words[5:] == ["not-started", "127", "-1"], words
    assert run.output() == ""


def a_cleanup_whose_guard_is_killed_is_repeated_once():
    run, _ = tree(2, "--cleanup", "echo $PPID >>PIDS.guards; sleep 99",
                  "--cleanup-time", "30s", "--lease", "60s")
    os.kill(run.guard, signal.SIGKILL)
    second = wait_until("the cleanup", lambda: lines_of(run.pid_file + ".guards"))
    os.kill(int(second[0]), signal.SIGKILL)
    words = run.event("gone")
    assert words[1:4] + words[5:] == ["guard-died", "137", "killed", "-1"], words
    assert len(lines_of(run.pid_file + ".guards")) == 1


# ---- the deadline -----------------------------------------------------------------------------------

def a_deadline_that_is_not_extended_ends_the_command():
    run = Run("sh", "-c", "trap 'echo bye; exit 9' TERM; while :; do sleep 0.01; done",
              options=["--renew", "0s"])
    words = run.event("gone")
    assert words[1:4] == ["deadline", "9", "mildly"], words
    assert int(words[4]) > 0, "gone only after the deadline"
    assert run.output() == "bye\n" and run.status() == 9


def a_command_that_ignores_sigterm_is_killed_before_the_deadline(*options):
    run, pids = tree(3, "--renew", "0s", *options)
    deadline = run.lease()[2]
    assert run.event("gone")[1:4] == ["deadline", "137", "killed"]
    no_process_runs_after_the_deadline(run, pids, deadline)


def a_deadline_that_is_extended_does_not_end_the_command():
    run, pids = tree(1, "--lease", "700ms", "--renew", "50ms", "--grace", "100ms")
    first = run.lease()[2]
    wait_until("two leases", lambda: run.last_step(pids) > first + 0.7)
    run.say("kill")
    assert run.event("gone")[1] == "stopped"


def a_deadline_that_comes_nearer_counts():
    run, pids = tree(1, "--lease", "600s", "--renew", "0s")
    run.say("shorten")
    assert run.event("gone")[1:4] == ["deadline", "137", "killed"]
    run.all_gone(pids)


def no_command_starts_too_near_to_the_deadline():
    run = Run("sh", "-c", "echo started", options=["--lease", "150ms", "--grace", "200ms"])
    assert run.event("gone")[1] == "too-late"
    assert run.output() == ""


# ---- stopping ---------------------------------------------------------------------------------------

def stop_lets_the_command_end_by_itself():
    run = Run("sh", "-c", "trap 'exit 4' TERM; echo ready; while :; do sleep 0.01; done",
              options=["--grace", "20s", "--lease", "60s"])
    wait_until("ready", lambda: "ready" in run.output())
    run.say("stop")
    assert run.event("gone")[1:4] == ["stopped", "4", "mildly"]


def stop_reaches_processes_that_left_the_group(*options):
    run = Run("sh", "-c", "trap 'exit 0' TERM; setsid sh -c 'trap \"echo daemon; exit\" TERM; echo ready; "
              "while :; do sleep 0.01; done' & while :; do sleep 0.01; done",
              options=["--grace", "20s", "--lease", "60s", *options])
    wait_until("ready", lambda: "ready" in run.output())
    run.say("stop")
    assert run.event("gone")[1:4] == ["stopped", "0", "mildly"]
    assert run.output().split() == ["ready", "daemon"]


def stop_kills_a_command_that_ignores_sigterm(*options):
    run, pids = tree(3, *options)
    run.say("stop")
    assert run.event("gone")[1:4] == ["stopped", "137", "killed"]
    run.all_gone(pids)


def processes_that_the_command_leaves_behind_are_ended():
    run = Run("sh", "-c", "setsid sh -c 'trap \"echo daemon; exit\" TERM; echo $$ >PIDS; "
              "while :; do sleep 0.01; done' & while [ ! -e PIDS ]; do sleep 0.01; done; exit 6",
              options=["--grace", "20s", "--lease", "60s"])
    assert run.event("exited")[2] == "6"
    assert run.event("gone")[1:4] == ["exited", "6", "mildly"]
    assert run.output().split() == ["daemon"]


def processes_that_fork_and_end_all_the_time_are_killed(*options):
    run = Run(PHOENIX, "6", "60", options=options)
    pid = int(run.event("started")[1])
    wait_until("ready", lambda: "ready" in run.output())
    run.process.kill()
    run.all_gone([pid])


def the_end_is_not_reported_too_early_when_the_guard_is_killed():
    """A list of processes that fork and end all the time may be empty although some are alive."""
    for _ in range(5):
        run = Run(PHOENIX, "12", "60", options=["--no-cgroup"])
        run.event("started")
        wait_until("ready", lambda: "ready" in run.output())
        os.kill(run.guard, signal.SIGKILL)
        assert run.event("gone")[1] == "guard-died"
        run.status()  # it ends at once, with the last copy of the lock
        assert run.lock_is_free(), "somebody lives"


def the_command_may_run_again():
    run = Run("sh", "-c", "echo $CONCLAVE_TOKEN; exit $CONCLAVE_TOKEN")
    run.say("again")
    words = [run.event("gone")[2]]
    if run.process.poll() is None:
        second = run.line()
        if second and second[0] == "guard":
            assert int(second[1]) == run.guard, "the same guard"
            words.append(run.event("gone")[2])
    assert words in (["1"], ["1", "2"]), words  # the first may be over before `again` was sent


def the_command_may_run_again_after_a_kill(*options):
    run, _ = tree(2, *options)
    run.say("again")
    run.say("kill")
    assert run.event("gone")[1:3] == ["stopped", "137"]
    run.event("started")
    run.stepping(4)
    run.say("kill")
    assert run.event("gone")[1:3] == ["stopped", "137"]


def a_new_guard_is_made_when_the_old_one_was_killed():
    run, pids = tree(2)
    run.say("again")
    before = run.lease()[2]
    wait_until("the new deadline is in the lease file", lambda: run.lease()[2] > before)
    os.kill(run.guard, signal.SIGKILL)
    run.event("gone")
    assert int(run.event("guard")[1]) != run.guard
    pid = int(run.event("started")[1])
    for old in pids:
        assert not is_alive(old)
    assert is_alive(pid)
    run.say("kill")
    assert run.event("gone")[1] == "stopped"
    assert run.status() == 137


# ---- the next command's process ---------------------------------------------------------------------

def contender(*command):
    """A `conclave run` of an election in a file of this test's own."""
    return subprocess.Popen([CONCLAVE, "run", "next", "--via", f"sqlite:{WORK}/next.{Run.count}", "--",
                             *command], stdin=subprocess.DEVNULL)


def child_of(pid, name):
    """The child of a process with this name."""
    def find():
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split():
            try:
                if pathlib.Path(f"/proc/{child}/comm").read_text("utf-8").strip() == name:
                    return int(child)
            except OSError:
                pass
        return 0
    return wait_until(name, find)


def leader_and_waiting():
    """A contender that leads, and one that waits; returns the prepared process of the waiting one, too."""
    Run.count += 1
    done = os.path.join(WORK, f"done{Run.count}")
    leader = contender("sleep", "600")
    child_of(child_of(leader.pid, "conclave-guard"), "sleep")
    waiting = contender("sh", "-c", f"echo $CONCLAVE_TOKEN >{done}")
    prepared = child_of(child_of(waiting.pid, "conclave-guard"), "conclave-next")
    return leader, waiting, prepared, done


def the_process_for_the_next_command_is_prepared_and_executes_it():
    leader, waiting, prepared, done = leader_and_waiting()
    wait_until("it has closed the guard's descriptors",
               lambda: len(os.listdir(f"/proc/{prepared}/fd")) == 4)  # three standard descriptors, and one to the guard
    assert not os.path.exists(done)
    leader.terminate()
    leader.wait()
    assert waiting.wait() == 0
    assert lines_of(done) == ["2"]


def a_killed_prepared_process_is_replaced():
    leader, waiting, prepared, done = leader_and_waiting()
    os.kill(prepared, signal.SIGKILL)
    wait_until("it is reaped", lambda: not os.path.exists(f"/proc/{prepared}"))
    leader.terminate()
    leader.wait()
    assert waiting.wait() == 0
    assert lines_of(done) == ["2"]


def the_prepared_process_dies_with_its_supervisor_and_with_its_guard():
    leader, waiting, prepared, done = leader_and_waiting()
    guard = parent(prepared)
    os.kill(guard, signal.SIGKILL)
    wait_until("it is gone", lambda: not is_alive(prepared))
    waiting.kill()
    waiting.wait()
    other = contender("sh", "-c", "exit 1")
    prepared = child_of(child_of(other.pid, "conclave-guard"), "conclave-next")
    other.kill()
    other.wait()
    wait_until("it is gone", lambda: not is_alive(prepared))
    leader.terminate()
    leader.wait()
    assert not os.path.exists(done)


# ---- all of them --------------------------------------------------------------------------------------

def tests():
    both = (nothing_lives_when_the_supervisor_is_killed, nothing_lives_when_the_guard_is_killed,
            nothing_lives_when_the_command_is_killed,
            the_command_lives_on_when_a_grandchild_is_killed,
            a_stopped_supervisor_does_not_prolong_the_command,
            the_cleanup_follows_the_tree_when_the_supervisor_is_killed,
            the_cleanup_follows_the_tree_when_the_guard_is_killed,
            the_cleanup_follows_the_tree_when_it_is_stopped,
            the_command_may_run_again_after_a_kill,
            a_command_that_ignores_sigterm_is_killed_before_the_deadline, stop_kills_a_command_that_ignores_sigterm,
            stop_reaches_processes_that_left_the_group, processes_that_fork_and_end_all_the_time_are_killed)
    for name, function in list(globals().items()):
        if function in both:
            yield name, function
            yield name + "_without_a_control_group", lambda function=function: function("--no-cgroup")
        elif callable(function) and getattr(function, "__module__", "") == "__main__" \
                and "_" in name and function.__code__.co_argcount == 0 \
                and not function.__code__.co_flags & 0x20 and name not in (
                    "tree_with_cleanup", "leader_and_waiting"):
            yield name, function


if __name__ == "__main__":
    with own_group() as has_group:
        STATUS = run_all(tests())
    sys.exit(STATUS)
