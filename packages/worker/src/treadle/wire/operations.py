"""All requests to a server: each operation once, with its route, its models and its problems.

The server binds handlers (`treadle_server.api.routes`) and permissions (`treadle_server.authorization.permissions`) to
them; its routes and its OpenAPI document are derived from that. The SDK builds from them the HTTP requests that replace
those on the socket.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from pydantic import BaseModel

from treadle.wire.artifacts import ArtifactCreate, ArtifactItem, ArtifactUpload
from treadle.wire.bulk import BulkAction, BulkEdit, BulkResult, Freeze, Frozen
from treadle.wire.edits import TaskPatch
from treadle.wire.failures import FailureGroups
from treadle.wire.filters import TaskFilter
from treadle.wire.flows import FLOW_VERBS, FlowItem, FlowView
from treadle.wire.frames import Window, WindowPage
from treadle.wire.jobs import JobItem, JobPatch, JobRegister
from treadle.wire.limits import LimitItem, LimitPut
from treadle.wire.names import path_part
from treadle.wire.pages import Page
from treadle.wire.prune import Prune, PruneAnswer
from treadle.wire.runs import (
    Checkpoint,
    ClaimAnswer,
    ClaimRequest,
    Completed,
    ExceptionReport,
    Failed,
    LogItem,
    Logs,
    Paused,
    Progress,
    Reports,
    ReportsAnswer,
)
from treadle.wire.schedules import ScheduleItem, SchedulePatch, SchedulePut
from treadle.wire.server import (
    Health,
    KeysRotate,
    NewToken,
    RecentEvents,
    SigningKeys,
    Stats,
    TokenCreate,
    TokenItem,
    Whoami,
)
from treadle.wire.steps import MessageItem, MessageSend, Received, StepDone, StepItem, StepRef, Suspended
from treadle.wire.targets import TargetItem
from treadle.wire.tasks import (
    Rerun,
    Resolve,
    RunItem,
    Steer,
    Submitted,
    TaskEvent,
    TaskItem,
    TaskSubmit,
    TaskSubmitMany,
)
from treadle.wire.transitions import Action
from treadle.wire.webhooks import DeliveryItem, Redeliver, Redelivered, WebhookItem, WebhookSet
from treadle.wire.workers import Heartbeat, HeartbeatAnswer, TakenUntil, WorkerItem, WorkerRegister

_PLACE = re.compile(r"{(\w+)(:\w+)?}")
_NAMES = {"task_id": "id", "job_name": "job"}
"""The names of a path's parameters in the fields of a socket request, where they differ."""

_SHAPES = {":int": r"\d+", ":path": ".+"}
"""Patterns of path parameters that are not exactly one segment."""

_NO_CONTENT = 204

_OF_SOCKET = frozenset({"wait", "brief"})
"""Fields that only have a meaning on the socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method and a path, with the request's and the answer's models."""

    method: str
    path: str
    body: type[BaseModel] | None = None
    body_optional: bool = False
    answer: Any = None
    """The model of the answer, or None when it has no JSON body."""
    item: type[BaseModel] | None = None
    """The model of each item, if the answer is a page; so the SDK needs no model of each kind of page."""
    status: int = 200
    also: tuple[int, ...] = ()
    """Other successful statuses."""
    problems: tuple[str, ...] = ()
    """Problem types that it may answer with, besides those of every operation."""
    query: tuple[str, ...] = ()

    def request(self, fields: Mapping[str, Any]) -> tuple[str, str, dict[str, Any] | None]:
        """Return method, path and body of the HTTP request that is equivalent to `fields` on the socket."""
        left = {name: value for name, value in fields.items() if name not in _OF_SOCKET}

        def part(place: re.Match[str]) -> str:
            name = place[1] if place[1] in left else _NAMES.get(place[1], place[1])
            # A job's full name begins with its room.
            value = fields["job"].partition(":")[0] if name == "room" and "room" not in fields else left.pop(name)
            return path_part(value)

        path = _PLACE.sub(part, self.path)
        return self.method, path, None if self.body is None else left

    def admits(self, answer: Mapping[str, Any]) -> bool:
        """Return whether a JSON object may be its answer: it has the required fields, or no answer is documented."""
        model = Page if self.item is not None else self.answer
        if model is None:
            return self.status != _NO_CONTENT
        fields = model.model_fields.items()
        return all((field.alias or name) in answer for name, field in fields if field.is_required())


