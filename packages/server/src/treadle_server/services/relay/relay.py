"""The relay between the servers of one PostgreSQL: NOTIFY carries what was committed, and a table shows what got lost.

Each server numbers its notices, and writes into the table `servers` how many it has sent. Whoever hears fewer reads
everything anew: so that no wake-up, result or event depends on a notice.
"""

import asyncio
import logging
from datetime import datetime, timedelta

from treadle.wire.ids import WorkerId
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch
from treadle_server.engine.version_order import VersionOrder
from treadle_server.errors import StoreUnavailable
from treadle_server.services.absences import Absences
from treadle_server.services.base import EngineService, Service
from treadle_server.services.relay import codec
from treadle_server.services.relay.codec import Notice
from treadle_server.services.relay.receiver import NoticeReceiver
from treadle_server.services.relay.sender import NoticeSender
from treadle_server.store.base import Tx
from treadle_server.store.postgres.dedicated import Connect, DedicatedConnection
from treadle_server.store.transaction import peers as stored

log = logging.getLogger(__name__)

CHANNEL = "treadle"

PAUSE = 0.02
"""Seconds between two notices: fifty a second at most."""

IDLE = 2.0
"""Seconds after which the connection is asked whether it lives, when there is nothing to tell."""

LOOK = 1.0
"""Seconds between two looks at the other servers: what a lost notice told is known so much later."""

GONE = 5
"""Seconds after which a server that was not seen is not told anything any more."""

FORGOTTEN = timedelta(hours=1)
"""After which its row is deleted."""

ABSENT = 3
"""Seconds between two looks after which this server itself may have been taken for gone."""

MOST_HEARD = 200
"""Notices that wait to be taken; beyond, everything is read anew."""


class Relay(EngineService):
    """Sends what this server commits, and hears what the others do."""

    name = "relay"
    everywhere = True

    def __init__(self, engine: Engine, url: str, *, connect: Connect = DedicatedConnection) -> None:
        super().__init__(engine)
        self.sender = NoticeSender(engine)
        self.inbox = Inbox(engine)
        self.peers = Peers(engine, self)
        self._connection = connect(url, self.wake)
        self._announces = True
        self._listening: object = None
        """The connection on which the others are heard."""
        engine.hub.version_order = VersionOrder()
        engine.hub.listen(self._on_commit)
        engine.hub.on_wish(self.announce)
        engine.unconfirmed.listen(self._on_unconfirmed)

    @property
    def services(self) -> list[Service]:
        """Return what is to be run: this one, the one that takes what is heard, and the one that misses notices."""
        return [self, self.inbox, self.peers]

    def notices(self) -> tuple[int, int]:
        """Return how many notices were sent, and how many were heard."""
        return self.sender.said, self.inbox.heard

    def _on_commit(self, batch: Batch) -> None:
        if self.sender.add(batch):
            self.wake()

    def tell_of(self, absences: Absences) -> None:
        """Tell the others whose socket broke here, and keep what they tell of theirs."""
        absences.tell = self._tell_absence
        self.inbox.receiver.absences = absences

    def _tell_absence(self, worker_id: WorkerId, at: datetime | None) -> None:
        if self.sender.tell_absence(worker_id, at):
            self.wake()

    def _on_unconfirmed(self) -> None:
        """Have everything read anew, here and elsewhere: a commit was not answered, and may be done."""
        self.inbox.lose()
        self.sender.lose()
        self.wake()

    def announce(self) -> None:
        """Tell the others that this server is there, and whether it wants each transition."""
        self._announces = True
        self.wake()

    async def turn(self) -> float:
        """Send what has gathered. Raises `StoreUnavailable`; what could not be sent is missed by its number."""
        async with self._connection.lent() as connection:
            if connection is not self._listening:
                await connection.add_listener(CHANNEL, self._hear)
                self._listening = connection
                self._announces = True
                if self.sender.peers_listen:
                    # What was told while nobody listened; what is read from now on is newer than that.
                    self.inbox.lose()
            texts = self.sender.take() if self.sender.has_news or self._announces else []
            self._announces = False
            if texts:
                await connection.execute("SELECT pg_notify($1, t) FROM unnest($2::text[]) AS t", CHANNEL, texts)
            else:
                await connection.execute("SELECT 1")
        # Whatever comes meanwhile goes with the next one.
        await asyncio.sleep(PAUSE * max(1, len(texts)))
        return 0.0 if self.sender.has_news or self._announces else IDLE

    def _hear(self, _connection: object, _process: int, _channel: str, payload: object) -> None:
        try:
            notice = codec.read(str(payload))
        except ValueError as error:
            # Nobody but a server of another version sends such a thing.
            log.warning("%s", error)
            self.inbox.lose()
            return
        if notice.server != self._engine.hub.stream:
            self.meet(is_there=True)
            self.want_each(notice.server, wanted=notice.wants_each)
            self.inbox.add(notice)

    def meet(self, *, is_there: bool) -> None:
        """Note whether there are other servers; what they were not told before they read anew."""
        if self.sender.meet(is_there=is_there):
            self.wake()

    def want_each(self, server: str, *, wanted: bool) -> None:
        """Note whether another server wants to be told each transition."""
        self.sender.peers_want_each = self.inbox.want_each(server, wanted=wanted)

    async def close(self) -> None:
        """Hear nothing more, and let the others tell nothing to this server any more.

        Those that may have taken it for gone learn by its row that it was there, until that is too old.
        """
        if self._connection.is_open and not self.peers.may_be_missed:
            try:
                async with self._connection.lent() as connection:
                    await connection.execute("DELETE FROM servers WHERE id = $1", self._engine.hub.stream)
            except StoreUnavailable as error:
                log.info("the others will miss this server by themselves: %s", error.detail)
        await self._connection.close()


