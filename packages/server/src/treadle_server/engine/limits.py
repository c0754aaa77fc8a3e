"""Lets tasks with limits be claimable where there is room, batch by batch, and minds a clock that was set."""

from collections.abc import Callable
from datetime import datetime

from treadle_server.clock import ClockSteps
from treadle_server.domain.limits import APART
from treadle_server.engine.admission import confirm_admission
from treadle_server.engine.superseding import confirm_rivals
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.transaction.gates import decide
from treadle_server.store.transaction.limit_rows import forget_time
from treadle_server.store.transaction.limits_kept import write_limits


class LimitKeeper:
    """The clock's steps, each kept until a transaction that knew of it was committed."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._steps = ClockSteps(monotonic)
        self._was_set = False

    def take_step(self, now: datetime) -> bool:
        """Return whether the clock was set, and leave that to the one who asks."""
        found = self._steps.look(now) > APART or self._was_set
        self._was_set = False
        return found

    def give_back(self, *, was_set: bool) -> None:
        """Keep for the next transaction what the one that took it can't do."""
        self._was_set = self._was_set or was_set

    async def let_through(self, work: UnitOfWork, *, was_set: bool) -> None:
        """Let tasks with limits be claimable where there is room by now, and no others.

        Raises `LostUpdate` when another server has filled a limit that rejects, or put in what is to be superseded.
        """
        tx = work.tx
        if was_set:
            await forget_time(tx, work.now)
        if work.changes.limits or work.changes.gone_limits:
            work.limited.due |= await write_limits(tx, work.changes.limits.values(), work.changes.gone_limits, work.now)
        if work.limited:
            decision = await decide(tx, work.limited, work.now)
            work.batch.due_at = decision.opens_at
            work.batch.shifted |= decision.shifted
            work.woken |= decision.lanes
        await confirm_admission(work)
        await confirm_rivals(work)
