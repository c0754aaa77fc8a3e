"""Columns that grow with the width and fall away in a fixed order, and the lines that they make."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from treadle.wire.tasks import TaskItem
from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.text import Span, Spans, fit, joined

Row = TypeVar("Row")

GAP = 1


@dataclass(frozen=True, slots=True)
class CellContext:
    """What cells need beside their row."""

    now: datetime
    glyphs: Glyphs
    worker_name: Callable[[str | None], str | None] = lambda worker_id: worker_id
    wait: Callable[[TaskItem], float | None] = lambda _: None
    """In how many seconds a pending task is likely to start; None when nobody can tell."""
    known: bool = True
    """Whether the server is there to say how it is; else what stands in the cells is how it was at `now`."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column: its head, its width, and what stands in its cells."""

    title: str
    cells: int
    cell: Callable[[Row, CellContext], Spans]
    right: bool = False
    keep_end: bool = False
    """Whether the end is what tells one from another: then the beginning is left out when it is too long."""
    rank: int = 0
    """When it falls away: the highest rank first, 0 never."""
    most: int = 0
    """Up to how many cells it grows when there is room; 0 for not at all."""
    fills: Callable[[Row], bool] | None = None
    """Whether a row has something in it: a column in which none has is folded away. None: it stays."""

    def at_least(self, cells: int) -> "Column[Row]":
        """Return the same column, never narrower than `cells`."""
        return replace(self, cells=max(cells, self.cells), most=max(cells, self.most))


class Placed(NamedTuple, Generic[Row]):
    """A column with the width that it got."""

    column: Column[Row]
    cells: int


def layout(columns: Sequence[Column[Row]], width: int) -> list[Placed[Row]]:
    """Return the columns that fit into `width` cells, with their widths; the room left goes to those that grow."""
    kept = list(columns)
    while len(kept) > 1 and _needed(kept) > width and max(column.rank for column in kept) > 0:
        kept.remove(max(kept, key=lambda column: column.rank))
    sizes = [column.cells for column in kept]
    spare = width - _needed(kept)
    while spare > 0:
        growing = [index for index, column in enumerate(kept) if sizes[index] < column.most]
        if not growing:
            break
        share = max(1, spare // len(growing))
        for index in growing:
            more = min(share, kept[index].most - sizes[index], spare)
            sizes[index] += more
            spare -= more
    if spare < 0:
        sizes[0] = max(1, sizes[0] + spare)
    return [Placed(column, size) for column, size in zip(kept, sizes, strict=True)]


def _needed(columns: Sequence[Column[Row]]) -> int:
    return sum(column.cells for column in columns) + GAP * (len(columns) - 1)


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
            fit(column.cell(row, context), cells, right=column.right, keep_end=column.keep_end, ellipsis=ellipsis)
            for column, cells in placed
        ),
        gap=" " * GAP,
    )


def text(value: str, tone: str = "plain") -> Spans:
    """Return one span, or none for nothing."""
    return (Span(value, tone),) if value else ()  # type: ignore[arg-type]
