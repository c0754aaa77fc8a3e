"""The model's submits, and the jobs that they are for."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tests.model.beats import Beats
from tests.model.things import (
    CONFLICT,
    DEFAULTS,
    FORBIDDEN,
    INVALID,
    NO_JOB,
    NO_WORKER,
    Job,
    Key,
    Rate,
    Task,
    User,
)
from tests.model.waiting import check_refs, named
from treadle.wire.status import TERMINAL, Status

Given = dict[str, Any]
"""A submit: `job` and the fields of the wire; instants as datetimes."""


class Submitted(NamedTuple):
    """A task that is in: a new one, with its place as it came, or the one that was there already.

    Of one that was due before it came the place is told as it is when all of its request are in.
    """

    task: Task
    created: bool = False
    position: int | None = None


class Submits(Beats):
    """What puts tasks in."""

    def __init__(self, worker_timeout: float = 60.0) -> None:
        super().__init__(worker_timeout)
        self.seq = 0

    def submit(
        self, user: User, room: str, given: Sequence[Given], now: datetime, names: Iterator[str]
    ) -> list[Submitted]:
        """Put tasks in, all or none. `names` are the ids of those without one."""
        if user.run is not None:
            raise FORBIDDEN
        check_refs(given)
        for one in given:
            self._check_job(room, one["job"])
        for one in given:
            if one.get("deadline") and one.get("scheduled_at") and one["deadline"] <= one["scheduled_at"]:
                raise INVALID
        self._check_twins(room, given)
        for one in given:
            first = self.tasks.get(one.get("id", ""))
            if first is None:
                self._check_delay(one, now)
                self.check_counts(self._counts_of(room, one))
                self.check_needs(given, one)
            elif first.content != self._content(room, one) or first.submitter != user.name:
                raise CONFLICT
        self.check_room(self._wanted(room, given, now), now)
        is_told = not any(self.supersedes(self._counts_of(room, one)) for one in given)
        done: list[Submitted] = []
        ids: dict[str, str] = {}
        for one in given:
            done.append(self._put(user, room, one, now, names, ids))
            if "ref" in one:
                ids[one["ref"]] = done[-1].task.id
        # Where tasks may have gone meanwhile, places are told as they are when all are in.
        return done if is_told else [one._replace(position=None) for one in done]

    def _wanted(self, room: str, given: Sequence[Given], now: datetime) -> list[tuple[dict[Key, int], bool]]:
        """Return the limits of those that will be new, each once, and whether it could begin at once."""
        found = []
        seen: set[Any] = set()
        for one in given:
            marks = {("id", one.get("id")), ("key", one["job"], one.get("unique_key"))}
            marks = {mark for mark in marks if mark[-1] is not None}
            if one.get("id") not in self.tasks and self._holder(one) is None and not marks & seen:
                is_due = not one.get("delay") and (one.get("scheduled_at") or now) <= now
                is_due = is_due and all(self._is_over(given, one, word) for word in named(one.get("depends_on") or {}))
                found.append((self._counts_of(room, one), is_due))
            seen |= marks
        return found

    def _is_over(self, given: Sequence[Given], one: Given, word: str) -> bool:
        """Whether a task need not wait for one, by its ref or id, that was there before the request and has ended."""
        item: Given = next((other for other in given if other.get("ref") == word), {"id": word})
        known = self.tasks.get(item.get("id", "")) or self._holder(item)
        if known is None:
            return False
        is_enough = one.get("on_dependency_failure") == "run" and known.status in TERMINAL
        return is_enough or known.status is Status.COMPLETED

    def _counts_of(self, room: str, one: Given) -> dict[Key, int]:
        return self.counts_of(self.jobs[one["job"]], room, one.get("limits"), one.get("payload", {}))

    def _holder(self, one: Given) -> Task | None:
        """Return the open task that holds the unique key."""
        key = one.get("unique_key")
        held = [task for task in self.tasks.values() if key is not None and task.is_open and task.unique_key == key]
        return next((task for task in held if task.job_name == one["job"]), None)

    def _check_job(self, room: str, full_name: str) -> None:
        job = self.jobs.get(full_name)
        if job is None or job.deleted or job.room not in {room, "@global", "@internal"}:
            raise NO_JOB

    @staticmethod
    def _check_delay(one: Given, now: datetime) -> None:
        if one.get("deadline") and one.get("delay") and one["deadline"] <= now + timedelta(seconds=one["delay"]):
            raise INVALID

    def _check_twins(self, room: str, given: Sequence[Given]) -> None:
        seen: dict[str, Any] = {}
        for one in given:
            content = self._content(room, one)
            if "id" in one and seen.setdefault(one["id"], content) != content:
                raise CONFLICT

    @staticmethod
    def _content(room: str, one: Given) -> Given:
        return {"room": room, **{name: value for name, value in one.items() if name != "id" and value is not None}}

    def _put(
        self, user: User, room: str, one: Given, now: datetime, names: Iterator[str], ids: dict[str, str]
    ) -> Submitted:
        """Put in a task, unless it is there; `ids` are those of the refs before it."""
        if one.get("id") in self.tasks:
            return Submitted(self.tasks[one["id"]])
        if (holder := self._holder(one)) is not None:
            return Submitted(holder)
        task = self.new_task(user, room, one, now, one.get("id") or next(names))
        self.bind(task, one, ids, now)
        self.supersede(task, now)
        return Submitted(task, created=True, position=self.position(task) if task.scheduled_at == now else None)

    def new_task(self, user: User, room: str, one: Given, now: datetime, task_id: str) -> Task:
        job = self.jobs[one["job"]]
        option = {name: one.get(name, job.defaults.get(name, default)) for name, default in DEFAULTS.items()}
        if option["heartbeat_increment"] is None:
            option["heartbeat_increment"] = option["lease_seconds"]
        due = one.get("scheduled_at") or now + timedelta(seconds=one.get("delay") or 0)
        self.seq += 1
        rest: dict[str, Any] = {name: one.get(name) for name in ("target", "deadline", "tags", "unique_key", "limits")}
        self.tasks[task_id] = task = Task(
            id=task_id, seq=self.seq, job_name=one["job"], room_id=room, submitter=user.name,
            payload=one.get("payload", {}), scheduled_at=due, created_at=now, updated_at=now,
            content=self._content(room, one), counts=self._counts_of(room, one),
            status=Status.SCHEDULED if due > now else Status.PENDING,
            **option, **rest,
        )  # fmt: skip
        return task

    def is_set_back(self, now: datetime) -> bool:
        """Whether the clock was set back: a submit's place is told from counts, which know no time; lists are exact."""
        return any(task.scheduled_at > now and task.status is Status.PENDING for task in self.tasks.values())

    # Jobs

    def register_job(
        self,
        user: User,
        full_name: str,
        worker_id: str,
        now: datetime,
        *,
        retain: bool,
        fair: str | None = None,
        limits: Sequence[Given] = (),
        **defaults: Any,
    ) -> bool:
        """Register a job that a worker serves, always the same; return whether it is new, or back.

        Those of its limits that are missing are made; those that are there stay as they are.
        """
        room = full_name.partition(":")[0]
        if room.startswith("@") and not user.superuser:
            raise FORBIDDEN
        worker = self.workers.get(worker_id)
        if worker is None or not self.is_own(user, worker):
            raise NO_WORKER
        self.check_counts({key: weight for key, weight in self.keys_in(room, limits).items() if key[:2] in self.limits})
        for one in limits:
            if (room, one["name"]) not in self.limits:
                self.set_limit(user, room, one["name"], now, one["concurrency"], Rate(**one["rate"]), "wait")
        known = self.jobs.get(full_name)
        is_new = known is None or known.deleted
        if is_new:
            self.jobs[full_name] = Job(
                room, full_name, defaults, retain=retain, fair=fair is not None, limits=list(limits)
            )
        worker.jobs.add(full_name)
        return is_new

    def pause_job(self, full_name: str, *, paused: bool) -> bool:
        if full_name not in self.jobs or self.jobs[full_name].deleted:
            raise NO_JOB
        self.jobs[full_name].paused = paused
        return paused
