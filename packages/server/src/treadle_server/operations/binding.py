"""What the items of one submit say of each other: refs, dependencies and flows, resolved before anything is asked."""

from collections.abc import Sequence
from dataclasses import dataclass

from uuid_utils import uuid7

from treadle.wire.tasks import TaskOfMany, TaskSubmit
from treadle_server.domain.dependencies import ItemDependencies, Need, resolve
from treadle_server.domain.flows import FlowWanted
from treadle_server.engine.commands import Submission
from treadle_server.errors import ValidationFailed
from treadle_server.operations.task_lists import PlainTask


@dataclass(frozen=True, slots=True)
class Bonds:
    """What binds the items of a request to each other and to what is there."""

    needs: Sequence[Sequence[Need]]
    """What each waits for."""
    order: Sequence[int]
    """An order in which each stands behind those that it waits for."""
    flow: FlowWanted | None = None


_NAMES = frozenset({"ref", "depends_on", "flow_id", "flow_name"})


def bonds_of(wanted: Sequence[TaskSubmit | PlainTask]) -> Bonds | None:
    """Return what binds the items of a request; None when nothing does, as of nearly every one.

    An item with a `ref`, a `flow_id` or a `flow_name` makes the request one flow. Raises `ValidationFailed` for a ref
    that nothing has or that stands twice, and for two flows; and `DependencyCycle`.
    """
    # Of one request all items are plain, or none.
    items = [item for item in wanted if isinstance(item, TaskSubmit)]
    if not any(item.model_fields_set & _NAMES for item in items):
        return None
    asked = [ItemDependencies(item.id, _ref(item), item.depends_on or {}) for item in items]
    needs, order = resolve(asked)
    return Bonds(needs, order, _flow(items))


def _ref(item: TaskSubmit) -> str | None:
    return item.ref if isinstance(item, TaskOfMany) else None


def _flow(items: Sequence[TaskSubmit]) -> FlowWanted | None:
    ids = {item.flow_id for item in items if item.flow_id is not None}
    names = {item.flow_name for item in items if item.flow_name is not None}
    if not (ids or names or any(_ref(item) is not None for item in items)):
        return None
    for field_name, found in (("flow_id", ids), ("flow_name", names)):
        if len(found) > 1:
            raise ValidationFailed(f"{field_name}: the tasks of one request are of one flow, not of {len(found)}")
    return FlowWanted(next(iter(ids), None) or str(uuid7()), next(iter(names), None))


def bind(items: Sequence[Submission], bonds: Bonds | None) -> None:
    """Tell submissions what they wait for and which flow they are of."""
    if bonds is None:
        return
    for item, needs in zip(items, bonds.needs, strict=True):
        item.needs, item.flow = needs, bonds.flow
