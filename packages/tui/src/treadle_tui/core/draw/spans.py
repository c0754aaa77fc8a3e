"""Over how long charts go: five minutes, an hour, a day; each in the steps that the server counts in."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

SpanName: TypeAlias = Literal["5min", "hour", "day"]


@dataclass(frozen=True, slots=True)
class ChartSpan:
    """Over how long charts go."""

    name: SpanName
    words: str
    title: str
    """Of a column."""
    step_seconds: float
    steps: int

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.step_seconds * self.steps


SPANS = {
    span.name: span
    for span in (
        ChartSpan("5min", "5 min", "LAST 5 MIN", 10, 30),
        ChartSpan("hour", "1 hour", "LAST HOUR", 60, 60),
        ChartSpan("day", "1 day", "LAST DAY", 1800, 48),
    )
}
"""By their names; the first is the usual one."""

USUAL = next(iter(SPANS.values()))


def after(span: ChartSpan) -> ChartSpan:
    """Return the span that comes next."""
    spans = list(SPANS.values())
    return spans[(spans.index(span) + 1) % len(spans)]
