"""Every endpoint of the server, one line each: the wire's operation, what answers it, and what it needs."""

from typing import get_args

from treadle.wire.operations import REPORTS
from treadle.wire.transitions import Action
from treadle_server.access.permission import Permission
from treadle_server.api import (
    artifacts,
    bulk,
    failure_groups,
    jobs,
    keys,
    meta,
    metrics,
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

_on = Endpoint.of

ENDPOINTS: tuple[Endpoint, ...] = (
    _on("register", jobs.register, Permission.REGISTER_JOB),
    _on("jobs", jobs.list_in_room, Permission.READ_LIST),
    _on("get_job", jobs.get, Permission.READ_JOB),
    _on("job", jobs.patch, Permission.CONTROL_JOB),
    _on("tasks_of_job", tasks.list_of_job, Permission.READ_JOB),
    _on("submit_one", tasks.submit, Permission.CREATE_TASK),
    _on("submit", tasks.submit_all, Permission.CREATE_TASK),
    _on("tasks_of_room", tasks.list_in_room, Permission.READ_LIST),
    _on("tasks", tasks.list_all, Permission.READ_LIST),
    _on("claim", workers.claim, Permission.BE_WORKER),
    _on("actions", bulk.act_on_many, Permission.CONTROL_MANY),
    _on("edits", bulk.edit_many, Permission.CONTROL_MANY, items=Items("edits", bulk.Edits)),
    _on("freeze", windows.freeze_filter, Permission.READ_LIST),
    _on("window", windows.look, Permission.READ_LIST),
    _on("failures", failure_groups.list_all, Permission.READ_LIST),
    _on("get", tasks.get, Permission.READ_TASK),
    _on("edit", tasks.patch, Permission.CHANGE_TASK),
    *(_on(action, steering.verb(action), Permission.CONTROL_TASK) for action in get_args(Action)),
    _on("runs", runs.list_of_task, Permission.READ_TASK),
    _on("history", runs.events_of_task, Permission.READ_TASK),
    _on("logs", runs.logs_of_task, Permission.READ_TASK),
    _on("reclaim", runs.reclaim, Permission.RUN),
    *(_on(f"report_{kind}", runs.report(kind), Permission.RUN) for kind in REPORTS),
    _on("announce_artifact", artifacts.announce, Permission.RUN, late=AFTER_EXCEPTION),
    _on("artifacts", artifacts.list_of_task, Permission.READ_TASK),
    _on("get_artifact", artifacts.get, Permission.READ_TASK),
    _on("put_upload", artifacts.put, Permission.SIGNATURE, streams=True),
    _on("finish_upload", artifacts.finish, Permission.SIGNATURE),
    _on("targets", targets.list_in_room, Permission.READ_LIST),
    _on("get_target", targets.get, Permission.READ_TARGET),
    _on("schedules", schedules.list_in_room, Permission.READ_LIST),
    _on("put_schedule", schedules.put, Permission.SET_SCHEDULE),
    _on("get_schedule", schedules.get, Permission.READ_SCHEDULE),
    _on("schedule", schedules.patch, Permission.CONTROL_SCHEDULE),
    _on("delete_schedule", schedules.delete, Permission.CONTROL_SCHEDULE),
    _on("run_schedule", schedules.run, Permission.CONTROL_SCHEDULE),
    _on("open", workers.register, Permission.BE_WORKER),
    _on("workers", workers.list_all, Permission.READ_LIST),
    _on("workers_of_room", workers.list_in_room, Permission.READ_LIST),
    _on("get_worker", workers.get, Permission.READ_WORKER),
    _on("beat", workers.beat, Permission.OWN_WORKER),
    _on("close", workers.remove, Permission.OWN_WORKER),
    _on("reports", workers.report, Permission.OWN_WORKER, items=Items("reports", ReportsOutline)),
    _on("webhooks", webhooks.list_in_room, Permission.WEBHOOK),
    _on("put_webhook", webhooks.put, Permission.WEBHOOK),
    _on("get_webhook", webhooks.get, Permission.WEBHOOK),
    _on("delete_webhook", webhooks.remove, Permission.WEBHOOK),
    _on("deliveries", webhooks.deliveries, Permission.WEBHOOK),
    _on("redeliver", webhooks.redeliver, Permission.WEBHOOK),
    _on("prune", prune.prune, Permission.SUPERUSER),
    _on("make_token", tokens.make, Permission.SUPERUSER),
    _on("tokens", tokens.list_all, Permission.SUPERUSER),
    _on("revoke_token", tokens.revoke, Permission.SUPERUSER),
    _on("rotate_keys", keys.rotate, Permission.SUPERUSER),
    _on("whoami", tokens.whoami, Permission.TOKEN),
    _on("events", meta.recent_events, Permission.READ_LIST),
    _on("stats", meta.stats, Permission.READ_LIST),
    _on("metrics", metrics.metrics, Permission.METRICS),
    _on("healthz", meta.healthz, Permission.NOTHING),
    _on("healthz_v1", meta.healthz, Permission.NOTHING),
    _on("readyz", meta.readyz, Permission.NOTHING),
    _on("readyz_v1", meta.readyz, Permission.NOTHING),
    _on("problem", meta.problem_page, Permission.NOTHING),
    _on("openapi", openapi.get, Permission.NOTHING),
)
"""In the order of the wire's operations, in which they are tried."""

BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS}
"""Each by its operation's name."""
