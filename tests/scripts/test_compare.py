"""tools/dev/compare: how ratios, verdicts and bars are made, what is resumed, what a failing program leaves."""

import dataclasses
import json
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.dom.minidom
from pathlib import Path

from support import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tools/dev/compare"))
import bars  # noqa: E402
import chart  # noqa: E402
import grid  # noqa: E402
import judge  # noqa: E402
import markdown  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402

CELL = grid.Cell("cubic", "tcp", "all_reduce", 2, 1024, "out")
OTHER = dataclasses.replace(CELL, bytes=4096)
BAR = [bars.Bar(1.0)]


def point(median_us, wall_us=None, algorithm="default"):
    wall_us = median_us if wall_us is None else wall_us
    return {"algorithm": algorithm, "median_us": median_us, "p99_us": 2 * median_us, "wall_us": wall_us, "correct": True}


def runs(program, *medians_us, wall_us=None, cell=CELL):
    """One run a round."""
    walls = wall_us or medians_us
    return [
        {"round": number, "cell": dataclasses.asdict(cell), "program": program, "points": [point(median_us, walls[number])]}
        for number, median_us in enumerate(medians_us)
    ]


class Ratios(unittest.TestCase):
    def test_are_medians_of_the_rounds_ratios_to_the_peer_with_the_lowest_overall_median(self):
        # mpich is fastest in one round, but gloo is fastest overall.
        reported = report.report_cell(CELL, runs("rondo", 10, 20, 30) + runs("gloo", 20, 20, 45) + runs("mpich", 1, 90, 90), BAR)
        ratio = reported.ratios["median_us"]
        self.assertEqual(ratio.peer, "gloo")
        self.assertEqual(ratio.by_round, {0: 2.0, 1: 1.0, 2: 1.5})
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
        self.assertEqual(reported.ratios["median_us"].by_round, {0: 3.0})
        self.assertEqual(reported.programs["gloo"].errors, ["not done after 120 s"])

    def test_of_rondo_to_itself_are_the_noise(self):
        reported = report.report_cell(CELL, runs("rondo", 10, 10) + runs("rondo_again", 9, 12) + runs("gloo", 30, 30), BAR)
        self.assertEqual(reported.noise, (0.9, 1.2))
        self.assertEqual(reported.ratios["median_us"].peer, "gloo")


class Bars(unittest.TestCase):
    def verdict(self, rondo, rondo_wall=None, held_to=BAR):
        return report.report_cell(CELL, runs("rondo", *rondo, wall_us=rondo_wall) + runs("gloo", 10, 10, 10, 10, 10), held_to).verdict

    def test_hold_when_three_of_five_rounds_are_below(self):
        self.assertEqual(self.verdict([11, 11, 11, 9, 9]), "held")

    def test_are_missed_when_four_of_five_rounds_are_below(self):
        self.assertEqual(self.verdict([11, 11, 11, 11, 9]), "MISSED")

    def test_are_missed_by_wall_time_alone(self):
        self.assertEqual(self.verdict([5, 5, 5, 5, 5], rondo_wall=[11, 11, 11, 11, 11]), "MISSED")

    def test_apply_only_to_the_cells_that_they_cover(self):
        self.assertEqual(self.verdict([99] * 5, held_to=[bars.Bar(1.0, min_bytes=4096)]), "no bar")

    def test_without_a_result_nothing_is_held(self):
        self.assertEqual(report.report_cell(CELL, runs("rondo", 10), BAR).verdict, "no result")

    def test_of_a_cell_hold_all_of_them_or_the_cell_is_missed(self):
        both = [bars.Bar(1.0), bars.Bar(3.0, max_bytes=CELL.bytes)]
        self.assertEqual(self.verdict([5] * 5, held_to=both), "MISSED")
        self.assertEqual(self.verdict([3] * 5, held_to=both), "held")


def judged(made, *held_to):
    return judge.judge(report.report_all(made, held_to), held_to)


