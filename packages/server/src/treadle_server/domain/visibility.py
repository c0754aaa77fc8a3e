"""Which rooms a user may read that may not read all of them, and which workers are the user's own."""

from dataclasses import dataclass

from treadle.wire.names import SHARED_ROOMS


@dataclass(frozen=True, slots=True)
class Visibility:
    """What scopes of a kind name, mostly rooms: full names and prefixes. If all are named, `None` is used instead."""

    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def admits(self, room: str) -> bool:
        """Return whether the room's tasks, targets and events may be read."""
        return room in self.names or room.startswith(self.prefixes)

    def admits_job(self, room: str) -> bool:
        """Return whether jobs of the room are visible: those of shared rooms are to anyone who may read any room."""
        return self.admits(room) or (room in SHARED_ROOMS and not self.is_blind)

    def reaches_into(self, start: str) -> bool:
        """Return whether anything that begins with `start` is named."""
        return any(name.startswith(start) for name in (*self.names, *self.prefixes)) or start.startswith(self.prefixes)

    @property
    def is_blind(self) -> bool:
        """Return whether no room at all may be read."""
        return not (self.names or self.prefixes)

    def __str__(self) -> str:
        return repr((sorted(self.names), sorted(self.prefixes)))


BLIND = Visibility()
"""No room at all."""


@dataclass(frozen=True, slots=True)
class OwnWorkers:
    """The workers of a user that one of the user's tokens may act as."""

    owner: str
    named: Visibility | None
    """Which of them, by group and name as in scopes (`group/name`); None: all."""

    def __str__(self) -> str:
        return f"{self.owner!r} {self.named}"
