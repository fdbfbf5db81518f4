"""tools/compare: how a ratio and a verdict are made, what is resumed, what a failing program leaves."""

import dataclasses
import json
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom
from pathlib import Path

from support import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tools/compare"))
import chart  # noqa: E402
import grid  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402

CELL = grid.Cell("cubic", "tcp", "all_reduce", 2, 1024, "out")
BAR = [grid.Bar(1.0)]


def point(median_us, wall_us=None, algorithm="default"):
    wall_us = median_us if wall_us is None else wall_us
    return {"algorithm": algorithm, "median_us": median_us, "p99_us": 2 * median_us, "wall_us": wall_us, "correct": True}


def runs(program, *medians_us, wall_us=None):
    """One run a round."""
    walls = wall_us or medians_us
    return [
        {"round": number, "cell": dataclasses.asdict(CELL), "program": program, "points": [point(median_us, walls[number])]}
        for number, median_us in enumerate(medians_us)
    ]


class Ratios(unittest.TestCase):
    def test_are_medians_of_the_rounds_ratios_to_the_peer_with_the_lowest_overall_median(self):
        # mpich is fastest in one round but gloo overall.
        reported = report.report_cell(CELL, runs("rondo", 10, 20, 30) + runs("gloo", 20, 20, 45) + runs("mpich", 1, 90, 90), BAR)
        ratio = reported.ratios["median_us"]
        self.assertEqual(ratio.peer, "gloo")
        self.assertEqual(ratio.by_round, [2.0, 1.0, 1.5])
        self.assertEqual(ratio.value, 1.5)

    def test_count_the_algorithm_with_the_lowest_overall_median(self):
        of_gloo = runs("gloo", 50, 50)
        for run in of_gloo:
            run["points"] = [point(50, algorithm="ring"), point(40, algorithm="bcube")]
        reported = report.report_cell(CELL, runs("rondo", 20, 20) + of_gloo, BAR)
        self.assertEqual(reported.programs["gloo"].algorithm, "bcube")
        self.assertEqual(reported.ratios["median_us"].value, 2.0)

    def test_use_only_rounds_that_both_have(self):
        failed = {"round": 1, "cell": dataclasses.asdict(CELL), "program": "gloo", "error": "not done after 120 s"}
        reported = report.report_cell(CELL, runs("rondo", 10, 10) + runs("gloo", 30) + [failed], BAR)
        self.assertEqual(reported.ratios["median_us"].by_round, [3.0])
        self.assertEqual(reported.programs["gloo"].errors, ["not done after 120 s"])

    def test_of_rondo_to_itself_are_the_noise(self):
        reported = report.report_cell(CELL, runs("rondo", 10, 10) + runs("rondo_again", 9, 12) + runs("gloo", 30, 30), BAR)
        self.assertEqual(reported.noise, (0.9, 1.2))
        self.assertEqual(reported.ratios["median_us"].peer, "gloo")


class Bars(unittest.TestCase):
    def verdict(self, rondo, rondo_wall=None, bars=BAR):
        return report.report_cell(CELL, runs("rondo", *rondo, wall_us=rondo_wall) + runs("gloo", 10, 10, 10, 10, 10), bars).verdict

    def test_hold_when_three_of_five_rounds_are_below(self):
        self.assertEqual(self.verdict([11, 11, 11, 9, 9]), "held")

    def test_are_missed_when_four_of_five_rounds_are_below(self):
        self.assertEqual(self.verdict([11, 11, 11, 11, 9]), "MISSED")

    def test_are_missed_by_wall_time_alone(self):
        self.assertEqual(self.verdict([5, 5, 5, 5, 5], rondo_wall=[11, 11, 11, 11, 11]), "MISSED")

    def test_apply_only_to_the_cells_that_they_cover(self):
        self.assertEqual(self.verdict([99] * 5, bars=[grid.Bar(1.0, min_bytes=4096)]), "no bar")

    def test_without_a_result_nothing_is_held(self):
        self.assertEqual(report.report_cell(CELL, runs("rondo", 10), BAR).verdict, "no result")


class Text(unittest.TestCase):
    def test_names_failed_programs_and_counts_verdicts(self):
        failed = {"round": 0, "cell": dataclasses.asdict(CELL), "program": "mpich", "error": "exit status 1: no route"}
        text = report.as_text(report.report_all(runs("rondo", 5) + runs("gloo", 10) + [failed], BAR))
        self.assertIn("2.00", text)
        self.assertIn("mpich: exit status 1: no route", text)
        self.assertEqual(text.splitlines()[-1], "1 bars held, 0 missed, 0 cells without a result")

    def test_the_chart_is_well_formed_and_has_every_program(self):
        other = dataclasses.replace(CELL, bytes=4096)
        more = [dict(run, cell=dataclasses.asdict(other)) for run in runs("rondo", 7) + runs("gloo", 12)]
        svg = chart.as_svg(report.report_all(runs("rondo", 5) + runs("gloo", 10) + more, BAR), "A & B")
        xml.dom.minidom.parseString(svg)
        self.assertIn(">rondo</text>", svg)
        self.assertIn(">gloo</text>", svg)


