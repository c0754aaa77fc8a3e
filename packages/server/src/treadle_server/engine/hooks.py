"""The webhooks that the writer knows: outcomes that one of them wants are put into the outbox with their commit.

They are read when the engine starts, when one is changed here, and every other second, for another server may have
changed one. While there is none, a commit costs one look at an empty table.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice

from uuid_utils import uuid7

from treadle.wire.names import GLOBAL
from treadle.wire.status import TERMINAL, Status
from treadle_server.domain.tasks import Task
from treadle_server.domain.webhooks import Hook, body_of
from treadle_server.engine.hub import Change
from treadle_server.store.base import Tx
from treadle_server.store.store import SqlStore
from treadle_server.store.transaction import webhooks
from treadle_server.store.transaction.webhooks import Owed

AT_ONCE = 1_000
"""Deliveries that are put in before others have their turn: some 20 ms."""


class Hooks:
    """Webhooks by room."""

    def __init__(self) -> None:
        self.on_owed: Callable[[], None] = lambda: None
        """Called after a commit that owes a delivery."""
        self._by_room: dict[str, list[Hook]] = {}
        self._owes = False

    def __bool__(self) -> bool:
        return bool(self._by_room)

    async def refresh(self, store: SqlStore) -> None:
        """Read which there are. Raises `StoreUnavailable`."""
        async with store.read() as connection:
            self.know(await webhooks.hooks(connection))

    def know(self, hooks: Iterable[Hook]) -> None:
        """Take these for all there are."""
        by_room: dict[str, list[Hook]] = defaultdict(list)
        for hook in hooks:
            by_room[hook.room].append(hook)
        self._by_room = dict(by_room)

    def _of(self, task: Task) -> Iterator[Hook]:
        for room in {GLOBAL, task.room}:
            yield from (hook for hook in self._by_room.get(room, ()) if hook.wants(task))

    async def note(self, tx: Tx, changes: Iterable[Change], now: datetime) -> None:
        """Put what these transitions owe into the outbox, in their transaction."""
        owed = self._owed(changes, now)
        while some := list(islice(owed, AT_ONCE)):
            await webhooks.put_in(tx, some)
            self._owes = True
            # A thousand tasks that a hundred webhooks want are a hundred thousand rows: others have their turn.
            await asyncio.sleep(0)

    def _owed(self, changes: Iterable[Change], now: datetime) -> Iterator[Owed]:
        for task in _outcomes(changes):
            if wanting := list(self._of(task)):
                body = body_of(task, now)
                yield from (Owed(str(uuid7()), hook.id, task.seq, task.status, body, now) for hook in wanting)

    def committed(self) -> None:
        """Tell the sender, if the transaction owes anything."""
        if self._owes:
            self._owes = False
            self.on_owed()


def _outcomes(changes: Iterable[Change]) -> Iterator[Task]:
    """Return the tasks after each transition to an end.

    One object tells both changes of a task that was started and completed at once: its start is no outcome.
    """
    for task, was in changes:
        if task.status in TERMINAL and not (was is Status.CLAIMED and task.status is Status.COMPLETED):
            yield task
