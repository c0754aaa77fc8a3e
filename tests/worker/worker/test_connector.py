"""How a worker opens, where the server's answer is none that it can read."""

import asyncio
from typing import Any

import pytest

from tests.worker.fakes import fake_server
from tests.worker.jobs import double
from treadle import Client, Worker
from treadle.worker.lease import Held, Leases

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("answer", [None, {"reports_at_once": None}, {"jobs": [{}]}, {"worker": 7}, {"gone": 7}])
async def test_an_opening_whose_answer_can_not_be_read_is_told_and_tried_again(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the reports for good, while claims came in; or it was a traceback at each try."""
    answers: list[Any] = [{}, answer or []]
    is_open = asyncio.Event()

    def answered(item: dict[str, Any]) -> Any:
        if item["op"] == "open":
            said = answers.pop()
            if not answers:
                is_open.set()
            return said
        return {}

    async with fake_server(answered) as server:
        worker = Worker([double], url=server.url, token="any")
        running = asyncio.create_task(worker.run_async())
        async with asyncio.timeout(20):
            await is_open.wait()
        worker.stop()
        await running

    assert "the worker is not open yet: the server's answer can't be read" in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


async def test_heartbeats_know_whether_the_server_pushes_what_has_to_stop_l1(
    client: Client, either: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over plain HTTP nothing else says it, so each of them asks about all that runs."""
    seen: list[bool] = []
    add = Leases.add

    def seen_by(leases: Leases, claim: dict[str, Any], since: float) -> Held:
        seen.append(leases.gets_pushes)
        return add(leases, claim, since)

    monkeypatch.setattr(Leases, "add", seen_by)
    async with either(double):
        assert await (await double.submit(4)).result(timeout=60) == 8

    assert seen == ["socket" in request.node.callspec.id]
