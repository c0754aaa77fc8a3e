"""The permissions of operations: `permissions.py` says which one each needs, and `authorization.py` checks it."""

from enum import Enum

from treadle_server.access import rights


class Permission(Enum):
    """What an operation needs, as the OpenAPI document says it, and how a refusal is answered.

    What the principal may not read is answered as not found, which reveals nothing. What it may read but not do is
    forbidden, and the problem names the missing scope.
    """

    NOTHING = "nothing"
    """Not even a token."""
    SIGNATURE = "the signature in its URL"
    """No token: the URL was made for an authorized client, and its handler checks the signature."""
    TOKEN = "a valid token"  # noqa: S105 - what is needed, and no secret
    """For what concerns only the principal itself and the server."""
    SUPERUSER = "a superuser's token"
    """For what the server keeps for all users."""
    METRICS = rights.METRICS
    READ_LIST = "queue:read:<room> for what is shown"
    """Shows what the principal may read, and leaves out the rest."""
    READ_JOB = "queue:read:<room>, else job-not-found"
    READ_TARGET = "queue:read:<room>, else target-not-found"
    READ_TASK = "queue:read:<room of the task>, else task-not-found"
    READ_WORKER = "queue:read:<room of a job that it serves>, else worker-not-found"
    REGISTER_JOB = "queue:register-job:<room>"
    CREATE_TASK = "queue:create-task:<room>/<job>, and the task's own scopes"
    CONTROL_JOB = "queue:control-task:<room of the job>"
    CONTROL_TASK = "queue:control-task:<room of the task>, or to have submitted it"
    SEND = (
        "queue:control-task:<room of the task>, to have submitted it, or queue:claim-task:<task>/<run> of its open run"
    )
    CONTROL_MANY = "queue:control-task:<room of each task>, or to have submitted it"
    """Each task has its own answer."""
    CHANGE_TASK = "what CONTROL_TASK or RUN needs"
    """The update of a status: a verb or a report, depending on its body."""
    READ_FLOW = "queue:read:<room of the flow>, else flow-not-found"
    READ_SCHEDULE = "queue:read:<room>, else schedule-not-found"
    SET_SCHEDULE = "queue:create-task:<room>/<job>, and what CONTROL_SCHEDULE needs to change one"
    CONTROL_SCHEDULE = "queue:control-task:<room>, or to have made it"
    READ_LIMIT = "queue:read:<room>, else limit-not-found"
    SET_LIMIT = "queue:control-task:<room>; in a shared room a superuser's token"
    WEBHOOK = "queue:read:<room> and queue:control-task:<room>, and to be the webhook's user"
    BE_WORKER = "queue:worker-id:<group>/<name> and queue:claim-work:<pool>"
    OWN_WORKER = "queue:worker-id:<group>/<name>, and to be its user"
    RUN = "queue:claim-task:<task>/<run>, or to be the user of the worker that has the run"

    @property
    def is_open(self) -> bool:
        """Return whether it needs no token."""
        return self in {Permission.NOTHING, Permission.SIGNATURE}

    @property
    def of_run(self) -> bool:
        """Return whether the command checks the run itself, and refuses a credential whose run is over as stale."""
        return self in {Permission.RUN, Permission.CHANGE_TASK}

    @property
    def of_a_task(self) -> bool:
        """Return whether it is about one task, which the principal must be allowed to see."""
        return self in _OF_A_TASK


_OF_A_TASK = frozenset(
    {Permission.READ_TASK, Permission.CONTROL_TASK, Permission.SEND, Permission.CHANGE_TASK, Permission.RUN}
)
