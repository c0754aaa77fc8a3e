"""Without a server the dashboard says what was so, when, and what it does not know; and what keeps the server away."""

import asyncio
from collections.abc import Callable

import pytest

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.real_server import client, register, seen, up
from tests.tui.scene import uuid
from tests.tui.stage import Stage, staged, typed
from treadle.transport.bearer import Bearer
from treadle_server.testing import serve
from treadle_tui.core.draw.glyphs import UNICODE
from treadle_tui.core.live.feed import Lost
from treadle_tui.core.live.link import SessionLink
from treadle_tui.core.state.model import Model
from treadle_tui.screens.main import Main


async def gone_for(stage: Stage, seconds: int) -> None:
    stage.server.drop()
    await stage.settle()
    for _ in range(seconds):
        await stage.pass_time(1)


def line_of(stage: Stage, word: str) -> str:
    return next(line for line in stage.lines() if word in line)


async def test_7_no_worker_goes_late_because_the_server_is_gone(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("3")
        before = {row.name: row.health for row in stage.app.model.worker_rows().values()}
        await gone_for(stage, 40)

        assert {row.name: row.health for row in stage.app.model.worker_rows().values()} == before
        assert "?/13 workers" in stage.lines()[0]
        assert "? busy" in line_of(stage, " web-0 ")
        assert "? of 13 serving" in stage.text()
        assert "late" not in line_of(stage, " web-0 ")
        assert "running     48 / ?" in stage.text()

        server.open()
        await stage.settle()
        assert "● busy" in line_of(stage, " web-0 ") or "! late" in line_of(stage, " web-0 ")
        assert "?/13" not in stage.lines()[0]


async def test_7_before_the_server_has_told_of_queues_it_is_not_known_how_many_tasks_there_are(
    server: MockServer, clock: FrozenClock
) -> None:
    server.gate = asyncio.Event()
    async with staged(server, clock) as stage:
        assert "? queues" in stage.lines()[0]
        assert "2 Tasks  all queues  ? " in stage.text()
        server.gate.set()


@pytest.mark.parametrize(
    ("scopes", "word"),
    [
        (["queue:create-task:lab/*", "queue:claim-work:*"], "Your token can't see any queue"),
        (["queue:read:nowhere"], "No queues yet"),
        (["queue:re*"], "No queues yet"),
        (["*"], "No queues yet"),
    ],
)
async def test_7_a_token_that_reads_no_room_is_not_told_that_there_is_no_queue(scopes: list[str], word: str) -> None:
    async with serve() as served, client(served) as http:
        made = await http.post("/v1/tokens", json={"name": "mara", "scopes": scopes})
        token = made.raise_for_status().json()["token"]
        async with up(Model(), SessionLink((served.url,), Bearer(lambda: token))) as pilot:
            await seen(pilot, lambda shown: word in shown)


async def test_7_queues_and_ages_stand_still_as_they_were_known(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        running = line_of(stage, "● running")
        await gone_for(stage, 40)

        assert "? open" in line_of(stage, "modifiers:Rotate")
        assert "26/?" in line_of(stage, "modifiers:Rotate")
        assert line_of(stage, "● running") == running
        assert not [row for row in stage.app.model.alerts() if row.text.startswith("heartbeat 7")]


async def test_7_what_was_known_before_the_break_is_dimmed_until_the_server_that_is_back_tells_of_it(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        server.drop()
        await stage.settle()
        assert stage.app.screen.has_class("-stale")
        server.gate = asyncio.Event()
        server.open()
        await stage.settle()
        assert "● live" in stage.lines()[0]
        assert stage.app.screen.has_class("-stale")

        server.gate.set()
        await stage.settle()
        assert not stage.app.screen.has_class("-stale")


async def test_7_before_the_server_has_told_of_anything_nothing_is_said_to_be_well(
    server: MockServer, clock: FrozenClock
) -> None:
    for rows in (server.jobs, server.workers, server.failures, server.schedules, server.targets):
        rows.clear()
    server.gate = asyncio.Event()
    async with staged(server, clock) as stage:
        assert "not known yet" in stage.text()
        await stage.press("!")
        assert "Waiting for the server." in stage.text()

        server.gate.set()
        await stage.settle()
        assert "Nothing needs you." in stage.text()


@pytest.mark.parametrize("screen", ["3", "4", "5", "6", "7", "8"])
async def test_7_before_the_server_has_told_of_a_list_it_is_not_said_to_have_nothing_in_it(
    screen: str, server: MockServer, clock: FrozenClock
) -> None:
    server.gate = asyncio.Event()
    async with staged(server, clock) as stage:
        await stage.press(screen)
        assert f" {screen} " in (title := line_of(stage, f"─ {screen} "))
        assert title.split("─")[1].split()[2:] == ["?"]
        assert "Waiting for the server." in stage.text()

        server.gate.set()
        await stage.settle()
        assert "?" not in line_of(stage, f"─ {screen} ")


@pytest.mark.parametrize("keys", [("down",), ("slash", *"angle", "enter")], ids=["queue", "filter"])
async def test_7_how_many_tasks_another_queue_or_filter_has_is_not_known(
    server: MockServer, clock: FrozenClock, keys: tuple[str, ...]
) -> None:
    async with staged(server, clock) as stage:
        await gone_for(stage, 4)
        await stage.press(*keys)

        title = line_of(stage, "2 Tasks").split("─ 2 Tasks")[1]
        assert title.split()[1] == "?"
        assert "Waiting for the server." in stage.text()
        assert "Loading" not in stage.text()

        server.open()
        await stage.settle()
        title = line_of(stage, "2 Tasks").split("─ 2 Tasks")[1]
        assert title.split()[1] != "?"


@pytest.mark.parametrize("command", ["open 019aa5c0-0000-7000-8000-0000deadbeef", f"flow {uuid(3)}"])
async def test_7_without_a_server_neither_a_task_nor_a_flow_is_loading(
    server: MockServer, clock: FrozenClock, command: str
) -> None:
    async with staged(server, clock) as stage:
        await gone_for(stage, 4)
        await typed(stage, command)

        assert "Waiting for the server." in stage.text()
        assert "Loading" not in stage.text()


async def test_7_how_many_tasks_there_are_is_what_was_told_last_until_a_server_that_is_back_tells_more(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        main = stage.app.screen
        assert isinstance(main, Main)
        known = main._list.title(0, UNICODE)

        # As once it is there again, and the list's first rows are still to come.
        stage.app.model.tasks.expect("next")

        assert known[2].text.strip() not in {"", "?"}
        assert main._list.title(0, UNICODE) == known


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        (Lost("nobody answers"), ("no server", "No server; what you see is")),
        (
            Lost("it was revoked", refused=True, is_final=True, denied=True),
            ("token refused", "The server rejected the token"),
        ),
        (Lost("404", refused=True), ("refused", "The server refused the connection")),
    ],
)
async def test_7_what_keeps_the_server_away_is_said(
    lost: Lost, words: tuple[str, str], server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        stage.app.feed.take(lost)
        await stage.settle()

        assert f"✗ {words[0]} " in stage.lines()[0]
        assert words[1] in stage.text()
        assert lost.detail in stage.text()


async def test_7_a_token_that_is_revoked_is_said_to_be() -> None:
    async with serve() as served, client(served) as http:
        await register(http)
        made = (await http.post("/v1/tokens", json={"name": "mine", "superuser": True})).json()
        link = SessionLink((served.url,), Bearer(everywhere=lambda: made["token"]))
        async with up(Model(), link) as pilot:
            await seen(pilot, _says("● live", "1 queue"))

            (await http.delete(f"/v1/tokens/{made['id']}")).raise_for_status()
            await seen(pilot, _says("✗ token refused", "The server rejected the token"))


def _says(*words: str) -> Callable[[str], bool]:
    return lambda shown: all(word in shown for word in words)
