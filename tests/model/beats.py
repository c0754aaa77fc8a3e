"""The model's heartbeats, and workers that come and go."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.model.things import FORBIDDEN, NO_TASK, NO_WORKER, STALE, Task, User, Worker
from tests.model.waiting import Waiting
from treadle.wire.status import Reason, WorkerState


class Beats(Waiting):
    """What workers do beside."""

    def beat(
        self,
        user: User,
        worker_id: str,
        now: datetime,
        runs: Sequence[tuple[str, int, float | None]] | None = None,
        stopped: Sequence[tuple[str, int]] = (),
        draining: bool | None = None,
    ) -> dict[str, Any]:
        """Renew every lease of the worker, or the `runs` it names with their usage; return what it must do now."""
        worker = self._beating(user, worker_id, runs, is_more=bool(stopped) or draining is not None)
        if worker.state is WorkerState.LOST:
            raise NO_WORKER
        if draining is not None:
            worker.state = WorkerState.DRAINING if draining else WorkerState.ONLINE
        self.revive(worker, now)
        for key in stopped:
            if key in self.runs and self.runs[key].worker_id == worker_id:
                self.holds.pop(key, None)
        answer: dict[str, Any] = {"cancel": [], "pause": [], "gone": [], "taken_until": {}}
        if runs is None:
            answer["cancel"] = [key for key, hold in self.holds.items() if hold.worker_id == worker_id]
            for held in self.runs_of(worker_id):
                self._renewed(held, None, answer, now)
        for task_id, run_id, usage in runs or ():
            task, hold = self.tasks.get(task_id), self.holds.get((task_id, run_id))
            if task is not None and task.is_leased and (task.worker_id, task.run_id) == (worker_id, run_id):
                self._renewed(task, usage, answer, now)
            elif task is not None and hold is not None and hold.worker_id == worker_id:
                until = max(hold.until, now + timedelta(seconds=task.heartbeat_increment))
                answer["cancel"].append((task_id, run_id))
                answer["taken_until"][task_id, run_id] = self.renew_hold(hold, until).until
            else:
                answer["gone"].append((task_id, run_id))
        return answer

    def _beating(
        self, user: User, worker_id: str, runs: Sequence[tuple[str, int, float | None]] | None, *, is_more: bool
    ) -> Worker:
        """Return the worker; a credential may renew its own run's lease, which is the worker's, and nothing else."""
        named = {(task_id, run_id) for task_id, run_id, _ in runs or ()}
        if user.run is not None and named == {user.run} and not is_more:
            task_id, _ = user.run
            if worker_id in self.workers and self.tasks[task_id].worker_id == worker_id:
                return self.workers[worker_id]
        return self.own_worker(user, worker_id)

    def _renewed(self, task: Task, usage: float | None, answer: dict[str, Any], now: datetime) -> None:
        assert task.run_id is not None
        key = (task.id, task.run_id)
        if task.deadline is not None and task.deadline <= now:
            self.expire(task, now)
            answer["cancel"].append(key)
            return
        self.use(task, usage)
        self.renew(task, now)
        if self.is_over_budget(task):
            self.stop_over_budget(task, now)
            answer["cancel"].append(key)
            return
        if task.cancel_requested:
            answer["pause"].append(key)
        answer["taken_until"][key] = task.taken_until

    def reclaim(self, user: User, task_id: str, run_id: int, now: datetime) -> Task:
        """Extend one run's lease."""
        if user.run is not None and user.run != (task_id, run_id):
            raise FORBIDDEN
        if (task := self.tasks.get(task_id)) is None:
            raise NO_TASK
        if not task.is_leased or task.run_id != run_id or task.worker_id is None:
            raise STALE
        worker = self.workers[task.worker_id]
        if not self.speaks_for(user, worker.id, task, run_id):
            raise FORBIDDEN
        self.revive(worker, now)
        answer: dict[str, Any] = {"cancel": [], "pause": [], "gone": [], "taken_until": {}}
        self._renewed(task, None, answer, now)
        if not answer["taken_until"]:
            raise STALE
        return task

    # Workers come and go

    def register_worker(self, user: User, worker_id: str, now: datetime, jobs: Sequence[str], **given: Any) -> Worker:
        self.workers[worker_id] = worker = Worker(worker_id, user.name, now, now, jobs=set(jobs), **given)
        return worker

    def drain_worker(self, user: User, worker_id: str) -> Worker:
        """Ask a worker to take no more; that is no sign of life."""
        worker = self.own_worker(user, worker_id)
        if worker.state is WorkerState.LOST:
            raise NO_WORKER
        worker.state = WorkerState.DRAINING
        return worker

    def remove_worker(self, user: User, worker_id: str, now: datetime) -> None:
        worker = self.own_worker(user, worker_id)
        for task in self.runs_of(worker.id):
            self.lose_run(task, Reason.WORKER_SHUTDOWN, "Worker disconnected", now)
        del self.workers[worker.id]
