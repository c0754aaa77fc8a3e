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
    """What a task's code wrote down itself: that it begins, goes on, has come to its end, or raises; and its steps."""

    what: Literal["begin", "beat", "end", "raise", "given", "effect", "used", "nap", "received"]
    task: str
    run: int
    at: float
    worker: str
    n: int
    """The payload that it was given."""
    target: str | None = None
    until: float | None = None
    """When its worker thought that the run's lease ends; None: nobody asked."""
    note: Any = None
    """What else is told: results that it was given, the step and the result that it used, a message."""

    @property
    def is_fenced(self) -> bool:
        """Whether its worker knew itself to hold the run."""
        return self.until is None or self.at < self.until


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
    claimed_at: float = 0.0
    """By the store's clock."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step as the tables have it at the end."""

    task: str
    name: str
    occurrence: int
    kind: str
    result: Any = None


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit that stands from before the first task to the end."""

    room: str
    name: str
    concurrency: int | None = None
    rate: tuple[int, float] | None = None
    """How many claims in how many seconds."""
    burst: int = 0


@dataclass(frozen=True, slots=True)
class Era:
    """A time in which the store's clock was off by as much."""

    began: float
    """By the monotonic clock."""
    off: float
    """Seconds that the store's clock is ahead of the monotonic one."""


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
    steps: list[StepRow] = field(default_factory=list)
    caps: list[Cap] = field(default_factory=list)
    limits_of_jobs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """What tasks of a job count against, in the job's room, as a registration says it."""
    eras: list[Era] = field(default_factory=list)
    """What the store's clock showed; when nothing is said, nobody asks when a claim was."""


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
        yield Mark(*json.loads(line))
