"""Sweeper, promoter and scheduler run on one of several servers, and go on at another when that one dies (G11)."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.chaos.processes import ServerProcess, running_server
from tests.conftest import FakeClock
from tests.servers.conftest import Site, open_site, until
from treadle_server.errors import StoreUnavailable, ValidationFailed
from treadle_server.services.base import WELL, Health, Service, supervise
from treadle_server.services.leader import LOCK, Leader
from treadle_server.store.postgres.dedicated import POOLED, DedicatedConnection, answers

pytestmark = pytest.mark.anyio

LED = ("sweeper", "promoter", "folder")

TAKEN_OVER = 10
"""Seconds within which another server leads."""


def leads(site: Site) -> bool:
    """Whether the site's server leads, and its sweeper is at work."""
    return site.served.app.state.ctx.services.health["sweeper"].state == "ok"


def states(site: Site) -> list[str]:
    """How the services do that only a leader runs."""
    health = site.served.app.state.ctx.services.health
    return [health[name].state for name in LED]


def is_ready(site: Site) -> bool:
    """Whether every service has had its first good turn, or waits to lead."""
    return all(health.state in WELL for health in site.served.app.state.ctx.services.health.values())


HELD = """
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND objid = $1 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def holders(url: str) -> list[int]:
    """The processes of the database that hold the leader's lock."""
    connection = await asyncpg.connect(url)
    try:
        return [row["pid"] for row in await connection.fetch(HELD, LOCK)]
    finally:
        await connection.close()


@pytest.mark.postgres
async def test_one_of_two_servers_leads_and_the_other_is_ready_too_g11(sites: tuple[Site, Site]) -> None:
    await until(lambda: sorted(map(states, sites)) == [["ok"] * 3, ["standby"] * 3])
    for site in sites:
        await until(partial(is_ready, site))
        ready = await site.ask("GET", "/readyz")
        assert [ready["services"][name] for name in LED] == states(site)
        assert ready["services"]["poller"] == "ok"
    assert len(await holders(sites[0].served.settings.database_url)) == 1


