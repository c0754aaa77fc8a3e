"""The performance bars: ratios within one run, to the strongest peer, to other figures of ours, or to the machine.

Machines and hours differ by a factor of three, so only figures measured in turn are compared. A bar whose other side
was not measured in this run is shown as neither met nor missed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from pydantic import BaseModel

from treadle_bench.figures import BOTH, NONE, POSTGRESQL, SQLITE, Ratio, Row

PEER = "pgqueuer"
"""The peer to compare with: the fastest queue that keeps its tasks in a database."""

INSERTS, ECHO_MS = 6_000, 0.10
"""The limits of the reference machine for bars in seconds and milliseconds: single-row INSERTs per second, and a
socket's echo."""


class Verdict(BaseModel):
    """The result of a bar."""

    what: str
    database: str
    unit: str
    limit: float
    is_floor: bool
    """Whether the limit is a minimum; otherwise it is a maximum."""
    value: float | None
    """None if something that it is computed from was not measured."""

    @property
    def met(self) -> bool | None:
        """Whether the value meets the limit; None without a value."""
        if self.value is None:
            return None
        return self.value >= self.limit if self.is_floor else self.value <= self.limit


class Found:
    """The results of a run, by case, figure and database."""

    def __init__(self, rows: Iterable[Row], ratios: Iterable[Ratio]) -> None:
        self._rows = {(row.case, row.figure, row.database): row for row in rows if row.x is None}
        self._ratios = {
            (one.case, one.figure, one.database): one.ratio for one in ratios if one.peer.lower().startswith(PEER)
        }

    def ours(self, case: str, figure: str, database: str) -> float | None:
        """Return the median of a figure; None if it was not measured."""
        row = self._rows.get((case, figure, database))
        return None if row is None else row.median

    def ahead(self, case: str, figure: str, database: str) -> float | None:
        """Return the ratio of a figure to the peer's, above 1 if ours is better; None if either was not measured."""
        return self._ratios.get((case, figure, database))

    def slowness(self) -> float | None:
        """Return how many times slower than the reference machine this one is: the mean of its INSERTs and echo."""
        inserts, echo = self.ours("limits", "single INSERT", NONE), self.ours("limits", "echo", NONE)
        return None if inserts is None or echo is None else sqrt((INSERTS / inserts) * (echo / ECHO_MS))


