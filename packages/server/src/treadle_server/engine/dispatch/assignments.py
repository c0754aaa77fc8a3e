"""The claims of one transaction: who is given what, until it is committed."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from treadle_server.domain.tasks import Task
from treadle_server.engine.dispatch.slots import Demand, WaitingClaim
from treadle_server.engine.hub import Batch, Change
from treadle_server.store.base import Tx
from treadle_server.store.transaction.claim_keys import KeptClaim, keep_claims
from treadle_server.store.transaction.counts import CountKey


def sooner(*moments: datetime | None) -> datetime | None:
    """Return the first of the moments that are known; None when none is."""
    return min((at for at in moments if at is not None), default=None)


@dataclass(slots=True)
class Assignments:
    """The claims of one transaction, not committed yet."""

    given: dict[Demand, list[Task]] = field(default_factory=lambda: defaultdict(list))
    changes: list[Change] = field(default_factory=list)
    counted: Counter[CountKey] = field(default_factory=Counter)
    targets: set[int] = field(default_factory=set)
    """The targets that the claimed tasks hold from now on."""
    asked: list[WaitingClaim] = field(default_factory=list)
    """HTTP claims that were there when the heads were read."""
    left: set[int] = field(default_factory=set)
    """Lanes of which it has read, and so locked, more than it claims: to another server they look empty meanwhile."""
    shifted: set[int] = field(default_factory=set)
    """Lanes in which limits let other tasks through than before."""
    opens_at: datetime | None = None
    """When the first line may go on that waits for a token since then."""

    def note_in(self, told: Batch) -> None:
        """Add what is claimed to what the commit tells."""
        told.tasks += self.changes
        told.targets |= self.targets
        told.lanes |= self.left
        told.shifted |= self.shifted
        told.due_at = sooner(told.due_at, self.opens_at)

    def withdraw(self) -> None:
        """Undo the reservations: the transaction failed."""
        for demand, tasks in self.given.items():
            demand.withdraw([(task.id, task.run_id) for task in tasks])


async def keep_keyed(tx: Tx, assignments: Assignments, now: datetime) -> None:
    """Keep what is claimed under a key, for a lease; where the key has claims already, these are under none."""
    keyed = [
        (w, w.key, tasks) for w, tasks in assignments.given.items() if isinstance(w, WaitingClaim) and w.key is not None
    ]
    if not keyed:
        return
    new = [
        KeptClaim(w.worker_id, key.text, key.body, [(task.id, task.run_id) for task in tasks], _last_lease(tasks, now))
        for w, key, tasks in keyed
    ]
    kept = await keep_claims(tx, new, now)
    for waiting, key, _ in keyed:
        if (waiting.worker_id, key.text) not in kept:
            waiting.key = None


def _last_lease(tasks: list[Task], now: datetime) -> datetime:
    """Return when the last of the leases ends."""
    return max((task.taken_until for task in tasks if task.taken_until is not None), default=now)
