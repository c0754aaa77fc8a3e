"""Whether a worker is well: its state as the server says it, and its heartbeat as the clock says it."""

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
"""How many expected heartbeats are shown."""

SLACK = 0.75
"""Seconds that a heartbeat may be late on its way."""


Pace: TypeAlias = Literal["stuck", "slow", "usual"]

PACES: tuple[Pace, ...] = ("stuck", "slow", "usual")

_UNKNOWN = Percentiles()

STUCK_TIMES = 3.0
"""How many times as long as 99 % of the runs take, one may take before someone should look."""

STUCK_LEAST = 60.0
"""Seconds that no run is stuck before, however short the others were."""

STUCK_OF = 20
"""Of fewer runs than this nobody knows what is usual."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run that a worker holds, against what is usual for its job."""

    task_id: str
    job: str
    since: datetime | None
    usual: Percentiles

    def seconds(self, now: datetime) -> float:
        """Return for how long it has run."""
        return max(0.0, since(self.since, now) or 0.0)

    def pace(self, now: datetime) -> Pace:
        """Return how its length compares: `slow` is what nine of ten runs are not."""
        seconds = self.seconds(now)
        long = float("inf") if self.usual.p99 is None else max(STUCK_LEAST, STUCK_TIMES * self.usual.p99)
        if self.usual.n >= STUCK_OF and seconds > long:
            return "stuck"
        return "slow" if self.usual.p90 is not None and seconds > self.usual.p90 else "usual"


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as the dashboard shows it: its health, and on demand what only those who look at it need."""

    item: WorkerItem
    health: Health
    now: datetime
    """The instant that the row tells of."""
    quiet: float
    """Seconds since its last heartbeat."""
    silent: float
    """Of these those in which it should have beaten as it is now expected to."""
    seen: Sequence[bool]
    """Whether each expected heartbeat came, the last one last; as far as they were watched from here."""
    usual: Mapping[str, Percentiles]
    """How long runs of each job take."""

    @property
    def id(self) -> str:
        """The worker's id."""
        return self.item.id

    @property
    def name(self) -> str:
        """What people call it: group and name, or the end of its id."""
        name = self.item.name or self.item.id[-8:]
        return f"{self.item.group}/{name}" if self.item.group else name

    def exported(self) -> dict[str, Any]:
        """Return what is written of it to a file."""
        return {**self.item.model_dump(mode="json"), "health": self.health}

    @property
    def beats(self) -> Sequence[bool]:
        """Whether each expected heartbeat came, and each that is due by now."""
        item = self.item
        # What should have come since the last one; one more is still on its way.
        due = int((self.silent - SLACK) / item.beat_seconds), int((self.quiet - SLACK) / item.idle_beat_seconds)
        return (*self.seen, *(False,) * min(max(0, *due), BEATS_SHOWN))[-BEATS_SHOWN:]

    @property
    def runs(self) -> Sequence[RunRow]:
        """What it runs now, what has outlasted the usual the most first."""
        return sorted(self._runs(), key=lambda run: (PACES.index(run.pace(self.now)), -run.seconds(self.now)))

    @property
    def stuck(self) -> Sequence[RunRow]:
        """What it runs now and someone should look at, in no order: it is asked of every worker, whoever looks."""
        return [run for run in self._runs() if run.pace(self.now) == "stuck"]

    def _runs(self) -> Iterator[RunRow]:
        for run in self.item.running:
            job = run.job_name or ""
            yield RunRow(run.task_id, job, run.since, self.usual.get(job, _UNKNOWN))

    @property
    def away(self) -> float:
        """Seconds since its connection broke, of one that is not back."""
        return max(0.0, since(self.item.away_since, self.now) or 0.0)

    @property
    def lost(self) -> float:
        """Seconds since it could have been given up as lost."""
        return self.quiet - self.item.lost_after_seconds

    @property
    def serves(self) -> bool:
        """Whether it takes tasks, as far as one can tell from here."""
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
    """Return the worker's row at `now`; `busy_for` is for how many seconds it has had runs, as seen from here.

    One that has just got work still beats at the idle pace until its first busy heartbeat is due. One that `was_late`
    and has not beaten since is late still, whatever it is expected to do now.
    """
    quiet = max(0.0, since(item.last_heartbeat, now) or 0.0)
    silent = min(quiet, busy_for) if item.running else quiet
    health = _health(item, quiet=quiet, silent=silent, was_late=was_late)
    return WorkerRow(item, health, now, quiet, silent, beats, usual)


def _health(item: WorkerItem, *, quiet: float, silent: float, was_late: bool) -> Health:
    if item.state is WorkerState.LOST:
        return "lost"
    # Two beats missed: one may be lost to a busy machine, and a watcher wants to know within five seconds.
    if (
        was_late
        or silent > 2 * item.beat_seconds + SLACK
        or quiet > 2 * max(item.beat_seconds, item.idle_beat_seconds) + SLACK
    ):
        return "late"
    # Its connection is known to have broken before a beat is missed.
    if item.away_since is not None:
        return "away"
    if item.state is WorkerState.DRAINING:
        return "draining"
    return "busy" if item.running else "online"


class Beats:
    """The heartbeats of each worker, as they were seen to come and to fail to come."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[WorkerItem, deque[bool]]] = {}
        self._is_broken_off = False

    def break_off(self) -> None:
        """Begin anew with what comes next: whether beats came meanwhile is not known, and none did to a dead server."""
        self._is_broken_off = True

    def note(self, items: Iterable[WorkerItem]) -> None:
        """Take the workers as they are now."""
        if self._is_broken_off:
            self._seen, self._is_broken_off = {}, False
        self._seen = {item.id: (item, self._after(item)) for item in items}

    def _after(self, item: WorkerItem) -> deque[bool]:
        if item.id not in self._seen:
            return deque([True], maxlen=BEATS_SHOWN)
        before, strip = self._seen[item.id]
        if item.last_heartbeat > before.last_heartbeat:
            # The longer of both paces counts: a worker that has just got work need not have hurried.
            pace = max(before.beat_seconds, item.beat_seconds)
            gap = since(before.last_heartbeat, item.last_heartbeat) or 0.0
            strip.extend([False] * min(BEATS_SHOWN, max(0, int((gap - SLACK) / pace))))
            strip.append(True)
        return strip

    def of(self, worker_id: str) -> Sequence[bool]:
        """Return whether each expected heartbeat of a worker came, the last one last."""
        seen = self._seen.get(worker_id)
        return () if seen is None else seen[1]


class Overdue:
    """Which workers were late, until a heartbeat of theirs comes: losing its runs makes no worker well."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def note(self, rows: Iterable[WorkerRow]) -> None:
        """Take the workers' rows as they are now."""
        self._since = {row.id: row.item.last_heartbeat for row in rows if row.health == "late"}

    def includes(self, item: WorkerItem) -> bool:
        """Return whether the worker was late, and has not beaten since."""
        return self._since.get(item.id) == item.last_heartbeat


class BusySince:
    """When each worker was first seen with work, by the steady clock."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def note(self, items: Iterable[WorkerItem], steady: float) -> None:
        """Take the workers as they are now."""
        busy = {item.id for item in items if item.running}
        self._since = {key: self._since.get(key, steady) for key in busy}

    def busy_for(self, worker_id: str, steady: float) -> float:
        """Return for how many seconds the worker has been busy; 0 for one that is not."""
        return steady - self._since.get(worker_id, steady)
