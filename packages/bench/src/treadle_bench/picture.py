"""The curves as a picture: hand-written SVG that is readable on light and dark pages."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from treadle_bench.figures import POSTGRESQL, SQLITE, Row

WIDTH, HEIGHT = 420, 220
"""The size of a chart, including its margins."""

LEFT, RIGHT, TOP, BOTTOM = 58, 14, 34, 38

COLOURS = {SQLITE: "#2f7fd0", POSTGRESQL: "#d0672f"}
DASHES = {SQLITE: "", POSTGRESQL: ' stroke-dasharray="6 3"'}
"""So that the lines can be told apart without colours too."""

_STYLE = (
    "text{font:11px sans-serif;fill:#333}.title{font-weight:bold}.grid{stroke:#8884}.frame{fill:none;stroke:#8888}"
    "@media(prefers-color-scheme:dark){text{fill:#ccc}}"
)


TIME = "minutes"
"""The axis of cases over time, whose charts have linear scales on both axes."""

ABREAST = 3
"""The number of charts in a row."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to positions on an axis: logarithmic, since curves span several powers of ten; linear over time."""

    low: float
    high: float
    start: float
    end: float
    is_even: bool = False

    def place(self, value: float) -> float:
        """Return the position of a value; 0, which has no logarithm, is at the start."""
        if value <= self.low:
            return self.start
        if self.is_even:
            return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return the powers of ten in range, or its ends if those are fewer than two; round steps on a linear axis."""
        if self.is_even:
            rough = (self.high - self.low) / 4
            step = 10.0 ** math.floor(math.log10(rough))
            step = next((step * times for times in (1, 2, 2.5, 5) if step * times >= rough), step * 10)
            return [self.low + step * nth for nth in range(int((self.high - self.low) / step + 1e-9) + 1)]
        powers = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
        return [10.0**power for power in powers] if len(powers) > 1 else [self.low, self.high]


def draw(rows: Iterable[Row]) -> str:
    """Return a picture of all rows that belong to curves, with one or more lines of charts for each case.

    Each chart of a case over time has the figures whose names start alike; other charts have the figures of one unit.
    """
    curves: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        if row.x is not None:
            together = row.figure.partition(",")[0] if row.axis == TIME else row.unit
            curves.setdefault(row.case, {}).setdefault(together, []).append(row)
    lines = [
        (case, charts[first : first + ABREAST])
        for case, found in curves.items()
        for charts in [list(found.values())]
        for first in range(0, len(charts), ABREAST)
    ]
    drawn = [
        _chart(case, chart, column * WIDTH, line * HEIGHT)
        for line, (case, charts) in enumerate(lines)
        for column, chart in enumerate(charts)
    ]
    width, height = max((len(charts) for _, charts in lines), default=1) * WIDTH, max(1, len(lines)) * HEIGHT
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    return "\n".join([head, f"<style>{_STYLE}</style>", *drawn, "</svg>\n"])


def _chart(case: str, rows: Sequence[Row], left: float, top: float) -> str:
    xs = [row.x for row in rows if row.x]
    ys = [row.median for row in rows if row.median > 0]
    is_time = rows[0].axis == TIME
    across = (_even if is_time else _scale)(xs, LEFT, WIDTH - RIGHT)
    up = (_even if is_time else _scale)(ys, HEIGHT - BOTTOM, TOP)
    lines = _lines(rows)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [
        f'<text class="title" x="{LEFT}" y="14">{escape(_title(case, rows))}</text>',
        *_grid(across, up),
        *(_line(key, points, across, up, _thickness(key[1], rows)) for key, points in lines.items()),
        *_legend(lines),
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(rows[0].axis or "")}</text>',
    ]
    return f'<g transform="translate({left} {top})">\n' + "\n".join(parts) + "\n</g>"


def _title(case: str, rows: Sequence[Row]) -> str:
    figures = list(dict.fromkeys(row.figure for row in rows))
    if rows[0].axis == TIME:
        parts = [figure.partition(", ")[2] for figure in figures]
        return f"{figures[0].partition(',')[0]}: {' / '.join(parts)}, {rows[0].unit}"
    return f"{case.removeprefix('curve-')}: {' and '.join(figures)}, {rows[0].unit}"


def _scale(values: Sequence[float], start: float, end: float) -> Scale:
    low, high = min(values, default=1.0), max(values, default=10.0)
    # A flat line should look flat, so the axis spans at least a factor of ten.
    middle = math.sqrt(low * high)
    return Scale(min(low, middle / math.sqrt(10)), max(high, middle * math.sqrt(10)), start, end)


def _even(values: Sequence[float], start: float, end: float) -> Scale:
    # Start at zero, so that growth doesn't look steeper than it is.
    return Scale(0.0, max(values, default=1.0) * 1.05, start, end, is_even=True)


def _lines(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        lines.setdefault((row.database, row.figure), []).append(row)
    return {key: sorted(found, key=lambda row: row.x or 0) for key, found in lines.items()}


def _grid(across: Scale, up: Scale) -> Iterator[str]:
    yield f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"/>'
    for value in across.ticks():
        x = across.place(value)
        yield f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{_label(value)}</text>'
    for value in up.ticks():
        y = up.place(value)
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_label(value)}</text>'


def _thickness(figure: str, rows: Sequence[Row]) -> float:
    """Return the width of a figure's line: over time the first figure's is the widest; otherwise results are thin."""
    if rows[0].axis != TIME:
        return 1 if "result" in figure else 2
    return (2.4, 1.4, 0.7)[min(2, list(dict.fromkeys(row.figure for row in rows)).index(figure))]


def _line(key: tuple[str, str], points: Sequence[Row], across: Scale, up: Scale, thickness: float) -> str:
    database, _ = key
    colour, dashes = COLOURS.get(database, "#777"), DASHES.get(database, "")
    places = [(across.place(row.x or 0), up.place(row.median)) for row in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in places)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{thickness}"{dashes}/>{dots}'


def _legend(lines: Iterable[tuple[str, str]]) -> Iterator[str]:
    databases = dict.fromkeys(database for database, _ in lines)
    for nth, database in enumerate(databases):
        x = LEFT + nth * 110
        stroke = f'stroke="{COLOURS.get(database, "#777")}" stroke-width="2"{DASHES.get(database, "")}'
        yield f'<line x1="{x}" y1="25" x2="{x + 22}" y2="25" {stroke}/>'
        yield f'<text x="{x + 28}" y="29">{escape(database)}</text>'


def _label(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
