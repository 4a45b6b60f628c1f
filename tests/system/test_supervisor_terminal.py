#!/usr/bin/env python3
"""tests/system/test_supervisor_terminal.py SUPERVISE PHOENIX CONCLAVE - the supervisor in a terminal: signals of
the keyboard, reading, job control. See tests/support/supervised.py."""

import fcntl
import os
import pathlib
import pty
import select
import signal
import struct
import sys
import termios
import time
import traceback

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from control_group import own_group  # pylint: disable=wrong-import-position
from supervised import (  # pylint: disable=wrong-import-position
    SUPERVISE, Skipped, WAIT_S, WORK, is_alive, lines_of, run_all, state, wait_until)


def in_terminal(run_in_child):
    """Plays the shell: the session leader of a new terminal, which starts jobs."""
    try:
        pid, master = pty.fork()
    except OSError as error:  # a chroot without /dev/pts
        raise Skipped(f"no terminal can be made here: {error}") from error
    if pid == 0:
        status = 99
        try:
            status = run_in_child()
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
        os._exit(status)
    return pid, master


def start_job(*command, options=()):
    """In the child of in_terminal(): starts a job as a shell with job control does."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(SUPERVISE, [SUPERVISE, *options, "--", *command])
    try:
        os.setpgid(pid, pid)
    except PermissionError:
        pass  # it has executed already, and has done this itself
    return pid


def expect(master, text, seen=b""):
    end = time.monotonic() + WAIT_S
    while text.encode() not in seen:
        ready, _, _ = select.select([master], [], [], max(0, end - time.monotonic()))
        assert ready, f"the terminal never showed {text!r}, but {seen!r}"
        seen += os.read(master, 4096)
    return seen


def finish(pid, master):
    _, status = os.waitpid(pid, 0)
    os.close(master)
    return os.waitstatus_to_exitcode(status)


def the_terminals_interrupt_reaches_the_command_only():
    def shell():
        job = start_job("sh", "-c", "trap 'echo got-int; exit 5' INT; echo ready; "
                        "while :; do sleep 0.01; done")
        _, status = os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpgrp())
        return os.waitstatus_to_exitcode(status)
    pid, master = in_terminal(shell)
    seen = expect(master, "ready")
    os.write(master, b"\x03")
    expect(master, "got-int", seen)
    assert finish(pid, master) == 5


def the_command_reads_the_terminal():
    def shell():
        job = start_job("sh", "-c", "echo ready; read -r x; echo read-$x")
        _, status = os.waitpid(job, os.WUNTRACED)
        return 50 if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)
    pid, master = in_terminal(shell)
    seen = expect(master, "ready")
    os.write(master, b"hello\n")
    expect(master, "read-hello", seen)
    assert finish(pid, master) == 0


def suspend_stops_both_and_fg_continues_both():
    def shell():
        job = start_job("sh", "-c", "echo ready; read -r x; echo read-$x; exit 3",
                        options=["--lease", "60s"])
        _, status = os.waitpid(job, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return 50
        if os.tcgetpgrp(0) != job:  # the shell takes the terminal back
            return 51
        os.tcsetpgrp(0, os.getpgrp())
        print("shell-again", flush=True)
        if sys.stdin.readline() != "fg\n":
            return 52
        os.tcsetpgrp(0, job)
        os.kill(-job, signal.SIGCONT)
        _, status = os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpgrp())
        return os.waitstatus_to_exitcode(status)
    pid, master = in_terminal(shell)
    seen = expect(master, "ready")
    os.write(master, b"\x1a")
    seen = expect(master, "shell-again", seen)
    os.write(master, b"fg\n")
    wait_until("the command has the terminal", lambda: foreground_reads(master))
    os.write(master, b"hello\n")
    expect(master, "read-hello", seen)
    assert finish(pid, master) == 3


def foreground_reads(master):
    """Does a shell of the terminal's foreground group read?"""
    group = struct.unpack("i", fcntl.ioctl(master, termios.TIOCGPGRP, b"\0\0\0\0"))[0]
    try:
        with open(f"/proc/{group}/comm", encoding="utf-8") as file:
            return file.read() == "sh\n" and state(group) == "S"
    except FileNotFoundError:
        return False


def the_deadline_holds_while_both_are_suspended():
    def shell():
        job = start_job("sh", "-c", "echo $$ >" + WORK + "/suspended; echo ready; read -r x")
        _, status = os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpgrp())
        command = int(lines_of(WORK + "/suspended")[0])
        wait_until("the command's end", lambda: not is_alive(command))
        if state(job) != "T":
            return 51
        os.kill(-job, signal.SIGCONT)
        _, status = os.waitpid(job, 0)
        return os.waitstatus_to_exitcode(status)
    pid, master = in_terminal(shell)
    expect(master, "ready")
    os.write(master, b"\x1a")
    assert finish(pid, master) == 128 + signal.SIGTERM


def suspending_does_nothing_where_no_shell_could_continue_it():
    def shell():
        os.execv(SUPERVISE, [SUPERVISE, "--", "sh", "-c", "echo ready; read -r x; echo read-$x"])
    pid, master = in_terminal(shell)
    seen = expect(master, "ready")
    os.write(master, b"\x1a")
    os.write(master, b"hello\n")
    expect(master, "read-hello", seen)
    assert finish(pid, master) == 0


TESTS = (the_terminals_interrupt_reaches_the_command_only,
         the_command_reads_the_terminal,
         suspend_stops_both_and_fg_continues_both,
         the_deadline_holds_while_both_are_suspended,
         suspending_does_nothing_where_no_shell_could_continue_it)

if __name__ == "__main__":
    with own_group():
        STATUS = run_all([(test.__name__, test) for test in TESTS])
    sys.exit(STATUS)
