"""A task as a text: to be read in a pager, or to be changed in an editor and read back."""

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
    """Return what an option means, what null stands for, and how it looks."""
    option = OPTIONS[name]
    null = f"; null for {option.null}" if option.null else ""
    return f"{option.help}{null}" + (f": {option.example}" if option.example else "")


_KINDS = (TaskTimes, TaskTraits, TaskOptions)
"""What is one task's own comes first, what it shares with others of its job last."""

FIELDS = {
    "payload": "what the function gets; checked against the job's schema",
    **{name: _words(name) for kind in _KINDS for name in kind.__annotations__ if name != "delay"},
}
"""What can be changed, with what it means; `scheduled_at` says what a delay would."""

_NOT_ASCII = re.compile(r"[^\n -~]")

Changes: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why a text can't be taken, a line for each reason."""

    problems: tuple[str, ...]


def editable(task: TaskItem) -> Refusal | None:
    """Return why a task can't be edited now, or None."""
    if task.status in LEASED:
        return Refusal(f"can't edit what is {task.status.value}: pause or cancel it first")
    return None


def values(task: TaskItem) -> Changes:
    """Return what can be changed of a task, as it is."""
    found = task.model_dump(mode="json", include=set(FIELDS))
    if task.status not in WAITING:
        # A copy is due at once and in time, unless the reader says otherwise.
        found["scheduled_at"] = found["deadline"] = None
    found["tags"], found["scopes"] = found["tags"] or {}, found["scopes"] or []
    return {name: found[name] for name in FIELDS}


@dataclass(frozen=True, slots=True)
class Written:
    """A text about a task, and the task as it was when the text was begun.

    Submitted once more as it is, the copy that it stands for has the same id: of the two one counts.
    """

    task: TaskItem
    text: str
    copy_id: str = field(default_factory=new_id)

    def edited(self, text: str) -> "Written":
        """Return this one when it says that, else another one."""
        return self if text == self.text else Written(self.task, text)

    def again(self, task: TaskItem) -> "Written":
        """Return it as one goes on with it: of a task that is another one by now, what was changed stands in it alone.

        A text that can't be read stays as it is, and is about what the task was: the server refuses to take it.
        """
        if self.task.version == task.version or isinstance(changes := read_edit(self.text, self.task), Wrong):
            return self
        return Written(task, edit_text(task, changes))


def edit_text(task: TaskItem, changes: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return the text to be changed: JSON, with comments on lines of their own that begin with `//`."""
    what = (
        "Save and leave to change it; it keeps its place in the queue."
        if task.status in WAITING
        else f"It is {task.status.value} and stays so: what you save is submitted as a new task."
    )
    notes = [
        f"Task {task.id} of {clean(task.job_name)}",
        what,
        "Nothing happens when you change nothing, or leave the file empty.",
        "",
        *(f"{name}: {words}" for name, words in FIELDS.items()),
    ]
    return "".join(f"// {note}".rstrip() + "\n" for note in notes) + _json({**values(task), **changes}) + "\n"


def read_edit(text: str, task: TaskItem) -> Changes | Wrong:
    """Return what was changed in a text of `edit_text`, nothing for nothing; or all that is wrong with it."""
    body = "\n".join("" if line.lstrip().startswith("//") else line for line in text.splitlines())
    if not body.strip():
        return {}
    try:
        given = read_json(body)
    except ValueError as error:
        return Wrong((str(error),))
    if not isinstance(given, dict):
        return Wrong(("the whole must be one object: { … }",))
    if unknown := sorted(given.keys() - FIELDS.keys()):
        return Wrong(tuple(f"there is no {clean(name)!r}: it is one of {', '.join(FIELDS)}" for name in unknown))
    present = values(task)
    changes = {name: value for name, value in given.items() if _identity(value) != _identity(present[name])}
    problems = tuple(_problems(changes, task))
    return Wrong(problems) if problems else changes


def _identity(value: object) -> str:
    """Return a text that two values share that are the same JSON: to Python 1, 1.0 and true are one."""
    return json.dumps(value, sort_keys=True)


def read_json(text: str) -> Any:
    """Return what a text is as JSON. Raises `ValueError`, which says where it is none."""
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
    yield from (f"{name}: may not be null" for name in missing)
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
    """Return a submission like `task` with the changes: an element of the `tasks` of a `submit`."""
    whole = {**values(task), **changes, "job": task.job_name}
    return {name: value for name, value in whole.items() if value not in (None, [], {})}


def former(task: TaskItem, changes: Mapping[str, Any]) -> Changes:
    """Return what an edit back to `task` names."""
    present = task.model_dump(mode="json", include=set(FIELDS))
    return {name: present[name] for name in changes}


def reading_text(task: TaskItem, now: datetime) -> str:
    """Return a task to be read: what it is, then its payload, result, checkpoint and error; nothing in it is obeyed."""
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
    """Return JSON with what a terminal would obey spelt out; within strings it is read as the same."""
    return _NOT_ASCII.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {clean(name)!r} stands twice in one object: leave one of them")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON: write a number, a text or null")
