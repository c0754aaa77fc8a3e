"""Follows a flow: reads it anew when the queues of its tasks have changed, and says why where it can't."""

from collections.abc import Mapping

from treadle.encryption.fields import shown_texts
from treadle.errors import FlowNotFound, ProblemError
from treadle.transport.answers import reading
from treadle.wire.flows import FlowView
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.state.flow import is_open
from treadle_tui.core.state.model import Model

EVERY = 0.5
"""Seconds between two looks at the least; and ten times as many as the last answer took."""

AT_LAST = 5.0
"""Seconds after which an open flow is read anew in any case: a queue's counts don't tell of all that may change."""


class FlowReader:
    """Asks for one flow, and for nothing while nothing happens: the kept counts of its queues tell when it does."""

    def __init__(self, feed: Feed, model: Model, flow_id: str) -> None:
        self._feed = feed
        self._model = model
        self._flow_id = flow_id
        self._asked_at = float("-inf")
        self._took = 0.0
        self._is_asking = False
        self._seen: object = None
        """The signs of when it was last read; None where the server refused to tell, and is asked a while later."""
        self._gone_in: int | None = None
        """The connection whose server has the flow no more, by how many snapshots there were; None while it is there.

        No sign tells that it came back: it is asked for again when another connection stands.
        """
        self.view: FlowView | None = None
        """The flow as it was last read; None before it was."""

    @property
    def is_gone(self) -> bool:
        """Whether it was there, and the server has it no more."""
        return self._gone_in is not None

    def take_turn(self) -> bool:
        """Return whether it is time to read it; who is told so does, and nobody else is told before that is done."""
        if self._is_asking or not self._is_due():
            return False
        self._is_asking = True
        return True

    def _is_due(self) -> bool:
        if not self._model.link.live or self._gone_in == self._model.counts.generation:
            return False
        quiet = self._model.clock.steady() - self._asked_at
        if quiet < max(EVERY, 10 * self._took):
            return False
        if self.view is None or self._seen is None or (is_open(self.view) and quiet >= AT_LAST):
            return quiet >= AT_LAST
        return self._seen != self._signs(self._model.counts.rows)

    async def look(self) -> None:
        """Read it. Raises `ProblemError` or `ConnectionFailed`."""
        # What changes while the answer is on its way is seen the next time.
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
        """Return how many seconds the tasks of each of its queues take on average, where that is known."""
        jobs = self._model.jobs.rows.values()
        known = {job.full_name: job.stats.completed_run for job in jobs if job.stats is not None}
        return {name: run.mean for name, run in known.items() if run is not None and run.mean is not None}

    def _signs(self, counts: Mapping[str, Mapping[str, int]]) -> object:
        """Return what is different when anything of its queues has changed, or the connection is another one."""
        assert self.view is not None
        return self._model.counts.generation, {task.job_name: counts.get(task.job_name) for task in self.view.tasks}