_ROOM = "/v1/rooms/{room}"
_JOB = _ROOM + "/jobs/{job_name}"
_TASK = "/v1/tasks/{task_id}"
_RUN = _TASK + "/runs/{run_id:int}"
_UPLOAD = "/v1/uploads/{upload_id}"
_SCHEDULE = _ROOM + "/schedules/{name}"
_LIMIT = _ROOM + "/limits/{name}"
_WORKER = "/v1/workers/{worker_id}"
_WEBHOOK = _ROOM + "/webhooks/{name}"

IN_ROOM = ("invalid-room-id",)
OF_JOB = (*IN_ROOM, "job-not-found")
OF_TASK = ("task-not-found",)
OF_WORKER = ("worker-not-found", "forbidden")
OF_RUN = ("task-not-found", "stale-run", "invalid-task-transition", "task-conflict", "forbidden")
OF_VERB = ("task-not-found", "invalid-task-transition", "task-conflict", "forbidden")
OF_SUBMIT = (
    *OF_JOB,
    *(
        "limit-not-found",
        "limit-full",
        "invalid-payload",
        "task-conflict",
        "internal-job-not-configured",
        "payload-too-large",
        "too-many-requests",
    ),
    *("task-not-found", "flow-not-found", "dependency-cycle"),
)
OF_UPLOAD = ("artifact-not-found", "artifact-conflict", "stale-run", "task-not-found", "forbidden")
OF_SCHEDULE = (*IN_ROOM, "schedule-not-found", "forbidden")
OF_LIMIT = (*IN_ROOM, "limit-not-found", "forbidden")
OF_WEBHOOK = (*IN_ROOM, "webhook-not-found", "forbidden")
MOVED = ("schema-conflict",)
"""The job's schema changes too fast to check a payload against it."""

PAGE = ("limit", "offset")
TASKS = (*PAGE, "cursor", *(name for name in TaskFilter.model_fields if name != "room"))
SIGNED = ("expires", "signature")


def _get(path: str, answer: Any, problems: tuple[str, ...] = (), *query: str, also: tuple[int, ...] = ()) -> Operation:
    return Operation(method="GET", path=path, answer=answer, problems=problems, query=query, also=also)


def _page(path: str, item: type[BaseModel], problems: tuple[str, ...] = (), *query: str) -> Operation:
    return Operation(method="GET", path=path, item=item, problems=problems, query=query)


def _delete(path: str, *problems: str) -> Operation:
    return Operation(method="DELETE", path=path, status=_NO_CONTENT, problems=problems)


def _post(path: str, body: type[BaseModel] | None, answer: Any, *problems: str, **more: Any) -> Operation:
    return Operation(method="POST", path=path, body=body, answer=answer, problems=problems, **more)


def _put(path: str, body: type[BaseModel] | None, answer: Any, *problems: str, **more: Any) -> Operation:
    return Operation(method="PUT", path=path, body=body, answer=answer, problems=problems, **more)


def _patch(path: str, body: type[BaseModel], answer: Any, *problems: str, **more: Any) -> Operation:
    return Operation(method="PATCH", path=path, body=body, answer=answer, problems=problems, **more)


