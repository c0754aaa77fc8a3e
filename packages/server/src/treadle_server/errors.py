"""The errors of the server, each with the problem type that clients receive.

TreadleError
├── Refused                     the request is at fault; nothing was changed
│   └── one class for each problem type: InvalidRoomId, JobNotFound, StaleRun …
└── StoreUnavailable            the database does not answer
    └── DatabaseIsNewer         a newer server has migrated it
"""

from typing import Any, ClassVar

from treadle.wire.names import INTERNAL
from treadle.wire.problems import PROBLEMS, ProblemType


class TreadleError(Exception):
    """Any error that the server answers to a client as a problem."""

    problem: ClassVar[str] = "internal-server-error"
    again_after: ClassVar[float | None] = None
    """The default of `retry_after`: after how many seconds another try is worthwhile."""

    def __init__(
        self, detail: str, *, errors: list[dict[str, Any]] | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors
        self.retry_after = self.again_after if retry_after is None else retry_after

    @property
    def type(self) -> ProblemType:
        """Return the problem type, with its status and title."""
        return PROBLEMS[self.problem]

    def as_problem(self) -> dict[str, Any]:
        """Return the members of the problem+json body."""
        kind = self.type
        body: dict[str, Any] = {"type": kind.uri, "title": kind.title, "status": kind.status, "detail": self.detail}
        if self.errors:
            body["errors"] = self.errors
        return body


class Refused(TreadleError):
    """The request is at fault; nothing was changed."""


class InvalidRoomId(Refused):
    """The room id is neither that of a shared room nor a plain one."""

    problem = "invalid-room-id"


class InvalidCategory(Refused):
    """The category is not one of the allowed ones."""

    problem = "invalid-category"


class SchemaConflict(Refused):
    """The job is registered with another schema."""

    problem = "schema-conflict"


class JobNotFound(Refused):
    """No such job, or it is not visible from the room."""

    problem = "job-not-found"


class TaskNotFound(Refused):
    """No such task, or the principal may not see it."""

    problem = "task-not-found"


class WorkerNotFound(Refused):
    """No such worker."""

    problem = "worker-not-found"


class TargetNotFound(Refused):
    """No such target."""

    problem = "target-not-found"


class ArtifactNotFound(Refused):
    """No such artifact, or it has expired."""

    problem = "artifact-not-found"


class ArtifactConflict(Refused):
    """The run is over, or the artifact has other content."""

    problem = "artifact-conflict"


class RangeNotSatisfiable(Refused):
    """The artifact has none of the requested bytes; `size` is how many it has."""

    problem = "range-not-satisfiable"

    def __init__(self, detail: str, *, size: int) -> None:
        super().__init__(detail)
        self.size = size


class ScheduleNotFound(Refused):
    """No such schedule in the room."""

    problem = "schedule-not-found"


class LimitNotFound(Refused):
    """No such limit in the room."""

    problem = "limit-not-found"


class LimitInUse(Refused):
    """Open tasks or jobs name the limit."""

    problem = "limit-in-use"


class LimitFull(Refused):
    """A limit that rejects has no room for the task."""

    problem = "limit-full"


class InvalidTaskTransition(Refused):
    """The task's status does not allow the verb."""

    problem = "invalid-task-transition"


class StaleRun(Refused):
    """The run is over, or it is another worker's."""

    problem = "stale-run"


class TaskConflict(Refused):
    """The id belongs to other content, or the version has changed."""

    problem = "task-conflict"


class UniqueKeyHeld(TaskConflict):
    """Another open task of the job holds the unique key."""


class Forbidden(Refused):
    """The token does not allow the request."""

    problem = "forbidden"


class Unauthorized(Refused):
    """No token, or an invalid one."""

    problem = "unauthorized"


class InvalidPayload(Refused):
    """The payload does not satisfy the job's schema."""

    problem = "invalid-payload"


class ValidationFailed(Refused):
    """The request is not valid."""

    problem = "validation-error"


class SettingUnusable(ValidationFailed):
    """A setting, or a command's argument, has a value that can't be used, or needs something that is not installed."""


class PayloadTooLarge(Refused):
    """More bytes than the server accepts."""

    problem = "payload-too-large"


class WebhookNotFound(Refused):
    """No such webhook in the room, or the principal may not see it."""

    problem = "webhook-not-found"


class FlowNotFound(Refused):
    """No such flow, or the principal may not see it."""

    problem = "flow-not-found"


class DependencyCycle(Refused):
    """Tasks of one request wait for each other in a cycle."""

    problem = "dependency-cycle"


class TooManyRequests(Refused):
    """The server has too many requests waiting, or too many bytes of them."""

    problem = "too-many-requests"


class InternalJobNotConfigured(Refused):
    """No executor for the @internal job."""

    problem = "internal-job-not-configured"


class NoSuchRoute(Refused):
    """No such route."""

    problem = "not-found"


class MethodNotAllowed(Refused):
    """The route exists, with other methods."""

    problem = "method-not-allowed"


class UpgradeRequired(Refused):
    """The route is a websocket, and the request does not ask for an upgrade."""

    problem = "upgrade-required"


class StoreUnavailable(TreadleError):
    """The database does not answer; nothing was changed."""

    problem = "store-unavailable"
    again_after = 1.0


NOT_STARTED = "the application was not started: when you mount it, run its lifespan, `app.router.lifespan_context(app)`"
"""The error of an application whose lifespan nobody runs."""


class DatabaseIsNewer(StoreUnavailable):
    """A newer server has migrated the database, so this one must not write to it."""


def no_job(full_name: str, room: str, near: str | None = None) -> JobNotFound:
    """Return the error for a job that does not exist, and for one that is not visible from the room.

    `near` is a visible job with a similar name.
    """
    who = "a server with `--internal` that" if full_name.startswith(f"{INTERNAL}:") else "a worker that"
    meant = "" if near is None else f" (did you mean {near}?)"
    return JobNotFound(
        f"there is no job {full_name} visible from room {room}{meant}: start {who} has it, or register it"
    )
