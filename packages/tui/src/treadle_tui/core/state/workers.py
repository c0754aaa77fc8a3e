"""Whether a worker is healthy: by the state that the server reports, and by the age of its heartbeat."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from treadle.wire.jobs import Percentiles
from treadle.wire.status import WorkerState
from treadle.wire.workers import WorkerItem
from treadle_tui.core.draw.format import since
from treadle_tui.core.draw.glyphs import Health

BEATS_SHOWN = 12
"""How many of the latest heartbeats are shown."""

SLACK = 0.75
"""How many seconds a heartbeat may be delayed on its way."""


Pace: TypeAlias = Literal["stuck", "slow", "usual"]

PACES: tuple[Pace, ...] = ("stuck", "slow", "usual")

_UNKNOWN = Percentiles()

STUCK_TIMES = 3.0
"""A run may be stuck if it takes this many times as long as 99 % of its job's runs."""

STUCK_LEAST = 60.0
"""No run counts as stuck before this many seconds, however short the others were."""

STUCK_OF = 20
"""The least number of measured runs from which a usual length can be told."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run that a worker holds, compared with the usual length of its job's runs."""

    task_id: str
    job: str
    since: datetime | None
    usual: Percentiles

    def seconds(self, now: datetime) -> float:
        """Return how many seconds it has run."""
        return max(0.0, since(self.since, now) or 0.0)

    def pace(self, now: datetime) -> Pace:
        """Return how its length compares; `slow` means longer than nine out of ten runs."""
        seconds = self.seconds(now)
        long = float("inf") if self.usual.p99 is None else max(STUCK_LEAST, STUCK_TIMES * self.usual.p99)
        if self.usual.n >= STUCK_OF and seconds > long:
            return "stuck"
        return "slow" if self.usual.p90 is not None and seconds > self.usual.p90 else "usual"


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as the dashboard shows it: its health, and properties that are only computed when they are needed."""

    item: WorkerItem
    health: Health
    now: datetime
    """The time that the row is about."""
    quiet: float
    """Seconds since its last heartbeat."""
    silent: float
    """The part of `quiet` in which the current heartbeat interval applied."""
    seen: Sequence[bool]
    """Whether each expected heartbeat came, newest last, as far as this dashboard was watching."""
    usual: Mapping[str, Percentiles]
    """The usual length of runs, by job."""

    @property
    def id(self) -> str:
        """The worker's id."""
        return self.item.id

    @property
    def name(self) -> str:
        """Its display name: group and name, or the end of its id."""
        name = self.item.name or self.item.id[-8:]
        return f"{self.item.group}/{name}" if self.item.group else name

    def exported(self) -> dict[str, Any]:
        """Return the fields that are written to an exported file."""
        return {**self.item.model_dump(mode="json"), "health": self.health}

    @property
    def beats(self) -> Sequence[bool]:
        """Whether each expected heartbeat came, including those that are overdue now; newest last."""
        item = self.item
        # The heartbeats that are overdue since the last one, allowing for one on its way.
        due = int((self.silent - SLACK) / item.beat_seconds), int((self.quiet - SLACK) / item.idle_beat_seconds)
        return (*self.seen, *(False,) * min(max(0, *due), BEATS_SHOWN))[-BEATS_SHOWN:]

    @property
    def runs(self) -> Sequence[RunRow]:
        """Its current runs, those that exceed the usual the most first."""
        return sorted(self._runs(), key=lambda run: (PACES.index(run.pace(self.now)), -run.seconds(self.now)))

    @property
    def stuck(self) -> Sequence[RunRow]:
        """Its stuck runs, unsorted, because this is computed for every worker all the time."""
        return [run for run in self._runs() if run.pace(self.now) == "stuck"]

    def _runs(self) -> Iterator[RunRow]:
        for run in self.item.running:
            job = run.job_name or ""
            yield RunRow(run.task_id, job, run.since, self.usual.get(job, _UNKNOWN))

    @property
    def away(self) -> float:
        """How many seconds ago its connection broke; 0 while it is connected."""
        return max(0.0, since(self.item.away_since, self.now) or 0.0)

    @property
    def lost(self) -> float:
        """How many seconds ago it could first be declared lost; negative before that."""
        return self.quiet - self.item.lost_after_seconds

    @property
    def serves(self) -> bool:
        """Whether it takes tasks, as far as can be told from here."""
        return self.health in {"online", "busy"}


