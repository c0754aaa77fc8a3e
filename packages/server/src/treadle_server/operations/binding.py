"""Refs, dependencies and flows between the items of one submit, resolved before the store is asked."""

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
    """How the items of a request depend on each other and on existing tasks."""

    needs: Sequence[Sequence[Need]]
    """What each item waits for."""
    order: Sequence[int]
    """An order in which each item comes after those that it waits for."""
    flow: FlowWanted | None = None


_NAMES = frozenset({"ref", "depends_on", "flow_id", "flow_name"})


def bonds_of(wanted: Sequence[TaskSubmit | PlainTask]) -> Bonds | None:
    """Return how the items of a request depend on each other; None if they don't, as in nearly every request.

    An item with a `ref`, a `flow_id` or a `flow_name` makes the request one flow. Raises `ValidationFailed` for an
    unknown or repeated ref and for more than one flow, and `DependencyCycle`.
    """
    # The items of a request are all plain or all not.
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
            raise ValidationFailed(f"{field_name}: the tasks of one request must be of one flow, not of {len(found)}")
    return FlowWanted(next(iter(ids), None) or str(uuid7()), next(iter(names), None))


def bind(items: Sequence[Submission], bonds: Bonds | None) -> None:
    """Set what the submissions wait for, and their flow."""
    if bonds is None:
        return
    for item, needs in zip(items, bonds.needs, strict=True):
        item.needs, item.flow = needs, bonds.flow
