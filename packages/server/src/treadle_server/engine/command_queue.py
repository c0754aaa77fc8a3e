"""The commands that wait for the writer, and how many of them one batch takes."""

import asyncio
from collections import deque
from collections.abc import Sequence

from treadle_server.engine.commands import PromoteDue, Submit, SubmitEach
from treadle_server.engine.commands.reports import ReportMany
from treadle_server.engine.pending import Pending

MOST_ROWS = 1000
"""How many tasks one transaction writes at most, unless a single command has more."""

MOST_WAITING = 20_000
"""How many tasks may wait for the writer; beyond that submits are refused with 429 before memory grows."""

LARGE_SHARE = 5
"""How many times `MOST_WAITING` the tasks of commands larger than a batch may wait: a request may bring 10,000 tasks,
each with its dependencies, and several people may submit a flow at once."""

GATHER_TURNS, QUIET_TURNS = 8, 2
"""How many turns of the event loop a batch waits: at most, and at most while no command arrives.

A request is read in one turn and becomes a command in the next. Without this, of fifty HTTP clients that were answered
together the first got a commit to itself: 670 to 775 commits for 11,000 submits instead of 265 to 290, and 2,170 and
2,500 submits a second instead of 2,790, 3,060 and 3,190, in alternating runs on SQLite.
"""

_FOLLOWING = (ReportMany, Submit, SubmitEach, PromoteDue)
"""Commands that may be applied while the batch before is written; others have to read, and so must wait for it.

`PromoteDue` only reads due tasks: it waits until that batch is committed, but not until it is answered and published.
"""


class CommandQueue:
    """Commands in the order of their arrival."""

    def __init__(self, most_rows: int, most_waiting: int) -> None:
        self.most_rows = most_rows
        """How many tasks one batch has at most, unless one command has more."""
        self._most_waiting = most_waiting
        self._pending: deque[Pending] = deque()
        self._rows = [0, 0]
        """Tasks that wait to be written: those of commands that fit a batch, and those of larger ones. They are counted
        separately so that large submits don't cause small ones to be refused."""

    def __bool__(self) -> bool:
        return bool(self._pending)

    @property
    def rows(self) -> int:
        """Return how many tasks wait to be written."""
        return sum(self._rows)

    def is_full(self, pending: Pending) -> bool:
        """Return whether the command must be refused for now: too many tasks of its kind, large or small, wait."""
        is_large = pending.rows > self.most_rows
        return self._rows[is_large] >= self._most_waiting * (LARGE_SHARE if is_large else 1)

    def _count(self, rows: int, sign: int) -> None:
        self._rows[rows > self.most_rows] += sign * rows

    @property
    def may_follow(self) -> bool:
        """Whether the next command may be applied while the batch before is written."""
        return bool(self._pending) and isinstance(self._pending[0].command, _FOLLOWING)

    def add(self, pending: Pending) -> None:
        """Add a command behind the others."""
        self._pending.append(pending)
        self._count(pending.rows, 1)

    async def gather(self) -> None:
        """Wait for the commands of requests that have arrived already, or arrive while these are read."""
        quiet = 0
        for _ in range(GATHER_TURNS):
            rows = self.rows
            if quiet == QUIET_TURNS or not 0 < rows < self.most_rows:
                return
            await asyncio.sleep(0)
            quiet = quiet + 1 if self.rows == rows else 0

    def take(self, *, following: bool = False) -> list[Pending]:
        """Take waiting commands, up to the bound of rows: a lone command goes at once, and batches grow under load.

        For a batch that is `following` another, take only those before the first command that may not follow.
        """
        taken: list[Pending] = []
        rows = 0
        while self._pending and (not rows or rows + self._pending[0].rows <= self.most_rows):
            if following and not self.may_follow:
                break
            pending = self._pending.popleft()
            self._count(pending.rows, -1)
            rows += pending.rows
            if not pending.answer.cancelled():
                taken.append(pending)
        return taken

    def put_back(self, batch: Sequence[Pending]) -> None:
        """Put commands back at the front of the queue."""
        self._pending.extendleft(reversed(batch))
        for pending in batch:
            self._count(pending.rows, 1)
