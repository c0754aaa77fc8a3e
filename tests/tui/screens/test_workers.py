"""The workers' pane: each expected heartbeat, and what runs against what is usual."""

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import at
from tests.tui.stage import staged


def row_of(stage_text: str, name: str) -> str:
    return next(line for line in stage_text.splitlines() if f" {name} " in line)


async def test_5_a_killed_worker_goes_late_and_then_lost_and_its_strip_tells_when(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("3")
        assert "● busy" in row_of(stage.text(), "web-0")
        for _ in range(3):
            for row in server.workers.values():
                if row["name"] not in {"web-0", "old-1", "gpu-3"}:
                    row["last_heartbeat"] = clock.now().isoformat()
            server.push_topic("workers")
            await stage.pass_time(2)

        line = row_of(stage.text(), "web-0")
        assert "! late" in line
        assert "▮▯▯" in line
        assert "▯" not in row_of(stage.text(), "web-1")

        gone = next(row for row in server.workers.values() if row["name"] == "web-0")
        gone.update(state="lost", running=[], running_count=0)
        server.push_topic("workers")
        await stage.settle()
        assert "✗ lost" in row_of(stage.text(), "web-0")


async def test_5_a_worker_whose_connection_broke_is_away_and_its_queue_starved(
    server: MockServer, clock: FrozenClock
) -> None:
    for row in server.workers.values():
        row["away_since"] = at(1)
    async with staged(server, clock) as stage:
        assert "✗ starved" in next(line for line in stage.lines() if ":Rotate" in line)
        assert "0/13 workers" in stage.lines()[0]
        await stage.press("3")
        assert "◌ away" in row_of(stage.text(), "web-0")


async def test_what_runs_is_compared_with_what_completed_and_not_with_what_failed_at_once(
    server: MockServer, clock: FrozenClock
) -> None:
    at_once = {"n": 900, "p50": 0.0, "p90": 0.0, "p95": 0.0, "p99": 0.0, "mean": 0.0}
    for job in server.jobs.values():
        job["stats"] |= {"run": at_once, "completed_run": {**at_once, "p50": 7200.0, "p90": 9000.0}}
    async with staged(server, clock) as stage:
        await stage.press("3")
        assert "/2h" in row_of(stage.text(), "web-0")
        assert "slow" not in row_of(stage.text(), "web-0")


async def test_only_a_lost_worker_is_removed(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("3")
        assert "old-1" in stage.highlighted()
        await stage.press("down", "D")
        assert "only a lost worker can be removed" in stage.text()
        await stage.press("up", "D")

        assert len(stage.asked("remove_worker")) == 1
        assert "no longer here" in stage.highlighted()


async def test_a_worker_that_takes_tasks_is_asked_to_drain_once(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("3")
        assert "old-1" in stage.highlighted()
        await stage.press("Z")
        assert "can't drain old-1: it is lost" in stage.text()
        while "web-0" not in stage.highlighted():
            await stage.press("down")
        assert "Z drain" in stage.text()
        await stage.press("Z")

        assert "web-0 is draining: it takes no more tasks, finishes what it runs, and ends" in stage.text()
        assert "◐ draining" in row_of(stage.text(), "web-0")
        assert "Z drain" not in stage.text()
        await stage.press("Z")
        assert len(stage.asked("drain_worker")) == 1


async def test_what_runs_is_told_against_half_of_its_kind(server: MockServer, clock: FrozenClock) -> None:
    slow = next(row for row in server.workers.values() if row["name"] == "web-0")
    slow["running"][0]["since"] = at(600)

    async with staged(server, clock, size=(200, 50)) as stage:
        await stage.press("3")

        assert "Rotate 10m00/8.0s stuck  Rotate 50s/8.0s slow" in row_of(stage.text(), "web-0")
        assert "Rotate 44s/8.0s  Rotate 43s/8.0s" in row_of(stage.text(), "web-1")


async def test_what_a_worker_has_claimed_beyond_its_slots_uses_none_of_them(
    server: MockServer, clock: FrozenClock
) -> None:
    next(row for row in server.workers.values() if row["name"] == "web-0").update(used=11, concurrency=8)
    async with staged(server, clock) as stage:
        await stage.press("3")

        assert "  8/8 +3 " in row_of(stage.text(), "web-0")
