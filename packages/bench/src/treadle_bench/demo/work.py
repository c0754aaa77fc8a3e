"""The demo's work: a task for each file, and one that adds up what they found."""

import asyncio
from collections import defaultdict
from pathlib import Path

from treadle import Client, Options, TaskHandle
from treadle.wire.status import Status
from treadle.wire.tasks import TaskItem
from treadle_bench.demo.progress import Progress
from treadle_bench.demo.summary import Summary, summarize
from treadle_bench.demo.tasks import Counts, examine, sum_up


class Work:
    """Submits the tasks and keeps their results."""

    def __init__(self, root: Path, files: list[str], progress: Progress) -> None:
        self._root = root
        self._files = files
        self._progress = progress
        self._ended: list[TaskItem] = []
        self._last: TaskItem | None = None

    async def run(self, client: Client) -> None:
        """Submit everything, and return when the last task has ended. Raises what `Client` raises."""
        bounds = [
            examine.bind(path=path, root=str(self._root), options=Options(tags={"package": _package(path)}))
            for path in self._files
        ]
        handles = await client.submit_many(bounds, wait=True)
        async with asyncio.TaskGroup() as group:
            for handle in handles:
                group.create_task(self._follow(handle))
        last = await client.submit(sum_up.bind(packages=self._packages()), wait=True)
        self._last = await last.wait()

    def summary(self) -> Summary:
        """Return the summary of the tasks that have ended so far."""
        return summarize(len(self._files), self._ended, self._last)

    async def _follow(self, handle: "TaskHandle[Counts]") -> None:
        item = await handle.wait()
        self._ended.append(item)
        self._progress.advance(item)

    def _packages(self) -> dict[str, Counts]:
        packages: defaultdict[str, Counts] = defaultdict(Counts)
        for item in self._ended:
            if item.status is Status.COMPLETED:
                packages[_package(item.payload["path"])] += Counts.model_validate(item.result)
        return dict(packages)


def _package(path: str) -> str:
    """Return the package, or the module, that a file belongs to."""
    return path.partition("/")[0].removesuffix(".py")
