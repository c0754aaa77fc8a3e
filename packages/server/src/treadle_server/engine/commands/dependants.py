"""Tasks that wait for tasks: how they are put in, and what those come to that wait for one that has ended.

What ended says so by itself (`Task.telling`), in whatever transaction it ended. The tasks that wait for it follow in
portions: each is brought to what the other's state says now, and to nothing more, however often that is done.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from treadle.wire.ids import TaskId
from treadle.wire.status import TERMINAL, Reason, Status
from treadle_server.access.checks import sees, unseen
from treadle_server.access.principal import Principal
from treadle_server.domain import life
from treadle_server.domain.dependencies import TOLD, UNTOLD, Need, ResultPlace, Verdict, last_told, told_up_to, verdict
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands.standing import look_again
from treadle_server.engine.commands.steering import cancel_task
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.transaction.dependencies import Edge, Ended, Needed, Waiter

MOST = 500
"""Tasks that one command tells of others at most, and about how many it tells."""


def found(work: UnitOfWork, task_id: TaskId) -> Task | Needed:
    """Return a task that another one is to wait for; whoever put that one in was let through by `check_needs`."""
    known = work.tasks.get(task_id)
    return work.dependencies.needed[task_id] if known is None else known


def check_needs(work: UnitOfWork, principal: Principal, needs: Iterable[Need]) -> None:
    """Raise `TaskNotFound` for a task to be waited for that is not there, or that the asker does not read."""
    for need in needs:
        if isinstance(need.of, int):
            continue
        other = work.tasks.get(need.of) or work.dependencies.needed.get(need.of)
        if other is None or not sees(principal, other):
            raise unseen(need.of)


def put_in_waiting(work: UnitOfWork, task: Task, needs: Sequence[tuple[Need, Task | Needed]]) -> None:
    """Put in a new task that waits for others; what they are already has its effect at once."""
    task.unmet = 0
    failed: Task | Needed | None = None
    places: dict[int, list[ResultPlace]] = {}
    for need, other in needs:
        if (known := places.get(other.seq)) is not None:
            known += need.places  # two refs, and one open task that has the unique key of both
            continue
        places[other.seq] = listed = list(need.places)
        work.dependencies.others[other.seq] = other
        said = verdict(task.on_dependency_failure, other.status)
        work.dependencies.new_edges.append(Edge(task.seq, other.seq, said is Verdict.MET, listed))
        task.unmet += said is not Verdict.MET
        if said is Verdict.FAILED and failed is None:
            failed = other
        _watch(work, other)
    if task.unmet:
        task.status = Status.BLOCKED
    work.add_task(task)
    if failed is not None:
        _cancel(work, task, failed.id, failed.status)


def _watch(work: UnitOfWork, other: Task | Needed) -> None:
    """Have it told when the other task ends, unless it has."""
    is_over = other.status in TERMINAL
    if isinstance(other, Needed):
        if is_over:
            work.dependencies.over.add(other.seq)
        else:
            work.dependencies.watched[other.seq] = other.id
            work.dependencies.lanes.add(other.lane)
        return
    if (wanted := _watched(other.telling, is_over=is_over)) != other.telling:
        if other.seq not in work.changes.new_tasks:
            work.open(other)
        other.telling = wanted


def _watched(telling: int | None, *, is_over: bool) -> int:
    if telling is None:
        return TOLD if is_over else UNTOLD
    return telling if is_over else min(telling, UNTOLD)


def judge_anew(work: UnitOfWork, task: Task) -> None:
    """Let a blocked task, whose policy was changed, follow what those have come to already that it waits for."""
    failed = look_again(work, task)
    if failed is not None:
        _cancel(work, task, failed.needs_id, failed.status)
    elif not task.unmet:
        _unblock(work, task)


def _unblock(work: UnitOfWork, task: Task) -> None:
    work.open(task)
    life.unblock(task, work.now)
    task.blocked = task.stands_in_line
    work.changed(task)


def _cancel(work: UnitOfWork, task: Task, needs_id: TaskId, status: Status) -> None:
    cancel_task(work, task, Reason.DEPENDENCY_FAILED)
    task.error = f"it depends on task {needs_id}, which is {status}"


@dataclass(slots=True)
class TellWaiters:
    """Tells a portion of those that wait for tasks where these are: ended, or to run again."""

    rows = MOST

    def reads(self, reads: ReadSet) -> None:
        """Read which tasks others are to be told of, and a portion of these."""
        reads.tellings = MOST

    def apply(self, work: UnitOfWork) -> bool:
        """Return whether there may be more to tell at once."""
        told = [self._tell(work, ended) for ended in work.dependencies.ended]
        return any(told)

    def _tell(self, work: UnitOfWork, ended: Ended) -> bool:
        """Tell those that were read, and note how far that was; return whether anything was done."""
        known = work.tasks.get(ended.id)
        if known is not None and (known.status, known.telling) != (ended.status, ended.telling):
            return True  # this batch has changed it since it was read
        last, is_all = last_told(ended.telling, ended.status), True
        waiters = work.dependencies.waiters[ended.seq]
        for waiter in waiters:
            if waiter.task_seq not in work.dependencies.free:
                is_all = False  # another server is at it: in a moment
                break
            if (task := work.dependencies.by_seq.get(waiter.task_seq)) is not None:
                self._bring(work, task, waiter, ended)
            last = waiter.task_seq
        is_all = is_all and len(waiters) < work.dependencies.most_waiters
        telling = told_up_to(last, ended.status, is_all=is_all)
        if telling == ended.telling:
            return False
        if known is None:
            work.dependencies.told[ended.seq] = telling
        else:
            work.open(known).telling = telling
        return True

    def _bring(self, work: UnitOfWork, task: Task, waiter: Waiter, ended: Ended) -> None:
        """Bring one that waits to what the other's state says of it."""
        if not _waits(task) or task.unmet is None:
            return
        key = (task.seq, ended.seq)
        said = verdict(task.on_dependency_failure, ended.status)
        is_met = work.dependencies.met.get(key, waiter.met)
        if is_met is not (said is Verdict.MET):
            work.dependencies.met[key] = not is_met
            work.open(task)
            task.unmet += 1 if is_met else -1
            work.touched(task)
        if said is Verdict.FAILED:
            _cancel(work, task, ended.id, ended.status)
        elif task.status is Status.BLOCKED and not task.unmet:
            _unblock(work, task)


def _waits(task: Task) -> bool:
    """Return whether a task waits for others, or did when it was paused; what has begun is not changed any more.

    One that was run again may wait for them anew.
    """
    return task.status is Status.BLOCKED or (task.status is Status.PAUSED and (not task.has_run or bool(task.unmet)))
