"""Draws a comparison: one panel per table, time over size, both axes logarithmic. Self-contained SVG."""

import math
from xml.sax.saxutils import escape

from grid import BOUNDS
from report import CellReport, bytes_text, programs_of, tables, time_text

PANEL_W, PANEL_H, MARGIN_L, MARGIN_T, MARGIN_B, PAD = 460, 300, 70, 40, 40, 16
COLUMNS = 2
# Okabe and Ito's palette, which colour-blind people can distinguish.
COLOURS = {"rondo": "#D55E00", "gloo": "#0072B2", "openmpi": "#009E73", "mpich": "#CC79A7"}
OTHER_COLOUR = "#666666"


def as_svg(reports: list[CellReport], title: str) -> str:
    panels = [(key, rows) for key, rows in tables(reports).items() if len({row.cell.bytes for row in rows}) > 1]
    lines = (len(panels) + COLUMNS - 1) // COLUMNS
    width, height = COLUMNS * (PANEL_W + PAD) + PAD, lines * (PANEL_H + PAD) + PAD + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{PAD}" y="26" font-size="15">{escape(title)}</text>',
    ]
    for index, (key, rows) in enumerate(panels):
        x, y = PAD + index % COLUMNS * (PANEL_W + PAD), 40 + index // COLUMNS * (PANEL_H + PAD)
        parts.append(f'<g transform="translate({x},{y})">{panel(key, rows)}</g>')
    return "\n".join(parts) + "\n</svg>\n"


def panel(key: tuple, rows: list[CellReport]) -> str:
    condition, transport, collective, ranks, place = key
    rows = sorted(rows, key=lambda row: row.cell.bytes)
    limits = tuple(bound.name for bound in BOUNDS)  # bounds have no line: only the ends are measured
    names = [name for name in programs_of(rows) if name not in limits]
    series = {
        name: [(row.cell.bytes, row.programs[name].time("median_us")) for row in rows if name in row.programs and row.programs[name].rounds]
        for name in names
    }  # fmt: skip
    times = [time for points in series.values() for _, time in points if time]
    title = f'<text x="{MARGIN_L}" y="20" font-size="13">{escape(f"{collective}, {ranks} ranks, {transport}, {place}, {condition}")}</text>'
    if not times:
        return title
    x_of = log_scale(rows[0].cell.bytes, rows[-1].cell.bytes, MARGIN_L, PANEL_W - 90)
    low, high = 10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times)) + 1e-9)
    y_of = log_scale(low, high, PANEL_H - MARGIN_B, MARGIN_T)

    parts = [title]
    decade = low
    while decade <= high * 1.001:
        y = y_of(decade)
        parts.append(f'<line x1="{MARGIN_L}" x2="{PANEL_W - 90}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{MARGIN_L - 6}" y="{y + 4:.1f}" text-anchor="end">{decade_text(decade)}</text>')
        decade *= 10
    for row in rows[:: max(1, len(rows) // 6)]:
        x = x_of(row.cell.bytes)
        parts.append(f'<text x="{x:.1f}" y="{PANEL_H - MARGIN_B + 18}" text-anchor="middle">{bytes_text(row.cell.bytes)}</text>')
    for place_in_legend, (name, points) in enumerate(series.items()):
        colour = COLOURS.get(name, OTHER_COLOUR)
        path = " ".join(f"{x_of(size):.1f},{y_of(time):.1f}" for size, time in points)
        stroke = 2.5 if name == "rondo" else 1.5
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{stroke}"/>')
        for size, time in points:
            hint = escape(f"{name}, {bytes_text(size)}: {time_text(time)}")
            parts.append(f'<circle cx="{x_of(size):.1f}" cy="{y_of(time):.1f}" r="3" fill="{colour}"><title>{hint}</title></circle>')
        y = MARGIN_T + 14 + 18 * place_in_legend
        parts.append(f'<text x="{PANEL_W - 80}" y="{y}" fill="{colour}">{escape(name)}</text>')
    return "\n".join(parts)


def decade_text(time_us: float) -> str:
    """A power of ten, without digits that say nothing: 100 us, 10 ms, 1 s."""
    exponent = round(math.log10(time_us))
    unit = min(max(exponent // 3, 0), 2)
    return f"{10.0 ** (exponent - 3 * unit):g} {('us', 'ms', 's')[unit]}"


def log_scale(low: float, high: float, start: float, end: float):
    """Maps [low, high] to [start, end] by logarithm."""
    span = math.log(high / low) if high > low else 1.0
    return lambda value: start + (end - start) * math.log(value / low) / span
