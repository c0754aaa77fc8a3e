"""Follows the logs of the tasks that a filter means: of those that changed last, for they say something."""

from collections.abc import Callable

from treadle.encryption.fields import shown_texts
from treadle.wire.bulk import Frozen, FrozenTask
from treadle.wire.filters import TaskFilter
from treadle.wire.runs import LogItem
from treadle.wire.status import LEASED
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.state.logs import MergedLog

TASKS = 10
"""Tasks whose logs are merged."""

EVERY = 2.0
"""Seconds between two looks: at ten tasks of a thousand lines that is a megabyte at most."""

REST = 9
"""How much longer than it took the question for the tasks rests: it looks through all that there are."""


class LogReader:
    """Asks for the tasks, and for the lines of those that run or have changed since they were asked for.

    The tasks are asked for again when a push has told that some changed their states: what rests is not asked about.
    """

    def __init__(
        self,
        feed: Feed,
        log: MergedLog,
        wanted: TaskFilter,
        *,
        told: Callable[[], object] = object,
        steady: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`told` returns another object whenever something was pushed; `steady` tells the seconds."""
        self._feed = feed
        self._told = told
        self._steady = steady
        self._found: list[FrozenTask] = []
        self._told_then: object = None
        """What had been told when the tasks were asked for last."""
        self._rests_until = float("-inf")
        self._log = log
        self._wanted = wanted.model_dump(mode="json", exclude_none=True)
        self._read: dict[str, int] = {}
        """The version of each task when its lines were read last."""
        self.tasks = 0
        """Of how many tasks the lines are."""
        self.is_capped = False
        """Whether the filter means more tasks than that."""

    async def look(self) -> bool:
        """Look once; return whether any line is new. Raises `ProblemError` or `ConnectionFailed`."""
        if self._told() is not self._told_then and self._steady() >= self._rests_until:
            await self._find()
        news = [await self._read_one(task) for task in self._found if self._says_more(task)]
        return any(news)

    async def _find(self) -> None:
        told, began = self._told(), self._steady()
        answer = await self._feed.request("freeze", filter=self._wanted, order="updated", limit=TASKS)
        self._told_then, now = told, self._steady()
        self._rests_until = now + REST * (now - began)
        frozen = Frozen.model_validate(answer)
        self._found, self.tasks, self.is_capped = frozen.items, len(frozen.items), frozen.is_capped
        self._log.keep_only([task.id for task in frozen.items])

    def _says_more(self, task: FrozenTask) -> bool:
        return task.status in LEASED or self._read.get(task.id) != task.version

    async def _read_one(self, task: FrozenTask) -> bool:
        answer = await self._feed.request("logs", id=task.id)
        self._read[task.id] = task.version
        items = [LogItem.model_validate(shown_texts(self._feed.sealer, item)) for item in answer["items"]]
        return self._log.take(task.id, task.job_name, items)
