"""Which outcomes a webhook gets, the body of a delivery, and when a failed one is tried again."""

import base64
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import orjson

from treadle.wire.names import GLOBAL
from treadle.wire.status import Status
from treadle_server.domain.tasks import NEVER_RUN, Task

FIRST_DELAY = 5.0
"""Seconds before the second try; each further delay is four times as long, up to `LONGEST_DELAY`."""

LONGEST_DELAY = 6 * 3600.0

MOST_RESULT = 65_536
"""The longest result, in characters, that a delivery contains; a longer one is left out, to be read from the task."""

MOST_ERROR = 10_000

PREFIX = "whsec_"
"""The prefix of secrets in Standard Webhooks."""


@dataclass(frozen=True, slots=True)
class Hook:
    """The part of a webhook that decides which outcomes it gets."""

    id: str
    room: str
    jobs: frozenset[str] | None
    """None: all."""
    statuses: frozenset[Status]

    def wants(self, task: Task) -> bool:
        """Return whether it gets the task's outcome; one in `@global` gets those of every room."""
        return (
            task.status in self.statuses
            and self.room in {GLOBAL, task.room}
            and (self.jobs is None or task.job_name in self.jobs)
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one delivery attempt."""

    status: int | None
    """The HTTP status; None if there was no answer."""
    error: str | None
    """What went wrong; None if the receiver accepted it."""
    retry_after: float | None = None
    """Seconds after which the receiver asks to be tried again."""
    is_final: bool = False
    """Whether another attempt is pointless."""


def reason_of(error: BaseException) -> str:
    """Return why an attempt failed: the exception's class, and its message or, as with httpx, that of its cause."""
    shown = error
    while not str(shown) and (cause := shown.__cause__ or shown.__context__) is not None:
        shown = cause
    return f"{type(error).__name__}: {shown}".removesuffix(": ")


def body_of(task: Task, at: datetime) -> str:
    """Return the JSON body for a task that has just ended, which stays the same for every attempt."""
    is_long = task.result is not None and len(task.result) > MOST_RESULT
    data: dict[str, Any] = {
        "id": task.id,
        "job_name": task.job_name,
        "room_id": task.room,
        "status": task.status,
        "reason": task.reason,
        "error": None if task.error is None else task.error[:MOST_ERROR],
        "result": None if task.result is None or is_long else orjson.Fragment(task.result),
        "result_is_left_out": is_long,
        "run_id": None if task.run_id == NEVER_RUN else task.run_id,
        "settled": task.settled,
        "target": task.target,
        "tags": None if task.tags is None else orjson.Fragment(task.tags),
        "submitter": task.submitter,
        "created_at": task.created_at,
        "started_at": task.started_at,
        "completed_at": task.completed_at,
        "version": task.version,
    }
    event = {"type": f"task.{task.status}", "timestamp": at, "data": data}
    return orjson.dumps(event, option=orjson.OPT_UTC_Z).decode()


def new_secret() -> str:
    """Return a new secret: 32 random bytes, in the form of Standard Webhooks."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`, by Standard Webhooks: HMAC-SHA256 of `id.timestamp.body`."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, sha256)).decode()


def delay_after(attempts: int, draw: Callable[[], float], asked: float | None = None) -> timedelta:
    """Return how long a delivery that failed `attempts` times waits: 5 s, 20 s, 80 s … 6 h, plus or minus a quarter.

    `asked` is the receiver's Retry-After in seconds, which is respected up to the longest delay.
    """
    base = min(FIRST_DELAY * 4 ** min(attempts - 1, 20), LONGEST_DELAY)
    seconds = base * (0.75 + 0.5 * draw())
    return timedelta(seconds=max(seconds, min(asked or 0.0, LONGEST_DELAY)))
