"""Carries verbs out: asks the server, remembers how to take the last one back, and says what was done."""

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

_DONE: dict[ScheduleVerb, str] = {"pause": "paused", "resume": "resumed", "run": "put in a task of"}

FAILURES = (ProblemError, ConnectionFailed)
"""What a request may raise that is told and not fatal."""


_STOPPED = {Reason.INTERRUPTED, Reason.SUSPENDED}
"""Why a task is paused that a worker was to stop: what had waited has another reason, or none."""


class Executor:
    """The verbs of the dashboard; everything it returns is there to be shown."""

    def __init__(self, model: Model, feed: Feed, *, read_only: bool = False) -> None:
        self._model = model
        self._feed = feed
        self.read_only = read_only
        """Whether this dashboard only looks."""
        self._undo: Undo | None = None

    @property
    def only_looks(self) -> bool:
        """Whether no key that changes anything is offered: this dashboard or its token only looks, or it is refused."""
        link = self._model.link
        return self.read_only or link.may_write is False or link.state == "denied"

    def off(self) -> Refusal | None:
        """Return why nothing can be changed now, or None."""
        return off(self._model.link, read_only=self.read_only)

    def plan(self, verb: Verb, tasks: Sequence[TaskRef], *, are_first: bool = False) -> Plan | Refusal:
        """Return what `verb` will do to the tasks, which `are_first` of more that are meant, or why it can't."""
        return self.off() or plan(verb, tasks, are_first=are_first)

    def undo_left(self) -> float:
        """Return for how many seconds the last action can still be undone; 0 when there is none."""
        return self._undo.seconds_left(self._model.clock.steady()) if self._undo is not None else 0.0

    def remember(self, past: str, *asks: Ask) -> None:
        """From now on, for five seconds, `asks` take back what was just done."""
        self._undo = Undo(asks, past, self._model.clock.steady() + UNDO_SECONDS)

    def forget(self) -> None:
        """From now on there is nothing to undo: something else is done, and is what the key would seem to mean."""
        self._undo = None

    async def carry_out(self, planned: Plan) -> Report:
        """Ask the server for what was planned, portion by portion; what was answered stands, whatever breaks then."""
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
        """Take the last action back where nobody else has touched the tasks since."""
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
        # Unless something else was done meanwhile, which is what the key means then.
        self._undo = self._undo or rest_of(undo, answers, self._model.clock.steady())
        if broken is not None and not answers:
            return not_done("undo", broken)
        return undo_report(undo, answers, broken=None if broken is None else str(broken))

    async def _take_back(self, ask: Ask, undo: Undo) -> BulkResult:
        """Return what a request of an undo did; what a worker has only begun since is asked for once more."""
        answer = await self._feed.request(ask.op, **await self._as_stopped(ask.fields, undo.stopping))
        if ask.op != "actions":
            return BulkResult(action="edit", matched=1, changed=1)
        done = read(BulkResult, answer)
        if not (begun := begun_since(ask, done)):
            return done
        again = {**ask.fields, "ids": list(begun), "if_versions": begun}
        return with_those(done, read(BulkResult, await self._feed.request(ask.op, **again)))

    async def _as_stopped(self, fields: Mapping[str, Any], stopping: Mapping[str, int]) -> Mapping[str, Any]:
        """Return the request with the versions that the workers' stops have given to what was running."""
        held = [key for key in fields.get("ids", ()) if key in stopping]
        if not held:
            return fields
        stopped = await asyncio.gather(*(self._stopped(key, stopping[key]) for key in held))
        return {**fields, "if_versions": {**fields["if_versions"], **dict(zip(held, stopped, strict=True))}}

    async def _stopped(self, key: str, version: int) -> int:
        """Return the version of a task that was to pause: the next one, once its worker has stopped it."""
        try:
            task = read(TaskItem, await self._feed.request("get", id=key))
        except ProblemError:
            return version  # The undo's own answer tells what became of it.
        is_stopped = task.status is Status.PAUSED and task.reason in _STOPPED
        return version + 1 if is_stopped and task.version == version + 1 else version

    async def rerun(self, task: TaskRef, step: str | None) -> Report:
        """Run an ended task again from a step on, or from its start: what it had kept from there on is forgotten."""
        fields = {} if step is None else {"from_step": step}
        if (wrong := await self._ask("rerun", "action", id=task.id, action="rerun", **fields)) is not None:
            return wrong
        start = "its start" if step is None else clean(step, limit=100)
        return Report(f"{short_id(task.id)} runs again from {start}", ok=True)

    async def pause_queue(self, job: str, *, paused: bool) -> Report:
        """Pause or resume a queue by its job's full name."""
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
        """Have a worker take no more and end; one that is lost hears nothing."""
        refusal = self.off()
        if refusal is not None:
            return refusal.report
        if worker.health in {"lost", "draining"}:
            return Report(f"{worker.name} is {worker.health}: only a worker that takes tasks can drain", ok=False)
        wrong = await self._ask("drain", "drain_worker", id=worker.id)
        return wrong or Report(f"{worker.name} drains: it takes no more, and ends with what it runs", ok=True)

    async def remove_worker(self, worker: WorkerRow) -> Report:
        """Forget a lost worker; what any other one runs would be lost with it."""
        refusal = self.off()
        if refusal is not None:
            return refusal.report
        if worker.health != "lost":
            return Report(f"{worker.name} is {worker.health}: only a lost worker is removed", ok=False)
        wrong = await self._ask("remove", "remove_worker", id=worker.id)
        return wrong or Report(f"removed {worker.name}", ok=True)

    async def steer_schedule(self, verb: ScheduleVerb, room: str, name: str) -> Report:
        """Pause a schedule, let it go on, or put its task in now."""
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
        """Ask the server for something; return why it could not be done, or None when it was."""
        if (refusal := self.off()) is not None:
            return refusal.report
        self.forget()
        try:
            await self._feed.request(op, **fields)
        except FAILURES as error:
            return not_done(verb, error)
        return None


def _was_so(name: str, *, paused: bool) -> Report:
    """Return the report of what changed nothing: an undo of it would take back what somebody else did."""
    return Report(f"{name} was {'paused already' if paused else 'not paused'}", ok=True)


def not_done(verb: str, error: Exception) -> Report:
    """Return the report of a verb that failed, or of which nobody knows whether it was carried out."""
    if isinstance(error, ConnectionLost):
        return Report(f"{verb} was sent, and {clean(str(error), limit=200)}", ok=False, known=False)
    return failed(verb, str(error))


def failed(verb: str, why: str) -> Report:
    """Return the report of what could not be done at all."""
    return Report(f"could not {verb}: {clean(why, limit=200)}", ok=False)
