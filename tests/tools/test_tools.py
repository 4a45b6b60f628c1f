#!/usr/bin/env python3
"""tests/tools/test_tools.py ROOT - the checks of the build work: each finds the mistakes that it is for.

Prints TAP, one point per test."""

import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the source tree stays as it is
ROOT = pathlib.Path(sys.argv[1])


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)


def load(path):
    """A script without .py as a module."""
    name = pathlib.Path(path).name.replace("-", "_")
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / path))
    spec = importlib.util.spec_from_loader(name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class InTemporaryFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


class CheckIncludes(InTemporaryFolder):
    def verdict(self, path, *includes):
        self.write(path, "".join(f"#include {include}\n" for include in includes))
        return run(ROOT / "tools/check-includes", self.folder)

    def assert_fine(self, path, *includes):
        done = self.verdict(path, *includes)
        self.assertEqual(done.returncode, 0, done.stdout)

    def assert_wrong(self, path, include):
        done = self.verdict(path, include)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{path}:1: #include {include}", done.stdout)

    def test_dependencies_may_point_downwards(self):
        self.assert_fine("src/protocols/ring.c", '"core/types.h"', "<conclave/core.h>", "<string.h>")
        self.assert_fine("src/sim/world.c", '"protocols/bully.h"', '"core/types.h"', "<pthread.h>")
        self.assert_fine("src/cli/main.c", '"sim/world.h"', '"cli/cli.h"', "<stdio.h>")

    def test_core_may_not_include_a_protocol(self):
        self.assert_wrong("src/core/core.c", '"protocols/bully.h"')

    def test_a_protocol_may_not_include_the_simulator(self):
        self.assert_wrong("src/protocols/bully.c", '"sim/world.h"')

    def test_nobody_includes_the_command_line(self):
        self.assert_wrong("src/sim/world.c", '"cli/cli.h"')
        self.assert_wrong("src/lab/lab.c", '"cli/cli.h"')

    def test_the_hosts_do_not_know_each_other(self):
        self.assert_wrong("src/explore/explore.c", '"sim/world.h"')
        self.assert_wrong("src/runtime/host.c", '"sim/world.h"')

    def test_a_pure_part_may_not_include_a_clock_a_file_or_malloc(self):
        for header in ("<time.h>", "<stdio.h>", "<stdlib.h>", "<unistd.h>", "<math.h>"):
            self.assert_wrong("src/core/nodeset.c", header)

    def test_only_one_file_may_format_text(self):
        self.assert_fine("src/core/errors.c", "<stdio.h>")
        self.assert_wrong("src/protocols/errors.c", "<stdio.h>")

    def test_a_public_header_may_not_include_a_private_one(self):
        self.assert_wrong("include/conclave/core.h", '"core/types.h"')
        self.assert_wrong("include/conclave/core.h", "<stdio.h>")

    def test_an_include_names_its_folder(self):
        self.assert_wrong("src/core/core.c", '"types.h"')

    def test_an_include_with_odd_spacing_is_still_seen(self):
        self.write("src/core/core.c", "  #  include<time.h>\n")
        self.assertEqual(run(ROOT / "tools/check-includes", self.folder).returncode, 1)

    def test_the_table_is_that_of_the_documentation(self):
        told = {}
        page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
        for line in page.split("\n## Which folder may include which\n")[1].split("\n## ")[0].splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) == 5 and cells[1].startswith("`"):
                may = set(cells[2].replace("`", "").split(", ")) - {"include"}
                told.update((folder.strip("` "), may) for folder in cells[1].split(","))
        table = load("tools/check-includes").MAY_INCLUDE
        self.assertEqual(told.pop("include/conclave"), {"three headers of the C library"})
        self.assertEqual(told.pop("cli"), {"all of them"})
        self.assertEqual(told, {folder: may for folder, may in table.items() if folder != "cli"})
        self.assertEqual(table["cli"] - {"cli"}, set(told))

    def test_a_folder_that_no_rule_knows_is_wrong(self):
        self.assertEqual(self.verdict("src/misc/x.c", "<string.h>").returncode, 1)


