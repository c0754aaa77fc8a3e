"""Lets tasks with limits be claimable where there is room, batch by batch, and minds a clock that was set."""

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
class Sight:
    """How a transaction sees the store's clock."""

    apart: float
    """Seconds by which it is ahead of the time that passes, here."""
    was_set: bool
    """Whether it was set since the last transaction, or another server has noted that it was."""
    noticed: Noticed


class LimitKeeper:
    """What this server knows of the store's clock, by its last transaction that was committed.

    Whoever notices a step has the buckets filled for nothing of the time until then, and notes the step in the
    database: the others, who notice it too, each at its own time, then fill on.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._apart: float | None = None
        self._set_by: float | None = None
        self._is_doubtful = False

    async def begin(self, tx: Tx, now: datetime, *, goes_first: bool = False) -> Sight:
        """Return how the transaction, whose time is `now`, sees the clock; if it is set later nothing is committed.

        One that `goes_first` was overtaken, and waits until nobody can do so again.
        """
        if goes_first:
            await go_first(tx)
        apart = now.timestamp() - self._monotonic()
        was_set = self._is_doubtful or (self._apart is not None and abs(apart - self._apart) > APART)
        tx.noticed.set_by = None if was_set else self._set_by
        tx.heed_clock()
        return Sight(apart, was_set, tx.noticed)

    def keep(self, sight: Sight) -> None:
        """Know from now on what a transaction has seen that was committed."""
        self._apart = sight.apart
        if sight.noticed.is_sure:
            self._set_by = sight.noticed.set_by
            self._is_doubtful = False

    def note_failure(self, error: BaseException) -> None:
        """Note why a transaction failed: the next one may have to look what others have noted."""
        self._is_doubtful = self._is_doubtful or isinstance(error, ClockWasSet)

    async def let_through(self, work: UnitOfWork, sight: Sight) -> None:
        """Let tasks with limits be claimable where there is room by now, and no others.

        Raises `LostUpdate` when another server has filled a limit that rejects, put in what is to be superseded, or
        noted that the clock was set.
        """
        tx = work.tx
        if sight.was_set:
            await self._account(work, sight)
        if work.changes.limits or work.changes.gone_limits:
            work.limited.due |= await write_limits(tx, work.changes.limits.values(), work.changes.gone_limits, work.now)
        if work.limited:
            decision = await decide(tx, work.limited, work.now)
            work.batch.due_at = decision.opens_at
            work.batch.shifted |= decision.shifted
            work.woken |= decision.lanes
        if work.changes.idle_buckets:
            await forget_full(tx, work.changes.idle_buckets, work.now - IDLE)
        await confirm_admission(work)
        await confirm_rivals(work)

    async def _account(self, work: UnitOfWork, sight: Sight) -> None:
        """Let time be forgotten that nobody has accounted for: what was seen here, less what others have noted."""
        tx, noticed = work.tx, sight.noticed
        await lock_limits(tx)
        total = await read_set_by(tx)
        seen = 0.0 if self._apart is None else sight.apart - self._apart
        noted = 0.0 if self._set_by is None else total - self._set_by
        if abs(seen - noted) > APART:
            await forget_time(tx, work.now)
            # Of a step that only others have seen nothing is noted: they would take it for another one.
            if abs(seen) > APART:
                total += seen - noted
                await note_set_by(tx, total)
        noticed.set_by, noticed.is_sure = total, True
