"""A batch in flight, and the one that is applied meanwhile.

Plain reports and submits are applied from memory alone: PostgreSQL is asked nothing before all their changes are sent.
So the server applies a batch while the database writes the one before, and asks nothing until that one is committed. If
the earlier batch is not committed as it was applied, the later one undoes its changes and goes back to the queue.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Final

from treadle_server.engine.dispatch.assignments import Assignments
from treadle_server.engine.dispatch.dispatcher import Freed
from treadle_server.engine.pending import Pending


class BeforeFailed(RuntimeError):
    """The batch before was not committed as it was applied, so what was applied on top of it is void."""


@dataclass(slots=True)
class Attempt:
    """What a batch's transaction has done in memory so far, which is undone if it fails."""

    assignments: Assignments = field(default_factory=Assignments)
    freed: list[Freed] = field(default_factory=list)
    is_written: bool = False
    """Whether only the commit is left."""


class InFlight:
    """A batch, from being applied to being answered."""

    def __init__(self, batch: Sequence[Pending], before: "InFlight | None" = None) -> None:
        """`before` is the batch that is being written while this one is applied."""
        self.batch: Final = batch
        self.may_go_on = False
        """Once it has ended, whether there may be more to do at once."""
        self.was_overtaken = False
        """Whether another server was faster with a limit; the next try waits its turn, and can't be overtaken."""
        self.may_be_followed = False
        """Whether another batch may be applied now: all of this one is, and it asked nothing of the database."""
        self.applied, self.ended = asyncio.Event(), asyncio.Event()
        """`applied` is set when everything was applied, `ended` when it was answered or put back, which sets both."""
        self._before = before
        self._follower: InFlight | None = None
        self._reading: asyncio.Task[None] | None = None
        self._failed = False
        self._outcome_known = asyncio.Event()
        if before is not None:
            before._follower = self  # noqa: SLF001 - of the same class

    def note_applied(self, *, may_be_followed: bool) -> None:
        """Note that everything was applied."""
        self.may_be_followed = may_be_followed
        self.applied.set()

    async def wait_for_previous(self) -> None:
        """Wait until the batch before is committed, if there is one. Raises `BeforeFailed` if it fails."""
        if self._before is not None and not await self._before.is_committed():
            raise BeforeFailed

    async def is_committed(self) -> bool:
        """Wait for the commit of what was applied, and return whether it succeeded."""
        await self._outcome_known.wait()
        return not self._failed

    def read_beside(self, reading: Coroutine[None, None, None]) -> None:
        """Run `reading`, which must not raise, while the batch is written; it has ended before the outcome is known."""
        self._reading = asyncio.create_task(reading, name="reading ahead")

    async def _read(self) -> None:
        if self._reading is not None:
            await self._reading

    async def committed(self) -> None:
        """Note that what was applied is written, and wait until the batch before has been answered and published.

        The batch that follows sends its changes at once, so the database has work while this one is answered.
        """
        await self._read()
        self._outcome_known.set()
        if self._follower is not None:
            await asyncio.sleep(0)
        if self._before is not None:
            await self._before.ended.wait()

    async def fail(self) -> None:
        """Note that what was applied is void, and wait until what was applied on top of it is undone."""
        self.may_be_followed = False
        await self._read()
        self._failed = True
        self._outcome_known.set()
        if self._follower is not None:
            await self._follower.ended.wait()

    def end(self) -> None:
        """Note that the batch was answered or put back."""
        self.may_be_followed = False
        for event in (self.applied, self._outcome_known, self.ended):
            event.set()
        # Otherwise each batch keeps all earlier ones and their tasks alive until the cyclic collector runs: 100 MB.
        self._before = self._follower = None
