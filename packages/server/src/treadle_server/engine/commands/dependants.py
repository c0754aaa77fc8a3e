"""Tasks that wait for other tasks: how they are added, and what happens to them when the others have ended.

A task that ends is marked (`Task.telling`) in the same transaction. The tasks that wait for it follow in portions: each
is brought in line with the present state of the other, which is idempotent.
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
from treadle_server.engine.commands.steering import cancel_task, count_unmet
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.transaction.dependencies import Edge, Ended, Needed, Waiter

MOST = 500
"""How many ended tasks one command handles at most, and about how many of the tasks that wait for them."""


def found(work: UnitOfWork, task_id: TaskId) -> Task | Needed:
    """Return a task that another one is to wait for; `check_needs` must have found it."""
    known = work.tasks.get(task_id)
    return work.dependencies.needed[task_id] if known is None else known


def check_needs(work: UnitOfWork, principal: Principal, needs: Iterable[Need]) -> None:
    """Raise `TaskNotFound` if a task to be waited for does not exist, or the caller may not read it."""
    for need in needs:
        if isinstance(need.of, int):
            continue
        other = work.tasks.get(need.of) or work.dependencies.needed.get(need.of)
        if other is None or not sees(principal, other):
            raise unseen(need.of)


def put_in_waiting(work: UnitOfWork, task: Task, needs: Sequence[tuple[Need, Task | Needed]]) -> None:
    """Add a new task that waits for others; it follows from their present states at once whether it must still wait."""
    task.unmet = 0
    failed: Task | Needed | None = None
    places: dict[int, list[ResultPlace]] = {}
    for need, other in needs:
        if (known := places.get(other.seq)) is not None:
            known += need.places  # two submissions of the request share one open task by their unique key
            continue
        places[other.seq] = listed = list(need.places)
        work.dependencies.others[other.seq] = other
        decision = verdict(task.on_dependency_failure, other.status)
        work.dependencies.new_edges.append(Edge(task.seq, other.seq, decision is Verdict.MET, listed))
        task.unmet += decision is not Verdict.MET
        if decision is Verdict.FAILED and failed is None:
            failed = other
        _watch(work, other)
    if task.unmet:
        task.status = Status.BLOCKED
    work.add_task(task)
    if failed is not None:
        _cancel(work, task, failed.id, failed.status)


def _watch(work: UnitOfWork, other: Task | Needed) -> None:
    """Mark the other task so that its waiters are notified when it ends, or now if it has ended."""
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


def apply_policy(work: UnitOfWork, task: Task) -> None:
    """Apply a blocked task's new failure policy to the present states of the tasks that it waits for."""
    failed = count_unmet(work, task)
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
    """Notifies a portion of the waiting tasks that tasks they wait for have ended, or are to run again."""

    rows = MOST

    def reads(self, reads: ReadSet) -> None:
        """Read the tasks whose waiters are to be notified, and a portion of these waiters."""
        reads.tellings = MOST

    def apply(self, work: UnitOfWork) -> bool:
        """Return whether there may be more waiters to notify at once."""
        done = [self._notify(work, ended) for ended in work.dependencies.ended]
        return any(done)

    def _notify(self, work: UnitOfWork, ended: Ended) -> bool:
        """Notify the waiters that were read, and note how far that is; return whether anything was done."""
        known = work.tasks.get(ended.id)
        if known is not None and (known.status, known.telling) != (ended.status, ended.telling):
            return True  # this batch has changed it since it was read
        last, is_all = last_told(ended.telling, ended.status), True
        waiters = work.dependencies.waiters[ended.seq]
        for waiter in waiters:
            if waiter.task_seq not in work.dependencies.free:
                is_all = False  # another server has locked it: try again in a moment
                break
            if (task := work.dependencies.by_seq.get(waiter.task_seq)) is not None:
                self._update_waiter(work, task, waiter, ended)
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

    def _update_waiter(self, work: UnitOfWork, task: Task, waiter: Waiter, ended: Ended) -> None:
        """Bring a waiting task in line with the state of the other one."""
        if not _waits(task) or task.unmet is None:
            return
        key = (task.seq, ended.seq)
        decision = verdict(task.on_dependency_failure, ended.status)
        is_met = work.dependencies.met.get(key, waiter.met)
        if is_met is not (decision is Verdict.MET):
            work.dependencies.met[key] = not is_met
            work.open(task)
            task.unmet += 1 if is_met else -1
            work.touched(task)
        if decision is Verdict.FAILED:
            _cancel(work, task, ended.id, ended.status)
        elif task.status is Status.BLOCKED and not task.unmet:
            _unblock(work, task)


def _waits(task: Task) -> bool:
    """Return whether a task waits for others, or did when it was paused; one that has begun is not changed any more.

    A task that is to run again may wait for them again.
    """
    return task.status is Status.BLOCKED or (task.status is Status.PAUSED and (not task.has_run or bool(task.unmet)))
