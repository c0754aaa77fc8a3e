"""Plans of verbs, and the tasks that they are for, as tests make them."""

from treadle.wire.bulk import FrozenTask
from treadle.wire.status import Status
from treadle_tui.core.verbs.plan import Plan, plan


def aim(key: str, status: str = "pending", version: int = 1) -> FrozenTask:
    return FrozenTask(id=key, status=Status(status), version=version, job_name="@global:tasks:a")


def planned(verb: str, *tasks: FrozenTask) -> Plan:
    found = plan(verb, tasks)  # type: ignore[arg-type]
    assert isinstance(found, Plan)
    return found
