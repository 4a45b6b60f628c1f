#!/usr/bin/env python3
"""bench/bench_steady.py CONCLAVE [--tiny] [--seconds N] - leader changes without a fault on a busy machine.

Three members of a cluster whose file sets no times (profile auto), without real-time scheduling, beside a busy
loop on each processor. Counts the tokens that any of them reports after the first one. Tiny: the same in
miniature, to check that it still works; its figure means nothing."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from ports import free_ports  # pylint: disable=wrong-import-position

CONCLAVE = sys.argv[1]
TINY = "--tiny" in sys.argv
SECONDS = float(sys.argv[sys.argv.index("--seconds") + 1]) if "--seconds" in sys.argv else 0.5 if TINY else 600
LIMIT_S = 60  # only a failure takes so long
NAMES = ["a", "b", "c"]


def tokens(folder):
    found = set()
    for name in NAMES:
        found |= set(re.findall(r"leads.*, token (\d+)", (folder / f"{name}.out").read_text()))
    return found


def measure(folder, processes):
    subprocess.run([CONCLAVE, "keygen", str(folder / "key")], check=True)
    text = "[cluster]\nname = bench\ngeneration = 1\nkey = key\nstate = .\nrealtime = no\n"
    for i, (name, port) in enumerate(zip(NAMES, free_ports(len(NAMES)))):
        text += f"[member {name}]\nid = {i + 1}\naddress = 127.0.0.1:{port}\n"
    (folder / "cluster.ini").write_text(text)
    for _ in range(os.cpu_count()):
        processes.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
    for name in NAMES:
        with open(folder / f"{name}.out", "w") as out:
            processes.append(subprocess.Popen([CONCLAVE, "elect", "steady", "--via", f"peers:{folder / 'cluster.ini'}",
                                               "--node", name], stdout=out, stderr=subprocess.STDOUT))
    limit = time.monotonic() + LIMIT_S
    while not tokens(folder):
        if time.monotonic() > limit:
            raise SystemExit("nobody was elected")
        time.sleep(0.05)
    time.sleep(SECONDS)
    return len(tokens(folder)) - 1


def main():
    version = subprocess.run([CONCLAVE, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    print(f"# bench=steady version={version} clock=monotonic")
    folder = pathlib.Path(tempfile.mkdtemp())
    processes = []
    try:
        changes = measure(folder, processes)
        print(f"steady protocol=pole profile=auto n={len(NAMES)} busy_loops={os.cpu_count()} seconds={SECONDS:g} "
              f"leader_changes={changes} asked_leader_changes=0", flush=True)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(folder)


main()
