"""From where an ended task is run again, as people write it: from its start, or from a step that it keeps."""

from collections.abc import Iterable, Sequence

from treadle.wire.tasks import TaskEvent
from treadle.wire.transitions import ADMITS
from treadle_tui.core.state.marks import TaskRef
from treadle_tui.core.verbs.messages import MessageError, read_name, write_name
from treadle_tui.core.verbs.plan import Refusal


class StepError(ValueError):
    """What was written is no step's name: what is wrong with it."""


def read_step(text: str) -> str | None:
    """Return the step that is meant, None for the start where nothing is written. Raises `StepError`."""
    try:
        return read_name(text, "a step has a name: leave all of it out for the start") if text.strip() else None
    except MessageError as error:
        raise StepError(str(error)) from None


def steps_of(events: Iterable[TaskEvent]) -> Sequence[str]:
    """Return the names of the steps that a task keeps, as they are written, in their order."""
    return list(dict.fromkeys(write_name(event.step) for event in events if event.kind == "step" and event.step))


def refused(task: TaskRef) -> Refusal | None:
    """Return why a task is not run again, or None."""
    return None if task.status in ADMITS["rerun"] else Refusal(f"can't rerun what is {task.status.value}")