_MADE: dict[str, Any] = {"status": 201}
_MADE_OR_THERE: dict[str, Any] = {"status": 201, "also": (200,)}
_REPLACED_OR_MADE: dict[str, Any] = {"also": (201,)}
_TAKEN: dict[str, Any] = {"status": 202}
_TAKEN_OR_THERE: dict[str, Any] = {"status": 202, "also": (200,)}
_OPTIONAL: dict[str, Any] = {"body_optional": True}

_JOBS = {
    "register": _put(
        f"{_ROOM}/jobs", JobRegister, JobItem,
        *IN_ROOM, "forbidden", "invalid-category", "schema-conflict", "worker-not-found", "limit-not-found",
        **_REPLACED_OR_MADE,
    ),
    "jobs": _page(f"{_ROOM}/jobs", JobItem, IN_ROOM, *PAGE),
    "get_job": _get(_JOB, JobItem, OF_JOB),
    "job": _patch(_JOB, JobPatch, JobItem, *OF_JOB, "forbidden"),
    "tasks_of_job": _page(f"{_JOB}/tasks", TaskItem, OF_JOB, *TASKS),
}  # fmt: skip

_STEERS: dict[Action, type[Steer]] = {"resolve": Resolve, "rerun": Rerun}
"""The body of a verb that takes more than a version."""

_OF_TASKS = {
    "submit_one": _post(
        f"{_ROOM}/tasks/{{job_name}}", TaskSubmit, TaskItem, *OF_SUBMIT, **_OPTIONAL, **_TAKEN_OR_THERE
    ),
    "submit": _post(f"{_ROOM}/tasks", TaskSubmitMany, Submitted, *OF_SUBMIT, **_TAKEN_OR_THERE),
    "tasks_of_room": _page(f"{_ROOM}/tasks", TaskItem, IN_ROOM, *TASKS),
    "tasks": _page("/v1/tasks", TaskItem, IN_ROOM, "room", *TASKS),
    "claim": _post("/v1/tasks/claim", ClaimRequest, ClaimAnswer, *OF_WORKER, "task-conflict"),
    "actions": _post("/v1/tasks/actions", BulkAction, BulkResult, *IN_ROOM),
    "edits": _post("/v1/tasks/edits", BulkEdit, BulkResult),
    "freeze": _post("/v1/tasks/freeze", Freeze, Frozen, *IN_ROOM),
    "window": _post("/v1/tasks/window", Window, WindowPage, *IN_ROOM),
    "failures": _get("/v1/failures", FailureGroups, IN_ROOM, "room", "job"),
    "get": _get(_TASK, TaskItem, OF_TASK),
    "edit": _patch(_TASK, TaskPatch, TaskItem, *OF_VERB, "stale-run", "invalid-payload", "limit-not-found"),
    **{
        action: _post(f"{_TASK}/{action}", _STEERS.get(action, Steer), TaskItem, *OF_VERB, **_OPTIONAL)
        for action in get_args(Action)
    },
}

REPORTS: Mapping[str, type[BaseModel] | None] = {
    "started": None, "completed": Completed, "failed": Failed, "exception": ExceptionReport, "paused": Paused,
    "suspended": Suspended, "stopped": None, "checkpoint": Checkpoint, "progress": Progress, "logs": Logs,
    "step": StepDone,
}  # fmt: skip
"""The kinds of reports on a run, with their models."""

_NEEDS_A_BODY = frozenset({"exception", "suspended", "checkpoint", "progress", "logs", "step"})

_RUNS = {
    "runs": _page(f"{_TASK}/runs", RunItem, OF_TASK, *PAGE),
    "history": _page(f"{_TASK}/events", TaskEvent, OF_TASK, *PAGE),
    "logs": _page(f"{_TASK}/logs", LogItem, OF_TASK),
    "steps": _page(f"{_TASK}/steps", StepItem, OF_TASK, *PAGE),
    "send": _post(
        f"{_TASK}/messages/{{name:path}}", MessageSend, MessageItem,
        *OF_VERB, "too-many-requests", "payload-too-large", **_OPTIONAL, **_MADE_OR_THERE,
    ),
    "receive": _post(f"{_RUN}/receive", StepRef, Received, *OF_RUN),
    "reclaim": _post(f"{_RUN}/reclaim", None, TakenUntil, *OF_RUN),
    **{
        f"report_{kind}": _post(f"{_RUN}/{kind}", body, TaskItem, *OF_RUN, body_optional=kind not in _NEEDS_A_BODY)
        for kind, body in REPORTS.items()
    },
}  # fmt: skip

