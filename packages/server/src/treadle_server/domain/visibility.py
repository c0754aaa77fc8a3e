"""Which rooms somebody reads who does not read all of them, and which workers are his own."""

from dataclasses import dataclass

from treadle.wire.names import SHARED_ROOMS


@dataclass(frozen=True, slots=True)
class Visibility:
    """What scopes of a kind name, mostly rooms: by names and by how they begin; where all are, `None` stands for it."""

    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def admits(self, room: str) -> bool:
        """Return whether the room is read: its tasks, targets and events."""
        return room in self.names or room.startswith(self.prefixes)

    def admits_job(self, room: str) -> bool:
        """Return whether jobs of the room are seen: those of the shared rooms are from every room that is read."""
        return self.admits(room) or (room in SHARED_ROOMS and not self.is_blind)

    def reaches_into(self, start: str) -> bool:
        """Return whether something that begins so is named."""
        return any(name.startswith(start) for name in (*self.names, *self.prefixes)) or start.startswith(self.prefixes)

    @property
    def is_blind(self) -> bool:
        """Return whether no room at all is read."""
        return not (self.names or self.prefixes)

    def __str__(self) -> str:
        return repr((sorted(self.names), sorted(self.prefixes)))


@dataclass(frozen=True, slots=True)
class OwnWorkers:
    """The workers of a user that one of his tokens may be."""

    owner: str
    named: Visibility | None
    """By group and name, as scopes write them (`group/name`); None: all of his."""

    def __str__(self) -> str:
        return f"{self.owner!r} {self.named}"
