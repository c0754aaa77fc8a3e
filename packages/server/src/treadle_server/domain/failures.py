"""What failed, and where: by this failures are put together."""

import re

from treadle.wire.status import Outcome, Reason, Status
from treadle_server.domain.tasks import Run, Task

_CLASS = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")
_FRAME = re.compile(r'^[ |+]*File "([^"\n]+)", line \d+, in (.+)$', re.MULTILINE)
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]|^<")

LAST = 20_000
"""Characters of a traceback that are looked at, from its end on."""

LONGEST = 255

FAILING = frozenset({Outcome.FAILED, Outcome.EXCEPTION})
"""How runs end that failed; some of them for no fault of theirs."""

_NOBODYS_FAULT = frozenset({Reason.WORKER_SHUTDOWN, Reason.INTERRUPTED})


def is_failure(task: Task, run: Run) -> bool:
    """Return whether a run failed, and its task was not stopped by hand."""
    ended = run.status in FAILING and run.reason not in _NOBODYS_FAULT
    return ended and not task.settled and task.status is not Status.PAUSED


def is_failed_without_run(task: Task) -> bool:
    """Return whether a task has failed while none of its runs went on, as by its deadline; not one settled by hand."""
    return task.status is Status.FAILED and not task.settled


def kind_of(error: str | None, reason: Reason | None) -> str:
    """Return the error's class, as it stands before its message; the reason when it has none."""
    if reason in {None, Reason.ERROR} and (found := _CLASS.match(error or "")) is not None:
        return found[1][:LONGEST]
    return str(reason or Reason.ERROR)


def place_of(traceback: str | None, job_name: str) -> str:
    """Return the last frame that is no library's, without its line, which moves; the job when there is no frame."""
    frames = _FRAME.findall((traceback or "")[-LAST:])
    if not frames:
        return job_name[:LONGEST]
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    path, function = (own or frames)[-1]
    tail = "/".join(re.split(r"[/\\]", path)[-2:])
    return f"{tail} in {function}"[:LONGEST]


def written(key: int) -> str:
    """Return the key of what failed where, a hash of its kind and place, as a filter names it."""
    return f"{key & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def read(text: str) -> int:
    """Return the key that is written so."""
    return int.from_bytes(bytes.fromhex(text), "big", signed=True)