_ARTIFACTS = {
    "announce_artifact": _post(
        f"{_RUN}/artifacts", ArtifactCreate, ArtifactUpload,
        "task-not-found", "stale-run", "artifact-conflict", "forbidden", "payload-too-large", **_MADE_OR_THERE,
    ),
    "artifacts": _page(f"{_TASK}/artifacts", ArtifactItem, OF_TASK, *PAGE, "run"),
    "get_artifact": _get(
        f"{_TASK}/artifacts/{{name:path}}", None,
        (*OF_TASK, "artifact-not-found", "range-not-satisfiable"), "run", also=(206, 303, 304),
    ),
    "put_upload": _put(_UPLOAD, None, ArtifactItem, *OF_UPLOAD, query=SIGNED, **_MADE_OR_THERE),
    "finish_upload": _post(_UPLOAD, None, ArtifactItem, *OF_UPLOAD, query=SIGNED, **_MADE_OR_THERE),
}  # fmt: skip

_TARGETS = {
    "targets": _page(f"{_ROOM}/targets", TargetItem, IN_ROOM, *PAGE, "held", "text"),
    "get_target": _get(f"{_ROOM}/targets/{{name:path}}", TargetItem, (*IN_ROOM, "target-not-found")),
}

_SCHEDULES = {
    "schedules": _page(f"{_ROOM}/schedules", ScheduleItem, IN_ROOM, *PAGE),
    "put_schedule": _put(
        _SCHEDULE, SchedulePut, ScheduleItem,
        *OF_JOB, "forbidden", "task-conflict", "invalid-payload", "internal-job-not-configured", "limit-not-found",
        *MOVED,
        **_REPLACED_OR_MADE,
    ),
    "get_schedule": _get(_SCHEDULE, ScheduleItem, (*IN_ROOM, "schedule-not-found")),
    "schedule": _patch(
        _SCHEDULE, SchedulePatch, ScheduleItem,
        *OF_SCHEDULE, "job-not-found", "task-conflict", "invalid-payload", "limit-not-found", *MOVED,
    ),
    "delete_schedule": _delete(_SCHEDULE, *OF_SCHEDULE),
    "run_schedule": _post(
        f"{_SCHEDULE}/run", None, TaskItem,
        *OF_SCHEDULE, "task-conflict", "too-many-requests", "limit-not-found", "limit-full", **_TAKEN,
    ),
}  # fmt: skip

_LIMITS = {
    "limits": _page(f"{_ROOM}/limits", LimitItem, IN_ROOM, *PAGE),
    "put_limit": _put(_LIMIT, LimitPut, LimitItem, *IN_ROOM, "forbidden", **_REPLACED_OR_MADE),
    "get_limit": _get(_LIMIT, LimitItem, (*IN_ROOM, "limit-not-found")),
    "delete_limit": _delete(_LIMIT, *OF_LIMIT, "limit-in-use"),
}

_FLOW = "/v1/flows/{flow_id}"

_FLOWS = {
    "flows": _page("/v1/flows", FlowItem, IN_ROOM, "room", "id", *PAGE),
    "get_flow": _get(_FLOW, FlowView, ("flow-not-found",)),
    **{
        f"flow_{verb.replace('-', '_')}": _post(f"{_FLOW}/{verb}", None, BulkResult, "flow-not-found")
        for verb in FLOW_VERBS
    },
}

