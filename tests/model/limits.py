"""The model's limits: what of each of their keys is used, how many tokens it has, who waits, and who is let through."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tests.model.life import Life
from tests.model.things import FORBIDDEN, INVALID, LIMIT_IN_USE, NO_LIMIT, Job, Key, Limit, Rate, Task, User
from treadle.wire.status import Status

MOST_NAMED = 4
"""Keys that a task may count against."""

ROUNDING = 1e-9
"""What sums of parts of tokens may lose."""

Named = Sequence[dict[str, Any]]
"""Limits as a submit or a registration names them: name, key, weight."""


def pointed(key: str | None, payload: Any) -> str | None:
    """Return the key that a job means, for this payload: one that begins with `/` leads to a value in it."""
    if key is None or not key.startswith("/"):
        return key
    found = payload
    for step in key[1:].split("/"):
        found = found.get(step) if isinstance(found, dict) else None
    if isinstance(found, dict | list) or found == "":
        raise INVALID
    if found is None or isinstance(found, str):
        return found
    # 5 and 5.0 are one number.
    return str(found).lower() if isinstance(found, bool) or found != int(found) else str(int(found))


class Limits(Life):
    """How much of some tasks runs at once, and how much begins in a time."""

    def __init__(self, worker_timeout: float = 60.0) -> None:
        super().__init__(worker_timeout)
        self.limits: dict[tuple[str, str], Limit] = {}
        """By room and name."""
        self.uses: dict[tuple[str, int], dict[Key, int]] = {}
        """What each run counts, as it was when it was claimed."""
        self.tokens: dict[Key, tuple[float, datetime]] = {}
        """How many tokens a key had at an instant; of those that are not here all."""

    # What users do

    def set_limit(
        self, user: User, room: str, name: str, now: datetime, concurrency: int | None, rate: Rate | None, on_full: str
    ) -> tuple[Limit, bool]:
        """Make a limit, or change it; return it, and whether it is new."""
        self._check_may(user, room)
        known = self.limits.get((room, name))
        if known is None:
            self.limits[room, name] = made = Limit(room, name, concurrency, rate, on_full)
            return made, True
        if (known.concurrency, known.rate, known.on_full) != (concurrency, rate, on_full):
            self._change_rate(known, rate, now)
            known.concurrency, known.on_full, known.version = concurrency, on_full, known.version + 1
        return known, False

    def _change_rate(self, limit: Limit, rate: Rate | None, now: datetime) -> None:
        """What has filled by the old rate stays, as much as the new one allows; what was full is full."""
        old = limit.rate
        for key in [key for key in self.tokens if key[:2] == (limit.room, limit.name)]:
            left = self.tokens_of(key, now)
            if old is None or rate is None or left >= old.burst - ROUNDING:
                del self.tokens[key]
            else:
                self.tokens[key] = (min(left, rate.burst), now)
        limit.rate = rate

    def delete_limit(self, user: User, room: str, name: str) -> None:
        """Delete a limit that no open task and no job names, and that no code counts against."""
        self._check_may(user, room)
        if (room, name) not in self.limits:
            raise NO_LIMIT
        named = {key[:2] for task in self.tasks.values() if task.is_open for key in task.counts}
        named |= {(job.room, one["name"]) for job in self.jobs.values() if not job.deleted for one in job.limits}
        counted = {key[:2] for run, weights in self.uses.items() if self._counts(run) for key in weights}
        if (room, name) in named | counted:
            raise LIMIT_IN_USE
        del self.limits[room, name]
        self.tokens = {key: tokens for key, tokens in self.tokens.items() if key[:2] != (room, name)}

    @staticmethod
    def _check_may(user: User, room: str) -> None:
        if user.run is not None or (room == "@global" and not user.superuser):
            raise FORBIDDEN

    # What counts

    @staticmethod
    def keys_in(room: str, limits: Named | None) -> dict[Key, int]:
        """Return the keys that these name in the room, each with its weight there."""
        return {(room, one["name"], one.get("key")): one.get("weight") or 1 for one in limits or ()}

    def counts_of(self, job: Job, room: str, own: Named | None, payload: Any) -> dict[Key, int]:
        """Return the keys that a task counts against: its job's, in the job's room, and its own, in its room."""
        of_job = [{**one, "key": pointed(one.get("key"), payload)} for one in job.limits]
        counts = {**self.keys_in(job.room, of_job), **self.keys_in(room, own)}
        if len(counts) > MOST_NAMED:
            raise INVALID
        return counts

    def check_counts(self, counts: dict[Key, int]) -> None:
        """Refuse a limit that there is not, and a weight that it never admits."""
        for key, weight in counts.items():
            if key[:2] not in self.limits:
                raise NO_LIMIT
            if weight > (self.limits[key[:2]].concurrency or weight):
                raise INVALID

    def counted(self, key: Key, weight: int) -> int:
        """What a weight counts: one that a change left too heavy for the limit is as much as that allows."""
        limit = self.limits.get(key[:2])
        return 0 if limit is None else min(weight, limit.concurrency or weight)

    def used(self, key: Key) -> int:
        """What is used: by runs that are open, and by those whose code may still run."""
        return sum(weights.get(key, 0) for run, weights in self.uses.items() if self._counts(run))

    def _counts(self, run: tuple[str, int]) -> bool:
        task = self.tasks[run[0]]
        return run in self.holds or (task.is_leased and task.run_id == run[1])

    def tokens_of(self, key: Key, now: datetime) -> float:
        """Return how many tokens a key has; they fill evenly, up to the burst."""
        limit = self.limits[key[:2]]
        rate = limit.rate
        if rate is None:
            return float("inf")
        left, since = self.tokens.get(key, (rate.burst, now))
        return min(rate.burst, left + max(0.0, (now - since).total_seconds()) * rate.count / rate.seconds)

    def waiting(self, key: Key) -> list[Task]:
        """Those that are pending and count against the key, whatever keeps them."""
        return [task for task in self.tasks.values() if task.status is Status.PENDING and key in task.counts]

    def note_claim(self, task: Task, now: datetime) -> None:
        """A claim takes what its task weighs, for as long as its run counts, and a token for good."""
        assert task.run_id is not None
        limited = {key: weight for key, weight in task.counts.items() if key[:2] in self.limits}
        self.uses[task.id, task.run_id] = {key: self.counted(key, weight) for key, weight in limited.items()}
        self._fill(task, -1, now)

    def give_back_tokens(self, task: Task, now: datetime) -> None:
        """A run that was handed back before it started gives its tokens back."""
        self._fill(task, 1, now)

    def _fill(self, task: Task, count: int, now: datetime) -> None:
        for key in task.counts:
            limit = self.limits.get(key[:2])
            if limit is not None and limit.rate is not None:
                self.tokens[key] = (min(limit.rate.burst, self.tokens_of(key, now) + count), now)

    # Who is let through

    def lane_of(self, task: Task) -> tuple[str, str | None, str | None]:
        """The queue of a task, and its pool there."""
        return (task.job_name, task.pool, task.room_id if self.jobs[task.job_name].fair else None)

    def line_of(self, task: Task) -> tuple[Any, ...]:
        """The line that a task stands in: of its queue and pool those with the same keys, and none overtakes."""
        return (*self.lane_of(task), frozenset(task.counts))

    def stands_in_line(self, task: Task) -> bool:
        """Whether nothing but a limit keeps a pending task."""
        if task.status is not Status.PENDING or self.rests(task):
            return False
        target = self.target_of(task)
        return target is None or (not self.is_held(target) and self.line(target)[0] is task)

    def fits(self, task: Task, now: datetime) -> bool:
        """Whether a task fits beside what is used and all that stand before it in its line."""
        return self._fits_behind(
            task, [one for one in self._before(task) if self.line_of(one) == self.line_of(task)], now
        )

    def surely_fits(self, task: Task, now: datetime) -> bool:
        """Whether it fits beside all that stand before it in its queue, in other lines too: it is to be let through."""
        return self._fits_behind(task, self._before(task), now)

    def _before(self, task: Task) -> list[Task]:
        """Those of its queue that stand before it, and that nothing but a limit keeps."""
        mine = [one for one in self.tasks.values() if one.place < task.place and self.stands_in_line(one)]
        return [one for one in mine if self.lane_of(one) == self.lane_of(task)]

    def _fits_behind(self, task: Task, before: list[Task], now: datetime) -> bool:
        wanted, number = Counter[Key](), Counter[Key]()
        for one in [*before, task]:
            wanted.update({key: self.counted(key, weight) for key, weight in one.counts.items()})
            number.update(one.counts.keys())
        return not any(self.is_beyond(key, wanted[key], number[key], now) for key in task.counts)

    def is_beyond(self, key: Key, weight: int, count: int, now: datetime) -> bool:
        """Whether so much weight, of so many tasks, is more than what is left of a key."""
        limit = self.limits.get(key[:2])
        if limit is None:
            return False
        is_full = limit.concurrency is not None and self.used(key) + weight > limit.concurrency
        return is_full or count > self.tokens_of(key, now) + ROUNDING

    def is_claimable(self, task: Task, now: datetime) -> bool:
        return super().is_claimable(task, now) and (not task.counts or self.fits(task, now))

    def shown_limits(self, now: datetime) -> dict[tuple[str, str], dict[str, Any]]:
        """Return what is shown of each limit, by room and name."""
        found = {}
        for name, limit in self.limits.items():
            keys = {key for uses in self.uses.values() for key in uses} | {
                key for task in self.tasks.values() for key in task.counts
            }
            waiting = {key: len(self.waiting(key)) for key in keys if key[:2] == name}
            busy = {key for key in waiting if waiting[key] or self.used(key)}
            rate = limit.rate
            found[name] = {
                "concurrency": limit.concurrency, "on_full": limit.on_full, "version": limit.version,
                "rate": None if rate is None else (rate.count, rate.seconds, rate.burst),
                "used": sum(map(self.used, busy)), "waiting": sum(waiting.values()), "keys": len(busy),
                "busiest": {
                    key[2]: (self.used(key), waiting[key], None if rate is None else round(self.tokens_of(key, now), 6))
                    for key in busy
                },
            }  # fmt: skip
        return found
