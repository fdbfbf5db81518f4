"""tests/faults/table: what counts as proof, what is missing, and how rows become lines."""

import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests/faults"))
import faults  # noqa: E402

ROW = {"fault": 8, "case": "a lane is cut", "layer": "sockets", "path": "tcp", "fired": 1, "outcome": "typed_error connection_reset",
       "detected_ms": 12.5}


def table(rows, *flags):
    """The table of these rows alone: its exit status and its text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        done = subprocess.run([REPOSITORY / "tests/faults/table", "--rows", path, *flags], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def every_fault(layer):
    """A row for each fault that has no reason not to be staged there."""
    return [{**ROW, "fault": fault.number, "layer": layer} for fault in faults.FAULTS if layer not in fault.reasons]


class TheListTest(unittest.TestCase):
    def test_has_every_fault_once_in_order(self):
        self.assertEqual([fault.number for fault in faults.FAULTS], list(range(1, 40)))

    def test_reasons_are_for_layers_that_there_are(self):
        for fault in faults.FAULTS:
            self.assertLessEqual(set(fault.reasons), set(faults.LAYERS), fault.name)


class TheTableTest(unittest.TestCase):
    def test_all_is_well_where_each_fault_has_a_row_or_a_reason(self):
        for layer in faults.LAYERS:
            code, text = table(every_fault(layer), "--layer", layer)
            self.assertEqual(code, 0, text)
            self.assertRegex(text.splitlines()[-1], r"^\d+ passed, 0 failed, \d+ skipped$")
            self.assertLessEqual(max(map(len, text.splitlines())), 120, text)

    def test_a_fault_without_row_and_reason_is_missing(self):
        rows = [row for row in every_fault("sockets") if row["fault"] != 8]
        code, text = table(rows, "--layer", "sockets")
        self.assertEqual(code, 1)
        self.assertIn("FAILED   fault 8 (a connection is reset, or ends, mid-frame) has neither a row nor a reason on sockets", text)
        self.assertRegex(text.splitlines()[-1], r"^\d+ passed, 1 failed, \d+ skipped$")

    def test_a_row_that_does_not_prove_its_firing_fails_and_proves_nothing(self):
        for fired in (0, None, "often"):
            code, text = table([*every_fault("sockets"), {**ROW, "fired": fired}], "--layer", "sockets")
            self.assertEqual(code, 1, text)
            self.assertIn("does not prove that its fault fired", text)
        rows = [row if row["fault"] != 8 else {**row, "fired": 0} for row in every_fault("sockets")]
        self.assertIn("MISSING", table(rows, "--layer", "sockets")[1])

    def test_a_row_of_no_known_fault_or_layer_and_one_that_failed_are_reported(self):
        for wrong in ({"fault": 40}, {"layer": "dreams"}, {"outcome": "FAILED"}, {"outcome": ""}):
            code, _ = table([*every_fault("sockets"), {**ROW, **wrong}], "--layer", "sockets")
            self.assertEqual(code, 1, wrong)

    def test_firings_add_up_and_outcomes_and_times_are_joined(self):
        rows = [*[row for row in every_fault("sockets") if row["fault"] != 8],
                ROW, {**ROW, "fired": 2, "outcome": "correct", "detected_ms": None}, {**ROW, "fault": [8, 11], "case": "another", "detected_ms": 300}]
        code, text = table(rows, "--layer", "sockets", "--cases")
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"sockets +2/4 +300 ms  correct; typed: connection_reset")
        self.assertIn("tcp: a lane is cut: fired 3", text)


class TheSourcesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        loader = importlib.machinery.SourceFileLoader("fault_table", str(REPOSITORY / "tests/faults/table"))
        cls.table = importlib.util.module_from_spec(importlib.util.spec_from_loader("fault_table", loader))
        loader.exec_module(cls.table)

    def test_the_only_fault_of_a_scenario_becomes_a_row_under_its_numbers(self):
        totals = {"scenarios": 9, "violations": 0, "lone_faults": [
            {"kind": "one_way", "scenarios": 3, "fired": 2, "times": 40, "ranks": {"correct": 1, "timeout": 5}, "longest_ms": 7.5},
            {"kind": "short_pause", "scenarios": 2, "fired": 1, "times": 1, "ranks": {"correct": 4}, "longest_ms": 0.0}]}
        every, one_way, pause = self.table.rows_of_chaos(json.dumps(totals))
        self.assertEqual((every["fault"], every["fired"], every["outcome"]), (39, 9, "correct"))
        self.assertEqual((one_way["fault"], one_way["fired"], one_way["outcome"], one_way["detected_ms"]),
                         ([6], 40, "correct; typed_error timeout", 7.5))
        self.assertEqual((pause["fault"], pause["outcome"], pause["detected_ms"]), ([3], "correct", None))

    def test_a_kind_of_fault_that_the_list_does_not_know_is_not_passed_over(self):
        totals = {"scenarios": 1, "violations": 0, "lone_faults": [{"kind": "moth", "scenarios": 1, "fired": 1, "times": 1, "ranks": {},
                                                                     "longest_ms": 0.0}]}
        with self.assertRaisesRegex(ValueError, "moth"):
            self.table.rows_of_chaos(json.dumps(totals))

    def test_a_soak_s_line_becomes_a_row_that_its_kills_prove(self):
        rows = self.table.rows_of_soak("tcp: 90 s, seed 1: 4711 operations checked at rank 0, 17 generations, 9 kills, 2 stops\nand more\n")
        self.assertEqual([(row["fault"], row["path"], row["fired"]) for row in rows], [(39, "tcp", 9)])


if __name__ == "__main__":
    unittest.main()
