"""Problem details (RFC 9457), the body of every error answer."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict

from treadle.wire.fields import Model

PREFIX = "/v1/problems/"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A kind of problem: its name in the type's URI, its HTTP status, and the page that explains it."""

    name: str
    status: int
    title: str
    explanation: str

    @property
    def uri(self) -> str:
        """Return the problem's `type`, a path on the server that leads to its page."""
        return PREFIX + self.name


_TYPES = (
    ProblemType(
        "invalid-room-id", 400, "Invalid room id", "A room is @global, @internal, or an id without '@' and ':'."
    ),
    ProblemType(
        "invalid-category",
        400,
        "Invalid category",
        "The server admits only the categories in TREADLE_ALLOWED_CATEGORIES.",
    ),
    ProblemType(
        "schema-conflict",
        409,
        "Schema conflict",
        "The job is registered with a different schema. Register it with replace: true, or under another name.",
    ),
    ProblemType(
        "job-not-found",
        404,
        "Job not found",
        "There is no such job, or it is not visible from this room. A full name is room:category:name.",
    ),
    ProblemType("task-not-found", 404, "Task not found", "There is no such task, or you may not see it."),
    ProblemType(
        "worker-not-found",
        404,
        "Worker not found",
        "There is no such worker: it was removed, or lost for too long. Register again.",
    ),
    ProblemType(
        "invalid-task-transition",
        409,
        "Invalid task transition",
        "The task's status does not allow the action. Get the task, look at its status, and decide again.",
    ),
    ProblemType(
        "stale-run",
        409,
        "Stale run",
        "The run is over or belongs to another worker. Stop its code; nothing it reports is kept.",
    ),
    ProblemType(
        "task-conflict",
        409,
        "Task conflict",
        "A task with this id exists with different content, or the task has changed since the version you named.",
    ),
    ProblemType("forbidden", 403, "Forbidden", "The token does not allow this."),
    ProblemType("unauthorized", 401, "Unauthorized", "Send a valid token: Authorization: Bearer …"),
    ProblemType(
        "invalid-payload",
        422,
        "Invalid payload",
        "The payload does not satisfy the job's JSON Schema; the detail gives the path.",
    ),
    ProblemType("validation-error", 422, "Validation error", "The request is invalid; the errors say where."),
    ProblemType(
        "payload-too-large",
        413,
        "Payload too large",
        "The request is larger than the server accepts, or has more than a million values.",
    ),
    ProblemType(
        "internal-job-not-configured",
        503,
        "Internal job not configured",
        "The server has no executor for this @internal job.",
    ),
    ProblemType("target-not-found", 404, "Target not found", "No task has ever named this target in this room."),
    ProblemType("schedule-not-found", 404, "Schedule not found", "There is no such schedule in this room."),
    ProblemType(
        "limit-not-found", 404, "Limit not found", "There is no such limit in this room. Make it before tasks name it."
    ),
    ProblemType(
        "limit-in-use",
        409,
        "Limit in use",
        "Open tasks or jobs name the limit. Let them end, or register the jobs without it (replace: true), and then"
        " delete it.",
    ),
    ProblemType(
        "limit-full",
        429,
        "Limit full",
        "A limit that rejects has no room for the task, or the whole request. Nothing was submitted; try again later.",
    ),
    ProblemType("artifact-not-found", 404, "Artifact not found", "The task has no such artifact."),
    ProblemType(
        "artifact-conflict", 409, "Artifact conflict", "The run is over, or the artifact exists with different content."
    ),
    ProblemType(
        "range-not-satisfiable",
        416,
        "Range not satisfiable",
        "The requested range is past the end of the artifact; Content-Range gives its size.",
    ),
    ProblemType(
        "webhook-not-found", 404, "Webhook not found", "There is no such webhook in this room, or it is another user's."
    ),
    ProblemType("flow-not-found", 404, "Flow not found", "There is no such flow, or you may not see it."),
    ProblemType(
        "dependency-cycle",
        422,
        "Dependency cycle",
        "The tasks depend on each other in a cycle, which the detail shows: none of them could ever run.",
    ),
    ProblemType(
        "too-many-requests", 429, "Too many requests", "The server is busy; try again after Retry-After seconds."
    ),
    ProblemType("not-found", 404, "Not found", "There is no such route, or no such token."),
    ProblemType(
        "method-not-allowed", 405, "Method not allowed", "The route has no such method; Allow lists those that it has."
    ),
    ProblemType(
        "upgrade-required",
        426,
        "Upgrade required",
        "The session needs a websocket. A proxy in between must forward Upgrade and Connection.",
    ),
    ProblemType(
        "store-unavailable",
        503,
        "Store unavailable",
        "The database does not answer. Nothing was changed; try again after Retry-After seconds.",
    ),
    ProblemType(
        "internal-server-error", 500, "Internal server error", "A bug in the server. Please report it, with the time."
    ),
)

PROBLEMS = {problem.name: problem for problem in _TYPES}
"""Every problem type by its name."""


class Problem(Model):
    """The body of an error answer, `application/problem+json`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)

    type: str
    title: str
    status: int
    detail: str | None = None
    instance: str | None = None
    errors: list[dict[str, Any]] | None = None

    @property
    def name(self) -> str:
        """Return the last part of the type, such as `task-not-found`."""
        return self.type.rsplit("/", 1)[-1]

    @property
    def is_ours(self) -> bool:
        """Whether the problem comes from a Treadle server; proxies send their own (`about:blank`)."""
        return PREFIX in self.type