class BarsAgainstNamedPrograms(unittest.TestCase):
    """Rondo takes 5 us, Gloo 60, Open MPI 6, MPICH 4, raw sockets 4."""

    MADE = runs("rondo", 5) + runs("gloo", 60) + runs("openmpi", 6) + runs("mpich", 4) + runs("sockets", 4)

    def verdict_and_figure(self, at_least, against):
        (bar,) = judged(self.MADE, bars.Bar(at_least, against=against))
        return bar.verdict, bar.figures

    def test_look_at_those_alone(self):
        self.assertEqual(self.verdict_and_figure(10, bars.GLOO), ("held", {"median_us": 12, "wall_us": 12}))
        self.assertEqual(self.verdict_and_figure(13, bars.GLOO)[0], "MISSED")

    def test_take_the_faster_of_two(self):
        self.assertEqual(self.verdict_and_figure(0.8, bars.BEST_MPI)[0], "held")
        self.assertEqual(self.verdict_and_figure(1.0, bars.BEST_MPI), ("MISSED", {"median_us": 0.8, "wall_us": 0.8}))

    def test_may_be_a_limit_of_the_machine_which_is_no_peer(self):
        self.assertEqual(self.verdict_and_figure(1 / 1.4, bars.RAW_SOCKETS), ("held", {"median_us": 0.8, "wall_us": 0.8}))
        self.assertEqual(self.verdict_and_figure(0.85, bars.RAW_SOCKETS)[0], "MISSED")
        reported = report.report_cell(CELL, runs("rondo", 5) + runs("sockets", 4), BAR)
        self.assertEqual(reported.verdict, "no result", "sockets are not the best peer")

    def test_of_another_of_rondos_programs_count_where_that_one_fails(self):
        held_to = [bars.Bar(1.0, of="rondo_allocated")]
        both = runs("rondo", 5) + runs("gloo", 10)
        failed = {"round": 0, "cell": dataclasses.asdict(CELL), "program": "rondo_allocated", "error": "not done after 120 s"}
        self.assertEqual(report.report_cell(CELL, both + runs("rondo_allocated", 5), held_to).verdict, "held")
        self.assertEqual(report.report_cell(CELL, both + [failed], held_to).verdict, "no result")
        self.assertEqual(report.report_cell(CELL, both, held_to).verdict, "no bar", "it was not asked for")

    def test_are_not_judged_where_none_of_those_has_a_result(self):
        (bar,) = judged(runs("rondo", 5) + runs("openmpi", 6), bars.Bar(10, against=bars.GLOO))
        self.assertEqual((bar.verdict, bar.why), ("not judged", "no cell has both Rondo and Gloo"))

    def test_show_the_lowest_cell_of_those_they_cover(self):
        made = self.MADE + runs("rondo", 5, cell=OTHER) + runs("gloo", 20, cell=OTHER)
        (bar,) = judged(made, bars.Bar(10, against=bars.GLOO))
        self.assertEqual((bar.verdict, bar.cells, bar.lowest, bar.figures["median_us"]), ("MISSED", 2, OTHER, 4))


