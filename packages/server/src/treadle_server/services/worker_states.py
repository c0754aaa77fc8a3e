"""The last reported states of workers."""

from collections.abc import Mapping

from treadle.wire.status import WorkerState
from treadle_server.domain.jobs import Worker


class WorkerStates:
    """Distinguishes changes of workers' states from heartbeats."""

    def __init__(self, states: Mapping[str, WorkerState] | None = None) -> None:
        self._states = dict(states or {})

    def copy(self) -> "WorkerStates":
        """Return these states as they are now, to be recorded separately from here on."""
        return WorkerStates(self._states)

    def is_news(self, worker: Worker) -> bool:
        """Record the worker's state, and return whether it has changed; a lost worker is forgotten."""
        before = self._states.get(worker.id)
        if worker.state is WorkerState.LOST:
            self._states.pop(worker.id, None)
        else:
            self._states[worker.id] = worker.state
        return before is not worker.state