class RunningPrograms(unittest.TestCase):
    """With shell scripts in place of the drivers."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def driver(self, script):
        path = self.folder / "gloo_bench"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_gloo(self):
        return rounds.run_program(grid.Program("gloo"), CELL, grid.DEFAULT, self.folder)

    def test_points_are_read_from_lines_of_json(self):
        self.driver(f"echo noise; echo '{json.dumps(point(3.5))}'")
        self.assertEqual(self.run_gloo()["points"][0]["median_us"], 3.5)

    def test_a_failing_program_is_an_error_with_its_last_words(self):
        self.driver("echo no such device >&2; exit 7")
        self.assertEqual(self.run_gloo(), {"error": "exit status 7: no such device"})

    def test_wrong_results_are_an_error_whatever_their_speed(self):
        self.driver(f"echo '{json.dumps(dict(point(0.1), correct=False))}'")
        self.assertEqual(self.run_gloo()["error"], "wrong results by default")

    def test_silence_is_an_error(self):
        self.driver("true")
        self.assertEqual(self.run_gloo(), {"error": "printed no point"})

    def run_two_rounds(self, results):
        said = []
        rounds.run_rounds(results, [CELL], [grid.Program("gloo")], {"cubic": grid.DEFAULT}, 2, self.folder, said.append)
        return said

    HEADER = {"machine": {"cpu": "x"}, "versions": {"gloo": "1"}, "programs": {}}

    def test_resuming_runs_only_what_is_missing_and_repeats_what_failed(self):
        path = self.folder / "runs.jsonl"
        self.driver(f"echo '{json.dumps(point(3))}'")
        self.assertEqual(len(self.run_two_rounds(rounds.Results(path, self.HEADER, resume=False))), 2)
        self.assertEqual(self.run_two_rounds(rounds.Results(path, self.HEADER, resume=True)), [])

        lines = path.read_text().splitlines()
        failed = {"round": 1, "cell": dataclasses.asdict(CELL), "program": "gloo", "error": "x"}
        path.write_text("\n".join(lines[:2] + [json.dumps(failed)]) + '\n{"round": 1, "ce')  # and a torn line
        resumed = rounds.Results(path, self.HEADER, resume=True)
        self.assertEqual(len(self.run_two_rounds(resumed)), 1)
        for line in path.read_text().splitlines():
            json.loads(line)
        reported = report.report_all(resumed.runs, BAR)
        self.assertEqual(reported[0].programs["gloo"].errors, [], "a repeated success heals a failure")

    def test_a_file_of_runs_is_never_overwritten_or_mixed_with_other_versions(self):
        path = self.folder / "runs.jsonl"
        rounds.Results(path, self.HEADER, resume=False)
        with self.assertRaisesRegex(rounds.CompareError, "--resume"):
            rounds.Results(path, self.HEADER, resume=False)
        with self.assertRaisesRegex(rounds.CompareError, "other versions"):
            rounds.Results(path, dict(self.HEADER, versions={"gloo": "2"}), resume=True)


class Flags(unittest.TestCase):
    def test_no_peer_may_use_shared_memory_over_tcp(self):
        peers = {peer.name: peer for peer in grid.PEERS["tcp"]}
        self.assertIn("tcp,self", peers["openmpi"].flags)
        self.assertEqual(peers["mpich"].variables, {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"})

    def test_every_program_gets_the_same_collective_size_place_and_time(self):
        shared = None
        for program in [grid.RONDO, *grid.PEERS["tcp"]]:
            command = program.command(Path("/b"), CELL)
            words = [command[command.index(flag) + 1] for flag in ("-b", "-t", "-w")] + [command[-1]]
            shared = shared or words
            self.assertEqual(words, shared)
            self.assertIn("all_reduce", command)

    def test_the_grid_is_the_documented_one(self):
        cells = list(grid.cells([grid.CUBIC], "tcp", ["all_reduce"], [2], grid.BYTES, ["out"]))
        self.assertEqual([cell.bytes for cell in cells], [4 * 4**k for k in (0, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)])

    def test_wrong_words_are_named(self):
        for wrong in (["--sizes", "5"], ["--ranks", "0"], ["--peers", "nccl"], ["--collectives", "all_reduce,sum"], ["--resume"]):
            command = [REPOSITORY / "tools/compare/compare", *wrong]
            answer = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
            with self.subTest(wrong=wrong):
                self.assertEqual(answer.returncode, 2)
                self.assertIn(wrong[0], answer.stderr)


if __name__ == "__main__":
    unittest.main()
