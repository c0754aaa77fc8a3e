"""Charts over five minutes, an hour and a day, and what they say of the time before anything was measured."""

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import at
from tests.tui.stage import Stage, staged, typed

LEVELS = set("▁▂▃▄▅▆▇")


def begun(server: MockServer, seconds_ago: float) -> None:
    """Let the server have started so long ago."""
    for row in server.jobs.values():
        row["stats"]["since"] = at(seconds_ago)


def chart(stage: Stage) -> str:
    """The chart of what was done, in the status bar."""
    return stage.line_of("done ").split("done ")[1][:40]


async def test_a_key_and_a_command_draw_the_charts_over_another_time(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        assert "LAST 5 MIN" in stage.text()
        shown = [chart(stage)]
        for span, title in (("1 hour", "LAST HOUR"), ("1 day", "LAST DAY")):
            await stage.press("t")
            assert f"Throughput /s   {span}, 0.." in stage.text()
            assert title in stage.text()
            assert f"t {span}" in stage.text()
            shown.append(chart(stage))
        assert len(set(shown)) == 3
        await stage.press("t")
        assert chart(stage) == shown[0]
        await typed(stage, "span hour")
        assert "LAST HOUR" in stage.text()
        await typed(stage, "span week")
        assert 'unknown span "week"' in stage.text()


async def test_what_was_before_the_server_measured_anything_is_blank_and_since_when_is_said(
    server: MockServer, clock: FrozenClock
) -> None:
    begun(server, 150)

    async with staged(server, clock) as stage:
        drawn = chart(stage)
        assert drawn[:18].strip() == ""
        assert set(drawn[-15:]) <= LEVELS
        assert "5 min, known since 11:57, 0.." in stage.text()
        assert "t 5 min, known since 11:57" in stage.text()
        await stage.press("t")
        assert "1 hour, known since 11:57" in stage.text()


async def test_an_older_servers_hour_is_unknown_and_not_empty(server: MockServer, clock: FrozenClock) -> None:
    for row in server.jobs.values():
        del row["past"]

    async with staged(server, clock) as stage:
        assert set(chart(stage)) <= LEVELS
        await stage.press("t")
        assert chart(stage).strip() == ""


async def test_how_long_tasks_wait_and_run_is_shown_where_there_is_room_and_else_by_a_key(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock, size=(200, 50)) as stage:
        assert stage.line_of("modifiers:Rotate").split()[-5:-1] == ["20s", "48s", "8.0s", "52s"]
    async with staged(server, clock) as stage:
        assert "WAIT p50 p95" not in stage.text()
        await stage.press("1", "w")
        assert "WAIT p50 p95  RUN p50 p95" in stage.text()
        assert "room_42:selections:Neighbours" in stage.text()
        assert "FAILED" in stage.text()
        await stage.press("w")
        assert "WAIT p50 p95" not in stage.text()


async def test_failed_and_retrying_tasks_stand_beside_each_other(server: MockServer, clock: FrozenClock) -> None:
    rotate = next(row for row in server.jobs.values() if row["full_name"].endswith("Rotate"))
    rotate["retrying"] = 9

    async with staged(server, clock, size=(200, 50)) as stage:
        titles = stage.line_of("PENDING").split()
        assert titles[titles.index("FAILED") + 1] == "RETRY"
        assert stage.line_of("modifiers:Rotate").split()[9:12] == ["0", "25", "9"]
        rotate["retrying"] = 0
        server.push_topic("jobs")
        await stage.settle()
        assert "RETRY" in stage.text(), "a column that was there does not go again"
