"""Runs many seeds, on several cores."""

import asyncio
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.simulation.simulation import simulate
from treadle_server.store.store import SqlStore


@dataclass(frozen=True, slots=True)
class Result:
    """What is told of a seed."""

    seed: int
    failures: list[str]
    faults: Counter[str]
    tasks: int
    turns: int
    simulated: float
    """Seconds of the simulation."""
    took: float
    """Seconds of the processor."""
    digest: str


@contextmanager
def template() -> Iterator[Path]:
    """Give an empty database with the newest schema."""

    async def migrate(path: Path) -> None:
        store = SqlStore(f"sqlite:///{path}")
        await store.open()
        await store.close()

    with TemporaryDirectory(prefix="treadle-simulation-") as directory:
        path = Path(directory, "template.db")
        asyncio.run(migrate(path))
        yield path


def run(seed: int, path: Path, planted: str = "") -> Result:
    """Run a seed."""
    began = time.process_time()
    outcome = simulate(seed, path, planted)
    took, digest = time.process_time() - began, outcome.journal.digest()
    seconds = outcome.seconds
    return Result(seed, outcome.failures, outcome.faults, outcome.tasks, outcome.turns, seconds, took, digest)


def _run(asked: tuple[int, Path, str]) -> Result:
    return run(*asked)


def run_many(seeds: Iterable[int], path: Path, *, processes: int = 1, planted: str = "") -> Iterator[Result]:
    """Run seeds on so many cores; results come as they are there."""
    asked = ((seed, path, planted) for seed in seeds)
    if processes == 1:
        yield from map(_run, asked)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_run, asked, chunksize=4)