@pytest.mark.postgres
async def test_a_leader_that_stops_lets_the_other_lead_at_once_g11(
    postgres_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks every second, and is given the lock when it first asks after the leader's session has ended."""
    got, pauses = list[bool](), list[float]()
    async with AsyncExitStack() as outer:
        async with AsyncExitStack() as inner:
            first = await open_site(inner, postgres_database, tmp_path / "a")
            await until(lambda: leads(first))
            second = await open_site(outer, postgres_database, tmp_path / "b")
            leader = second.served.app.state.ctx.services.leader
            ask, held_by = leader.turn, await holders(postgres_database)
            assert not leads(second)

            async def watched() -> float:
                is_free = not set(held_by) & set(await holders(postgres_database))
                pauses.append(await ask())
                if is_free:
                    got.append(leader.is_leading)
                return pauses[-1]

            monkeypatch.setattr(leader, "turn", watched)
        await until(lambda: leads(second))
        await until(lambda: pauses)

    assert all(got)
    assert max(pauses) <= 1


@pytest.mark.postgres
async def test_a_leader_whose_connection_is_cut_leads_no_more_until_it_has_the_lock_again_g11(
    sites: tuple[Site, Site],
) -> None:
    await until(lambda: sum(map(leads, sites)) == 1)
    url = sites[0].served.settings.database_url
    [process] = await holders(url)
    terms = [site.served.app.state.ctx.services.leader.term for site in sites]
    connection = await asyncpg.connect(url)
    await connection.execute("SELECT pg_terminate_backend($1)", process)
    await connection.close()

    await until(
        lambda: (
            sum(site.served.app.state.ctx.services.leader.term for site in sites) == sum(terms) + 1
            and sum(site.served.app.state.ctx.services.leader.is_leading for site in sites) == 1
        )
    )

    assert len(await holders(url)) == 1


class Counting(Service):
    """A service that counts its turns and take-overs."""

    name = "counting"

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.turned = asyncio.Event()

    def take_over(self) -> None:
        self.told.append("take over")

    async def turn(self) -> float:
        self.told.append("turn")
        self.turned.set()
        return 0.0

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Term:
    """A leader by hand."""

    def __init__(self) -> None:
        self.term = 0
        self.leads = asyncio.Event()

    @property
    def is_leading(self) -> bool:
        return self.leads.is_set()

    async def until_leading(self) -> None:
        await self.leads.wait()

    def elect(self) -> None:
        self.term += 1
        self.leads.set()


async def test_a_service_takes_over_once_a_term_and_rests_between_them_g11(clock: FakeClock) -> None:
    service, health, term = Counting(), Health("counting"), Term()
    running = asyncio.ensure_future(supervise(service, health, clock, term))
    await until(lambda: health.is_standby)
    assert (health.state, service.told) == ("standby", [])

    for _ in range(2):
        term.elect()
        service.turned.clear()
        await service.turned.wait()
        term.leads.clear()
        await until(lambda: health.is_standby)
    running.cancel()

    assert service.told[0] == "take over"
    assert service.told.count("take over") == 2
    assert set(service.told) == {"take over", "turn"}


async def test_a_service_that_runs_everywhere_asks_nobody_who_leads_g11(clock: FakeClock) -> None:
    service, health = Counting(), Health("counting")
    service.everywhere = True
    running = asyncio.ensure_future(supervise(service, health, clock, Term()))

    await asyncio.wait_for(service.turned.wait(), 10)
    running.cancel()

    assert "take over" not in service.told


async def test_a_leader_without_its_database_says_so_and_leads_not() -> None:
    leader = Leader("postgresql://127.0.0.1:1/x")

    with pytest.raises(StoreUnavailable, match="does not answer"):
        await leader.turn()

    assert not leader.is_leading


async def test_a_pool_before_the_database_is_named_with_what_to_set() -> None:
    """What pgbouncer says to a session's parameters, and a process that is another one than it said."""
    with pytest.raises(ValidationFailed, match="TREADLE_DATABASE_DIRECT_URL"):
        async with answers():
            raise asyncpg.ProtocolViolationError("unsupported startup parameter: tcp_keepalives_idle")
    assert "TREADLE_DATABASE_DIRECT_URL" in POOLED


async def _time_out(dedicated: DedicatedConnection, connection: Any) -> None:
    with pytest.raises(StoreUnavailable):
        async with dedicated.lent():
            raise TimeoutError


async def _terminate(dedicated: DedicatedConnection, connection: Any) -> None:
    connection.terminate()


async def _abort(dedicated: DedicatedConnection, connection: Any) -> None:
    """As the driver does by itself, without a word, when it can't make sense of its own state."""
    connection._protocol.abort()


async def _end_its_session(dedicated: DedicatedConnection, connection: Any) -> None:
    with pytest.raises(StoreUnavailable):
        async with dedicated.lent():
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")


@pytest.mark.postgres
@pytest.mark.parametrize("breaks", [_time_out, _terminate, _abort, _end_its_session])
async def test_a_line_that_broke_is_told_of_once_and_opened_again_whoever_closed_it_n3(
    postgres_database: str, breaks: Callable[[DedicatedConnection, Any], Awaitable[None]]
) -> None:
    broken: list[bool] = []
    dedicated = DedicatedConnection(postgres_database, lambda: broken.append(True))
    first = await dedicated.open()
    assert await dedicated.open() is first

    await breaks(dedicated, first)
    assert not dedicated.is_open
    second = await dedicated.open()

    assert second is not first
    assert await second.fetchval("SELECT 1") == 1
    await asyncio.sleep(0)  # the driver calls who listens to it in the loop's next turn
    assert broken == [True]
    await dedicated.close()
    assert broken == [True]


@pytest.mark.postgres
async def test_a_leader_whose_connection_is_closed_without_a_word_leads_again_by_its_next_turn_n3(
    postgres_database: str,
) -> None:
    leader = Leader(postgres_database)
    await leader.turn()
    assert (leader.is_leading, leader.term) == (True, 1)

    connection = await leader._connection.open()
    connection._protocol.abort()
    async with asyncio.timeout(20):
        while leader.term < 2:  # the database takes a moment to end the old session, and with it the lock
            await leader.turn()

    assert leader.is_leading
    await leader.close()


@pytest.mark.postgres
async def test_a_line_that_is_opened_twice_at_once_is_one(postgres_database: str) -> None:
    dedicated = DedicatedConnection(postgres_database, lambda: None)
    first, second = await asyncio.gather(dedicated.open(), dedicated.open())
    assert first is second
    await dedicated.close()


@pytest.mark.postgres
async def test_a_line_whose_opening_is_cancelled_leaves_no_connection(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[Any] = []
    asked = asyncio.Event()

    async def unanswered(connection: Any, statement: str) -> None:
        connections.append(connection)
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncpg.Connection, "fetchval", unanswered)
    opening = asyncio.ensure_future(DedicatedConnection(postgres_database, lambda: None).open())
    await asked.wait()
    opening.cancel()
    await asyncio.wait([opening])

    assert opening.cancelled()
    assert [connection.is_closed() for connection in connections] == [True]


def _leads_by_http(server: ServerProcess) -> bool:
    services = httpx.get(f"{server.url}/healthz", timeout=10).json()["services"]
    return bool(services["sweeper"] == "ok")


@pytest.mark.postgres
@pytest.mark.parametrize("is_killed", [True, pytest.param(False, marks=pytest.mark.crossed)], ids=["kill -9", "stop"])
async def test_another_server_leads_within_ten_seconds_of_the_leaders_kill_9_g11(
    tmp_path: Path, postgres_database: str, *, is_killed: bool
) -> None:
    """One that was stopped, as a container that is paused, held the lock for as long as it stood still."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with (
        running_server(tmp_path / "a", postgres_database) as one,
        running_server(tmp_path / "b", postgres_database) as two,
    ):
        servers = [one, two]
        await until(lambda: sum(map(_leads_by_http, servers)) == 1)
        [leader] = [server for server in servers if _leads_by_http(server)]
        [other] = [server for server in servers if server is not leader]

        leader.kill() if is_killed else leader.signal(signal.SIGSTOP)
        killed = time.monotonic()
        try:
            await until(lambda: _leads_by_http(other))
        finally:
            if not is_killed:
                leader.signal(signal.SIGCONT)

        # Of one that is stopped it takes eight; a busy machine may itself stand still for more than two.
        assert time.monotonic() - killed < (TAKEN_OVER if is_killed else 2 * TAKEN_OVER)
        await until(lambda: is_killed or not _leads_by_http(leader))
