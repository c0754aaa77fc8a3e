"""Commands that wait for the writer: those whose requests are being read come along in its batch."""

import asyncio
from collections.abc import Iterable

import pytest

from tests.engine.conftest import ADMIN
from treadle.wire.ids import WorkerId
from treadle_server.engine.command_queue import GATHER_TURNS, MOST_WAITING, QUIET_TURNS, CommandQueue
from treadle_server.engine.commands import Each, FindWorker
from treadle_server.engine.pending import Pending

pytestmark = pytest.mark.anyio


def command() -> FindWorker:
    return FindWorker(principal=ADMIN, worker_id=WorkerId("somebody"))


async def gathered(comes_after: Iterable[int], *, most_rows: int = 1000) -> tuple[int, int]:
    """Return how many commands come along with one that waits, and how many turns of the loop that takes.

    Others come after so many turns.
    """
    queue = CommandQueue(most_rows, MOST_WAITING)
    queue.add(Pending(command()))
    turns = 0

    async def come() -> None:
        nonlocal turns
        for turn in range(1, 100):
            turns = turn
            if turn in comes_after:
                queue.add(Pending(command()))
            await asyncio.sleep(0)

    coming = asyncio.ensure_future(come())
    await queue.gather()
    took, taken = turns, queue.take()
    coming.cancel()
    return len(taken), took


async def test_commands_that_come_while_others_do_are_of_one_batch() -> None:
    assert await gathered([1, 3, 5]) == (4, 5 + QUIET_TURNS)


async def test_a_lone_command_waits_for_nobody_longer_than_a_request_takes_to_ask() -> None:
    assert await gathered([]) == (1, QUIET_TURNS)
    assert await gathered([QUIET_TURNS + 1]) == (1, QUIET_TURNS)


async def test_a_stream_that_does_not_end_is_waited_for_some_turns_only() -> None:
    assert await gathered(range(100)) == (1 + GATHER_TURNS, GATHER_TURNS)


async def test_a_batch_that_is_full_waits_for_nothing() -> None:
    assert await gathered(range(100), most_rows=1) == (1, 0)


async def test_a_batch_has_no_more_rows_than_it_may_and_a_command_that_has_more_is_one_by_itself() -> None:
    queue = CommandQueue(4, MOST_WAITING)
    for rows in (1, 2, 1, 1, 3, 2, 9, 1):
        queue.add(Pending(Each([command()] * rows)))

    batches = []
    while queue:
        batches.append([pending.rows for pending in queue.take()])

    assert batches == [[1, 2, 1], [1, 3], [2], [9], [1]]
