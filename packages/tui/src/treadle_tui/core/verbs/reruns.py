"""Where to rerun an ended task from, as the user types it: its start, or one of its kept steps."""

from collections.abc import Iterable, Sequence

from treadle.wire.tasks import TaskEvent
from treadle.wire.transitions import ADMITS
from treadle_tui.core.state.marks import TaskRef
from treadle_tui.core.verbs.messages import MessageError, read_name, write_name
from treadle_tui.core.verbs.plan import Refusal


class StepError(ValueError):
    """An invalid step name: what is wrong with it."""


def read_step(text: str) -> str | None:
    """Parse the name of a step; empty text means None, the start. Raises `StepError`."""
    try:
        return read_name(text, "the step needs a name: leave the line empty for the start") if text.strip() else None
    except MessageError as error:
        raise StepError(str(error)) from None


def steps_of(events: Iterable[TaskEvent]) -> Sequence[str]:
    """Return the names of the task's kept steps, as they are typed, in order."""
    return list(dict.fromkeys(write_name(event.step) for event in events if event.kind == "step" and event.step))


def refused(task: TaskRef) -> Refusal | None:
    """Return why a task can't be rerun, or None if it can."""
    return None if task.status in ADMITS["rerun"] else Refusal(f"can't rerun a {task.status.value} task")
