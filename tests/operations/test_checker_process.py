"""The process that checks payloads aside goes with the server, whenever it was started."""

import asyncio

import pytest

from tests.children import children_named
from treadle_server.errors import TooManyRequests
from treadle_server.operations import checker_process
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


async def test_of_one_that_does_not_answer_in_time_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checker_process, "ANSWER_SECONDS", 0.0)
    aside = CheckerProcess()

    with pytest.raises(TooManyRequests):
        await aside.check('{"type": "integer"}', ["1"])

    await aside.close()
    assert "the checker process failed: no answer; the machine may be too busy" in caplog.text
