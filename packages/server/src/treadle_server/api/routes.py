"""Every endpoint of the server, one line each: the wire's operation, what answers it, and what it needs."""

from typing import get_args

from treadle.wire.operations import REPORTS
from treadle.wire.transitions import Action
from treadle_server.access.needs import Needs
from treadle_server.api import (
    artifacts,
    bulk,
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
    _on("register", jobs.register, Needs.REGISTER_JOB),
    _on("jobs", jobs.list_in_room, Needs.READ_LIST),
    _on("get_job", jobs.get, Needs.READ_JOB),
    _on("job", jobs.patch, Needs.CONTROL_JOB),
    _on("tasks_of_job", tasks.list_of_job, Needs.READ_JOB),
    _on("submit_one", tasks.submit, Needs.CREATE_TASK),
    _on("submit", tasks.submit_all, Needs.CREATE_TASK),
    _on("tasks_of_room", tasks.list_in_room, Needs.READ_LIST),
    _on("tasks", tasks.list_all, Needs.READ_LIST),
    _on("claim", workers.claim, Needs.BE_WORKER),
    _on("actions", bulk.act_on_many, Needs.CONTROL_MANY),
    _on("edits", bulk.edit_many, Needs.CONTROL_MANY, items=Items("edits", bulk.Edits)),
    _on("freeze", windows.freeze_filter, Needs.READ_LIST),
    _on("window", windows.look, Needs.READ_LIST),
    _on("get", tasks.get, Needs.READ_TASK),
    _on("edit", tasks.patch, Needs.CHANGE_TASK),
    *(_on(action, steering.verb(action), Needs.CONTROL_TASK) for action in get_args(Action)),
    _on("runs", runs.list_of_task, Needs.READ_TASK),
    _on("history", runs.events_of_task, Needs.READ_TASK),
    _on("logs", runs.logs_of_task, Needs.READ_TASK),
    _on("reclaim", runs.reclaim, Needs.RUN),
    *(_on(f"report_{kind}", runs.report(kind), Needs.RUN) for kind in REPORTS),
    _on("announce_artifact", artifacts.announce, Needs.RUN, late=AFTER_EXCEPTION),
    _on("artifacts", artifacts.list_of_task, Needs.READ_TASK),
    _on("get_artifact", artifacts.get, Needs.READ_TASK),
    _on("put_upload", artifacts.put, Needs.SIGNATURE, streams=True),
    _on("finish_upload", artifacts.finish, Needs.SIGNATURE),
    _on("targets", targets.list_in_room, Needs.READ_LIST),
    _on("get_target", targets.get, Needs.READ_TARGET),
    _on("schedules", schedules.list_in_room, Needs.READ_LIST),
    _on("put_schedule", schedules.put, Needs.SET_SCHEDULE),
    _on("get_schedule", schedules.get, Needs.READ_SCHEDULE),
    _on("schedule", schedules.patch, Needs.CONTROL_SCHEDULE),
    _on("delete_schedule", schedules.delete, Needs.CONTROL_SCHEDULE),
    _on("run_schedule", schedules.run, Needs.CONTROL_SCHEDULE),
    _on("open", workers.register, Needs.BE_WORKER),
    _on("workers", workers.list_all, Needs.READ_LIST),
    _on("workers_of_room", workers.list_in_room, Needs.READ_LIST),
    _on("get_worker", workers.get, Needs.READ_WORKER),
    _on("beat", workers.beat, Needs.OWN_WORKER),
    _on("close", workers.remove, Needs.OWN_WORKER),
    _on("reports", workers.report, Needs.OWN_WORKER, items=Items("reports", ReportsOutline)),
    _on("webhooks", webhooks.list_in_room, Needs.WEBHOOK),
    _on("put_webhook", webhooks.put, Needs.WEBHOOK),
    _on("get_webhook", webhooks.get, Needs.WEBHOOK),
    _on("delete_webhook", webhooks.remove, Needs.WEBHOOK),
    _on("deliveries", webhooks.deliveries, Needs.WEBHOOK),
    _on("redeliver", webhooks.redeliver, Needs.WEBHOOK),
    _on("prune", prune.prune, Needs.SUPERUSER),
    _on("make_token", tokens.make, Needs.SUPERUSER),
    _on("tokens", tokens.list_all, Needs.SUPERUSER),
    _on("revoke_token", tokens.revoke, Needs.SUPERUSER),
    _on("rotate_keys", keys.rotate, Needs.SUPERUSER),
    _on("whoami", tokens.whoami, Needs.TOKEN),
    _on("events", meta.recent_events, Needs.READ_LIST),
    _on("stats", meta.stats, Needs.READ_LIST),
    _on("metrics", metrics.metrics, Needs.METRICS),
    _on("healthz", meta.healthz, Needs.NOTHING),
    _on("healthz_v1", meta.healthz, Needs.NOTHING),
    _on("readyz", meta.readyz, Needs.NOTHING),
    _on("readyz_v1", meta.readyz, Needs.NOTHING),
    _on("problem", meta.problem_page, Needs.NOTHING),
    _on("openapi", openapi.get, Needs.NOTHING),
)
"""In the order of the wire's operations, in which they are tried."""

BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS}
"""Each by its operation's name."""
