"""The feed asks for what screens want, once, and notices a server that falls silent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import BILLING, RDF, ROTATE
from tests.waiting import until
from treadle.errors import ConnectionFailed
from treadle.wire.filters import TaskFilter
from treadle.wire.frames import Window
from treadle_tui.core.live.feed import PATIENCE_PARTS, Feed, Opened, Pushed
from treadle_tui.core.live.subscriptions import Want
from treadle_tui.core.state.model import Dirty, Model

NOW = "2026-01-01T00:00:00+00:00"


@asynccontextmanager
async def fed(server: MockServer, **options: float) -> AsyncIterator[tuple[Model, Feed]]:
    model = Model(server.clock)
    feed = Feed(model, server, **{"ping_seconds": 86_400.0, **options})
    running = asyncio.create_task(feed.run())
    try:
        await turn()
        yield model, feed
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def turn() -> None:
    """Let every task that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_is_wanted_comes(server: MockServer) -> None:
    async with fed(server) as (model, feed):
        feed.want(Want("jobs"), Want("counts"), Want("workers"))
        await turn()

        assert set(model.queue_rows()) == {job["full_name"] for job in server.jobs.values()}
        assert model.every_queue().pending == 1204


async def test_the_same_want_is_asked_for_once(server: MockServer) -> None:
    async with fed(server) as (_, feed):
        for _ in range(3):
            feed.want(Want("jobs"))
            await turn()

    assert [request["op"] for request in server.asked] == ["watch"]


async def test_of_many_wants_in_one_turn_only_the_last_is_asked_for(server: MockServer) -> None:
    async with fed(server) as (model, feed):
        for name in (ROTATE, RDF, BILLING):
            feed.want(Want("tasks", window=Window(filter=TaskFilter(job=name))))
        await turn()

        assert [request["window"]["filter"]["job"] for request in server.asked] == [BILLING]
        assert model.tasks.ready


async def test_what_comes_for_an_older_want_is_passed_over(server: MockServer) -> None:
    async with fed(server) as (model, feed):
        feed.want(Want("tasks", window=Window(filter=TaskFilter(job=ROTATE))))
        await turn()
        old = next(iter(server.watched))
        feed.want(Want("tasks", window=Window(filter=TaskFilter(job=RDF))))
        await turn()
        rows = dict(model.tasks.rows)
        feed.take(
            Pushed({"push": "delta", "sub": old, "topic": "tasks", "seq": 99, "rows": [], "order": [], "total": 0})
        )

        assert model.tasks.rows == rows
        assert all(row.job_name == RDF for row in rows.values())


async def test_what_was_dropped_and_is_wanted_again_at_once_comes_anew(server: MockServer) -> None:
    async with fed(server) as (model, feed):
        want = Want("tasks", window=Window(filter=TaskFilter(job=ROTATE)))
        feed.want(want)
        await turn()
        feed.drop("tasks")
        feed.want(want)
        await turn()

        assert model.tasks.ready
        assert {row.job_name for row in model.tasks.rows.values()} == {ROTATE}
        assert len(server.watched) == 1


async def test_after_a_break_everything_wanted_is_asked_for_again(server: MockServer) -> None:
    async with fed(server) as (model, feed):
        feed.want(Want("jobs"), Want("workers"))
        await turn()
        server.drop("gone")
        assert model.link.state == "gone"
        server.workers.clear()
        server.open()
        await turn()

        assert model.link.live
        assert model.worker_rows() == {}


async def test_a_server_that_falls_silent_is_given_up(server: MockServer) -> None:
    async with fed(server, ping_seconds=0.01, patience=0.01) as (model, _):
        server.silent = True
        async with asyncio.timeout(20):
            await server.was_reset.wait()

        assert model.link.state == "gone"
        assert "no answer" in model.link.detail


async def test_7_a_server_that_answers_late_goes_on_with_what_it_had_begun(server: MockServer) -> None:
    async with fed(server, ping_seconds=0.01, patience=0.01) as (model, feed):
        server.gate = asyncio.Event()
        await until(lambda: model.link.state, lambda state: state == "gone", pause=0)
        feed.want(Want("workers"))
        server.gate.set()
        await until(lambda: model.workers.ready, lambda ready: ready, pause=0)

        assert model.link.live
        assert server.resets == 0


class Trickle(MockServer):
    """A server whose answer takes long: each look finds that a little more of it has come."""

    looks = 0

    @property  # type: ignore[override]
    def received(self) -> int:
        self.looks += 1
        return self.looks

    @received.setter
    def received(self, value: int) -> None:
        self.looks = value


async def test_7_a_server_is_there_while_an_answer_comes_however_long_that_takes(clock: FrozenClock) -> None:
    server = Trickle(clock)
    async with fed(server, ping_seconds=0.001, patience=0.01) as (model, _):
        server.gate = asyncio.Event()
        states = set()
        await until(
            lambda: states.add(model.link.state) or server.looks, lambda looks: looks > 5 * PATIENCE_PARTS, pause=0
        )

        assert states == {"live"}


async def test_7_that_the_dashboard_itself_stood_still_is_no_silence_of_the_server(server: MockServer) -> None:
    loop = asyncio.get_running_loop()
    time, missed = loop.time, 0.0
    loop.time = lambda: time() + missed  # type: ignore[method-assign]
    server.gate = asyncio.Event()
    async with fed(server, ping_seconds=0.001, patience=60.0) as (model, _):
        await until(lambda: server.asked, lambda asked: asked, pause=0)
        missed = 100.0
        await turn()
        state = model.link.state
        server.gate.set()
        await turn()

        assert (state, model.link.state, server.resets) == ("live", "live", 0)


