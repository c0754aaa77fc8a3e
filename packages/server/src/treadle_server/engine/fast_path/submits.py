"""The fast path of new tasks: plain submits to remembered jobs, written in one statement.

A submit that is not plain (a unique key, a time, limits, a job that is not remembered or whose schema has changed)
takes the slow path through the commands. Whether an id is new is not looked up: if it isn't, the database refuses it,
and the whole batch takes the slow path.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from treadle.wire.names import visible_from
from treadle_server.domain.jobs import Job
from treadle_server.domain.tasks import Task
from treadle_server.engine.cache import Cache
from treadle_server.engine.commands.submit import Submission, Submit, SubmitEach, Submitted, maker_like, new_task
from treadle_server.engine.hub import Change
from treadle_server.engine.pending import Pending
from treadle_server.engine.rules import Rules
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.base import Tx
from treadle_server.store.transaction import hot
from treadle_server.store.transaction.counts import CountKey, count_change, join_queue
from treadle_server.store.transaction.targets import TargetName

Submits = Submit | SubmitEach


@dataclass(frozen=True, slots=True)
class _JobLane:
    job: Job
    lane: int
    queue: Counter[int]
    """How many tasks wait in its queue, by priority."""


@dataclass(frozen=True, slots=True)
class _Plain:
    pending: Pending
    command: Submits
    lanes: list[_JobLane]


class FastSubmits:
    """Puts plain submits into the database."""

    def __init__(self, rules: Rules, cache: Cache) -> None:
        self._rules = rules
        self._cache = cache

    async def submit(self, work: UnitOfWork, batch: Sequence[Pending]) -> list[Task]:
        """Add the tasks of those commands that are plain submits, mark these as done, and return the tasks.

        Raises IntegrityError if an id is taken.
        """
        tx = work.tx
        plain: list[_Plain] = []
        for pending in batch:
            command = pending.command
            if isinstance(command, Submits) and (lanes := await self._job_lanes(tx, command)) is not None:
                plain.append(_Plain(pending, command, lanes))
        if not plain:
            return []
        seqs = iter(await self._cache.take_seqs(tx, sum(len(one.lanes) for one in plain)))
        items = ((one.command.room, item) for one in plain for item in one.command.items)
        named = {(room, item.target) for room, item in items if item.target is not None}
        targets = await self._cache.targets(tx, named) if named else {}
        new: list[Task] = []
        for one in plain:
            made = self._make(one, targets, seqs, work.now)
            one.pending.is_done, one.pending.outcome, one.pending.refusal = True, made, None
            new += [submitted.task for submitted in made]
        await _write(work, new)
        return new

    def _make(
        self, plain: _Plain, targets: Mapping[TargetName, int], seqs: Iterator[int], now: datetime
    ) -> list[Submitted]:
        room, user = plain.command.room, plain.command.principal.user
        makers: dict[int, Callable[[int, Submission], Task]] = {}
        made: list[Submitted] = []
        for job_lane, item in zip(plain.lanes, plain.command.items, strict=True):
            if item.is_bare and (maker := makers.get(id(job_lane))) is not None:
                task = maker(next(seqs), item)
            else:
                task = new_task(
                    item,
                    job_lane.job,
                    self._rules.options(item.options, job_lane.job),
                    room=room,
                    user=user,
                    now=now,
                    seq=next(seqs),
                    lane=job_lane.lane,
                    target_num=None if item.target is None else targets[room, item.target],
                )
                if item.is_bare and len(plain.lanes) > 1:
                    makers[id(job_lane)] = maker_like(task)
            made.append(Submitted(task, created=True, position=join_queue(job_lane.queue, task)))
        return made

    async def _job_lanes(self, tx: Tx, command: Submits) -> list[_JobLane] | None:
        """Return the job and lane of each of the tasks, or None if one of them is not plain."""
        found: dict[tuple[str, str | None], _JobLane] = {}
        lanes: list[_JobLane] = []
        for item in command.items:
            if not _is_plain(item):
                return None
            key = (item.job_name, item.options.get("pool"))
            if key not in found:
                one = await self._job_lane(tx, command.room, item)
                if one is None:
                    return None
                found[key] = one
            if item.schema_version not in {None, found[key].job.schema_version}:
                return None
            lanes.append(found[key])
        return lanes

    async def _job_lane(self, tx: Tx, room: str, item: Submission) -> _JobLane | None:
        job = await self._cache.job(tx, item.job_name)
        if (
            job is None
            or self._rules.limits_of(job)
            or not self._rules.has_executor(job)
            or not visible_from(room, job.room)
        ):
            return None
        found = await self._cache.lane(tx, job.lane_key(room, self._rules.options(item.options, job)["pool"]))
        return None if found is None else _JobLane(job, *found)


async def _write(work: UnitOfWork, new: Sequence[Task]) -> None:
    counts: Counter[CountKey] = Counter()
    targets: set[int] = set()
    for task in new:
        count_change(counts, task, None)
        if task.target_num is None:
            # The lane's head, if it is known, stays valid: the new task is last.
            work.batch.lanes.add(task.lane)
        else:
            targets.add(task.target_num)
        work.batch.tasks.append(Change(task, None))
    await hot.insert(work.tx, new, counts)
    work.batch.targets |= targets
    await work.reblock(targets)


def _is_plain(item: Submission) -> bool:
    if item.is_bare:
        return True
    if item.limits is not None or item.is_bound:
        return False
    return item.unique_key is None and item.due_at is None and not item.delay
