"""Columns as wide as what stands in them, that fall away in a fixed order, and the lines that they make."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from treadle.wire.names import GLOBAL
from treadle.wire.tasks import TaskItem
from treadle_tui.core.draw.format import number
from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.spans import USUAL, ChartSpan
from treadle_tui.core.draw.text import Span, Spans, Tone, fit, joined, width

Row = TypeVar("Row")

State = TypeVar("State", bound=str)

GAP = 2
"""Blanks between columns: some titles have one blank within, and must not run together."""

NOTHING: Spans = (Span("-", "faint"),)
"""What stands where there is nothing to tell."""


@dataclass(frozen=True, slots=True)
class CellContext:
    """What cells need beside their row."""

    now: datetime
    glyphs: Glyphs
    worker_name: Callable[[str | None], str | None] = lambda worker_id: worker_id
    wait: Callable[[TaskItem], float | None] = lambda _: None
    """In how many seconds a pending task is likely to start; None when nobody can tell."""
    span: ChartSpan = USUAL
    """Over how long charts go."""
    open_key: str = "enter"
    """What opens the row."""
    known: bool = True
    """Whether the server is there to say how it is; else what stands in the cells is how it was at `now`."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column: its head, its width, and what stands in its cells."""

    title: str
    cells: int
    """How wide it has to be before another column falls away for it; where less stands in it, it is narrower."""
    cell: Callable[[Row, CellContext], Spans]
    right: bool = False
    keep_end: bool = False
    """Whether the end is what tells one from another: then the beginning is left out when it is too long."""
    stem: Callable[[Row], bool] = lambda _: False
    """Of which rows the first span is drawn before a name, and stays whatever is left out of that."""
    rank: int = 0
    """When it falls away: the highest rank first, 0 never."""
    most: int = 0
    """How wide it becomes at most for what stands in it; 0 for no wider than `cells`."""
    fills: Callable[[Row], bool] | None = None
    """Whether a row has something in it: a column in which none has is folded away. None: it stays."""
    names: bool = False
    """Whether it tells which row it is, whatever became of it."""
    chart: Callable[[Row, CellContext, int], Spans] | None = None
    """Draws the cell instead of `cell`, in the width that is given: what is left of the line, up to `most`."""
    extra: bool = False
    """Whether it is there only where all others have what they want and as much room as it wants is left."""

    def at_least(self, cells: int) -> "Column[Row]":
        """Return the same column, never narrower than `cells`."""
        return replace(self, cells=max(cells, self.cells), most=max(cells, self.most))

    def wanted(self, row: Row, context: CellContext) -> int:
        """Return how wide the row's cell would be if it could."""
        return self.cells if self.chart is not None else width(self.cell(row, context))

    def drawn(self, row: Row, context: CellContext, cells: int) -> Spans:
        """Return what stands in the row's cell, for a column that got so many cells."""
        return self.cell(row, context) if self.chart is None else self.chart(row, context, cells)


class Placed(NamedTuple, Generic[Row]):
    """A column with the width that it got."""

    column: Column[Row]
    cells: int


def layout(columns: Sequence[Column[Row]], room: int, wanted: Mapping[str, int]) -> list[Placed[Row]]:
    """Return the columns that fit into `room` cells, with their widths.

    `wanted` is by its title how wide what stands in a column is. None becomes wider than that; what room there is goes
    to those that want more, the least first; what is left then to columns that are extra, the first ones first, and
    what they leave to the charts.
    """
    kept = [column for column in columns if not column.extra]
    sizes = {column.title: _within(column, wanted, column.cells) for column in columns}
    while len(kept) > 1 and _taken(kept, sizes) > room and max(column.rank for column in kept) > 0:
        kept.remove(max(kept, key=lambda column: column.rank))
    longest = {column.title: _within(column, wanted, max(column.cells, column.most)) for column in columns}
    words = {column.title: longest[column.title] for column in kept if not column.chart}
    spare = _grow(sizes, words, room - _taken(kept, sizes))
    for column in columns:
        if column.extra and longest[column.title] + GAP <= spare:
            sizes[column.title] = longest[column.title]
            spare -= sizes[column.title] + GAP
            kept.append(column)
    kept.sort(key=columns.index)
    spare = _grow(sizes, {column.title: column.most for column in kept if column.chart}, spare)
    if spare < 0:
        # What tells one from another by its end bears it best.
        narrowed = next((column.title for column in kept if column.keep_end), kept[0].title)
        sizes[narrowed] = max(1, sizes[narrowed] + spare)
    return [Placed(column, sizes[column.title]) for column in kept]