class BarsOnMeans(unittest.TestCase):
    """Two of the grid's cells, 1 KiB and 4 KiB at 2 ranks; Gloo takes 16 us in both."""

    def bar(self, at_least):
        return bars.Bar(at_least, ranks=(2,), min_bytes=1024, max_bytes=4096, mean=True)

    def judge(self, at_least, rondo, rondo_other, **walls):
        made = runs("rondo", *rondo, **walls) + runs("gloo", *[16] * len(rondo))
        made += runs("rondo", *rondo_other, cell=OTHER) + runs("gloo", *[16] * len(rondo_other), cell=OTHER)
        (bar,) = judged(made, self.bar(at_least))
        return bar

    def test_are_held_where_the_geometric_mean_is_however_low_one_cell_is(self):
        bar = self.judge(1.99, [32], [2])  # the ratios are 0.5 and 8
        self.assertEqual(bar.verdict, "held")
        self.assertAlmostEqual(bar.figures["median_us"], 2.0)

    def test_are_missed_where_the_geometric_mean_is(self):
        self.assertEqual(self.judge(2.01, [32], [2]).verdict, "MISSED")

    def test_are_missed_by_four_of_five_rounds_and_held_by_three(self):
        self.assertEqual(self.judge(1.5, [16, 16, 16, 16, 4], [8, 8, 8, 8, 8]).verdict, "MISSED")
        self.assertEqual(self.judge(1.5, [16, 16, 16, 4, 4], [8, 8, 8, 8, 8]).verdict, "held")

    def test_are_missed_by_wall_time_alone(self):
        bar = self.judge(2, [4] * 5, [4] * 5, wall_us=[64] * 5)
        self.assertEqual(bar.verdict, "MISSED")
        self.assertAlmostEqual(bar.figures["median_us"], 4)
        self.assertAlmostEqual(bar.figures["wall_us"], 1)

    def test_are_not_judged_where_a_cell_is_missing_or_has_no_ratio(self):
        for lacking in ([], runs("rondo", 4, cell=OTHER)):
            (bar,) = judged(runs("rondo", 4) + runs("gloo", 16) + lacking, self.bar(1))
            self.assertEqual((bar.verdict, bar.why), ("not judged", "1 of its 2 cells have a ratio"))

    def test_are_not_judged_where_no_round_has_all_cells(self):
        first, second = runs("rondo", 4, 4) + runs("gloo", 16, 16), runs("rondo", 4, 4, cell=OTHER) + runs("gloo", 16, 16, cell=OTHER)
        made = [run for run in first if run["round"] == 0] + [run for run in second if run["round"] == 1]
        (bar,) = judged(made, self.bar(1))
        self.assertEqual((bar.verdict, bar.why), ("not judged", "no round has all its cells"))

    def test_stand_for_each_condition_and_place_by_itself(self):
        made = []
        for where, rondo_us in ({"place": "out"}, 4), ({"place": "in"}, 32), ({"condition": "default"}, 8):
            for size in (1024, 4096):
                cell = dataclasses.replace(CELL, bytes=size, **where)
                made += runs("rondo", rondo_us, cell=cell) + runs("gloo", 16, cell=cell)
        answers = {(bar.condition, bar.place): bar.verdict for bar in judged(made, self.bar(1))}
        self.assertEqual(answers, {("cubic", "out"): "held", ("cubic", "in"): "MISSED", ("default", "out"): "held"})

    def test_are_left_out_where_none_of_their_cells_was_measured(self):
        other_collective = dataclasses.replace(CELL, collective="broadcast", place="in")
        self.assertEqual(judged(runs("rondo", 4, cell=other_collective) + runs("gloo", 16, cell=other_collective), self.bar(1)), [])


