"""Many rows that changed alike are written together, as they would be one by one, and each only from where it was."""

from datetime import timedelta

import pytest

from tests.engine.conftest import two_shops
from tests.store.recorded import recording
from treadle.wire.status import Reason, Status
from treadle_server.domain.tasks import copy_of, task_values
from treadle_server.store.base import LostUpdate
from treadle_server.store.read.tasks import by_ids
from treadle_server.store.transaction.flush import update_tasks

COUNT = 150
"""More than one statement has."""


async def changed(shop, clock):
    """Return tasks as they stand after all kinds of changes, each with what it was before."""
    tasks = [await shop.get(task.id) for task in await shop.submit(COUNT)]
    found = []
    for n, task in enumerate(tasks):
        before = copy_of(task)
        task.status, task.version = Status.SCHEDULED, 2
        task.due_at = clock.now() + timedelta(seconds=n)
        task.reason, task.error = (Reason.SUSPENDED, None) if n % 2 else (None, "x ü")
        task.next_retry_at = clock.now() if n % 3 else None
        task.goes_first, task.usage = n % 5 == 0, 1.5
        task.checkpoint = '{"a": 1}' if n % 7 else None
        if n % 11 == 0:
            task.payload, task.max_retries, task.tags = '{"n": "edited"}', 7, '{"a": 1}' if n % 2 else None
        found.append((task, before))
    return found


async def test_many_rows_are_written_as_they_are(shop, clock) -> None:
    tasks = await changed(shop, clock)

    async with shop.engine.store.write() as tx:
        await update_tasks(tx, tasks)

    async with shop.engine.store.read() as connection:
        stored = await by_ids(connection, [task.id for task, _ in tasks])
    assert [task_values(stored[task.id]) for task, _ in tasks] == [task_values(task) for task, _ in tasks]


@pytest.mark.postgres
async def test_what_many_are_to_do_is_edited_in_one_way_there_and_back_on_postgresql(postgres_database, clock) -> None:
    async with two_shops(postgres_database, clock) as (shop, _):
        tasks = await changed(shop, clock)

        with recording(shop.engine.store) as sent:
            async with shop.engine.store.write() as tx:
                await update_tasks(tx, tasks)

    edits = {text: len(values[0]) for text, values in sent.items() if text.startswith("UPDATE task_specs")}
    # Every eleventh, and half of those their tags too.
    assert sorted(edits.values()) == [7, 7]


async def test_a_row_that_is_no_longer_where_it_was_fails_them_all(shop, clock) -> None:
    tasks = await shop.submit(COUNT)
    written = []
    for n, task in enumerate(tasks):
        # The last one was, as far as this writer knows, in a run that it never had.
        task.run_id = -1 if n < COUNT - 1 else 0
        before = copy_of(task)
        task.status = Status.SCHEDULED
        written.append((task, before))

    with pytest.raises(LostUpdate, match=f"1 of {COUNT}"):
        async with shop.engine.store.write() as tx:
            await update_tasks(tx, written)

    async with shop.engine.store.read() as connection:
        stored = await by_ids(connection, [task.id for task in tasks])
    assert {task.status for task in stored.values()} == {Status.PENDING}
