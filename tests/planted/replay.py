"""tests/planted/replay.py - does `conclave sim` replay what `conclave explore` found?

replay() searches with one program, runs the scenario that the search has written with the same program, and says
what differs: the violated property, and the beliefs of each node over time. Each line of a manual scenario must
have had an effect."""

import json
import pathlib
import re
import subprocess
import tempfile

BELIEF = re.compile(r"^  node (\d+) (?:(LEADS)|follows (\d+)|(knows no leader))")
ANONYMOUS = 4096  # larger ids are not nodes


def run(program, words, limit_s=110):
    """(exit status, its JSON output, its errors)"""
    done = subprocess.run([program] + words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, errors="replace", timeout=limit_s, check=False)
    try:
        return done.returncode, json.loads(done.stdout), done.stderr
    except ValueError:
        return done.returncode, None, done.stdout + done.stderr


def beliefs_found(trace):
    """(time, node, leader) of each change of belief in the search; leader None: the search does not know it."""
    found = []
    for line in trace:
        match = BELIEF.match(line["what"])
        if match:
            node = int(match.group(1))
            leader = node if match.group(2) else int(match.group(3) or 0)
            found.append((line["t_s"], node, leader if leader <= ANONYMOUS else None))
    return found


def compare_beliefs(found, views):
    """The first difference, or None."""
    seen = [(view["t_s"], view["node"], view["leader"]) for view in views]
    for i, (ours, theirs) in enumerate(zip(found, seen)):
        if ours[:2] != theirs[:2] or (ours[2] is not None and ours[2] != theirs[2]):
            return f"belief {i}: {ours} was found, {theirs} replayed"
    if len(found) != len(seen):
        return f"{len(found)} beliefs were found, {len(seen)} replayed"
    return None


def judge(found, status, report, errors, is_by_hand):
    """What is wrong with a replay; None: nothing."""
    name = found["property"]
    if report is None:
        return f"the replay ends with status {status}: {errors}"
    if report["properties"][name]["ok"]:
        return f"the replay does not break {name}"
    if status != 0 or not report["ok"]:
        return f"{name} breaks in the replay, but its exit status is {status}: {report['expects']}"
    if not is_by_hand:
        return None
    if report["manual"]["idle"] > 0:
        return f"steps found nothing to do: {report['manual']}"
    return compare_beliefs(beliefs_found(found["trace"]), report["views"])


class Replay:  # pylint: disable=too-few-public-methods
    """What a search found, and the result of its replay in the simulator."""

    def __init__(self, found, errors):
        self.found = found if found is not None and found.get("verdict") == "broken" else None
        self.errors = errors  # printed by the search
        self.wrong = None  # what is wrong with the replay; None: nothing
        self.how = None  # the kind of scenario that the search wrote
        self.scenario = ""

    @property
    def is_too_long(self):
        """A core whose waits keep growing: no scenario is that long."""
        return "30 days" in self.errors

    def _print(self, is_ok, number, name, lines):
        print(f"{'ok' if is_ok else 'not ok'} {number} - {name}", flush=True)
        for line in [] if is_ok else lines:
            print(f"#   {line}")
        return is_ok

    def print_search(self, number, name):
        """The TAP point of the search."""
        return self._print(self.found is not None, number, f"{name} is found by the exhaustive search",
                           self.errors.splitlines())

    def print_replay(self, number, name):
        """The TAP point of the replay."""
        if self.is_too_long:
            return self._print(True, number, f"{name} # SKIP it takes longer than a scenario may", [])
        return self._print(self.found is not None and self.wrong is None, number,
                           f"{name} is replayed by the simulator, {self.how}",
                           f"{self.wrong}\n{self.scenario}".splitlines())


def replay(program, words, real=None, limit_s=110):
    """Searches, and replays what was found. With `real`, a program without the bug: the same scenario must not break the
    property there. limit_s: the time for the search."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "found.scn"
        status, found, errors = run(program, ["explore", "--json", "--scenario", str(path)] + words, limit_s)
        result = Replay(found, errors)
        if result.found is None or status != 1:
            result.wrong = f"the search ends with status {status}: {errors}"
            return result
        result.scenario = path.read_text()
        is_by_hand = "\nmanual\n" in result.scenario
        result.how = "by hand" if is_by_hand else "in short"
        status, report, errors = run(program, ["sim", "--json", str(path)])
        result.wrong = judge(found, status, report, errors, is_by_hand)
        if result.wrong is None and real is not None:
            status, report, errors = run(real, ["sim", "--json", str(path)])
            if report is None:
                result.wrong = f"without the bug the replay ends with status {status}: {errors}"
            elif not report["properties"][found["property"]]["ok"]:
                result.wrong = f"without the bug the replay breaks {found['property']}, too"
        return result