async def test_7_a_server_that_refuses_a_ping_is_there_and_is_asked_again(server: MockServer) -> None:
    server.refuses["ping"] = "store-unavailable"
    async with fed(server, ping_seconds=0.001) as (model, feed):
        await until(lambda: [one["op"] for one in server.asked].count("ping"), lambda pings: pings > 2, pause=0)

        feed.want(Want("workers"))
        await turn()
        assert model.link.live
        assert [watch["topic"] for watch in server.watched.values()] == ["workers"]


@pytest.mark.parametrize(("problem", "comes"), [("store-unavailable", True), ("forbidden", False)])
async def test_7_what_the_server_could_not_show_just_then_is_asked_for_again(
    server: MockServer, problem: str, comes: bool
) -> None:
    server.refuses["watch"] = problem
    async with fed(server, ping_seconds=0.001) as (model, feed):
        feed.want(Want("workers"))
        await turn()
        assert model.workers.refusal is not None

        del server.refuses["watch"]
        pings = [one["op"] for one in server.asked].count("ping")
        await until(lambda: [one["op"] for one in server.asked].count("ping"), lambda now: now > pings + 2, pause=0)
        await turn()

        assert model.workers.ready is comes
        assert (model.workers.refusal is None) is comes


async def test_what_cannot_be_read_is_said_and_the_connection_made_anew(server: MockServer) -> None:
    async with fed(server) as (model, feed):
        feed.want(Want("workers"))
        await turn()
        sub = next(iter(server.watched))
        server.send(sub, rows=[{"id": "x", "last_heartbeat": "yesterday"}])

        assert model.link.state == "refused"
        assert model.link.detail.startswith(
            "the server sent something that this version can't read: last_heartbeat: write the time as "
        )
        assert server.resets == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"total": float("inf"), "rows": []},
        {"rows": ["x"]},
        {"rows": [None]},
        {"rows": 5},
        {"rows": [], "frame": []},
        {"rows": [], "frame": float("nan")},
        {"rows": [], "behind": float("-inf")},
        {"rows": [], "behind": 1e300},
        {"rows": [], "total": 10**400},
        {"rows": [], "total": -1},
        {"rows": [], "ahead": 10**400},
    ],
)
async def test_whatever_cannot_be_read_is_said(server: MockServer, odd: dict[str, Any]) -> None:
    async with fed(server) as (model, feed):
        feed.want(Want("workers"))
        await turn()
        sub = next(iter(server.watched))
        feed.take(Pushed({"push": "delta", "sub": sub, "topic": "workers", "seq": 10**9, **odd}))

        assert "can't read" in model.link.detail
        assert server.resets == 1


@pytest.mark.parametrize("counts", [{"pending": "many"}, {"pending": None}, {"pending": 10**400}, ["pending"], None])
async def test_counts_that_are_none_are_said(server: MockServer, counts: Any) -> None:
    async with fed(server) as (model, feed):
        feed.want(Want("counts"))
        await turn()
        sub = next(iter(server.watched))
        server.send(sub, rows=[{"job": ROTATE, "counts": counts}])

        assert "can't read" in model.link.detail
        assert server.resets == 1


@pytest.mark.parametrize("time", [5, "x", "2026-01-01", None, "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00"])
async def test_a_greeting_that_cannot_be_read_is_said(server: MockServer, time: Any) -> None:
    async with fed(server) as (model, feed):
        feed.take(Opened({} if time is None else {"time": time}))

        assert model.link.state == "refused"
        assert "can't read" in model.link.detail
        assert server.resets == 1


@pytest.mark.parametrize(
    ("op", "answer"),
    [
        ("ping", {}),
        ("ping", {"time": "x"}),
        ("ping", {"time": "2026-01-01"}),
        ("ping", {"time": NOW, "behind": 5}),
        ("ping", {"time": NOW, "behind": {"workers.1": float("-inf")}}),
        ("ping", {"time": "0001-01-01T00:00:00+14:00"}),
        ("whoami", {"scopes": 5}),
    ],
)
async def test_an_answer_that_cannot_be_read_ends_no_dashboard(
    server: MockServer, monkeypatch: pytest.MonkeyPatch, op: str, answer: dict[str, Any]
) -> None:
    monkeypatch.setattr(server, f"_on_{op}", lambda _: answer)
    async with fed(server, ping_seconds=0.001) as (model, feed):
        feed.asks_access = op == "whoami"
        feed.want(Want("workers"))
        async with asyncio.timeout(20):
            await server.was_reset.wait()

        assert "can't read" in model.link.detail
        monkeypatch.undo()
        server.open()
        await turn()
        assert model.workers.ready


async def test_without_a_connection_nothing_is_asked(server: MockServer) -> None:
    async with fed(server) as (_, feed):
        server.drop("the server went away")

        with pytest.raises(ConnectionFailed, match="the server went away"):
            await feed.request("actions", action="cancel", ids=[])


async def test_only_what_changed_is_dirty(server: MockServer) -> None:
    async with fed(server) as (model, feed):
        feed.want(Want("jobs"), Want("workers"))
        await turn()
        model.take_dirty()
        server.push_topic("workers")

        assert model.take_dirty() == Dirty.WORKERS | Dirty.QUEUES
        assert model.take_dirty() == Dirty.NONE


async def test_ages_are_told_by_the_servers_clock(clock: FrozenClock, server: MockServer) -> None:
    async with fed(server) as (model, feed):
        feed.want(Want("workers"))
        await turn()
        quiet = {row.name: row.quiet for row in model.worker_rows().values()}
        skewed = FrozenClock()
        skewed.instant += timedelta(hours=1)
        ahead = Model(skewed)
        ahead.time.correct(clock.now())
        ahead.workers = model.workers

        assert {row.name: row.quiet for row in ahead.worker_rows().values()} == quiet
