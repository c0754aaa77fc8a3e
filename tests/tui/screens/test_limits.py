"""The limits' pane: what is used of each, who waits, and its keys."""

from collections.abc import AsyncIterator

import pytest

from tests.tui.happenings import limit, limits_are_full
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import Stage, staged, typed


@pytest.fixture
async def stage(server: MockServer, clock: FrozenClock) -> AsyncIterator[Stage]:
    limits_are_full(server)
    async with staged(server, clock) as stage:
        await stage.press("8")
        yield stage


def names(stage: Stage) -> list[str]:
    return [line.split("│")[1].replace(">", " ").split()[0] for line in stage.lines() if "/" in line and "│" in line]


async def test_what_is_waited_for_stands_first_with_its_keys_beneath(stage: Stage) -> None:
    assert [name for name in names(stage) if "/" in name] == [
        "@global/openai", "lab/mail", "@global/licences", "lab/gpu", "lab/quiet",
    ]  # fmt: skip
    assert "5, 3 full, 1,327 tasks waiting" in stage.text()
    acme = stage.line_of("acme")
    assert "● full" in acme
    assert "━━━━━━ 5/5" in acme
    assert "62/100" in acme
    assert "1,204" in acme
    assert "○ open" in stage.line_of("søn")
    assert "(no key)" in stage.text()
    assert "240 (5 each)" in stage.line_of("@global/openai")
    assert "at once + rate" in stage.line_of("@global/openai")


async def test_a_limit_that_allows_nothing_is_full(server: MockServer, clock: FrozenClock) -> None:
    rows = [limit(1, "shut", {"key": None}, concurrency=0)]
    server.limits = {row["id"]: row for row in rows}

    async with staged(server, clock) as stage:
        await stage.press("8")

        assert "● full  ━━━━━━ 0/0" in stage.line_of("@global/shut")


async def test_a_count_that_was_capped_says_so(stage: Stage) -> None:
    capped = {"key": None, "used": 8, "waiting": 20_000, "waiting_is_capped": True}
    stage.server.limits["3"] = limit(
        3, "gpu", capped, room_id="lab", concurrency=8, waiting=20_000, waiting_is_capped=True
    )
    stage.server.push_topic("limits")
    await stage.settle()

    assert "20.0k+" in stage.line_of("lab/gpu") or "20k+" in stage.line_of("lab/gpu")
    assert "+ tasks waiting" in stage.text()


async def test_tokens_fill_while_nobody_is_asked(stage: Stage) -> None:
    asked = len(stage.server.asked)
    assert "● full" in stage.line_of("lab/mail")
    assert " 0/10" in stage.line_of("lab/mail")

    await stage.pass_time(1)

    assert "○ open" in stage.line_of("lab/mail")
    assert " 2/10" in stage.line_of("lab/mail")
    assert [one for one in stage.server.asked[asked:] if one["op"] != "ping"] == []


async def test_a_change_is_pushed_and_nobody_is_told_who_does_not_look(stage: Stage) -> None:
    stage.server.limits["3"] = limit(3, "gpu", {"key": None, "used": 8, "waiting": 1}, room_id="lab", concurrency=8)
    stage.server.push_topic("limits")
    await stage.settle()
    assert "8/8" in stage.line_of("lab/gpu")

    await stage.press("1")
    assert "limits" not in {fields["topic"] for fields in stage.server.watched.values()}
    await typed(stage, "limits")
    assert "8/8" in stage.line_of("lab/gpu")


async def test_enter_folds_the_keys_of_a_limit_and_shows_them_again(stage: Stage) -> None:
    await stage.press("down", "enter")
    assert "acme" not in stage.text()
    assert "openai" in stage.highlighted()

    await stage.press("enter")
    assert "acme" in stage.text()
    await stage.press("G", "enter")
    assert "acme" in stage.text()


async def test_a_limit_or_its_key_is_copied(stage: Stage) -> None:
    await stage.press("y")
    assert stage.app.clipboard == "openai"
    await stage.press("down", "y")
    assert stage.app.clipboard == "acme"


async def test_the_filter_knows_rooms_names_and_keys(stage: Stage) -> None:
    await stage.press("slash", *"room:lab", "enter")
    assert "3 of 5, 1 full" in stage.text()
    await stage.press("escape", "slash", *"umbrella", "enter")
    assert "openai" in stage.text()
    assert "gpu" not in stage.text()
    await stage.press("escape", "slash", *"status:failed", "enter")
    assert "No limit matches status:failed" in stage.text()


async def test_without_a_server_the_state_is_not_known(stage: Stage) -> None:
    stage.server.drop()
    stage.clock.advance(3)
    await stage.settle()

    assert "? full" in stage.line_of("acme")
    assert "● full" not in stage.text()


async def test_no_limit_says_what_to_type_next_and_an_old_server_that_it_has_none(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("8")
        assert "treadle limits set openai" in stage.text()
        await stage.press("1")
        server.refuses["watch"] = "validation-error"
        await stage.press("8")
        assert "The server does not show the limits" in stage.text()


async def test_on_a_terminal_of_ascii_every_column_is_ascii(server: MockServer, clock: FrozenClock) -> None:
    limits_are_full(server)
    for row in server.limits.values():
        row.update(name="søn", room_id="søn", on_full="søn")
    async with staged(server, clock, ascii_only=True) as stage:
        await stage.press("8")

        assert "240 (5 each)" in stage.text()
        assert stage.text().isascii()
