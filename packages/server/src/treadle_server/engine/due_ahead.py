"""Tasks that are due soon, read before they are: of many that wake at the same moment none is read in that moment.

Of ten thousand that had slept until one moment reading them took SQLite's server a sixth of the time after it, and with
what else it is spared each took it 137 microseconds of processor time instead of 177, in turn.

What is kept is whatever is scheduled up to a moment, in the order in which it is due and as the database has it. It is
read in the writer's own transactions, and each batch is followed: what it changed is kept no more, and nothing is when
it scheduled something before that moment, or has a kept task tell others of its end. Who writes beside this server, and
a batch that fails, end it all (`Cache`); where other servers may write at any time nothing is kept.
"""

from collections import deque
from collections.abc import Iterable
from datetime import datetime

from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.store.base import Tx
from treadle_server.store.transaction.promotions import Due, due_seqs, due_tasks_by_seq

MOST = 10_000
"""Tasks that are kept, about 15 MB without their payloads."""

LEAST = 300
"""Fewer are not worth it: they are read within some milliseconds when they are due."""

MOST_BYTES = 4 * 1024 * 1024
"""Characters of payload that are kept; what comes behind them is read when it is due."""

PORTION = 200
"""Tasks that one transaction reads: some three milliseconds."""


class DueAhead:
    """What is known of the tasks that are due next."""

    def __init__(self) -> None:
        self._until: datetime | None = None
        """Nothing else is scheduled up to then, as far as it is read; None: nothing is known."""
        self._unread: deque[int] = deque()
        """Numbers of tasks that are due behind those that are kept."""
        self._is_cut = False
        """Whether some of these are read when they are due."""
        self._kept: dict[int, tuple[Task, bool]] = {}
        """By number, and in their order, each with whether it waits for nothing else any more."""
        self._size = 0

    def clear(self) -> None:
        """Forget everything."""
        self._until, self._is_cut, self._size = None, False, 0
        self._unread.clear()
        self._kept.clear()

    async def read(self, tx: Tx, until: datetime) -> bool:
        """Read on, or from the beginning what is due up to `until` if nothing is kept; return whether there is more."""
        if not tx.is_exclusive:
            return False
        if self._until is None:
            seqs = await due_seqs(tx, until, MOST + 1)
            if len(seqs) < LEAST:
                return False
            self._until, self._unread, self._is_cut = until, deque(seqs[:MOST]), len(seqs) > MOST
        portion = [self._unread.popleft() for _ in range(min(PORTION, len(self._unread)))]
        if portion:
            self._keep(portion, await due_tasks_by_seq(tx, portion))
        if self._size > MOST_BYTES:
            self._is_cut = self._is_cut or bool(self._unread)
            self._unread.clear()
        return bool(self._unread)

    def _keep(self, portion: Iterable[int], found: Due) -> None:
        tasks, free = found
        by_seq = {task.seq: task for task in tasks}
        for seq in portion:
            task = by_seq.get(seq)
            if task is not None and task.status is Status.SCHEDULED:
                self._kept[seq] = task, seq in free
                self._size += len(task.payload)

    def take(self, now: datetime, most: int) -> Due | None:
        """Return up to `most` tasks that are due, in their order, which are not kept any more, and as `due_tasks` does.

        None when they are to be read.
        """
        if self._until is None:
            return None
        due: list[Task] = []
        for task, _ in self._kept.values():
            if len(due) == most or task.due_at > now:
                break
            due.append(task)
        is_all = now <= self._until and not (self._unread or self._is_cut)
        if len(due) < most and not is_all:
            self.clear()
            return None
        return due, {task.seq for task in due if self._kept.pop(task.seq)[1]}

    def follow(self, changed: Iterable[Task], watched: Iterable[int]) -> None:
        """Follow a batch: tasks that it changed or put in, and numbers of those for which others wait from now on."""
        if self._until is None:
            return
        for task in changed:
            self._kept.pop(task.seq, None)
            if task.status is Status.SCHEDULED and task.due_at <= self._until:
                self.clear()
                return
        if not self._kept.keys().isdisjoint(watched):
            self.clear()