_WORKERS = {
    "open": _post("/v1/workers", WorkerRegister, WorkerItem, "forbidden", **_OPTIONAL, **_MADE),
    "workers": _page("/v1/workers", WorkerItem, (), *PAGE),
    "workers_of_room": _page(f"{_ROOM}/workers", WorkerItem, IN_ROOM, *PAGE),
    "get_worker": _get(_WORKER, WorkerItem, ("worker-not-found",)),
    "beat": _patch(_WORKER, Heartbeat, HeartbeatAnswer, *OF_WORKER, **_OPTIONAL),
    "drain_worker": _post(f"{_WORKER}/drain", None, WorkerItem, *OF_WORKER),
    "close": _delete(_WORKER, *OF_WORKER),
    "reports": _post(f"{_WORKER}/reports", Reports, ReportsAnswer, *OF_WORKER),
}

_WEBHOOKS = {
    "webhooks": _page(f"{_ROOM}/webhooks", WebhookItem, (*IN_ROOM, "forbidden"), *PAGE),
    "put_webhook": _put(_WEBHOOK, WebhookSet, WebhookItem, *IN_ROOM, "forbidden", **_REPLACED_OR_MADE),
    "get_webhook": _get(_WEBHOOK, WebhookItem, OF_WEBHOOK),
    "delete_webhook": _delete(_WEBHOOK, *OF_WEBHOOK),
    "deliveries": _page(f"{_WEBHOOK}/deliveries", DeliveryItem, OF_WEBHOOK, *PAGE, "state"),
    "redeliver": _post(f"{_WEBHOOK}/redeliver", Redeliver, Redelivered, *OF_WEBHOOK, **_OPTIONAL),
}

_SERVER = {
    "prune": _post("/v1/prune", Prune, PruneAnswer, "forbidden", "too-many-requests", **_OPTIONAL),
    "make_token": _post("/v1/tokens", TokenCreate, NewToken, "forbidden", **_MADE),
    "tokens": _page("/v1/tokens", TokenItem, ("forbidden",), *PAGE),
    "revoke_token": _delete("/v1/tokens/{token_id}", "forbidden", "not-found"),
    "rotate_keys": _post("/v1/signing-keys", KeysRotate, SigningKeys, "forbidden", **_OPTIONAL, **_MADE),
    "whoami": _get("/v1/whoami", Whoami),
    "events": _get("/v1/events", RecentEvents, (), "limit", "room", "job", "task"),
    "stats": _get("/v1/stats", Stats),
    "metrics": _get("/metrics", None, ("forbidden",)),
    "healthz": _get("/healthz", Health),
    "healthz_v1": _get("/v1/healthz", Health),
    "readyz": _get("/readyz", Health, also=(503,)),
    "readyz_v1": _get("/v1/readyz", Health, also=(503,)),
    "problem": _get("/v1/problems/{name}", None, ("not-found",)),
    "openapi": _get("/v1/openapi.json", None),
}

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        **_JOBS,
        **_OF_TASKS,
        **_RUNS,
        **_ARTIFACTS,
        **_TARGETS,
        **_SCHEDULES,
        **_LIMITS,
        **_FLOWS,
        **_WORKERS,
        **_WEBHOOKS,
        **_SERVER,
    }
)
"""All operations by name, in the order in which routes are tried: fixed paths before parameters that match any name.

An operation that the socket has too has its name there.
"""


def operation_at(method: str, path: str) -> Operation | None:
    """Return the operation of a request, by its method and its path without a query; None if there is none."""
    return next((one for one, pattern in _patterns() if one.method == method and pattern.fullmatch(path)), None)


@cache
def _patterns() -> list[tuple[Operation, re.Pattern[str]]]:
    def shape(place: re.Match[str]) -> str:
        return _SHAPES.get(place[2], "[^/]+")

    return [(one, re.compile(_PLACE.sub(shape, one.path))) for one in OPERATIONS.values()]
