"""An artifact, and how long a run may upload one (C10)."""

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Literal

from treadle.wire.status import Outcome
from treadle_server.domain.tasks import Run, Task
from treadle_server.errors import ArtifactConflict, StaleRun

AFTER_EXCEPTION = timedelta(minutes=20)
"""How long a run that ended in an exception may still upload, since its logs are then needed most."""


@dataclass(slots=True)
class Artifact:
    """A file of a run, announced or stored, with one field for each column of the table."""

    id: str
    task_seq: int
    run_id: int
    name: str
    content_type: str
    size: int
    sha256: bytes | None
    """The announced digest while it is uploading, then that of what was stored."""
    location: str
    """The object's key in the store of artifacts, unique to each upload."""
    state: Literal["uploading", "stored"]
    created_at: datetime
    expires_at: datetime | None

    @property
    def key(self) -> tuple[int, int, str]:
        """Return the unique key of the artifact: (task seq, run id, name)."""
        return (self.task_seq, self.run_id, self.name)

    @property
    def is_stored(self) -> bool:
        """Return whether it can be fetched."""
        return self.state == "stored"

    def is_expired(self, now: datetime) -> bool:
        """Return whether it has expired."""
        return self.expires_at is not None and self.expires_at <= now


ARTIFACT_FIELDS = tuple(field.name for field in fields(Artifact))


def check_uploadable(task: Task, run: Run | None, run_id: int, now: datetime) -> None:
    """Check that run `run_id` of the task may upload now; `run` is its record if it has ended.

    Raises `StaleRun` if there is no such run, and `ArtifactConflict` if it has ended, or, if it ended in an exception,
    once `AFTER_EXCEPTION` has passed since.
    """
    if task.is_leased and task.run_id == run_id:
        return
    if run is None:
        raise StaleRun(f"task {task.id} has no run {run_id}: nothing can be uploaded to it")
    if run.status is not Outcome.EXCEPTION:
        raise ArtifactConflict(f"run {run_id} has ended ({run.status}): its artifacts are final")
    if now >= run.ended_at + AFTER_EXCEPTION:
        minutes = AFTER_EXCEPTION.total_seconds() / 60
        raise ArtifactConflict(
            f"run {run_id} ended in an exception more than {minutes:.0f} minutes ago: its artifacts are final"
        )


def same_upload(kept: Artifact, wanted: Artifact, *, is_expiry_named: bool) -> bool:
    """Return whether an upload that was announced before is the same as the one announced now."""
    same_digest = kept.sha256 is None or wanted.sha256 is None or kept.sha256 == wanted.sha256
    same_expiry = not is_expiry_named or kept.expires_at == wanted.expires_at
    return (kept.content_type, kept.size) == (wanted.content_type, wanted.size) and same_digest and same_expiry
