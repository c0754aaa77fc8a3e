"""A task and its runs, with one field for each column of their tables."""

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.names import INTERNAL
from treadle.wire.status import LEASED, Outcome, Reason, Status
from treadle_server.domain.encryption import is_sealed
from treadle_server.errors import ValidationFailed

NEVER_RUN = -1
"""The `run_id` of a task that was never claimed."""

RunKey = tuple[TaskId, int]
"""A task and the number of one of its runs, which fence every report."""

_INTERNAL = f"{INTERNAL}:"


class ClaimKey(NamedTuple):
    """The idempotency key under which a claim over HTTP may be repeated."""

    text: str
    body: bytes
    """A digest of the request's body, which must be the same."""


@dataclass(slots=True)
class Task:
    """A task with its open run, if it has one. JSON fields hold the text as it was received, never parsed again."""

    seq: int
    id: TaskId
    job_num: int
    lane: int
    job_name: str
    room: str
    status: Status
    priority: int
    due_at: datetime
    created_at: datetime
    updated_at: datetime
    payload: str
    content_hash: bytes
    submitter: str
    max_retries: int
    max_requeues: int
    retry_base: float
    retry_multiplier: float
    retry_randomization: float
    lease_seconds: float
    start_timeout: float
    heartbeat_increment: float
    schema_version: int
    timeout: float | None = None
    weight: int = 1
    on_failure: str = "hold"
    blocked: bool = False
    target_num: int | None = None
    target: str | None = None
    deadline: datetime | None = None
    pool: str | None = None
    tags: str | None = None
    scopes: str | None = None
    unique_key: str | None = None
    limit_key: str | None = None
    budget: float | None = None
    schedule_id: str | None = None
    version: int = 1
    run_id: int = NEVER_RUN
    worker_id: WorkerId | None = None
    taken_until: datetime | None = None
    unfenced: bool = False
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    next_retry_at: datetime | None = None
    retry_count: int = 0
    requeue_count: int = 0
    cancel_requested: bool = False
    settled: bool = False
    usage: float | None = None
    result: str | None = None
    error: str | None = None
    reason: Reason | None = None
    checkpoint: str | None = None
    progress: str | None = None
    usage_before: float | None = None
    """The usage of the runs that have ended; `usage` is the sum over all runs."""
    goes_first: bool = False
    """Whether it goes first in its target's line, whatever the priorities: it was resumed, or a run of it has ended."""
    trace: str | None = None
    """The trace context of its submit: W3C's `traceparent`, a space and `tracestate`, a line feed and `baggage`."""
    steps: int = 0
    """How many steps it keeps."""
    limits: str | None = None
    """The limits that it counts against, as JSON text; `limit_key` names their buckets, in the same order."""
    parked: bool = False
    """Whether only a limit keeps it waiting."""
    flow_id: str | None = None
    on_dependency_failure: str | None = None
    arguments_from: str | None = None
    unmet: int | None = None
    """How many of its dependencies have not ended as it needs them; None: it has none."""
    telling: int | None = None
    """How far the tasks that wait for it were notified of its state (`domain/dependencies.py`); None: none wait."""
    digest: bytes | None = None
    """The digest of its last run, if that has completed and only the task holds it (`domain/last_run.py`)."""

    @property
    def stands_in_line(self) -> bool:
        """Return whether more than its place in the queue decides when it may be claimed: a target, or limits."""
        return self.target_num is not None or self.limit_key is not None

    @property
    def trace_id(self) -> str | None:
        """Return the id of the trace that it belongs to, or None."""
        return None if self.trace is None else self.trace[3:35]

    @property
    def trace_context(self) -> dict[str, str]:
        """Return the headers that carry its trace context, by W3C's names."""
        if self.trace is None:
            return {}
        parent, _, rest = self.trace.partition(" ")
        state, _, baggage = rest.partition("\n")
        headers = {"traceparent": parent, "tracestate": state, "baggage": baggage}
        return {name: value for name, value in headers.items() if value}

    @property
    def is_leased(self) -> bool:
        """Return whether it has an open run."""
        return self.status in LEASED

    @property
    def is_internal(self) -> bool:
        """Return whether the server's own executors run it."""
        return self.job_name.startswith(_INTERNAL)

    @property
    def is_encrypted(self) -> bool:
        """Return whether it is encrypted, so that the server can't read its values; its payload decides, for good."""
        return is_sealed(self.payload)

    @property
    def is_bound(self) -> bool:
        """Return whether it belongs to a flow, waits for tasks, or is waited for."""
        return not (self.flow_id is None and self.unmet is None and self.telling is None)

    @property
    def has_run(self) -> bool:
        """Return whether it was ever claimed."""
        return self.run_id != NEVER_RUN

    @property
    def lease(self) -> timedelta:
        """Return how long a claim lasts without a heartbeat."""
        return timedelta(seconds=self.lease_seconds)


def check_times(due_at: datetime | None, deadline: datetime | None, *, due: str) -> None:
    """Raise `ValidationFailed` if the deadline is before the task may run; `due` names that instant in the message.

    An unknown instant, None, is not checked.
    """
    if due_at is not None and deadline is not None and deadline <= due_at:
        raise ValidationFailed(f"deadline: is before {due}, so the task could never run")


TASK_FIELDS = tuple(field.name for field in fields(Task))

task_values = attrgetter(*TASK_FIELDS)
"""Returns the values of all fields of a task, in their order."""


def copy_of(task: Task) -> Task:
    """Return a copy of the task, in a fifth of the time that `copy.copy` takes."""
    return Task(*task_values(task))


@dataclass(slots=True)
class Run:
    """An ended attempt at a task; it is written once and never changes.

    It is not frozen, because that would make it three times as expensive, and there is one for every task.
    """

    task_seq: int
    run_id: int
    status: Outcome
    reason: Reason | None
    error: str | None
    traceback: str | None
    worker_id: WorkerId | None
    usage: float | None
    claimed_at: datetime
    started_at: datetime | None
    ended_at: datetime
    digest: bytes | None = None
    """The digest that a repeated report of the same outcome must have."""


RUN_FIELDS = tuple(field.name for field in fields(Run))


@dataclass(frozen=True, slots=True)
class Hold:
    """What a run keeps after its task was cancelled or taken from it, until its code has stopped or its lease ends."""

    task_seq: int
    run_id: int
    worker_id: WorkerId
    target_num: int | None
    weight: int
    until: datetime
    task_id: TaskId
    lease_seconds: float
    slot_only: bool = False
    """Whether it only keeps its worker's slot, and does not keep the next run of its task from starting."""
    is_limited: bool = False
    """Whether its task counts against limits."""


class Lease(NamedTuple):
    """A run's lease after a command: a copy, because later commands of the batch may change the task itself."""

    id: TaskId
    run_id: int
    taken_until: datetime | None
    weight: int
    scopes: str | None
    cancel_requested: bool


def lease_of(task: Task) -> Lease:
    """Return the present lease of a task's open run."""
    return Lease(task.id, task.run_id, task.taken_until, task.weight, task.scopes, task.cancel_requested)
