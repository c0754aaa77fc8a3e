"""Reads recordings: their entries by time, and the server's state at a moment."""

import gzip
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from treadle.filters import matches
from treadle.wire.frames import Order, Window
from treadle.wire.status import LEASED, Status
from treadle_tui.core.live.recorder import FORMAT, RecordingError

_LINE = re.compile(rb'\{"t":([0-9]{1,9}(?:\.[0-9]{1,9})?),')
"""The beginning of a line, with its seconds since the start: thirty years at most."""

_KINDS = ("opened", "lost", "push", "ask")

MOST_TASKS = 50_000
"""How many of the tasks seen so far are remembered."""


class Recording:
    """The lines of a file with their times. Each line is parsed only when its moment comes."""

    def __init__(self, lines: Iterable[bytes], *, name: str) -> None:
        """Read the lines, up to one that is not of a recording. Raises `RecordingError` if that is the first one."""
        numbered = enumerate(lines, start=1)
        self.name = name
        self.header = _header(next(numbered, (1, b""))[1], name)
        self.begun_at = datetime.fromisoformat(self.header["at"])
        self.damage: str | None = None
        """What is wrong with the line that cut the recording short; None if no damage was found."""
        self._times: list[float] = []
        self._lines: list[bytes] = []
        for number, line in numbered:
            if not line.endswith(b"\n"):
                break  # The dashboard was killed while it wrote this line.
            match = _LINE.match(line)
            if match is None and not self._times:
                raise RecordingError(f"{name}, line {number}: not a line of a recording: {line[:60]!r}")
            if match is None:
                self.damage = f"line {number} is not a line of a recording: {line[:60]!r}"
                break
            at = float(match[1])
            if at < self.seconds:
                self.damage = f"line {number} is earlier than the line before it"
                break
            self._times.append(at)
            self._lines.append(line)

    @property
    def seconds(self) -> float:
        """The length of the recording."""
        return self._times[-1] if self._times else 0.0

    def between(self, first: int, until: float) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the entries from index `first` up to a time in seconds, each with the index of the next one.

        Raises `ValueError` for a line that is not JSON or not an entry of a recording.
        """
        for number in range(first, bisect_right(self._times, until)):
            entry = from_json(self._lines[number])
            for kind in _KINDS:
                if not isinstance(entry.get(kind, {}), dict):
                    raise ValueError(f"{kind} is not an object")  # noqa: TRY004 - the same error as for invalid JSON
            yield number + 1, entry

    def cut(self, number: int, why: str) -> None:
        """End the recording before an entry that can't be read; what follows builds on it and can't be shown either."""
        del self._times[number:], self._lines[number:]
        self.damage = f"line {number + 2} can't be read: {why}"

    def time_of(self, number: int) -> float | None:
        """Return the time of an entry, in seconds; None after the last one."""
        return self._times[number] if number < len(self._times) else None


def open_recording(path: Path) -> Recording:
    """Read a recording. Raises `RecordingError` if it can't be read or is not a recording."""
    try:
        opened = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115 - closed below
        with opened as file:
            return Recording(_lines(file), name=str(path))
    except (OSError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordingError(f"{path} can't be read: {reason}") from None


def _lines(file: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from file
    except EOFError:
        return  # A compressed file, cut off when the dashboard was killed.


def _header(line: bytes, name: str) -> dict[str, Any]:
    try:
        header = from_json(line)
        at = datetime.fromisoformat(header["at"])
        # With the thirty years of a line, every moment is one that Python has, in every zone.
        found = (header["treadle"], header["format"], at.tzinfo is not None and 1970 <= at.year < 9000)
    except (ValueError, KeyError, TypeError):
        raise RecordingError(f"{name} is not a recording: make one with `treadle watch --record FILE`") from None
    if found[0] != "recording" or not found[2]:
        raise RecordingError(f"{name} is not a recording: make one with `treadle watch --record FILE`")
    if found[1] != FORMAT:
        raise RecordingError(f"{name} is a recording in format {found[1]}: this version reads format {FORMAT}")
    return dict(header)


@dataclass(slots=True)
class _Kept:
    """The recorded state of a topic."""

    fields: Mapping[str, Any]
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    total: int = 0
    capped: bool = False
    has_data: bool = False
    """Whether any data has come: a topic that was requested but not answered is unknown."""


@dataclass(frozen=True, slots=True)
class View:
    """What a subscription shows."""

    topic: str
    rows: dict[str, dict[str, Any]]
    total: int
    capped: bool = False

    def snapshot(self, sub: str) -> dict[str, Any]:
        """Return the snapshot that starts a subscription."""
        return self._push("snapshot", sub, list(self.rows.values()))

    def delta(self, sub: str, before: "View") -> dict[str, Any]:
        """Return the delta that turns the previous view into this one."""
        changed = [row for key, row in self.rows.items() if before.rows.get(key) is not row]
        push = self._push("delta", sub, changed)
        push["gone"] = [key for key in before.rows if key not in self.rows]
        if self.topic == "tasks":
            push["order"] = list(self.rows)
        return push

    def _push(self, kind: str, sub: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "push": kind,
            "sub": sub,
            "topic": self.topic,
            "seq": 0,
            "rows": rows,
            "total": self.total,
            "total_is_capped": self.capped,
        }


class Past:
    """The server's state at a moment, as built up by the entries until then."""

    def __init__(self) -> None:
        self.hello: dict[str, Any] | None = None
        """The server's answer to the connection; None while there was none."""
        self.lost: dict[str, Any] | None = None
        self._topics: dict[str, _Kept] = {}
        self._subs: dict[str, str] = {}
        self._tasks: dict[str, dict[str, Any]] = {}
        self._details: dict[str, dict[str, Any]] = {}

    def take(self, entry: Mapping[str, Any]) -> str | None:
        """Apply an entry. Return the topic that it changed, `link` for the connection, or None for nothing."""
        if "opened" in entry:
            self.hello, self.lost = entry["opened"], None
            return "link"
        if "lost" in entry:
            self.hello, self.lost = None, entry["lost"]
            return "link"
        if "ask" in entry:
            self._ask(entry["ask"])
        elif "push" in entry and entry["push"].get("push") in {"snapshot", "delta"}:
            return self._push(entry["push"])
        return None

    def _ask(self, ask: Mapping[str, Any]) -> None:
        if ask["op"] == "watch":
            # Until the new snapshot comes, the topic keeps showing the old rows, as it did on the screen.
            self._subs[ask["topic"]] = ask["sub"]
            kept = self._topics.get(ask["topic"]) or _Kept(ask)
            self._topics[ask["topic"]] = _Kept(ask, kept.rows, kept.total, has_data=kept.has_data)

    def _push(self, push: Mapping[str, Any]) -> str | None:
        topic = str(push["topic"])
        kept = self._topics.get(topic)
        if kept is None or self._subs.get(topic) != push["sub"]:
            return None
        key = "job" if topic == "counts" else "id"
        rows = {str(row[key]): row for row in push["rows"]}
        if push["push"] == "snapshot":
            kept.rows = rows
        else:
            kept.rows = {**kept.rows, **rows}
            for gone in push.get("gone", ()):
                kept.rows.pop(gone, None)
            if (order := push.get("order")) is not None:
                kept.rows = {name: kept.rows[name] for name in order if name in kept.rows}
        kept.has_data = True
        kept.total = int(push.get("total", len(kept.rows)))
        kept.capped = bool(push.get("total_is_capped", False))
        self._remember(topic, rows)
        return topic

    def _remember(self, topic: str, rows: Mapping[str, dict[str, Any]]) -> None:
        if topic == "tasks":
            for key, row in rows.items():
                # The tasks that were not seen for the longest come first, and are forgotten first.
                self._tasks.pop(key, None)
                self._tasks[key] = row
            while len(self._tasks) > MOST_TASKS:
                del self._tasks[next(iter(self._tasks))]
        elif topic == "task":
            self._details.update(rows)

    def awaits(self, topic: str) -> bool:
        """Return whether data of a topic may still come: nothing is watched yet, or this topic is still unanswered."""
        kept = self._topics.get(topic)
        return not self._topics or (kept is not None and not kept.has_data)

    def view(self, fields: Mapping[str, Any]) -> "View | None":
        """Return what a `watch` with these fields shows; None if the recording has no data for it yet."""
        topic = str(fields["topic"])
        kept = self._topics.get(topic)
        if kept is None or not kept.has_data:
            return None
        rows, total, capped = list(kept.rows.values()), kept.total, kept.capped
        if topic == "task":
            detail = self._details.get(str(fields.get("task_id")))
            if detail is None:
                return None
            rows, total = [detail], 1
        elif topic == "logs" and fields.get("window") != kept.fields.get("window"):
            return None
        elif topic == "tasks":
            rows, total, capped = self._window(kept, fields)
        key = "job" if topic == "counts" else "id"
        return View(topic, {str(row[key]): row for row in rows}, total, capped=capped)

    def _window(self, kept: _Kept, fields: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int, bool]:
        wanted, had = _window_of(fields), _window_of(kept.fields)
        same = (wanted.filter, wanted.order, fields.get("room")) == (had.filter, had.order, kept.fields.get("room"))
        if same and wanted.offset == had.offset:
            return list(kept.rows.values())[: wanted.limit], kept.total, kept.capped
        # A different window from the recorded one: build it from all tasks seen so far, each as last seen.
        found = [row for row in self._tasks.values() if matches(wanted.filter, row)]
        if (room := fields.get("room")) is not None:
            found = [row for row in found if row.get("room_id") == room]
        found.sort(key=lambda row: str(row["id"]), reverse=wanted.order != "oldest")
        found.sort(key=lambda row: _place(row, wanted.order))
        return found[wanted.offset : wanted.offset + wanted.limit], len(found), False


def _window_of(fields: Mapping[str, Any]) -> Window:
    try:
        return Window.model_validate(fields.get("window") or {})
    except ValidationError:
        # Recorded by a newer version with other window fields: it can't match any window of ours.
        return Window(limit=1)


_RANKS = {Status.PENDING: 1, Status.SCHEDULED: 2, Status.BLOCKED: 3, Status.PAUSED: 4}


def _place(row: Mapping[str, Any], order: Order) -> tuple[Any, ...]:
    if order != "position":
        return ()
    status = Status(row["status"])
    due = str(row.get("scheduled_at") or "") if status is Status.SCHEDULED else ""
    return (0 if status in LEASED else _RANKS.get(status, 5), row.get("queue_position") or 0, due)
