"""What a server may have missed of the others is read anew, and its observers are told (G7, G11)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
import sqlalchemy as sa

from tests.engine.conftest import Shop
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch
from treadle_server.services.relay.codec import Notice, read
from treadle_server.services.relay.relay import ABSENT, MOST_HEARD, Peers, Relay
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import servers

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


class Post:
    """A server's relay, turned by hand, and what it has told on its hub."""

    def __init__(self, engine: Engine, url: str) -> None:
        self.engine = engine
        self.relay = Relay(engine, url)
        [self.peers] = [service for service in self.relay.services if isinstance(service, Peers)]
        self._told: list[Batch] = []
        engine.hub.listen(self._told.append)

    async def reads_anew(self) -> bool:
        """Take what was heard; return whether everything was read anew since it was last asked."""
        await self.relay.inbox.turn()
        told, self._told[:] = list(self._told), []
        return any(batch.has_gap for batch in told)

    async def meet(self, server: str, said: int = 0) -> None:
        """Find another server."""
        now = sa.func.now()
        row = {"id": server, "started_at": now, "seen_at": now, "said": said, "wants_each": False}
        async with self.engine.store.write() as tx:
            await tx.connection.execute(sa.insert(servers).values(row))
        await self.peers.turn()
        assert self.relay.sender.peers_listen

    async def servers(self) -> dict[str, int]:
        """Return who is shown, and how many notices each has sent."""
        async with self.engine.store.read() as connection:
            rows = await connection.execute(sa.select(servers.c.id, servers.c.said))
            return {str(row.id): row.said for row in rows}

    async def is_taken_for_gone(self, server: str) -> None:
        """Have a server be one that was not seen for long."""
        async with self.engine.store.write() as tx:
            await tx.connection.execute(sa.delete(servers).where(servers.c.id == server))
        await self.peers.turn()
        assert await self.reads_anew()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Post]:
    store = SqlStore(url)
    await store.open()
    async with Engine(store).running() as engine:
        post = Post(engine, url)
        yield post
        await post.relay.close()
    await store.close()


@pytest.fixture
async def post(postgres_database: str) -> AsyncIterator[Post]:
    async with opened(postgres_database) as post:
        yield post


@pytest.fixture
async def other(post: Post, postgres_database: str) -> AsyncIterator[Post]:
    """Another server, which `post` has seen."""
    async with opened(postgres_database) as other:
        await other.peers.turn()
        await post.peers.turn()
        await post.reads_anew()
        yield other


async def test_after_its_line_broke_a_server_reads_everything_anew_g11(post: Post) -> None:
    await post.meet(str(uuid4()))
    await post.relay.turn()
    await post.reads_anew()
    await post.relay.turn()
    assert not await post.reads_anew()

    (await post.relay._connection.open()).terminate()
    await post.relay.turn()

    assert await post.reads_anew()


async def test_what_a_server_that_is_gone_did_last_is_read_anew_g11(post: Post) -> None:
    other = str(uuid4())
    await post.meet(other)
    assert not await post.reads_anew()

    async with post.engine.store.write() as tx:
        await tx.connection.execute(sa.delete(servers).where(servers.c.id == other))
    await post.peers.turn()

    assert await post.reads_anew()
    assert not post.relay.sender.peers_listen


async def test_what_a_server_did_last_that_was_only_heard_between_two_looks_is_read_anew_g7_g11(post: Post) -> None:
    """It stood still for so long that it was taken for gone, told one thing when it went on, and was stopped."""
    post.relay.inbox.add(Notice(str(uuid4()), 1))
    assert not await post.reads_anew()

    await post.peers.turn()
    assert await post.reads_anew()
    await post.peers.turn()

    assert not await post.reads_anew(), "once is enough"


