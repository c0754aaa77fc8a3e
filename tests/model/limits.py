"""The model's limits of concurrency: what each key of them is used by, who waits for it, and whom it lets through."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tests.model.life import Life
from tests.model.things import FORBIDDEN, INVALID, LIMIT_FULL, LIMIT_IN_USE, NO_LIMIT, Limit, Task, User
from treadle.wire.status import Reason, Status

Key = tuple[str, str, str | None]
"""A key of a limit, which has the limit for itself: the limit's room, its name, and the key."""


class Limits(Life):
    """How much of some tasks runs at once."""

    def __init__(self, worker_timeout: float = 60.0) -> None:
        super().__init__(worker_timeout)
        self.limits: dict[tuple[str, str], Limit] = {}
        """By room and name."""
        self.uses: dict[tuple[str, int], dict[Key, int]] = {}
        """What each run counts, as it was when it was claimed."""

    # What users do

    def set_limit(self, user: User, room: str, name: str, concurrency: int, on_full: str) -> tuple[Limit, bool]:
        """Make a limit, or change it; return it, and whether it is new."""
        if user.run is not None:
            raise FORBIDDEN
        known = self.limits.get((room, name))
        if known is None:
            self.limits[room, name] = made = Limit(room, name, concurrency, on_full)
            return made, True
        if (known.concurrency, known.on_full) != (concurrency, on_full):
            known.concurrency, known.on_full, known.version = concurrency, on_full, known.version + 1
        return known, False

    def delete_limit(self, user: User, room: str, name: str) -> None:
        """Delete a limit that no open task names, and what still counts against it."""
        if user.run is not None:
            raise FORBIDDEN
        if (room, name) not in self.limits:
            raise NO_LIMIT
        if any(task.is_open and key[:2] == (room, name) for task in self.tasks.values() for key in self.keys_of(task)):
            raise LIMIT_IN_USE
        del self.limits[room, name]
        for uses in self.uses.values():
            for key in [key for key in uses if key[:2] == (room, name)]:
                del uses[key]

    # What counts

    @staticmethod
    def keys_in(room: str, limits: Sequence[dict[str, Any]] | None) -> dict[Key, int]:
        """Return the keys that a task of the room counts against which names these, each with its weight there."""
        return {(room, one["name"], one.get("key")): one.get("weight", 1) for one in limits or ()}

    def keys_of(self, task: Task) -> dict[Key, int]:
        return self.keys_in(task.room_id, task.limits)

    def counted(self, key: Key, weight: int) -> int:
        """What a weight counts: one that a change left too heavy for the limit is as much as that allows."""
        limit = self.limits.get(key[:2])
        return 0 if limit is None else min(weight, limit.concurrency)

    def used(self, key: Key) -> int:
        """What is used: by runs that are open, and by those whose code may still run."""
        return sum(weights.get(key, 0) for run, weights in self.uses.items() if self._counts(run))

    def _counts(self, run: tuple[str, int]) -> bool:
        task = self.tasks[run[0]]
        return run in self.holds or (task.is_leased and task.run_id == run[1])

    def waiting(self, key: Key) -> list[Task]:
        """Those that are pending and name the key, whatever keeps them."""
        return [task for task in self.tasks.values() if task.status is Status.PENDING and key in self.keys_of(task)]

    def note_claim(self, task: Task) -> None:
        """A claim takes what its task weighs, for as long as its run counts."""
        assert task.run_id is not None
        keys = self.keys_of(task)
        self.uses[task.id, task.run_id] = {key: self.counted(key, weight) for key, weight in keys.items()}

    # Who is let through

    def line_of(self, task: Task) -> tuple[Any, ...]:
        """The line that a task stands in: of its queue and pool those with the same keys, and none overtakes."""
        room = task.room_id if self.jobs[task.job_name].fair else None
        return (task.job_name, task.pool, room, frozenset(self.keys_of(task)))

    def stands_in_line(self, task: Task) -> bool:
        """Whether nothing but a limit keeps a pending task."""
        if task.status is not Status.PENDING or self.rests(task):
            return False
        target = self.target_of(task)
        return target is None or (not self.is_held(target) and self.line(target)[0] is task)

    def fits(self, task: Task) -> bool:
        """Whether a task fits beside what is used and all that stand before it in its line."""
        before = [
            one
            for one in self.tasks.values()
            if one is task or (self.stands_in_line(one) and self.line_of(one) == self.line_of(task))
        ]
        wanted: Counter[Key] = Counter()
        for one in before:
            if one.place <= task.place:
                wanted.update({key: self.counted(key, weight) for key, weight in self.keys_of(one).items()})
        limited = [key for key in wanted if key[:2] in self.limits]
        return all(self.used(key) + wanted[key] <= self.limits[key[:2]].concurrency for key in limited)

    def is_claimable(self, task: Task, now: datetime) -> bool:
        return super().is_claimable(task, now) and (not task.limits or self.fits(task))

    # When one is full

    def check_limits(self, room: str, limits: Sequence[dict[str, Any]] | None) -> None:
        """Refuse a limit that there is not, and a weight that it never admits."""
        for key, weight in self.keys_in(room, limits).items():
            if key[:2] not in self.limits:
                raise NO_LIMIT
            if weight > self.limits[key[:2]].concurrency:
                raise INVALID

    def check_room(self, wanted: Sequence[tuple[dict[Key, int], bool]]) -> None:
        """Refuse all of these together, each with whether it could begin at once, if a limit that rejects is full."""
        ahead: Counter[Key] = Counter()
        for keys, is_due in wanted:
            rejecting = [key for key in keys if key[:2] in self.limits and self.limits[key[:2]].on_full == "reject"]
            for key in rejecting:
                total = self.total(key) + ahead[key] + self.counted(key, keys[key])
                if total > self.limits[key[:2]].concurrency:
                    raise LIMIT_FULL
            if is_due:
                ahead.update({key: self.counted(key, keys[key]) for key in rejecting})

    def total(self, key: Key) -> int:
        """What is used and waits."""
        return self.used(key) + sum(self.counted(key, self.keys_of(task)[key]) for task in self.waiting(key))

    def supersedes(self, room: str, limits: Sequence[dict[str, Any]] | None) -> bool:
        """Whether a task that names these may take the place of others."""
        named = [self.limits.get(key[:2]) for key in self.keys_in(room, limits)]
        return any(limit is not None and limit.on_full in {"newest", "replace"} for limit in named)

    def supersede(self, new: Task, now: datetime) -> None:
        """Let a new task take the place of those that wait under its keys, or run there, where the limits say so."""
        if new.status is not Status.PENDING:
            return
        for key, weight in self.keys_of(new).items():
            limit = self.limits[key[:2]]
            if limit.on_full not in {"newest", "replace"} or self.total(key) <= limit.concurrency:
                continue
            gone = [task for task in self.waiting(key) if task is not new]
            if limit.on_full == "replace":
                gone += self._in_the_way(key, limit.concurrency - self.counted(key, weight))
            for task in gone:
                self.cancel(task, now, Reason.SUPERSEDED)
                task.error = f"task {new.id} superseded it: the limit {limit.name!r} of room {limit.room} was full"

    def _in_the_way(self, key: Key, most: int) -> list[Task]:
        """Return the tasks whose runs go, the first claimed first, so that no more than `most` is left of runs."""
        running = [t for t in self.tasks.values() if t.is_leased and key in self.uses.get((t.id, t.run_id or 0), {})]
        running.sort(key=lambda task: (task.claimed_at, task.seq))
        weights = {task.id: self.uses[task.id, task.run_id or 0][key] for task in running}
        excess = sum(weights.values()) - most
        gone = []
        for task in running:
            if excess > 0:
                excess -= weights[task.id]
                gone.append(task)
        return gone

    def shown_limits(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return what is shown of each limit, by room and name."""
        found = {}
        for name, limit in self.limits.items():
            keys = {key for uses in self.uses.values() for key in uses} | {
                key for task in self.tasks.values() for key in self.keys_of(task)
            }
            mine = [key for key in keys if key[:2] == name]
            waiting = {key: len(self.waiting(key)) for key in mine}
            found[name] = {
                "concurrency": limit.concurrency, "on_full": limit.on_full, "version": limit.version,
                "used": sum(map(self.used, mine)), "waiting": sum(waiting.values()),
                "keys": sum(1 for key in mine if waiting[key] or self.used(key)),
            }  # fmt: skip
        return found
