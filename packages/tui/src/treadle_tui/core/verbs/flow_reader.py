"""Follows a flow: reads it again when its tasks' queues have changed, and reports why if it can't."""

from collections.abc import Mapping

from treadle.encryption.fields import shown_texts
from treadle.errors import FlowNotFound, ProblemError
from treadle.transport.answers import reading
from treadle.wire.flows import FlowView
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.state.flow import is_open
from treadle_tui.core.state.model import Model

LEAST_SECONDS = 0.5
"""The least number of seconds between two reads; also at least ten times as long as the last answer took."""

MOST_SECONDS = 5.0
"""Seconds after which an open flow is read in any case: the counts of queues don't show every change."""


class FlowReader:
    """Reads one flow, but only when something happens: changed counts of its queues are the sign."""

    def __init__(self, feed: Feed, model: Model, flow_id: str) -> None:
        self._feed = feed
        self._model = model
        self._flow_id = flow_id
        self._asked_at = float("-inf")
        self._took = 0.0
        self._is_asking = False
        self._seen: object = None
        """The signs at the last read; None if the server refused it, to be asked again a while later."""
        self._gone_in: int | None = None
        """The snapshot count of the connection whose server no longer has the flow; None while it exists.

        Nothing signals that it is back, so it is only requested again over a new connection.
        """
        self.view: FlowView | None = None
        """The flow as last read; None before the first read."""

    @property
    def is_gone(self) -> bool:
        """Whether the flow existed, and the server no longer has it."""
        return self._gone_in is not None

    def take_turn(self) -> bool:
        """Return whether to read the flow now. If True, the caller must do so; until then, no other gets True."""
        if self._is_asking or not self._is_due():
            return False
        self._is_asking = True
        return True

    def _is_due(self) -> bool:
        if not self._model.link.live or self._gone_in == self._model.counts.generation:
            return False
        quiet = self._model.clock.steady() - self._asked_at
        if quiet < max(LEAST_SECONDS, 10 * self._took):
            return False
        if self.view is None or self._seen is None or (is_open(self.view) and quiet >= MOST_SECONDS):
            return quiet >= MOST_SECONDS
        return self._seen != self._signs(self._model.counts.rows)

    async def look(self) -> None:
        """Read the flow. Raises `ProblemError` or `ConnectionFailed`."""
        # Take the counts first: changes while the answer is on its way are then seen next time.
        self._asked_at, counts = self._model.clock.steady(), self._model.counts.rows
        generation = self._model.counts.generation
        try:
            answer = await self._feed.request("get_flow", id=self._flow_id)
        except ProblemError as refused:
            self._seen = None
            if isinstance(refused, FlowNotFound) and self.view is not None:
                self._gone_in = generation
            raise
        finally:
            self._is_asking = False
        self._gone_in = None
        self._took = self._model.clock.steady() - self._asked_at
        with reading():
            tasks = [shown_texts(self._model.sealer, task) for task in answer["tasks"]]
            self.view = FlowView.model_validate({**answer, "tasks": tasks})
        self._seen = self._signs(counts)

    def usual(self) -> dict[str, float]:
        """Return how many seconds the tasks of its queues take on average, as far as known."""
        jobs = self._model.jobs.rows.values()
        known = {job.full_name: job.stats.completed_run for job in jobs if job.stats is not None}
        return {name: run.mean for name, run in known.items() if run is not None and run.mean is not None}

    def _signs(self, counts: Mapping[str, Mapping[str, int]]) -> object:
        """Return a value that differs once anything in its queues, or the connection, has changed."""
        assert self.view is not None
        return self._model.counts.generation, {task.job_name: counts.get(task.job_name) for task in self.view.tasks}