class Unprotected(unittest.TestCase):
    def test_every_edit_is_of_a_text_that_is_there_once(self):
        stale = []
        for edit in load("tests/unprotected/run.py").EDITS:
            text = (ROOT / edit.file).read_text(encoding="utf-8")
            stale += [f"{edit.name}: {edit.file} has it {text.count(old)} times: {old}"
                      for old, _ in edit.pairs if text.count(old) != 1]
        self.assertEqual(stale, [])


class CheckNames(InTemporaryFolder):
    def verdict(self):
        return run(ROOT / "tools/check-names", self.folder)

    def test_a_prefix_of_one_folder_is_fine(self):
        self.write("src/core/options.c", "int cv__option_format(int a,\n                     int b)\n{\n}\n")
        self.write("src/core/text.c", "const char *cv__option_name(int a)\n{\n}\n")
        self.write("src/base/command.c", "int cv__option_json(void);\n")  # which only declares the name
        self.assertEqual(self.verdict().returncode, 0, self.verdict().stdout)

    def test_a_prefix_of_two_folders_is_seen(self):
        self.write("src/core/options.c", "int cv__option_format(void)\n{\n}\n")
        self.write("src/base/command.c", "bool cv__option_json(int argc,\n        char **argv)\n{\n}\n")
        done = self.verdict()
        self.assertEqual(done.returncode, 1)
        self.assertIn("cv__option_json (src/base/command.c)", done.stdout)

    def test_the_whole_name_of_a_file_is_a_prefix_of_its_own(self):
        self.write("src/protocols/lease_ask.c", "void cv__lease_become(void)\n{\n}\n")
        self.write("src/supervisor/lease_file.c", "void cv__lease_file_close(void)\n{\n}\n")
        self.assertEqual(self.verdict().returncode, 0, self.verdict().stdout)
        self.write("src/supervisor/lease_file.c", "void cv__lease_page_end(void)\n{\n}\n")
        self.assertEqual(self.verdict().returncode, 1)

    def test_a_struct_with_two_definitions_is_seen(self):
        self.write("src/core/a.h", "struct cv_report {\n};\nvoid cv__a(void)\n{\n}\n")
        self.write("src/sim/b.h", "struct cv_report {\n};\n")
        done = self.verdict()
        self.assertEqual(done.returncode, 1)
        self.assertIn("cv_report is defined in src/core/a.h, src/sim/b.h", done.stdout)


class CheckSymbols(InTemporaryFolder):
    def verdict(self, text):
        source = self.write("part.c", text)
        run("gcc", "-O2", "-fPIC", "-c", source, "-o", self.folder / "part.o", check=True)
        run("ar", "rcs", self.folder / "part.a", self.folder / "part.o", check=True)
        done = run(ROOT / "tools/check-symbols", self.folder / "part.a")
        self.assertEqual(done.returncode, 1 if "not ok" in done.stdout else 0)
        return done.stdout

    def assert_wrong(self, text, symbol):
        out = self.verdict(text)
        self.assertIn("not ok", out)
        self.assertIn(symbol, out)

    def test_functions_and_constant_tables_are_fine(self):
        out = self.verdict("const char *const cv__words[] = {\"a\", \"b\"};\n"
                           "static const int table[] = {1, 2};\n"
                           "int cv_at(int i) { return table[i]; }\n")
        self.assertNotIn("not ok", out)

    def test_a_call_into_the_operating_system_is_seen(self):
        self.assert_wrong("void *malloc(unsigned long); void *cv_x(void) { return malloc(9); }",
                          "malloc")

    def test_a_writable_global_is_seen(self):
        self.assert_wrong("int cv_counter;", "cv_counter in .bss")
        self.assert_wrong("int cv_counter = 3;", "cv_counter in .data")

    def test_a_static_variable_in_a_function_is_seen(self):
        self.assert_wrong("int cv_next(void) { static int count; return ++count; }", "count")

    def test_a_thread_local_variable_is_seen(self):
        self.assert_wrong("_Thread_local int cv_last;", "cv_last")

    def test_a_table_of_pointers_that_is_not_constant_is_seen(self):
        self.assert_wrong("const char *cv__words[] = {\"a\", \"b\"};", "cv__words")

    def test_a_global_name_that_is_not_ours_is_seen(self):
        self.assert_wrong("void ring_init(void) {}", "ring_init")


