"""From cells to bars: which of them Rondo holds, as data and as text.

A bar is judged wherever it covers a measured cell, once for each condition and place. A bar on cells is missed where one of them
misses it; its figure is the lowest ratio. A bar on a mean is judged on the geometric mean over the grid's cells, round by round,
by the same rule; where a cell has no ratio, or no round has all cells, it is not judged.
"""

from dataclasses import dataclass, field
from statistics import geometric_mean, median
from typing import Optional

from bars import BARS, Bar
from grid import Cell
from report import METRICS, CellReport, bytes_text, cell_as_json, place_text, ratios_to, tables_as_text


@dataclass
class BarReport:
    bar: Bar
    condition: str
    transport: str
    place: str
    verdict: str  # "held", "MISSED", or "not judged"
    cells: int = 0  # number of judged cells
    figures: dict[str, float] = field(default_factory=dict)  # by metric: the mean, or the ratio of the lowest cell
    lowest: Optional[Cell] = None  # the cell with the lowest ratio of the first metric; for bars on cells
    why: str = ""  # why it is not judged


def judge(reports: list[CellReport], bars: list[Bar] = BARS) -> list[BarReport]:
    """By condition and place, then in the order of the bars."""
    grouped: dict[tuple, list[CellReport]] = {}
    for report in reports:
        if report.verdict != "peers alone":
            grouped.setdefault((report.cell.condition, report.cell.transport, report.cell.place), []).append(report)
    judged = []
    for where, of_group in grouped.items():
        for bar in bars:
            if covered := [report for report in of_group if bar.covers(report.cell)]:
                judged.append(judge_mean(bar, where, covered) if bar.mean else judge_cells(bar, where, covered))
    return judged


def judge_cells(bar: Bar, where: tuple, covered: list[CellReport]) -> BarReport:
    found = [(report, of_bar) for report in covered for of_bar in report.bars if of_bar.bar == bar]
    if not found:
        return BarReport(bar, *where, "not judged", why=f"no cell has both Rondo and {bar.against.what}")
    figures = {metric: min(of_bar.ratios[metric].value for _, of_bar in found) for metric in METRICS}
    lowest, _ = min(found, key=lambda pair: pair[1].ratios[METRICS[0]].value)
    verdict = "MISSED" if any(of_bar.missed for _, of_bar in found) else "held"
    return BarReport(bar, *where, verdict, len(found), figures, lowest.cell)


def judge_mean(bar: Bar, where: tuple, covered: list[CellReport]) -> BarReport:
    wanted = bar.grid()
    ratios = {}
    for report in covered:
        if (report.cell.ranks, report.cell.bytes) in wanted and (of_cell := ratios_to(bar.against, report.programs)):
            ratios[report.cell] = of_cell
    if len(ratios) < len(wanted):
        return BarReport(bar, *where, "not judged", len(ratios), why=f"{len(ratios)} of its {len(wanted)} cells have a ratio")
    rounds = set.intersection(*(set(ratio.by_round) for of_cell in ratios.values() for ratio in of_cell.values()))
    if not rounds:
        return BarReport(bar, *where, "not judged", len(ratios), why="no round has all its cells")
    by_round = {
        metric: [geometric_mean(of_cell[metric].by_round[number] for of_cell in ratios.values()) for number in sorted(rounds)]
        for metric in METRICS
    }
    verdict = "MISSED" if any(bar.is_missed_by(means) for means in by_round.values()) else "held"
    return BarReport(bar, *where, verdict, len(ratios), {metric: median(means) for metric, means in by_round.items()})


def exit_status(reports: list[CellReport], judged: list[BarReport]) -> int:
    missed = any(bar.verdict == "MISSED" for bar in judged)
    return int(missed or any(report.verdict == "no result" for report in reports))


# ---- output as data --------------------------------------------------------------------------------------------------


def as_json(header: dict, reports: list[CellReport], judged: list[BarReport]) -> dict:
    return {**header, "cells": [cell_as_json(report) for report in reports], "bars": [bar_as_json(bar) for bar in judged]}


def bar_as_json(judged: BarReport) -> dict:
    bar = judged.bar
    return {
        "condition": judged.condition,
        "transport": judged.transport,
        "place": judged.place,
        "collective": bar.collective,
        "ranks": list(bar.ranks),
        "bytes": [bar.min_bytes, bar.max_bytes],
        "against": bar.against.what,
        "mean": bar.mean,
        "at_least": bar.at_least,
        "figure": judged.figures,
        "cells": judged.cells,
        "verdict": judged.verdict,
        "why": judged.why,
    }


# ---- output as text --------------------------------------------------------------------------------------------------


def as_text(reports: list[CellReport], judged: list[BarReport]) -> str:
    lines = tables_as_text(reports)
    if judged:
        named = [(bar_as_text(bar), bar) for bar in judged]
        width = max(len(text) for text, _ in named)
        lines.append(f"{'bar: a ratio of at least':<{width}} {'ratio':>7} {'by wall':>7}")
        lines += [f"{text:<{width}}{figures_as_text(bar)}  {verdict_as_text(bar)}" for text, bar in named] + [""]
    counts = {verdict: sum(bar.verdict == verdict for bar in judged) for verdict in ("held", "MISSED", "not judged")}
    without = sum(report.verdict == "no result" for report in reports)
    lines.append(
        f"{counts['held']} bars held, {counts['MISSED']} missed, {counts['not judged']} not judged, "
        f"{without} cells without a result"
    )
    return "\n".join(lines)


def bar_as_text(judged: BarReport) -> str:
    bar = judged.bar
    ranks = f"{', '.join(map(str, bar.ranks))} ranks"
    which = f"the mean of {range_text(bar)}" if bar.mean else range_text(bar)
    return f"{bar.at_least:5.2f} {bar.against.what}: {bar.collective}, {ranks}, {which}, {place_text(judged.place)}, {judged.condition}"


def figures_as_text(judged: BarReport) -> str:
    return "".join(f" {f'{judged.figures[metric]:.2f}' if metric in judged.figures else '-':>7}" for metric in METRICS)


def verdict_as_text(judged: BarReport) -> str:
    if judged.why:
        return f"{judged.verdict}: {judged.why}"
    if judged.lowest and judged.cells > 1:
        lowest = f"{judged.lowest.ranks} ranks, {bytes_text(judged.lowest.bytes)}"
        return f"{judged.verdict} ({judged.cells} cells, lowest at {lowest})"
    return judged.verdict


def range_text(bar: Bar) -> str:
    least, most = bytes_text(bar.min_bytes), bytes_text(bar.max_bytes)
    if bar.min_bytes == bar.max_bytes:
        return least
    if bar.max_bytes < Bar.max_bytes:
        return f"{least} to {most}" if bar.min_bytes else f"up to {most}"
    return f"from {least}" if bar.min_bytes else "every size"
