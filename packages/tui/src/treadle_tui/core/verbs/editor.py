"""A task as text: to read in a pager, or to change in an editor and parse again."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from pydantic import ValidationError

from treadle.ids import new_id
from treadle.wire.edits import TaskEdit
from treadle.wire.options import CLEARED, OPTIONS, TaskOptions, TaskTimes, TaskTraits
from treadle.wire.reasons import reason
from treadle.wire.status import LEASED, WAITING
from treadle.wire.tasks import TaskItem
from treadle.wire.values import TOO_DEEP
from treadle_tui.core.draw.glyphs import UNICODE
from treadle_tui.core.draw.text import clean
from treadle_tui.core.verbs.plan import Refusal


def _words(name: str) -> str:
    """Return the help text of an option: its meaning, what null means, and an example."""
    option = OPTIONS[name]
    null = f"; null for {option.null}" if option.null else ""
    return f"{option.help}{null}" + (f": {option.example}" if option.example else "")


_KINDS = (TaskTimes, TaskTraits, TaskOptions)
"""In the order of the text: first what belongs to one task, last what it shares with others of its job."""

FIELDS = {
    "payload": "the function's arguments; checked against the job's schema",
    **{name: _words(name) for kind in _KINDS for name in kind.__annotations__ if name != "delay"},
}
"""The fields that can be edited, with their help; `delay` is left out in favour of `scheduled_at`."""

_NOT_ASCII = re.compile(r"[^\n -~]")

Changes: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wrong:
    """The problems of an edited text, one line each."""

    problems: tuple[str, ...]


def editable(task: TaskItem) -> Refusal | None:
    """Return why a task can't be edited now, or None if it can."""
    if task.status in LEASED:
        return Refusal(f"can't edit a {task.status.value} task: pause or cancel it first")
    return None


def values(task: TaskItem) -> Changes:
    """Return the current values of a task's editable fields."""
    found = task.model_dump(mode="json", include=set(FIELDS))
    if task.status not in WAITING:
        # The task will be copied: by default the copy is due at once and has no deadline.
        found["scheduled_at"] = found["deadline"] = None
    found["tags"], found["scopes"] = found["tags"] or {}, found["scopes"] or []
    return {name: found[name] for name in FIELDS}


@dataclass(frozen=True, slots=True)
class Written:
    """An edited text, with the task as it was when editing began.

    A copy keeps its id when it is submitted again unchanged, so that it counts only once.
    """

    task: TaskItem
    text: str
    copy_id: str = field(default_factory=new_id)

    def edited(self, text: str) -> "Written":
        """Return this if the text is unchanged, otherwise a new one."""
        return self if text == self.text else Written(self.task, text)

    def again(self, task: TaskItem) -> "Written":
        """Return the text to continue with; if the task has changed meanwhile, the edits applied to its new version.

        A text that can't be parsed stays as it is and belongs to the old version, so the server will refuse it.
        """
        if self.task.version == task.version or isinstance(changes := read_edit(self.text, self.task), Wrong):
            return self
        return Written(task, edit_text(task, changes))


def edit_text(task: TaskItem, changes: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return the text to edit: JSON, with comments on separate lines that begin with `//`."""
    what = (
        "Save and close to change it; it keeps its place in the queue."
        if task.status in WAITING
        else f"It is {task.status.value} and won't change: what you save is submitted as a new task."
    )
    notes = [
        f"Task {task.id} of {clean(task.job_name)}",
        what,
        "If you change nothing, or leave the file empty, nothing happens.",
        "",
        *(f"{name}: {words}" for name, words in FIELDS.items()),
    ]
    return "".join(f"// {note}".rstrip() + "\n" for note in notes) + _json({**values(task), **changes}) + "\n"


def read_edit(text: str, task: TaskItem) -> Changes | Wrong:
    """Parse a text made by `edit_text`; return the changes (empty if there are none), or everything that is wrong."""
    body = "\n".join("" if line.lstrip().startswith("//") else line for line in text.splitlines())
    if not body.strip():
        return {}
    try:
        given = read_json(body)
    except ValueError as error:
        return Wrong((str(error),))
    if not isinstance(given, dict):
        return Wrong(("it must be a single JSON object: { … }",))
    if unknown := sorted(given.keys() - FIELDS.keys()):
        return Wrong(tuple(f"unknown field {clean(name)!r}: use one of {', '.join(FIELDS)}" for name in unknown))
    present = values(task)
    changes = {name: value for name, value in given.items() if _identity(value) != _identity(present[name])}
    problems = tuple(_problems(changes, task))
    return Wrong(problems) if problems else changes


def _identity(value: object) -> str:
    """Return a text that is equal only for equal JSON: in Python, 1, 1.0 and true compare as equal."""
    return json.dumps(value, sort_keys=True)


def read_json(text: str) -> Any:
    """Parse a text as JSON. Raises `ValueError`, with the line and column of the problem."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg.lower()}") from None
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def _problems(changes: Changes, task: TaskItem) -> Iterator[str]:
    if not changes:
        return
    missing = [name for name in FIELDS if name not in CLEARED and name in changes and changes[name] is None]
    yield from (f"{name}: must not be null" for name in missing)
    if not (others := {name: value for name, value in changes.items() if name not in missing}):
        return
    try:
        TaskEdit.model_validate({"id": task.id, **others})
    except ValidationError as error:
        for found in error.errors():
            where = ".".join(str(part) for part in found["loc"])
            said = reason(found)
            yield f"{clean(where)}: {said[:1].lower()}{clean(said[1:], limit=300)}"


def copy_of(task: TaskItem, changes: Changes) -> dict[str, Any]:
    """Return a submission for a copy of `task` with the changes: an element of the `tasks` of a `submit`."""
    whole = {**values(task), **changes, "job": task.job_name}
    return {name: value for name, value in whole.items() if value not in (None, [], {})}


def former(task: TaskItem, changes: Mapping[str, Any]) -> Changes:
    """Return the changes of an edit that restores `task`."""
    present = task.model_dump(mode="json", include=set(FIELDS))
    return {name: present[name] for name in changes}


def reading_text(task: TaskItem, now: datetime) -> str:
    """Return a task as text to read: its fields, then payload, result, checkpoint, progress and error, all escaped."""
    facts = task.model_dump(mode="json", exclude={"payload", "result", "checkpoint", "error", "progress"})
    head = "".join(f"{name:<18}{_word(value)}\n" for name, value in facts.items() if value not in (None, {}, []))
    parts = [f"Task {task.id}, as it was at {now.isoformat(timespec='seconds')}\n\n{head}"]
    parts += [_section("payload", _json(task.payload))]
    others = {name: getattr(task, name) for name in ("result", "checkpoint", "progress")}
    parts += [_section(name, _json(value)) for name, value in others.items() if value is not None]
    if task.error:
        parts.append(_section("error", "\n".join(clean(line, limit=100_000) for line in task.error.split("\n"))))
    return "\n".join(parts)


def _section(name: str, body: str) -> str:
    return f"{UNICODE.rule * 3} {name} {UNICODE.rule * (60 - len(name))}\n{body}\n"


def _word(value: object) -> str:
    return clean(value, limit=2000) if isinstance(value, str) else clean(json.dumps(value), limit=2000)


def _json(value: object) -> str:
    return printable(json.dumps(value, ensure_ascii=False, indent=2))


def printable(text: str) -> str:
    """Return JSON with control characters escaped, which parses to the same value."""
    return _NOT_ASCII.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"duplicate name {clean(name)!r} in an object: remove one of them")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON: write a number, a string or null")