class TheBars(unittest.TestCase):
    def test_are_against_programs_that_exist(self):
        programs = {program.name for program in [*grid.PEERS["tcp"], *grid.PEERS["shm"], *grid.BOUNDS]}
        for bar in bars.BARS:
            self.assertLessEqual(set(bar.against.programs), programs)

    def test_are_there_for_every_cell_of_all_reduce_and_for_the_mean_of_every_other_collective(self):
        for transport, ranks in (("tcp", grid.RANKS), ("shm", grid.SHM_RANKS)):
            for count in ranks:
                for size in grid.BYTES["all_reduce"]:
                    cell = dataclasses.replace(CELL, transport=transport, ranks=count, bytes=size)
                    self.assertTrue(any(bar.covers(cell) and not bar.mean for bar in bars.BARS), cell)
            means = {bar.collective: bar for bar in bars.BARS if bar.mean and bar.collective != "all_reduce" and bar.transport == transport}
            self.assertEqual(set(means), set(grid.BYTES) - {"all_reduce"})
            self.assertEqual(len(means["scatter"].grid()), len(ranks) * len(grid.OTHER_BYTES))

    def test_against_a_bound_cover_the_cells_in_which_it_is_measured(self):
        for bound, rival in ((grid.CACHE_LINE, bars.A_CACHE_LINE), (grid.MEMORY_FLOOR, bars.MEMORY), (grid.ALLOCATED_FLOOR, bars.MEMORY_OF_ALLOCATED)):
            for transport in grid.TRANSPORTS:
                for count in grid.SHM_RANKS:
                    for size in grid.BYTES["all_reduce"]:
                        cell = dataclasses.replace(CELL, transport=transport, ranks=count, bytes=size)
                        held = any(bar.covers(cell) for bar in bars.BARS if bar.against == rival)
                        self.assertEqual(held, bound.measures(cell), cell)

    def test_are_missed_by_what_is_faster_than_a_floor(self):
        floor = bars.Bar(0.75, at_most=1.0)
        self.assertFalse(floor.is_missed_by([0.8, 0.9, 1.0, 0.76, 1.1]))
        self.assertTrue(floor.is_missed_by([1.1, 1.2, 1.3, 1.1, 0.9]))
        self.assertTrue(floor.is_missed_by([0.7, 0.7, 0.7, 0.7, 0.9]))

    def test_against_raw_sockets_cover_the_cells_in_which_those_are_measured(self):
        for count in grid.RANKS:
            for size in grid.BYTES["all_reduce"]:
                cell = dataclasses.replace(CELL, ranks=count, bytes=size)
                held = any(bar.covers(cell) for bar in bars.BARS if bar.against == bars.RAW_SOCKETS)
                self.assertEqual(held, grid.SOCKETS.measures(cell), cell)


    def test_between_hosts_are_others_than_on_one(self):
        for size in grid.HOSTS_BYTES["all_reduce"]:
            cell = dataclasses.replace(CELL, condition="hosts 1gbit", ranks=4, bytes=size)
            held_to = [bar for bar in bars.BARS if bar.covers(cell)]
            self.assertTrue(held_to and all(bar.between_hosts for bar in held_to), cell)
            self.assertEqual(any(bar.against == bars.THE_WIRE for bar in held_to), grid.WIRE.measures(cell), cell)


class ExitStatus(unittest.TestCase):
    def status(self, made, *held_to):
        reports = report.report_all(made, held_to)
        return judge.exit_status(reports, judge.judge(reports, held_to))

    MEAN = bars.Bar(2.0, ranks=(2,), min_bytes=1024, max_bytes=1024, mean=True)

    def test_is_0_where_all_bars_hold_or_are_not_judged(self):
        self.assertEqual(self.status(runs("rondo", 5) + runs("gloo", 10), *BAR, self.MEAN, bars.Bar(9, against=bars.BEST_MPI)), 0)

    def test_is_1_where_a_mean_is_missed_though_every_cell_holds(self):
        self.assertEqual(self.status(runs("rondo", 9) + runs("gloo", 10), *BAR, self.MEAN), 1)

    def test_is_1_where_a_cell_has_no_result(self):
        self.assertEqual(self.status(runs("rondo", 5), *BAR), 1)


