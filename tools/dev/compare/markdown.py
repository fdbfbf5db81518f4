"""A comparison as tables of Markdown, for documents: all_reduce with its times, the other collectives by their ratios alone."""

from statistics import geometric_mean

from grid import Cell
from report import CellReport, Program, bytes_text, place_text, programs_of, tables, time_text

WITH_TIMES = ("all_reduce",)
METRIC = "median_us"


def as_markdown(reports: list[CellReport], title: str) -> str:
    lines = [title]
    by_key = tables(reports)
    for (condition, _, collective, ranks, place), rows in by_key.items():
        if collective in WITH_TIMES:
            lines += ["", f"{collective}, {ranks} ranks, {place_text(place)}, {condition}:", "", *table_of_times(rows)]
    others: dict[tuple, list[CellReport]] = {}
    for (condition, _, collective, _, _), rows in by_key.items():
        if collective not in WITH_TIMES:
            others.setdefault((condition, collective), []).extend(rows)
    for condition in dict.fromkeys(condition for condition, _ in others):
        of_condition = {collective: rows for (name, collective), rows in others.items() if name == condition}
        lines += ["", f"The others, the best peer's time divided by Rondo's, {condition}:", "", *table_of_ratios(of_condition)]
    return "\n".join(lines) + "\n"


def table_of_times(rows: list[CellReport]) -> list[str]:
    names = programs_of(rows)
    made = [row_of("bytes", *names, "ratio", "by wall", "A/A"), rule_of(len(names) + 4)]
    for row in rows:
        times = [time_text(row.programs.get(name, Program()).time(METRIC)) for name in names]
        ratios = [f"{ratio.value:.2f}" for ratio in row.ratios.values()] or ["-", "-"]
        noise = f"{row.noise[0]:.2f} to {row.noise[1]:.2f}" if row.noise else "-"
        made.append(row_of(bytes_text(row.cell.bytes), *times, *ratios, noise))
    return made


def table_of_ratios(by_collective: dict[str, list[CellReport]]) -> list[str]:
    """A row for each collective, number of ranks and place; a column for each size of the grid."""
    columns = max((columns_of(rows) for rows in by_collective.values()), key=len)
    made = [row_of("", "ranks", *(bytes_text(size) for size in columns), "mean"), rule_of(len(columns) + 3)]
    for collective, rows in by_collective.items():
        for ranks, place in dict.fromkeys((row.cell.ranks, row.cell.place) for row in rows):
            of_line = [row for row in rows if (row.cell.ranks, row.cell.place) == (ranks, place)]
            values = {column_of(row.cell): row.ratios[METRIC].value for row in of_line if METRIC in row.ratios}
            name = f"{collective}, in place" if place == "in" and any(row.cell.place == "out" for row in rows) else collective
            cells = [f"{values[size]:.2f}" if size in values else "" for size in columns]
            if not any(cells) and values:  # a barrier has no size
                cells[0] = f"{next(iter(values.values())):.2f}"
            made.append(row_of(name, str(ranks), *cells, f"{geometric_mean(values.values()):.2f}" if values else "-"))
    return made


def column_of(cell: Cell) -> int:
    """Sizes that were rounded up to whole elements a rank stand with those that were not."""
    return 4 if 0 < cell.bytes <= 4 * cell.ranks else cell.bytes


def columns_of(rows: list[CellReport]) -> list[int]:
    return sorted({column_of(row.cell) for row in rows})


def row_of(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def rule_of(columns: int) -> str:
    return f"|{'---|' * columns}"
