"""Which of the tasks that others tell of are read for the list of the last few."""

from types import SimpleNamespace
from typing import cast
from uuid import uuid4

import pytest

from tests.conftest import FakeClock
from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.engine.engine import Engine
from treadle_server.services.relay.codec import Notice, Transitions
from treadle_server.services.relay.receiver import RECENT, REFILL, NoticeReceiver


@pytest.fixture
def receiver(clock: FakeClock) -> NoticeReceiver:
    return NoticeReceiver(cast("Engine", SimpleNamespace(clock=clock, hub=SimpleNamespace(each=False))))


def told(count: int) -> Notice:
    ended = [(Status.COMPLETED, 4)]
    return Notice("server", tasks={TaskId(str(uuid4())): Transitions(Status.RUNNING, ended) for _ in range(count)})


def test_of_many_the_last_few_are_read_and_so_many_a_second(receiver: NoticeReceiver, clock: FakeClock) -> None:
    clock.advance(1)
    first, second, third, fourth = told(RECENT + 15), told(40), told(40), told(40)

    assert list(receiver._wanted([first])) == list(first.tasks)[-RECENT:]
    assert list(receiver._wanted([second])) == []
    clock.advance((RECENT - 1) / REFILL)
    assert list(receiver._wanted([third])) == []
    clock.advance(1.01 / REFILL)
    assert list(receiver._wanted([fourth])) == list(fourth.tasks)[-RECENT:]


def test_all_are_read_that_come_one_by_one(receiver: NoticeReceiver, clock: FakeClock) -> None:
    for _ in range(2 * RECENT):
        notice = told(1)
        assert list(receiver._wanted([notice])) == list(notice.tasks)
        clock.advance(1.01 / REFILL)


def test_those_that_are_awaited_are_read_however_many_there_are(receiver: NoticeReceiver) -> None:
    notice = told(3 * RECENT)
    awaited = [task_id for place, task_id in enumerate(notice.tasks) if place % 2]
    receiver.interests.append(awaited.__contains__)
    receiver._wanted([told(RECENT)])

    assert list(receiver._wanted([notice])) == awaited
