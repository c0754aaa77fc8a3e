"""What the dashboard promises its reader, each promise by its number."""

import random
from typing import Any

import pytest

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import BILLING, ROTATE, scene, storied_task, task, uuid
from tests.tui.stage import lose_highlighted, staged
from treadle_tui.core.views.windows import WINDOW

# 1. The highlighted row is a task, not an index.


async def test_1_a_key_acts_on_the_task_that_was_highlighted_under_two_hundred_changes(clock: FrozenClock) -> None:
    server = scene(clock)
    rows = [task(number, queue_position=number) for number in range(1, 10_001)]
    server.tasks = {row["id"]: row for row in rows}
    rng = random.Random(7)

    async with staged(server, clock) as stage:
        await stage.press("2", "down", "down", "down", "down", "down")
        highlighted = list(server.tasks)[5]
        for _ in range(10):
            _shuffle(server, rng, keep=highlighted, changes=20)
            server.push_topic("tasks")
            await stage.settle()
            assert highlighted[-8:] in stage.highlighted()
        await stage.press("p")

    assert stage.asked("actions")[-1]["ids"] == [highlighted]


def _shuffle(server: MockServer, rng: random.Random, *, keep: str, changes: int) -> None:
    """Let tasks before and behind the kept one end, and new ones come before it."""
    near = list(server.tasks)[:60]
    for key in rng.sample([key for key in near if key != keep], changes // 2):
        del server.tasks[key]
    new = [task(rng.randrange(20_000, 2**31), queue_position=1) for _ in range(changes // 2)]
    server.tasks = {**{row["id"]: row for row in new}, **server.tasks}


async def test_1_a_task_that_left_the_filter_leaves_a_tombstone_on_which_actions_refuse(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        key = await lose_highlighted(stage, server)

        assert key[-8:] in stage.highlighted()
        assert "  gone: " in stage.highlighted()
        await stage.press("c")

        assert stage.asked("actions") == []
        assert f"{key[-8:]} is no longer in this list: enter shows what became of it" in stage.text()


async def test_1_until_one_goes_there_the_first_task_is_simply_the_first(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        del server.tasks[next(iter(server.tasks))]
        server.push_topic("tasks")
        await stage.settle()

        assert "no longer here" not in stage.text()


# 2. Long lists are watched by windows.


async def test_2_of_a_hundred_thousand_tasks_only_a_window_is_watched(clock: FrozenClock) -> None:
    server = scene(clock)
    rows = [task(number, queue_position=number) for number in range(1, 100_001)]
    server.tasks = {row["id"]: row for row in rows}

    async with staged(server, clock) as stage:
        assert "100,000" in stage.text()
        await stage.press("2", "G")

        assert rows[-1]["id"][-8:] in stage.highlighted()
        windows = [request["window"] for request in stage.asked("watch") if request["topic"] == "tasks"]
        assert all(window["limit"] == WINDOW for window in windows)
        assert len([sub for sub in server.watched.values() if sub["topic"] == "tasks"]) == 1


async def test_2_idle_means_that_nothing_is_asked_and_nothing_drawn(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(server, clock) as stage:
        board = stage.app.front_screen
        assert board is not None
        drawn: list[Any] = []
        monkeypatch.setattr(board, "show", drawn.append)
        server.asked.clear()

        for _ in range(20):
            stage.app.flush()
            await stage.pilot.pause()

        assert server.asked == []
        assert drawn == []


async def test_2_an_idle_second_makes_no_line_of_a_queue_anew_and_no_answer_to_a_ping_draws_a_list(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(server, clock) as stage:
        made: list[str] = []
        monkeypatch.setattr("treadle_tui.core.state.derived.queue_row", lambda job, *_: made.append(job.full_name))
        monkeypatch.setattr("treadle_tui.screens.main.arranged", lambda *_: made.append("all"))
        board = stage.app.front_screen
        assert board is not None
        monkeypatch.setattr(board, "draw", lambda _: made.append("drawn"))

        await stage.pass_time(1)

        assert made == []
        assert stage.lines()[0].rstrip().endswith(":00:01")


# 4. When a pending task starts; how well that is told is seen in core/state/test_forecast.py.


async def test_4_no_start_is_foretold_where_nobody_serves_or_nobody_can_be_asked(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock, size=(200, 50)) as stage:
        await stage.press("slash", *"status", "colon", *"pending", "enter")
        first = list(server.matching({"filter": {"job": ROTATE, "status": ["pending"]}}))[12]["id"][-8:]
        assert " ~" in stage.line_of(first)

        for row in server.workers.values():
            row["away_since"] = clock.now().isoformat()
        server.push_topic("workers")
        await stage.pass_time(1)
        assert " ~" not in stage.line_of(first)

        for row in server.workers.values():
            del row["away_since"]
        server.push_topic("workers")
        await stage.pass_time(1)
        assert " ~" in stage.line_of(first)
        server.drop()
        await stage.settle()
        assert " ~" not in stage.line_of(first)


# 5. A worker that falls silent.


async def test_5_a_busy_worker_is_late_within_five_seconds_and_its_queue_starved(
    server: MockServer, clock: FrozenClock
) -> None:
    only = next(row for row in server.workers.values() if row["name"] == "gpu-1")
    rdf = next(row for row in server.jobs.values() if row["name"] == "RDF")
    rdf.update(workers=[only["id"]], paused=False)

    async with staged(server, clock) as stage:
        assert "room_42:analysis:RDF ● open" in " ".join(stage.text().split())
        await stage.pass_time(5)

        assert "room_42:analysis:RDF ✗ starved" in " ".join(stage.text().split())
        await stage.press("3")
        assert "! late" in next(line for line in stage.lines() if "gpu-1" in line)


# 6. Safe power.


async def test_6_cancelling_what_runs_is_asked_about_and_no_is_no(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "c")

        assert "Cancel 1 task?" in stage.text()
        await stage.press("n")
        assert stage.asked("actions") == []

        await stage.press("c", "y")
        assert stage.asked("actions")[-1]["ids"] == [next(iter(server.tasks))]


async def test_6_a_bulk_acts_on_the_ids_that_were_marked_when_the_question_came(
    server: MockServer, clock: FrozenClock
) -> None:
    marked = list(server.tasks)[:2]

    async with staged(server, clock) as stage:
        await stage.press("2", "space", "space", "c")
        server.tasks = dict(reversed(server.tasks.items()))
        server.push_topic("tasks")
        await stage.settle()
        await stage.press("y")

    assert stage.asked("actions")[-1]["ids"] == marked


async def test_6_over_a_hundred_wants_the_count_typed(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "asterisk", "c")
        # All that match, not only what is loaded; those that are over by now are left alone.
        assert "Cancel 828 tasks?" in stage.text()

        await stage.press("y")
        assert stage.asked("actions") == []
        await stage.press(*"827", "enter")
        assert stage.asked("actions") == []
        await stage.press(*"828", "enter")

    assert len(stage.asked("actions")[-1]["ids"]) == 828 > WINDOW


async def test_6_a_pause_is_undone_within_five_seconds_by_the_inverse_verb(
    server: MockServer, clock: FrozenClock
) -> None:
    key = list(server.tasks)[40]

    async with staged(server, clock) as stage:
        await stage.press("2", *["down"] * 40, "p")
        assert "paused 1 task" in stage.text()
        assert "undo 5s" in stage.text()
        await stage.press("u")

        undo = stage.asked("actions")[-1]
        assert (undo["action"], undo["ids"], undo["if_versions"]) == ("resume", [key], {key: 2})
        assert "undone" in stage.text()


async def test_6_after_five_seconds_there_is_nothing_to_undo(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "p")
        await stage.pass_time(5.5)
        await stage.press("u")

        assert len(stage.asked("actions")) == 1
        assert "nothing to undo" in stage.text()


async def test_6_read_only_hides_the_keys_and_does_nothing(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, read_only=True) as stage:
        await stage.press("2")
        assert "cancel" not in stage.lines()[-1]
        await stage.press("c", "p", "r", "1", "p")

        assert stage.asked("actions") == stage.asked("job") == []
        assert "this dashboard is read-only" in stage.text()


async def test_6_a_queue_is_paused_and_resumed(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("p")
        assert stage.asked("job")[-1] == {"op": "job", "job": ROTATE, "paused": True}
        assert f"paused {ROTATE}" in stage.text()
        await stage.press("r")

    assert stage.asked("job")[-1]["paused"] is False


# 7. It never lies.


async def test_7_a_lost_server_is_a_banner_and_actions_are_off_with_the_reason(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        server.drop("no server answers at http://127.0.0.1:7420")
        clock.advance(2)
        await stage.settle()

        assert "No server; what you see is 2s old" in stage.text()
        assert stage.app.front_screen is not None
        assert stage.app.front_screen.has_class("-stale")
        await stage.press("p")
        assert stage.asked("actions") == []
        assert "no connection: no server answers" in stage.text()


async def test_7_it_reconnects_by_itself_and_then_shows_what_is(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        server.drop()
        await stage.settle()
        first = next(iter(server.tasks))
        del server.tasks[first]
        server.open()
        await stage.settle()

        assert "No server" not in stage.text()
        assert first[-8:] not in stage.text()
        assert stage.app.model.tasks.order[0] == next(iter(server.tasks))


async def test_7_a_torn_table_is_asked_for_anew(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        sub = next(sub for sub, fields in server.watched.items() if fields["topic"] == "workers")
        gone = next(iter(server.workers))
        del server.workers[gone]
        # The delta that said so was lost; the next one's total gives it away.
        server.send(sub, rows=[], total=len(server.workers))
        await stage.settle()

        assert gone not in stage.app.model.workers.rows
        assert set(stage.app.model.workers.rows) == set(server.workers)


async def test_7_a_capped_count_says_so(server: MockServer, clock: FrozenClock) -> None:
    server.total, server.capped = 10_000, True

    async with staged(server, clock) as stage:
        assert f"{ROTATE}  10,000+" in stage.text()


async def test_7_a_list_for_which_not_all_were_looked_through_says_so(server: MockServer, clock: FrozenClock) -> None:
    server.partial = True

    async with staged(server, clock) as stage:
        assert "partial: not all tasks were searched" in stage.text()


async def test_7_what_the_server_refuses_to_show_is_said(server: MockServer, clock: FrozenClock) -> None:
    server.refuses["watch"] = "forbidden"

    async with staged(server, clock) as stage:
        assert "The server does not show the queues" in stage.text()


# 8. Any terminal.


@pytest.mark.parametrize(
    "keys",
    [
        *((), ("2",), ("3",), ("question_mark",), ("2", "c"), ("2", "enter"), ("slash",)),
        *(("ctrl+p",), ("ctrl+p", "p", "a")),
    ],
)
async def test_8_in_ascii_every_character_on_the_screen_is_ascii(
    server: MockServer, clock: FrozenClock, keys: tuple[str, ...]
) -> None:
    server.tasks[uuid(1)]["payload"] = {"name": "日本\u202e"}

    async with staged(server, clock, ascii_only=True) as stage:
        await stage.press(*keys)

        assert [line for line in stage.lines() if not line.isascii()] == []


async def test_8_below_60x15_there_is_one_line_of_counts(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, size=(59, 14)) as stage:
        said = [line.strip() for line in stage.lines() if line.strip()]

        assert said == ["● 1,204 pend 48/74 run 11/13 wkr !4"]


# 10. Hostile data.


async def test_10_hostile_text_neither_breaks_the_screen_nor_reaches_it(clock: FrozenClock) -> None:
    evil = "[bold]x[/] \x1b]0;owned\x07\x1b[2J\u202e\x00 [/nothing] [@click=app.quit]go[/]"
    server = scene(clock)
    key = storied_task(server)
    server.tasks = {key: server.tasks[key], **server.tasks}
    server.logs[key][0]["message"] = server.runs[key][0]["traceback"] = evil
    for row in server.tasks.values():
        row.update(payload={evil: [2**63, evil]}, target=evil, error=evil, tags={evil: evil}, submitter=evil)
    for job in server.jobs.values():
        job.update(name=evil)
    for row in server.workers.values():
        row.update(name=evil, pool=evil, version=evil, group=evil)

    async with staged(server, clock, size=(200, 50)) as stage:
        for keys in ((), ("2", "w", "w"), ("G", "enter"), ("tab",), ("escape", "3"), ("enter",)):
            await stage.press(*keys)
            assert all(char.isprintable() for line in stage.lines() for char in line)
            assert "[bold]x[/]" in stage.text()


async def test_10_ten_megabytes_of_payload_are_shown_in_part(server: MockServer, clock: FrozenClock) -> None:
    server.tasks[uuid(1)]["payload"] = {"rows": ["x" * 100] * 100_000}

    async with staged(server, clock) as stage:
        await stage.press("2", "enter", *["shift+tab"] * 3)

        assert "xxxxxxxx" in stage.text()
        assert "99,800 more" not in stage.text()
        await stage.press("G")
        assert "99,800 more: enter shows the next 200" in stage.text()


# And what there is to see.


async def test_the_tasks_follow_the_highlighted_queue(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("down")

        assert f"2 Tasks  {BILLING}" in stage.text()
        windows = [fields["window"] for fields in server.watched.values() if fields["topic"] == "tasks"]
        assert [window["filter"]["job"] for window in windows] == [BILLING]


async def test_the_filter_narrows_and_escape_takes_it_back(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("slash", *"status:failed", "enter")
        assert "1 of 9,417" in stage.text()
        assert "ValueError: angle mus" in stage.text()

        await stage.press("escape")
        assert "1 of 9,417" not in stage.text()


async def test_a_filter_that_cannot_be_read_says_why_and_changes_nothing(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        before = len(stage.asked("watch"))
        await stage.press("slash", *"status:flying", "enter")

        assert 'there is no status "flying"' in stage.text()
        assert len(stage.asked("watch")) == before


async def test_a_workers_tasks_are_shown_with_their_jobs(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("3", *["down"] * 3, "enter")

        assert "2 Tasks  all queues" in stage.text()
        assert "JOB" in next(line for line in stage.lines() if "PAYLOAD" in line)


async def test_a_task_is_told_from_its_creation_to_now(server: MockServer, clock: FrozenClock) -> None:
    key = storied_task(server)
    server.tasks = {key: server.tasks[key]}

    async with staged(server, clock, size=(120, 44)) as stage:
        await stage.press("2", "enter")

        told = stage.text()
        for words in (
            "created",
            "run 0 on web-2",
            "failed: error",
            "exception: worker-shutdown",
            "runs 21s",
            "frame 184 turned",
        ):
            assert words in told
        await stage.press("escape")
        assert "2 Tasks" in stage.text()
        assert "task" not in {fields["topic"] for fields in server.watched.values()}


async def test_an_empty_server_says_what_to_type_next(clock: FrozenClock) -> None:
    async with staged(MockServer(clock), clock) as stage:
        assert "$ treadle demo" in stage.text()
        await stage.press("3")
        assert "$ treadle worker my_module" in stage.text()
