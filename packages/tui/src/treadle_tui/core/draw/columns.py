"""Columns that adapt to their content and are dropped in a fixed order, and the lines that they make up."""

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
"""Blanks between columns: more than one, because some titles contain a blank and must not run together."""

NOTHING: Spans = (Span("-", "faint"),)
"""Shown in a cell that has no value."""


@dataclass(frozen=True, slots=True)
class CellContext:
    """What cells need besides their row."""

    now: datetime
    glyphs: Glyphs
    worker_name: Callable[[str | None], str | None] = lambda worker_id: worker_id
    wait: Callable[[TaskItem], float | None] = lambda _: None
    """Returns in how many seconds a pending task is likely to start; None if that can't be estimated."""
    span: ChartSpan = USUAL
    """The time span of charts."""
    open_key: str = "enter"
    """The key that opens the row."""
    known: bool = True
    """Whether there is a connection; without one, cells show the state as it was at `now`."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column: its title, its width, and how to draw its cells."""

    title: str
    cells: int
    """The width to which it may grow at the cost of other columns; it is narrower if its content is."""
    cell: Callable[[Row, CellContext], Spans]
    right: bool = False
    keep_end: bool = False
    """Whether names differ at their end, so that a long one is cut at the beginning."""
    stem: Callable[[Row], bool] = lambda _: False
    """For which rows the first span is a prefix that stays even if the name after it is cut."""
    rank: int = 0
    """When it is dropped in a narrow pane: the highest rank first, 0 never."""
    most: int = 0
    """The width to which it may grow if room is left; 0 for no more than `cells`."""
    fills: Callable[[Row], bool] | None = None
    """Whether a row has a value: the column is hidden while no row has one. None to always show it."""
    names: bool = False
    """Whether it identifies the row, and stays true after the row has left the list."""
    chart: Callable[[Row, CellContext, int], Spans] | None = None
    """Draws the cell instead of `cell`, in a given width: what is left of the line, up to `most`."""
    extra: bool = False
    """Whether to show it only if all other columns have the width they want and there is room for all of it."""

    def at_least(self, cells: int) -> "Column[Row]":
        """Return the same column, never narrower than `cells`."""
        return replace(self, cells=max(cells, self.cells), most=max(cells, self.most))

    def wanted(self, row: Row, context: CellContext) -> int:
        """Return the width that the row's cell would need."""
        return self.cells if self.chart is not None else width(self.cell(row, context))

    def drawn(self, row: Row, context: CellContext, cells: int) -> Spans:
        """Return the row's cell, for a column of this width."""
        return self.cell(row, context) if self.chart is None else self.chart(row, context, cells)


class Placed(NamedTuple, Generic[Row]):
    """A column with its final width."""

    column: Column[Row]
    cells: int


def layout(columns: Sequence[Column[Row]], room: int, wanted: Mapping[str, int]) -> list[Placed[Row]]:
    """Return the columns that fit into `room` cells, with their widths.

    `wanted` is the width of each column's content, by title, which no column exceeds. Room is given first to the
    columns that need the least more, what remains to `extra` columns in their order, and the rest to charts.
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
        # Narrow a column that is cut at the beginning, because names can still be told apart by their end.
        narrowed = next((column.title for column in kept if column.keep_end), kept[0].title)
        sizes[narrowed] = max(1, sizes[narrowed] + spare)
    return [Placed(column, sizes[column.title]) for column in kept]


def _within(column: Column[Row], wanted: Mapping[str, int], most: int) -> int:
    """Return the width for a column's content and title, within `most`."""
    return max(len(column.title), min(wanted.get(column.title, 0), most))


def _grow(sizes: dict[str, int], most: Mapping[str, int], spare: int) -> int:
    """Share spare room evenly among the columns that may still grow; return what is left."""
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
    """Return a user-chosen name, cleaned, as a cell."""
    return (Span(context.glyphs.clean(name), tone),) if name else NOTHING


def named_in_room(room: str, name: str, context: CellContext, *, within: str = "") -> Spans:
    """Return a name preceded by its room and by `within`, as a cell.

    The first span is the room, a prefix that stays when the name is cut. It is empty for the shared room, which is cut
    with the name.
    """
    parts = ("", f"{room}:{within}", name) if room == GLOBAL else (f"{room}:", within, name)
    stem, middle, last = (context.glyphs.clean(part) for part in parts)
    return (Span(stem, "dim"), Span(middle, "dim"), Span(last, "bold"))


def named_job(full_name: str, context: CellContext, tone: Tone = "plain") -> Spans:
    """Return the full name of a job as a cell; the first span is as in `named_in_room`."""
    room, colon, name = full_name.partition(":")
    parts = ("", full_name) if room == GLOBAL else (f"{room}{colon}", name)
    return tuple(Span(context.glyphs.clean(part), tone) for part in parts)


def stated(state: State, glyphs: Mapping[State, str], tones: Mapping[State, Tone], *, known: bool = True) -> Spans:
    """Return a state as a cell, with its glyph and word; dimmed and marked if it is not `known` now."""
    return (Span(f"{glyphs[state]} {state}", tones[state]) if known else Span(f"? {state}", "dim"),)


def count(value: int, *, tone: Tone = "plain", cells: int = 5) -> Spans:
    """Return a count as a cell; zero is faint."""
    return (Span(number(value, cells=cells), tone if value else "faint"),)
