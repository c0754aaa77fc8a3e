"""The commands that wait for the writer, and how many of them one batch takes."""

import asyncio
from collections import deque
from collections.abc import Sequence

from treadle_server.engine.commands import PromoteDue, Submit, SubmitEach
from treadle_server.engine.commands.reports import ReportMany
from treadle_server.engine.pending import Pending

MOST_ROWS = 1000
"""Tasks that one transaction writes at most, unless a single command has more."""

MOST_WAITING = 20_000
"""Tasks that wait for the writer at most; beyond, submitters are told to come back (429) before memory grows."""

LARGE_SHARE = 5
"""So many times as many tasks may wait that are of commands with more than a batch: a request may bring 10,000 tasks,
each with what it waits for, and several people may hand in a flow at once."""

GATHER_TURNS, QUIET_TURNS = 8, 2
"""Turns of the loop for which a batch waits at most: while commands come, and while none does; a request is read in one
turn, and asks in the next.

Of fifty HTTP clients that were answered together the first had a commit to themselves: 670 to 775 commits for 11,000
submits instead of 265 to 290, and 2,170 · 2,500 submits a second instead of 2,790 · 3,060 · 3,190, in turn on SQLite.
"""

_FOLLOWING = (ReportMany, Submit, SubmitEach, PromoteDue)
"""Commands that may be applied while the batch before is written; others would have to read, and so wait for it.

Who promotes reads too, but nothing else: it waits only until that one is committed, not until it was told.
"""


class CommandQueue:
    """Commands in the order in which they came."""

    def __init__(self, most_rows: int, most_waiting: int) -> None:
        self.most_rows = most_rows
        """Tasks that one batch has at most, unless one command has more."""
        self._most_waiting = most_waiting
        self._pending: deque[Pending] = deque()
        self._rows = [0, 0]
        """Tasks that wait to be written: those of commands that have no more than a batch, and those of large ones, for
        who puts in many tasks turns away nobody who has few."""

    def __bool__(self) -> bool:
        return bool(self._pending)

    @property
    def rows(self) -> int:
        """Return how many tasks wait to be written."""
        return sum(self._rows)

    def is_full(self, pending: Pending) -> bool:
        """Return whether a command that comes now is to come back later: too much of its kind, large or not, waits."""
        is_large = pending.rows > self.most_rows
        return self._rows[is_large] >= self._most_waiting * (LARGE_SHARE if is_large else 1)

    def _count(self, rows: int, sign: int) -> None:
        self._rows[rows > self.most_rows] += sign * rows

    @property
    def may_follow(self) -> bool:
        """Whether the next command may be applied while the batch before is written."""
        return bool(self._pending) and isinstance(self._pending[0].command, _FOLLOWING)

    def add(self, pending: Pending) -> None:
        """Let a command wait behind the others."""
        self._pending.append(pending)
        self._count(pending.rows, 1)

    async def gather(self) -> None:
        """Let those come along with what waits whose requests are there already, or come while these are read."""
        quiet = 0
        for _ in range(GATHER_TURNS):
            rows = self.rows
            if quiet == QUIET_TURNS or not 0 < rows < self.most_rows:
                return
            await asyncio.sleep(0)
            quiet = quiet + 1 if self.rows == rows else 0

    def take(self, *, following: bool = False) -> list[Pending]:
        """Take what waits, up to a bound of rows: a lone command is not kept waiting, and a batch grows under load.

        For a batch that is `following` another it is what waits before the first command that may not.
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
        """Let commands wait again, before all others."""
        self._pending.extendleft(reversed(batch))
        for pending in batch:
            self._count(pending.rows, 1)
