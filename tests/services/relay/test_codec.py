"""What one server tells the others: the text says again what was written into it, and is never too long (G11)."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import Status
from treadle_server.services.relay.codec import MOST_BYTES, MOST_OTHERS, MOST_TASKS, Notice, Transitions, read, written

_ids = st.uuids().map(str)
_taken = st.lists(st.tuples(st.sampled_from(Status), st.integers(1, 10**9)), min_size=1, max_size=6)
_steps = st.builds(Transitions, st.none() | st.sampled_from(Status), _taken)
_instants = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
_few = st.sets(st.integers(1, 2**50), max_size=5)
_notices = st.builds(
    Notice,
    _ids,
    st.integers(0, 2**50),
    tasks=st.dictionaries(_ids.map(TaskId), _steps, max_size=20),
    lanes=_few,
    workers=st.sets(_ids.map(WorkerId), max_size=5),
    updated_workers=st.sets(_ids.map(WorkerId), max_size=5),
    jobs=_few,
    links=st.sets(st.tuples(_ids.map(WorkerId), st.integers(1, 2**50)), max_size=5),
    schedules=st.sets(_ids, max_size=5),
    away=st.dictionaries(_ids.map(WorkerId), _instants.map(lambda at: at.replace(microsecond=0)), max_size=5),
    back=st.sets(_ids.map(WorkerId), max_size=5),
    due_at=st.none() | _instants,
    is_brief=st.booleans(),
    wants_each=st.booleans(),
    has_more=st.booleans(),
)


@given(_notices)
def test_a_notice_is_read_as_it_was_written_g11(notice: Notice) -> None:
    [text] = written(notice)
    found = read(text)

    # A float has not every microsecond of the next century.
    due = (notice.due_at and round(notice.due_at.timestamp(), 4), found.due_at and round(found.due_at.timestamp(), 4))
    notice.due_at = found.due_at = None
    assert found == notice
    assert due[0] == due[1]


def _many(count: int) -> dict[TaskId, Transitions]:
    return {TaskId(str(uuid4())): Transitions(None, [(Status.PENDING, 1), (Status.CLAIMED, 2)]) for _ in range(count)}


@pytest.mark.parametrize("count", [1, 200, 201, MOST_TASKS])
def test_many_tasks_are_told_in_several_numbered_notices_that_fit_g11(count: int) -> None:
    notice = Notice(str(uuid4()), 7, tasks=_many(count), lanes={1})

    texts = written(notice)

    found = [read(text) for text in texts]
    assert max(map(len, texts)) <= MOST_BYTES
    assert [one.number for one in found] == [7 + i for i in range(len(texts))]
    assert {task_id: steps for one in found for task_id, steps in one.tasks.items()} == notice.tasks
    assert [one.lanes for one in found] == [{1}] + [set()] * (len(texts) - 1)


@pytest.mark.parametrize(
    "notice",
    [
        Notice(str(uuid4()), 7, tasks=_many(MOST_TASKS + 1)),
        Notice(str(uuid4()), 7, lanes=set(range(MOST_OTHERS + 1))),
        Notice(str(uuid4()), 7, tasks={TaskId(str(uuid4())): Transitions(None, [(Status.PENDING, 10**9)] * 900)}),
    ],
)
def test_what_is_too_much_becomes_one_word_to_read_everything_anew_g11(notice: Notice) -> None:
    [text] = written(notice)

    assert (read(text).has_gap, read(text).number) == (True, 7)
    assert len(text) < 200


NO_UUID = "!" * 22


@pytest.mark.parametrize(
    "text",
    ["", "reload", "[]", "{}", '{"n":1}', '{"s":"x","n":1}', '{"s":7,"n":1}', f'{{"s":"{NO_UUID}","n":1}}'],
)
def test_what_no_server_wrote_is_refused_g11(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(text)
