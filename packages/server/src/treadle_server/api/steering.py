"""The verbs over HTTP: cancel, pause, resume, rerun, resolve, for one task or for many."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response

from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle.wire.tasks import BulkAction, Resolve
from treadle.wire.tasks import Steer as SteerBody
from treadle_server.api import body
from treadle_server.api.context import Api, Call
from treadle_server.api.encode import answer
from treadle_server.api.reading import shown_after
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Steer, SteerMany
from treadle_server.engine.principal import Principal
from treadle_server.errors import TreadleError
from treadle_server.store.read import tasks as read_tasks

CHUNK = 500
"""Tasks that one command of a bulk action takes, so that the writer is never held for long."""

MOST_MATCHED = 100_000
"""Tasks that one bulk action by filter acts on at most; it says how many it matched."""

MOST_PROBLEMS = 1000


async def steer_task(api: Api, principal: Principal, task_id: TaskId, action: str, given: SteerBody) -> Task:
    """Apply the verb. Raises `TaskNotFound`, `Forbidden`, `TaskConflict` or `InvalidTaskTransition`."""
    command = Steer(principal=principal, task_id=task_id, action=action, if_version=given.if_version)
    if isinstance(given, Resolve):
        command.to = Status(given.status)
        command.result = body.text_or_none(given.result)
        command.error = given.error
    return await api.engine.run(command)


def verb(action: str) -> Callable[[Call], Awaitable[Response]]:
    """Return the handler of one verb."""

    async def handler(call: Call) -> Response:
        task = await steer_task(call.api, call.principal, call.task_id, action, call.body)
        return answer(await shown_after(call.api, task))

    handler.__doc__ = f"{action.capitalize()} a task."
    return handler


async def act_on_many(call: Call) -> Response:
    """Apply one verb to the tasks named, or to those that a filter means at this moment."""
    return answer(await bulk(call.api, call.principal, call.body))


async def bulk(api: Api, principal: Principal, wanted: BulkAction) -> dict[str, Any]:
    """Apply the verb in chunks and return `BulkResult`. Raises `StoreUnavailable`."""
    ids = await _ids(api, wanted)
    versions: dict[str, int] = {}
    problems: list[dict[str, Any]] = []
    for start in range(0, len(ids), CHUNK):
        command = SteerMany(
            principal=principal,
            action=wanted.action,
            ids=ids[start : start + CHUNK],
            if_versions={TaskId(task_id): version for task_id, version in (wanted.if_versions or {}).items()},
            to=None if wanted.status is None else Status(wanted.status),
            result=body.text_or_none(wanted.result),
            error=wanted.error,
        )
        for task_id, outcome in await api.engine.run(command):
            if isinstance(outcome, TreadleError):
                problems.append({"id": task_id, "type": outcome.type.uri, "detail": outcome.detail})
            else:
                versions[task_id] = outcome.version
    return {
        "action": wanted.action,
        "matched": len(ids),
        "changed": len(versions),
        "versions": versions,
        "problems": problems[:MOST_PROBLEMS],
    }


async def _ids(api: Api, wanted: BulkAction) -> list[TaskId]:
    if wanted.ids is not None:
        return [TaskId(task_id) for task_id in dict.fromkeys(wanted.ids)]
    assert wanted.filter is not None
    async with api.engine.store.read() as connection:
        return await read_tasks.matching_ids(connection, wanted.filter, MOST_MATCHED)
