"""The fast path of the commonest reports: starts and completions of runs that this server handed out.

Such a run is known here as it is in the database, so that nothing need be read; its changes are written in three
statements for the whole batch, guarded by the task's version. A report that is not plain (another outcome, a budget,
limits, a schedule that may go on, a requested pause, a worker that no longer serves the job, or a command of the same
batch that names the task) takes the slow path through the commands afterwards. Both use the same verbs of
`domain.life`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import Outcome, Status
from treadle_server.access.checks import speaks_for
from treadle_server.domain import life
from treadle_server.domain.encryption import seal_in
from treadle_server.domain.jobs import Worker
from treadle_server.domain.life import Ending
from treadle_server.domain.tasks import Run, Task, copy_of
from treadle_server.engine.commands.reports import ReportMany
from treadle_server.engine.commands.run_report import RunReport
from treadle_server.engine.hub import Change, Hub
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.transaction import hot
from treadle_server.store.transaction.counts import CountKey, count_change, count_key
from treadle_server.store.transaction.lock_order import lock_tasks
from treadle_server.store.transaction.targets import lock_targets

MOST_KNOWN = 100_000
"""How many runs are known at most. Beyond that all are forgotten: most must have ended at another server, or never."""

MOST_WORKERS = 10_000
"""How many workers are remembered at most. Beyond that all are forgotten, and read again as they report."""


@dataclass(slots=True)
class Taken:
    """The reports of one transaction that take the fast path."""

    work: UnitOfWork
    before: dict[TaskId, tuple[int, CountKey]] = field(default_factory=dict)
    """The version that each task had, and the key under which it was counted."""
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    async def write_alone(self) -> None:
        """Lock and write the reports in a batch without commands, which would have locked them. Raises as `write`."""
        if not self.work.tx.is_exclusive:
            tasks = self.tasks.values()
            ended = {task.target_num for task in tasks if task.status is Status.COMPLETED}
            await lock_targets(self.work.tx, {num for num in ended if num is not None})
            if len(tasks) > 1:
                await lock_tasks(self.work.tx, {task.seq for task in tasks})
        await self.write()

    async def write(self) -> None:
        """Write the reports, whose tasks are locked. Raises `LostUpdate` if a task is no longer as it was known."""
        work = self.work
        started: list[hot.Moved] = []
        completed: list[hot.Moved] = []
        counts: Counter[CountKey] = Counter()
        freed: set[int] = set()
        for task_id, task in self.tasks.items():
            version, key = self.before[task_id]
            if task.version == version:
                continue
            (completed if task.status is Status.COMPLETED else started).append((task, version))
            count_change(counts, task, key)
            if task.target_num is not None:
                work.batch.targets.add(task.target_num)
                if task.status is Status.COMPLETED:
                    freed.add(task.target_num)
        if completed:
            await hot.start(work.tx, started)
            await hot.complete(work.tx, completed, counts)
        else:
            await hot.start(work.tx, started, counts)
        work.batch.runs += self.runs
        await work.reblock(freed)


class FastReports:
    """The known runs, and the fast path of their reports."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._known: dict[TaskId, Task] = {}
        self._workers: dict[WorkerId, Worker] = {}
        """The runs' workers; reports of a worker that is not here take the slow path, which reads it."""

    def knows(self, task_id: TaskId) -> bool:
        """Return whether a report about the task may take the fast path."""
        return task_id in self._known

    def know(self, claimed: Iterable[Task]) -> None:
        """Remember runs that were handed out, after their claims were committed."""
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        for task in claimed:
            if task.budget is None and task.schedule_id is None and task.limit_key is None:
                self._known[task.id] = task

    def note_workers(self, workers: Iterable[Worker], gone: Iterable[WorkerId]) -> None:
        """Remember workers as a committed batch has read or changed them."""
        for worker in workers:
            self._workers[worker.id] = worker
        for worker_id in gone:
            self._workers.pop(worker_id, None)
        if len(self._workers) > MOST_WORKERS:
            self._workers.clear()

    def follow(self, changed: Iterable[Task]) -> None:
        """Update known tasks that commands have changed; those that are no longer leased are forgotten.

        A heartbeat renews everything that its worker holds. When such tasks were forgotten, 2 to 3 % of a drain's tasks
        took the slow path, which costs ten times as much.
        """
        for task in changed:
            was_known = self._known.pop(task.id, None) is not None
            if was_known and task.is_leased:
                # A copy, because the command that changed the task is answered with the task as it was then.
                self.know([copy_of(task)])

    def forget(self, task_ids: Iterable[TaskId]) -> None:
        """Forget tasks that others now wait for, because the known copies don't show it."""
        for task_id in task_ids:
            self._known.pop(task_id, None)

    def clear(self) -> None:
        """Forget everything, because a transaction failed after the known tasks were changed."""
        self._known.clear()

    def take(self, work: UnitOfWork, commands: Sequence[ReportMany], named: Collection[TaskId]) -> Taken:
        """Apply the plain reports, except about tasks that are `named` by other commands; return them to be written."""
        taken = Taken(work)
        excluded = set(named)
        for command in commands:
            excluded.update(task_id for task_id, _, report in command.reports if not report.is_plain)
            command.rest = [
                i
                for i, (task_id, run_id, report) in enumerate(command.reports)
                if task_id in excluded or not self._take(taken, command, task_id, run_id, report, excluded)
            ]
        return taken

    def _take(
        self,
        taken: Taken,
        command: ReportMany,
        task_id: TaskId,
        run_id: int,
        report: RunReport,
        excluded: set[TaskId],
    ) -> bool:
        """Apply one report and return whether it was plain; if not, later reports about its task are excluded too."""
        task = self._known.get(task_id)
        if (
            task is None
            or task.run_id != run_id
            or task.worker_id != command.worker_id
            or not self._may_report(command, task, report)
            or task.cancel_requested
            or not _fits(task, report)
            or not _is_kept(task, report)
        ):
            excluded.add(task_id)
            return False
        work = taken.work
        if task_id not in taken.tasks:
            taken.before[task_id] = (task.version, count_key(task.lane, task.status, task.priority))
            taken.tasks[task_id] = task
        if task.status is Status.CLAIMED:
            life.start(task, run_id, work.now)
            if self._hub.each:
                work.batch.tasks.append(Change(copy_of(task), Status.CLAIMED))
            elif report.kind == "started":
                work.batch.tasks.append(Change(task, Status.CLAIMED))
        if report.kind == "completed":
            ending = Ending(Outcome.COMPLETED, digest=report.digest())
            taken.runs.append(life.complete(task, report.result, ending, work.now))
            work.batch.tasks.append(Change(task, Status.RUNNING))
            work.released.append((task_id, run_id))
            del self._known[task_id]
        return True

    def _may_report(self, command: ReportMany, task: Task, report: RunReport) -> bool:
        worker = None if task.worker_id is None else self._workers.get(task.worker_id)
        if worker is None or not speaks_for(command.principal, worker, task.id, task.run_id):
            return False
        # The end of a task may make its job an orphan, but not while the worker that did it serves the job (Z6). If
        # another server has changed that, the sweeper notices.
        return report.kind != "completed" or task.job_num in worker.jobs


def _is_kept(task: Task, report: RunReport) -> bool:
    """Return whether the task may carry the result: an encrypted task takes only sealed ones."""
    return report.result is None or not task.is_encrypted or seal_in(report.result) is not None


def _fits(task: Task, report: RunReport) -> bool:
    if report.kind == "started":
        return task.status in {Status.CLAIMED, Status.RUNNING}
    return task.status is Status.RUNNING or (report.starts and task.status is Status.CLAIMED)
