"""Every endpoint of the server, one line each: the wire's operation and its handler."""

from functools import cache
from typing import get_args

from starlette.responses import Response

from treadle.wire.flows import FLOW_VERBS
from treadle.wire.operations import REPORTS
from treadle.wire.pages import MOST_OF_PAGE
from treadle.wire.transitions import Action
from treadle_server.api import (
    artifacts,
    bulk,
    failure_groups,
    flows,
    jobs,
    keys,
    limits,
    meta,
    metrics,
    prune,
    runs,
    schedules,
    steering,
    steps,
    targets,
    tasks,
    tokens,
    webhooks,
    windows,
    workers,
)
from treadle_server.api.call import Call
from treadle_server.api.endpoint import Endpoint, Items
from treadle_server.api.openapi import document
from treadle_server.domain.artifacts import AFTER_EXCEPTION
from treadle_server.operations.bulk import Edits
from treadle_server.operations.encode import dumps
from treadle_server.operations.reporting import ReportsOutline
from treadle_server.operations.task_lists import TasksOutline


@cache
def _described() -> bytes:
    return dumps(document(ENDPOINTS))


async def _openapi(call: Call) -> Response:
    """Get the OpenAPI document."""
    return Response(_described(), media_type="application/json")


_on = Endpoint.of

ENDPOINTS: tuple[Endpoint, ...] = (
    _on("register", jobs.register),
    _on("jobs", jobs.list_in_room),
    _on("get_job", jobs.get),
    _on("job", jobs.patch),
    _on("tasks_of_job", tasks.list_of_job),
    _on("submit_one", tasks.submit),
    _on("submit", tasks.submit_all, items=Items("tasks", TasksOutline)),
    _on("tasks_of_room", tasks.list_in_room),
    _on("tasks", tasks.list_all),
    _on("claim", workers.claim),
    _on("actions", bulk.act_on_many),
    _on("edits", bulk.edit_many, items=Items("edits", Edits)),
    _on("freeze", windows.freeze_filter),
    _on("window", windows.look),
    _on("failures", failure_groups.list_all),
    _on("get", tasks.get),
    _on("edit", tasks.patch),
    *(_on(action, steering.verb(action)) for action in get_args(Action)),
    _on("runs", runs.list_of_task, per_page=MOST_OF_PAGE),
    _on("history", runs.events_of_task, per_page=MOST_OF_PAGE),
    _on("logs", runs.logs_of_task),
    _on("steps", steps.list_of_task, per_page=MOST_OF_PAGE),
    _on("send", steps.send),
    _on("receive", steps.receive),
    _on("reclaim", runs.reclaim),
    *(_on(f"report_{kind}", runs.report(kind)) for kind in REPORTS),
    _on("announce_artifact", artifacts.announce, late=AFTER_EXCEPTION),
    _on("artifacts", artifacts.list_of_task),
    _on("get_artifact", artifacts.get),
    _on("put_upload", artifacts.put, streams=True),
    _on("finish_upload", artifacts.finish),
    _on("targets", targets.list_in_room),
    _on("get_target", targets.get),
    _on("schedules", schedules.list_in_room),
    _on("put_schedule", schedules.put),
    _on("get_schedule", schedules.get),
    _on("schedule", schedules.patch),
    _on("delete_schedule", schedules.delete),
    _on("run_schedule", schedules.run),
    _on("limits", limits.list_in_room),
    _on("put_limit", limits.put),
    _on("get_limit", limits.get),
    _on("delete_limit", limits.delete),
    _on("flows", flows.list_all),
    _on("get_flow", flows.get),
    *(_on(f"flow_{verb.replace('-', '_')}", flows.verb(verb)) for verb in FLOW_VERBS),
    _on("open", workers.register),
    _on("workers", workers.list_all),
    _on("workers_of_room", workers.list_in_room),
    _on("get_worker", workers.get),
    _on("beat", workers.beat),
    _on("drain_worker", workers.drain),
    _on("close", workers.remove),
    _on("reports", workers.report, items=Items("reports", ReportsOutline)),
    _on("webhooks", webhooks.list_in_room),
    _on("put_webhook", webhooks.put),
    _on("get_webhook", webhooks.get),
    _on("delete_webhook", webhooks.remove),
    _on("deliveries", webhooks.deliveries),
    _on("redeliver", webhooks.redeliver),
    _on("prune", prune.prune),
    _on("make_token", tokens.make),
    _on("tokens", tokens.list_all),
    _on("revoke_token", tokens.revoke),
    _on("rotate_keys", keys.rotate),
    _on("whoami", tokens.whoami),
    _on("events", meta.recent_events),
    _on("stats", meta.stats),
    _on("metrics", metrics.metrics),
    _on("healthz", meta.healthz),
    _on("healthz_v1", meta.healthz),
    _on("readyz", meta.readyz),
    _on("readyz_v1", meta.readyz),
    _on("problem", meta.problem_page),
    _on("openapi", _openapi),
)
"""In the order of the wire's operations, which is the order in which routes are tried."""

BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS}
"""Endpoints by the names of their operations."""
