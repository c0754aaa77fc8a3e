"""Whether a worker is well: its state as the server says it, and its heartbeat as the clock says it."""

from collections.abc import Iterable
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


def worker_row(item: WorkerItem, now: datetime, *, busy_for: float = float("inf")) -> WorkerRow:
    """Return the worker's row at `now`; `busy_for` is since when it has had runs, as seen from here.

    One that has just got work still beats at the idle pace until its first busy heartbeat is due.
    """
    quiet = max(0.0, since(item.last_heartbeat, now) or 0.0)
    busy = bool(item.running)
    beat = BUSY_BEAT if busy else IDLE_BEAT
    silent = min(quiet, busy_for) if busy else quiet
    return WorkerRow(item=item, health=_health(item, quiet=quiet, silent=silent, beat=beat), quiet=quiet, beat=beat)


def _health(item: WorkerItem, *, quiet: float, silent: float, beat: float) -> Health:
    if item.state is WorkerState.LOST:
        return "lost"
    # Two beats missed: one may be lost to a busy machine, and a watcher wants to know within five seconds.
    if silent > 2 * beat + SLACK or quiet > 2 * IDLE_BEAT + SLACK:
        return "late"
    if item.state is WorkerState.DRAINING:
        return "draining"
    return "busy" if item.running else "online"


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
