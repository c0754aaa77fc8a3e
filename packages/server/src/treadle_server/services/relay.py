"""The relay between the servers of one PostgreSQL: NOTIFY carries what was committed, and a table shows what got lost.

Each server numbers its notices, and writes into the table `servers` how many it has sent. Whoever hears fewer reads
everything anew: so that no wake-up, result or event depends on a notice.
"""

import asyncio
import logging
from datetime import timedelta

from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch
from treadle_server.engine.order import Order
from treadle_server.errors import StoreUnavailable
from treadle_server.services import notices
from treadle_server.services.base import Interval, Service
from treadle_server.services.hearer import Hearer
from treadle_server.services.line import Line, Lines
from treadle_server.services.notices import Notice
from treadle_server.services.teller import Teller
from treadle_server.store import peers as stored

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


class Relay(Interval):
    """Sends what this server commits, and hears what the others do."""

    name = "relay"
    everywhere = True

    def __init__(self, engine: Engine, url: str, *, line: Lines = Line) -> None:
        super().__init__()
        self.teller = Teller(engine)
        self.hearing = Hearing(engine)
        self._engine = engine
        self._line = line(url, self._broke)
        self._announces = True
        self._listening: object = None
        """The connection on which the others are heard."""
        engine.hub.order = Order()
        engine.hub.listen(self._heed)
        engine.hub.on_wish(self.announce)
        engine.on_doubt(self._doubt)

    @property
    def services(self) -> list[Service]:
        """Return what is to be run: this one, the one that takes what is heard, and the one that misses notices."""
        return [self, self.hearing, Peers(self._engine, self)]

    def notices(self) -> tuple[int, int]:
        """Return how many notices were sent, and how many were heard."""
        return self.teller.said, self.hearing.heard

    def _heed(self, batch: Batch) -> None:
        if self.teller.heed(batch):
            self.wake()

    def _doubt(self) -> None:
        """Have everything read anew, here and elsewhere: a commit was not answered, and may be done."""
        self.hearing.lose()
        self.teller.lose()
        self.wake()

    def announce(self) -> None:
        """Tell the others that this server is there, and whether it wants each transition."""
        self._announces = True
        self.wake()

    def _broke(self) -> None:
        self.wake()

    async def turn(self) -> float:
        """Send what has gathered. Raises `StoreUnavailable`; what could not be sent is missed by its number."""
        async with self._line.lent() as connection:
            if connection is not self._listening:
                await connection.add_listener(CHANNEL, self._hear)
                self._listening = connection
                self._announces = True
                if self.teller.peers_listen:
                    # What was told while nobody listened; what is read from now on is newer than that.
                    self.hearing.lose()
            texts = self.teller.take() if self.teller.has_news or self._announces else []
            self._announces = False
            if texts:
                await connection.execute("SELECT pg_notify($1, t) FROM unnest($2::text[]) AS t", CHANNEL, texts)
            else:
                await connection.execute("SELECT 1")
        # Whatever comes meanwhile goes with the next one.
        await asyncio.sleep(PAUSE * max(1, len(texts)))
        return 0.0 if self.teller.has_news or self._announces else IDLE

    def _hear(self, _connection: object, _process: int, _channel: str, payload: object) -> None:
        try:
            notice = notices.read(str(payload))
        except ValueError as error:
            # Nobody but a server of another version sends such a thing.
            log.warning("%s", error)
            self.hearing.lose()
            return
        if notice.server != self._engine.hub.stream:
            self.meet(is_there=True)
            self.want_each(notice.server, wanted=notice.wants_each)
            self.hearing.hear(notice)

    def meet(self, *, is_there: bool) -> None:
        """Note whether there are other servers; what they were not told before they read anew."""
        if self.teller.meet(is_there=is_there):
            self.wake()

    def want_each(self, server: str, *, wanted: bool) -> None:
        """Note whether another server wants to be told each transition."""
        self.hearing.want_each(server, wanted=wanted)
        self.teller.peers_want_each = self.hearing.peers_want_each

    async def close(self) -> None:
        """Hear nothing more, and let the others tell nothing to this server any more."""
        if self._line.is_open:
            try:
                async with self._line.lent() as connection:
                    await connection.execute("DELETE FROM servers WHERE id = $1", self._engine.hub.stream)
            except StoreUnavailable as error:
                log.info("the others will miss this server by themselves: %s", error.detail)
        await self._line.close()


