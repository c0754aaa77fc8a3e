"""Bare tasks, which are made after the first of their job: as each would be that is made by itself."""

from dataclasses import replace
from uuid import UUID

import pytest

from tests.engine.conftest import Shop
from treadle.wire.ids import TaskId
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Submission, Submit, SubmitEach
from treadle_server.engine.commands.submit import Submitted

pytestmark = pytest.mark.anyio


def _items(jobs: list[str], *, is_bare: bool, first: int) -> list[Submission]:
    """Return three of each job in turn, those that are not to be bare with a target, or an option, among them."""
    items = [
        Submission(
            job_name=job,
            payload=f'{{"n":{n}}}',
            content_hash=b"%d" % n,
            id=None if n == 5 else TaskId(str(UUID(int=first + n))),
            is_bare=is_bare,
        )
        for n, job in enumerate(jobs * 3)
    ]
    items.insert(2, Submission(job_name=jobs[0], payload="{}", content_hash=b"x", target="lathe"))
    items.insert(4, Submission(job_name=jobs[1], payload="{}", content_hash=b"y", options={"priority": 3}))
    return items


def _plainly(one: Submitted, first: int) -> tuple[Task, bool, int | None]:
    """Return what was told, without what can't be the same of two tasks."""
    task = replace(one.task, id=TaskId(""), seq=one.task.seq - first)
    return task, one.created, one.position


@pytest.mark.parametrize("command", [Submit, SubmitEach])
async def test_bare_tasks_are_those_that_each_by_itself_would_be(
    shop: Shop, command: type[Submit] | type[SubmitEach]
) -> None:
    jobs = [shop.job, await shop.register("other", room="lab", defaults='{"max_retries":7,"lease_seconds":12.0}')]
    for job in jobs:
        await shop.submit(job=job, room="lab")  # the first one makes the lane
    told = []
    for is_bare, first in ((False, 1000), (True, 2000)):
        items = _items(jobs, is_bare=is_bare, first=first)
        done = await shop.engine.run(command(principal=shop.principal, room="lab", items=items))
        told.append(done)

    seqs = [done[0].task.seq for done in told]
    plainly = [[_plainly(one, seq) for one in done] for done, seq in zip(told, seqs, strict=True)]
    ahead = [sum(one.task.job_name == job for one in told[0]) for job in jobs]
    for (task, created, position), (bare, bare_created, bare_position) in zip(*plainly, strict=True):
        assert (bare, bare_created) == (task, created)
        before = ahead[jobs.index(task.job_name)] if task.priority == 0 else 1
        assert bare_position - before == position
    assert len({one.task.id for done in told for one in done}) == 16
    kept = [await shop.get(one.task.id) for one in told[1]]
    # PostgreSQL writes JSON in its own way.
    assert [replace(task, payload="") for task in kept] == [replace(one.task, payload="") for one in told[1]]
