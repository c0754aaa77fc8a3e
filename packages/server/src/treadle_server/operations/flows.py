"""Shows flows, and applies verbs to all of a flow's tasks."""

from typing import Any

from treadle.wire.bulk import BulkAction
from treadle.wire.flows import FLOW_VERBS
from treadle.wire.ids import is_uuid
from treadle.wire.sealed import ENCRYPTED, LONGEST_CLASS, MARK, seal_of_text
from treadle.wire.status import TERMINAL
from treadle_server.access.checks import sees_flow
from treadle_server.access.principal import Principal
from treadle_server.access.rights import CONTROL
from treadle_server.errors import FlowNotFound
from treadle_server.operations.bulk import MOST_MATCHED, act_on
from treadle_server.operations.context import OperationContext
from treadle_server.store.read import flows as read_flows
from treadle_server.store.read.flows import FlowView


def flow_id_of(text: str) -> str:
    """Return a flow's id in lower case. Raises `FlowNotFound` if it is not a UUID."""
    if not is_uuid(text.lower()):
        raise FlowNotFound(f"{text[:80]!r} is not a flow id: write a UUID")
    return text.lower()


def flow_data(view: FlowView) -> dict[str, Any]:
    """Return the flow as `FlowItem`."""
    total = sum(view.counts.values())
    ended = sum(n for status, n in view.counts.items() if status in TERMINAL)
    return {
        "id": view.flow.id,
        "name": view.flow.name,
        "room_id": view.flow.room,
        "submitter": view.flow.submitter,
        "created_at": view.flow.created_at,
        "total": total,
        "counts": view.counts,
        "progress": ended / total if total else 1.0,
    }


def unseen(flow_id: str) -> FlowNotFound:
    """Return the error for a flow that the principal may not see: the same as for one that does not exist."""
    return FlowNotFound(f"there is no flow {flow_id}")


async def shown_flow(ctx: OperationContext, principal: Principal, flow_id: str) -> dict[str, Any]:
    """Return the flow as `FlowView`, with as many of its first tasks and edges as a picture has room for.

    Raises `FlowNotFound`, also if the principal may not see it.
    """
    async with ctx.engine.store.read() as connection:
        view = await read_flows.find(connection, flow_id)
        if not sees_flow(principal, view.flow):
            raise unseen(flow_id)
        shown = await read_flows.shown(connection, flow_id)
    names = (
        *("id", "job_name", "status", "reason", "error", "on_dependency_failure"),
        *("created_at", "started_at", "completed_at"),
    )
    return {
        **flow_data(view),
        "tasks": [
            {name: getattr(row, name) for name in names}
            | {"error": _beginning(row.error), "waits_for": row.unmet, "ran_seconds": shown.ran.get(row.seq, 0.0)}
            for row in shown.tasks
        ],
        "edges": [{"task_id": task, "needs_id": needs, "names": listed} for task, needs, listed in shown.edges],
        "is_capped": shown.is_capped,
    }


def _beginning(error: str | None) -> str | None:
    """Return the beginning of an error; a sealed one that was cut off can't be opened, and is shown as encrypted."""
    if error is None or len(error) < read_flows.MOST_ERROR or seal_of_text(error) is not None:
        return error
    place = error.find(f"<{MARK}:", 0, LONGEST_CLASS + len(MARK))
    return error if place < 0 else f"{error[:place]}{ENCRYPTED}"


async def act_on_flow(ctx: OperationContext, principal: Principal, flow_id: str, verb: str) -> dict[str, Any]:
    """Apply a verb to those tasks of a flow to which it applies, and return `BulkResult`.

    Raises `FlowNotFound`, and `StoreUnavailable` or `TooManyRequests` if the server gave up before it changed anything.
    """
    async with ctx.engine.store.read() as connection:
        view = await read_flows.find(connection, flow_id)
        if not (sees_flow(principal, view.flow) or principal.may(CONTROL + view.flow.room)):
            raise unseen(flow_id)
        ids = await read_flows.meant(connection, flow_id, verb, MOST_MATCHED)
    return await act_on(ctx, principal, BulkAction(action=FLOW_VERBS[verb], ids=[]), ids)
