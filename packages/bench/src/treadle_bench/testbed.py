"""What a case measures with."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from treadle_bench.databases import Databases
from treadle_bench.figures import NONE
from treadle_bench.harness import Harness, open_harness


@dataclass(frozen=True, slots=True)
class Soak:
    """How long a server is kept busy, and with how many tasks per second."""

    minutes: float = 60.0
    rate: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Testbed:
    """The database to measure on, the sizes, and how to open a server."""

    database: str
    databases: Databases
    scratch: Path
    scale: float = 1.0
    repeats: int = 3
    soak: Soak = field(default_factory=Soak)

    def count(self, most: int, *, least: int = 20) -> int:
        """Return how many of something to use: `most` times the scale, but not fewer than `least`."""
        return max(min(least, most), round(most * self.scale))

    @contextmanager
    def server(self, **settings: str) -> Iterator[Harness]:
        """Run a server on an empty database during the block; `settings` are environment variables."""
        with self.home() as home, open_harness(home, **settings) as harness:
            yield harness

    @contextmanager
    def home(self) -> Iterator[dict[str, str]]:
        """Yield the settings for servers that share a fresh data directory and database during the block."""
        with ExitStack() as stack:
            directory = stack.enter_context(
                TemporaryDirectory(prefix="treadle-bench-", dir=self.scratch, ignore_cleanup_errors=True)
            )
            settings = {"TREADLE_DATA_DIR": directory}
            if self.database != NONE and (url := stack.enter_context(self.databases.fresh(self.database))):
                settings["TREADLE_DATABASE_URL"] = url
            yield settings
