"""What tasks wait for is read for all of a batch of claims at once."""

from typing import Any

from sqlalchemy import event, insert

from tests.store.read.conftest import StoredTasks, task_row
from treadle_server.store.read.dependencies import depended
from treadle_server.store.tables import task_dependencies


async def put_waiting(stored: StoredTasks, needs: dict[int, list[int]], results: dict[int, str]) -> None:
    """Put in tasks that have completed, each with its result, and others, each with those that it waited for."""
    await stored.put([task_row(seq, status="completed", run_id=0, result=result) for seq, result in results.items()])
    await stored.put([task_row(seq) for seq in needs])
    async with stored.store.write() as tx:
        rows = [
            {"task_seq": seq, "needs_seq": need, "places": f'[["x", {place}]]', "met": True}
            for seq, listed in needs.items()
            for place, need in enumerate(listed)
        ]
        await tx.connection.execute(insert(task_dependencies), rows)


async def test_what_many_tasks_wait_for_is_two_statements_and_each_has_its_own_f2(stored: StoredTasks) -> None:
    results = {1: "10", 2: f'"{"y" * 100}"', 3: "30"}
    needs: dict[int, list[int]] = {11: [1], 12: [3, 1], 13: [2, 2 + 1], **{seq: [3] for seq in range(14, 60)}}
    await put_waiting(stored, needs, results)
    sent: list[str] = []

    async with stored.store.read() as connection:
        engine = connection.engine.sync_engine

        def noted(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if "task_dependencies" in statement:
                sent.append(statement)

        event.listen(engine, "before_cursor_execute", noted)
        try:
            found = await depended(connection, [*needs, 99], most_bytes=50)
        finally:
            event.remove(engine, "before_cursor_execute", noted)

    assert len(sent) == 2
    assert found.pop(99) == ([], False)
    assert {seq for seq, (_, is_left_out) in found.items() if is_left_out} == {13}
    read = {seq: [one.result for one in listed] for seq, (listed, _) in found.items()}
    assert read == {
        seq: [None if seq == 13 else results[need] for need in sorted(listed)] for seq, listed in needs.items()
    }