class Inbox(EngineService):
    """Takes what was heard."""

    name = "hearing"
    everywhere = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.receiver = NoticeReceiver(engine)
        self._heard: list[Notice] = []
        self._has_gap = False
        self.heard = 0
        """How many notices came."""
        self.received: dict[str, int] = {}
        """The number of the last notice of each server."""
        self._wants_each: set[str] = set()

    def want_each(self, server: str, *, wanted: bool) -> bool:
        """Note whether another server wants to be told each transition; return whether one of them does."""
        (self._wants_each.add if wanted else self._wants_each.discard)(server)
        self._engine.hub.want_each("elsewhere", wanted=bool(self._wants_each))
        return bool(self._wants_each)

    def add(self, notice: Notice) -> None:
        """Keep a notice to be taken; one whose predecessor is missing tells that something was lost."""
        self.heard += 1
        last = self.received.get(notice.server, 0)
        self.received[notice.server] = max(notice.number, last)
        if notice.number > last + 1:
            self.lose()
        if len(self._heard) >= MOST_HEARD:
            self._heard.clear()
            self.lose()
        self._heard.append(notice)
        self.wake()

    def lose(self) -> None:
        """Have everything read anew."""
        self._has_gap = True
        self.wake()

    async def turn(self) -> float:
        """Take what was heard. Raises `StoreUnavailable`; then everything is read anew later."""
        heard, has_gap = self._heard, self._has_gap
        if heard or has_gap:
            self._heard, self._has_gap = [], False
            try:
                await self.receiver.take(heard, has_gap=has_gap)
            except BaseException:
                self._has_gap = True
                raise
            await asyncio.sleep(PAUSE)
        return 0.0 if self._heard or self._has_gap else IDLE


class Peers(EngineService):
    """Shows the others that this server is there and what it has sent, and looks whether all of theirs came.

    When there are none this server becomes the exclusive writer.
    """

    name = "peers"
    everywhere = True

    def __init__(self, engine: Engine, relay: Relay) -> None:
        super().__init__(engine)
        self._relay = relay
        self._said: dict[str, int] = {}
        """How many notices each had sent when it was last looked at: a look later they must have come."""
        self._looked_at: float | None = None
        engine.show_presence = self._show_again

    @property
    def may_be_missed(self) -> bool:
        """Whether the others may not know that this server is there: it did not show itself for long, or not yet."""
        now = asyncio.get_running_loop().time()
        return self._looked_at is None or now - self._looked_at > ABSENT

    async def _show_again(self, tx: Tx, now: datetime) -> None:
        """Show this server with what it commits, if the others may have taken it for gone.

        They have read everything anew and wait for nothing more of it, and it may end before it tells them. Said to
        have sent one notice more than it has, it is missed by the number of that.
        """
        if self.may_be_missed:
            hub = self._engine.hub
            mine = stored.Peer(hub.stream, self._relay.sender.said + 1, hub.wants_each_here)
            await stored.show(tx, mine, now)

    async def turn(self) -> float:
        """Look once. Raises `StoreUnavailable`."""
        inbox = self._relay.inbox
        peers = await self._look()
        self._relay.meet(is_there=bool(peers))
        if not peers:
            await self._engine.store.seek_exclusive()
        for server, (said, wants_each) in peers.items():
            if said >= inbox.received.get(server, 0):
                # Else a notice that came since says what it wants.
                self._relay.want_each(server, wanted=wants_each)
            if server not in inbox.received:
                inbox.received[server] = said
                if said:
                    # They may have been sent while this server took itself for the only one, and did not listen.
                    inbox.lose()
            elif inbox.received[server] < (expected := self._said.get(server, 0)):
                log.info("%d notices of server %s did not come", expected - inbox.received[server], server)
                inbox.received[server] = expected
                inbox.lose()
        for server in (self._said.keys() | inbox.received.keys()) - peers.keys():
            # What it committed last it may not have told any more. One that came back between two looks, after it was
            # taken for gone, and left at once was only heard.
            self._relay.want_each(server, wanted=False)
            inbox.received.pop(server, None)
            inbox.lose()
        if self._looked_at is not None and self.may_be_missed and peers:
            inbox.lose()
        self._looked_at = asyncio.get_running_loop().time()
        self._said = {server: said for server, (said, _) in peers.items()}
        return LOOK

    async def _look(self) -> dict[str, tuple[int, bool]]:
        """Write this server's row, and return the others that were seen lately: what they have sent, and want."""
        hub, store = self._engine.hub, self._engine.store
        async with store.write() as tx:
            now = store.clock.now()
            mine = stored.Peer(hub.stream, self._relay.sender.said, hub.wants_each_here)
            await stored.spare_sync(tx)
            await stored.show(tx, mine, now)
            found = await stored.seen(tx, now - timedelta(seconds=GONE))
            await stored.forget(tx, now - FORGOTTEN)
        return {peer.id: (peer.said, peer.wants_each) for peer in found if peer.id != hub.stream}
