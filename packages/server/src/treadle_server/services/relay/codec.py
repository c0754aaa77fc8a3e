"""What one server tells the others: ids of what changed, as text that fits into PostgreSQL's NOTIFY."""

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
"""Of one notice; PostgreSQL takes less than 8,000."""

TASKS_OF_ONE = 200
"""Tasks that are told in one notice; each is 24 characters, and a letter and a version for each transition."""

MOST_TASKS = 2000
"""Tasks that are told at once, in several notices; when there are more, the others are told to read everything."""

MOST_OTHERS = 100
"""Lanes, workers, jobs, links and schedules, of each kind, that are told in one notice; likewise."""

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
    """The transitions of a task, in their order: the status that it left, and each that it took with its version."""

    was: Status | None
    taken: list[tuple[Status, int]] = field(default_factory=list)


@dataclass(slots=True)
class Notice:
    """What a server has committed since its last notice."""

    server: str
    """The start of the server, as `Hub.stream`."""
    number: int = 0
    """Counts the server's notices, so that a lost one is missed."""
    tasks: dict[TaskId, Transitions] = field(default_factory=dict)
    lanes: set[int] = field(default_factory=set)
    """In which something is claimable that the server's own workers have not taken."""
    workers: set[WorkerId] = field(default_factory=set)
    """Of which something changed that the server where they are must look after."""
    heard: set[WorkerId] = field(default_factory=set)
    """Whose row changed."""
    jobs: set[int] = field(default_factory=set)
    links: set[tuple[WorkerId, int]] = field(default_factory=set)
    """Workers that serve a job from now on, each with the job's number."""
    schedules: set[str] = field(default_factory=set)
    away: dict[WorkerId, datetime] = field(default_factory=dict)
    """Workers whose sockets broke at the server, each with when."""
    back: set[WorkerId] = field(default_factory=set)
    """Those of them that have come back."""
    due_at: datetime | None = None
    """When the first task is due that was scheduled."""
    is_brief: bool = False
    """Whether transitions may be missing: nobody wanted each of them."""
    wants_each: bool = False
    """Whether the server wants to be told each transition from now on."""
    has_gap: bool = False
    """Whether there was more than can be told."""
    has_more: bool = False
    """Whether something changed that is no transition: progress, logs, a target's line, a limit."""

    @property
    def tells(self) -> bool:
        """Return whether anything is in it."""
        return self != Notice(self.server, self.number, is_brief=self.is_brief, wants_each=self.wants_each)


def written(notice: Notice) -> list[str]:
    """Return the notice as texts, numbered from its `number` on; what can't be told becomes a gap."""
    others = (notice.lanes, notice.workers, notice.heard, notice.jobs, notice.links, notice.schedules)
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
        "h": "".join(map(_short, sorted(notice.heard))),
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
    """Return the notice that was written so. Raises `ValueError` for what is none."""
    try:
        return _read(orjson.loads(text))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no notice of a server: {text[:100]!r}") from error


def _read(members: dict[str, Any]) -> Notice:
    due = members.get("d")
    return Notice(
        _long(members["s"]),
        int(members["n"]),
        tasks=dict(_steps(part) for part in members.get("t", "").split(",") if part),
        lanes=set(members.get("l", ())),
        workers={WorkerId(one) for one in _ids(members.get("w", ""))},
        heard={WorkerId(one) for one in _ids(members.get("h", ""))},
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
    """Return the UUID: a server reads those of all others, and by `uuid.UUID` each took 1.7 microseconds, not 0.4."""
    name = a2b_base64(short.encode().translate(_FROM_URL) + b"==").hex()
    if len(name) != 32:
        raise ValueError(f"no UUID: {short!r}")
    return f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"


def _ids(text: str) -> Iterator[str]:
    parts: Iterable[str] = (text[i : i + _SHORT] for i in range(0, len(text), _SHORT))
    return map(_long, parts)
