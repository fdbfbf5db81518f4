"""tests/fuzz/run: when a fuzzer is believed, and how a finding is reported. The fuzzers here are scripts that play one."""

import contextlib
import importlib.machinery
import importlib.util
import io
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import REPOSITORY

FOLDER = REPOSITORY / "tests/fuzz"
sys.path.insert(0, str(FOLDER))
import fuzzing  # noqa: E402
from fuzzing import Harness  # noqa: E402


def load_run():
    """The script, which has no .py in its name."""
    loader = importlib.machinery.SourceFileLoader("fuzz_run", str(FOLDER / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz_run", loader))
    loader.exec_module(module)
    return module


run = load_run()

# The output of a fuzzer, in the format of clang 14's libFuzzer.
COUNTED = "echo '#2\tINITED cov: 31 ft: 32'; echo '#100\tDONE   cov: 57 ft: 60'; echo 'stat::number_of_executed_units: 100'"
CRASH = "printf 'R\\377' >\"$prefix\"crash-0123abcd; echo '==1==ERROR: AddressSanitizer: heap-buffer-overflow'; exit 1"


class Player(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, fuzzing_part, name="toy_fuzz", words="", hex_part="exit 0"):
        """A script that writes a corpus as our programs do; `fuzzing_part` is what it does when it is to fuzz."""
        path = self.folder / name
        path.write_text(
            "#!/bin/sh\n"
            'if [ "$1" = --write-corpus ]; then mkdir -p "$2/seeds"; printf s >"$2/seeds/000"; '
            f"printf '{words}' >\"$2/words\"; exit 0; fi\n"
            f'[ "$1" = --hex ] && {{ hex=$2; {hex_part}; }}\n'
            'for word in "$@"; do case $word in -artifact_prefix=*) prefix=${word#*=};; esac; done\n'
            f"{fuzzing_part}\n"
        )
        path.chmod(0o755)
        return path

    def fuzz(self, program, inputs=100, **more):
        with tempfile.TemporaryDirectory() as folder:
            return fuzzing.fuzz(program, Harness("toy", inputs), Path(folder), **more)


class OneFuzzer(Player):
    def test_is_believed_when_it_tried_all_inputs_and_found_nothing(self):
        outcome = self.fuzz(self.program(COUNTED))
        self.assertIsNone(outcome.failure)
        self.assertEqual((outcome.inputs, outcome.edges), (100, 57))
        self.assertRegex(outcome.line(), r"^ok +toy +100 inputs +57 edges")

    def test_is_given_how_much_to_do_and_with_which_limits(self):
        said = self.folder / "said"
        self.fuzz(self.program(f'echo "$@" >{said}; {COUNTED}', words="\"RTA\""), inputs=50, times=2, seed=7)
        words = said.read_text().split()
        for flag in ("-runs=100", "-seed=7", "-max_len=1024", "-print_final_stats=1"):
            self.assertIn(flag, words)
        for flag in ("-timeout=", "-rss_limit_mb=", "-malloc_limit_mb=", "-dict="):
            self.assertTrue(any(word.startswith(flag) for word in words), f"{flag} in {words}")

    def test_a_crash_is_a_failure_with_the_input(self):
        outcome = self.fuzz(self.program(CRASH))
        self.assertEqual(outcome.failure, "crash by an input of 2 bytes")
        self.assertEqual(outcome.finding, b"R\xff")
        self.assertIn("heap-buffer-overflow", outcome.said)

    def test_a_finding_is_a_failure_even_where_the_status_is_zero(self):
        outcome = self.fuzz(self.program(f'printf x >"$prefix"timeout-00; {COUNTED}'))
        self.assertEqual(outcome.failure, "timeout by an input of 1 bytes")

    def test_fewer_inputs_than_asked_for_are_a_failure(self):
        self.assertEqual(self.fuzz(self.program(COUNTED), inputs=101).failure, "it tried 100 of 101 inputs")
        self.assertEqual(self.fuzz(self.program("exit 0")).failure, "it tried 0 of 100 inputs")

    def test_a_bad_status_without_a_finding_is_a_failure(self):
        self.assertEqual(self.fuzz(self.program(f"{COUNTED}; exit 77")).failure, "it ended with status 77")

    def test_one_that_does_not_end_is_ended(self):
        outcome = self.fuzz(self.program("exec sleep 600"), limit_s=1)
        self.assertEqual(outcome.failure, "not done after 1 s")

    def test_one_that_cannot_write_its_seeds_has_failed(self):
        path = self.folder / "broken_fuzz"
        path.write_text("#!/bin/sh\necho no room; exit 1\n")
        path.chmod(0o755)
        outcome = self.fuzz(path)
        self.assertEqual(outcome.failure, "it cannot write its seeds (status 1)")
        self.assertIn("no room", outcome.said)


class AllOfThem(Player):
    """The script as tools/test runs it, on players of all the programs."""

    def setUp(self):
        super().setUp()
        for harness in run.HARNESSES:
            self.program(COUNTED.replace("100", str(harness.inputs)), name=f"{harness.name}_fuzz")
        cases = " ".join(f"{planted.hex()}) echo '{word}'; exit 1;;" for planted, word in run.PLANTED)
        self.hex_part = f"case $hex in {cases} {run.ENDLESS.hex()}) exec sleep 600;; esac"
        self.program(CRASH, name="planted", hex_part=self.hex_part)

    def run_script(self, *words):
        return subprocess.run([FOLDER / "run", "--programs", self.folder, *words], capture_output=True, text=True, timeout=120)

    def test_green_is_one_line_each_and_the_counts(self):
        answer = self.run_script()
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        lines = answer.stdout.splitlines()
        self.assertEqual(lines[-1], f"{len(run.HARNESSES) + 1} passed, 0 failed, 0 skipped")
        self.assertEqual([line.split()[1] for line in lines[1:-1]], [harness.name for harness in run.HARNESSES])

    def test_a_finding_is_printed_with_its_input_and_the_command_that_replays_it(self):
        self.program(CRASH, name="pmi_fuzz")
        answer = self.run_script("--only", "pmi", "--only", "frame")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("the input: 52ff\n", answer.stdout)
        self.assertIn(
            "again: bazel build --config=asan //tests/fuzz:pmi_fuzz && bazel-asan-bin/tests/fuzz/pmi_fuzz --hex 52ff\n",
            answer.stdout,
        )
        self.assertEqual(answer.stdout.splitlines()[-1], "2 passed, 1 failed, 0 skipped")

    def test_where_planted_bugs_are_not_found_nothing_is_believed(self):
        self.program(COUNTED.replace("100", str(run.CONTROL.inputs)), name="planted", hex_part=self.hex_part)
        answer = self.run_script("--only", "frame")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("none of the planted bugs was found", answer.stdout)
        self.assertEqual(answer.stdout.splitlines()[-1], "1 passed, 1 failed, 0 skipped")

    def test_where_a_planted_input_passes_nothing_is_believed(self):
        self.program(CRASH, name="planted", hex_part=self.hex_part.replace("exit 1", "exit 0"))
        answer = self.run_script("--only", "frame")
        self.assertEqual(answer.returncode, 1)
        self.assertIn(f"--hex {run.PLANTED[0][0].hex()} should be reported as 'heap-buffer-overflow'", answer.stdout)

    def test_an_unknown_harness_is_wrong_usage_and_the_known_ones_are_named(self):
        answer = self.run_script("--only", "pim")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("--only pim", answer.stderr)
        self.assertIn("pmi", answer.stderr)

    def test_a_build_that_fails_is_a_failure(self):
        answer = subprocess.run([FOLDER / "run", "--bazel", "false"], capture_output=True, text=True, timeout=60)
        self.assertEqual(answer.returncode, 1)
        self.assertEqual(answer.stdout.splitlines()[-1], "0 passed, 1 failed, 0 skipped")


class Table(unittest.TestCase):
    def test_has_every_harness_that_there_is_in_order(self):
        files = sorted(path.name.removesuffix("_fuzz.cc") for path in FOLDER.glob("*_fuzz.cc"))
        self.assertEqual([harness.name for harness in run.HARNESSES], files)

    def test_is_what_is_built(self):
        built = (FOLDER / "BUILD").read_text()
        for harness in run.HARNESSES:
            self.assertRegex(built, rf'(?m)^    "{harness.name}",$')

    def test_is_printed_line_by_line_while_it_runs(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            run.tell(fuzzing.Outcome(Harness("toy", 1), failure="crash by an input of 1 bytes", finding=b"\0", said="why\nand where"))
        self.assertEqual([line.strip() for line in out.getvalue().splitlines()][1:4], ["why", "and where", "the input: 00"])


if __name__ == "__main__":
    unittest.main()
