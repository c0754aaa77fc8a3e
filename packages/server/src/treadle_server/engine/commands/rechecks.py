"""Compares what this server believes of workers on its socket with the store, which another server may have changed."""

from collections.abc import Mapping
from dataclasses import dataclass

from treadle.wire.ids import WorkerId
from treadle.wire.status import WorkerState
from treadle_server.domain.jobs import Worker
from treadle_server.domain.tasks import RunKey
from treadle_server.engine.commands.reports import take_report
from treadle_server.engine.commands.run_report import RunReport
from treadle_server.engine.commands.workers import runs_of
from treadle_server.engine.hub import Instructions
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork


@dataclass(slots=True)
class Recheck:
    """Frees the room of runs that have ended, and answers with what to tell each worker."""

    held_by: Mapping[WorkerId, Mapping[RunKey, int]]
    """What each worker holds according to its slot at the time of reading, between two batches."""
    home: str
    """This start of the server."""

    @property
    def rows(self) -> int:
        """Return how many tasks it may write."""
        return len(self.held_by)

    def reads(self, reads: ReadSet) -> None:
        """Read the workers, what they really hold, and how the runs that they are believed to hold have ended."""
        for worker_id, held in self.held_by.items():
            reads.worker(worker_id)
            reads.tasks.update(task_id for task_id, _ in held)
            reads.runs.update(held)

    def apply(self, work: UnitOfWork) -> list[Instructions]:
        """Return what to tell the workers."""
        return [self._check(work, worker_id, list(held)) for worker_id, held in self.held_by.items()]

    def _check(self, work: UnitOfWork, worker_id: WorkerId, held: list[RunKey]) -> Instructions:
        worker = work.workers.get(worker_id)
        is_lost = worker is None or worker.state is WorkerState.LOST
        instructions = Instructions(worker_id, [], [], [], is_lost or self._has_moved(worker))
        leased = {(task.id, task.run_id): task for task in runs_of(work, worker_id)}
        holds = {(hold.task_id, hold.run_id) for hold in work.holds.values() if hold.worker_id == worker_id}
        for key in held:
            if (task := leased.get(key)) is not None:
                if task.cancel_requested:
                    instructions.pause.append(key)
            elif key in holds:
                instructions.cancel.append(key)
            else:
                work.released.append(key)
                if not self._was_reported(work, key):
                    instructions.gone.append(key)
        if worker is not None and self._has_moved(worker):
            self._return_late(work, worker, held)
        return instructions

    def _has_moved(self, worker: Worker | None) -> bool:
        return worker is not None and worker.home not in {None, self.home}

    @staticmethod
    def _was_reported(work: UnitOfWork, key: RunKey) -> bool:
        """Return whether the worker itself reported the end of the run, and so knows of it."""
        task = work.tasks.get(key[0])
        run = None if task is None else work.resolved.get((task.seq, key[1]))
        return run is not None and run.digest is not None

    @staticmethod
    def _return_late(work: UnitOfWork, worker: Worker, held: list[RunKey]) -> None:
        """Hand back what was claimed here after the worker had connected to another server: it never received it."""
        for task in runs_of(work, worker.id):
            is_late = task.claimed_at is not None and worker.home_at is not None and task.claimed_at > worker.home_at
            if (task.id, task.run_id) in held and task.started_at is None and is_late:
                take_report(work, task, task.run_id, RunReport(kind="returned"))
