"""What several servers tell of one task, told here in one order (G11)."""

from uuid import uuid4

import pytest

from tests.domain.made import new_task
from treadle.wire.status import Status
from treadle_server.services.relay.codec import Notice, Transitions
from treadle_server.services.relay.receiver import _changes


@pytest.mark.parametrize("is_turned", [False, True])
def test_what_two_servers_tell_of_a_task_is_told_by_its_versions_whoever_was_heard_first_g11(is_turned: bool) -> None:
    task = new_task(status=Status.RUNNING, version=3)
    submitted = Notice(str(uuid4()), tasks={task.id: Transitions(None, [(Status.PENDING, 1)])})
    taken = Notice(
        str(uuid4()), tasks={task.id: Transitions(Status.PENDING, [(Status.CLAIMED, 2), (Status.RUNNING, 3)])}
    )

    found = _changes(task, [taken, submitted] if is_turned else [submitted, taken])

    told = [(change.was, change.task.status, change.task.version) for change in found]
    assert told == [(None, "pending", 1), ("pending", "claimed", 2), ("claimed", "running", 3)]
    assert found[-1].task is task
