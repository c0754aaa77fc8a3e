"""Commands that announce, store and sweep artifacts: their rows only, since the objects are in a store of their own.

A row makes its object visible. It is written in the transaction that checks the run, so that an upload which races the
run's report is either stored before it or refused after it (C10).
"""

from dataclasses import dataclass
from datetime import timedelta

from treadle.wire.ids import TaskId
from treadle_server.access.checks import speaks_for
from treadle_server.access.principal import Principal
from treadle_server.domain.artifacts import Artifact, check_uploadable, same_upload
from treadle_server.domain.tasks import Run, Task
from treadle_server.engine.commands.base import OneRow, get_task
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import ArtifactConflict, ArtifactNotFound, Forbidden

MOST = 100
"""How many artifacts one sweep deletes at most."""

ABANDONED = timedelta(days=1)
"""How long after its announcement an unfinished upload is forgotten: a long one takes hours, not days."""


def _read_upload(reads: ReadSet, task_id: TaskId, artifact: Artifact) -> None:
    reads.tasks.add(task_id)
    reads.runs.add((task_id, artifact.run_id))
    reads.artifacts.add((task_id, artifact.run_id, artifact.name))


@dataclass(slots=True, kw_only=True)
class AnnounceArtifact(OneRow):
    """Announces an upload by an open run, or by one that has just ended in an exception."""

    principal: Principal
    task_id: TaskId
    wanted: Artifact
    """The artifact as it is to be; its task's seq is not known yet."""
    is_expiry_named: bool

    def reads(self, reads: ReadSet) -> None:
        """Read the task, the run's record if it has ended, its worker, and an artifact of that name."""
        _read_upload(reads, self.task_id, self.wanted)

    def apply(self, work: UnitOfWork) -> Artifact:
        """Return the artifact, or the one that was announced before if it is the same.

        Raises `TaskNotFound`, `StaleRun`, `Forbidden`, or `ArtifactConflict` if the run has ended or has an artifact of
        that name with other content.
        """
        task = get_task(work, self.task_id)
        run = work.resolved.get((task.seq, self.wanted.run_id))
        check_uploadable(task, run, self.wanted.run_id, work.now)
        self._check_user(work, task, run)
        self.wanted.task_seq = task.seq
        kept = work.artifacts.get(self.wanted.key)
        if kept is None:
            work.add_artifact(self.wanted)
            return self.wanted
        if kept.is_expired(work.now):
            raise ArtifactConflict(f"artifact {kept.name!r} has expired and is being removed: choose another name")
        if not same_upload(kept, self.wanted, is_expiry_named=self.is_expiry_named):
            has = "already has" if kept.is_stored else "has announced, but not uploaded,"
            raise ArtifactConflict(
                f"run {kept.run_id} {has} an artifact {kept.name!r} of {kept.size} bytes, {kept.content_type}:"
                " repeat that, or take another name"
            )
        if kept.sha256 is None and self.wanted.sha256 is not None:
            kept.sha256 = self.wanted.sha256
            work.write_artifact(kept)
        return kept

    def _check_user(self, work: UnitOfWork, task: Task, run: Run | None) -> None:
        """Raise `Forbidden` unless the caller owns the run's worker or acts with the run's credential."""
        worker_id = task.worker_id if run is None else run.worker_id
        worker = work.workers.get(worker_id) if worker_id else None
        if not speaks_for(self.principal, worker, task.id, self.wanted.run_id):
            raise Forbidden(f"run {self.wanted.run_id} belongs to another user's worker")


@dataclass(slots=True, kw_only=True)
class StoreArtifact(OneRow):
    """Makes an upload visible once its object is complete."""

    task_id: TaskId
    artifact: Artifact
    """As it was announced."""
    location: str
    sha256: bytes

    def reads(self, reads: ReadSet) -> None:
        """Read the task, the run's record if it has ended, and the artifact."""
        _read_upload(reads, self.task_id, self.artifact)

    def apply(self, work: UnitOfWork) -> Artifact:
        """Return the artifact; if the same bytes were stored before, its location is the earlier one.

        Raises `TaskNotFound`, `StaleRun`, `ArtifactNotFound` if it has expired, and `ArtifactConflict` if the run has
        ended or the artifact is stored with other content.
        """
        task = get_task(work, self.task_id)
        kept = work.artifacts.get(self.artifact.key)
        if kept is None or kept.id != self.artifact.id or kept.is_expired(work.now):
            raise ArtifactNotFound(f"the upload of {self.artifact.name!r} is no longer expected; announce it again")
        if kept.is_stored:
            if kept.sha256 != self.sha256:
                raise ArtifactConflict(f"artifact {kept.name!r} is already stored with different content")
            return kept
        run = work.resolved.get((task.seq, kept.run_id))
        check_uploadable(task, run, kept.run_id, work.now)
        kept.state, kept.location, kept.sha256, kept.created_at = "stored", self.location, self.sha256, work.now
        work.write_artifact(kept)
        work.touched(task)
        return kept


@dataclass(slots=True)
class SweepArtifacts:
    """Deletes the rows of expired artifacts and abandoned uploads."""

    rows = MOST

    def reads(self, reads: ReadSet) -> None:
        """Read them."""
        reads.dead_artifacts = (MOST, ABANDONED)

    def apply(self, work: UnitOfWork) -> list[str]:
        """Return the locations of their objects, for the caller to remove after the commit."""
        for artifact in work.dead_artifacts:
            work.remove_artifact(artifact)
        return [artifact.location for artifact in work.dead_artifacts]
