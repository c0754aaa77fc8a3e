"""The logs of the tasks that match a filter, for observers: a row for each line, reading only new lines."""

import asyncio
from collections import Counter
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.filters import TaskFilter
from treadle.wire.frames import LOGGED_TASKS
from treadle.wire.runs import LINES_AT_ONCE
from treadle_server.engine.hub import Batch
from treadle_server.live.views import POSITION_SECONDS, View, ViewRows
from treadle_server.operations.encode import dumps, logged_data
from treadle_server.store.read import logs
from treadle_server.store.read.logs import LoggedTask, LogRow

MOST_LINES = 5_000
"""Most lines that an observer is shown: the newest."""

MOST_BYTES = 4 * 1024 * 1024
"""Most bytes of these lines; the newest line is shown however long it is."""

REST = 9
"""The search for tasks pauses for this multiple of the time that it took: it may look through 100,000 of them."""


class _ShownLine(NamedTuple):
    """A log line, and its row as it is sent."""

    line: LogRow
    row: bytes


class LogsView(View):
    """The lines of the `LOGGED_TASKS` tasks that are running or changed last."""

    topic = "logs"

    def __init__(self, wanted: TaskFilter) -> None:
        self._wanted = wanted
        self._tasks: dict[int, LoggedTask] = {}
        self._read: dict[int, tuple[int, int] | None] = {}
        """The run and the line up to which each task's lines are read."""
        self._kept: dict[str, _ShownLine] = {}
        """In the order of logging."""
        self._has_more_tasks = self._has_older = False
        self._find_at = float("-inf")

    def concerns(self, batch: Batch) -> bool:
        """Return whether a task changed, logged something or was removed; of the filter's job, if it names one."""
        return batch.concerns(self._wanted.job)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each line, oldest first; the tasks are searched for at most once a second."""
        clock = asyncio.get_running_loop().time
        began = clock()
        if began >= self._find_at:
            await self._find(connection)
            self._find_at = clock() + max(POSITION_SECONDS, REST * (clock() - began))
            self.again_in = None
        else:
            self.again_in = self._find_at - began
        await self._read_on(connection)
        self._cut()
        rows = {key: kept.row for key, kept in self._kept.items()}
        return ViewRows(rows, len(rows), self._has_older, ahead=(0, False), is_partial=self._has_more_tasks)

    async def _find(self, connection: AsyncConnection) -> None:
        found, self._has_more_tasks = await logs.changed_last(connection, self._wanted, limit=LOGGED_TASKS)
        self._tasks = {task.seq: task for task in found}
        self._read = {seq: self._read.get(seq) for seq in self._tasks}
        self._kept = {key: kept for key, kept in self._kept.items() if kept.line.task_seq in self._tasks}

    async def _read_on(self, connection: AsyncConnection) -> None:
        found = await logs.behind(connection, self._read)
        of_task = Counter(line.task_seq for line in found)
        self._has_older = self._has_older or any(n == LINES_AT_ONCE for n in of_task.values())
        for line in found:
            self._read[line.task_seq] = max((line.run_id, line.line), self._read[line.task_seq] or (-1, -1))
            task = self._tasks[line.task_seq]
            key = f"{task.id} {line.run_id} {line.line}"
            self._kept[key] = _ShownLine(line, dumps(logged_data(key, task, line)))
        if found:
            self._kept = dict(sorted(self._kept.items(), key=lambda item: item[1].line.line))

    def _cut(self) -> None:
        """Drop the oldest lines beyond `MOST_LINES` and `MOST_BYTES`."""
        size = sum(len(kept.row) for kept in self._kept.values())
        over = len(self._kept) - MOST_LINES
        for key in list(self._kept)[:-1]:
            if size <= MOST_BYTES and over <= 0:
                return
            size, over = size - len(self._kept.pop(key).row), over - 1
            self._has_older = True
