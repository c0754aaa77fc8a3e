"""Contexts: from one server to another without a restart, and nobody overlooks which one is production."""

import pytest
from textual import events

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import scene
from tests.tui.stage import Stage, staged, typed
from treadle_tui.core.setup.config import ConfigError
from treadle_tui.core.setup.connection import Connection


def put_into_contexts(stage: Stage, **connections: Connection | str) -> None:
    """Let the dashboard know these contexts; a text is why one can't be connected to."""

    def connect(name: str) -> Connection:
        found = connections[name]
        if isinstance(found, str):
            raise ConfigError(found)
        return found

    stage.app._connect = connect
    stage.app.app_state.contexts = tuple(connections)


@pytest.fixture
def other(clock: FrozenClock) -> MockServer:
    server = scene(clock)
    server.jobs = {key: row for key, row in server.jobs.items() if row["name"] == "RDF"}
    return server


async def test_another_context_is_another_server_without_a_restart(
    server: MockServer, other: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        put_into_contexts(
            stage, prod=Connection(link=other, server_name="prod", context="prod", clock=clock, production=True)
        )
        await stage.press("3")
        await typed(stage, "context prod")
        await stage.until(lambda: "room_42:analysis:RDF" in stage.text())

        assert "Rotate" not in stage.text()
        assert {fields["topic"] for fields in other.watched.values()} >= {"jobs", "counts", "workers", "tasks"}
        assert stage.app.model.link.live
        assert len(stage.app.screen_stack) == 2


async def test_nothing_that_was_done_in_one_context_can_be_undone_in_another(
    server: MockServer, other: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        put_into_contexts(stage, lab=Connection(link=other, server_name="lab", context="lab", clock=clock))
        await stage.press("p")
        await typed(stage, "context lab")
        await stage.until(lambda: "room_42:analysis:RDF" in stage.text())
        await stage.press("u")

        assert "nothing to undo" in stage.text()
        assert [request for request in other.asked if request["op"] in {"job", "actions"}] == []


async def test_production_is_told_by_a_coloured_line_and_in_words_on_every_screen(
    server: MockServer, clock: FrozenClock
) -> None:
    connection = Connection(link=server, server_name="prod", production=True, clock=clock)

    async with staged(server, clock, connection=connection) as stage:
        for keys in ((), ("3",), ("2", "enter")):
            await stage.press(*keys)
            first = stage.app.screen._compositor.render_strips()[0]
            assert "PRODUCTION  prod" in first.text
            ground = {segment.style.bgcolor.name for segment in first if segment.style and segment.style.bgcolor}
            assert ground == {stage.app.current_theme.variables["production"]}


async def test_production_is_told_in_the_smallest_form_too(server: MockServer, clock: FrozenClock) -> None:
    connection = Connection(link=server, server_name="prod", production=True, clock=clock)

    async with staged(server, clock, size=(50, 10), connection=connection) as stage:
        assert stage.lines()[0].startswith("PROD ")


async def test_a_usual_server_has_no_such_line(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        assert "PRODUCTION" not in stage.text()
        assert "treadle" in stage.lines()[0]


async def test_leaving_production_takes_its_line_away(
    server: MockServer, other: MockServer, clock: FrozenClock
) -> None:
    connection = Connection(link=server, server_name="prod", context="prod", production=True, clock=clock)

    async with staged(server, clock, connection=connection) as stage:
        put_into_contexts(
            stage, prod=connection, lab=Connection(link=other, server_name="lab", context="lab", clock=clock)
        )
        await typed(stage, "context")
        assert "contexts: prod (here), lab" in stage.text()
        await typed(stage, "context lab")

        assert "PRODUCTION" not in stage.text()


async def test_a_context_that_cannot_be_reached_for_what_the_file_says_leaves_one_where_one_is(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        put_into_contexts(stage, prod="the token of the context prod: Permission denied")
        await typed(stage, "context prod")

        assert "Permission denied" in stage.text()
        assert "Rotate" in stage.text()
        assert stage.app.model.link.live


async def test_the_old_server_is_asked_nothing_more(server: MockServer, other: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        put_into_contexts(stage, lab=Connection(link=other, server_name="lab", context="lab", clock=clock))
        await typed(stage, "context lab")
        server.asked.clear()
        await stage.press("2", "down", "3", "1")

        assert server.asked == []


async def test_another_context_shows_what_the_same_filter_means_there_in_the_same_order(
    server: MockServer, other: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock, wanted="status:failed") as stage:
        put_into_contexts(stage, lab=Connection(link=other, server_name="lab", context="lab", clock=clock))
        await stage.press("2", "s")
        await typed(stage, "context lab")
        await stage.until(lambda: any(fields["topic"] == "tasks" for fields in other.watched.values()))

        (window,) = [fields["window"] for fields in other.watched.values() if fields["topic"] == "tasks"]
        assert window["filter"]["status"] == ["failed"]
        assert window["order"] == "newest"
        assert "status:failed" in stage.text()


async def test_a_terminal_that_has_not_taken_the_last_drawing_is_sent_no_other(
    server: MockServer, clock: FrozenClock
) -> None:
    """Thirty drawings were on their way to a slow one: a key's came seconds behind them, and so did the end."""
    async with staged(server, clock) as stage:
        driver = stage.app._driver
        shown = stage.text()
        for is_behind in (True, False):
            driver.is_behind = is_behind  # type: ignore[union-attr]
            server.jobs[next(iter(server.jobs))]["counts"]["pending"] = 98_765
            server.push_topic("counts")
            stage.app.flush()
            await stage.pass_time(1)

            assert ("98,765" in stage.text()) != is_behind
            assert (stage.text() == shown) == is_behind


@pytest.mark.parametrize("keys", [[], ["2", "enter"]])
async def test_what_the_mouse_is_dragged_over_is_not_copied_as_the_names_of_widgets(
    server: MockServer, clock: FrozenClock, keys: list[str]
) -> None:
    """It left `Reader#sheet-logs` on the clipboard, or nothing in place of what had been there."""
    async with staged(server, clock) as stage:
        await stage.press(*keys)
        stage.app.copy_to_clipboard("mine")
        for kind, x in ((events.MouseDown, 5), *((events.MouseMove, x) for x in range(6, 40)), (events.MouseUp, 40)):
            stage.app.post_message(kind(None, x, 12 + x // 6, 0, 0, 1, False, False, False, x, 12 + x // 6))
        await stage.settle()

        await stage.press("ctrl+c")

        assert stage.app.clipboard == "mine"
