"""What is measured, and in what unit; and what came out."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel

if TYPE_CHECKING:
    from treadle.bench.stage import Run

SQLITE, POSTGRESQL, NONE = "sqlite", "postgresql", "none"
BOTH = (SQLITE, POSTGRESQL)


class BenchFailed(Exception):
    """A case could not be measured; the message says why."""


class Sample(NamedTuple):
    """One measured value; `x` is where on a curve it stands."""

    figure: str
    value: float
    x: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number that a case measures."""

    name: str
    unit: str
    is_rate: bool = True
    """Whether more is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A measurement that can be asked for by name; `measure` raises `BenchFailed`."""

    name: str
    summary: str
    figures: tuple[Figure, ...]
    measure: "Callable[[Run], Iterable[Sample]]"
    databases: tuple[str, ...] = BOTH
    is_once: bool = False
    """Whether it takes its repetitions itself, on what takes long to load."""
    axis: str | None = None
    """What `x` is, for a case that measures a curve."""

    def figure(self, name: str) -> Figure:
        """Return the figure of this name."""
        return next(figure for figure in self.figures if figure.name == name)


class Row(BaseModel):
    """One figure on one database: every value that was measured."""

    case: str
    database: str
    figure: str
    unit: str
    is_rate: bool
    x: float | None = None
    axis: str | None = None
    values: list[float]

    @property
    def median(self) -> float:
        """The middle value."""
        return median(self.values)


class Ratio(BaseModel):
    """One of our figures against a peer's, measured in turn; above 1 we are ahead."""

    peer: str
    case: str
    database: str
    figure: str
    unit: str
    ours: float
    theirs: float
    ratio: float


class Failure(BaseModel):
    """A case that could not be measured."""

    case: str
    database: str
    message: str


def rows_of(case: Case, database: str, samples: Iterable[Sample]) -> list[Row]:
    """Return the samples of all repetitions as rows, in the order in which their figures first came."""
    values: dict[tuple[str, float | None], list[float]] = {}
    for sample in samples:
        values.setdefault((sample.figure, sample.x), []).append(sample.value)
    return [_row(case, database, name, x, found) for (name, x), found in values.items()]


def _row(case: Case, database: str, name: str, x: float | None, values: list[float]) -> Row:
    figure = case.figure(name)
    return Row(
        case=case.name,
        database=database,
        figure=name,
        unit=figure.unit,
        is_rate=figure.is_rate,
        x=x,
        axis=case.axis,
        values=values,
    )


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value below which the given share of the values lies."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, int(len(ordered) * share) - (share > 0.5)))]
