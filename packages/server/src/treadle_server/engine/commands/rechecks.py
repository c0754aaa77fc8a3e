"""Compares what this server believes of workers on its sockets with the store: another server may have changed it."""

from collections.abc import Mapping
from dataclasses import dataclass

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import WorkerState
from treadle_server.domain.jobs import Worker
from treadle_server.engine.commands.reports import RunReport, take_report
from treadle_server.engine.commands.workers import runs_of
from treadle_server.engine.hub import Orders
from treadle_server.engine.needs import Needs
from treadle_server.engine.world import World

RunKey = tuple[TaskId, int]


@dataclass(slots=True)
class Recheck:
    """Frees the room of runs that are over, and says what each worker is to be told."""

    seated: Mapping[WorkerId, Mapping[RunKey, int]]
    """What each worker holds, as its seat says at the moment when it is looked at: between two batches."""
    home: str
    """This start of the server."""

    @property
    def rows(self) -> int:
        """Return how many tasks it may write."""
        return len(self.seated)

    def needs(self, needs: Needs) -> None:
        """Read the workers, what they hold in truth, and how the runs ended that they are thought to hold."""
        needs.workers.update(self.seated)
        needs.tasks_of.update(self.seated)
        needs.holds_of.update(self.seated)
        for held in self.seated.values():
            needs.tasks.update(task_id for task_id, _ in held)
            needs.runs.update(held)

    def apply(self, world: World) -> list[Orders]:
        """Return what the workers are to be told."""
        return [self._check(world, worker_id, list(held)) for worker_id, held in self.seated.items()]

    def _check(self, world: World, worker_id: WorkerId, held: list[RunKey]) -> Orders:
        worker = world.workers.get(worker_id)
        is_lost = worker is None or worker.state is WorkerState.LOST
        orders = Orders(worker_id, [], [], [], is_lost or self._has_moved(worker))
        leased = {(task.id, task.run_id): task for task in runs_of(world, worker_id)}
        holds = {(hold.task_id, hold.run_id) for hold in world.holds.values() if hold.worker_id == worker_id}
        for key in held:
            if (task := leased.get(key)) is not None:
                if task.cancel_requested:
                    orders.pause.append(key)
            elif key in holds:
                orders.cancel.append(key)
            else:
                world.released.append(key)
                if not self._was_reported(world, key):
                    orders.gone.append(key)
        if worker is not None and self._has_moved(worker):
            self._return_late(world, worker, held)
        return orders

    def _has_moved(self, worker: Worker | None) -> bool:
        return worker is not None and worker.home not in {None, self.home}

    @staticmethod
    def _was_reported(world: World, key: RunKey) -> bool:
        """Return whether the worker itself ended the run: then it knows."""
        task = world.tasks.get(key[0])
        run = None if task is None else world.resolved.get((task.seq, key[1]))
        return run is not None and run.digest is not None

    @staticmethod
    def _return_late(world: World, worker: Worker, held: list[RunKey]) -> None:
        """Return what was claimed here for a worker that had opened itself elsewhere: it never heard of it."""
        for task in runs_of(world, worker.id):
            is_late = task.claimed_at is not None and worker.home_at is not None and task.claimed_at > worker.home_at
            if (task.id, task.run_id) in held and task.started_at is None and is_late:
                take_report(world, task, task.run_id, RunReport(kind="returned"))
