"""Behaviour 6: a dashboard that only looks says whether its token could do more."""

import pytest

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import staged


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

        assert "the token may change nothing" in stage.text()
        assert stage.asked("actions") == []

        server.drop()
        server.may_write = True
        server.open()
        await stage.settle()
        assert "  rw  " in stage.lines()[0]


async def test_6_a_server_that_does_not_say_leaves_it_open(server: MockServer, clock: FrozenClock) -> None:
    server.refuses["whoami"] = "validation-error"

    async with staged(server, clock, read_only=True) as stage:
        assert "  ro  " in stage.lines()[0]
        assert "2 Tasks" in stage.text()
