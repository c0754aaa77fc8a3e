"""Carries actions out: asks the server, remembers how to take the last one back, and says what was done."""

from collections.abc import Sequence

from treadle.errors import ConnectionFailed, ProblemError
from treadle.wire.tasks import BulkResult, TaskItem
from treadle_tui.core.actions import Verb
from treadle_tui.core.feed import Feed
from treadle_tui.core.model import Model
from treadle_tui.core.steer import PAST, Plan, Refusal, Report, Undo, off, plan, report, tasks_word, undo_of
from treadle_tui.core.text import clean


class Steering:
    """The verbs of the dashboard; everything it returns is there to be shown."""

    def __init__(self, model: Model, feed: Feed, *, read_only: bool = False) -> None:
        self._model = model
        self._feed = feed
        self._read_only = read_only
        self._undo: Undo | None = None

    @property
    def read_only(self) -> bool:
        """Whether this dashboard only looks."""
        return self._read_only

    def off(self) -> Refusal | None:
        """Return why nothing can be changed now, or None."""
        return off(self._model.link, read_only=self._read_only)

    def plan(self, verb: Verb, tasks: Sequence[TaskItem]) -> Plan | Refusal:
        """Return what `verb` will do to the tasks, or why it can't."""
        return self.off() or plan(verb, tasks)

    def undo_left(self) -> float:
        """Return for how many seconds the last action can still be undone; 0 when there is none."""
        return self._undo.seconds_left(self._model.clock.steady()) if self._undo is not None else 0.0

    async def carry_out(self, planned: Plan) -> Report:
        """Ask the server for what was planned."""
        self._undo = None
        try:
            answer = await self._feed.request("actions", action=planned.verb, ids=planned.ids)
        except (ProblemError, ConnectionFailed) as error:
            return _failed(planned.verb, error)
        result = BulkResult.model_validate(answer)
        self._undo = undo_of(planned, result, self._model.clock.steady())
        return report(planned, result)

    async def undo(self) -> Report:
        """Take the last action back where nobody else has touched the tasks since."""
        undo, self._undo = self._undo, None
        refusal = self.off()
        if refusal is not None:
            return Report(refusal.reason, ok=False)
        if undo is None or not undo.seconds_left(self._model.clock.steady()):
            return Report("nothing to undo", ok=False)
        try:
            answer = await self._feed.request(
                "actions", action=undo.verb, ids=list(undo.versions), if_versions=dict(undo.versions)
            )
        except (ProblemError, ConnectionFailed) as error:
            return _failed(undo.verb, error)
        result = BulkResult.model_validate(answer)
        left = len(result.problems)
        text = f"undone: {PAST[undo.verb]} {tasks_word(result.changed)}" + (
            f", not {left} that changed since" if left else ""
        )
        return Report(text, ok=not left, problems={problem.id: problem.detail for problem in result.problems})

    async def pause_queue(self, job: str, *, paused: bool) -> Report:
        """Pause or resume a queue by its job's full name."""
        refusal = self.off()
        if refusal is not None:
            return Report(refusal.reason, ok=False)
        try:
            await self._feed.request("job", job=job, paused=paused)
        except (ProblemError, ConnectionFailed) as error:
            return _failed("pause" if paused else "resume", error)
        return Report(f"{'paused' if paused else 'resumed'} {clean(job)}", ok=True)


def _failed(verb: Verb, error: Exception) -> Report:
    return Report(f"could not {verb}: {clean(str(error), limit=200)}", ok=False)
