"""Searches for programs on which the model and the real thing part, shortens them, and runs one again."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.model.lockstep import Lockstep
from tests.model.operations import Operation
from tests.model.programs import programs
from tests.model.worlds import World

EXAMPLES = 25
"""Programs of a round; each has a seed of its own."""

PATIENCE = 30.0
"""Seconds of the processor for which a program that failed is shortened."""

Opening = Callable[[Path], AbstractContextManager[World]]
"""Makes a world without a task in a directory."""


class Enough(BaseException):
    """It was shortened for long enough."""


@dataclass
class Failure:
    """The shortest program so far on which they part."""

    program: Sequence[Operation]
    error: BaseException

    def __str__(self) -> str:
        return f"{self.error}\n\n{snippet(self.program)}"


def snippet(program: Sequence[Operation]) -> str:
    """Return a program as Python that runs it again on SQLite."""
    lines = "".join(f"    {operation!r},\n" for operation in program)
    return f"from tests.model.operations import *\nfrom tests.model.running import replay\n\nreplay([\n{lines}])\n"


class Search:
    """Programs, one after the other, each on a world of its own."""

    def __init__(self, opening: Opening, *, size: int = 40, servers: int = 1, patience: float = PATIENCE) -> None:
        """What fails is shortened for `patience` seconds of the processor."""
        self._patience = patience
        self._opening = opening
        self._programs = programs(size, servers=servers)
        self.failure: Failure | None = None
        self._began = self._failed_at = 0.0
        self.runs = 0
        self.steps = 0

    def run(self, first_seed: int, seconds: float) -> None:
        """Search for so many seconds of the processor. Raises AssertionError with the shortest program that failed."""
        self._began = time.process_time()
        until = self._began + seconds
        with asyncio.Runner() as runner:
            number = first_seed
            while time.process_time() < until and self.failure is None:
                self._round(runner, number, until)
                number += 1
        if self.failure is not None:
            raise AssertionError(f"seed {first_seed}, round {number - 1 - first_seed}: {self.failure}") from None

    @property
    def seconds(self) -> float:
        """Return how long it took, of the processor, until the first program failed."""
        return self._failed_at - self._began

    def _round(self, runner: asyncio.Runner, number: int, until: float) -> None:
        def attempt(program: list[Operation]) -> None:
            if self.failure is None and time.process_time() > until:
                raise Enough
            if self.failure is not None and time.process_time() > self._failed_at + self._patience:
                raise Enough
            self._attempt(runner, program)

        chosen = settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        )
        try:
            seed(number)(chosen(given(self._programs)(attempt)))()
        except (AssertionError, Enough):
            return

    def _attempt(self, runner: asyncio.Runner, program: Sequence[Operation]) -> None:
        self.runs += 1
        self.steps += len(program)
        with TemporaryDirectory(prefix="treadle-model-") as directory, self._opening(Path(directory)) as world:
            error = runner.run(perform(world, program))
        if error is None:
            return
        if self.failure is None:
            self._failed_at = time.process_time()
        if self.failure is None or len(program) <= len(self.failure.program):
            self.failure = Failure(program, error)
        raise AssertionError(str(error))


async def perform(world: World, program: Sequence[Operation]) -> BaseException | None:
    """Run the program; return how the two part, or what went wrong with the real thing."""
    # Errors are not raised through the server's task groups, which would wrap them.
    async with world.opened() as sites:
        lockstep = Lockstep(world, sites)
        try:
            await lockstep.run(program)
            await lockstep.look_at_runs()
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            return error
    return None


@contextmanager
def on_sqlite(directory: Path, template: Path) -> Iterator[World]:
    """Give a world on a copy of an empty database."""
    path = directory / "treadle.db"
    copyfile(template, path)
    yield World(f"sqlite:///{path}", directory)


def replay(program: Sequence[Operation]) -> None:
    """Run a program again, on SQLite. Raises what it failed with."""
    with TemporaryDirectory(prefix="treadle-model-") as directory, nullcontext(Path(directory)) as here:
        if error := asyncio.run(perform(World(f"sqlite:///{here / 'treadle.db'}", here), program)):
            raise error