def worker_row(
    item: WorkerItem,
    now: datetime,
    *,
    busy_for: float = float("inf"),
    beats: Sequence[bool] = (),
    usual: Mapping[str, Percentiles] = MappingProxyType({}),
    was_late: bool = False,
) -> WorkerRow:
    """Return the worker's row at `now`; `busy_for` is how many seconds it has been seen with runs.

    A worker that has just got work keeps its idle interval until its first busy heartbeat is due. A worker that
    `was_late` stays late until it sends a heartbeat, whatever is expected of it now.
    """
    quiet = max(0.0, since(item.last_heartbeat, now) or 0.0)
    silent = min(quiet, busy_for) if item.running else quiet
    health = _health(item, quiet=quiet, silent=silent, was_late=was_late)
    return WorkerRow(item, health, now, quiet, silent, beats, usual)


def _health(item: WorkerItem, *, quiet: float, silent: float, was_late: bool) -> Health:
    if item.state is WorkerState.LOST:
        return "lost"
    # Late after two missed heartbeats: one may be delayed by a busy machine, and it should show within five seconds.
    if (
        was_late
        or silent > 2 * item.beat_seconds + SLACK
        or quiet > 2 * max(item.beat_seconds, item.idle_beat_seconds) + SLACK
    ):
        return "late"
    # A broken connection is known before a heartbeat is missed.
    if item.away_since is not None:
        return "away"
    if item.state is WorkerState.DRAINING:
        return "draining"
    return "busy" if item.running else "online"


class Beats:
    """The history of each worker's heartbeats, received and missed, as seen from here."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[WorkerItem, deque[bool]]] = {}
        self._is_broken_off = False

    def break_off(self) -> None:
        """Start over with the next workers: beats missed while disconnected are unknown, or not the workers' fault."""
        self._is_broken_off = True

    def note(self, items: Iterable[WorkerItem]) -> None:
        """Record the workers' current heartbeats."""
        if self._is_broken_off:
            self._seen, self._is_broken_off = {}, False
        self._seen = {item.id: (item, self._after(item)) for item in items}

    def _after(self, item: WorkerItem) -> deque[bool]:
        if item.id not in self._seen:
            return deque([True], maxlen=BEATS_SHOWN)
        before, strip = self._seen[item.id]
        if item.last_heartbeat > before.last_heartbeat:
            # Use the longer of both intervals: a worker that has just got work need not have changed its interval yet.
            pace = max(before.beat_seconds, item.beat_seconds)
            gap = since(before.last_heartbeat, item.last_heartbeat) or 0.0
            strip.extend([False] * min(BEATS_SHOWN, max(0, int((gap - SLACK) / pace))))
            strip.append(True)
        return strip

    def of(self, worker_id: str) -> Sequence[bool]:
        """Return whether each expected heartbeat of a worker came, newest last."""
        seen = self._seen.get(worker_id)
        return () if seen is None else seen[1]


class Overdue:
    """The workers that were late, until their next heartbeat: losing its runs doesn't make a worker healthy."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def note(self, rows: Iterable[WorkerRow]) -> None:
        """Record which workers are late now."""
        self._since = {row.id: row.item.last_heartbeat for row in rows if row.health == "late"}

    def includes(self, item: WorkerItem) -> bool:
        """Return whether the worker was late and has sent no heartbeat since."""
        return self._since.get(item.id) == item.last_heartbeat


class BusySince:
    """When each worker was first seen with work, by the monotonic clock."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def note(self, items: Iterable[WorkerItem], steady: float) -> None:
        """Record which workers are busy now."""
        busy = {item.id for item in items if item.running}
        self._since = {key: self._since.get(key, steady) for key in busy}

    def busy_for(self, worker_id: str, steady: float) -> float:
        """Return how many seconds the worker has been busy; 0 if it is not."""
        return steady - self._since.get(worker_id, steady)
