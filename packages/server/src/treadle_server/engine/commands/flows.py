"""The flow of a new task, and who may add to it."""

from collections.abc import Iterable

from treadle_server.access.checks import sees_flow
from treadle_server.access.principal import Principal
from treadle_server.domain.dependencies import Need
from treadle_server.domain.flows import Flow, FlowWanted
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import FlowNotFound, Forbidden, ValidationFailed


def read_bound(reads: ReadSet, principal: Principal, needs: Iterable[Need], flow: FlowWanted | None) -> None:
    """Read a new task's dependencies, its flow, and the task whose credential submits it."""
    reads.needed.update(need.of for need in needs if not isinstance(need.of, int))
    if flow is not None:
        reads.flows.add(flow.id)
        if principal.run is not None:
            reads.tasks.add(principal.run[0])


def check_flow(work: UnitOfWork, principal: Principal, room: str, wanted: FlowWanted | None) -> None:
    """Check that a task may be added to an existing flow: by its submitter, or from one of its running tasks.

    Raises `FlowNotFound`, `Forbidden`, or `ValidationFailed` if the flow has another room or name.
    """
    flow = None if wanted is None else work.dependencies.flows.get(wanted.id)
    if wanted is None or flow is None:
        return
    if not _adds(work, principal, flow):
        if not sees_flow(principal, flow):
            raise FlowNotFound(f"there is no flow {flow.id}")
        raise Forbidden(f"flow {flow.id} belongs to another user: only they and its running tasks can add to it")
    if flow.room != room:
        raise ValidationFailed(f"flow_id: the flow is in room {flow.room}; submit to it from there")
    if wanted.name is not None and wanted.name != flow.name:
        raise ValidationFailed(
            f"flow_name: the flow is already named {flow.name!r}; leave flow_name out, or use another flow_id"
        )


def _adds(work: UnitOfWork, principal: Principal, flow: Flow) -> bool:
    if principal.run is None:
        return principal.superuser or principal.user == flow.submitter
    task_id, run_id = principal.run
    task = work.tasks.get(task_id)
    return task is not None and task.flow_id == flow.id and task.is_leased and task.run_id == run_id


def flow_of(work: UnitOfWork, principal: Principal, room: str, wanted: FlowWanted) -> str:
    """Return the id of the flow, which is created with its first task."""
    if wanted.id not in work.dependencies.flows:
        work.dependencies.add_flow(Flow(wanted.id, wanted.name, room, principal.user, work.now))
    return wanted.id
