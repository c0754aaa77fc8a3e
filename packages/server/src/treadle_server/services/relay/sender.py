"""Tells the other servers of the database what this one commits: gathered, and sent at most fifty times a second."""

from collections.abc import Iterable
from datetime import datetime

from treadle.wire.ids import WorkerId
from treadle.wire.status import TERMINAL, Status
from treadle_server.domain.jobs import Worker
from treadle_server.engine.commands.internal import BROKER
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch, Change
from treadle_server.services.relay import codec
from treadle_server.services.relay.codec import Notice, Transitions
from treadle_server.services.worker_states import WorkerStates

MOST_OF_BRIEF = 25
"""Tasks of one notice, beside those that ended, when nobody wants each transition."""


class NoticeSender:
    """Gathers what is to be told until it is taken."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._states = WorkerStates()
        self._gathered = Notice(engine.hub.stream)
        self.said = 0
        """How many notices were taken."""
        self.peers_listen = False
        """Whether there are other servers."""
        self._has_kept = False
        """Whether something was committed and told nobody, because there seemed to be no others."""
        self.peers_want_each = False

    @property
    def has_news(self) -> bool:
        """Return whether anything is to be told."""
        return self._gathered.tells

    def take(self) -> list[str]:
        """Return what is to be told as texts, each a notice; none may be left out, or the others miss its number."""
        told = self._gathered
        self._gathered = Notice(self._engine.hub.stream)
        told.server, told.number = self._engine.hub.stream, self.said + 1
        told.wants_each = self._engine.hub.wants_each_here
        texts = codec.written(told)
        self.said += len(texts)
        return texts

    def add(self, batch: Batch) -> bool:
        """Gather what a commit of this server changed; return whether there is something to be told."""
        if batch.is_foreign:
            return False
        if not self.peers_listen:
            self._has_kept = True
            return False
        told = self._gathered
        if len(told.tasks) + len(batch.tasks) > codec.MOST_TASKS:
            told.has_gap = True
        else:
            self._gather_tasks(batch.tasks)
        told.due_at = min((at for at in (told.due_at, batch.due_at) if at is not None), default=None)
        here = self._is_only_here
        told.lanes |= batch.lanes
        told.jobs.update(job.num for job in batch.jobs)
        told.links.update(link for link in batch.links if not here(link[0]))
        told.schedules.update(schedule.id for schedule in batch.schedules)
        concerned = {run.worker_id for run in batch.runs} | batch.freed
        told.workers.update(worker_id for worker_id in concerned if worker_id is not None and not here(worker_id))
        self._gather_workers(batch.workers)
        more = batch.touched or batch.targets or batch.pruned or batch.has_limits or (batch.shifted and not batch.tasks)
        told.has_more = told.has_more or bool(more)
        return told.tells

    def tell_absence(self, worker_id: WorkerId, at: datetime | None) -> bool:
        """Gather that a worker's socket broke here, or that it is back; return whether anybody is to be told."""
        told = self._gathered
        if not self.peers_listen:
            return False
        told.away.pop(worker_id, None)
        told.back.discard(worker_id)
        if at is None:
            told.back.add(worker_id)
        else:
            told.away[worker_id] = at
        return True

    def meet(self, *, is_there: bool) -> bool:
        """Note whether there are other servers; return whether there is something to be told.

        Where there seemed to be none they may have been there all the same: a clock that is set forward makes every
        server look as if it had not been seen for long.
        """
        self.peers_listen = is_there
        if not (is_there and self._has_kept):
            return False
        self._has_kept = False
        self.lose()
        return True

    def lose(self) -> None:
        """Have the other servers read everything anew: what was done is not known here."""
        self._gathered.has_gap = self._gathered.has_gap or self.peers_listen

    def _is_only_here(self, worker_id: WorkerId) -> bool:
        """Return whether nobody else looks after the worker: the one of a broker's executors is at every server."""
        return worker_id != BROKER and self._engine.dispatcher.serves_worker(worker_id)

    def _gather_tasks(self, changes: Iterable[Change]) -> None:
        told, here = self._gathered, self._is_only_here
        for task, was in changes:
            status = task.status
            if status is Status.COMPLETED and was is Status.CLAIMED and not self._engine.hub.each:
                # One object tells both changes of a task that started and completed in one commit.
                status = Status.RUNNING
            steps = told.tasks.get(task.id)
            if steps is None:
                if not self.peers_want_each:
                    told.is_brief = True
                    if len(told.tasks) >= MOST_OF_BRIEF and status not in TERMINAL:
                        continue
                steps = told.tasks[task.id] = Transitions(was)
            steps.taken.append((status, task.version))
            if status is Status.SCHEDULED and (told.due_at is None or task.due_at < told.due_at):
                told.due_at = task.due_at
            if task.cancel_requested and task.worker_id is not None and not here(task.worker_id):
                told.workers.add(task.worker_id)

    def _gather_workers(self, workers: Iterable[Worker]) -> None:
        for worker in workers:
            if not self._is_only_here(worker.id):
                self._gathered.workers.add(worker.id)
            if self._states.is_news(worker) or self.peers_want_each:
                self._gathered.heard.add(worker.id)
