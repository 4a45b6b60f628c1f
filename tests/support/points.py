"""tests/support/points.py - shared by tests in Python: waiting for a condition, points in TAP, abilities of the host."""

import os
import shutil
import subprocess
import time
import traceback


class Skipped(Exception):
    pass


TURN_S_MAX = 1  # a longer turn means that this process did not run: it was stopped, or the machine was


def await_value(condition, seconds, pause=0.01):
    """The value of the condition as soon as it is true; None: it never was. A time in which this process was
    stopped counts little, since what it waits for may have been stopped as well."""
    left, last = seconds, time.monotonic()
    while left > 0:
        value = condition()
        if value:
            return value
        time.sleep(pause)
        now = time.monotonic()
        left, last = left - min(now - last, TURN_S_MAX), now
    return None


def run_points(points, clean_up=lambda: None):
    """Runs (name, function) one after the other, each with a clean-up; returns the exit status."""
    print(f"1..{len(points)}", flush=True)
    failed = 0
    for number, (name, function) in enumerate(points, 1):
        try:
            function()
            print(f"ok {number} - {name}", flush=True)
        except Skipped as why:
            print(f"ok {number} - {name} # SKIP {why}", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - {name}", flush=True)
            for line in traceback.format_exc().splitlines():
                print("# " + line, flush=True)
        clean_up()
    return 1 if failed else 0


def why_no_namespaces():
    """Why network namespaces cannot be made or used here; None: they can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "needs root and ip(8)"
    name = f"cv{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    used = subprocess.run(["ip", "netns", "exec", name, "true"], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    if made.returncode != 0 or used.returncode != 0:
        return "network namespaces may not be made or used here"
    return None
