"""What happened in a simulation, in order: kept as it comes, written out when somebody reads it."""

from collections.abc import Callable, Iterator
from hashlib import sha256

from tests.simulation.loop import PROCESS


class Journal:
    """Lines, each with its instant and whose it is."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._lines: list[tuple[float, str, str, tuple[object, ...]]] = []
        self.defects: list[str] = []
        """What may not happen whatever comes: errors in logs, refusals that are wrong."""

    def note(self, what: str, *details: object, who: str | None = None) -> None:
        """Add a line: `what` is a format of `str.format`."""
        if who is None:
            process = PROCESS.get(None)
            who = "-" if process is None else process.name
        self._lines.append((self._now() - self._began, who, what, details))

    def defect(self, text: str, who: str | None = None) -> None:
        """Note what may not happen."""
        self.note("DEFECT {}", text, who=who)
        self.defects.append(text)

    def lines(self) -> Iterator[str]:
        """Write it out."""
        for at, who, what, details in self._lines:
            yield f"{at:11.6f} {who:>9} {what.format(*details)}"

    def digest(self) -> str:
        """Return a digest of all lines."""
        return sha256("\n".join(self.lines()).encode()).hexdigest()