class Plant(InTemporaryFolder):
    HEAD = "# why: a test\nfile: src/a.c\nbreaks: agreement\nscenario: a.scn\n"

    def plant(self, source, plant):
        self.write("src/a.c", source)
        return run(ROOT / "tests/planted/plant.py", self.folder, self.write("a.plant", plant),
                   self.folder / "out.c")

    def test_replaces_whole_lines_and_nothing_else(self):
        done = self.plant("one\ntwo\nthree\n",
                          self.HEAD + "--- old\ntwo\n+++ new\n2\n--- old\nthree\n+++ new\n")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual((self.folder / "out.c").read_text(), '#line 1 "src/a.c"\none\n2\n')

    def test_refuses_a_text_that_is_not_there(self):
        done = self.plant("one\n", self.HEAD + "--- old\ntwo\n+++ new\n2\n")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("0 times", done.stdout)
        self.assertFalse((self.folder / "out.c").exists())

    def test_refuses_a_text_that_is_there_twice(self):
        done = self.plant("two\ntwo\n", self.HEAD + "--- old\ntwo\n+++ new\n2\n")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("2 times", done.stdout)

    def test_refuses_part_of_a_line(self):
        done = self.plant("not two\n", self.HEAD + "--- old\ntwo\n+++ new\n2\n")
        self.assertNotEqual(done.returncode, 0)

    def test_refuses_a_plant_that_is_not_complete(self):
        for plant in (self.HEAD, self.HEAD + "--- old\ntwo\n", "file: src/a.c\n",
                      self.HEAD.replace("# why: a test\n", "") + "--- old\none\n+++ new\n1\n",
                      self.HEAD + "colour: red\n--- old\none\n+++ new\n1\n"):
            self.assertNotEqual(self.plant("one\n", plant).returncode, 0, plant)


class PlantedRun(InTemporaryFolder):
    def verdict(self, real, planted):
        """The TAP output of run.py for two programs that are given as shell commands."""
        plant = self.write("a.plant", Plant.HEAD + "--- old\na\n+++ new\nb\n")
        programs = []
        for name, body in (("real", real), ("planted", planted)):
            program = self.write(name, f"#!/bin/sh\n{body}\n")
            program.chmod(0o755)
            programs.append(program)
        done = run(ROOT / "tests/planted/run.py", *programs, plant)
        return [line.startswith("ok") for line in done.stdout.splitlines() if "ok " in line]

    CAUGHT = "echo 'property agreement: BROKEN at 3.2s in seed 17: two leaders'; exit 1"

    def test_a_bug_that_is_caught_passes(self):
        self.assertEqual(self.verdict("exit 0", self.CAUGHT), [True, True])

    def test_a_bug_that_is_not_noticed_fails(self):
        self.assertEqual(self.verdict("exit 0", "exit 0"), [True, False])

    def test_a_bug_that_breaks_something_else_fails(self):
        broken = self.CAUGHT.replace("agreement", "validity")
        self.assertEqual(self.verdict("exit 0", broken), [True, False])

    def test_a_crash_does_not_count_as_caught(self):
        self.assertEqual(self.verdict("exit 0", self.CAUGHT.replace("exit 1", "kill -SEGV $$")),
                         [True, False])

    def test_the_real_program_must_find_nothing(self):
        self.assertEqual(self.verdict(self.CAUGHT, self.CAUGHT), [False, True])


