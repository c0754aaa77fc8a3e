"""A message for a task as people write it, and for which one the task waits."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from treadle.ids import new_id
from treadle.wire.status import LEASED, TERMINAL
from treadle.wire.steps import StepItem
from treadle.wire.tasks import TaskEvent, TaskItem
from treadle_tui.core.verbs.editor import printable, read_json
from treadle_tui.core.verbs.plan import Refusal

FORM = 'write send NAME JSON, as send approved {"by": "ann"}; a name with blanks stands in quotes'


class MessageError(ValueError):
    """What was written is no message: what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A message as it was written. Sent once more as it is, it has the same id: of the two one counts."""

    name: str
    data: str = ""
    id: str = field(default_factory=new_id)

    def again(self, name: str, data: str) -> "Draft":
        """Return this one when it is written like that, else another one."""
        return self if (name, data) == (self.name, self.data) else Draft(name, data)

    def read(self) -> tuple[str, Any]:
        """Return the name, and the data. Raises `MessageError`."""
        return read_name(self.name), read_data(self.data)


def write_name(name: str) -> str:
    """Return a name as it is written: in quotes where it holds what a terminal would obey, or begins or ends oddly."""
    is_plain = name.isprintable() and name == name.strip() and not name.startswith('"')
    return name if is_plain else printable(json.dumps(name, ensure_ascii=False))


def read_name(text: str, absent: str = "a message has a name: the one that ctx.receive asks for") -> str:
    """Return the name that is meant. Raises `MessageError`, which says `absent` when there is none."""
    text = text.strip()
    name = _data(text, "the name") if text.startswith('"') else text
    if not name:
        raise MessageError(absent)
    return str(name)


def read_data(text: str) -> Any:
    """Return the data that is meant, None for nothing. Raises `MessageError` for what is no JSON."""
    return None if not text.strip() else _data(text, "the data")


def _data(text: str, what: str) -> Any:
    try:
        return read_json(text)
    except ValueError as error:
        raise MessageError(f"{what} is no JSON ({error}); a text stands in quotes") from None


def read_line(line: str) -> Draft:
    """Return the message of a command: the name, in quotes where it has blanks, and the data. Raises `MessageError`."""
    line = line.strip()
    if line.startswith('"'):
        try:
            end = json.JSONDecoder().raw_decode(line)[1]
        except ValueError:
            raise MessageError(f"the name's quotes don't close: {FORM}") from None
        draft = Draft(line[:end], line[end:].strip())
    else:
        name, _, data = line.partition(" ")
        draft = Draft(name, data.strip())
    draft.read()
    return draft


def refused(task: TaskItem) -> Refusal | None:
    """Return why a task takes no messages, or None."""
    return Refusal(f"can't send to what is {task.status.value}") if task.status in TERMINAL else None


def waited_for(task: TaskItem, last: StepItem | None) -> str | None:
    """Return the name of the message that a task waits for, given its last step: the run that ended by it waits."""
    if last is None or last.kind != "receive" or last.received_at is not None:
        return None
    is_waiting = last.run_id == task.run_id and task.status not in LEASED | TERMINAL
    return last.step if is_waiting else None


def names_of(events: Iterable[TaskEvent]) -> Sequence[str]:
    """Return the names that a task's code has asked for so far, as they are written, the last one first."""
    asked = [event.step for event in events if event.kind == "step" and event.status == "receive" and event.step]
    return list(dict.fromkeys(write_name(name) for name in reversed(asked)))
