"""What needs attention: the worst first, and enter goes there."""

from typing import Any

import pytest

from tests.tui.happenings import things_go_wrong
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import BILLING, at, job
from tests.tui.stage import Stage, staged


def told(stage: Stage) -> list[str]:
    return [" ".join(line.split()) for line in stage.lines() if " bad  " in line or " look " in line]


async def test_the_worst_stands_first_and_says_why(server: MockServer, clock: FrozenClock) -> None:
    things_go_wrong(server)
    async with staged(server, clock) as stage:
        await stage.press("exclamation_mark")

        lines = told(stage)
        assert [line[2:].removeprefix("> ").split()[:4] for line in lines] == [
            ["✗", "bad", "worker", "old-1"],
            ["✗", "bad", "queue", "billing"],
            ["!", "look", "queue", "RDF"],
            ["!", "look", "target", "cam-2"],
            ["!", "look", "schedule", "sync"],
            ["!", "look", "target", "cam-3"],
            ["!", "look", "worker", "lab/gpu-3"],
            ["!", "look", "queue", "Delete"],
        ]
        assert "17% fail, usually 0%" in lines[-1]
        assert "! 8" in stage.lines()[0]


@pytest.mark.parametrize(
    ("downs", "shown"),
    [
        (0, "> old-1"),
        (1, f"2 Tasks  {BILLING}"),
        (3, "> room_42:cam-2"),
        (7, 'job:"@global:modifiers:Delete" status:failed'),
    ],
)
async def test_enter_goes_there(downs: int, shown: str, server: MockServer, clock: FrozenClock) -> None:
    things_go_wrong(server)
    async with staged(server, clock) as stage:
        await stage.press("exclamation_mark", *["down"] * downs, "enter")

        assert shown in stage.text()


async def test_a_stuck_task_is_found_and_opened(server: MockServer, clock: FrozenClock) -> None:
    slow = next(row for row in server.workers.values() if row["name"] == "web-0")
    slow["running"][0]["since"] = at(600)
    key = slow["running"][0]["task_id"]
    async with staged(server, clock) as stage:
        await stage.press("exclamation_mark")
        assert "running 10m00, 99% end within 1m10" in stage.text()

        await stage.press("down", "down", "down", "enter")
        assert f" {key}  @global:modifiers:Rotate" in stage.text()


async def test_a_target_is_held_long_by_what_only_someone_can_end(server: MockServer, clock: FrozenClock) -> None:
    things_go_wrong(server)
    server.targets["3"]["since"] = at(59)
    async with staged(server, clock) as stage:
        await stage.press("exclamation_mark")
        assert "cam-3" not in stage.text()

        await stage.pass_time(1)
        assert "failed 1m00, 1 wait" in stage.text()


HISTORIES: list[tuple[list[int], list[int], bool]] = [
    ([20] * 30, [0] * 24 + [4] * 6, True),
    ([20] * 30, [4] * 30, False),
    ([20] * 30, [0] * 29 + [2], False),
    ([0] * 30, [0] * 27 + [1] * 3, True),
    ([500] * 30, [0] * 24 + [1] * 6, False),
]


@pytest.mark.parametrize(("completed", "failed", "is_news"), HISTORIES)
async def test_a_queue_that_fails_more_than_usual_is_news(
    completed: list[int], failed: list[int], is_news: bool, server: MockServer, clock: FrozenClock
) -> None:
    row: dict[str, Any] = job("@global:tasks:odd", 9, counts={}, wave=0, oldest=None, workers=[])
    row["history"] = {"step_seconds": 10, "completed": completed, "failed": failed}
    server.jobs[row["id"]] = row
    async with staged(server, clock) as stage:
        await stage.press("exclamation_mark")

        assert (" odd " in "\n".join(told(stage))) is is_news


async def test_an_alert_is_dismissed_and_told_again_when_it_grows_worse(server: MockServer, clock: FrozenClock) -> None:
    things_go_wrong(server)
    async with staged(server, clock) as stage:
        await stage.press("exclamation_mark", *["down"] * 6)
        assert "lab/gpu-3" in stage.highlighted()
        await stage.press("d")
        assert not [line for line in told(stage) if "lab/gpu-3" in line]
        assert "dismissed lab/gpu-3" in stage.text()
        assert stage.highlighted().rstrip(" │").endswith("no longer here"), "enter shows nothing of it"
        assert " d dismiss" not in stage.lines()[-1]
        await stage.press("down")
        assert " d dismiss" in stage.lines()[-1]
        assert "! 7" in stage.lines()[0]

        next(row for row in server.workers.values() if row["name"] == "gpu-3")["state"] = "lost"
        server.push_topic("workers")
        await stage.settle()
        assert [line for line in told(stage) if "lab/gpu-3" in line]


async def test_a_lost_worker_is_removed(server: MockServer, clock: FrozenClock) -> None:
    key = next(row["id"] for row in server.workers.values() if row["name"] == "old-1")
    async with staged(server, clock) as stage:
        await stage.press("exclamation_mark", "D")

        assert stage.asked("remove_worker") == [{"op": "remove_worker", "id": key}]
        assert "removed old-1" in stage.text()
        assert not [line for line in told(stage) if "old-1" in line]


async def test_nothing_to_look_at_is_said(clock: FrozenClock) -> None:
    async with staged(MockServer(clock), clock) as stage:
        await stage.press("exclamation_mark")
        assert "✓ Nothing needs you." in stage.text()

        stage.server.drop()
        await stage.settle()
        assert "Unknown without a connection." in stage.text()
