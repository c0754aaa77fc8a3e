"""The statuses of tasks, and the outcomes and reasons of runs."""

import re
from enum import StrEnum
from typing import Any, Literal, TypeAlias, get_args

_WORD = re.compile(r"[a-z]{1,30}(-[a-z]{1,30}){0,5}")


class Word(StrEnum):
    """A string enumeration whose members hash as the strings that they equal.

    The hash of an Enum is a call of Python code, and each task needs a dozen of them.
    """

    __hash__ = str.__hash__

    def __reduce_ex__(self, proto: object) -> tuple[Any, ...]:
        """Pickle by value: Python 3.11.2 pickles by name, which does not exist here for a newer server's word."""
        return type(self), (self.value,)


class Status(Word):
    """The status of a task."""

    SCHEDULED = "scheduled"
    """Not due yet, waiting for a retry, asleep, or waiting for a message."""
    BLOCKED = "blocked"
    """Waits for other tasks."""
    PENDING = "pending"
    """In its job's queue, at a queue position."""
    CLAIMED = "claimed"
    """A worker holds its lease and has not started it yet."""
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


Ended: TypeAlias = Literal["completed", "failed", "cancelled"]
"""One of `TERMINAL`, in words."""

Leased: TypeAlias = Literal["claimed", "running"]
"""One of `LEASED`, in words."""

AnyStatus: TypeAlias = Literal["scheduled", "blocked", "pending", "paused"] | Leased | Ended
"""One of `Status`, in words."""

TERMINAL = frozenset(map(Status, get_args(Ended)))
"""The statuses that a task leaves only by the explicit verbs resume, resolve and rerun."""

OPEN = frozenset(Status) - TERMINAL
"""The statuses of a task that may still run."""

LEASED = frozenset(map(Status, get_args(Leased)))
"""The statuses in which a worker holds a run of the task."""

WAITING = OPEN - LEASED - {Status.PAUSED}
"""The statuses of a task that waits to run and will do so by itself; an edit may change it."""


class Outcome(Word):
    """How a run ended; once set it never changes."""

    COMPLETED = "completed"
    FAILED = "failed"
    """The task's code raised, or ran out of time."""
    EXCEPTION = "exception"
    """Something other than the task's code ended the run; the reason says what."""
    PAUSED = "paused"
    CANCELLED = "cancelled"
    RETURNED = "returned"
    """Handed back before it was started; costs no budget."""
    SUSPENDED = "suspended"
    """The code sleeps or waits for a message; costs no budget."""


class Reason(Word):
    """Why a run did not complete."""

    ERROR = "error"
    TIMEOUT = "timeout"
    MALFORMED_PAYLOAD = "malformed-payload"
    INTERNAL_ERROR = "internal-error"
    RESOURCE_UNAVAILABLE = "resource-unavailable"
    WORKER_SHUTDOWN = "worker-shutdown"
    INTERMITTENT_TASK = "intermittent-task"
    CLAIM_EXPIRED = "claim-expired"
    START_TIMEOUT = "start-timeout"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    BUDGET_EXCEEDED = "budget-exceeded"
    DEADLINE_EXCEEDED = "deadline-exceeded"
    RETURNED = "returned"
    SUSPENDED = "suspended"
    DEPENDENCY_FAILED = "dependency-failed"
    SUPERSEDED = "superseded"

    @classmethod
    def _missing_(cls, value: object) -> "Reason | None":
        """Accept the plural that Taskcluster's workers send, and a reason that only a newer server knows."""
        if value == "resources-unavailable":
            return cls.RESOURCE_UNAVAILABLE
        if not isinstance(value, str) or not _WORD.fullmatch(value):
            return None
        newer = str.__new__(cls, value)
        newer._name_ = newer._value_ = value
        return newer


RETRIED = frozenset({Reason.ERROR, Reason.TIMEOUT})
"""Reasons that spend the budget of retries."""

REQUEUED = frozenset({Reason.WORKER_SHUTDOWN, Reason.INTERMITTENT_TASK, Reason.CLAIM_EXPIRED, Reason.START_TIMEOUT})
"""Reasons that spend the budget of requeues."""

REPORTABLE = frozenset(
    {
        Reason.ERROR,
        Reason.TIMEOUT,
        Reason.MALFORMED_PAYLOAD,
        Reason.INTERNAL_ERROR,
        Reason.RESOURCE_UNAVAILABLE,
        Reason.WORKER_SHUTDOWN,
        Reason.INTERMITTENT_TASK,
        Reason.RETURNED,
    }
)
"""Reasons that a worker may report; only the server sets the others."""


class WorkerState(Word):
    """Whether a worker is connected and takes tasks."""

    ONLINE = "online"
    DRAINING = "draining"
    LOST = "lost"
