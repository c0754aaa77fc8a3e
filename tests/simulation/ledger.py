"""What workers and servers know that the verdict asks for."""

from dataclasses import dataclass, field
from math import inf

from tests.history.records import Mark

Key = tuple[str, int]
"""A task and the number of a run."""


@dataclass
class Absence:
    """A worker that has no connection."""

    worker: str
    since: float
    until: float = inf


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run."""

    reason: str
    claimed: float
    """When it was claimed at the earliest."""
    at: float
    worker: str
    """Whose it was, by the worker's name."""
    server: str
    """Where that worker was."""


@dataclass
class Ledger:
    """Leases that were told, claims that came, what ended, and who was disturbed."""

    marks: list[Mark] = field(default_factory=list)
    leases: dict[Key, float] = field(default_factory=dict)
    """Until when a run was promised to its worker."""
    released: set[Key] = field(default_factory=set)
    """Runs that their worker gave up by itself."""
    received: set[Key] = field(default_factory=set)
    troubles: list[tuple[float, str]] = field(default_factory=list)
    """When which worker, or a server, was disturbed."""
    absences: list["Absence"] = field(default_factory=list)
    """When workers had no connection, whether their server knew it by then or not."""
    names: dict[str, str] = field(default_factory=dict)
    """Which worker has an id."""
    sites: dict[str, str] = field(default_factory=dict)
    """At which server each worker is."""
    ended: dict[Key, "Ended"] = field(default_factory=dict)
    """Runs that are over, as their servers tell."""
