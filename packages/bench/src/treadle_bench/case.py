"""A case: a named measurement, and the rows that its samples make up."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from treadle_bench.figures import BOTH, Figure, Row, Sample
from treadle_bench.testbed import Testbed


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A measurement that can be chosen by name. `measure` raises `BenchFailed`."""

    name: str
    summary: str
    figures: tuple[Figure, ...]
    measure: Callable[[Testbed], Iterable[Sample]]
    databases: tuple[str, ...] = BOTH
    is_once: bool = False
    """Whether it repeats by itself, because its data takes long to load."""
    axis: str | None = None
    """The meaning of `x`, for a case that measures a curve."""

    def figure(self, name: str) -> Figure:
        """Return the figure of this name."""
        return next(figure for figure in self.figures if figure.name == name)


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
