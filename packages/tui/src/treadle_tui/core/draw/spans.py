"""The time spans of charts: five minutes, an hour and a day, each in steps for which the server keeps counts."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

SpanName: TypeAlias = Literal["5min", "hour", "day"]


@dataclass(frozen=True, slots=True)
class ChartSpan:
    """A time span of charts."""

    name: SpanName
    words: str
    title: str
    """The title of a chart's column."""
    step_seconds: float
    steps: int

    @property
    def seconds(self) -> float:
        """The length of the whole span."""
        return self.step_seconds * self.steps


SPANS = {
    span.name: span
    for span in (
        ChartSpan("5min", "5 min", "LAST 5 MIN", 10, 30),
        ChartSpan("hour", "1 hour", "LAST HOUR", 60, 60),
        ChartSpan("day", "1 day", "LAST DAY", 1800, 48),
    )
}
"""The spans by name, the default first."""

USUAL = next(iter(SPANS.values()))


def after(span: ChartSpan) -> ChartSpan:
    """Return the next span, cyclically."""
    spans = list(SPANS.values())
    return spans[(spans.index(span) + 1) % len(spans)]
