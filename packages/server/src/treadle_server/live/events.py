"""Sends each transition once to observers of `every`; keeps the last 10,000 for those who reconnect.

Nothing is encoded without such an observer, so events then cost the server nothing.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from treadle.wire.frames import EventType, Since
from treadle.wire.names import INTERNAL
from treadle.wire.status import Status
from treadle_server.clock import Clock
from treadle_server.domain.visibility import Visibility
from treadle_server.engine.hub import HERE, Batch, Hub
from treadle_server.operations.encode import dumps, light_task, plain_job, plain_schedule
from treadle_server.operations.worker_rows import plain_worker
from treadle_server.services.recent import Recent, tells

KEPT = 10_000
"""Most events that are kept; an observer that has missed more has to reload everything."""


KEPT_SECONDS = 300.0
"""Seconds for which events are still kept after the last listener has left."""


@dataclass(frozen=True, slots=True)
class Event:
    """A transition as it is sent."""

    seq: int
    room: str | None
    job: str | None
    task_id: str | None
    is_job: bool
    encoded: bytes
    brief: bytes | None
    """None for events that are not transitions: heartbeats and `task.available`."""


@dataclass(slots=True, eq=False)
class EventListener:
    """A subscriber to all transitions, or to those of a room, job or task if set."""

    put: Callable[[bytes], None]
    room: str | None
    job: str | None
    task_id: str | None = None
    brief: bool = False
    visibility: Visibility | None = None
    """The rooms that it can read; None means all."""

    def form_of(self, event: Event) -> bytes | None:
        """Return the event in the form that the listener wants; None when it does not want it."""
        of_it = (
            (self.room is None or self.room == event.room)
            and (self.job is None or self.job == event.job)
            and (self.task_id is None or self.task_id == event.task_id)
            and (self.visibility is None or tells(self.visibility, event.room, is_job=event.is_job))
        )
        return (event.brief if self.brief else event.encoded) if of_it else None


class Events:
    """The stream of transitions."""

    def __init__(self, hub: Hub, clock: Clock, recent: Recent) -> None:
        self._hub = hub
        self._recent = recent
        self._brief = Recent()
        self._clock = clock
        self._left_at = 0.0
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._first = hub.seq
        self._listeners: set[EventListener] = set()

    def on_commit(self, batch: Batch) -> None:
        """Keep the events of a commit, and send them."""
        if not self._hub.wants_each_here:
            return
        if batch.has_gap:
            # The rest of the batch is part of the reload: sent after it, the numbers would go backwards.
            self._lose()
        if not self._listeners and self._clock.monotonic() - self._left_at > KEPT_SECONDS:
            self._hub.want_each(HERE, wanted=False)
            self._kept.clear()
            return
        if batch.has_gap:
            return
        fresh = list(_events(batch, self._brief))
        for event in fresh:
            if len(self._kept) == KEPT:
                self._first = self._kept[0].seq
            self._kept.append(event)
        for listener in self._listeners:
            self._send(listener, fresh, batch.seq)

    def _lose(self) -> None:
        """Make all listeners reload: another server has made changes that are not known here."""
        self._kept.clear()
        self._first = self._hub.seq
        for listener in self._listeners:
            listener.put(self._reload())

    def _reload(self) -> bytes:
        return dumps({"push": "reload", "stream": self._hub.stream, "seq": self._hub.seq})

    def _send(self, listener: EventListener, events: list[Event], seq: int) -> None:
        wanted = [form for event in events if (form := listener.form_of(event)) is not None]
        self._put(listener, wanted, seq)

    def _put(self, listener: EventListener, wanted: list[bytes], seq: int) -> None:
        if wanted:
            head = dumps({"push": "events", "stream": self._hub.stream, "seq": seq})
            listener.put(head[:-1] + b',"events":[' + b",".join(wanted) + b"]}")

    def add(self, listener: EventListener, since: Since | None, recent: int = 0) -> None:
        """Send the listener what it missed `since`, or tell it to reload, and from then on every event.

        With `recent` it also receives that many of the last transitions first.
        """
        if not self._hub.wants_each_here:
            self._hub.want_each(HERE, wanted=True)
            self._brief = self._recent.from_now()
            self._first = self._hub.seq
        if since is not None:
            if since.stream == self._hub.stream and self._first <= since.seq <= self._hub.seq:
                missed = [event for event in self._kept if event.seq > since.seq]
                self._send(listener, missed, self._hub.seq)
            else:
                listener.put(self._reload())
        if recent:
            last = self._recent.last(
                recent, room=listener.room, job=listener.job, task_id=listener.task_id, visibility=listener.visibility
            )
            self._put(listener, [dumps(one.shown()) for one in last], self._hub.seq)
        self._listeners.add(listener)

    def remove(self, listener: EventListener) -> None:
        """Stop sending events to the listener."""
        self._listeners.discard(listener)
        self._left_at = self._clock.monotonic()


def _events(batch: Batch, recent: Recent) -> Iterator[Event]:
    data: dict[str, Any]
    seq = batch.seq - batch.size
    briefs = {one.seq: _copied(dumps(one.shown())) for one in recent.of(batch)}
    for place, change in enumerate(batch.tasks):
        seq += 1
        if place in batch.late:
            continue
        task = change.task
        room, job = task.room, task.job_name
        data = {"task": light_task(task), "was": change.was}
        yield Event(seq, room, job, task.id, False, _encode(seq, "task.updated", batch, data), briefs[seq])
        if task.status is Status.PENDING and change.was is not Status.PENDING and not job.startswith(f"{INTERNAL}:"):
            # It shares the transition's number, so that a client that resumes gets both or neither.
            available = {"job": job, "room": room}
            yield Event(seq, room, job, task.id, False, _encode(seq, "task.available", batch, available), None)
    for changed in batch.jobs:
        seq += 1
        data = {"job": plain_job(changed), "deleted": changed.deleted_at is not None}
        encoded = _encode(seq, "job.updated", batch, data)
        yield Event(seq, changed.room, changed.full_name, None, True, encoded, briefs[seq])
    for worker in batch.workers:
        seq += 1
        data = {"worker": plain_worker(worker, batch.at)}
        yield Event(seq, None, None, None, False, _encode(seq, "worker.updated", batch, data), briefs.get(seq))
    for schedule in batch.schedules:
        seq += 1
        data = {"schedule": plain_schedule(schedule), "deleted": schedule.deleted_at is not None}
        yield Event(seq, schedule.room, None, None, False, _encode(seq, "schedule.updated", batch, data), briefs[seq])


def _encode(seq: int, kind: EventType, batch: Batch, data: dict[str, Any]) -> bytes:
    return _copied(dumps({"seq": seq, "type": kind, "at": batch.at, **data}))


def _copied(encoded: bytes) -> bytes:
    """Return a copy: orjson's own bytes keep the whole buffer that they were written to, 16 KB each."""
    return bytes(memoryview(encoded))
