"""The stream of transitions as the dashboard keeps it: the last few thousand, with a mark where some were missed."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from treadle.encryption.fields import shown_task
from treadle.encryption.sealer import Sealer
from treadle.filters import matches
from treadle.wire.filters import TaskFilter
from treadle.wire.frames import MOST_RECENT
from treadle.wire.status import LEASED, TERMINAL
from treadle_tui.core.draw.format import local

KEPT = 5_000
"""How many events are kept: half an hour at three a second, and some 20 MB."""

Kind: TypeAlias = Literal["task", "queue", "worker", "schedule", "gap"]

_SEEN_BY_FILTER = ("id", "job_name", "room_id", "status", "target", "worker_id", "tags", "error", "reason", "run_id")


@dataclass(frozen=True, slots=True)
class EventRow:
    """A transition, or a gap in the stream."""

    id: str
    at: datetime
    kind: Kind
    subject: str
    """The id of the task, worker or schedule, or the job's full name."""
    was: str | None = None
    state: str = ""
    name: str = ""
    """The job of a task, or the name of a worker or schedule."""
    worker_id: str | None = None
    note: str = ""
    """The reason, if the event gives one."""
    task: Mapping[str, Any] = field(default_factory=dict)
    """The fields that a filter looks at."""

    def exported(self) -> dict[str, Any]:
        """Return the fields that are written to an exported file."""
        return {name: value for name, value in asdict(self).items() if name != "task"} | {"at": self.at.isoformat()}

    def means(self, wanted: TaskFilter) -> bool:
        """Return whether a filter matches this; a gap matches every filter."""
        return self.kind == "gap" or (self.kind == "task" and matches(wanted, self.task))


class EventLog:
    """Takes the pushes of `every`, in order and each once, and forgets the oldest rows."""

    def __init__(self, sealer: Sealer | None = None) -> None:
        self._sealer = sealer or Sealer(None)
        self.rows: deque[EventRow] = deque(maxlen=KEPT)
        self.taken = 0
        """How many rows there have ever been; readers use it to find what is new to them."""
        self.refusal: str | None = None
        """Why the server refuses to send events."""
        self.ready = False
        """Whether the server has begun to send events."""
        self._stream: str | None = None
        self._seq = -1
        self._from = -1
        """The sequence number at subscription, after which no event is missed."""

    @property
    def beginning(self) -> dict[str, Any]:
        """The request's fields: where the stream was left, or the last few hundred events when first opened."""
        if self._stream is None:
            return {"recent": MOST_RECENT}
        return {"since": {"stream": self._stream, "seq": max(self._seq, self._from)}}

    def began(self, stream: str, seq: int) -> None:
        """Note that no event after `seq` will be missed; those just before it may still be on their way."""
        self.ready = True
        if self._stream is None:
            self._stream, self._from = stream, seq

    def take(self, push: Mapping[str, Any], now: datetime) -> bool:
        """Apply a push of events, or a notice that some were missed; return whether it added anything."""
        before = self.taken
        if push["push"] == "reload":
            self._reload(push, now)
        elif push["stream"] == (self._stream or push["stream"]):
            self._stream = str(push["stream"])
            for row in _read(push, self._sealer, behind=self._seq):
                self._append(row)
            self._seq = max(self._seq, int(push["seq"]))
        return self.taken > before

    def _reload(self, push: Mapping[str, Any], now: datetime) -> None:
        if self.rows:
            missed = f"after {local(self.rows[-1].at):%H:%M:%S}"
            note = "the server no longer keeps what happened in between"
            gap = EventRow(id=f"gap.{self.taken}", at=now, kind="gap", subject="", name=missed, note=note)
            self._append(gap)
        self._stream, self._seq = str(push["stream"]), int(push["seq"])

    def _append(self, row: EventRow) -> None:
        self.rows.append(row)
        self.taken += 1


def _read(push: Mapping[str, Any], sealer: Sealer, *, behind: int) -> Iterator[EventRow]:
    stream = push["stream"]
    for place, event in enumerate(push["events"]):
        # `task.available` adds nothing to the same task's update to pending.
        if int(event["seq"]) > behind and event["type"] in _READERS:
            told = {**event, "task": shown_task(sealer, event["task"])} if "task" in event else event
            yield _READERS[event["type"]](f"{stream}.{event['seq']}.{place}", told)


def _task(key: str, event: Mapping[str, Any]) -> EventRow:
    task, was = event["task"], event.get("was")
    worker = task.get("worker_id")
    # When a task is queued or claimed again, the error or reason of an earlier run doesn't explain that.
    is_end = task["status"] in TERMINAL or (was in LEASED and task["status"] not in LEASED)
    note = (task.get("error") or task.get("reason") or "") if is_end else ""
    return EventRow(
        id=key,
        at=datetime.fromisoformat(event["at"]),
        kind="task",
        subject=str(task["id"]),
        was=None if was is None else str(was),
        state=str(task["status"]),
        name=str(task["job_name"]),
        worker_id=None if worker is None else str(worker),
        note=str(note),
        task={name: task[name] for name in _SEEN_BY_FILTER if task.get(name) is not None},
    )


def _queue(key: str, event: Mapping[str, Any]) -> EventRow:
    job = event["job"]
    state = "deleted" if event.get("deleted") else "paused" if job.get("paused") else "open"
    return EventRow(
        id=key,
        at=datetime.fromisoformat(event["at"]),
        kind="queue",
        subject=str(job["full_name"]),
        state=state,
        name=str(job["full_name"]),
    )


def _worker(key: str, event: Mapping[str, Any]) -> EventRow:
    worker = event["worker"]
    return EventRow(
        id=key,
        at=datetime.fromisoformat(event["at"]),
        kind="worker",
        subject=str(worker["id"]),
        state=str(worker.get("state", "online")),
        worker_id=str(worker["id"]),
        name=str(worker.get("name") or ""),
    )


def _schedule(key: str, event: Mapping[str, Any]) -> EventRow:
    schedule = event["schedule"]
    state = "deleted" if event.get("deleted") else "paused" if schedule.get("paused") else "on"
    return EventRow(
        id=key,
        at=datetime.fromisoformat(event["at"]),
        kind="schedule",
        subject=str(schedule["id"]),
        state=state,
        name=str(schedule.get("name") or ""),
    )


_READERS = {
    "task.updated": _task,
    "job.updated": _queue,
    "worker.updated": _worker,
    "schedule.updated": _schedule,
}
