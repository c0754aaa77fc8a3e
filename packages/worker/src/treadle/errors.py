"""Every error that the SDK raises, in one tree.

TreadleError
├── DefinitionError            a function can't be a task (also a TypeError)
│   └── DuplicateTask          two functions have the same job name
├── InvalidArguments           the arguments don't fit the task's parameters (also a ValueError)
│   └── InvalidStep            a task's code asks for an invalid step, sleep or message
├── FilterError                a filter of tasks can't be read (`treadle.filters`, also a ValueError)
├── InvalidSetting             a setting or an argument is invalid (`treadle.settings`, also a ValueError)
├── NoStructlog                JSON logs need structlog (`treadle.logs`, also a ValueError)
├── BadValue                   a result, step or checkpoint can't be sent or stored (also a ValueError)
├── EncryptionError            a value of an encrypted task can't be encrypted or decrypted
│   ├── NoCodec                this process has no keys
│   └── CantDecrypt            none of this process's keys fits, or the value was changed
├── NoClient                   no client is open, or the one that was asked is not (also a RuntimeError)
├── NoOutbox                   the database has no table for the outbox
├── StepMismatch               a task's code no longer fits the steps that it has kept (also a RuntimeError)
├── NotAwaited                 a task's async code returned without awaiting a call (also a RuntimeError)
├── WouldBlock                 a blocking call in the thread of the client's event loop (also a RuntimeError)
├── ConnectionFailed           no server answers (also a ConnectionError)
│   ├── ConnectionLost         the connection broke before the answer came
│   └── SocketRefused          the server answers, but no websocket can be opened
├── LoopTaken                  code that a worker ran stopped the worker's event loop (also a RuntimeError)
├── ProtocolMismatch           the server doesn't speak as documented
├── WaitTimeout                the task had not ended in time (also a TimeoutError)
├── TaskNotCompleted           the task ended without a result; `.task` is its last state
│   ├── TaskFailed
│   └── TaskCancelled
└── ProblemError               the server refused; `.problem` says why
    └── one class for each problem type: JobNotFound, StaleRun, Forbidden …
"""

from typing import TYPE_CHECKING, ClassVar

from treadle.pickling import Picklable
from treadle.wire.problems import PROBLEMS, Problem

if TYPE_CHECKING:
    from treadle.wire.tasks import TaskItem


class TreadleError(Picklable, Exception):
    """The base of every error that the SDK raises."""


class DefinitionError(TreadleError, TypeError):
    """A function can't be a task; the message says what to change."""


class DuplicateTask(DefinitionError):
    """Two functions are registered under the same job name."""


class InvalidArguments(TreadleError, ValueError):
    """The arguments don't fit the task's parameters."""


class InvalidStep(InvalidArguments):
    """A task's code asks for an invalid step, sleep or message; the message names the argument.

    It is raised where the code asks, before anything is done. If it is not caught, the run fails with the reason
    `internal-error`.
    """


class BadValue(TreadleError, ValueError):
    """A result, checkpoint or step holds a value that JSON can't represent or the server can't store.

    The message names the place. If it is not caught, the run fails with the reason `internal-error`.
    """


class EncryptionError(TreadleError):
    """A value of an encrypted task can't be encrypted or decrypted."""


class NoCodec(EncryptionError):
    """A task is encrypted and this process has no keys: nothing is sent, and what was received can't be decrypted."""


class CantDecrypt(EncryptionError):
    """None of this process's keys fits, or the value was changed on its way."""


class NoClient(TreadleError, RuntimeError):
    """No client is open, or the one that was asked is not: before `open`, after `close`, and in a forked process.

    Also raised in a coroutine that no asyncio event loop runs, as under Trio: no client can be opened or used there.
    """


class NoOutbox(TreadleError, LookupError):
    """The database has no table for the outbox; the message says what creates it."""


class StepMismatch(TreadleError, RuntimeError):
    """A task's code no longer fits the steps that it has kept; the message says which, and what to do.

    The run fails with the reason `internal-error`, even if the code catches this.
    """


class NotAwaited(TreadleError, RuntimeError):
    """A task's async code returned without awaiting a call of its context, so nothing happened; the message says which.

    The run fails with the reason `internal-error`.
    """


class WouldBlock(TreadleError, RuntimeError):
    """A blocking call was made in the thread of the client's event loop, where it would wait for itself."""


class ConnectionFailed(TreadleError, ConnectionError):
    """No server answers at any of the URLs."""


class ConnectionLost(ConnectionFailed):
    """The connection broke before the answer came: the request may or may not have been carried out."""


class SocketRefused(ConnectionFailed):
    """The server, or a proxy before it, answers but opens no websocket; `is_silent`: it did not answer in time."""

    def __init__(self, message: str, *, is_silent: bool = False) -> None:
        super().__init__(message)
        self.is_silent = is_silent


class LoopTaken(TreadleError, RuntimeError):
    """Code that a worker ran in its event loop stopped the loop, or cancelled the worker's own tasks in it.

    Running tasks are handed back as far as still possible; the others run elsewhere once their leases end.
    """


class ProtocolMismatch(TreadleError):
    """The server doesn't speak the documented protocol: it is another program, or another version."""


class WaitTimeout(TreadleError, TimeoutError):
    """The task had not ended within the timeout; it goes on."""


class TaskNotCompleted(TreadleError):
    """The task ended without a result. `task` is its last state."""

    def __init__(self, message: str, task: "TaskItem") -> None:
        super().__init__(message)
        self.task = task


class TaskFailed(TaskNotCompleted):
    """The task failed for good: no retry is left, or none is allowed."""


class TaskCancelled(TaskNotCompleted):
    """The task was cancelled."""


