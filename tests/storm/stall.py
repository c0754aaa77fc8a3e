"""How late a timer of ten milliseconds is in a process that does nothing else: how long the machine stood still."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

STEP = 0.01
"""Seconds of the timer."""

NOTED = 0.02
"""Seconds of lateness from which on it is written down."""


@dataclass(frozen=True, slots=True)
class Stalls:
    """When the machine held everything up, by the monotonic clock, and for how many seconds."""

    noted: tuple[tuple[float, float], ...] = ()

    def worst(self, begin: float, end: float) -> float:
        """Return how late the timer was at most in this time."""
        return max((late for at, late in self.noted if begin <= at <= end + STEP), default=0.0)


@contextmanager
def watched(path: Path) -> Iterator[None]:
    """Write down in a file how late the timer is, during the block."""
    process = subprocess.Popen([sys.executable, __file__, str(path)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def stalls_in(path: Path) -> Stalls:
    """Read the file; a last line that its writer was killed in the midst of is left out."""
    lines = path.read_text().split("\n")[:-1]
    return Stalls(tuple((float(at), float(late)) for at, late in (line.split() for line in lines)))


async def watch_here(noted: list[tuple[float, float]]) -> None:
    """Note for ever how late the timer is in this loop, through which all that passes the wires goes."""
    while True:
        began = time.monotonic()
        await asyncio.sleep(STEP)
        if (late := time.monotonic() - began - STEP) > NOTED:
            noted.append((began + STEP + late, late))


def main(path: Path) -> None:
    """Write for ever."""
    with path.open("a", buffering=1) as file:
        while True:
            began = time.monotonic()
            time.sleep(STEP)
            if (late := time.monotonic() - began - STEP) > NOTED:
                file.write(f"{began + STEP + late} {late}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
