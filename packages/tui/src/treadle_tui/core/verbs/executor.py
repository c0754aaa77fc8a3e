"""Carries out verbs: sends the requests, remembers how to undo the last one, and reports what was done."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from treadle.errors import ConnectionFailed, ConnectionLost, ProblemError
from treadle.transport.answers import read
from treadle.wire.bulk import BulkResult
from treadle.wire.status import Reason, Status
from treadle.wire.tasks import TaskItem
from treadle_tui.core.draw.format import short_id
from treadle_tui.core.draw.text import clean
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.state.marks import TaskRef
from treadle_tui.core.state.model import Model
from treadle_tui.core.state.workers import WorkerRow
from treadle_tui.core.verbs.action import Verb
from treadle_tui.core.verbs.outcome import (
    as_done,
    begun_since,
    portions,
    report,
    rest_of,
    undo_of,
    undo_report,
    with_those,
)
from treadle_tui.core.verbs.plan import UNDO_SECONDS, Ask, Plan, Refusal, Report, Undo, off, plan

ScheduleVerb: TypeAlias = Literal["pause", "resume", "run"]

_DONE: dict[ScheduleVerb, str] = {"pause": "paused", "resume": "resumed", "run": "submitted a task of"}

FAILURES = (ProblemError, ConnectionFailed)
"""The errors of a request that are reported to the user instead of being fatal."""


_STOPPED = {Reason.INTERRUPTED, Reason.SUSPENDED}
"""Reasons of a task that its worker stopped; a task that was paused while it waited has another reason, or none."""


class Executor:
    """Carries out the dashboard's verbs; everything it returns is meant to be shown."""

    def __init__(self, model: Model, feed: Feed, *, read_only: bool = False) -> None:
        self._model = model
        self._feed = feed
        self.read_only = read_only
        """Whether this dashboard was started read-only."""
        self._undo: Undo | None = None

    @property
    def hides_writes(self) -> bool:
        """Whether to hide keys that change anything: the dashboard or token is read-only, or the token is refused."""
        link = self._model.link
        return self.read_only or link.may_write is False or link.state == "denied"

    def off(self) -> Refusal | None:
        """Return why nothing can be changed now, or None if it can."""
        return off(self._model.link, read_only=self.read_only)

    def plan(self, verb: Verb, tasks: Sequence[TaskRef], *, are_first: bool = False) -> Plan | Refusal:
        """Plan a verb for these tasks, or return why it can't be done; `are_first` if there are more than these."""
        return self.off() or plan(verb, tasks, are_first=are_first)

    def undo_left(self) -> float:
        """Return for how many seconds the last action can still be undone; 0 if it can't."""
        return self._undo.seconds_left(self._model.clock.steady()) if self._undo is not None else 0.0

    def remember(self, past: str, *asks: Ask) -> None:
        """Remember for five seconds the requests that undo what was just done."""
        self._undo = Undo(asks, past, self._model.clock.steady() + UNDO_SECONDS)

    def forget(self) -> None:
        """Forget what could be undone, since another action follows, which the undo key would seem to refer to."""
        self._undo = None

    async def carry_out(self, planned: Plan) -> Report:
        """Send a plan's requests, portion by portion; if one fails, what was answered before it still counts."""
        own = {} if self._undo is None else self._undo.stopping
        self.forget()
        results: list[BulkResult] = []
        broken: Exception | None = None
        insists = planned.if_versions
        for ids in portions(planned.tasks):
            fields = {"if_versions": found} if (found := {key: insists[key] for key in ids if key in insists}) else {}
            try:
                answer = await self._feed.request("actions", action=planned.verb, ids=ids, **fields)
                done = read(BulkResult, answer)
            except FAILURES as error:
                broken = error
                break
            results.append(as_done(planned, done, own))
        if broken is not None and not results:
            return not_done(planned.verb, broken)
        self._undo = undo_of(planned, results, self._model.clock.steady())
        return report(planned, results, broken=None if broken is None else str(broken))

    async def undo(self) -> Report:
        """Undo the last action, for the tasks that nobody else has changed since."""
        if (refusal := self.off()) is not None:
            return refusal.report
        undo, self._undo = self._undo, None
        if undo is None or not undo.seconds_left(self._model.clock.steady()):
            return Report("nothing to undo", ok=False)
        answers: list[BulkResult] = []
        broken: Exception | None = None
        for ask in undo.asks:
            try:
                answers.append(await self._take_back(ask, undo))
            except FAILURES as error:
                broken = error
                break
        # Unless another action followed meanwhile, which the undo key refers to then.
        self._undo = self._undo or rest_of(undo, answers, self._model.clock.steady())
        if broken is not None and not answers:
            return not_done("undo", broken)
        return undo_report(undo, answers, broken=None if broken is None else str(broken))

    async def _take_back(self, ask: Ask, undo: Undo) -> BulkResult:
        """Send one request of an undo; tasks that a worker has merely started since are requested once more."""
        answer = await self._feed.request(ask.op, **await self._as_stopped(ask.fields, undo.stopping))
        if ask.op != "actions":
            return BulkResult(action="edit", matched=1, changed=1)
        done = read(BulkResult, answer)
        if not (begun := begun_since(ask, done)):
            return done
        again = {**ask.fields, "ids": list(begun), "if_versions": begun}
        return with_those(done, read(BulkResult, await self._feed.request(ask.op, **again)))

    async def _as_stopped(self, fields: Mapping[str, Any], stopping: Mapping[str, int]) -> Mapping[str, Any]:
        """Return the request's fields, with the new versions of tasks that their workers have stopped since."""
        held = [key for key in fields.get("ids", ()) if key in stopping]
        if not held:
            return fields
        stopped = await asyncio.gather(*(self._stopped(key, stopping[key]) for key in held))
        return {**fields, "if_versions": {**fields["if_versions"], **dict(zip(held, stopped, strict=True))}}

    async def _stopped(self, key: str, version: int) -> int:
        """Return the version of a task that was asked to pause: one higher, once its worker has stopped it."""
        try:
            task = read(TaskItem, await self._feed.request("get", id=key))
        except ProblemError:
            return version  # The undo's own answer reports what became of it.
        is_stopped = task.status is Status.PAUSED and task.reason in _STOPPED
        return version + 1 if is_stopped and task.version == version + 1 else version

    async def rerun(self, task: TaskRef, step: str | None) -> Report:
        """Rerun an ended task from a step or from its start; the results kept from there on are discarded."""
        fields = {} if step is None else {"from_step": step}
        if (wrong := await self._ask("rerun", "action", id=task.id, action="rerun", **fields)) is not None:
            return wrong
        start = "its start" if step is None else clean(step, limit=100)
        return Report(f"rerun {short_id(task.id)} from {start}", ok=True)

    async def pause_queue(self, job: str, *, paused: bool) -> Report:
        """Pause or resume a queue, given its job's full name."""
        row = self._model.queue_rows().get(job)
        was_so = row is not None and row.job.paused is paused
        if (wrong := await self._ask("pause" if paused else "resume", "job", job=job, paused=paused)) is not None:
            return wrong
        if was_so:
            return _was_so(job, paused=paused)
        past, back = ("paused", "resumed") if paused else ("resumed", "paused")
        self.remember(f"{back} {job}", Ask("job", {"job": job, "paused": not paused}))
        return Report(f"{past} {job}", ok=True)

    async def drain_worker(self, worker: WorkerRow) -> Report:
        """Tell a worker to take no more tasks and exit when it has finished; a lost worker can't be told."""
        refusal = self.off()
        if refusal is not None:
            return refusal.report
        if worker.health in {"lost", "draining"}:
            return Report(f"can't drain {worker.name}: it is {worker.health}", ok=False)
        wrong = await self._ask("drain", "drain_worker", id=worker.id)
        return wrong or Report(
            f"{worker.name} is draining: it takes no more tasks, finishes what it runs, and ends", ok=True
        )

    async def remove_worker(self, worker: WorkerRow) -> Report:
        """Remove a lost worker. Others are not removed, because their runs would be lost."""
        refusal = self.off()
        if refusal is not None:
            return refusal.report
        if worker.health != "lost":
            return Report(
                f"can't remove {worker.name}: it is {worker.health}, and only a lost worker can be removed", ok=False
            )
        wrong = await self._ask("remove", "remove_worker", id=worker.id)
        return wrong or Report(f"removed {worker.name}", ok=True)

    async def steer_schedule(self, verb: ScheduleVerb, room: str, name: str) -> Report:
        """Pause or resume a schedule, or submit its task now."""
        known = {(item.room_id, item.name): item.paused for item in self._model.schedules.rows.values()}
        was_so = verb != "run" and known.get((room, name)) is (verb == "pause")
        if (wrong := await self._ask(verb, "schedule", room=room, name=name, action=verb)) is not None:
            return wrong
        if was_so:
            return _was_so(name, paused=verb == "pause")
        if verb != "run":
            back: ScheduleVerb = "resume" if verb == "pause" else "pause"
            self.remember(f"{_DONE[back]} {name}", Ask("schedule", {"room": room, "name": name, "action": back}))
        return Report(f"{_DONE[verb]} {name}", ok=True)

    async def _ask(self, verb: str, op: str, **fields: Any) -> Report | None:
        """Send a request; return why it failed, or None if it succeeded."""
        if (refusal := self.off()) is not None:
            return refusal.report
        self.forget()
        try:
            await self._feed.request(op, **fields)
        except FAILURES as error:
            return not_done(verb, error)
        return None


def _was_so(name: str, *, paused: bool) -> Report:
    """Return the report of a request that changed nothing: an undo of it would undo somebody else's action."""
    return Report(f"{name} was {'already paused' if paused else 'not paused'}", ok=True)


def not_done(verb: str, error: Exception) -> Report:
    """Return the report of a verb that failed, or whose outcome is unknown."""
    if isinstance(error, ConnectionLost):
        return Report(f"{verb} was sent, but {clean(str(error), limit=200)}", ok=False, known=False)
    return failed(verb, str(error))


def failed(verb: str, why: str) -> Report:
    """Return the report of an action that could not be done at all."""
    return Report(f"could not {verb}: {clean(why, limit=200)}", ok=False)
