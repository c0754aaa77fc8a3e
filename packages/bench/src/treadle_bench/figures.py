"""What is measured and in which unit, and the results."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from pydantic import BaseModel

SQLITE, POSTGRESQL, NONE = "sqlite", "postgresql", "none"
BOTH = (SQLITE, POSTGRESQL)


class BenchFailed(Exception):
    """A case could not be measured; the message says why."""


class Sample(NamedTuple):
    """A measured value; `x` is its position on a curve."""

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


class Row(BaseModel):
    """All measured values of a figure on a database."""

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
        """The median of the values."""
        return median(self.values)


class Ratio(BaseModel):
    """One of our figures compared with a peer's, measured in turn; above 1 if ours is better."""

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


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, int(len(ordered) * share) - (share > 0.5)))]
