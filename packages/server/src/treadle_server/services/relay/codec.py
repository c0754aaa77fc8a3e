"""The encoding of a server's notices: ids of what changed, as text that fits into PostgreSQL's NOTIFY."""

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import Status

MOST_BYTES = 7900
"""Most bytes of a notice; PostgreSQL accepts fewer than 8,000."""

TASKS_OF_ONE = 200
"""Most tasks in one notice; each takes 24 characters, plus a letter and a version for each transition."""

MOST_TASKS = 2000
"""Most tasks that are sent at once, in several notices; with more, the other servers have to read everything."""

MOST_OTHERS = 100
"""Most lanes, workers, jobs, links and schedules, of each kind, in one notice; likewise."""

_CODES: dict[Status | None, str] = {
    None: "-",
    Status.SCHEDULED: "s",
    Status.BLOCKED: "b",
    Status.PENDING: "p",
    Status.CLAIMED: "c",
    Status.RUNNING: "r",
    Status.PAUSED: "h",
    Status.COMPLETED: "d",
    Status.FAILED: "f",
    Status.CANCELLED: "x",
}
_STATUSES = {code: status for status, code in _CODES.items()}
_TAKEN = {code: status for status, code in _CODES.items() if status is not None}
_STEP = re.compile(r"([a-z])(\d+)")


@dataclass(slots=True)
class Transitions:
    """The transitions of a task in order: the status that it left, and each new status with the task's version."""

    was: Status | None
    taken: list[tuple[Status, int]] = field(default_factory=list)


@dataclass(slots=True)
class Notice:
    """A server's changes since its last notice."""

    server: str
    """The server's `Hub.stream`, which is new with each start."""
    number: int = 0
    """The number of the server's notice, by which a lost one is noticed."""
    tasks: dict[TaskId, Transitions] = field(default_factory=dict)
    lanes: set[int] = field(default_factory=set)
    """Lanes with claimable tasks that the server's own workers have not taken."""
    workers: set[WorkerId] = field(default_factory=set)
    """Workers with changes that their own server has to handle."""
    updated_workers: set[WorkerId] = field(default_factory=set)
    """Workers whose row changed."""
    jobs: set[int] = field(default_factory=set)
    links: set[tuple[WorkerId, int]] = field(default_factory=set)
    """New links of workers to jobs, as (worker's id, job's number)."""
    schedules: set[str] = field(default_factory=set)
    away: dict[WorkerId, datetime] = field(default_factory=dict)
    """Workers whose sockets broke at the server, and when."""
    back: set[WorkerId] = field(default_factory=set)
    """Workers that have reconnected."""
    due_at: datetime | None = None
    """The earliest due time of newly scheduled tasks."""
    is_brief: bool = False
    """Whether transitions may be missing, because nobody wanted all of them."""
    wants_each: bool = False
    """Whether the server wants to receive every transition from now on."""
    has_gap: bool = False
    """Whether there were more changes than fit."""
    has_more: bool = False
    """Whether there were changes other than transitions: progress, logs, a target's line, a limit."""

    @property
    def has_content(self) -> bool:
        """Return whether it contains anything."""
        return self != Notice(self.server, self.number, is_brief=self.is_brief, wants_each=self.wants_each)


def written(notice: Notice) -> list[str]:
    """Return the notice as texts, numbered from its `number` on; if it does not fit, a single one with `has_gap`."""
    others = (notice.lanes, notice.workers, notice.updated_workers, notice.jobs, notice.links, notice.schedules)
    absences = (notice.away, notice.back)
    if notice.has_gap or len(notice.tasks) > MOST_TASKS or any(len(ids) > MOST_OTHERS for ids in (*others, *absences)):
        return [_text(Notice(notice.server, notice.number, wants_each=notice.wants_each, has_gap=True), [])]
    entries = [_entry(task_id, steps) for task_id, steps in notice.tasks.items()]
    portions = [entries[i : i + TASKS_OF_ONE] for i in range(0, len(entries), TASKS_OF_ONE)] or [[]]
    texts = [_text(notice, portions[0])]
    for i, portion in enumerate(portions[1:], 1):
        more = Notice(notice.server, notice.number + i, is_brief=notice.is_brief, wants_each=notice.wants_each)
        texts.append(_text(more, portion))
    if any(len(text) > MOST_BYTES for text in texts):
        return written(Notice(notice.server, notice.number, wants_each=notice.wants_each, has_gap=True))
    return texts


