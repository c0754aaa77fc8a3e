"""The demo's progress: a bar in a terminal, a line for each tenth elsewhere, or nothing."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from treadle.cli.show import say
from treadle.wire.shown import clean
from treadle.wire.tasks import TaskItem


class Progress(Protocol):
    """Is notified of each task that has ended."""

    def advance(self, item: TaskItem) -> None:
        """Note that `item` has ended."""


class Silence:
    """Shows nothing."""

    def advance(self, item: TaskItem) -> None:
        """Do nothing."""


class Lines:
    """Prints a line for each tenth of the tasks, for logs and pipes."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._ended = 0

    def advance(self, item: TaskItem) -> None:
        """Count the task, and print a line if another tenth has ended."""
        before, self._ended = self._ended, self._ended + 1
        if self._tenths(self._ended) > self._tenths(before):
            say(f"{self._ended:>7,} of {self._total:,} tasks have ended")

    def _tenths(self, ended: int) -> int:
        return 10 * ended // self._total


class ProgressBar:
    """Shows a bar with the file examined last."""

    def __init__(self, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Columns

        self.columns = Columns(
            MofNCompleteColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
        )
        self._task = self.columns.add_task("", total=total)

    def advance(self, item: TaskItem) -> None:
        """Advance by one task."""
        self.columns.update(self._task, advance=1, description=clean(str(item.payload["path"])[-40:]))


@contextmanager
def progress_for(files: Sequence[str], *, is_silent: bool) -> Iterator[Progress]:
    """Yield the form of progress that suits the output."""
    if is_silent:
        yield Silence()
    elif sys.stdout.isatty():
        bar = ProgressBar(len(files))
        with bar.columns:
            yield bar
    else:
        yield Lines(len(files))
