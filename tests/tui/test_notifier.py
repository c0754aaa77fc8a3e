"""The terminal is told of marked tasks that end and of what newly needs attention; nothing unless it was asked for."""

import pytest

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import BILLING, ROTATE
from tests.tui.stage import Stage, staged
from treadle_tui import external
from treadle_tui.core.setup.app_state import AppState, Notify


def heard(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written to the terminal by notifications from now on."""
    written: list[str] = []
    made = external.notification_sequences
    monkeypatch.setattr(external, "notification_sequences", lambda how, text: written.extend(made(how, text, {})) or [])
    return written


def telling(how: Notify) -> AppState:
    return AppState(notify=how)


async def test_a_marked_task_that_ends_outside_of_the_list_is_told_of(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(server, clock, app_state=telling("osc9")) as stage:
        await stage.press("slash", *"status", "colon", *"running", "enter")
        key = next(row["id"] for row in server.matching({"filter": {"job": ROTATE, "status": ["running"]}}))
        await stage.press("space")
        written = heard(stage, monkeypatch)
        await stage.pass_time(1)
        assert written == []

        server.tasks[key]["status"] = "completed"
        server.push_topic("tasks")
        for _ in range(3):
            await stage.pass_time(0.2)

        assert written == [f"\x1b]9;Rotate {key[-8:]} completed\x1b\\"]


async def test_what_newly_wants_a_look_is_told_of(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    billing = next(job for job in server.jobs.values() if job["full_name"] == BILLING)
    counts = billing.pop("counts")
    billing["counts"] = {}
    async with staged(server, clock, app_state=telling("osc777")) as stage:
        written = heard(stage, monkeypatch)
        await stage.pass_time(0.2)
        assert written == []

        billing["counts"] = counts
        server.push_topic("counts")
        server.push_topic("jobs")
        await stage.pass_time(0.2)

        assert written == ["\x1b]777;notify;treadle;billing: no live worker, 2m10\x1b\\"]


async def test_nothing_is_told_unless_it_was_asked_for(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(server, clock) as stage:
        written = heard(stage, monkeypatch)
        await stage.press("2", "space")
        for row in server.tasks.values():
            row["status"] = "failed"
        server.push_topic("tasks")
        await stage.pass_time(1)

        assert written == []
