"""Whether a worker is well: its state as the server says it, and its heartbeat as the clock says it."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from treadle.wire.status import WorkerState
from treadle.wire.workers import WorkerItem
from treadle_tui.core.format import since
from treadle_tui.core.glyphs import Health

BUSY_BEAT = 2.0
"""Seconds between the heartbeats of a worker with a run."""

IDLE_BEAT = 15.0
"""Seconds between the heartbeats of an idle worker."""

STRIP = 12
"""How many expected heartbeats are shown."""

SLACK = 0.75
"""Seconds that a heartbeat may be late on its way."""


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as the dashboard shows it."""

    item: WorkerItem
    health: Health
    quiet: float
    """Seconds since its last heartbeat."""
    beat: float
    """Seconds between heartbeats that are expected of it."""
    beats: Sequence[bool] = ()
    """Whether each expected heartbeat came, the last one last; as far as they were watched from here."""

    @property
    def id(self) -> str:
        """The worker's id."""
        return self.item.id

    @property
    def name(self) -> str:
        """What people call it: group and name, or the end of its id."""
        name = self.item.name or self.item.id[-8:]
        return f"{self.item.group}/{name}" if self.item.group else name

    @property
    def serves(self) -> bool:
        """Whether it takes tasks, as far as one can tell from here."""
        return self.health in {"online", "busy"}


def worker_row(
    item: WorkerItem, now: datetime, *, busy_for: float = float("inf"), beats: Sequence[bool] = ()
) -> WorkerRow:
    """Return the worker's row at `now`; `busy_for` is since when it has had runs, as seen from here.

    One that has just got work still beats at the idle pace until its first busy heartbeat is due.
    """
    quiet = max(0.0, since(item.last_heartbeat, now) or 0.0)
    busy = bool(item.running)
    beat = BUSY_BEAT if busy else IDLE_BEAT
    silent = min(quiet, busy_for) if busy else quiet
    health = _health(item, quiet=quiet, silent=silent, beat=beat)
    # What should have come since the last one; one more is still on its way.
    missed = max(0, int((silent - SLACK) / beat), int((quiet - SLACK) / IDLE_BEAT))
    strip = (*beats, *(False,) * min(missed, STRIP))[-STRIP:]
    return WorkerRow(item=item, health=health, quiet=quiet, beat=beat, beats=strip)


def _health(item: WorkerItem, *, quiet: float, silent: float, beat: float) -> Health:
    if item.state is WorkerState.LOST:
        return "lost"
    # Two beats missed: one may be lost to a busy machine, and a watcher wants to know within five seconds.
    if silent > 2 * beat + SLACK or quiet > 2 * IDLE_BEAT + SLACK:
        return "late"
    if item.state is WorkerState.DRAINING:
        return "draining"
    return "busy" if item.running else "online"


class Beats:
    """The heartbeats of each worker, as they were seen to come and to fail to come."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[datetime, bool, deque[bool]]] = {}

    def note(self, items: Iterable[WorkerItem]) -> None:
        """Take the workers as they are now."""
        self._seen = {item.id: self._after(item) for item in items}

    def _after(self, item: WorkerItem) -> tuple[datetime, bool, deque[bool]]:
        last, was_busy, strip = self._seen.get(item.id, (None, False, deque[bool]([True], maxlen=STRIP)))
        if last is not None and item.last_heartbeat > last:
            # The longer of both paces counts: a worker that has just got work need not have hurried.
            pace = BUSY_BEAT if was_busy and item.running else IDLE_BEAT
            gap = since(last, item.last_heartbeat) or 0.0
            strip.extend([False] * min(STRIP, max(0, int((gap - SLACK) / pace))))
            strip.append(True)
        return item.last_heartbeat, bool(item.running), strip

    def of(self, worker_id: str) -> Sequence[bool]:
        """Return whether each expected heartbeat of a worker came, the last one last."""
        seen = self._seen.get(worker_id)
        return () if seen is None else tuple(seen[2])


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
