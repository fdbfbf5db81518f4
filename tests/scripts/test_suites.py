"""tools/test: what it counts, when it fails, what it prints, what it ends."""

import contextlib
import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from support import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tools/dev/suites"))
import counting  # noqa: E402
import main  # noqa: E402
import room  # noqa: E402
import runner  # noqa: E402
from counting import Run  # noqa: E402
from table import SUITES, Lane, Suite, Tier  # noqa: E402


def shell(name, script, count=counting.count_step, budget_min=1.0, **more):
    return Suite(name, f"the suite {name}", budget_min, ["sh", "-c", script], count, **more)


def run_suites(*suites, arguments=()):
    """Exit status and output of tools/test with these suites in place of the table."""
    out = io.StringIO()
    status = main.main(list(arguments), suites=list(suites), out=out)
    return status, out.getvalue()


class EndLine(unittest.TestCase):
    def test_is_exact_and_last_and_the_status_is_zero_when_nothing_failed(self):
        status, text = run_suites(shell("one", "true"), shell("two", "true"))
        self.assertEqual(text.splitlines()[-1], "2 passed, 0 failed, 0 skipped")
        self.assertEqual(status, 0)

    def test_one_failing_suite_fails_the_whole_but_the_others_still_run(self):
        status, text = run_suites(shell("bad", "exit 3"), shell("good", "echo here I am"))
        self.assertEqual(text.splitlines()[-1], "1 passed, 1 failed, 0 skipped")
        self.assertEqual(status, 1)
        self.assertIn("failed: bad: exit status 3\n", text)
        self.assertIn("here I am", text)

    def test_the_last_lines_of_a_command_that_failed_are_printed_again_at_the_end(self):
        status, text = run_suites(shell("bad", "seq 100; exit 3"))
        self.assertEqual(status, 1)
        self.assertIn("failed: bad: exit status 3\n      89\n      90\n", text)

    def test_a_command_that_does_not_exist_is_a_failure_that_names_it(self):
        gone = Suite("gone", "", 1, ["tools/no-such-script"], counting.count_step)
        status, text = run_suites(gone)
        self.assertEqual(status, 1)
        self.assertIn("tools/no-such-script: No such file", text)

    def test_a_reason_that_many_cases_give_is_printed_once(self):
        status, text = run_suites(shell("b", "printf 'SKIP: disk: full\\nSKIP: disk: full\\n0 passed, 0 failed, 2 skipped\\n'", count=counting.count_end_line))
        self.assertIn("skipped: b: disk: full (2 times)\n", text)
        self.assertEqual(status, 0)

    def test_a_suite_without_its_declared_capability_is_one_skip_with_the_reason(self):
        status, text = run_suites(shell("vm", "false", missing=lambda: "no virtual machine here"))
        self.assertEqual(text.splitlines()[-1], "0 passed, 0 failed, 1 skipped")
        self.assertIn("skipped: vm: no virtual machine here", text)
        self.assertEqual(status, 0)

    def test_what_only_full_runs_is_listed_by_name(self):
        status, text = run_suites(shell("quick", "true"), shell("long", "false", tier=Tier.FULL))
        self.assertEqual(status, 0)
        self.assertIn("not in this run (--full): long: the suite long", text)

    def test_quick_runs_the_suites_of_its_tier(self):
        suites = (shell("now", "true", tier=Tier.QUICK), shell("later", "false"), shell("long", "false", tier=Tier.FULL))
        status, text = run_suites(*suites, arguments=["--quick"])
        self.assertEqual((status, text.splitlines()[-1]), (0, "1 passed, 0 failed, 0 skipped"))
        self.assertIn("not in this run (usual): later", text)
        self.assertIn("not in this run (--full): long", text)

    def test_full_runs_everything(self):
        status, text = run_suites(shell("quick", "true"), shell("long", "false", tier=Tier.FULL), arguments=["--full"])
        self.assertEqual(status, 1)
        self.assertEqual(text.splitlines()[-1], "1 passed, 1 failed, 0 skipped")

    def test_torch_2_is_run_where_it_is_asked_for(self):
        suites = (shell("quick", "true"), shell("torch-2", "true", tier=Tier.FULL), shell("long", "false", tier=Tier.FULL))
        status, text = run_suites(*suites, arguments=["--torch=2"])
        self.assertEqual((status, text.splitlines()[-1]), (0, "2 passed, 0 failed, 0 skipped"))

    def test_what_needs_a_gpu_is_run_alone_and_from_what_was_built_elsewhere(self):
        suites = (shell("packages", "true"), shell("build", "false"), shell("unit", "false"), shell("gpu", "echo with", tier=Tier.FULL))
        status, text = run_suites(*suites, arguments=["--gpu"])
        self.assertEqual((status, text.splitlines()[-1]), (0, "2 passed, 0 failed, 0 skipped"))
        status, text = run_suites(shell("build", "false"), shell("gpu", 'test "$0 $1" = "--prebuilt there"', tier=Tier.FULL),
                                  arguments=["--gpu", "--prebuilt", "there"])
        self.assertEqual((status, text.splitlines()[-1]), (0, "1 passed, 0 failed, 0 skipped"))

    def test_a_call_without_a_folder_says_what_lays_it_out(self):
        command = [str(REPOSITORY / "tests/cuda/run_on_gpu"), "--prebuilt", "/nowhere"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn("/nowhere/", run.stderr)
        self.assertIn("run_on_gpu --bundle", run.stderr)

    def test_flags_that_do_not_go_together_are_refused(self):
        for arguments in (["--prebuilt", "there"], ["--gpu", "--full"], ["--gpu", "--only", "unit"], ["--quick", "--full"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                run_suites(shell("quick", "true"), arguments=arguments)
            self.assertIn("--gpu", said.getvalue().splitlines()[-1])


class Budgets(unittest.TestCase):
    def test_a_suite_over_its_budget_is_said_so_and_is_no_failure(self):
        out = io.StringIO()
        one = runner.Runner(out)
        one.run_and_count = lambda suite, tag: (counting.Counts(passed=1), 100.0)
        [result] = one.run([Suite("late", "", 1, ["true"], counting.count_step)])
        self.assertIn("late took 1:40, more than its budget", out.getvalue())
        self.assertIn("OVER ITS BUDGET", result.line())
        self.assertEqual(result.counts.failed, 0)

    def test_a_suite_far_beyond_its_budget_is_ended_and_has_failed(self):
        started = time.monotonic()
        status, text = run_suites(shell("stuck", "sleep 600", budget_min=0.001))
        self.assertEqual(status, 1)
        self.assertIn("stuck is ended after 0:00, 3 times its budget", text)
        self.assertLess(time.monotonic() - started, 60)

    def test_tests_of_a_suite_that_was_ended_have_not_failed(self):
        script = "echo 'FAIL: test_b (m.T.test_b)'; echo 'FAIL: test_c (m.T.test_c)'; echo 'Ran 5 tests in 0.1s'; exec sleep 600"
        status, text = run_suites(shell("stuck", script, count=counting.count_unittest, budget_min=0.01))
        self.assertEqual((status, text.splitlines()[-1]), (1, "3 passed, 1 failed, 0 skipped"))
        self.assertIn("failed: stuck: ended after 0:01, 3 times its budget; 3 of its tests had passed", text)
        self.assertNotIn("failed: stuck: test_b", text)


class Preparation(unittest.TestCase):
    def test_is_outside_the_budget(self):
        slow = (["sleep", "1"],)
        status, text = run_suites(shell("one", "true", budget_min=0.01, prepare=slow))
        self.assertEqual((status, text.splitlines()[-1]), (0, "1 passed, 0 failed, 0 skipped"))
        self.assertRegex(text, r"one +0:01 +0:00 / ")
        self.assertNotIn("BUDGET", text)

    def test_that_fails_is_the_failure_of_its_suite(self):
        status, text = run_suites(shell("one", "echo it ran", prepare=(["sh", "-c", "exit 7"],)))
        self.assertEqual((status, text.splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertIn("failed: one: building what it needs failed: exit status 7", text)
        self.assertNotIn("it ran", text)

    def test_builds_what_a_suite_needs_where_not_everything_is_built(self):
        needy = shell("needy", "true", release=("//tools:rondo",), tier=Tier.QUICK)
        everything = shell("build", "true", lane=Lane.FIRST)

        def prepared(*arguments):
            chosen, _ = main.choose([everything, needy], main.parse(arguments))
            return next(suite.prepare for suite in chosen if suite.name == "needy")

        self.assertEqual(prepared(), ())
        self.assertEqual(prepared("--quick"), (main.bazel("build", "release", "//tools:rondo"),))

    def test_every_suite_says_what_it_runs_of_the_build(self):
        for suite in SUITES:
            runs = " ".join(suite.command)
            if "bazel-bin/tools/rondo" in runs:
                self.assertIn("//tools:rondo", suite.release, suite.name)
            for folder in re.findall(r"bazel-bin/(tests/[\w/]+)/\w+", runs):
                self.assertTrue(any(target.startswith("//" + folder) for target in suite.release), (suite.name, folder))


class Lanes(unittest.TestCase):
    def test_suites_of_two_lanes_run_beside_each_other_and_their_lines_say_whose_they_are(self):
        with tempfile.TemporaryDirectory() as folder:
            # The two commands wait for each other: run one after the other, they would never end.
            os.mkfifo(f"{folder}/a")
            os.mkfifo(f"{folder}/b")
            suites = (shell("a", f"echo x >{folder}/a; cat {folder}/b; echo over", lane=Lane.BUILDING),
                      shell("b", f"cat {folder}/a; echo y >{folder}/b; echo over"))  # fmt: skip
            status, text = run_suites(*suites)
        self.assertEqual((status, text.splitlines()[-1]), (0, "2 passed, 0 failed, 0 skipped"))
        for line in ("a | y", "b | x", "a | over", "b | over"):
            self.assertIn(line, text.splitlines())

    def test_suites_that_build_follow_each_other(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = f"mkdir {folder}/a && rmdir {folder}/a"
            status, _ = run_suites(*(shell(f"s{i}", alone, lane=Lane.BUILDING) for i in range(5)), shell("other", "true"))
        self.assertEqual(status, 0)

    def test_suites_that_run_follow_each_other_while_another_builds(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/over")
            alone = f"mkdir {folder}/a && rmdir {folder}/a"
            status, _ = run_suites(shell("builds", f"cat {folder}/over", lane=Lane.BUILDING), *(shell(f"s{i}", alone) for i in range(5)),
                                   shell("last", f"echo >{folder}/over"))  # fmt: skip
        self.assertEqual(status, 0)

    def test_suites_that_run_do_so_two_at_a_time_when_nothing_is_left_to_build(self):
        with tempfile.TemporaryDirectory() as folder:
            # The two commands wait for each other: run one after the other, they would never end.
            os.mkfifo(f"{folder}/a")
            os.mkfifo(f"{folder}/b")
            status, text = run_suites(shell("builds", "true", lane=Lane.BUILDING), shell("a", f"echo x >{folder}/a; cat {folder}/b"),
                                      shell("b", f"cat {folder}/a; echo y >{folder}/b"))  # fmt: skip
        self.assertEqual((status, text.splitlines()[-1]), (0, "3 passed, 0 failed, 0 skipped"))

    def test_two_suites_are_not_prepared_at_the_same_time(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = (["sh", "-c", f"mkdir {folder}/a && sleep 0.1 && rmdir {folder}/a"],)
            status, _ = run_suites(*(shell(f"s{i}", "true", prepare=alone) for i in range(6)))
        self.assertEqual(status, 0)

    def test_the_first_lane_is_over_before_any_other_begins(self):
        with tempfile.TemporaryDirectory() as folder:
            suites = (shell("later", f"test -e {folder}/there"), shell("beside", f"test -e {folder}/there", lane=Lane.BUILDING),
                      shell("first", f"sleep 0.3; touch {folder}/there", lane=Lane.FIRST))  # fmt: skip
            status, text = run_suites(*suites)
        self.assertEqual((status, text.splitlines()[-1]), (0, "3 passed, 0 failed, 0 skipped"))

    def test_the_short_run_fits_into_ninety_minutes(self):
        usual = [suite for suite in SUITES if suite.tier <= Tier.USUAL]
        budgets = {lane: sum(suite.budget_min for suite in usual if suite.lane == lane) for lane in Lane}
        self.assertLess(budgets.pop(Lane.FIRST) + max(budgets.values()), 90)


class Tags(unittest.TestCase):
    def test_who_is_kept_from_thread_sanitizer_for_having_one_thread_makes_none(self):
        files = set()
        for build in (file for folder in ("tests", "transport") for file in (REPOSITORY / folder).glob("**/BUILD")):
            text = build.read_text()
            lists = re.findall(r"^    one_thread = \[.*?\]", text, re.DOTALL | re.MULTILINE)
            tests = [test for test in re.split(r"^(?=\[?(?:cc|cuda)_|    (?:cc|cuda)_)", text, flags=re.MULTILINE) if "# one thread" in test]
            names = re.findall(r'"(\w+?)(?:\.cc|\.h)?"', "".join(lists + tests))
            files |= {file for name in names for end in (".cc", ".h") if (file := build.parent / (name + end)).exists()}
        self.assertGreater(len(files), 50)
        for file in sorted(files):
            makes = re.findall(r"std::j?thread\b|std::async|pthread_create|\b(?:OnThreads|OnRanks|ConnectEach)\(|\bThreads \w+\(", file.read_text())
            self.assertEqual(makes, [], file)


class Fuzzing(unittest.TestCase):
    """tests/fuzz/run is tested in test_fuzz.py; this is how tools/test runs it."""

    def suite(self, name):
        return next(suite for suite in SUITES if suite.name == name)

    def test_every_run_has_it_and_the_full_one_ten_times_as_much_with_other_inputs(self):
        self.assertEqual(self.suite("fuzz").tier, Tier.USUAL)
        self.assertEqual(self.suite("fuzz-long").tier, Tier.FULL)
        self.assertEqual(self.suite("fuzz").command, ["tests/fuzz/run", "--times", "0.5"])
        self.assertEqual(self.suite("fuzz-long").command, ["tests/fuzz/run", "--times", "10", "--seed", "2"])

    def test_a_finding_fails_the_suite_and_its_input_stays_in_the_output(self):
        said = ["FAIL  pmi  7 inputs: crash", "      the input: 52ff", "21 passed, 1 failed, 0 skipped"]
        script = "; ".join(f"echo '{line}'" for line in said) + "; exit 1"
        status, text = run_suites(shell("fuzz", script, counting.count_end_line))
        self.assertEqual(status, 1)
        self.assertIn("the input: 52ff", text)
        self.assertEqual(text.splitlines()[-1], "21 passed, 1 failed, 0 skipped")


class Room(unittest.TestCase):
    def test_little_is_reported_and_too_little_is_refused_by_the_fullest_folder(self):
        free = {Path("/here"): 30 * room.GIB, Path("/tmp"): 3 * room.GIB}
        text, enough = room.shortage(free, free.get)
        self.assertEqual(text, "/tmp: 3.0 GiB of disk are free; a build of everything takes about 6 GiB")
        self.assertTrue(enough)
        free[Path("/here")] = room.GIB // 2
        text, enough = room.shortage(free, free.get)
        self.assertTrue(text.startswith("/here: 0.5 GiB"), text)
        self.assertFalse(enough)
        self.assertEqual(room.shortage([Path("/here")], lambda _: room.NEEDED_BYTES), ("", True))

    def test_a_full_disk_is_said_before_anything_runs(self):
        real, room.shortage = room.shortage, lambda folders: ("/tmp: full", False)
        try:
            with contextlib.redirect_stderr(io.StringIO()) as said:
                status, text = run_suites(shell("one", "echo here I am"))
        finally:
            room.shortage = real
        self.assertEqual((status, text, said.getvalue()), (2, "", "tools/test: /tmp: full\n"))


class Interrupt(unittest.TestCase):
    def test_ends_the_children_and_exits_130(self):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "suites.py"
            # The grandchild prints its process id, then would run for a long time.
            script.write_text(
                f"import sys; sys.path.insert(0, {str(REPOSITORY / 'tools/dev/suites')!r})\n"
                "import counting, main; from table import Suite\n"
                "stuck = Suite('stuck', '', 60, ['sh', '-c', 'sleep 600 & echo child $!; wait'], counting.count_step)\n"
                "sys.exit(main.main([], suites=[stuck]))\n"
            )
            tests = subprocess.Popen(
                [sys.executable, "-B", script], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, start_new_session=True
            )
            child = None
            for line in tests.stdout:
                if line.startswith("child "):
                    child = int(line.split()[1])
                    break
            handle = os.pidfd_open(child)
            self.addCleanup(os.close, handle)
            tests.send_signal(signal.SIGINT)
            rest = tests.stdout.read()
            tests.stdout.close()
            self.assertEqual(tests.wait(60), 130)
            self.assertIn("interrupted", rest)
            ended, _, _ = select.select([handle], [], [], 60)  # readable once the process has ended
            self.assertTrue(ended, "the suite's child outlived the interrupt")


class CommandLine(unittest.TestCase):
    def tools_test(self, *words):
        return subprocess.run(
            [REPOSITORY / "tools/test", *words], cwd="/", capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
        )

    def test_list_names_every_suite_and_runs_nothing(self):
        answer = self.tools_test("--list")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual([line.split()[0] for line in answer.stdout.splitlines()], [suite.name for suite in SUITES])

    def test_an_unknown_suite_is_wrong_usage_and_the_known_ones_are_named(self):
        answer = self.tools_test("--only", "unti")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("--only unti", answer.stderr)
        self.assertIn("unit", answer.stderr)


class CountingUnittest(unittest.TestCase):
    def test_reads_failures_errors_and_skips_with_reasons(self):
        counts = counting.count_unittest(Run(1, [
            "test_a (m.T.test_a) ... ok",
            "test_b (m.T.test_b) ... skipped 'no root here'",
            "FAIL: test_c (m.T.test_c)",
            "ERROR: test_d (m.T.test_d)",
            "Ran 4 tests in 0.1s",
            "FAILED (failures=1, errors=1, skipped=1)",
        ]))  # fmt: skip
        self.assertEqual((counts.passed, counts.failed, counts.skipped), (1, 2, 1))
        self.assertEqual(counts.skips, ["no root here"])

    def test_a_run_without_tests_is_a_failure(self):
        self.assertEqual(counting.count_unittest(Run(0, ["Ran 0 tests in 0.0s", "OK"])).failed, 1)
        self.assertEqual(counting.count_unittest(Run(0, [])).failed, 1)


class CountingEndLines(unittest.TestCase):
    def test_reads_the_last_one(self):
        lines = ["1 passed, 0 failed, 0 skipped", "SKIP: net: no root", "SKIPPED  disk: full", "7 passed, 0 failed, 2 skipped"]
        counts = counting.count_end_line(Run(0, lines))
        self.assertEqual((counts.passed, counts.failed, counts.skipped), (7, 0, 2))
        self.assertEqual(counts.skips, ["net: no root", "disk: full"])

    def test_none_is_a_failure_even_with_status_zero(self):
        self.assertEqual(counting.count_end_line(Run(0, ["all fine, believe me"])).failed, 1)

    def test_says_again_what_was_said_of_failed_cases(self):
        counts = counting.count_end_line(Run(1, ["passed   one (0.1 s)", "FAILED   two is two", "    2 != 3", "    why", "passed   three (1 s)",
                                                 "    of no case that failed", "FAIL  pmi  7 inputs: crash", "1 passed, 2 failed, 0 skipped"]))
        self.assertEqual(counts.failures, ["two is two\n      2 != 3\n      why", "pmi  7 inputs: crash"])
        many = counting.count_end_line(Run(1, ["FAILED   it", *(f"    {i}" for i in range(99)), "0 passed, 1 failed, 0 skipped"]))
        self.assertEqual([line.strip() for line in many.failures[0].splitlines()],
                         ["it", "0", "1", "2", "3", "4", "5", "...", "93", "94", "95", "96", "97", "98"])

    def test_a_bad_status_after_a_good_count_is_a_failure(self):
        self.assertEqual(counting.count_end_line(Run(1, ["7 passed, 0 failed, 0 skipped"])).failed, 1)


class CountingBazel(unittest.TestCase):
    """Build events as Bazel 4.2 writes them, cut down to the fields that are read."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.events = []

    def target(self, label, status=None, *logs):
        self.events.append({"id": {"targetConfigured": {"label": label}}, "configured": {"testSize": "MEDIUM"}})
        for shard, log in enumerate(logs):
            path = Path(self.folder.name) / (re.sub(r"\W", "_", label) + f"_{shard}.log")
            path.write_text(log)
            output = [{"name": "test.log", "uri": f"file://{path}"}]
            self.events.append({"id": {"testResult": {"label": label}}, "testResult": {"testActionOutput": output}})
        if status is not None:
            self.events.append({"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}})

    def count(self, status):
        path = Path(self.folder.name) / "events.json"
        path.write_text("".join(json.dumps(event) + "\n" for event in self.events))
        return counting.count_bazel(Run(status, [], path))

    def test_counts_the_cases_of_doctest_binaries_and_others_as_one(self):
        self.target("//a:doctests", "PASSED", "[doctest] test cases:  12 |  12 passed | 0 failed | 0 skipped\n")
        self.target("//b:other", "PASSED", "done\n")
        counts = self.count(0)
        self.assertEqual((counts.passed, counts.failed, counts.skipped), (13, 0, 0))

    def test_counts_the_cases_of_all_shards_and_a_shard_that_crashed_is_a_failure(self):
        first = "[doctest] test cases: 7 | 7 passed | 0 failed | 0 skipped\n"
        self.target("//a:shards", "PASSED", first, "[doctest] test cases: 6 | 6 passed | 0 failed | 0 skipped\n")
        self.target("//b:shards", "FAILED", first, "Segmentation fault\n")
        counts = self.count(3)
        self.assertEqual((counts.passed, counts.failed, counts.skipped), (20, 1, 0))

    def test_parts_of_cases_that_run_in_other_processes_are_no_skips(self):
        self.target("//a:forks", "PASSED", "[doctest] test cases: 5 | 5 passed | 0 failed | 6 skipped\n")
        counts = self.count(0)
        self.assertEqual((counts.passed, counts.failed, counts.skipped), (5, 0, 0))

    def test_names_the_failed_cases(self):
        log = "TEST CASE:  two is one\n\na.cc:3: ERROR: CHECK( 2 == 1 ) is NOT correct!\n"
        self.target("//a:bad", "FAILED", log + "\x1b[0;31m[doctest] test cases: 2 | 1 passed | 1 failed | 0 skipped\n")
        counts = self.count(3)
        self.assertEqual((counts.passed, counts.failed), (1, 1))
        self.assertEqual(counts.failures, ["//a:bad failed\n      two is one"])

    def test_of_a_program_that_names_no_cases_the_last_lines_are_printed(self):
        self.target("//a:other", "FAILED", "".join(f"line {i}\n" for i in range(40)))
        self.assertEqual(self.count(3).failures, ["//a:other failed" + "".join(f"\n      line {i}" for i in range(28, 40))])

    def test_a_sanitizer_report_behind_passed_cases_is_a_failure(self):
        self.target("//a:leaks", "FAILED", "[doctest] test cases: 2 | 2 passed | 0 failed | 0 skipped\nERROR: LeakSanitizer\n")
        self.assertEqual(self.count(3).failed, 1)

    def test_a_target_that_did_not_build_is_a_failure(self):
        self.target("//a:fine", "PASSED", "[doctest] test cases: 2 | 2 passed | 0 failed | 0 skipped\n")
        self.target("//a:broken")
        counts = self.count(1)
        self.assertEqual((counts.passed, counts.failed), (2, 1))
        self.assertEqual(counts.failures, ["//a:broken did not build or did not run"])

    def test_a_timeout_is_a_failure(self):
        self.target("//a:slow", "TIMEOUT", "")
        self.assertEqual(self.count(3).failures, ["//a:slow timeout"])

    def test_bazel_failing_before_any_target_is_a_failure(self):
        self.assertEqual(self.count(1).failed, 1)

    def test_bazel_failing_after_good_targets_is_a_failure(self):
        self.target("//a:fine", "PASSED", "")
        self.assertEqual(self.count(1).failed, 1)

    def test_no_test_with_the_tags_asked_for_is_neither(self):
        counts = self.count(4)
        self.assertEqual((counts.passed, counts.failed), (0, 0))

    def test_a_declared_skip_is_taken_off_the_passed_and_keeps_its_reason(self):
        log = "t.cc:9: MESSAGE: SKIP: cubic: only root may set it\n"
        self.target("//a:skips", "PASSED", log + "[doctest] test cases: 2 | 2 passed | 0 failed | 0 skipped\n")
        counts = self.count(0)
        self.assertEqual((counts.passed, counts.failed, counts.skipped), (1, 0, 1))
        self.assertEqual(counts.skips, ["//a:skips: cubic: only root may set it"])


if __name__ == "__main__":
    unittest.main()