Formula = Callable[[Found, str], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A limit for each database, and how the value is computed."""

    what: str
    case: str
    """The case it belongs to: the bar is only shown if that case was run."""
    formula: Formula
    limits: Mapping[str, float]
    unit: str = "x"
    is_floor: bool = True

    def judge(self, found: Found) -> list[Verdict]:
        """Return a verdict for each database."""
        return [
            Verdict(
                what=self.what, database=database, unit=self.unit, limit=limit, is_floor=self.is_floor,
                value=self.formula(found, database),
            )
            for database, limit in self.limits.items()
        ]  # fmt: skip


def on_both(limit: float) -> Mapping[str, float]:
    """Return the same limit for both databases."""
    return dict.fromkeys(BOTH, limit)


def _itself(case: str, figure: str) -> Formula:
    return lambda found, database: found.ours(case, figure, database)


def _ahead(case: str, figure: str) -> Formula:
    return lambda found, database: found.ahead(case, figure, database)


def _of(case: str, figure: str, other_case: str, other: str) -> Formula:
    def formula(found: Found, database: str) -> float | None:
        value, whole = found.ours(case, figure, database), found.ours(other_case, other, database)
        return None if value is None or not whole else value / whole

    return formula


def _of_limits(found: Found, database: str) -> float | None:
    """Return the rate of single submits, as a share of the rate with one echo and one INSERT each, in sequence."""
    rate = found.ours("submit", "one by one", database)
    inserts, echo = found.ours("limits", "single INSERT", NONE), found.ours("limits", "echo", NONE)
    return None if rate is None or inserts is None or echo is None else rate * (echo / 1000 + 1 / inserts)


def _scaled(case: str, figure: str) -> Formula:
    """Return a function that computes what a time would be on the reference machine."""

    def formula(found: Found, database: str) -> float | None:
        value, slowness = found.ours(case, figure, database), found.slowness()
        return None if value is None or slowness is None else value / slowness

    return formula


def _peer_bars() -> Iterable[Bar]:
    each: Sequence[tuple[str, str, str, float, float]] = (
        ("drain, 1 worker", "drain", "1 worker", 1.5, 1.0),
        ("submit one by one", "submit", "one by one", 1.0, 0.5),
        ("submit by 100 coroutines", "submit", "100 coroutines", 8, 6),
        ("submit in bulk", "submit", "bulk of 1,000", 1.0, 0.8),
        ("submit to start, p50", "latency", "submit to start, p50", 2.5, 1.2),
        ("submit to start, p99", "latency", "submit to start, p99", 2.5, 1.2),
        ("processor time of a drained task", "drain", "processor time", 1 / 0.4, 1 / 0.6),
    )
    for what, case, figure, sqlite, postgresql in each:
        limits = {SQLITE: sqlite, POSTGRESQL: postgresql}
        yield Bar(what=f"{what}, ahead of {PEER}", case=case, formula=_ahead(case, figure), limits=limits)


def _own_bars() -> Iterable[Bar]:
    for size in ("6,000", "100,000"):
        figure = f"of the plain drain, burst of {size}"
        yield _plain(f"drain {figure}", "drain-burst", figure, {POSTGRESQL: 0.9})
    yield _share("drain, 2 workers, of 1", ("drain-2", "2 workers"), ("drain", "1 worker"), on_both(1.3))
    for servers in (2, 4):
        figure = f"of one server, {servers} servers"
        yield _plain(f"drain {figure}", "servers", figure, {POSTGRESQL: 1.0})
    for case, pending in (("pending-100k", "100,000"), ("pending-1m", "1,000,000")):
        for jobs in ("1 job", "100 jobs"):
            figure = f"of the plain drain, {jobs}"
            yield _plain(f"first 5,000 of {pending}, {jobs}, of the plain drain", case, figure, on_both(0.9))
    yield Bar(
        what="submit one by one, of an echo and an INSERT", case="submit", formula=_of_limits, limits={SQLITE: 0.6}
    )
    start, result = ("latency", "submit to start, p50"), ("latency", "submit to result, p50")
    yield _share("submit to result of submit to start, p50", result, start, on_both(1.5), is_floor=False)
    yield _plain(
        "drain beside a held snapshot, of the one before", "held", "drain, of the one before", {POSTGRESQL: 0.8}
    )
    yield _plain("p99 beside it, of the one before", "held", "p99, of the one before", {POSTGRESQL: 2}, is_floor=False)
    yield _plain("20 observers' cost", "observers", "cost", on_both(10), unit="%", is_floor=False)
    yield _plain("20 observers' lag, p95", "observers", "lag, p95", on_both(250), unit="ms", is_floor=False)
    http = ("http", "submit, 50 connections"), ("http", "worker with bulk claims and reports")
    yield _share("plain HTTP: submit, of the socket's", http[0], ("submit", "100 coroutines"), on_both(0.35))
    yield _share("plain HTTP: worker, of the socket's", http[1], ("drain", "1 worker"), on_both(0.45))
    yield _plain("memory after 1,000,000 tasks", "memory", "server", on_both(200), unit="MB", is_floor=False)
    growth = "growth over the last 70 %"
    yield _plain(f"its {growth}", "memory", growth, on_both(5), unit="%", is_floor=False)
    for figure, limit, unit in (
        ("server", 200, "MB"),
        ("growth over the second half", 5, "%"),
        ("descriptors more, last third", 3, "open"),
        ("files more, last third", 0, "files"),
        ("wait to the start, p99, last third of the one before", 1.5, "x"),
        ("backlog at the end", 1, "s"),
    ):
        yield _plain(f"soak: {figure}", "soak", figure, on_both(limit), unit=unit, is_floor=False)
    yield _plain("soak: submitted, of what was asked", "soak", "submitted, of what was asked", on_both(0.99))
    yield _plain("gain of batches", "batching", "gain", on_both(5))


def _plain(
    what: str, case: str, figure: str, limits: Mapping[str, float], *, unit: str = "x", is_floor: bool = True
) -> Bar:
    return Bar(what=what, case=case, formula=_itself(case, figure), limits=limits, unit=unit, is_floor=is_floor)


def _share(
    what: str, one: tuple[str, str], whole: tuple[str, str], limits: Mapping[str, float], *, is_floor: bool = True
) -> Bar:
    return Bar(what=what, case=one[0], formula=_of(*one, *whole), limits=limits, is_floor=is_floor)


def _times() -> Iterable[Bar]:
    each: Sequence[tuple[str, str, str, Mapping[str, float]]] = (
        ("reads", "position of a task", "ms", on_both(10)),
        ("reads", "page of 100 with positions", "ms", on_both(20)),
        ("reads", "counts of every queue", "ms", on_both(5)),
        ("start-server", "treadle server to ready, again", "s", on_both(1.0)),
        ("start", "import treadle", "s", {NONE: 0.1}),
        ("start", "import its Client, Worker and task", "s", {NONE: 0.3}),
        ("start", "treadle --help", "s", {NONE: 0.2}),
    )
    for case, figure, unit, limits in each:
        what = f"{figure}, on the bar machine"
        yield Bar(what=what, case=case, formula=_scaled(case, figure), limits=limits, unit=unit, is_floor=False)


BARS: tuple[Bar, ...] = (*_peer_bars(), *_own_bars(), *_times())


def verdicts(rows: Iterable[Row], ratios: Iterable[Ratio]) -> list[Verdict]:
    """Return the verdicts of the bars of all cases that were measured."""
    rows = list(rows)
    found, measured = Found(rows, ratios), {(row.case, row.database) for row in rows}
    return [one for bar in BARS for one in bar.judge(found) if (bar.case, one.database) in measured]
