"""Behaviour 6: a dashboard that only looks says whether its token could do more."""

from collections.abc import Callable

import pytest

from tests.tui.happenings import schedules_tick, targets_are_held, tasks_have_failed
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import staged
from treadle_tui.core.live.feed import Lost
from treadle_tui.core.setup.app_state import AppState
from treadle_tui.core.verbs.keymap import read_keymap


@pytest.mark.parametrize(("may_write", "words"), [(True, "ro, token may write"), (False, "ro, token ro")])
async def test_6_read_only_asks_what_the_token_may_do_and_says_so_in_the_status_bar(
    may_write: bool, words: str, server: MockServer, clock: FrozenClock
) -> None:
    server.may_write = may_write

    async with staged(server, clock, read_only=True) as stage:
        assert words in stage.lines()[0]
        assert len(stage.asked("whoami")) == 1


async def test_6_each_connection_is_asked_anew_for_the_token_may_be_another_one(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock, read_only=True) as stage:
        server.drop()
        server.may_write = False
        server.open()
        await stage.settle()

        assert "ro, token ro" in stage.lines()[0]


async def test_6_a_token_that_only_reads_is_told_as_one_and_no_key_asks_the_server_for_what_it_may_not(
    server: MockServer, clock: FrozenClock
) -> None:
    server.may_write = False

    async with staged(server, clock) as stage:
        assert "  token ro  " in stage.lines()[0]
        await stage.press("2", "c")

        assert "the token is read-only" in stage.text()
        assert stage.asked("actions") == []

        server.drop()
        server.may_write = True
        server.open()
        await stage.settle()
        assert "  rw  " in stage.lines()[0]


async def test_6_a_token_that_is_refused_is_offered_no_key_that_changes_anything_until_one_is_taken(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        assert "c cancel" in stage.lines()[-1]

        stage.app.feed.take(Lost("it was revoked", refused=True, is_final=True, denied=True))
        await stage.settle()
        assert "c cancel" not in stage.lines()[-1]
        assert "token refused" in stage.lines()[0]
        assert " rw " not in stage.lines()[0]
        await stage.press("c")
        assert "no connection: it was revoked" in stage.text()

        server.drop()
        server.open()
        await stage.settle()
        assert "c cancel" in stage.lines()[-1]


@pytest.mark.parametrize(
    ("screen", "happens"),
    [("1", None), ("2", None), ("4", targets_are_held), ("5", schedules_tick), ("7", tasks_have_failed)],
)
async def test_6_a_token_that_only_reads_is_offered_no_key_that_changes_anything(
    screen: str, happens: Callable[[MockServer], None] | None, server: MockServer, clock: FrozenClock
) -> None:
    if happens is not None:
        happens(server)

    async with staged(server, clock) as stage:
        await stage.press(screen)
        assert "pause" in stage.lines()[-1] or "cancel" in stage.lines()[-1]

        server.drop()
        server.may_write = False
        server.open()
        await stage.settle()
        await stage.press("down")
        words = ("p pause", "c cancel", "r resume", "keys act", "the whole group")
        shown = "\n".join(stage.lines()[12:])
        assert [word for word in words if word in shown] == []

        await stage.press("question_mark")
        assert "Off:" in stage.text()


async def test_the_keys_that_are_named_are_the_readers_own(server: MockServer, clock: FrozenClock) -> None:
    keys = {"pause-queue": "f4", "undo": "f5", "report": "f6", "freeze": "f7", "pause": "f8"}
    async with staged(server, clock, app_state=AppState(keymap=read_keymap(keys))) as stage:
        assert "enter open  f4 pause" in stage.text()
        await stage.press("2")
        assert "f7 freeze off" in stage.text()

        await stage.press("space", "space", "f8")

        assert "f6 each   f5 undo" in stage.text()


async def test_6_a_server_that_does_not_say_leaves_it_open(server: MockServer, clock: FrozenClock) -> None:
    server.refuses["whoami"] = "validation-error"

    async with staged(server, clock, read_only=True) as stage:
        assert "  ro  " in stage.lines()[0]
        assert "2 Tasks" in stage.text()


@pytest.mark.parametrize(("height", "count"), [(24, 2), (23, 1)])
async def test_7_why_there_is_no_server_is_told_to_its_end_where_there_is_room(
    height: int, count: int, server: MockServer, clock: FrozenClock
) -> None:
    why = "https://queue.example:7420 opens no websocket: it answers 200 with a page, as a proxy does that has none"

    async with staged(server, clock, size=(80, height)) as stage:
        server.drop(why)
        await stage.settle()

        lines = stage.lines()
        first = next(number for number, line in enumerate(lines) if "Trying again." in line)
        assert (why in " ".join(" ".join(lines[first : first + 4]).split())) == (count > 1)
        assert "1 Queues" in lines[first + count]

        server.open()
        await stage.settle()
        assert "1 Queues" in stage.lines()[first]
