"""The curves as a picture: SVG, written by hand, readable on light and dark pages."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from treadle_bench.figures import POSTGRESQL, SQLITE, Row

WIDTH, HEIGHT = 420, 220
"""The size of one chart, with its margins."""

LEFT, RIGHT, TOP, BOTTOM = 58, 14, 34, 38

COLOURS = {SQLITE: "#2f7fd0", POSTGRESQL: "#d0672f"}
DASHES = {SQLITE: "", POSTGRESQL: ' stroke-dasharray="6 3"'}
"""Told apart without colours too."""

_STYLE = (
    "text{font:11px sans-serif;fill:#333}.title{font-weight:bold}.grid{stroke:#8884}.frame{fill:none;stroke:#8888}"
    "@media(prefers-color-scheme:dark){text{fill:#ccc}}"
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How values become places on an axis: by their logarithm, for everything here spans several tens."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return where a value stands; 0, which has no logarithm, stands at the very start."""
        if value <= self.low:
            return self.start
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return the powers of ten within, or the ends where there are fewer than two."""
        powers = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
        return [10.0**power for power in powers] if len(powers) > 1 else [self.low, self.high]


def draw(rows: Iterable[Row]) -> str:
    """Return a picture of all rows that belong to curves: one line of charts for each case, one chart a unit."""
    curves: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        if row.x is not None:
            curves.setdefault(row.case, {}).setdefault(row.unit, []).append(row)
    charts = [
        _chart(case, found, column * WIDTH, line * HEIGHT)
        for line, (case, units) in enumerate(curves.items())
        for column, found in enumerate(units.values())
    ]
    columns = max((len(units) for units in curves.values()), default=1)
    width, height = columns * WIDTH, max(1, len(curves)) * HEIGHT
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    return "\n".join([head, f"<style>{_STYLE}</style>", *charts, "</svg>\n"])


def _chart(case: str, rows: Sequence[Row], left: float, top: float) -> str:
    xs = [row.x for row in rows if row.x]
    ys = [row.median for row in rows if row.median > 0]
    across = _scale(xs, LEFT, WIDTH - RIGHT)
    up = _scale(ys, HEIGHT - BOTTOM, TOP)
    lines = _lines(rows)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [
        f'<text class="title" x="{LEFT}" y="14">{escape(_title(case, rows))}</text>',
        *_grid(across, up),
        *(_line(key, points, across, up) for key, points in lines.items()),
        *_legend(lines),
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(rows[0].axis or "")}</text>',
    ]
    return f'<g transform="translate({left} {top})">\n' + "\n".join(parts) + "\n</g>"


def _title(case: str, rows: Sequence[Row]) -> str:
    figures = dict.fromkeys(row.figure for row in rows)
    return f"{case.removeprefix('curve-')}: {' and '.join(figures)}, {rows[0].unit}"


def _scale(values: Sequence[float], start: float, end: float) -> Scale:
    low, high = min(values, default=1.0), max(values, default=10.0)
    # A line that is flat shall look flat: the axis spans a factor of ten at least.
    middle = math.sqrt(low * high)
    return Scale(min(low, middle / math.sqrt(10)), max(high, middle * math.sqrt(10)), start, end)


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


def _line(key: tuple[str, str], points: Sequence[Row], across: Scale, up: Scale) -> str:
    database, figure = key
    colour, dashes = COLOURS.get(database, "#777"), DASHES.get(database, "")
    places = [(across.place(row.x or 0), up.place(row.median)) for row in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    thin = 1 if "result" in figure else 2
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in places)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{thin}"{dashes}/>{dots}'


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
