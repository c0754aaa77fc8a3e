"""Gathers this server's changes for the other servers of the database; they are sent at most fifty times a second."""

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
"""Most tasks in one notice, besides ended ones, when nobody wants every transition."""


class NoticeSender:
    """Gathers changes until they are taken."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._states = WorkerStates()
        self._gathered = Notice(engine.hub.stream)
        self.sent = 0
        """How many notices were taken."""
        self.peers_listen = False
        """Whether there are other servers."""
        self._has_unsent = False
        """Whether commits were not gathered, because there seemed to be no other servers."""
        self.peers_want_each = False

    @property
    def has_news(self) -> bool:
        """Return whether there are changes to send."""
        return self._gathered.has_content

    def take(self) -> list[str]:
        """Return the gathered changes as texts, each a notice. All must be sent, or the others will miss a number."""
        notice = self._gathered
        self._gathered = Notice(self._engine.hub.stream)
        notice.server, notice.number = self._engine.hub.stream, self.sent + 1
        notice.wants_each = self._engine.hub.wants_each_here
        texts = codec.written(notice)
        self.sent += len(texts)
        return texts

    def add(self, batch: Batch) -> bool:
        """Gather the changes of a commit of this server; return whether there is anything to send."""
        if batch.is_foreign:
            return False
        if not self.peers_listen:
            self._has_unsent = True
            return False
        notice = self._gathered
        if len(notice.tasks) + len(batch.tasks) > codec.MOST_TASKS:
            notice.has_gap = True
        else:
            self._gather_tasks(batch.tasks)
        notice.due_at = min((at for at in (notice.due_at, batch.due_at) if at is not None), default=None)
        here = self._is_only_here
        notice.lanes |= batch.lanes
        notice.jobs.update(job.num for job in batch.jobs)
        notice.links.update(link for link in batch.links if not here(link[0]))
        notice.schedules.update(schedule.id for schedule in batch.schedules)
        concerned = {run.worker_id for run in batch.runs} | batch.freed
        notice.workers.update(worker_id for worker_id in concerned if worker_id is not None and not here(worker_id))
        self._gather_workers(batch.workers)
        more = batch.touched or batch.targets or batch.pruned or batch.has_limits or (batch.shifted and not batch.tasks)
        notice.has_more = notice.has_more or bool(more)
        return notice.has_content

    def add_absence(self, worker_id: WorkerId, at: datetime | None) -> bool:
        """Gather that a worker's socket broke here, or that it is back; return whether there are servers to tell."""
        notice = self._gathered
        if not self.peers_listen:
            return False
        notice.away.pop(worker_id, None)
        notice.back.discard(worker_id)
        if at is None:
            notice.back.add(worker_id)
        else:
            notice.away[worker_id] = at
        return True

    def note_peers(self, *, are_there: bool) -> bool:
        """Record whether there are other servers; return whether there is anything to send.

        There may have been others even if there seemed to be none: after a step of the clock no server seems to have
        been seen recently.
        """
        self.peers_listen = are_there
        if not (are_there and self._has_unsent):
            return False
        self._has_unsent = False
        self.lose()
        return True

    def lose(self) -> None:
        """Make the other servers read everything again, because this server does not know what was committed."""
        self._gathered.has_gap = self._gathered.has_gap or self.peers_listen

    def _is_only_here(self, worker_id: WorkerId) -> bool:
        """Return whether only this server serves the worker; every server serves the one of a broker's executors."""
        return worker_id != BROKER and self._engine.dispatcher.serves_worker(worker_id)

    def _gather_tasks(self, changes: Iterable[Change]) -> None:
        notice, here = self._gathered, self._is_only_here
        for task, was in changes:
            status = task.status
            if status is Status.COMPLETED and was is Status.CLAIMED and not self._engine.hub.each:
                # One object reports both changes of a task that started and completed in one commit.
                status = Status.RUNNING
            steps = notice.tasks.get(task.id)
            if steps is None:
                if not self.peers_want_each:
                    notice.is_brief = True
                    if len(notice.tasks) >= MOST_OF_BRIEF and status not in TERMINAL:
                        continue
                steps = notice.tasks[task.id] = Transitions(was)
            steps.taken.append((status, task.version))
            if status is Status.SCHEDULED and (notice.due_at is None or task.due_at < notice.due_at):
                notice.due_at = task.due_at
            if task.cancel_requested and task.worker_id is not None and not here(task.worker_id):
                notice.workers.add(task.worker_id)

    def _gather_workers(self, workers: Iterable[Worker]) -> None:
        for worker in workers:
            if not self._is_only_here(worker.id):
                self._gathered.workers.add(worker.id)
            if self._states.is_news(worker) or self.peers_want_each:
                self._gathered.updated_workers.add(worker.id)