class Text(unittest.TestCase):
    def report(self, made, *held_to):
        reports = report.report_all(made, held_to)
        return reports, judge.judge(reports, held_to)

    def test_names_failed_programs_and_counts_verdicts(self):
        failed = {"round": 0, "cell": dataclasses.asdict(CELL), "program": "mpich", "error": "exit status 1: no route"}
        text = judge.as_text(*self.report(runs("rondo", 5) + runs("gloo", 10) + [failed], *BAR))
        self.assertIn("2.00", text)
        self.assertIn("mpich: exit status 1: no route", text)
        self.assertEqual(text.splitlines()[-1], "1 bars held, 0 missed, 0 not judged, 0 cells without a result")

    def test_and_data_give_every_bar_with_its_figure_and_verdict(self):
        made = runs("rondo", 5) + runs("gloo", 10) + runs("sockets", 4)
        held_to = bars.Bar(1.0), bars.Bar(0.85, against=bars.RAW_SOCKETS), bars.Bar(1 / 0.7, ranks=(2,), mean=True)
        reports, of_bars = self.report(made, *held_to)
        lines = judge.as_text(reports, of_bars).splitlines()
        for words in (
            ["1.00 the best peer: all_reduce, 2, 4, 8 ranks, every size, out of place, cubic", "2.00", "held"],
            ["0.85 raw sockets", "0.80", "MISSED"],
            ["1.43 the best peer: all_reduce, 2 ranks, the mean of every size", "not judged: 1 of its 12 cells have a ratio"],
        ):
            with self.subTest(words=words):
                self.assertEqual(len([line for line in lines if all(word in line for word in words)]), 1, lines)
        self.assertEqual([line for line in lines if line.endswith("MISSED 0.85 x raw sockets")][0].split()[0], "1", "and its cell's row")
        self.assertEqual(lines[-1], "1 bars held, 1 missed, 1 not judged, 0 cells without a result")

        data = json.loads(json.dumps(judge.as_json({}, reports, of_bars)))
        self.assertEqual([bar["verdict"] for bar in data["bars"]], ["held", "MISSED", "not judged"])
        self.assertEqual(data["bars"][1]["figure"], {"median_us": 0.8, "wall_us": 0.8})
        self.assertEqual([bar["verdict"] for bar in data["cells"][0]["bars"]], ["held", "MISSED"])

    def test_has_a_column_for_a_program_that_only_some_cells_have(self):
        made = runs("rondo", 5) + runs("gloo", 10) + runs("rondo", 5, cell=OTHER) + runs("sockets", 3, cell=OTHER)
        lines = judge.as_text(*self.report(made)).splitlines()
        self.assertEqual(lines[2].split()[1:4], ["rondo", "gloo", "sockets"])
        self.assertEqual(lines[3].split()[6], "-")
        self.assertEqual(lines[4].split()[4:7], ["-", "3.00", "us"])

    def test_the_chart_is_well_formed_and_has_every_program(self):
        more = runs("rondo", 7, cell=OTHER) + runs("gloo", 12, cell=OTHER) + runs("sockets", 3, cell=OTHER)
        svg = chart.as_svg(report.report_all(runs("rondo", 5) + runs("gloo", 10) + more, BAR), "A & B")
        xml.dom.minidom.parseString(svg)
        self.assertIn(">rondo</text>", svg)
        self.assertIn(">gloo</text>", svg)
        self.assertNotIn("sockets", svg)

    def test_the_charts_times_are_round(self):
        self.assertEqual([chart.decade_text(10.0**power) for power in range(-1, 8)],
                         ["0.1 us", "1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s"])


class Markdown(unittest.TestCase):
    def test_all_reduce_has_its_times_and_the_others_their_ratios(self):
        broadcast = dataclasses.replace(CELL, collective="broadcast", place="in")
        gather = dataclasses.replace(CELL, collective="gather", bytes=8)  # one element per rank: printed with 4 B
        made = runs("rondo", 5) + runs("rondo_again", 6) + runs("gloo", 10) + runs("sockets", 3)
        for cell in (broadcast, gather):
            made += runs("rondo", 20, cell=cell) + runs("mpich", 30, cell=cell)
        lines = markdown.as_markdown(report.report_all(made, []), "a machine").splitlines()
        self.assertEqual(lines[0], "a machine")
        self.assertIn("| bytes | rondo | gloo | sockets | ratio | by wall | A/A |", lines)
        self.assertIn("| 1 KiB | 5.00 us | 10.00 us | 3.00 us | 2.00 | 2.00 | 1.20 to 1.20 |", lines)
        self.assertIn("| broadcast | 2 | 1.50 | 1.50 |", [line.replace("|  |", "|") for line in lines])
        self.assertIn("| gather | 2 | 1.50 | 1.50 |", [line.replace("|  |", "|") for line in lines])

    def test_every_line_of_a_table_has_as_many_columns(self):
        made = runs("rondo", 5) + runs("gloo", 10) + runs("rondo", 5, cell=OTHER)
        made += runs("rondo", 2, cell=dataclasses.replace(CELL, collective="scatter")) + runs("rondo", 2, cell=dataclasses.replace(OTHER, collective="scatter"))
        text = markdown.as_markdown(report.report_all(made, []), "a machine")
        for table in text.split("\n\n"):
            widths = {line.count("|") for line in table.splitlines() if line.startswith("|")}
            self.assertLessEqual(len(widths), 1, table)


