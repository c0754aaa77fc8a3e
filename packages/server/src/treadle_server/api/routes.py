"""Every endpoint of the server, one line each: it drives routing, authorization and the OpenAPI document."""

from functools import partial

from treadle.wire.artifacts import ArtifactCreate, ArtifactItem, ArtifactUpload
from treadle.wire.frames import Window, WindowPage
from treadle.wire.jobs import JobItem, JobPatch, JobRegister
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
from treadle.wire.targets import TargetItem
from treadle.wire.tasks import (
    BulkAction,
    BulkEdit,
    BulkResult,
    Freeze,
    Frozen,
    Resolve,
    RunItem,
    Steer,
    TaskEvent,
    TaskItem,
    TaskPatch,
    TaskSubmit,
    TaskSubmitMany,
)
from treadle.wire.webhooks import DeliveryItem, Redeliver, Redelivered, WebhookItem, WebhookSet
from treadle.wire.workers import Heartbeat, HeartbeatAnswer, TakenUntil, WorkerItem, WorkerRegister
from treadle_server.access.needs import Needs
from treadle_server.api import (
    artifacts,
    bulk,
    jobs,
    keys,
    meta,
    openapi,
    prune,
    runs,
    schedules,
    steering,
    targets,
    tasks,
    tokens,
    webhooks,
    windows,
    workers,
)
from treadle_server.api.endpoint import Endpoint, Items
from treadle_server.api.reporting import ReportsOutline
from treadle_server.domain.artifacts import AFTER_EXCEPTION

ROOM = ("invalid-room-id",)
JOB = ("invalid-room-id", "job-not-found")
TASK = ("task-not-found",)
WORKER = ("worker-not-found", "forbidden")
RUN = ("task-not-found", "stale-run", "invalid-task-transition", "forbidden")
VERB = ("task-not-found", "invalid-task-transition", "task-conflict", "forbidden")
SUBMIT = (
    *JOB,
    "invalid-payload",
    "task-conflict",
    "internal-job-not-configured",
    "payload-too-large",
    "too-many-requests",
)
UPLOAD = ("artifact-not-found", "artifact-conflict", "stale-run", "task-not-found", "forbidden")
MOVED = ("schema-conflict",)
"""The job's schema changes faster than a payload can be checked."""
PAGE = ("limit", "offset")
TASKS = (*PAGE, "cursor", "status", "job", "target", "worker", "tag", "id", "text")

anybody = partial(Endpoint, needs=Needs.NOTHING)
user = Endpoint
superuser = partial(Endpoint, needs=Needs.SUPERUSER)

_TASK = "/v1/tasks/{task_id}"
_RUN = _TASK + "/runs/{run_id:int}"
_UPLOAD = "/v1/uploads/{upload_id}"
_ROOM = "/v1/rooms/{room}"

_JOBS = (
    user(
        method="PUT",
        path=f"{_ROOM}/jobs",
        handler=jobs.register,
        needs=Needs.REGISTER_JOB,
        body=JobRegister,
        answer=JobItem,
        also=(201,),
        problems=(*ROOM, "forbidden", "invalid-category", "schema-conflict", "worker-not-found"),
    ),
    user(
        method="GET",
        path=f"{_ROOM}/jobs",
        handler=jobs.list_in_room,
        needs=Needs.READ_LIST,
        answer=Page[JobItem],
        problems=ROOM,
        query=PAGE,
    ),
    user(
        method="GET",
        path=f"{_ROOM}/jobs/{{job_name}}",
        handler=jobs.get,
        needs=Needs.READ_JOB,
        answer=JobItem,
        problems=JOB,
    ),
    user(
        method="PATCH",
        path=f"{_ROOM}/jobs/{{job_name}}",
        handler=jobs.patch,
        needs=Needs.CONTROL_JOB,
        body=JobPatch,
        answer=JobItem,
        problems=(*JOB, "forbidden"),
    ),
    user(
        method="GET",
        path=f"{_ROOM}/jobs/{{job_name}}/tasks",
        handler=tasks.list_of_job,
        needs=Needs.READ_JOB,
        answer=Page[TaskItem],
        problems=JOB,
        query=TASKS,
    ),
)

