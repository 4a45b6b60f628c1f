#!/usr/bin/env python3
"""tests/planted/plant.py ROOT PLANT OUTPUT [--depfile FILE] - writes a source with a bug planted in.

A plant is a text file:

    # comment lines that say what the bug is and why somebody might write it
    file: src/protocols/bully.c
    breaks: agreement
    scenario: ../scenario/bully/xyz.scn
    runs: 200
    --- old
    whole lines of the source, as they are
    +++ new
    what replaces them

The scenario's path is relative to the plant. `runs` may be left out and is then 1. Instead of a
scenario, `program: NAME` says that the bug breaks a test of that program, which `breaks` names (see
run_test.py). `explore: WORDS`: `conclave explore` with these words must find the bug, and nothing without it.
`explore-long` is the same for a search that takes too long for a test; tools/explore-plants runs it.
Several --- / +++ pairs are allowed. Each old text must occur exactly once: when the source has moved on, the build
says so, instead of testing a bug that is no longer planted."""

import argparse
import pathlib
import re
import sys

KEYS = {"file", "breaks", "scenario", "runs", "program"}
SEARCH_KEYS = {"explore", "explore-long"}  # may be left out; see tools/explore-plants


class Plant:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.name = self.path.stem
        self.why = []
        self.values = {"runs": "1"}
        self.pairs = []  # [old, new]
        self._read()

    def _fail(self, number, what):
        raise SystemExit(f"{self.path}:{number}: {what}")

    def _read(self):
        part = None  # None: the head; 0: an old text; 1: a new text
        for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines(True), 1):
            text = line.rstrip("\n")
            if text == "--- old" and part != 0:
                self.pairs.append(["", ""])
                part = 0
            elif text == "+++ new" and part == 0:
                part = 1
            elif part is not None:
                self.pairs[-1][part] += line
            elif text.startswith("#"):
                self.why.append(text.lstrip("# "))
            elif text.strip():
                key, colon, value = text.partition(":")
                if not colon or key not in KEYS | SEARCH_KEYS:
                    known = ", ".join(sorted(KEYS | SEARCH_KEYS))
                    self._fail(number, f"expected one of {known}, not '{text}'")
                self.values[key] = value.strip()
        unused = {"scenario"} if "program" in self.values else {"program"}
        missing = KEYS - self.values.keys() - unused
        if missing or not self.pairs or part != 1 or not all(old for old, _ in self.pairs):
            self._fail(1, f"incomplete: {', '.join(sorted(missing)) or 'an --- old with its +++ new'}")
        if not self.why:
            self._fail(1, "no comment says why")
        if not self.values["runs"].isdigit():
            self._fail(1, f"runs: {self.values['runs']} is not a number")

    @property
    def scenario(self):
        return self.path.parent / self.values["scenario"]

    def apply(self, source):
        """The source text with every pair replaced."""
        for old, new in self.pairs:
            whole_lines = re.compile("^" + re.escape(old), re.MULTILINE)
            count = len(whole_lines.findall(source))
            if count != 1:
                raise SystemExit(f"{self.path}: this text occurs {count} times in "
                                 f"{self.values['file']}, not once:\n{old}")
            source = whole_lines.sub(lambda _, text=new: text, source)
        return source


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("plant")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--depfile", type=pathlib.Path)
    args = parser.parse_args()

    plant = Plant(args.plant)
    source = args.root / plant.values["file"]
    mutated = plant.apply(source.read_text(encoding="utf-8"))
    # Messages of the compiler and of assertions name the file that the bug was planted in.
    args.output.write_text(f"#line 1 \"{plant.values['file']}\"\n{mutated}", encoding="utf-8")
    if args.depfile:
        args.depfile.write_text(f"{args.output}: {str(source).replace(' ', chr(92) + ' ')}\n",
                                encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