class RunningPrograms(unittest.TestCase):
    """With shell scripts in place of the drivers."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def driver(self, script, name="gloo"):
        path = self.folder / f"{name}_bench"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_gloo(self):
        return rounds.run_program(grid.Program("gloo"), CELL, grid.DEFAULT, self.folder)

    def test_points_are_read_from_lines_of_json(self):
        self.driver(f"echo noise; echo '{json.dumps(point(3.5))}'")
        self.assertEqual(self.run_gloo()["points"][0]["median_us"], 3.5)

    def test_a_failing_program_is_an_error_with_its_last_lines(self):
        self.driver("echo no such device >&2; exit 7")
        self.assertEqual(self.run_gloo(), {"error": "exit status 7: no such device"})

    def test_wrong_results_are_an_error_whatever_their_speed(self):
        self.driver(f"echo '{json.dumps(dict(point(0.1), correct=False))}'")
        self.assertEqual(self.run_gloo()["error"], "wrong results by default")

    def test_a_program_that_hangs_is_an_error_and_ended(self):
        self.driver("echo $$ > pid; exec sleep 600".replace("pid", str(self.folder / "pid")))
        with unittest.mock.patch("rounds.timeout_s", lambda cell: 2):
            self.assertEqual(self.run_gloo(), {"error": "not done after 2 s"})
        self.assertFalse(Path("/proc", (self.folder / "pid").read_text().strip()).exists())

    def test_a_peer_that_does_not_end_after_its_points_is_ended_and_they_count(self):
        points = [point(3) for _ in grid.GLOO_ALGORITHMS]
        self.driver("".join(f"echo '{json.dumps(one)}'; " for one in points) + "exec sleep 600")
        with unittest.mock.patch("rounds.LINGER_S", 0.2):
            self.assertEqual(self.run_gloo(), {"points": points})

    def test_rondo_has_to_end(self):
        self.driver(f"echo '{json.dumps(point(3))}'; exec sleep 600", "rondo")
        with unittest.mock.patch("rounds.LINGER_S", 0.2), unittest.mock.patch("rounds.timeout_s", lambda cell: 2):
            privileged = dataclasses.replace(grid.DEFAULT, rondo_unprivileged=False)
            self.assertEqual(rounds.run_program(grid.RONDO, CELL, privileged, self.folder), {"error": "not done after 2 s"})

    def test_silence_is_an_error(self):
        self.driver("true")
        self.assertEqual(self.run_gloo(), {"error": "printed no point"})

    def run_two_rounds(self, results):
        said = []
        planned = rounds.plan([CELL], [grid.Program("gloo")], 2)
        rounds.run_plan(results, planned, {"cubic": grid.DEFAULT}, self.folder, said.append)
        return said

    HEADER = {"machine": {"cpu": "x"}, "versions": {"gloo": "1"}, "programs": {}}

    def test_resuming_runs_only_what_is_missing_and_repeats_what_failed(self):
        path = self.folder / "runs.jsonl"
        self.driver(f"echo '{json.dumps(point(3))}'")
        self.assertEqual(len(self.run_two_rounds(rounds.Results(path, self.HEADER, resume=False))), 2)
        self.assertEqual(self.run_two_rounds(rounds.Results(path, self.HEADER, resume=True)), [])

        lines = path.read_text().splitlines()
        failed = {"round": 1, "cell": dataclasses.asdict(CELL), "program": "gloo", "error": "x"}
        path.write_text("\n".join(lines[:2] + [json.dumps(failed)]) + '\n{"round": 1, "ce')  # and an incomplete line
        resumed = rounds.Results(path, self.HEADER, resume=True)
        self.assertRegex(rounds.plan_text(resumed, rounds.plan([CELL], [grid.Program("gloo")], 2)), "^1 of 2 runs to make: about 1 min")
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
        with self.assertRaisesRegex(rounds.CompareError, "other values of 'versions'"):
            rounds.Results(path, dict(self.HEADER, versions={"gloo": "2"}), resume=True)


class Sockets(unittest.TestCase):
    """What limits.c says, as the time of a cell."""

    PINGPONG = "pingpong tcp  -     spin   rtt us: min 5.90 median 6.40 p99 9.00\n"
    STREAM = "stream tcp  -     duplex2   262144 of  16777216 B    2.000 GB/s per direction\n"

    def test_of_the_least_message_is_half_a_round_trip(self):
        (one_way,) = grid.SOCKETS.points(self.PINGPONG, dataclasses.replace(CELL, bytes=4))
        self.assertEqual((one_way["median_us"], one_way["wall_us"]), (3.2, 3.2))

    def test_of_large_ones_is_what_both_directions_at_once_carry(self):
        (both_ways,) = grid.SOCKETS.points(self.STREAM, dataclasses.replace(CELL, bytes=16 << 20))
        self.assertAlmostEqual(both_ways["median_us"], (16 << 20) / 2e9 * 1e6)

    def test_are_asked_what_fits_the_cell(self):
        self.assertEqual(grid.SOCKETS.command(Path("/b"), dataclasses.replace(CELL, bytes=4))[:2], ["/b/limits", "pingpong"])
        self.assertEqual(grid.SOCKETS.command(Path("/b"), dataclasses.replace(CELL, bytes=16 << 20))[:2], ["/b/limits", "stream"])

    def test_of_large_ones_move_a_vector_as_large(self):
        self.assertEqual(grid.SOCKETS.command(Path("/b"), dataclasses.replace(CELL, bytes=16 << 20))[-1], str(16 << 20))

    def test_are_run_only_where_they_are_a_limit(self):
        sizes = [4, 1024, 16 << 20]
        cells = list(grid.cells([grid.CUBIC], "tcp", ["all_reduce", "reduce"], [2, 4], {"all_reduce": sizes, "reduce": sizes}, ["out"]))
        planned = rounds.plan(cells, [grid.RONDO, grid.SOCKETS], 1)
        with_sockets = [(run.cell.collective, run.cell.ranks, run.cell.bytes) for run in planned if run.program == grid.SOCKETS]
        self.assertEqual(with_sockets, [("all_reduce", 2, 4), ("all_reduce", 2, 16 << 20)])

    def test_that_say_something_else_are_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            limits = Path(folder) / "limits"
            limits.write_text("#!/bin/sh\necho so fast\n")
            limits.chmod(0o755)
            outcome = rounds.run_program(grid.SOCKETS, dataclasses.replace(CELL, bytes=4), grid.DEFAULT, Path(folder))
        self.assertRegex(outcome["error"], "unreadable output: .*so fast")


class BoundsOfSharedMemory(unittest.TestCase):
    SHM = dataclasses.replace(CELL, transport="shm")

    def test_a_line_takes_half_a_round_trip(self):
        said = "shm spin, two cpus           rtt us: min 0.240 median 0.260 p99 0.400\n"
        (one_way,) = grid.CACHE_LINE.points(said, dataclasses.replace(self.SHM, bytes=4))
        self.assertAlmostEqual(one_way["median_us"], 0.13)

    def test_the_floor_is_measured_with_vectors_as_large(self):
        cell = dataclasses.replace(self.SHM, bytes=64 << 20)
        self.assertEqual(grid.MEMORY_FLOOR.command(Path("/b"), cell), ["/b/limits", "floor", str(64 << 20)])
        said = "floor    2 thread(s)   67108864 B per buffer  all_reduce of plain buffers at least 9000.5 us\n" + \
            "floor    2 thread(s)   67108864 B per buffer  all_reduce of allocated buffers at least 7000.5 us\n"
        for floor, us in ((grid.MEMORY_FLOOR, 9000.5), (grid.ALLOCATED_FLOOR, 7000.5)):
            (point,) = floor.points(said, cell)
            self.assertEqual(point["median_us"], us)

    def test_every_program_is_configured_for_shared_memory(self):
        cell = dataclasses.replace(self.SHM, bytes=1024)
        commands = {program.name: " ".join(program.command(Path("/b"), cell)) for program in [*grid.rondo("shm"), *grid.PEERS["shm"]]}
        self.assertIn("-T shm", commands["rondo"])
        self.assertIn("-T shm", commands["rondo_again"])
        self.assertIn("btl vader,self", commands["openmpi"])
        self.assertEqual(grid.PEERS["shm"][-1].variables, {})  # MPICH uses shared memory by default


class BetweenHosts(unittest.TestCase):
    CELL = dataclasses.replace(CELL, condition=grid.between_hosts("1gbit").name, ranks=4, bytes=64 << 10)
    ADDRESSES = [f"10.77.0.{host}" for host in (1, 2, 3, 4)]

    def commands(self, program):
        with tempfile.TemporaryDirectory() as folder:
            return program.commands_on_hosts(Path("/b"), self.CELL, self.ADDRESSES, ["/lab", "rsh"], Path(folder), Path("/profile"))

    def test_the_wire_takes_what_each_rank_must_send_at_the_payloads_share_of_the_rate(self):
        (wire,) = grid.WIRE.points("", self.CELL)
        self.assertAlmostEqual(wire["median_us"], 1.5 * 65536 / (125 * 1448 / 1514))
        slower = dataclasses.replace(self.CELL, condition=grid.between_hosts("100mbit").name)
        self.assertAlmostEqual(grid.WIRE.points("", slower)[0]["median_us"], 10 * wire["median_us"])

    def test_no_program_is_given_loopback_and_every_program_gets_the_same_cell(self):
        for program in [grid.RONDO, *grid.PEERS["tcp"]]:
            commands = self.commands(program)
            with self.subTest(program=program.name):
                self.assertEqual(len(commands), 1 if "mpi" in program.name else 4)
                for command in commands:
                    self.assertFalse({"lo", "127.0.0.1", "localhost"} & set(command), command)
                    self.assertEqual(command[-len(program.shared_flags(self.CELL)):], program.shared_flags(self.CELL))

    def test_rondo_finds_its_address_itself_where_peers_are_given_theirs(self):
        for rank, (ours, theirs) in enumerate(zip(self.commands(grid.RONDO), self.commands(grid.PEERS["tcp"][0]))):
            self.assertEqual((ours[ours.index("-r") + 1], ours[ours.index("-a") + 1]), (str(rank), "auto"))
            self.assertEqual(ours[ours.index("-P") + 1], "/profile")
            self.assertFalse(set(self.ADDRESSES) & set(ours))
            self.assertIn(self.ADDRESSES[rank], theirs)


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

    def test_4_bytes_are_one_element_a_rank_where_there_is_a_block_for_each(self):
        self.assertEqual([grid.sizes("all_gather", ranks)[0] for ranks in (2, 4, 8)], [8, 16, 32])
        self.assertEqual(grid.sizes("all_to_all", 3, {"all_to_all": [4, 8, 64]}), [12, 72], "rounded up, each once")
        self.assertEqual(grid.sizes("reduce", 8)[0], 4)

    def test_every_collective_is_measured_whatever_place_is_asked_for(self):
        for place in ("in", "out"):
            cells = grid.cells([grid.CUBIC], "tcp", list(grid.BYTES), [2], grid.BYTES, [place])
            self.assertEqual({cell.collective for cell in cells}, set(grid.BYTES))

    def test_wrong_words_are_named(self):
        for wrong in (["--sizes", "5"], ["--ranks", "0"], ["--peers", "nccl"], ["--collectives", "all_reduce,sum"], ["--resume"],
                      ["--link-rate", "fast"]):
            command = [REPOSITORY / "tools/dev/compare/compare", *wrong]
            answer = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
            with self.subTest(wrong=wrong):
                self.assertEqual(answer.returncode, 2)
                self.assertIn(wrong[0], answer.stderr)


if __name__ == "__main__":
    unittest.main()
