"""What the items of one submit say of each other: refs, dependencies and flows, resolved before anything is asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from uuid_utils import uuid7

from treadle.wire.tasks import TaskOfMany, TaskSubmit
from treadle_server.domain.dependencies import ItemDependencies, Need, resolve
from treadle_server.domain.flows import FlowWanted
from treadle_server.engine.commands import Submission
from treadle_server.errors import ValidationFailed


@dataclass(frozen=True, slots=True)
class Bonds:
    """What binds the items of a request to each other and to what is there."""

    needs: Sequence[Sequence[Need]]
    """What each waits for."""
    order: Sequence[int]
    """An order in which each stands behind those that it waits for."""
    flow: FlowWanted | None = None


@dataclass(frozen=True, slots=True)
class _Unbound:
    """An item that says nothing of others."""

    id: str | None = None
    ref: str | None = None
    depends_on: Mapping[str, str | list[str]] | None = None
    flow_id: str | None = None
    flow_name: str | None = None


_NAMES = frozenset({"ref", "depends_on", "flow_id", "flow_name"})


def bonds_of(wanted: Sequence[object]) -> Bonds | None:
    """Return what binds the items of a request; None when nothing does, as of nearly every one.

    An item with a `ref`, a `flow_id` or a `flow_name` makes the request one flow. Raises `ValidationFailed` for a ref
    that nothing has or that stands twice, and for two flows; and `DependencyCycle`.
    """
    if not any(isinstance(item, TaskSubmit) and item.model_fields_set & _NAMES for item in wanted):
        return None
    items = [item if isinstance(item, TaskSubmit) else _Unbound(getattr(item, "id", None)) for item in wanted]
    asked = [ItemDependencies(item.id, _ref(item), item.depends_on or {}) for item in items]
    needs, order = resolve(asked)
    return Bonds(needs, order, _flow(items))


def _ref(item: "TaskSubmit | _Unbound") -> str | None:
    return item.ref if isinstance(item, TaskOfMany | _Unbound) else None


def _flow(items: Sequence["TaskSubmit | _Unbound"]) -> FlowWanted | None:
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
