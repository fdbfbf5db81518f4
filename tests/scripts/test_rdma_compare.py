"""tools/dev/lab/rdma_compare: how the rounds are read, judged and found incomplete. The runs themselves need minutes in a guest."""

import importlib.machinery
import importlib.util
import subprocess
import unittest

from support import REPOSITORY

RDMA_COMPARE = REPOSITORY / "tools/dev/lab/rdma_compare"
loader = importlib.machinery.SourceFileLoader("rdma_compare", str(RDMA_COMPARE))
rdma_compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("rdma_compare", loader))
loader.exec_module(rdma_compare)

ROUND = """
bandwidth 65536 perftest 100.00
bandwidth 65536 rondo 0.094371840
bandwidth 65536 rondo-back 0.083886080
latency 8 rondo 24.0
latency 8 perftest 20.0
bandwidth 65536 tcp 0.2097152
latency 8 tcp 48.0
all_reduce_2 8 ib 30.5
all_reduce_2 8 tcp 61.0
all_reduce_2 65536 ib 900.0
all_reduce_2 65536 tcp 450.0
"""


def options(*words):
    return rdma_compare.options_of(["--rounds", "1", "--sizes", "64K", "--ranks", "2", *words])


class Rounds(unittest.TestCase):
    def test_figures_of_both_sides_come_in_one_unit(self):
        seen = rdma_compare.parse(ROUND + "a line of some other program\n")
        self.assertAlmostEqual(seen["bandwidth", 65536]["rondo"][0], 90)
        self.assertEqual(seen["bandwidth", 65536]["perftest"], [100])
        self.assertEqual(seen["latency", 8], {"rondo": [24], "perftest": [20], "tcp": [48]})

    def test_the_best_of_each_side_are_held_to_the_bars(self):
        better = ROUND.replace("rondo 24.0", "rondo 22.0").replace("rondo 0.094371840", "rondo 0.09961472")
        lines, missed = rdma_compare.judge(rdma_compare.parse(ROUND + better), options())
        self.assertEqual(missed, [])
        text = "\n".join(lines)
        self.assertIn("rondo to perftest 0.950, at least 0.85: ok", text)
        self.assertIn("rondo to perftest 1.100, at most 1.3: ok", text)
        self.assertRegex(text, r"all_reduce of 2 ranks, 8, us, every round:\n.*\n.*\n +tcp's time to ib's 2\.000")
        self.assertRegex(text, r"rondo +best +95.00 +median +92.50 +90.00 +95.00")

    def test_each_missed_bar_is_reported(self):
        _, missed = rdma_compare.judge(rdma_compare.parse(ROUND), options("--min-bandwidth", "0.91", "--max-latency", "1.1"))
        self.assertEqual(missed, ["bandwidth of 64K: 0.900 of perftest's, at least 0.91",
                                  "latency of 8: 1.200 of perftest's, at most 1.1"])  # fmt: skip

    def test_a_run_that_gave_no_figure_is_reported(self):
        seen = rdma_compare.parse(ROUND)
        self.assertEqual(rdma_compare.lacks(seen, options()), [])
        seen = rdma_compare.parse(ROUND.replace("bandwidth 65536 perftest 100.00", "bandwidth 65536 perftest "))
        self.assertEqual(rdma_compare.lacks(seen, options()), ["bandwidth 64K perftest: 0 of 1 figures"])
        self.assertEqual(rdma_compare.lacks(rdma_compare.parse(ROUND), options("--ranks", "2,4"))[0], "all_reduce_4 8 ib: 0 of 1 figures")


class WrongUse(unittest.TestCase):
    def test_wrong_values_name_the_flag(self):
        for flag, value in (("--rounds", "0"), ("--rounds", "few"), ("--sizes", "64Q"), ("--ranks", "1"), ("--limit", "-1")):
            said = subprocess.run([RDMA_COMPARE, f"{flag}={value}"], capture_output=True, text=True, check=False)
            self.assertEqual(said.returncode, 2, said)
            self.assertRegex(said.stderr, f"{flag}.*'{value}'")

    def test_help_tells_the_bars(self):
        said = subprocess.run([RDMA_COMPARE, "--help"], capture_output=True, text=True, check=False)
        self.assertEqual(said.returncode, 0)
        self.assertIn("--min-bandwidth", said.stdout)