def _text(notice: Notice, entries: list[str]) -> str:
    members: dict[str, Any] = {
        "s": _short(notice.server),
        "n": notice.number,
        "t": ",".join(entries),
        "l": sorted(notice.lanes),
        "w": "".join(map(_short, sorted(notice.workers))),
        "h": "".join(map(_short, sorted(notice.updated_workers))),
        "j": sorted(notice.jobs),
        "k": [[_short(worker_id), num] for worker_id, num in sorted(notice.links)],
        "c": "".join(map(_short, sorted(notice.schedules))),
        "a": [[_short(worker_id), at.timestamp()] for worker_id, at in sorted(notice.away.items())],
        "r": "".join(map(_short, sorted(notice.back))),
        "d": None if notice.due_at is None else notice.due_at.timestamp(),
        "b": notice.is_brief,
        "e": notice.wants_each,
        "g": notice.has_gap,
        "m": notice.has_more,
    }
    return orjson.dumps({name: value for name, value in members.items() if value or name == "n"}).decode()


def read(text: str) -> Notice:
    """Return the notice of a text. Raises `ValueError` for anything else."""
    try:
        return _read(orjson.loads(text))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a server's notice: {text[:100]!r}") from error


def _read(members: dict[str, Any]) -> Notice:
    due = members.get("d")
    return Notice(
        _long(members["s"]),
        int(members["n"]),
        tasks=dict(_steps(part) for part in members.get("t", "").split(",") if part),
        lanes=set(members.get("l", ())),
        workers={WorkerId(one) for one in _ids(members.get("w", ""))},
        updated_workers={WorkerId(one) for one in _ids(members.get("h", ""))},
        jobs=set(members.get("j", ())),
        links={(WorkerId(_long(short)), int(num)) for short, num in members.get("k", ())},
        schedules=set(_ids(members.get("c", ""))),
        away={WorkerId(_long(short)): datetime.fromtimestamp(at, UTC) for short, at in members.get("a", ())},
        back={WorkerId(one) for one in _ids(members.get("r", ""))},
        due_at=None if due is None else datetime.fromtimestamp(due, UTC),
        is_brief=bool(members.get("b")),
        wants_each=bool(members.get("e")),
        has_gap=bool(members.get("g")),
        has_more=bool(members.get("m")),
    )


def _entry(task_id: TaskId, steps: Transitions) -> str:
    taken = "".join(f"{_CODES[status]}{version}" for status, version in steps.taken)
    return f"{_short(task_id)}{_CODES[steps.was]}{taken}"


def _steps(entry: str) -> tuple[TaskId, Transitions]:
    taken = [(_TAKEN[code], int(version)) for code, version in _STEP.findall(entry, _SHORT + 1)]
    return TaskId(_long(entry[:_SHORT])), Transitions(_STATUSES[entry[_SHORT]], taken)


_SHORT = 22
"""Characters of a UUID in base 64, in the alphabet of URLs."""

_TO_URL, _FROM_URL = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")


def _short(name: str) -> str:
    return b2a_base64(bytes.fromhex(name.replace("-", "")), newline=False).translate(_TO_URL)[:_SHORT].decode()


def _long(short: str) -> str:
    """Return the UUID. With `uuid.UUID`, each of the many from other servers took 1.7 microseconds instead of 0.4."""
    name = a2b_base64(short.encode().translate(_FROM_URL) + b"==").hex()
    if len(name) != 32:
        raise ValueError(f"not a UUID: {short!r}")
    return f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"


def _ids(text: str) -> Iterator[str]:
    parts: Iterable[str] = (text[i : i + _SHORT] for i in range(0, len(text), _SHORT))
    return map(_long, parts)
