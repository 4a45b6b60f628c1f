#!/usr/bin/env python3
"""Help, manual and completions have the same commands and options.

Needs CONCLAVE and SOURCE_ROOT. One point for each command and each page. The completions of bash are run; those of
zsh too, where it is installed."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

program = os.environ["CONCLAVE"]
root = pathlib.Path(os.environ["SOURCE_ROOT"])
manual = root / "docs" / "man"
points = []


def point(name, wrong):
    points.append(not wrong)
    print(f"{'not ok' if wrong else 'ok'} {len(points)} - {name}")
    if wrong:
        print(f"# {wrong}")


def ask(*arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def verbs():
    return re.findall(r"^  ([a-z][a-z-]*) ", ask("--help"), re.M)


def options(verb):
    """The long options of a command, as its help lists them at the beginning of a line."""
    usage = ask(verb, "--help")
    listed = re.findall(r"^  (--?[a-zA-Z][^ ]*.*?)(?:  |$)", usage, re.M)
    return sorted({word for text in listed for word in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)})


def page_text(path):
    text = path.read_text(encoding="utf-8")
    if text.startswith(".so "):
        return page_text(manual / pathlib.Path(text.split()[1]).name)
    return text.replace("\\-", "-")


BASH = r"""
source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMP_LINE="${COMP_WORDS[*]}"
COMP_POINT=${#COMP_LINE}
_conclave 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
"""


def complete(*words):
    """What bash offers for the last word."""
    script = str(root / "completions" / "conclave.bash")
    done = subprocess.run(["bash", "-c", BASH, "bash", script, program, *words],
                          capture_output=True, text=True, check=True)
    return done.stdout.split()


def check_verb(verb):
    wanted = options(verb)
    page = manual / f"conclave-{verb}.1"
    missing = [f"no page {page.name}"] if not page.exists() else []
    if page.exists():
        text = page_text(page)
        missing += [f"{option} is not in {page.name}" for option in wanted if option not in text]
    offered = complete(verb, "-")
    missing += [f"bash does not offer {option}" for option in wanted if option not in offered]
    zsh = (root / "completions" / "_conclave").read_text(encoding="utf-8")
    part = re.search(rf"^    (?:[a-z| -]*\| )?{verb}(?: \|[a-z| -]*)?\)\n(.*?)^        ;;", zsh, re.M | re.S)
    said = part.group(1).replace("$via", "--via").replace("$lease", "--lease") if part else ""
    said = said.replace("$json", "--json")
    missing += [f"zsh does not offer {option}" for option in wanted if option not in said]
    # And no option that the program does not have.
    for option in sorted(set(offered) | set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", said))):
        tried = subprocess.run([program, verb, option], capture_output=True, text=True)
        if "unknown option" in tried.stderr:
            missing.append(f"{option} is offered, but not known")
    point(f"{verb}: {' '.join(wanted) or 'no options'}", "; ".join(missing))


def check_bash():
    names = set(verbs())
    point("bash offers every command", sorted(names - set(complete(""))))
    point("and their help", sorted(names - set(complete("help", ""))))
    main = page_text(manual / "conclave.1")
    point("conclave(1) lists every command", sorted(v for v in names if f"\n.B {v}\n" not in main))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CONCLAVE_STATE"] = folder
        subprocess.run([program, "run", "nightly", "--", "true"], check=True)
        point("names of elections are found", complete("status", "n") != ["nightly"])
        point("also of another file", complete("history", "--via", "sqlite", ":",
                                               folder + "/x.db", "n") != [])
        point("no server is asked", complete("history", "--via", "etcd", ":", "//h", "n") != [])
    point("schemes of addresses", "etcd://" not in complete("run", "x", "--via", ""))
    point("the command of run is one", "true" not in complete("run", "x", "--", "tru"))
    point("also without --", "true" not in complete("run", "x", "-n", "tru"))
    point("and has its own options", complete("run", "x", "--", "true", "--li") != [])


def check_zsh():
    if shutil.which("zsh") is None:
        points.append(True)
        print(f"ok {len(points)} - zsh # SKIP it is not installed")
        return
    done = subprocess.run(["zsh", "-fn", str(root / "completions" / "_conclave")],
                          capture_output=True, text=True)
    point("zsh reads its completion", done.stderr)


def check_pages():
    """Every page that another one names exists, and the build installs all of them."""
    pages = {path.name for path in manual.glob("*.[0-9]")}
    named = set()
    for path in sorted(manual.glob("*.[0-9]")):
        named |= {f"{name}.{section}" for name, section in
                  re.findall(r"^\.BR (conclave[a-z-]*) \((\d)\)", page_text(path), re.M)}
    point("pages that are named are there", sorted(named - pages))
    build = (root / "meson.build").read_text(encoding="utf-8")
    point("and are installed", sorted(name for name in pages if f"'docs/man/{name}'" not in build))
    if shutil.which("groff"):
        wrong = ""
        for name in sorted(pages - {"conclave-store.1"}):
            wrong += subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", manual / name],
                                    capture_output=True, text=True).stderr
        point("groff has no warnings about them", " ".join(wrong.split()))


def check_table():
    """docs/architecture.md has the same table of includes as tools/check-includes, which the build runs."""
    path = str(root / "tools" / "check-includes")
    loader = importlib.machinery.SourceFileLoader("check_includes", path)
    spec = importlib.util.spec_from_loader("check_includes", loader)
    tool = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    loader.exec_module(tool)
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    said = {}
    for left, right in re.findall(r"^\| (`[^|]*) \| ([^|]*) \|", text.split("## Which folder may include which")[1], re.M):
        for folder in re.findall(r"`([a-z]+)`", left):
            said.setdefault(folder, set(re.findall(r"`([a-z]+)`", right)) - {"include"})
    built = {path.name for path in (root / "src").iterdir()}
    wrong = [folder for folder in sorted(built - {"cli"})
             if said.get(folder) != tool.MAY_INCLUDE[folder]]
    point("the table of docs/architecture.md is that of tools/check-includes", wrong)


def check_reasons():
    """conclave-explain(1) has the same text about each reason as the program."""
    text = page_text(manual / "conclave-explain.1")
    table = " ".join(text.split(".SH REASONS")[1].split(".SH")[0].split())
    header = (root / "include" / "conclave" / "core.h").read_text(encoding="utf-8")
    names = re.findall(r'^ *X\([A-Z_]+, "([a-z-]+)"\)', header.split("CV_REASON_MAP(X)")[1].split("enum")[0], re.M)
    wrong = [name for name in names
             if f".B {name} {' '.join(ask('explain', name).split(': ', 1)[1].split())}" not in table]
    point("conclave-explain(1) has the table of reasons", wrong if len(names) > 10 else "no names")


def check_sim_fields():
    """conclave-sim(1) and docs/scenarios.md name every field of `conclave sim --json`."""
    fields = set()
    with tempfile.TemporaryDirectory() as folder:
        by_hand = pathlib.Path(folder) / "hand.scn"
        by_hand.write_text("protocol bully\nnodes 2\nmanual\nrun 1s\nexpect leader 2 by 1s\n", encoding="utf-8")
        stories = [next((root / "docs" / "gallery").glob(f"{number}-*.scn")) for number in ("05", "10", "14", "17")]
        for scenario in (*stories, by_hand):
            done = subprocess.run([program, "sim", scenario, "--json"], capture_output=True, text=True, check=False)
            for name, value in json.loads(done.stdout).items():
                fields.add(name)
                if name in ("options", "faults"):  # the names of others
                    continue
                parts = value.values() if name in ("properties", "final") else [value]
                for part in value if isinstance(value, list) else parts:
                    fields |= set(part) if isinstance(part, dict) else set()
    table = (root / "docs" / "scenarios.md").read_text(encoding="utf-8").split("## JSON")[1].split("One object of")[0]
    page = page_text(manual / "conclave-sim.1").split(".SH JSON")[1].split(".SH EXIT STATUS")[0]
    point("docs/scenarios.md has every field of sim --json", sorted(name for name in fields if f"`{name}`" not in table))
    point("conclave-sim(1) too", sorted(name for name in fields if not re.search(rf"\b{name}\b", page)))


def check_traps():
    """docs/traps.md has a row for each of the thirty traps, and the tests that it names exist."""
    text = (root / "docs" / "traps.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| T(\d+) \|", text, re.M)
    point("docs/traps.md has thirty traps", sorted(int(row) for row in rows) != list(range(1, 31)))
    missing = [path for path in re.findall(r"`(tests/[^`]*)`", text) if not (root / path).exists()]
    for cell in re.findall(r"planted ([^|]*)", text):
        missing += [name for name in re.findall(r"`([a-z_]+)`", cell)
                    if not (root / "tests" / "planted" / f"{name}.plant").exists()]
    for path, names in re.findall(r"`(tests/[^`]*)` \(([^)]*)\)", text):
        source = (root / path).read_text(encoding="utf-8")
        missing += [name for name in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", names)
                    if name not in source and name != "store_pooler"]
    point("and names tests that exist", missing)


def main():
    for verb in verbs():
        check_verb(verb)
    check_bash()
    check_zsh()
    check_pages()
    check_table()
    check_sim_fields()
    check_traps()
    check_reasons()
    print(f"1..{len(points)}")
    return 0 if all(points) else 1


if __name__ == "__main__":
    sys.exit(main())
