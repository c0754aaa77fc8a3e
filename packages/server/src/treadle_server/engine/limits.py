"""Makes tasks with limits claimable where there is room, batch by batch, and allows for a clock that was set."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from treadle_server.domain.limits import APART
from treadle_server.engine.admission import confirm_admission
from treadle_server.engine.superseding import confirm_rivals
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.base import ClockWasSet, Noticed, Tx
from treadle_server.store.read.limit_keys import IDLE
from treadle_server.store.transaction.gates import decide
from treadle_server.store.transaction.limit_rows import (
    forget_full,
    forget_time,
    go_first,
    lock_limits,
    note_set_by,
    read_set_by,
)
from treadle_server.store.transaction.limits_kept import write_limits


@dataclass(frozen=True, slots=True)
class ClockReading:
    """How a transaction sees the store's clock."""

    offset: float
    """Seconds by which it is ahead of this server's monotonic clock."""
    was_set: bool
    """Whether it was set since the last transaction, or another server has noted that it was."""
    noticed: Noticed


class LimitKeeper:
    """What this server knows of the store's clock from its last committed transaction.

    The server that notices a step of the clock keeps the buckets from filling for the time until then, and records the
    step in the database, so that the other servers, which notice it at times of their own, don't do so again.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._offset: float | None = None
        self._set_by: float | None = None
        self._is_doubtful = False

    async def begin(self, tx: Tx, now: datetime, *, goes_first: bool = False) -> ClockReading:
        """Return how the transaction, whose time is `now`, sees the clock; if the clock is set later, it won't commit.

        A transaction that `goes_first` was overtaken, and waits until no other can overtake it again.
        """
        if goes_first:
            await go_first(tx)
        offset = now.timestamp() - self._monotonic()
        was_set = self._is_doubtful or (self._offset is not None and abs(offset - self._offset) > APART)
        tx.noticed.set_by = None if was_set else self._set_by
        tx.fail_if_clock_set()
        return ClockReading(offset, was_set, tx.noticed)

    def keep(self, reading: ClockReading) -> None:
        """Remember what a committed transaction has seen."""
        self._offset = reading.offset
        if reading.noticed.is_sure:
            self._set_by = reading.noticed.set_by
            self._is_doubtful = False

    def note_failure(self, error: BaseException) -> None:
        """Note why a transaction failed: the next one may have to read what other servers have recorded."""
        self._is_doubtful = self._is_doubtful or isinstance(error, ClockWasSet)

    async def let_through(self, work: UnitOfWork, reading: ClockReading) -> None:
        """Make those tasks with limits claimable for which there is room by now, and no others.

        Raises `LostUpdate` if another server has filled a limit that rejects, submitted a task that must be superseded,
        or recorded that the clock was set.
        """
        tx = work.tx
        if reading.was_set:
            await self._account(work, reading)
        if work.changes.limits or work.changes.gone_limits:
            work.limited.due |= await write_limits(tx, work.changes.limits.values(), work.changes.gone_limits, work.now)
        if work.limited:
            decision = await decide(tx, work.limited, work.now)
            work.batch.due_at = decision.opens_at
            work.batch.shifted |= decision.woken | decision.parked
            work.woken |= decision.woken
        if work.changes.idle_buckets:
            await forget_full(tx, work.changes.idle_buckets, work.now - IDLE)
        await confirm_admission(work)
        await confirm_rivals(work)

    async def _account(self, work: UnitOfWork, reading: ClockReading) -> None:
        """Discard the time that nobody has accounted for: the step seen here less what others have recorded."""
        tx, noticed = work.tx, reading.noticed
        await lock_limits(tx)
        total = await read_set_by(tx)
        seen = 0.0 if self._offset is None else reading.offset - self._offset
        noted = 0.0 if self._set_by is None else total - self._set_by
        if abs(seen - noted) > APART:
            await forget_time(tx, work.now)
            # A step that only others have seen is not recorded: they would take it for another one.
            if abs(seen) > APART:
                total += seen - noted
                await note_set_by(tx, total)
        noticed.set_by, noticed.is_sure = total, True
