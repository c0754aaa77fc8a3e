"""The filter language: `status:pending,running job:@global:tasks:bill target:cam-1 some text`.

The command line and the dashboard speak it.

A filter is words with spaces between. A word `key:value` narrows one field; all other words are searched for as one
text, part of the id, the job's name, the payload or the error. Quotes keep spaces and colons in a value:
`tag:"k=a b"`, `"status:"`; inside them a backslash takes the next character as it is. Parts must all hold.

`tag.region.name:eu` reaches into tags that are nested; `tag:region.name=eu` says the same, and `tag:region.name` that
there is something.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from treadle.wire import tags
from treadle.wire.status import OPEN, TERMINAL, Status
from treadle.wire.tasks import TaskFilter

KEYS = {
    "status": "pending, running, … or the groups open, done and all; several with commas",
    "job": "the job's full name, room:category:name",
    "room": "the room that the tasks were submitted from",
    "target": "the target's name",
    "worker": "the worker's id",
    "tag": "key or key=value; tag.region.name:eu reaches into a nested one",
    "id": "the beginning of the task's id",
}
"""Every key of the language, with what its value is."""

GROUPS: dict[str, frozenset[Status]] = {"open": OPEN, "done": TERMINAL, "all": frozenset(Status)}
"""Words for several states at once."""

_WORD = re.compile(r'\s*((?:"(?:\\.|[^"\\])*"|[^\s"])+|")')
_QUOTED = re.compile(r'"((?:\\.|[^"\\])*)"')
_KEY = re.compile(r"([a-z]+):(.*)", re.DOTALL)
_TAG = re.compile(r'tag\.((?:"(?:\\.|[^"\\])*"|[^:"])+):(.*)', re.DOTALL)


class FilterError(ValueError):
    """A filter that can't be read; `at` is the index of the word that is wrong."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a filter: where it starts, how it is written, and the key and value in it."""

    at: int
    raw: str
    key: str | None
    value: str


def words(text: str) -> Iterator[Word]:
    """Split a filter into its words; raises `FilterError` for a quote that is not closed."""
    for match in _WORD.finditer(text):
        raw, at = match[1], match.start(1)
        if raw == '"' or (raw.count('"') and _QUOTED.sub("", raw).count('"')):
            raise FilterError("a quote is not closed", at)
        key = _KEY.fullmatch(raw)
        if (nested := _TAG.fullmatch(raw)) is not None:
            yield Word(at, raw, "tag", _nested(nested, at))
        elif key is not None and key[1] in KEYS:
            yield Word(at, raw, key[1], _unquoted(key[2]))
        elif key is not None and not raw.startswith("@"):
            known = ", ".join(KEYS)
            raise FilterError(f'there is no "{key[1]}:"; write one of {known}, or quote the text', at)
        else:
            yield Word(at, raw, None, _unquoted(raw))


def _nested(found: re.Match[str], at: int) -> str:
    """Return `path=value`, or nothing when there is no value."""
    path = _unquoted(found[1])
    if "=" in path:
        raise FilterError("a tag whose name holds = is not found by its value; write tag: with the name alone", at)
    return f"{path}={_unquoted(found[2])}" if found[2] else ""


def parse(text: str) -> TaskFilter:
    """Return the filter that `text` means.

    Raises `FilterError` for an unknown key or status, a key given twice (other than status), an empty or malformed
    value, and a quote that is not closed.
    """
    found: dict[str, Any] = {}
    spoken: list[str] = []
    for word in words(text):
        if word.key is None:
            spoken.append(word.value)
        elif not word.value:
            raise FilterError(f"{word.key}: wants a value: {KEYS[word.key]}", word.at)
        elif word.key == "status":
            found.setdefault("status", []).extend(_statuses(word))
        elif word.key in found:
            raise FilterError(f"{word.key}: is given twice", word.at)
        else:
            found[word.key] = word.value
    if spoken:
        found["text"] = " ".join(spoken)
    if "status" in found:
        found["status"] = ordered(found["status"])
    try:
        return TaskFilter(**found)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        at = next((word.at for word in words(text) if word.key == key), 0)
        raise FilterError(f"{key}: {first['msg'].lower()}", at) from None


def ordered(statuses: Iterable[Status]) -> list[Status]:
    """Return the statuses without repetition, in the order of a task's life."""
    given = set(statuses)
    return [status for status in Status if status in given]


def write(task_filter: TaskFilter) -> str:
    """Return the text that `parse` reads as `task_filter`."""
    parts: list[str] = []
    for key in KEYS:
        value = getattr(task_filter, key)
        if key == "status" and value is not None:
            parts.append(f"status:{_status_words(value)}")
        elif value is not None:
            parts.append(f"{key}:{_quoted(value)}")
    if task_filter.text is not None:
        parts.append(_quoted(task_filter.text, alone=True))
    return " ".join(parts)


def matches(task_filter: TaskFilter, task: Mapping[str, Any]) -> bool:
    """Return whether the filter means a task, as the wire has it; fields that were not sent hold no text."""
    if task_filter.status is not None and task["status"] not in task_filter.status:
        return False
    named = {"job": "job_name", "room": "room_id", "target": "target", "worker": "worker_id"}
    for key, column in named.items():
        wanted = getattr(task_filter, key)
        if wanted is not None and task.get(column) != wanted:
            return False
    if task_filter.id is not None and not task["id"].startswith(task_filter.id):
        return False
    if task_filter.tag is not None and not tags.has(task.get("tags"), task_filter.tag):
        return False
    text = (task_filter.text or "").casefold()
    payload = json.dumps(task.get("payload") or {}, ensure_ascii=False)
    return any(
        text in str(part or "").casefold() for part in (task["id"], task["job_name"], task.get("error"), payload)
    )


def complete(text: str, *, jobs: Iterable[str] = ()) -> str | None:
    """Return `text` with its last word completed, or None when there is nothing to add."""
    head, last = re.fullmatch(r"(.*?)(\S*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    key, colon, value = last.partition(":")
    if not last or '"' in last:
        return None
    if not colon:
        return next((f"{head}{name}:" for name in KEYS if name.startswith(key)), None)
    if key == "status":
        given, _, part = value.rpartition(",")
        names = [*(status.value for status in Status), *GROUPS]
        known = next((name for name in names if part and name.startswith(part) and name != part), None)
        return None if known is None else f"{head}status:{given + ',' if given else ''}{known}"
    if key == "job":
        known = next((name for name in sorted(jobs) if value and name.startswith(value) and name != value), None)
        return None if known is None else f"{head}job:{known}"
    return None


def _statuses(word: Word) -> Iterator[Status]:
    for name in word.value.split(","):
        if name in GROUPS:
            yield from GROUPS[name]
            continue
        try:
            yield Status(name)
        except ValueError:
            known = ", ".join([*(status.value for status in Status), *GROUPS])
            raise FilterError(f'there is no status "{name}"; write one of {known}', word.at) from None


def _status_words(statuses: list[Status]) -> str:
    for name, group in GROUPS.items():
        if set(statuses) == group:
            return name
    return ",".join(status.value for status in statuses) or '""'


def _unquoted(raw: str) -> str:
    return _QUOTED.sub(lambda match: re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL), raw)


def _quoted(value: str, *, alone: bool = False) -> str:
    awkward = not value or '"' in value or any(char.isspace() for char in value) or (alone and ":" in value)
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"' if awkward else value
