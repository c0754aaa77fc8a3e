"""The scopes that Treadle knows, and the rights of a plain user: one whose token was made without scopes."""

from difflib import get_close_matches

from treadle.wire.names import GLOBAL, INTERNAL, InvalidJobName, InvalidRoom, parse_job_name, parse_room
from treadle_server.domain.jobs import NO_POOL

OWN = "queue:"
"""The prefix of Treadle's own scopes."""

REGISTER = "queue:register-job:"
CREATE = "queue:create-task:"
CLAIM_WORK = "queue:claim-work:"
WORKER_ID = "queue:worker-id:"
CONTROL = "queue:control-task:"
READ = "queue:read:"
CLAIM_TASK = "queue:claim-task:"
METRICS = "queue:metrics"
"""For all rooms together: it names no room."""

_FORMS = {
    READ: "<room>",
    CREATE: "<room>/<job>",
    CONTROL: "<room>",
    REGISTER: "<room>",
    WORKER_ID: "<group>/<name>",
    CLAIM_WORK: "<pool>",
    CLAIM_TASK: "<task>/<run>",
    METRICS: "",
}
"""What follows the prefix of each kind of scope."""


def create_task(room: str, job_name: str) -> str:
    """Return the scope to submit tasks of the job (a full name) from the room."""
    return f"{CREATE}{room}/{job_name}"


def claim_work(pool: str | None) -> str:
    """Return the scope to claim with a worker of the pool."""
    return f"{CLAIM_WORK}{pool or NO_POOL}"


def worker_id(group: str | None, name: str | None) -> str:
    """Return the scope to be a worker of this group and name; `-` stands for a missing one."""
    return f"{WORKER_ID}{group or NO_POOL}/{name or NO_POOL}"


def claim_task(task_id: str, run_id: int) -> str:
    """Return the scope to report on one run, which its temporary credential has."""
    return f"{CLAIM_TASK}{task_id}/{run_id}"


def misspelt(scope: str) -> str | None:
    """Return what is wrong with a scope that has Treadle's prefix but allows nothing; None for any other scope."""
    if not scope.startswith(OWN):
        return None
    start = scope.removesuffix("*")
    is_open = start != scope
    kind = next((kind for kind in _FORMS if start.startswith(kind)), None)
    if kind is None:
        if is_open and any(kind.startswith(start) for kind in _FORMS):
            return None
        verbs = {kind.removeprefix(OWN): kind for kind in _FORMS}
        nearest = [verbs[verb] for verb in get_close_matches(scope.removeprefix(OWN), verbs, n=1)]
        meant = [kind + _FORMS[kind] for kind in nearest or _FORMS]
        return f"starts with queue: but is not one of Treadle's scopes: write {' or '.join(meant)}"
    why = _unnamed(kind, start.removeprefix(kind), is_open=is_open)
    return None if why is None else f"allows nothing{why}: write {kind}{_FORMS[kind]}"


def _unnamed(kind: str, named: str, *, is_open: bool) -> str | None:
    """Return why a scope can't name this; None if it can. A pattern (`is_open`) may stop anywhere."""
    first, slash, second = named.partition("/")
    if kind == METRICS:
        return ", because metrics cover all rooms" if named else None
    if kind == REGISTER and named == INTERNAL:
        return f", because only superusers register jobs of {INTERNAL}"
    if is_open:
        return None
    if not first or (bool(_FORMS[kind].partition("/")[1]) and not (slash and second)):
        return ""
    try:
        if kind in {READ, CONTROL, REGISTER}:
            parse_room(named)
        elif kind == CREATE:
            parse_room(first)
            parse_job_name(second)
    except (InvalidRoom, InvalidJobName) as error:
        return f" ({error})"
    return None


def plain_user_may(scope: str) -> bool:
    """Return whether a plain user holds the scope.

    Plain users may register and submit in plain rooms, submit to `@global`, read, and claim with their own workers.
    They control their own tasks and workers as owners, which takes no scope.
    """
    for kind in (READ, CLAIM_WORK, WORKER_ID):
        if scope.startswith(kind):
            return True
    if scope.startswith(CREATE):
        room = scope.removeprefix(CREATE)
        return _is_plain(room) or room.startswith(f"{GLOBAL}/")
    return scope.startswith(REGISTER) and _is_plain(scope.removeprefix(REGISTER))


def _is_plain(rooms: str) -> bool:
    """Return whether a room or pattern covers only plain rooms: shared rooms begin with `@`."""
    return not rooms.startswith("@") and rooms not in {"", "*"}
