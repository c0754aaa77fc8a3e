"""The registration of a task's schedule, which a worker sends to its server."""

import json
from hashlib import sha256
from typing import Any

from treadle.client.options import seconds, template
from treadle.encryption.fields import sealed_payload
from treadle.encryption.sealer import Sealer
from treadle.errors import InvalidArguments
from treadle.tasks.definition import Task


def registration(task: "Task[..., Any]", sealer: Sealer) -> tuple[str, dict[str, Any]]:
    """Return the schedule's name, and the request body that sets it, with the payload of an encrypted task encrypted.

    The body has a hash of what the code says: while that is unchanged, starting a worker changes nothing, and later
    edits by people stay. For an encrypted task the hash is a keyed digest, so that a new first key sets the schedule
    again. Raises `InvalidArguments` for arguments that the task does not accept.
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
