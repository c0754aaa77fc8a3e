"""What workers and servers know that the verdict asks for."""

from dataclasses import dataclass, field
from math import inf

from tests.history.records import Mark

Key = tuple[str, int]
"""A task and the number of a run."""


@dataclass
class Presence:
    """A worker that is open at a server, until something befalls it."""

    id: str
    """As which it is open: who died and forgot it comes back as another, and for its former self nobody is there."""
    worker: str
    server: str
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
    """Whose it was, by its id."""


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
    """When which server was disturbed."""
    presences: list[Presence] = field(default_factory=list)
    ended: dict[Key, "Ended"] = field(default_factory=dict)
    """Runs that are over, as their servers tell."""
