"""From runs to ratios and verdicts, as data and as text.

Of each program and cell the algorithm with the lowest median over the rounds counts. The ratio of a round is the time of the
best peer (the one with the lowest median over the rounds) divided by Rondo's: above 1, Rondo is faster. The ratio of a cell is
the median of its rounds' ratios. A round's bar is missed where its ratio is below the bar; a cell's bar is missed where at
least four fifths of its rounds miss it, by the median of the iterations or by wall time over them.
"""

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Iterable, Optional

from grid import BARS, KIB, MIB, RONDO, RONDO_AGAIN, Bar, Cell

METRICS = ("median_us", "wall_us")
MISSED_FRACTION = 0.8


@dataclass
class Program:
    """One program in one cell."""

    algorithm: Optional[str] = None
    rounds: dict[int, dict] = field(default_factory=dict)  # round -> point of that algorithm
    errors: list[str] = field(default_factory=list)

    def time(self, metric: str) -> Optional[float]:
        return median(point[metric] for point in self.rounds.values()) if self.rounds else None


@dataclass
class Ratio:
    """Rondo against the best peer by one metric."""

    peer: str
    by_round: list[float]

    @property
    def value(self) -> float:
        return median(self.by_round)


@dataclass
class CellReport:
    cell: Cell
    programs: dict[str, Program]
    ratios: dict[str, Ratio]  # by metric; empty where Rondo or every peer has no result
    noise: Optional[tuple[float, float]]  # lowest and highest ratio of Rondo to itself
    bar: Optional[float]
    verdict: str  # "held", "MISSED", "no bar", "no result", or "peers alone"


def best_algorithm(runs: Iterable[dict]) -> Program:
    program = Program()
    by_algorithm: dict[str, dict[int, dict]] = {}
    for run in runs:
        if "error" in run:
            program.errors.append(run["error"])
            continue
        for point in run["points"]:
            by_algorithm.setdefault(point["algorithm"], {})[run["round"]] = point
    if by_algorithm:
        def overall(name):
            return median(point["median_us"] for point in by_algorithm[name].values())

        program.algorithm = min(by_algorithm, key=overall)
        program.rounds = by_algorithm[program.algorithm]
    return program


def ratio_to_best_peer(programs: dict[str, Program], metric: str) -> Optional[Ratio]:
    rondo = programs.get(RONDO.name, Program())
    peers = {name: p for name, p in programs.items() if name not in (RONDO.name, RONDO_AGAIN.name) and p.rounds}
    if not rondo.rounds or not peers:
        return None
    name = min(peers, key=lambda peer: peers[peer].time(metric))
    shared = sorted(set(rondo.rounds) & set(peers[name].rounds))
    by_round = [peers[name].rounds[r][metric] / rondo.rounds[r][metric] for r in shared]
    return Ratio(name, by_round) if by_round else None


def is_missed(ratio: Ratio, bar: float) -> bool:
    missed = sum(value < bar for value in ratio.by_round)
    return missed >= math.ceil(MISSED_FRACTION * len(ratio.by_round))


def report_cell(cell: Cell, runs: list[dict], bars: list[Bar] = BARS) -> CellReport:
    by_program: dict[str, list[dict]] = {}
    for run in runs:
        by_program.setdefault(run["program"], []).append(run)
    # A run that failed and was later repeated with success is no error any more.
    for name, of_program in by_program.items():
        succeeded = {run["round"] for run in of_program if "error" not in run}
        by_program[name] = [run for run in of_program if "error" not in run or run["round"] not in succeeded]
    programs = {name: best_algorithm(of_program) for name, of_program in by_program.items()}

    ratios = {}
    for metric in METRICS:
        if (ratio := ratio_to_best_peer(programs, metric)) is not None:
            ratios[metric] = ratio
    noise = None
    rondo, again = programs.get(RONDO.name, Program()), programs.get(RONDO_AGAIN.name, Program())
    if shared := set(rondo.rounds) & set(again.rounds):
        values = [again.rounds[r]["median_us"] / rondo.rounds[r]["median_us"] for r in shared]
        noise = (min(values), max(values))

    bar = next((bar.at_least for bar in bars if bar.covers(cell)), None)
    if RONDO.name not in programs:
        verdict = "peers alone"
    elif not ratios:
        verdict = "no result"
    elif bar is None:
        verdict = "no bar"
    else:
        verdict = "MISSED" if any(is_missed(ratio, bar) for ratio in ratios.values()) else "held"
    return CellReport(cell, programs, ratios, noise, bar, verdict)