_TASKS = (
    user(
        method="POST",
        path=f"{_ROOM}/tasks/{{job_name}}",
        handler=tasks.submit,
        needs=Needs.CREATE_TASK,
        body=TaskSubmit,
        answer=TaskItem,
        status=202,
        also=(200,),
        problems=SUBMIT,
        body_optional=True,
    ),
    user(
        method="POST",
        path=f"{_ROOM}/tasks",
        handler=tasks.submit_all,
        needs=Needs.CREATE_TASK,
        body=TaskSubmitMany,
        status=202,
        also=(200,),
        problems=SUBMIT,
    ),
    user(
        method="GET",
        path=f"{_ROOM}/tasks",
        handler=tasks.list_in_room,
        needs=Needs.READ_LIST,
        answer=Page[TaskItem],
        problems=ROOM,
        query=TASKS,
    ),
    user(
        method="GET",
        path="/v1/tasks",
        handler=tasks.list_all,
        needs=Needs.READ_LIST,
        answer=Page[TaskItem],
        problems=ROOM,
        query=("room", *TASKS),
    ),
    user(
        method="POST",
        path="/v1/tasks/claim",
        handler=workers.claim,
        needs=Needs.BE_WORKER,
        body=ClaimRequest,
        answer=ClaimAnswer,
        problems=(*WORKER, "task-conflict"),
    ),
    user(
        method="POST",
        path="/v1/tasks/actions",
        handler=bulk.act_on_many,
        needs=Needs.CONTROL_MANY,
        body=BulkAction,
        answer=BulkResult,
        problems=ROOM,
    ),
    user(
        method="POST",
        path="/v1/tasks/edits",
        handler=bulk.edit_many,
        needs=Needs.CONTROL_MANY,
        body=BulkEdit,
        items=Items("edits", bulk.Edits),
        answer=BulkResult,
    ),
    user(
        method="POST",
        path="/v1/tasks/freeze",
        handler=windows.freeze_filter,
        needs=Needs.READ_LIST,
        body=Freeze,
        answer=Frozen,
        problems=ROOM,
    ),
    user(
        method="POST",
        path="/v1/tasks/window",
        handler=windows.look,
        needs=Needs.READ_LIST,
        body=Window,
        answer=WindowPage,
        problems=ROOM,
    ),
    user(method="GET", path=_TASK, handler=tasks.get, needs=Needs.READ_TASK, answer=TaskItem, problems=TASK),
    user(
        method="PATCH",
        path=_TASK,
        handler=tasks.patch,
        needs=Needs.CHANGE_TASK,
        body=TaskPatch,
        answer=TaskItem,
        problems=(*VERB, "stale-run", "invalid-payload"),
    ),
    *(
        user(
            method="POST",
            path=f"{_TASK}/{action}",
            handler=steering.verb(action),
            needs=Needs.CONTROL_TASK,
            body=body,
            body_optional=True,
            answer=TaskItem,
            problems=VERB,
        )
        for action, body in (
            ("cancel", Steer),
            ("pause", Steer),
            ("resume", Steer),
            ("rerun", Steer),
            ("resolve", Resolve),
        )
    ),
)

_RUNS = (
    user(
        method="GET",
        path=f"{_TASK}/runs",
        handler=runs.list_of_task,
        needs=Needs.READ_TASK,
        answer=Page[RunItem],
        problems=TASK,
        query=PAGE,
    ),
    user(
        method="GET",
        path=f"{_TASK}/events",
        handler=runs.events_of_task,
        needs=Needs.READ_TASK,
        answer=Page[TaskEvent],
        problems=TASK,
        query=PAGE,
    ),
    user(
        method="GET",
        path=f"{_TASK}/logs",
        handler=runs.logs_of_task,
        needs=Needs.READ_TASK,
        answer=Page[LogItem],
        problems=TASK,
    ),
    user(method="POST", path=f"{_RUN}/reclaim", handler=runs.reclaim, needs=Needs.RUN, answer=TakenUntil, problems=RUN),
    *(
        user(
            method="POST",
            path=f"{_RUN}/{kind}",
            handler=runs.report(kind),
            needs=Needs.RUN,
            body=body,
            body_optional=optional,
            answer=TaskItem,
            problems=RUN,
        )
        for kind, body, optional in (
            ("started", None, True),
            ("completed", Completed, True),
            ("failed", Failed, True),
            ("exception", ExceptionReport, False),
            ("paused", Paused, True),
            ("stopped", None, True),
            ("checkpoint", Checkpoint, False),
            ("progress", Progress, False),
            ("logs", Logs, False),
        )
    ),
)

