"""The process that checks payloads aside goes with the server, whenever it was started."""

import asyncio

import pytest

from tests.children import children_named
from treadle_server.errors import TooManyRequests
from treadle_server.operations.checker_process import CheckerProcess


def _processes() -> set[int]:
    return children_named("treadle_server.checker")


async def test_a_checker_that_starts_while_the_server_goes_is_ended() -> None:
    before = _processes()
    aside = CheckerProcess()
    checking = asyncio.create_task(aside.check('{"type": "integer"}', ["1"]))
    await asyncio.sleep(0)
    await aside.close()
    with pytest.raises(TooManyRequests):
        await checking
    assert _processes() == before