def report_all(runs: list[dict], bars: list[Bar] = BARS) -> list[CellReport]:
    """In the order in which the cells were first run."""
    by_cell: dict[Cell, list[dict]] = {}
    for run in runs:
        by_cell.setdefault(Cell(**run["cell"]), []).append(run)
    return [report_cell(cell, of_cell, bars) for cell, of_cell in by_cell.items()]


# ---- as data ---------------------------------------------------------------------------------------------------------


def as_json(header: dict, reports: list[CellReport]) -> dict:
    return {**header, "cells": [cell_as_json(report) for report in reports]}


def cell_as_json(report: CellReport) -> dict:
    return {
        "condition": report.cell.condition,
        "transport": report.cell.transport,
        "collective": report.cell.collective,
        "ranks": report.cell.ranks,
        "bytes": report.cell.bytes,
        "place": report.cell.place,
        "programs": {
            name: {
                "algorithm": program.algorithm,
                "median_us": program.time("median_us"),
                "p99_us": program.time("p99_us"),
                "wall_us": program.time("wall_us"),
                "rounds": len(program.rounds),
                "errors": program.errors,
            }
            for name, program in report.programs.items()
        },
        "ratio": {
            metric: {"peer": ratio.peer, "value": ratio.value, "by_round": ratio.by_round}
            for metric, ratio in report.ratios.items()
        },
        "noise": report.noise,
        "bar": report.bar,
        "verdict": report.verdict,
    }


# ---- as text ---------------------------------------------------------------------------------------------------------


def bytes_text(count: int) -> str:
    for unit, word in ((MIB, "MiB"), (KIB, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {word}"
    return f"{count} B"


def time_text(us: Optional[float]) -> str:
    if us is None:
        return "-"
    return f"{us:.2f} us" if us < 100 else f"{us:.0f} us" if us < 10000 else f"{us / 1000:.1f} ms"


def tables(reports: list[CellReport]) -> dict[tuple, list[CellReport]]:
    """Grouped by what one table or chart shows."""
    grouped: dict[tuple, list[CellReport]] = {}
    for report in reports:
        cell = report.cell
        grouped.setdefault((cell.condition, cell.transport, cell.collective, cell.ranks, cell.place), []).append(report)
    return grouped


def as_text(reports: list[CellReport]) -> str:
    lines = []
    for (condition, transport, collective, ranks, place), rows in tables(reports).items():
        names = [name for name in rows[0].programs if name != RONDO_AGAIN.name]
        lines += ["", f"{collective}, {ranks} ranks, {transport}, {place} of place".replace("in of place", "in place") + f", {condition}"]
        head = f"{'size':>8}" + "".join(f" {name:>24}" for name in names)
        lines.append(head + f" {'best peer':>10} {'ratio':>7} {'by wall':>7} {'A/A':>11}  bar")
        for row in rows:
            text = f"{bytes_text(row.cell.bytes):>8}"
            for name in names:
                program = row.programs.get(name, Program())
                shown = time_text(program.time("median_us")) if program.rounds else "failed" if program.errors else "-"
                if program.algorithm not in (None, "default", "auto"):
                    shown += f" ({program.algorithm})"
                text += f" {shown:>24}"
            by_median, by_wall = row.ratios.get("median_us"), row.ratios.get("wall_us")
            text += f" {by_median.peer if by_median else '-':>10}"
            text += f" {f'{by_median.value:.2f}' if by_median else '-':>7} {f'{by_wall.value:.2f}' if by_wall else '-':>7}"
            text += f" {f'{row.noise[0]:.2f}-{row.noise[1]:.2f}' if row.noise else '-':>11}"
            text += f"  {f'{row.bar:g} ' if row.verdict in ('held', 'MISSED') else ''}{row.verdict}"
            lines.append(text)
    failures = [(r.cell.key(), name, error) for r in reports for name, p in r.programs.items() for error in p.errors]
    lines += [""] + [f"failed: {key} {name}: {error}" for key, name, error in failures]
    missed = sum(report.verdict == "MISSED" for report in reports)
    without = sum(report.verdict == "no result" for report in reports)
    held = sum(report.verdict == "held" for report in reports)
    lines.append(f"{held} bars held, {missed} missed, {without} cells without a result")
    return "\n".join(lines)
