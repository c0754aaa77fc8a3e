"""Leases are counted from before they were renewed, and told apart by why their runs are stopped."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.waiting import turns, until
from treadle import Client, task
from treadle.clock import monotonic
from treadle.worker import lease
from treadle.worker.lease import Leases, abort_margin, stop_margin

pytestmark = pytest.mark.anyio

REF = {"task_id": "t", "run_id": 0}


async def test_a_lease_is_counted_from_before_the_renewal_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """G5."""
    sent: list[dict[str, Any]] = []
    shown = [100.0]
    monkeypatch.setattr(lease, "monotonic", lambda: shown[-1])

    async def beat(body: dict[str, Any]) -> dict[str, Any]:
        sent.append(body)
        shown.append(105.0)
        return {"taken_until": [{"task_id": "t", "run_id": 0, "seconds_left": 10}], "cancel": [REF]}

    leases = Leases(beat)
    held = leases.add({"id": "t", "run_id": 0, "seconds_left": 1, "target": "robot"}, shown[-1])
    held.usage = 2.5
    assert await leases.beat()

    assert sent == [{"tasks": [{**REF, "usage": 2.5}]}]
    assert held.expires == 110.0
    assert held.stop == "cancel"


@pytest.mark.parametrize(("gets_pushes", "named_at"), [(False, 100.5), (True, 110.0)])
def test_a_heartbeat_names_what_is_due_and_not_what_was_just_claimed_e4(
    monkeypatch: pytest.MonkeyPatch, gets_pushes: bool, named_at: float
) -> None:
    """L1: each lease is renewed twice before it can end, and what ends within milliseconds is never named."""
    shown = [100.0]
    monkeypatch.setattr(lease, "monotonic", lambda: shown[-1])
    leases = Leases(lambda _: asyncio.sleep(0, {}))
    leases.gets_pushes = gets_pushes
    for name, seconds in (("long", 600), ("short", 3), ("spent", 60)):
        leases.add({"id": name, "run_id": 0, "seconds_left": seconds}, shown[-1])
    leases.held["spent", 0].usage = 1.0
    leases.add({"id": "exclusive", "run_id": 0, "seconds_left": 60, "target": "robot"}, shown[-1])

    def named() -> list[str]:
        return [run["task_id"] for run in leases.body()["tasks"]]

    assert leases.pace == 1.0, "a third of the shortest lease"
    for moment in (100.0, 100.4, 100.5, 109.9, 110.0):
        shown.append(moment)
        # A short lease has no time for a beat that is lost, and without its lease a target's code is ended.
        assert set(named()) - {"long"} == {"short", "spent", "exclusive"}
        assert ("long" in named()) is (moment >= named_at)
    assert [run["task_id"] for run in leases.body(leases.held["long", 0])["tasks"]] == ["long"]


async def test_the_code_of_a_target_is_stopped_before_its_lease_ends() -> None:
    """G5."""
    stopped = asyncio.Event()
    leases = Leases(lambda _: asyncio.sleep(0, {}))
    held = leases.add({"id": "t", "run_id": 0, "seconds_left": 1.0, "target": "robot"}, monotonic())
    held.stop_code = stopped.set

    leases.guard(held)
    async with asyncio.timeout(20):
        await stopped.wait()

    assert held.stop == "lease"
    assert monotonic() < held.expires
    assert stop_margin(60) > abort_margin(60) > 0


def test_a_cancel_outranks_a_pause_and_nothing_else_changes_the_first_reason() -> None:
    leases = Leases(lambda _: asyncio.sleep(0, {}))
    held = leases.add({"id": "t", "run_id": 0}, monotonic())

    for why in ("pause", "pause", "cancel", "timeout"):
        leases.stop_runs([REF], why)

    assert held.stop == "cancel"


async def test_a_worker_that_is_not_open_sends_no_heartbeat_and_says_nothing_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Why it isn't open was told already: it said beside that that it had no heartbeat, before its first connection."""
    beats: list[bool] = []
    online = asyncio.Event()

    async def beat(_: dict[str, Any]) -> dict[str, Any]:
        beats.append(online.is_set())
        return {}

    leases = Leases(beat)
    leases.beat_now()
    beating = asyncio.create_task(leases.run(online))
    await turns(20)
    assert beats == []

    online.set()
    await until(lambda: beats, pause=0)

    assert beats[0]
    assert caplog.records == []
    beating.cancel()


async def test_a_heartbeat_that_is_asked_for_names_all_that_is_held() -> None:
    """It asks whether the runs may go on: one that was just claimed may have been cancelled too."""
    bodies: list[dict[str, Any]] = []

    async def beat(body: dict[str, Any]) -> dict[str, Any]:
        bodies.append(body)
        return {}

    leases, online = Leases(beat), asyncio.Event()
    online.set()
    leases.add({"id": "t", "run_id": 0, "seconds_left": 60}, monotonic())
    leases.beat_now()
    beating = asyncio.create_task(leases.run(online))
    await until(lambda: bodies, pause=0)

    assert bodies[0] == {"tasks": [REF]}
    beating.cancel()


async def test_code_that_goes_on_though_it_was_told_to_stop_is_told_of(
    client: Client, working: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps a place of its worker, by which others wait, and nothing said so."""
    monkeypatch.setattr(lease, "LATE", 0.05)
    began, released = asyncio.Event(), asyncio.Event()

    @task(max_retries=0)
    async def stubborn() -> None:
        began.set()
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    async with working(stubborn):
        handle = await stubborn.submit()
        await began.wait()
        await handle.cancel()

        try:
            await until(lambda: f"task {handle.id}, run 0, of {stubborn.full_name} was told to stop" in caplog.text)
        finally:
            released.set()


@pytest.mark.parametrize("answer", [7, {"gone": 7}, {"taken_until": [{}]}, {"idle_beat_seconds": "soon"}])
async def test_an_answer_to_a_heartbeat_that_can_not_be_read_is_told_and_the_next_one_is_sent(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the heartbeats for good: the worker went on, and lost each lease."""
    leases = Leases(lambda _: asyncio.sleep(0, answer))

    assert await leases.beat() is False

    assert "no heartbeat: the server's answer can't be read" in caplog.text
