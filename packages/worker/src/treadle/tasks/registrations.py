"""What a worker tells its server of a task's schedule."""

import json
from hashlib import sha256
from typing import Any

from treadle.client.options import seconds, template
from treadle.encryption.fields import sealed_payload
from treadle.encryption.sealer import Sealer
from treadle.errors import InvalidArguments
from treadle.tasks.definition import Task


def registration(task: "Task[..., Any]", sealer: Sealer) -> tuple[str, dict[str, Any]]:
    """Return the schedule's name, and the body that sets it, with the payload of an encrypted task sealed.

    Its hash says what the code says: as long as that stays the same, a worker that starts changes nothing, and what
    people have changed since stays. Of an encrypted task it is a keyed digest: another first key sets the schedule
    anew. Raises `InvalidArguments` for what the task can't be called with.
    """
    plan = task.schedule
    assert plan is not None
    try:
        payload = task.signature.payload((), plan.arguments)
    except InvalidArguments as error:
        raise InvalidArguments(f"the schedule of {task.full_name}: {error}") from None
    body: dict[str, Any] = {
        "job": task.full_name,
        "payload": payload,
        "jitter": float(seconds(plan.jitter) or 0),
        "missed": plan.missed,
        **plan.timing(),
        **template(plan.options, plan.deadline),
    }
    name = plan.name or f"{task.job.category}:{task.job.name}"
    said = json.dumps(body, sort_keys=True).encode()
    if task.encrypted:
        sealed = sealed_payload(sealer, body["payload"], None, [limit.key for limit in task.limits])
        return name, body | {"payload": sealed, "content_hash": sealer.digest(said)}
    return name, body | {"content_hash": sha256(said).hexdigest()}
