"""What a history is made of: what was asked and answered, what tasks did, what befell machines, what tables say.

Every time is in seconds of the machine's monotonic clock, which its processes share and no step of the time of day
moves.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Answer = Literal["acknowledged", "refused", "unknown"]
"""`refused` has changed nothing; `unknown` may have been carried out, or still be."""

VERBS = ("cancel", "pause", "resume", "rerun", "resolve")
TERMINAL = ("completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Said:
    """One request about one task, and what it was answered."""

    client: str
    op: str
    """`submit`, `edit`, a verb, `get` or `runs`."""
    task: str
    sent: float
    answered: float | None
    """None: no answer came."""
    answer: Answer
    fields: dict[str, Any] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether it was acknowledged."""
        return self.answer == "acknowledged"

    @property
    def may_count(self) -> bool:
        """Whether it was, or may have been, carried out."""
        return self.answer != "refused"

    def ends_before(self, other: "Said") -> bool:
        """Whether it was over before the other was begun; of one without an answer nobody knows."""
        return self.is_done and self.answered is not None and self.answered < other.sent


@dataclass(frozen=True, slots=True)
class Mark:
    """What a task's code wrote down itself: that it begins, goes on, has come to its end, or raises."""

    what: Literal["begin", "beat", "end", "raise"]
    task: str
    run: int
    at: float
    worker: str
    n: int
    """The payload that it was given."""
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was done to a process or a link."""

    kind: str
    on: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as the tables have it at the end."""

    id: str
    seq: int
    status: str
    version: int
    payload: dict[str, Any]
    priority: int = 0
    target: str | None = None
    room: str = "lab"
    result: Any = None
    reason: str | None = None
    lease_seconds: float = 60.0
    max_retries: int = 0
    max_requeues: int = 0
    settled: bool = False
    created_at: float = 0.0
    """By the store's clock, which may have been set meanwhile."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """An attempt as the tables have it at the end."""

    task: str
    run: int
    status: str
    reason: str | None = None


@dataclass
class History:
    """Everything that is held against the rules."""

    said: list[Said] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    tasks: list[TaskRow] = field(default_factory=list)
    runs: list[RunRow] = field(default_factory=list)
    observed: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    """For each observer the status and version of each task that it knows, at the end."""
    scopes: dict[str, set[str]] = field(default_factory=dict)
    """Which tasks an observer is to know; all of them when nothing is said."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that does not hold, and where."""

    rule: str
    task: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: task {self.task}: {self.detail}"


def marks_in(path: Path) -> Iterator[Mark]:
    """Read a journal; a last line that its writer was killed in the midst of is left out."""
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n")[:-1]:
        what, task, run, at, worker, n, target = json.loads(line)
        yield Mark(what, task, run, at, worker, n, target)