_ARTIFACTS = (
    user(
        method="POST",
        path=f"{_RUN}/artifacts",
        handler=artifacts.announce,
        needs=Needs.RUN,
        late=AFTER_EXCEPTION,
        body=ArtifactCreate,
        answer=ArtifactUpload,
        status=201,
        also=(200,),
        problems=("task-not-found", "stale-run", "artifact-conflict", "forbidden", "payload-too-large"),
    ),
    user(
        method="GET",
        path=f"{_TASK}/artifacts",
        handler=artifacts.list_of_task,
        needs=Needs.READ_TASK,
        answer=Page[ArtifactItem],
        problems=TASK,
        query=(*PAGE, "run"),
    ),
    user(
        method="GET",
        path=f"{_TASK}/artifacts/{{name:path}}",
        handler=artifacts.get,
        needs=Needs.READ_TASK,
        also=(206, 303),
        problems=(*TASK, "artifact-not-found"),
        query=("run",),
    ),
    Endpoint(
        method="PUT",
        path=_UPLOAD,
        handler=artifacts.put,
        needs=Needs.SIGNATURE,
        streams=True,
        answer=ArtifactItem,
        status=201,
        also=(200,),
        problems=UPLOAD,
        query=("expires", "signature"),
    ),
    Endpoint(
        method="POST",
        path=_UPLOAD,
        handler=artifacts.finish,
        needs=Needs.SIGNATURE,
        answer=ArtifactItem,
        status=201,
        also=(200,),
        problems=UPLOAD,
        query=("expires", "signature"),
    ),
)

_TARGETS = (
    user(
        method="GET",
        path=f"{_ROOM}/targets",
        handler=targets.list_in_room,
        needs=Needs.READ_LIST,
        answer=Page[TargetItem],
        problems=ROOM,
        query=(*PAGE, "held", "text"),
    ),
    user(
        method="GET",
        path=f"{_ROOM}/targets/{{name:path}}",
        handler=targets.get,
        needs=Needs.READ_TARGET,
        answer=TargetItem,
        problems=(*ROOM, "target-not-found"),
    ),
)

_SCHEDULE = f"{_ROOM}/schedules/{{name}}"
_OF_SCHEDULE = (*ROOM, "schedule-not-found", "forbidden")

_SCHEDULES = (
    user(
        method="GET",
        path=f"{_ROOM}/schedules",
        handler=schedules.list_in_room,
        needs=Needs.READ_LIST,
        answer=Page[ScheduleItem],
        problems=ROOM,
        query=PAGE,
    ),
    user(
        method="PUT",
        path=_SCHEDULE,
        handler=schedules.put,
        needs=Needs.SET_SCHEDULE,
        body=SchedulePut,
        answer=ScheduleItem,
        also=(201,),
        problems=(*JOB, "forbidden", "task-conflict", "invalid-payload", "internal-job-not-configured", *MOVED),
    ),
    user(
        method="GET",
        path=_SCHEDULE,
        handler=schedules.get,
        needs=Needs.READ_SCHEDULE,
        answer=ScheduleItem,
        problems=(*ROOM, "schedule-not-found"),
    ),
    user(
        method="PATCH",
        path=_SCHEDULE,
        handler=schedules.patch,
        needs=Needs.CONTROL_SCHEDULE,
        body=SchedulePatch,
        answer=ScheduleItem,
        problems=(*_OF_SCHEDULE, "job-not-found", "task-conflict", "invalid-payload", *MOVED),
    ),
    user(
        method="DELETE",
        path=_SCHEDULE,
        handler=schedules.delete,
        needs=Needs.CONTROL_SCHEDULE,
        status=204,
        problems=_OF_SCHEDULE,
    ),
    user(
        method="POST",
        path=f"{_SCHEDULE}/run",
        handler=schedules.run,
        needs=Needs.CONTROL_SCHEDULE,
        answer=TaskItem,
        status=202,
        problems=(*_OF_SCHEDULE, "task-conflict", "too-many-requests"),
    ),
)

_WORKERS = (
    user(
        method="POST",
        path="/v1/workers",
        handler=workers.register,
        needs=Needs.BE_WORKER,
        body=WorkerRegister,
        body_optional=True,
        answer=WorkerItem,
        status=201,
        problems=("forbidden",),
    ),
    user(
        method="GET",
        path="/v1/workers",
        handler=workers.list_all,
        needs=Needs.READ_LIST,
        answer=Page[WorkerItem],
        query=PAGE,
    ),
    user(
        method="GET",
        path=f"{_ROOM}/workers",
        handler=workers.list_in_room,
        needs=Needs.READ_LIST,
        answer=Page[WorkerItem],
        problems=ROOM,
        query=PAGE,
    ),
    user(
        method="GET",
        path="/v1/workers/{worker_id}",
        handler=workers.get,
        needs=Needs.READ_WORKER,
        answer=WorkerItem,
        problems=("worker-not-found",),
    ),
    user(
        method="PATCH",
        path="/v1/workers/{worker_id}",
        handler=workers.beat,
        needs=Needs.OWN_WORKER,
        body=Heartbeat,
        body_optional=True,
        answer=HeartbeatAnswer,
        problems=WORKER,
    ),
    user(
        method="DELETE",
        path="/v1/workers/{worker_id}",
        handler=workers.remove,
        needs=Needs.OWN_WORKER,
        status=204,
        problems=WORKER,
    ),
    user(
        method="POST",
        path="/v1/workers/{worker_id}/reports",
        handler=workers.report,
        needs=Needs.OWN_WORKER,
        body=Reports,
        items=Items("reports", ReportsOutline),
        answer=ReportsAnswer,
        problems=WORKER,
    ),
)

