"""tests/support/control_group.py - a control group of the test's own, where one can be made.

A guard kills what it finds in the groups of dead guards beside its own. A test that wants to see such
processes must not share its group with other tests that run at the same time."""

import contextlib
import os
import time


def _folder():
    """The folder of the group that this process is in, or None."""
    with contextlib.suppress(OSError, StopIteration):
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            own = next(line.strip()[3:] for line in file if line.startswith("0::"))
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            mounts = [line.split() for line in file if " - cgroup2 " in line]
        for words in mounts:
            root, place = words[3], words[4]
            if own == root or own.startswith(root.rstrip("/") + "/"):
                return place + "/" + own[len(root.rstrip("/")):].lstrip("/")
    return None


def _remove(group):
    """Killed processes in it may need a moment to be gone."""
    end = time.monotonic() + 5
    while os.path.exists(group) and time.monotonic() < end:
        for below, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(below)
        time.sleep(0.01)


@contextlib.contextmanager
def own_group():
    """Within the body this process is in a group of its own; yields whether that was possible."""
    before = _folder()
    group = f"{before}/conclave-test.{os.getpid()}" if before else None
    try:
        if group is None:
            raise OSError
        os.mkdir(group)
        with open(group + "/cgroup.procs", "w", encoding="utf-8") as file:
            file.write(str(os.getpid()))
        is_made = os.path.exists(group + "/cgroup.kill")
    except OSError:
        is_made = False
    try:
        yield is_made
    finally:
        if group is not None:
            with contextlib.suppress(OSError):
                with open(before + "/cgroup.procs", "w", encoding="utf-8") as file:
                    file.write(str(os.getpid()))
            _remove(group)