class Hearing(Interval):
    """Takes what was heard."""

    name = "hearing"
    everywhere = True

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.hearer = Hearer(engine)
        self._engine = engine
        self._heard: list[Notice] = []
        self._has_gap = False
        self.heard = 0
        """How many notices came."""
        self.received: dict[str, int] = {}
        """The number of the last notice of each server."""
        self._wants_each: set[str] = set()

    @property
    def peers_want_each(self) -> bool:
        """Return whether another server wants to be told each transition."""
        return bool(self._wants_each)

    def want_each(self, server: str, *, wanted: bool) -> None:
        """Note whether another server wants to be told each transition."""
        (self._wants_each.add if wanted else self._wants_each.discard)(server)
        self._engine.hub.want_each("elsewhere", wanted=bool(self._wants_each))

    def hear(self, notice: Notice) -> None:
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
                await self.hearer.take(heard, has_gap=has_gap)
            except BaseException:
                self._has_gap = True
                raise
            await asyncio.sleep(PAUSE)
        return 0.0 if self._heard or self._has_gap else IDLE


class Peers(Interval):
    """Shows the others that this server is there and what it has sent, and looks whether all of theirs came.

    When there are none this server becomes the sole writer.
    """

    name = "peers"
    everywhere = True

    def __init__(self, engine: Engine, relay: Relay) -> None:
        super().__init__()
        self._engine = engine
        self._relay = relay
        self._said: dict[str, int] = {}
        """How many notices each had sent when it was last looked at: a look later they must have come."""
        self._looked_at: float | None = None

    async def turn(self) -> float:
        """Look once. Raises `StoreUnavailable`."""
        hearing = self._relay.hearing
        peers = await self._look()
        self._relay.meet(is_there=bool(peers))
        if not peers:
            await self._engine.store.seek_sole()
        for server, (said, wants_each) in peers.items():
            if said >= hearing.received.get(server, 0):
                # Else a notice that came since says what it wants.
                self._relay.want_each(server, wanted=wants_each)
            if server not in hearing.received:
                hearing.received[server] = said
                if said:
                    # They may have been sent while this server took itself for the only one, and did not listen.
                    hearing.lose()
            elif hearing.received[server] < (expected := self._said.get(server, 0)):
                log.info("%d notices of server %s did not come", expected - hearing.received[server], server)
                hearing.received[server] = expected
                hearing.lose()
        for server in self._said.keys() - peers.keys():
            # What it committed last it may not have told any more.
            self._relay.want_each(server, wanted=False)
            hearing.received.pop(server, None)
            hearing.lose()
        now = asyncio.get_running_loop().time()
        if self._looked_at is not None and now - self._looked_at > ABSENT and peers:
            hearing.lose()
        self._looked_at = now
        self._said = {server: said for server, (said, _) in peers.items()}
        return LOOK

    async def _look(self) -> dict[str, tuple[int, bool]]:
        """Write this server's row, and return the others that were seen lately: what they have sent, and want."""
        hub, store = self._engine.hub, self._engine.store
        async with store.write() as tx:
            now = store.clock.now()
            mine = stored.Peer(hub.stream, self._relay.teller.said, hub.wants_each_here)
            await stored.show(tx, mine, now)
            found = await stored.seen(tx, now - timedelta(seconds=GONE))
            await stored.forget(tx, now - FORGOTTEN)
        return {peer.id: (peer.said, peer.wants_each) for peer in found if peer.id != hub.stream}