_WEBHOOK = f"{_ROOM}/webhooks/{{name}}"
HOOK = ("invalid-room-id", "webhook-not-found", "forbidden")

_WEBHOOKS = (
    user(
        method="GET",
        path=f"{_ROOM}/webhooks",
        handler=webhooks.list_in_room,
        needs=Needs.WEBHOOK,
        answer=Page[WebhookItem],
        problems=(*ROOM, "forbidden"),
        query=PAGE,
    ),
    user(
        method="PUT",
        path=_WEBHOOK,
        handler=webhooks.put,
        needs=Needs.WEBHOOK,
        body=WebhookSet,
        answer=WebhookItem,
        also=(201,),
        problems=(*ROOM, "forbidden"),
    ),
    user(method="GET", path=_WEBHOOK, handler=webhooks.get, needs=Needs.WEBHOOK, answer=WebhookItem, problems=HOOK),
    user(method="DELETE", path=_WEBHOOK, handler=webhooks.remove, needs=Needs.WEBHOOK, status=204, problems=HOOK),
    user(
        method="GET",
        path=f"{_WEBHOOK}/deliveries",
        handler=webhooks.deliveries,
        needs=Needs.WEBHOOK,
        answer=Page[DeliveryItem],
        problems=HOOK,
        query=(*PAGE, "state"),
    ),
    user(
        method="POST",
        path=f"{_WEBHOOK}/redeliver",
        handler=webhooks.redeliver,
        needs=Needs.WEBHOOK,
        body=Redeliver,
        body_optional=True,
        answer=Redelivered,
        problems=HOOK,
    ),
)

_SERVER = (
    superuser(
        method="POST",
        path="/v1/prune",
        handler=prune.prune,
        body=Prune,
        body_optional=True,
        answer=PruneAnswer,
        problems=("forbidden", "too-many-requests"),
    ),
    superuser(
        method="POST",
        path="/v1/tokens",
        handler=tokens.make,
        body=TokenCreate,
        answer=NewToken,
        status=201,
        problems=("forbidden",),
    ),
    superuser(
        method="GET",
        path="/v1/tokens",
        handler=tokens.list_all,
        answer=Page[TokenItem],
        problems=("forbidden",),
        query=PAGE,
    ),
    superuser(
        method="DELETE",
        path="/v1/tokens/{token_id}",
        handler=tokens.revoke,
        status=204,
        problems=("forbidden", "not-found"),
    ),
    superuser(
        method="POST",
        path="/v1/signing-keys",
        handler=keys.rotate,
        body=KeysRotate,
        body_optional=True,
        answer=SigningKeys,
        status=201,
        problems=("forbidden",),
    ),
    user(method="GET", path="/v1/whoami", handler=tokens.whoami, needs=Needs.TOKEN, answer=Whoami),
    user(
        method="GET",
        path="/v1/events",
        handler=meta.recent_events,
        needs=Needs.READ_LIST,
        answer=RecentEvents,
        query=("limit", "room", "job", "task"),
    ),
    user(method="GET", path="/v1/stats", handler=meta.stats, needs=Needs.READ_LIST, answer=Stats),
    *(anybody(method="GET", path=f"{prefix}/healthz", handler=meta.healthz, answer=Health) for prefix in ("", "/v1")),
    *(anybody(method="GET", path=f"{prefix}/readyz", handler=meta.readyz, answer=Health) for prefix in ("", "/v1")),
    anybody(method="GET", path="/v1/problems/{name}", handler=meta.problem_page, problems=("not-found",)),
    anybody(method="GET", path="/v1/openapi.json", handler=openapi.get),
)

ENDPOINTS: tuple[Endpoint, ...] = (
    *_JOBS,
    *_TASKS,
    *_RUNS,
    *_ARTIFACTS,
    *_TARGETS,
    *_SCHEDULES,
    *_WORKERS,
    *_WEBHOOKS,
    *_SERVER,
)
"""In the order in which they are tried: what is named in full stands before what takes any name."""
