"""From runs to ratios, cell by cell, as data and as text. What becomes of a bar is in judge.py.

Of each program and cell the algorithm with the lowest median over the rounds counts. The ratio of a round is the time of the
best peer (the one with the lowest median over the rounds) divided by Rondo's: above 1, Rondo is faster. The ratio of a cell is
the median of its rounds' ratios. A round's bar is missed where its ratio is below the bar; a cell's bar is missed where at
least four fifths of its rounds miss it, by the median of the iterations or by wall time over them.
"""

from dataclasses import dataclass, field
from statistics import median
from typing import Iterable, Optional

from bars import BARS, BEST_PEER, Bar, Rival
from grid import KIB, MIB, RONDO, RONDO_AGAIN, Cell

METRICS = ("median_us", "wall_us")


@dataclass
class Program:
    """One program in one cell."""

    algorithm: Optional[str] = None
    rounds: dict[int, dict] = field(default_factory=dict)  # round -> result of that algorithm
    errors: list[str] = field(default_factory=list)

    def time(self, metric: str) -> Optional[float]:
        return median(point[metric] for point in self.rounds.values()) if self.rounds else None


@dataclass
class Ratio:
    """The time of a program divided by Rondo's, by one metric."""

    peer: str
    by_round: dict[int, float]

    @property
    def value(self) -> float:
        return median(self.by_round.values())


@dataclass
class CellBar:
    """A bar in a cell that it covers, where there is something to judge."""

    bar: Bar
    ratios: dict[str, Ratio]  # by metric

    @property
    def missed(self) -> bool:
        return any(self.bar.is_missed_by(list(ratio.by_round.values())) for ratio in self.ratios.values())


@dataclass
class CellReport:
    cell: Cell
    programs: dict[str, Program]
    ratios: dict[str, Ratio]  # ratios to the best peer, by metric; empty if Rondo or every peer has no result
    noise: Optional[tuple[float, float]]  # lowest and highest ratio of Rondo to itself
    bars: list[CellBar]  # bars that apply to this single cell
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


def ratios_to(rival: Rival, programs: dict[str, Program], of: str = RONDO.name) -> dict[str, Ratio]:
    """By metric; empty where Rondo or the rival has no result, or no round has both."""
    rondo = programs.get(of, Program())
    rivals = {name: programs[name] for name in rival.programs if name in programs and programs[name].rounds}
    ratios = {}
    for metric in METRICS if rondo.rounds and rivals else ():
        name = min(rivals, key=lambda other: rivals[other].time(metric))
        shared = sorted(set(rondo.rounds) & set(rivals[name].rounds))
        if not shared:
            return {}
        ratios[metric] = Ratio(name, {r: rivals[name].rounds[r][metric] / rondo.rounds[r][metric] for r in shared})
    return ratios


def has_failed(programs: dict[str, Program], name: str) -> bool:
    return name in programs and not programs[name].rounds


def report_cell(cell: Cell, runs: list[dict], bars: list[Bar] = BARS) -> CellReport:
    by_program: dict[str, list[dict]] = {}
    for run in runs:
        by_program.setdefault(run["program"], []).append(run)
    # A run that failed counts as no error if a later repetition succeeded.
    for name, of_program in by_program.items():
        succeeded = {run["round"] for run in of_program if "error" not in run}
        by_program[name] = [run for run in of_program if "error" not in run or run["round"] not in succeeded]
    programs = {name: best_algorithm(of_program) for name, of_program in by_program.items()}

    ratios = ratios_to(BEST_PEER, programs)
    noise = None
    rondo, again = programs.get(RONDO.name, Program()), programs.get(RONDO_AGAIN.name, Program())
    if shared := set(rondo.rounds) & set(again.rounds):
        values = [again.rounds[r]["median_us"] / rondo.rounds[r]["median_us"] for r in shared]
        noise = (min(values), max(values))

    of_cell = [CellBar(bar, ratios_to(bar.against, programs, bar.of)) for bar in bars if bar.covers(cell) and not bar.mean]
    judged = [of_bar for of_bar in of_cell if of_bar.ratios]
    if RONDO.name not in programs:
        verdict = "peers alone"
    elif not ratios or any(has_failed(programs, of_bar.bar.of) for of_bar in of_cell):
        verdict = "no result"
    elif not judged:
        verdict = "no bar"
    else:
        verdict = "MISSED" if any(of_bar.missed for of_bar in judged) else "held"
    return CellReport(cell, programs, ratios, noise, judged, verdict)


def report_all(runs: list[dict], bars: list[Bar] = BARS) -> list[CellReport]:
    """In the order in which the cells were first run."""
    by_cell: dict[Cell, list[dict]] = {}
    for run in runs:
        by_cell.setdefault(Cell(**run["cell"]), []).append(run)
    return [report_cell(cell, of_cell, bars) for cell, of_cell in by_cell.items()]


# ---- output as data --------------------------------------------------------------------------------------------------


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
        "ratio": ratios_as_json(report.ratios),
        "noise": report.noise,
        "bars": [
            {
                "at_least": of_bar.bar.at_least,
                "against": of_bar.bar.against.what,
                "ratio": ratios_as_json(of_bar.ratios),
                "verdict": "MISSED" if of_bar.missed else "held",
            }
            for of_bar in report.bars
        ],
        "verdict": report.verdict,
    }


def ratios_as_json(ratios: dict[str, Ratio]) -> dict:
    return {
        metric: {"peer": ratio.peer, "value": ratio.value, "by_round": list(ratio.by_round.values())}
        for metric, ratio in ratios.items()
    }


# ---- output as text --------------------------------------------------------------------------------------------------


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


def programs_of(rows: list[CellReport]) -> list[str]:
    """The columns of a table."""
    return [name for name in dict.fromkeys(name for row in rows for name in row.programs) if name != RONDO_AGAIN.name]


def tables_as_text(reports: list[CellReport]) -> list[str]:
    lines = []
    for (condition, transport, collective, ranks, place), rows in tables(reports).items():
        names = programs_of(rows)
        lines += ["", f"{collective}, {ranks} ranks, {transport}, {place_text(place)}, {condition}"]
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
            by_median, by_wall = (row.ratios.get(metric) for metric in METRICS)
            text += f" {by_median.peer if by_median else '-':>10}"
            text += f" {f'{by_median.value:.2f}' if by_median else '-':>7} {f'{by_wall.value:.2f}' if by_wall else '-':>7}"
            text += f" {f'{row.noise[0]:.2f}-{row.noise[1]:.2f}' if row.noise else '-':>11}"
            lines.append(f"{text}  {verdict_text(row)}")
    failures = [(r.cell.key(), name, error) for r in reports for name, p in r.programs.items() for error in p.errors]
    return lines + [""] + [f"failed: {key} {name}: {error}" for key, name, error in failures]


def place_text(place: str) -> str:
    return "in place" if place == "in" else "out of place"


def verdict_text(row: CellReport) -> str:
    missed = [f"{of_bar.bar.at_least:.2f} x {of_bar.bar.against.what}" for of_bar in row.bars if of_bar.missed]
    return f"{row.verdict} {', '.join(missed)}" if missed else row.verdict
