"""What a program of the lock-step is made of: each operation knows its request, and what the model answers to it.

Tasks, runs, workers and schedules are named by numbers, which mean whatever stands there when their turn comes: so a
program that was shortened is still one, and prints as Python that can be run again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from tests.model.reference import SHOWN, Treadle
from tests.model.rights import Gate
from tests.model.things import ROOT, Refused, Task, User

USERS = (ROOT, User("ann"))
ROOMS = ("lab", "den")
JOBS = ("@global:tasks:shared", "@global:tasks:fair", "lab:tasks:own", "@global:tasks:keyed")
SPECS: tuple[dict[str, Any], ...] = (
    {"retain": True},
    {"retain": True, "fair": "room"},
    {"retain": False, "max_retries": 1, "retry_base": 4.0, "max_requeues": 2, "lease_seconds": 30.0},
    {
        "retain": False,
        "limits": [
            {
                "name": "per",
                "key": "/n",
                "concurrency": 2,
                "rate": {"count": 1, "seconds": 4.0, "burst": 3},
            }
        ],
    },
)
"""What each of the jobs is registered with."""

LIMIT = "limit:"
"""How limits begin among what keeps a task waiting. Who waits for one is a hint: of several queues that wait for one
place each is let through, and only the claim that comes too late has its task wait again."""

Body = dict[str, Any]

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """What is asked over HTTP; or, where `path` is an operation of the socket, by the method SOCKET."""

    user: User
    method: str
    path: str
    body: Body | None = None
    key: str | None = None
    """The `Idempotency-Key`."""


class Told(NamedTuple):
    """An answer of the model whose status is not 200."""

    status: int
    seen: Any


@dataclass(frozen=True)
class Moment:
    """What an operation is answered by: the model, the time, and the ids that the server has given."""

    model: Treadle
    then: Treadle
    """As it was when the request was made, which says who is meant."""
    now: datetime
    names: Iterator[str]
    told: Any = None
    """The answer of the real one, of which only choices that are free are taken."""
    knows_turns: bool = True
    """Whether it is known whose turn it is."""
    least: int | None = None
    """Tasks that a claim must give at least, where it may miss some that are there; None: it misses nothing."""
    server: int = 0
    """Which of them does it."""
    is_in_batch: bool = False
    """Whether others are written in the same transaction, at whose end schedules go on."""
    passed: float = 0.0
    """Seconds by a clock that nobody sets."""
    asker: User | None = None
    """Who asks instead of the user that the operation names: a run's credential."""

    def by(self, user: User) -> User:
        """Return who asks."""
        return self.asker or user

    def with_asker(self, user: User) -> "Moment":
        """Return the moment with another user who asks."""
        return replace(self, asker=user)


@dataclass(frozen=True)
class Operation:
    """One request, or None where there is nothing to ask about; `answer` is the model's."""

    @property
    def gate(self) -> Gate:
        """How a credential is let in, as `Rights.admit` says."""
        return "open"

    def request(self, model: Treadle, now: datetime) -> Request | None:
        raise NotImplementedError

    def answer(self, at: Moment) -> Any:
        """Do it to the model and return what is to be seen of the answer, or raise `Refused`."""
        raise NotImplementedError

    def seen(self, body: Any) -> Any:
        """Return the part of the real answer that is compared."""
        return body

    def gist(self, seen: Any) -> Any:
        """Return what is to be compared of an answer that is told of a moment between others'."""
        return None

    def names(self, model: Treadle) -> str | None:
        """Return the task that the route names."""
        return None


def answered(operation: Operation, at: Moment) -> tuple[int, Any]:
    """Return the status and what is seen of the model's answer."""
    try:
        answer = operation.answer(at)
    except Refused as refused:
        return refused.status, refused.name
    if not at.is_in_batch:
        at.model.go_on(at.now)
    at.model.delete_orphans()
    return (answer.status, answer.seen) if isinstance(answer, Told) else (200, answer)


def nth(number: int, items: Iterable[T]) -> T | None:
    """Return one of the items; None when there are none."""
    found = list(items)
    return found[number % len(found)] if found else None


def the(number: int, items: Iterable[T]) -> T:
    """Return one of the items, of which there are some: there was a request that names it."""
    found = list(items)
    return found[number % len(found)]


def chosen_id(number: int) -> str:
    """Return the id number so and so that a submitter chose."""
    return str(UUID(int=(7 << 76) | (8 << 60) | number))


def is_chosen(task_id: str) -> bool:
    """Return whether a submitter chose the id."""
    return task_id.startswith("00000000-0000-7000-8")


def task_seen(body: Body) -> Body:
    """Return what the model knows of a task as well."""
    seen = {name: body.get(name) for name in (*SHOWN, "queue_position", "blocked_by")}
    named = [
        (*map(one.get, ("room", "name")), one["key"] or "", one["weight"], one["own"])
        for one in body.get("counts_against") or ()
    ]
    seen["counts_against"] = sorted(named)
    return seen | {"blocked_by": [one for one in body.get("blocked_by") or () if not one.startswith(LIMIT)] or None}


def owner(name: str) -> User:
    """Return the user of this name."""
    return next(user for user in USERS if user.name == name)


def run_meant(model: Treadle, task: int, back: int) -> tuple[Task, int] | None:
    """Return a task and its last run, or one before it; None when there is no task."""
    # Mostly of the runs that are open: reports of others are refused, one like the other.
    leased = [one for one in model.tasks.values() if one.is_leased]
    found = nth(task, leased if leased and task % 4 else model.tasks.values())
    return None if found is None else (found, max(0, (found.run_id or 0) - back))


def problem_of(body: Body) -> str:
    """Return the name of a problem."""
    return str(body["type"]).rpartition("/")[2]
