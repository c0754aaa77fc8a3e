"""A batch in flight, and the one that is applied meanwhile.

What plain reports and submits change is known from memory: nothing is asked of PostgreSQL before all of it is sent. So
the server applies a batch while the database writes the one before, and asks nothing until that one is committed. If
it is not committed as it was applied, the later one takes back what it did, and waits in the queue again.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Final

from treadle_server.engine.pending import Pending


class BeforeFailed(RuntimeError):
    """The batch before was not committed as it was applied: what was applied on top of it does not hold."""


class InFlight:
    """A batch, from its application to its answers."""

    def __init__(self, batch: Sequence[Pending], before: "InFlight | None" = None) -> None:
        """`before` is the batch that is being written while this one is applied."""
        self.batch: Final = batch
        self.is_well = False
        """At its end, whether there may be more to do at once."""
        self.was_overtaken = False
        """Whether another server was faster with a limit: from then on it goes before all who would be again."""
        self.may_be_followed = False
        """Whether another may be applied now: everything is, and nothing was asked of the database."""
        self.applied, self.ended = asyncio.Event(), asyncio.Event()
        """Set when everything was applied, and when it was answered, or put back: at the latest then both are."""
        self._before = before
        self._follower: InFlight | None = None
        self._reading: asyncio.Task[None] | None = None
        self._failed = False
        self._outcome_known = asyncio.Event()
        if before is not None:
            before._follower = self  # noqa: SLF001 - its own kind

    def note_applied(self, *, may_be_followed: bool) -> None:
        """Note that everything was applied."""
        self.may_be_followed = may_be_followed
        self.applied.set()

    async def land(self) -> None:
        """Wait until the batch before is committed, if there is one. Raises `BeforeFailed` when that fails."""
        if self._before is not None and not await self._before.is_committed():
            raise BeforeFailed

    async def is_committed(self) -> bool:
        """Wait for the commit of what was applied, and return whether it was done."""
        await self._outcome_known.wait()
        return not self._failed

    def read_beside(self, reading: Coroutine[None, None, None]) -> None:
        """Let something be read, which raises nothing, while it is written; what it finds is there with its outcome."""
        self._reading = asyncio.create_task(reading, name="reading ahead")

    async def _read(self) -> None:
        if self._reading is not None:
            await self._reading

    async def committed(self) -> None:
        """Note that what was applied is written, and wait until the batch before was told.

        The batch that follows sends at once what it has to write: the database has work while this one is answered.
        """
        await self._read()
        self._outcome_known.set()
        if self._follower is not None:
            await asyncio.sleep(0)
        if self._before is not None:
            await self._before.ended.wait()

    async def fail(self) -> None:
        """Note that what was applied does not hold, and wait until what was applied on top of it is taken back."""
        self.may_be_followed = False
        await self._read()
        self._failed = True
        self._outcome_known.set()
        if self._follower is not None:
            await self._follower.ended.wait()

    def end(self) -> None:
        """Note that it was answered, or put back."""
        self.may_be_followed = False
        for event in (self.applied, self._outcome_known, self.ended):
            event.set()
        # Else each holds on to all before it, with their tasks, until the collector of cycles comes by: 100 MB.
        self._before = self._follower = None
