#!/usr/bin/env python3
"""tests/sim/validate.py CONCLAVE PLANTED_FOLDER [--seeds N] - the models of verify/ allow what simulated processes do.

The models must be able to follow traces of random runs of `pole` and `local` (tools/validate-trace), but not traces of
programs with planted bugs: so a difference between model and code is found. Prints TAP."""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the source tree stays as it is
TESTS = pathlib.Path(__file__).resolve().parent.parent
VALIDATE = TESTS.parent / "tools" / "validate-trace"
sys.path.insert(0, str(TESTS / "planted"))
from plant import Plant  # pylint: disable=wrong-import-position,import-error

SCENARIOS = ("pole", "pole-restarts", "pole-drift", "local", "local-majority", "local-rotate", "local-calm")
PLANTS = {  # with the first seed at which the bug does something that the model does not allow
    "pole_follows_equal_epochs": 16,
    "pole_forgets_epoch": 1,
    "pole_forgets_its_promise": 1,
    "pole_forgets_the_drift": 1,
    "pole_ignores_its_promise": 1,
    "pole_leads_without_itself": 1,
    "pole_lease_from_the_reply": 1,
    "pole_never_steps_down": 1,
    "pole_releases_too_early": 1,
    "local_counts_from_the_answer": 1,
    "local_leader_releases_a_failed_renewal": 1,
    "local_release_frees_an_earlier_life": 1,
    "local_restarted_supports_at_once": 1,
    "local_supports_while_locked": 1,
}


def simulate(program, scenario, seed, trace):
    """Only the trace matters here, not the result of the run."""
    subprocess.run([program, "sim", str(scenario), "--seed", str(seed), "--trace", str(trace)], check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("conclave")
    parser.add_argument("planted", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    if shutil.which("spin") is None:
        print("1..0 # SKIP spin is missing: tools/setup verify")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        traces = {}  # the expected verdict of each
        for name in SCENARIOS:
            for seed in range(1, args.seeds + 1):
                path = pathlib.Path(folder) / f"{name}-{seed}.trace"
                simulate(args.conclave, TESTS / "scenario" / "random" / f"{name}.scn", seed, path)
                traces[path] = "the model follows all"
        for name, seed in PLANTS.items():
            path = pathlib.Path(folder) / f"{name}.trace"
            plant = Plant(str(TESTS / "planted" / f"{name}.plant"))
            simulate(str(args.planted / f"planted_{name}"), plant.scenario, seed, path)
            traces[path] = "the model cannot follow"
            path = pathlib.Path(folder) / f"{name}-without.trace"
            simulate(args.conclave, plant.scenario, seed, path)
            traces[path] = "the model follows all"
        traces[pathlib.Path(folder) / "missing.trace"] = "cannot be compared"
        path = pathlib.Path(folder) / "alone.trace"
        simulate(args.conclave, TESTS / "planted" / "host_alone.scn", 1, path)
        traces[path] = "cannot be compared"
        with open(path, encoding="utf-8") as trace:
            header = json.loads(trace.readline())
        header["nodes"] = 3
        path = pathlib.Path(folder) / "empty.trace"
        path.write_text(json.dumps(header) + "\n", encoding="utf-8")
        traces[path] = "cannot be compared: it has no step"
        path = pathlib.Path(folder) / "text.trace"
        path.write_text("this is not a trace\n", encoding="utf-8")
        traces[path] = "cannot be compared"
        said = subprocess.run([str(VALIDATE), *map(str, traces)], check=False, stdout=subprocess.PIPE, text=True)
    lines = dict(line.split(": ", 1) for line in said.stdout.splitlines())
    print(f"1..{len(traces)}")
    is_right = True
    for number, (path, expected) in enumerate(traces.items(), 1):
        line = lines.get(str(path), "nothing is said")
        is_ok = line.startswith(expected)
        is_right = is_right and is_ok
        print(f"{'ok' if is_ok else 'not ok'} {number} - {path.stem}: {expected}")
        print(f"# {line[:300]}", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
