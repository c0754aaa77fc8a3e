"""The claims of one transaction, until it is committed: which worker is given which tasks."""

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
    """Return the earliest of the known moments, or None if none is known."""
    return min((at for at in moments if at is not None), default=None)


@dataclass(slots=True)
class Assignments:
    """The claims of one transaction that is not committed yet."""

    given: dict[Demand, list[Task]] = field(default_factory=lambda: defaultdict(list))
    changes: list[Change] = field(default_factory=list)
    counted: Counter[CountKey] = field(default_factory=Counter)
    targets: set[int] = field(default_factory=set)
    """The targets that the claimed tasks hold from now on."""
    asked: list[WaitingClaim] = field(default_factory=list)
    """The HTTP claims that were waiting when the heads were read."""
    left: set[int] = field(default_factory=set)
    """Lanes of which it read, and so locked, more than it claims: meanwhile they look empty to another server."""
    shifted: set[int] = field(default_factory=set)
    """Lanes in which limits let other tasks through than before."""
    opens_at: datetime | None = None
    """When the first line that has to wait for a token since then may move on."""

    def note_in(self, batch: Batch) -> None:
        """Add the claims to what the commit publishes."""
        batch.tasks += self.changes
        batch.targets |= self.targets
        batch.lanes |= self.left
        batch.shifted |= self.shifted
        batch.due_at = sooner(batch.due_at, self.opens_at)

    def withdraw(self) -> None:
        """Undo the reservations, after the transaction failed."""
        for demand, tasks in self.given.items():
            demand.withdraw([(task.id, task.run_id) for task in tasks])


async def keep_keyed(tx: Tx, assignments: Assignments, now: datetime) -> None:
    """Store the claims made with an idempotency key, for a lease; if the key has claims already, these get none."""
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
    """Return the instant at which the last of the leases ends."""
    return max((task.taken_until for task in tasks if task.taken_until is not None), default=now)
