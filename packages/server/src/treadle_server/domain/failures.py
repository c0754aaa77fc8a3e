"""Groups failures by what failed, and where."""

import re

from treadle.wire.status import Outcome, Reason, Status
from treadle_server.domain.tasks import Run, Task

_CLASS = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")
_FRAME = re.compile(r'^[ |+]*File "([^"\n]+)", line \d+, in (.+)$', re.MULTILINE)
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]|^<")

LAST = 20_000
"""How many characters at the end of a traceback are searched."""

LONGEST = 255

FAILING = frozenset({Outcome.FAILED, Outcome.EXCEPTION})
"""The outcomes of failed runs, some of which are no fault of theirs."""

_NOBODYS_FAULT = frozenset({Reason.WORKER_SHUTDOWN, Reason.INTERRUPTED})


def is_failure(task: Task, run: Run) -> bool:
    """Return whether a run failed and its task was not stopped by hand."""
    ended = run.status in FAILING and run.reason not in _NOBODYS_FAULT
    return ended and not task.settled and task.status is not Status.PAUSED


def is_failed_without_run(task: Task) -> bool:
    """Return whether a task failed while none of its runs was open, as at its deadline, and was not settled by hand."""
    return task.status is Status.FAILED and not task.settled


def kind_of(error: str | None, reason: Reason | None) -> str:
    """Return the error's class, which precedes its message, or the reason if it has none."""
    if reason in {None, Reason.ERROR} and (found := _CLASS.match(error or "")) is not None:
        return found[1][:LONGEST]
    return str(reason or Reason.ERROR)


def place_of(traceback: str | None, job_name: str) -> str:
    """Return the last frame outside libraries, without its line number, which changes; without frames, the job."""
    frames = _FRAME.findall((traceback or "")[-LAST:])
    if not frames:
        return job_name[:LONGEST]
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    path, function = (own or frames)[-1]
    tail = "/".join(re.split(r"[/\\]", path)[-2:])
    return f"{tail} in {function}"[:LONGEST]


def key_text(key: int) -> str:
    """Return the key of a group of failures, a hash of kind and place, in the form that filters use."""
    return f"{key & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def parse_key(text: str) -> int:
    """Return the key that such a text means."""
    return int.from_bytes(bytes.fromhex(text), "big", signed=True)