class ProblemError(TreadleError):
    """The server refused a request. `problem` is the problem details (RFC 9457) that it answered."""

    name: ClassVar[str] = ""

    def __init__(self, problem: Problem) -> None:
        super().__init__(_sentence(problem))
        self.problem = problem


class InvalidRoomId(ProblemError):
    """A room is `@global`, `@internal`, or an id without `@` and `:`."""

    name = "invalid-room-id"


class InvalidCategory(ProblemError):
    """The server doesn't accept the category."""

    name = "invalid-category"


class SchemaConflict(ProblemError):
    """The job is registered with another schema; replace it (`--replace-schema`) or take another name."""

    name = "schema-conflict"


class JobNotFound(ProblemError):
    """There is no such job, or it can't be seen from this room."""

    name = "job-not-found"


class TaskNotFound(ProblemError):
    """There is no such task, or you may not see it."""

    name = "task-not-found"


class FlowNotFound(ProblemError):
    """There is no such flow, or you may not see it."""

    name = "flow-not-found"


class DependencyCycle(ProblemError):
    """Tasks of one request wait for each other in a circle."""

    name = "dependency-cycle"


class WorkerNotFound(ProblemError):
    """The worker was removed, or has been lost for too long."""

    name = "worker-not-found"


class InvalidTaskTransition(ProblemError):
    """The task's status doesn't allow the verb."""

    name = "invalid-task-transition"


class StaleRun(ProblemError):
    """The run is over or belongs to another worker."""

    name = "stale-run"


class TaskConflict(ProblemError):
    """The id exists with other content, or the task has changed since the given version."""

    name = "task-conflict"


class Forbidden(ProblemError):
    """The token, or the bucket that artifacts go to, doesn't allow it."""

    name = "forbidden"


class Unauthorized(ProblemError):
    """The token is missing, wrong, revoked or expired."""

    name = "unauthorized"


class InvalidPayload(ProblemError):
    """The payload doesn't satisfy the job's JSON Schema."""

    name = "invalid-payload"


class ValidationFailed(ProblemError):
    """The request is invalid; the message names the field."""

    name = "validation-error"


class PayloadTooLarge(ProblemError):
    """The request is larger than the server accepts; the client may have seen it and sent nothing."""

    name = "payload-too-large"


class InternalJobNotConfigured(ProblemError):
    """The server has no executor for this `@internal` job."""

    name = "internal-job-not-configured"


class TargetNotFound(ProblemError):
    """No task has ever named this target in this room."""

    name = "target-not-found"


class ScheduleNotFound(ProblemError):
    """There is no such schedule in this room."""

    name = "schedule-not-found"


class LimitNotFound(ProblemError):
    """There is no such limit in this room."""

    name: ClassVar[str] = "limit-not-found"


class LimitInUse(ProblemError):
    """Open tasks or jobs use the limit."""

    name: ClassVar[str] = "limit-in-use"


class LimitFull(ProblemError):
    """A limit with `on_full="reject"` is full: the task was not submitted."""

    name: ClassVar[str] = "limit-full"


class ArtifactNotFound(ProblemError):
    """The task has no such artifact."""

    name = "artifact-not-found"


class ArtifactConflict(ProblemError):
    """The run is over, or the artifact exists with other content."""

    name = "artifact-conflict"


class RangeNotSatisfiable(ProblemError):
    """The artifact ends before the requested range."""

    name = "range-not-satisfiable"


class WebhookNotFound(ProblemError):
    """There is no such webhook in this room, or it is another user's."""

    name = "webhook-not-found"


class TooManyRequests(ProblemError):
    """The server is busy; try again later."""

    name = "too-many-requests"


class RouteNotFound(ProblemError):
    """The server has no such route, being another program or an older version; or there is no such token."""

    name = "not-found"


class MethodNotAllowed(ProblemError):
    """The route exists, but not with this method."""

    name = "method-not-allowed"


class UpgradeRequired(ProblemError):
    """A session is a websocket, and the request was not an upgrade to one."""

    name = "upgrade-required"


class StoreUnavailable(ProblemError):
    """The server's database doesn't answer; nothing was changed."""

    name = "store-unavailable"


class InternalServerError(ProblemError):
    """The server has a bug."""

    name = "internal-server-error"


NOT_NOW = (StoreUnavailable, TooManyRequests, InternalServerError)
"""Problems that may be gone a moment later: neither the request nor the run is to blame."""


BY_NAME: dict[str, type[ProblemError]] = {error.name: error for error in ProblemError.__subclasses__()}
"""The exception class of each problem type."""


def error_for(problem: Problem) -> ProblemError:
    """Return the exception for a problem: `ProblemError` itself if its type is unknown."""
    return BY_NAME.get(problem.name, ProblemError)(problem)


def problem_named(name: str, detail: str) -> Problem:
    """Return a problem of one of the documented types, as the server would have sent it."""
    kind = PROBLEMS[name]
    return Problem(type=kind.uri, title=kind.title, status=kind.status, detail=detail)


def problem_of(body: object) -> Problem:
    """Return a problem as the server sent it, or one that says that it can't be read."""
    try:
        return Problem.model_validate(body)
    except ValueError:
        return problem_named("internal-server-error", f"the server's problem can't be read: {body!r}")


def _sentence(problem: Problem) -> str:
    text = f"{problem.title}: {problem.detail}" if problem.detail else problem.title
    places = [
        f"{'.'.join(str(part) for part in error.get('loc', ()))}: {error.get('msg', '')}"
        for error in problem.errors or ()
    ]
    new = [place for place in places if place not in text]
    return f"{text} ({'; '.join(new)})" if new else text
