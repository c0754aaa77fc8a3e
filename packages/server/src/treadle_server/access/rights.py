"""The scopes that Treadle knows, and the rights of a plain user: one whose token was made without scopes."""

from difflib import get_close_matches

from treadle.wire.names import GLOBAL, INTERNAL, InvalidJobName, InvalidRoom, parse_job_name, parse_room
from treadle_server.domain.jobs import NO_POOL

OWN = "queue:"
"""What Treadle's own scopes begin with."""

REGISTER = "queue:register-job:"
CREATE = "queue:create-task:"
CLAIM_WORK = "queue:claim-work:"
WORKER_ID = "queue:worker-id:"
CONTROL = "queue:control-task:"
READ = "queue:read:"
CLAIM_TASK = "queue:claim-task:"
METRICS = "queue:metrics"
"""Of all rooms together: it names no room."""

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
"""What stands behind each kind of scope."""


def create_task(room: str, job_name: str) -> str:
    """Return the scope to submit tasks of the job (its full name) from the room."""
    return f"{CREATE}{room}/{job_name}"


def claim_work(pool: str | None) -> str:
    """Return the scope to claim with a worker of the pool."""
    return f"{CLAIM_WORK}{pool or NO_POOL}"


def worker_id(group: str | None, name: str | None) -> str:
    """Return the scope to be a worker of this group and name; where it has none, `-` stands in its place."""
    return f"{WORKER_ID}{group or NO_POOL}/{name or NO_POOL}"


def claim_task(task_id: str, run_id: int) -> str:
    """Return the scope to report of one run, which its temporary credential has."""
    return f"{CLAIM_TASK}{task_id}/{run_id}"


def misspelt(scope: str) -> str | None:
    """Return what is wrong with a scope that begins as Treadle's own do and allows nothing; None for any other one."""
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
        return f"begins as Treadle's own do and is none of them: write {' or '.join(meant)}"
    why = _unnamed(kind, start.removeprefix(kind), is_open=is_open)
    return None if why is None else f"allows nothing{why}: write {kind}{_FORMS[kind]}"


def _unnamed(kind: str, named: str, *, is_open: bool) -> str | None:
    """Return why what a scope of a kind names can't be; a pattern is `is_open`, and may stop anywhere."""
    first, slash, second = named.partition("/")
    if kind == METRICS:
        return ", for metrics are of all rooms" if named else None
    if kind == REGISTER and named == INTERNAL:
        return f", for jobs of {INTERNAL} are registered by superusers alone"
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
    """Return whether a plain user has what the scope stands for.

    He registers and submits in plain rooms, submits to `@global`, reads, and claims with workers of his own. That he
    controls his own tasks and workers is no scope: it is theirs to whom they belong.
    """
    for kind in (READ, CLAIM_WORK, WORKER_ID):
        if scope.startswith(kind):
            return True
    if scope.startswith(CREATE):
        room = scope.removeprefix(CREATE)
        return _is_plain(room) or room.startswith(f"{GLOBAL}/")
    return scope.startswith(REGISTER) and _is_plain(scope.removeprefix(REGISTER))


def _is_plain(rooms: str) -> bool:
    """Return whether the rooms, one or those of a pattern, are plain ones alone: shared ones begin with an `@`."""
    return not rooms.startswith("@") and rooms not in {"", "*"}
