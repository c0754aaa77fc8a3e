"""Messages to a task as the user writes them, and which message a task waits for."""

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

FORM = 'write send NAME JSON, such as send approved {"by": "ann"}; put a name with spaces in quotes'


class MessageError(ValueError):
    """An invalid message: what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A message as typed. It keeps its id when sent again unchanged, so that it counts only once."""

    name: str
    data: str = ""
    id: str = field(default_factory=new_id)

    def again(self, name: str, data: str) -> "Draft":
        """Return this if name and data are unchanged, otherwise a new draft."""
        return self if (name, data) == (self.name, self.data) else Draft(name, data)

    def read(self) -> tuple[str, Any]:
        """Parse the name and the data. Raises `MessageError`."""
        return read_name(self.name), read_data(self.data)


def write_name(name: str) -> str:
    """Return a name as it is typed: in quotes if it has control characters, surrounding spaces or a leading quote."""
    is_plain = name.isprintable() and name == name.strip() and not name.startswith('"')
    return name if is_plain else printable(json.dumps(name, ensure_ascii=False))


def read_name(text: str, absent: str = "the message needs a name: the one that ctx.receive asks for") -> str:
    """Parse a name. Raises `MessageError`, with the text `absent` if it is empty."""
    text = text.strip()
    name = _data(text, "the name") if text.startswith('"') else text
    if not name:
        raise MessageError(absent)
    return str(name)


def read_data(text: str) -> Any:
    """Parse the data; empty text means None. Raises `MessageError` for invalid JSON."""
    return None if not text.strip() else _data(text, "the data")


def _data(text: str, what: str) -> Any:
    try:
        return read_json(text)
    except ValueError as error:
        raise MessageError(f"{what} is not valid JSON ({error}); put text in quotes") from None


def read_line(line: str) -> Draft:
    """Parse a command's message: the name, in quotes if it has spaces, and the data. Raises `MessageError`."""
    line = line.strip()
    if line.startswith('"'):
        try:
            end = json.JSONDecoder().raw_decode(line)[1]
        except ValueError:
            raise MessageError(f"the name has no closing quote: {FORM}") from None
        draft = Draft(line[:end], line[end:].strip())
    else:
        name, _, data = line.partition(" ")
        draft = Draft(name, data.strip())
    draft.read()
    return draft


def refused(task: TaskItem) -> Refusal | None:
    """Return why a task takes no messages, or None if it does."""
    return Refusal(f"can't send to a {task.status.value} task") if task.status in TERMINAL else None


def waited_for(task: TaskItem, last: StepItem | None) -> str | None:
    """Return the name of the message that a task waits for, given its last step: its run must have ended with it."""
    if last is None or last.kind != "receive" or last.received_at is not None:
        return None
    is_waiting = last.run_id == task.run_id and task.status not in LEASED | TERMINAL
    return last.step if is_waiting else None


def names_of(events: Iterable[TaskEvent]) -> Sequence[str]:
    """Return the names that the task's code has asked for so far, as they are typed, the latest first."""
    asked = [event.step for event in events if event.kind == "step" and event.status == "receive" and event.step]
    return list(dict.fromkeys(write_name(name) for name in reversed(asked)))