@pytest.mark.parametrize("is_heard", [False, True], ids=["without-a-line", "with-a-line"])
async def test_what_a_server_committed_after_it_stood_still_and_before_it_was_stopped_is_read_anew_g7_g11(
    post: Post, other: Post, is_heard: bool
) -> None:
    """Nobody heard of it: it was taken for gone, and was stopped before it told what it had committed."""
    if is_heard:
        await other.relay.turn()
    await post.is_taken_for_gone(other.engine.hub.stream)
    assert other.peers._looked_at is not None
    other.peers._looked_at -= ABSENT + 1

    await Shop(other.engine).register()
    await other.relay.close()
    await post.peers.turn()

    assert await post.reads_anew()


async def test_a_server_shows_itself_with_a_commit_only_where_it_may_not_be_known_g11(post: Post, other: Post) -> None:
    await post.is_taken_for_gone(other.engine.hub.stream)

    await Shop(other.engine).register()

    assert await post.servers() == {post.engine.hub.stream: 0}


async def test_a_commit_with_which_a_server_shows_itself_waits_for_the_disk_g1(post: Post) -> None:
    assert post.peers.may_be_missed
    async with post.engine.store.write() as tx:
        assert post.engine.show_presence is not None
        await post.engine.show_presence(tx, post.engine.clock.now())
        [waits] = (await tx.connection.exec_driver_sql("SHOW synchronous_commit")).one()

    assert waits == "on"
    assert await post.servers() == {post.engine.hub.stream: 1}


async def test_a_server_that_stood_still_reads_everything_anew_g11(post: Post) -> None:
    """The others may have taken it for gone meanwhile, and told it nothing."""
    await post.meet(str(uuid4()))
    await post.peers.turn()
    assert not await post.reads_anew()

    assert post.peers._looked_at is not None
    post.peers._looked_at -= ABSENT + 1
    await post.peers.turn()

    assert await post.reads_anew()


async def test_what_was_committed_while_there_seemed_to_be_no_others_is_told_to_them_g7_g11(post: Post) -> None:
    """The database's clock was set forward: until they write again no other server seems to be there."""
    await Shop(post.engine).register()
    assert not post.relay.sender.has_news

    await post.meet(str(uuid4()))

    [told] = post.relay.sender.take()
    assert read(told).has_gap
    await post.peers.turn()
    assert not post.relay.sender.has_news


async def test_what_a_server_sent_before_it_was_first_seen_makes_everything_be_read_anew_g7_g11(post: Post) -> None:
    """This server may have listened to nobody then: it took itself for the only one, and its line was broken."""
    await post.meet(str(uuid4()), said=3)

    assert await post.reads_anew()
    await post.peers.turn()
    assert not await post.reads_anew()


async def test_a_first_notice_with_others_before_it_makes_everything_be_read_anew_g7_g11(post: Post) -> None:
    post.relay.inbox.add(Notice(str(uuid4()), 2))

    assert await post.reads_anew()


async def test_more_notices_than_are_kept_make_everything_be_read_anew_g11(post: Post) -> None:
    other = str(uuid4())
    for number in range(1, MOST_HEARD + 1):
        post.relay.inbox.add(Notice(other, number))
    assert not await post.reads_anew()

    for number in range(MOST_HEARD + 1, 2 * MOST_HEARD + 2):
        post.relay.inbox.add(Notice(other, number))
        await asyncio.sleep(0)

    assert await post.reads_anew()


async def test_a_gap_in_the_numbers_of_notices_makes_everything_be_read_anew_g11(post: Post) -> None:
    other = str(uuid4())
    for number in (1, 2, 2):
        post.relay.inbox.add(Notice(other, number))
    assert not await post.reads_anew()

    post.relay.inbox.add(Notice(other, 4))

    assert await post.reads_anew()


async def test_notices_that_another_server_sent_and_that_did_not_come_are_missed_g11(post: Post) -> None:
    other = str(uuid4())
    await post.meet(other)
    async with post.engine.store.write() as tx:
        await tx.connection.execute(sa.update(servers).where(servers.c.id == other).values(said=3))
    await post.peers.turn()
    assert not await post.reads_anew()  # they may be on their way

    await post.peers.turn()

    assert await post.reads_anew()
    await post.peers.turn()
    assert not await post.reads_anew()