class ScenarioRun(InTemporaryFolder):
    def verdict(self, body):
        program = self.write("conclave", f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        done = run(ROOT / "tests/scenario/run.py", program, self.folder)
        points = [line for line in done.stdout.splitlines() if "ok " in line]
        self.assertEqual(done.returncode, 1 if any(p.startswith("not") for p in points) else 0)
        return [point.startswith("ok") for point in points]

    def test_expects_success_except_of_scenarios_that_must_fail(self):
        self.write("a.scn", "")
        self.write("deep/b.fails.scn", "")
        self.assertEqual(self.verdict('case "$2" in *.fails.scn) exit 1;; *) exit 0;; esac'),
                         [True, True])
        self.assertEqual(self.verdict("exit 0"), [True, False])
        self.assertEqual(self.verdict("exit 1"), [False, True])

    def test_bad_input_is_never_expected(self):
        self.write("b.fails.scn", "")
        self.assertEqual(self.verdict("exit 2"), [False])

    def test_a_folder_without_scenarios_is_a_failure(self):
        self.assertEqual(self.verdict("exit 0"), [False])


class CountTests(unittest.TestCase):
    run_tests = load("tools/run-tests")

    def count(self, protocol, result, stdout="", returncode=0):
        entry = {"name": "x", "result": result, "stdout": stdout, "returncode": returncode}
        return tuple(self.run_tests.count_test(entry, protocol)[0])

    def test_every_point_counts(self):
        tap = "1..4\nok 1 - a\nok 2 - b # SKIP no root\nnot ok 3 - c\n# noise\nok 4 - d\n"
        self.assertEqual(self.count("tap", "FAIL", tap, 1), (2, 1, 1))

    def test_a_crash_after_the_last_point_counts(self):
        self.assertEqual(self.count("tap", "ERROR", "1..1\nok 1 - a\n", 99), (1, 1, 0))

    def test_a_program_without_points_is_a_failure_unless_it_says_why(self):
        self.assertEqual(self.count("tap", "SKIP", ""), (0, 1, 0))
        self.assertEqual(self.count("tap", "SKIP", "1..0 # SKIP no root\n"), (0, 0, 1))

    def test_other_tests_count_once(self):
        self.assertEqual(self.count("exitcode", "OK", "ok 1\nok 2\n"), (1, 0, 0))
        self.assertEqual(self.count("exitcode", "TIMEOUT"), (0, 1, 0))
        self.assertEqual(self.count("exitcode", "SKIP"), (0, 0, 1))

    def test_the_reason_of_a_failed_point_is_shown(self):
        noise = [f"# claims {i}" for i in range(100)]
        text = "\n".join(["ok 1 - a", "not ok 2 - b", "# never happened", "# twice", "ok 3 - c", *noise, "ok 4 - d"])
        shown = self.run_tests.lines_to_show(text)
        self.assertEqual(shown[:3], ["not ok 2 - b", "# never happened", "# twice"])
        self.assertEqual(shown[3:], noise[-30:])


class Setup(InTemporaryFolder):
    """tools/setup, with an apt-get and a dpkg-query of this test: curl and udev would be upgraded."""

    APT = """#!/bin/sh
echo "$@" >>"$LOG"
pins=$(echo " $*" | sed -n 's/.*Dir::Etc::Preferences=\\([^ ]*\\).*/\\1/p')
case " $*" in
*" -s "*) ;;
*" install "*) [ -z "$pins" ] || cat "$pins" >"$LOG.pins"; exit 0 ;;
*) exit 0 ;;
esac
[ -n "$pins" ] && grep -q "Package: src:$NEEDED" "$pins" && exit 100
for one in curl udev; do
    { [ -n "$pins" ] && grep -q "Package: src:$one" "$pins"; } || echo "Inst $one [1.0] (2.0 Debian)"
done
"""
    DPKG = """#!/bin/sh
format=$3
shift 3
case "$format" in *Status*) exit 0 ;; esac
for package; do
    case "$format" in
    *Version*) echo "$package 1.0" ;;
    *) echo "$package" ;;
    esac
done
"""

    def pinned(self, needed):
        for name, text in (("apt-get", self.APT), ("dpkg-query", self.DPKG), ("id", "#!/bin/sh\necho 0\n")):
            self.write(f"bin/{name}", text).chmod(0o755)
        log = self.folder / "log"
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        done = run("sh", ROOT / "tools/setup", "build",
                   env={**os.environ, "PATH": path, "LOG": str(log), "NEEDED": needed})
        self.assertEqual(done.returncode, 0, done.stdout)
        pins = pathlib.Path(f"{log}.pins")
        return pins.read_text(encoding="utf-8"), done.stdout

    def test_what_is_installed_is_not_upgraded(self):
        pins, said = self.pinned(needed="nothing")
        self.assertIn("Package: src:curl\nPin: version 1.0\n", pins)
        self.assertIn("Package: src:udev\nPin: version 1.0\n", pins)
        self.assertNotIn("must be upgraded", said)

    def test_only_what_is_needed_is_upgraded_and_named(self):
        pins, said = self.pinned(needed="curl")
        self.assertNotIn("Package: src:curl", pins)
        self.assertIn("Package: src:udev", pins)
        self.assertIn("packages of curl must be upgraded", said)
        self.assertNotIn("of udev must", said)


class ExploredPlants(unittest.TestCase):
    """docs/explore.md says of each planted bug whether the search finds it, and how, or why not."""

    def setUp(self):
        sys.path.insert(0, str(ROOT / "tests/planted"))
        self.addCleanup(sys.path.remove, str(ROOT / "tests/planted"))
        self.plants = [load("tests/planted/plant.py").Plant(path) for path in (ROOT / "tests/planted").glob("*.plant")]
        self.page = (ROOT / "docs/explore.md").read_text(encoding="utf-8")

    def test_each_plant_is_built(self):
        listed = (ROOT / "tests/planted/meson.build").read_text(encoding="utf-8")
        self.assertEqual([], [plant.name for plant in self.plants if f"'{plant.name}'" not in listed])

    def test_each_search_is_in_the_table(self):
        rows = [f"| {plant.name.replace('_', ' ')} | `{words}` | " for plant in self.plants
                for words in [plant.values.get("explore", plant.values.get("explore-long"))] if words is not None]
        self.assertGreater(len(rows), 40)
        self.assertEqual([], [row for row in rows if row not in self.page])

    def test_each_bug_that_is_not_found_has_a_reason(self):
        begin = self.page.index("| planted bugs | reason |")
        reasons = self.page[begin:self.page.index("\n\n", begin)]
        searched = {plant.name for plant in self.plants if {"explore", "explore-long"} & plant.values.keys()}
        for plant in self.plants:
            is_named = f"`{plant.name}`" in reasons or plant.name.startswith("witness_")
            self.assertEqual(is_named, plant.name not in searched, plant.name)


class ExploreTables(InTemporaryFolder):
    """tools/explore-tables, with a conclave of this test. It logs its words and then does what the test says."""

    CONCLAVE = """#!/bin/sh
echo "$@" >>"$LOG"
answer() { echo '{"verdict": "'"$1"'", "states": 7, "transitions": 8, "depth": 3, "seconds": 0.1'"$2"'}'; }
while [ "$1" != --time ]; do shift; done
limit=$2
"""

    def setUp(self):
        super().setUp()
        self.log = self.folder / "log"

    def table(self, does, *words):
        """The exit status and the output of the tool."""
        self.write("conclave", self.CONCLAVE + does).chmod(0o755)
        done = run(ROOT / "tools/explore-tables", self.folder / "conclave", "--results", self.folder / "results", *words,
                   env={**os.environ, "LOG": str(self.log)}, timeout=50)
        return done.returncode, done.stdout

    def searches(self):
        """The words of the searches so far."""
        return self.log.read_text(encoding="utf-8").splitlines()

    def test_explores_each_cell_once(self):
        for _ in range(2):
            status, said = self.table("answer exhausted", "pole", "lease")
            self.assertEqual(status, 0, said)
            self.assertIn("\n| witness | 7 |  |\n", said)
            self.assertIn("\n| restart |  | 7 |\n", said)
        self.assertEqual(len(self.searches()), 30)
        self.assertEqual(len(set(self.searches())), 30)

    def test_explores_several_cells_at_once(self):
        wait = 'until [ "$(wc -l <"$LOG")" -ge 3 ]; do sleep 0.01; done\n'  # for two others
        status, said = self.table(wait + "answer exhausted", "--jobs", 3, "lease")
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count("| 7 |\n"), 15)

    def test_cells_that_the_total_time_does_not_reach_are_open(self):
        spend = 'sleep "$limit"; answer "not exhausted" \', "stopped_by": "time (--time)"\'\n'
        words = ("--jobs", 1, "--total", "0.2s", "lease", "pole")
        status, said = self.table(spend, *words)
        self.assertEqual(status, 0, said)
        self.assertEqual(len(self.searches()), 1)
        self.assertIn("\n| none | ? | > 7 |\n" if " pole " in self.searches()[0] else "\n| none | > 7 | ? |\n", said)
        status, said = self.table("answer exhausted", *words[:2], *words[4:])  # goes on, also with the cell that was cut short
        self.assertEqual(len(self.searches()), 31)
        self.assertNotIn(">", said)

    def test_cells_that_take_little_time_come_first(self):
        rows = [{"nodes": 2, "protocol": name, "budget": budget, "limit_s": 60, "verdict": "exhausted", "states": states,
                 "transitions": 1, "depth": 1, "seconds": seconds}
                for name, states, seconds in (("pole", 10, 10), ("lease", 1000, 0.1)) for budget in ("none", "crash")]
        self.write("results", "".join(json.dumps(row) + "\n" for row in rows))
        status, said = self.table("answer exhausted", "--jobs", 1, "--pairs", "pole", "lease")
        self.assertEqual(status, 0, said)
        twice = [words.split()[1] for words in self.searches() if words.endswith("--budget crash=2")]
        self.assertEqual(twice, ["lease", "pole"])

    def test_a_search_that_was_interrupted_does_not_count(self):
        status, said = self.table('answer "not exhausted" \', "stopped_by": "an interruption"\'\n', "lease")
        self.assertEqual(status, 0, said)
        self.assertNotIn("7", said)
        self.assertFalse((self.folder / "results").exists())

    def test_a_property_that_breaks_is_named(self):
        status, said = self.table('answer broken \', "property": "agreement"\'\n', "lease")
        self.assertEqual(status, 1)
        self.assertIn("\n| crash | **agreement** |\n", said)

    def test_a_search_without_an_answer_ends_all(self):
        status, said = self.table("exit 3", "--jobs", 1, "lease")
        self.assertEqual(status, 1)
        self.assertIn("exit status 3", said)
        self.assertEqual(len(self.searches()), 1)


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    tests = [test for case in suite for test in case]
    print(f"1..{len(tests)}")
    all_well = True
    for number, test in enumerate(tests, 1):
        words = test.id().split(".")[-2:]
        out = io.StringIO()
        result = unittest.TextTestRunner(stream=out, verbosity=0).run(test)
        all_well = all_well and result.wasSuccessful()
        print(f"{'ok' if result.wasSuccessful() else 'not ok'} {number} - "
              f"{words[0]} {words[1].removeprefix('test_')}", flush=True)
        if not result.wasSuccessful():
            print("".join(f"#   {line}\n" for line in out.getvalue().splitlines()), end="")
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
