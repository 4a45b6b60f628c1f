#!/usr/bin/env python3
"""tests/chaos/stalled.py STALL COMMAND... - run a test while its disk stalls again and again [traps.md T7].

STALL (tests/chaos/stall.c) is preloaded into everything that COMMAND starts. Until COMMAND ends, all writing to the
disk stops for 50 to 150 ms, then goes on for 50 to 250 ms: much less than any lease of the tests, so all
promises must hold. The last line of the output says how many calls had to wait. The
exit status is that of COMMAND."""

import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

SWITCH = struct.Struct("=3q")  # until when (ns), how wrong the wall clock is, how many have waited


def stall_until_it_ends(process, switch):
    with open(switch, "r+b", buffering=0) as file:
        while True:
            stall_s = random.uniform(0.05, 0.15)
            until_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(stall_s * 1e9)
            os.pwrite(file.fileno(), struct.pack("=q", until_ns), 0)
            try:
                return process.wait(stall_s + random.uniform(0.05, 0.25))
            except subprocess.TimeoutExpired:
                pass


def main():
    stall, command = os.path.abspath(sys.argv[1]), sys.argv[2:]
    folder = tempfile.mkdtemp(prefix="conclave-stalled-")
    os.chmod(folder, 0o755)  # servers and some contenders run as other users
    switch = pathlib.Path(folder, "switch")
    switch.write_bytes(bytes(SWITCH.size))
    switch.chmod(0o666)
    env = dict(os.environ, CV_CHAOS_STALL=str(switch), LD_PRELOAD=stall)
    with subprocess.Popen(command, env=env) as process:
        status = stall_until_it_ends(process, switch)
    waited = SWITCH.unpack(switch.read_bytes())[2]
    print(f"# {waited} calls waited for the disk", flush=True)
    shutil.rmtree(folder)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