def _within(column: Column[Row], wanted: Mapping[str, int], most: int) -> int:
    """Return how wide a column is made for what stands in it, and its title."""
    return max(len(column.title), min(wanted.get(column.title, 0), most))


def _grow(sizes: dict[str, int], most: Mapping[str, int], spare: int) -> int:
    """Share out what is spare evenly among those that are not as wide as they may be; return what is left."""
    while spare > 0 and (growing := [title for title, size in most.items() if sizes[title] < size]):
        share = max(1, spare // len(growing))
        for title in growing:
            more = min(share, most[title] - sizes[title], spare)
            sizes[title] += more
            spare -= more
    return spare


def _taken(columns: Sequence[Column[Row]], sizes: Mapping[str, int]) -> int:
    return sum(sizes[column.title] for column in columns) + GAP * (len(columns) - 1)


def head(placed: Sequence[Placed[Row]]) -> Spans:
    """Return the line of titles."""
    return joined(
        (fit((Span(column.title, "title"),), cells, right=column.right) for column, cells in placed), gap=" " * GAP
    )


def line(placed: Sequence[Placed[Row]], row: Row, context: CellContext) -> Spans:
    """Return a row's line."""
    ellipsis = context.glyphs.ellipsis
    return joined(
        (
            fit(
                column.drawn(row, context, cells),
                cells,
                right=column.right,
                keep_end=column.keep_end,
                stem=int(column.stem(row)),
                ellipsis=ellipsis,
            )
            for column, cells in placed
        ),
        gap=" " * GAP,
    )


def named(name: str | None, context: CellContext, tone: Tone = "plain") -> Spans:
    """Return a name that somebody chose, cleaned, as a cell."""
    return (Span(context.glyphs.clean(name), tone),) if name else NOTHING


def named_in_room(room: str, name: str, context: CellContext, *, within: str = "") -> Spans:
    """Return a name with its room before it, and what it is called by `within` that, as a cell.

    The first span is the room as far as it tells one from another: names of the shared one are cut from there on.
    """
    parts = ("", f"{room}:{within}", name) if room == GLOBAL else (f"{room}:", within, name)
    stem, middle, last = (context.glyphs.clean(part) for part in parts)
    return (Span(stem, "dim"), Span(middle, "dim"), Span(last, "bold"))


def named_job(full_name: str, context: CellContext, tone: Tone = "plain") -> Spans:
    """Return the full name of a job, as a cell; its first span is as in `named_in_room`."""
    room, colon, name = full_name.partition(":")
    parts = ("", full_name) if room == GLOBAL else (f"{room}{colon}", name)
    return tuple(Span(context.glyphs.clean(part), tone) for part in parts)


def stated(state: State, glyphs: Mapping[State, str], tones: Mapping[State, Tone], *, known: bool = True) -> Spans:
    """Return a state by its glyph and its word, as a cell; one that is not `known` now is what it was."""
    return (Span(f"{glyphs[state]} {state}", tones[state]) if known else Span(f"? {state}", "dim"),)


def count(value: int, *, tone: Tone = "plain", cells: int = 5) -> Spans:
    """Return a count, as a cell; nothing is faint."""
    return (Span(number(value, cells=cells), tone if value else "faint"),)
