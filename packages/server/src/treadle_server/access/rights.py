"""The scopes that Treadle knows, and the rights of a plain user: one whose token was made without scopes."""

from treadle.wire.names import GLOBAL

REGISTER = "queue:register-job:"
CREATE = "queue:create-task:"
CLAIM_WORK = "queue:claim-work:"
WORKER_ID = "queue:worker-id:"
CONTROL = "queue:control-task:"
READ = "queue:read:"
CLAIM_TASK = "queue:claim-task:"
METRICS = "queue:metrics"
"""Of all rooms together: it names no room."""

NO_POOL = "-"
"""What stands in a scope for a worker without a pool, group or name."""


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
