"""The `:` line: every action by its name, with what it is about behind it, and errors that say what to mend."""

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import BILLING, ROTATE
from tests.tui.stage import staged, typed
from treadle_tui.core.setup.app_state import AppState


async def test_a_queue_is_paused_by_its_name_from_anywhere(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("3")
        await typed(stage, f"pause queue {BILLING}")

        assert stage.asked("job")[-1] == {"op": "job", "job": BILLING, "paused": True}
        assert f"paused {BILLING}" in stage.text()


async def test_a_filter_is_typed_as_a_command_and_shows_the_tasks(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await typed(stage, "filter status:failed")

        window = stage.asked("watch")[-1]["window"]
        assert window["filter"]["status"] == ["failed"]
        assert "status:failed" in stage.text()


async def test_a_queues_tasks_are_gone_to_by_a_part_of_its_name(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await typed(stage, "tasks billing")

        assert stage.asked("watch")[-1]["window"]["filter"]["job"] == BILLING


async def test_a_task_is_opened_by_what_the_list_shows_of_its_id(server: MockServer, clock: FrozenClock) -> None:
    key = list(server.tasks)[3]

    async with staged(server, clock) as stage:
        await typed(stage, f"open {key[-8:]}")

        assert stage.asked("watch")[-1]["task_id"] == key


async def test_a_task_that_is_not_here_is_looked_for_by_the_beginning_of_its_id(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await typed(stage, "open ffff")

        assert stage.asked("watch")[-1]["window"]["filter"] == {"id": "ffff"}


async def test_a_command_that_cannot_be_carried_out_comes_back_with_the_reason(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        for line, says in (
            ("filter status:flying", 'there is no status "flying"'),
            ("theme purple", "use one of dark, light"),
            ("pause queue nope", 'no queue matches "nope"'),
            ("context prod", "the configuration file has none"),
            ("mark", "mark works in the tasks pane (2)"),
            ("seek 10", "controls a recording"),
        ):
            await typed(stage, line)
            assert says in stage.text(), line
            assert f": {line}" in stage.text()
            await stage.press("escape")

    assert stage.asked("job") == []


async def test_read_only_refuses_commands_that_write_and_offers_none(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, read_only=True) as stage:
        await typed(stage, f"pause queue {ROTATE}")
        assert "pause-queue is off: this dashboard is read-only" in stage.text()
        await stage.press("escape", "colon", *"pause")

        assert "pause-queue" not in stage.text()
        assert stage.asked("job") == []


async def test_tab_completes_and_the_completions_stand_over_the_line(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("colon", *"the", "tab")
        assert ": theme " in stage.text()
        assert "colourblind" in stage.text()
        await stage.press(*"li", "tab", "enter")

        assert stage.app.theme == "treadle-light"
        assert "theme light" in stage.text()


async def test_the_arrows_bring_back_what_was_typed(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await typed(stage, "theme mono")
        await stage.press("colon", "up")

        assert ": theme mono" in stage.text()
        await stage.press("escape")
        assert ": theme mono" not in stage.text()


async def test_the_dashboard_goes_on_beneath_the_command_line(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("colon")
        job = next(iter(server.jobs.values()))
        job["counts"] = {**job["counts"], "pending": 4711}
        server.push_topic("counts")
        await stage.settle()

        assert "4,711" in stage.text() or "4711" in stage.text()


async def test_9_a_saved_view_is_shown_by_its_name_and_means_every_queue(
    server: MockServer, clock: FrozenClock
) -> None:
    views = {"mine": "tag:user=ann -status:done", "bills": f"job:{BILLING} status:failed"}

    async with staged(server, clock, app_state=AppState(views=views)) as stage:
        await stage.press("V", *"mi", "tab", "enter")

        assert stage.asked("watch")[-1]["window"]["filter"]["tag"] == "user=ann"
        assert "job" not in stage.asked("watch")[-1]["window"]["filter"]
        assert "tag:user=ann -status:done" in stage.text()
        await typed(stage, "view bills")
        assert stage.asked("watch")[-1]["window"]["filter"] == {"job": BILLING, "status": ["failed"]}
        await typed(stage, "view his")
        assert 'unknown view "his": use one of mine, bills' in stage.text()


async def test_9_without_views_the_key_says_where_they_are_written(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("V")

        assert "no views: add them to the configuration file" in stage.text()


async def test_what_is_typed_faster_than_it_is_drawn_goes_into_the_line_that_its_first_key_opens(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.burst(":", *"tasks billing", "enter")
        await stage.settle()
        assert "2 Tasks  @global:tasks:billing" in stage.text()

        await stage.burst("/", *"status:failed", "enter")
        await stage.settle()
        assert "/ status:failed" in stage.text()
    assert stage.asked("actions") == []


async def test_6_a_key_typed_ahead_acts_on_what_the_one_before_it_has_gone_to(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("5")
        await stage.burst("1", "p")
        await stage.settle()

        assert stage.asked("schedule") == []
        assert [request["paused"] for request in stage.asked("job")] == [True]
