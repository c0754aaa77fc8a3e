"""The webhooks that the writer knows: their deliveries are written to the outbox in the commit of each outcome.

Webhooks are read when the engine starts, when one is changed here, and when another server has changed one, which is
looked for every other second: to read 10,000 each time took 5 % of a core. While there are none, a commit only looks at
an empty dict.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

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
"""How many deliveries are written before the event loop may do other work: some 20 ms."""


class Hooks:
    """Webhooks by room."""

    def __init__(self) -> None:
        self.on_owed: Callable[[], None] = lambda: None
        """Called after a commit that owes a delivery."""
        self._by_room: dict[str, list[Hook]] = {}
        self._owes = False
        self._refreshing = asyncio.Lock()
        self._mark: tuple[Any, ...] | None = None
        """What told the known webhooks from others when they were read."""

    def __bool__(self) -> bool:
        return bool(self._by_room)

    async def refresh(self, store: SqlStore, *, if_changed: bool = False) -> None:
        """Read all webhooks from the store; `if_changed`, only if they seem to have. Raises `StoreUnavailable`."""
        # One after the other, because what was read first must not replace what was read later.
        async with self._refreshing, store.read() as connection:
            mark = await webhooks.mark(connection)
            if not if_changed or mark != self._mark:
                self.know(await webhooks.hooks(connection))
                self._mark = mark

    def know(self, hooks: Iterable[Hook]) -> None:
        """Replace the known webhooks by these."""
        by_room: dict[str, list[Hook]] = defaultdict(list)
        for hook in hooks:
            by_room[hook.room].append(hook)
        self._by_room = dict(by_room)

    def _of(self, task: Task) -> Iterator[Hook]:
        for room in {GLOBAL, task.room}:
            yield from (hook for hook in self._by_room.get(room, ()) if hook.wants(task))

    async def note(self, tx: Tx, changes: Iterable[Change], now: datetime) -> None:
        """Write the deliveries that these transitions owe to the outbox, in the same transaction."""
        owed = self._owed(changes, now)
        while some := list(islice(owed, AT_ONCE)):
            await webhooks.put_in(tx, some)
            self._owes = True
            # A thousand tasks times a hundred webhooks are a hundred thousand rows: let the event loop do other work.
            await asyncio.sleep(0)

    def _owed(self, changes: Iterable[Change], now: datetime) -> Iterator[Owed]:
        for task in _outcomes(changes):
            if wanting := list(self._of(task)):
                body = body_of(task, now)
                yield from (Owed(str(uuid7()), hook.id, task.seq, task.status, body, now) for hook in wanting)

    def committed(self) -> None:
        """Wake the sender, if the transaction owes anything."""
        if self._owes:
            self._owes = False
            self.on_owed()


def _outcomes(changes: Iterable[Change]) -> Iterator[Task]:
    """Yield each task that has moved to a terminal status.

    Both changes of a task that was started and completed at once share one object; the start is not an outcome.
    """
    for task, was in changes:
        if task.status in TERMINAL and not (was is Status.CLAIMED and task.status is Status.COMPLETED):
            yield task
