"""The relay between the servers of one PostgreSQL: NOTIFY carries their changes, and a table reveals lost notices.

Each server numbers its notices, and writes into the table `servers` how many it has sent. A server that has received
fewer reads everything again, so that no wake-up, result or event depends on a notice.
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
"""Seconds between two notices: at most fifty a second."""

IDLE = 2.0
"""Seconds between checks of the connection when there is nothing to send."""

LOOK = 1.0
"""Seconds between two checks of the other servers: the delay of a lost notice's changes."""

GONE = 5
"""Seconds after which a server that was not seen is taken for gone."""

FORGOTTEN = timedelta(hours=1)
"""The age at which its row is deleted."""

ABSENT = 3
"""Seconds without a check after which this server itself may have been taken for gone."""

MOST_HEARD = 200
"""Most notices that wait to be handled; with more, everything is read again."""


class Relay(EngineService):
    """Sends this server's notices, and receives the others'."""

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
        """The connection that listens."""
        engine.hub.version_order = VersionOrder()
        engine.hub.listen(self._on_commit)
        engine.hub.on_each_changed(self.announce)
        engine.unconfirmed.listen(self._on_unconfirmed)

    @property
    def services(self) -> list[Service]:
        """Return the services to run: this one, the one that handles notices, and the one that finds lost ones."""
        return [self, self.inbox, self.peers]

    def notices(self) -> tuple[int, int]:
        """Return how many notices were sent, and how many were received."""
        return self.sender.sent, self.inbox.received_count

    def _on_commit(self, batch: Batch) -> None:
        if self.sender.add(batch):
            self.wake()

    def exchange_absences(self, absences: Absences) -> None:
        """Exchange reports of broken sockets with the other servers, through `absences`."""
        absences.tell = self._tell_absence
        self.inbox.receiver.absences = absences

    def _tell_absence(self, worker_id: WorkerId, at: datetime | None) -> None:
        if self.sender.add_absence(worker_id, at):
            self.wake()

    def _on_unconfirmed(self) -> None:
        """Make everything be read again, here and elsewhere: a commit got no answer, and may have happened."""
        self.inbox.lose()
        self.sender.lose()
        self.wake()

    def announce(self) -> None:
        """Announce this server to the others, and whether it wants every transition."""
        self._announces = True
        self.wake()

    async def turn(self) -> float:
        """Send the gathered changes. Raises `StoreUnavailable`; others miss the number of an unsent notice."""
        async with self._connection.lent() as connection:
            if connection is not self._listening:
                # PostgreSQL clears away what all have read only when something is added: a queue that was full once
                # takes nothing any more, until somebody asks for this.
                await connection.execute("SELECT pg_notification_queue_usage()")
                await connection.add_listener(CHANNEL, self._on_notify)
                self._listening = connection
                self._announces = True
                if self.sender.peers_listen:
                    # Notices were lost while nothing listened; reads from now on are newer than those.
                    self.inbox.lose()
            texts = self.sender.take() if self.sender.has_news or self._announces else []
            self._announces = False
            if texts:
                await connection.execute("SELECT pg_notify($1, t) FROM unnest($2::text[]) AS t", CHANNEL, texts)
            else:
                await connection.execute("SELECT 1")
        # Changes in the meantime go with the next notice.
        await asyncio.sleep(PAUSE * max(1, len(texts)))
        return 0.0 if self.sender.has_news or self._announces else IDLE

    def _on_notify(self, _connection: object, _process: int, _channel: str, payload: object) -> None:
        try:
            notice = codec.read(str(payload))
        except ValueError as error:
            # Only a server of another version sends such a notice.
            log.warning("%s", error)
            self.inbox.lose()
            return
        if notice.server != self._engine.hub.stream:
            self.note_peers(are_there=True)
            self.want_each(notice.server, wanted=notice.wants_each)
            self.inbox.add(notice)

    def note_peers(self, *, are_there: bool) -> None:
        """Record whether there are other servers; changes that were not sent before make them read again."""
        if self.sender.note_peers(are_there=are_there):
            self.wake()

    def want_each(self, server: str, *, wanted: bool) -> None:
        """Record whether another server wants every transition."""
        self.sender.peers_want_each = self.inbox.want_each(server, wanted=wanted)

    async def close(self) -> None:
        """Stop listening, and sign off from the other servers.

        If they may have taken this server for gone, its row stays: it shows them that it was there, until the row is
        too old.
        """
        if self._connection.is_open and not self.peers.may_be_missed:
            try:
                async with self._connection.lent() as connection:
                    await connection.execute("DELETE FROM servers WHERE id = $1", self._engine.hub.stream)
            except StoreUnavailable as error:
                log.info("could not sign off from the other servers, which will notice by themselves: %s", error.detail)
        await self._connection.close()


class Inbox(EngineService):
    """Handles received notices."""

    name = "hearing"
    everywhere = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.receiver = NoticeReceiver(engine)
        self._waiting: list[Notice] = []
        self._has_gap = False
        self.received_count = 0
        """How many notices were received."""
        self.received: dict[str, int] = {}
        """The number of each server's last notice."""
        self._wants_each: set[str] = set()

    def want_each(self, server: str, *, wanted: bool) -> bool:
        """Record whether another server wants every transition; return whether any of them does."""
        (self._wants_each.add if wanted else self._wants_each.discard)(server)
        self._engine.hub.want_each("elsewhere", wanted=bool(self._wants_each))
        return bool(self._wants_each)

    def add(self, notice: Notice) -> None:
        """Add a notice to be handled; if its predecessor is missing, something was lost."""
        self.received_count += 1
        last = self.received.get(notice.server, 0)
        self.received[notice.server] = max(notice.number, last)
        if notice.number > last + 1:
            self.lose()
        if len(self._waiting) >= MOST_HEARD:
            self._waiting.clear()
            self.lose()
        self._waiting.append(notice)
        self.wake()

    def lose(self) -> None:
        """Make everything be read again."""
        self._has_gap = True
        self.wake()

    async def turn(self) -> float:
        """Handle the received notices. Raises `StoreUnavailable`; then everything is read again later."""
        waiting, has_gap = self._waiting, self._has_gap
        if waiting or has_gap:
            self._waiting, self._has_gap = [], False
            try:
                await self.receiver.take(waiting, has_gap=has_gap)
            except BaseException:
                self._has_gap = True
                raise
            await asyncio.sleep(PAUSE)
        return 0.0 if self._waiting or self._has_gap else IDLE


class Peers(EngineService):
    """Writes this server's row for the others to see, and checks that all of their notices have arrived.

    When there are no others, this server becomes the exclusive writer.
    """

    name = "peers"
    everywhere = True

    def __init__(self, engine: Engine, relay: Relay) -> None:
        super().__init__(engine)
        self._relay = relay
        self._said: dict[str, int] = {}
        """How many notices each server had sent by the last check; by the next one they must have arrived."""
        self._looked_at: float | None = None
        engine.show_presence = self._show_again

    @property
    def may_be_missed(self) -> bool:
        """Whether the others may not know of this server, because it has not written its row for long, or not yet."""
        now = asyncio.get_running_loop().time()
        return self._looked_at is None or now - self._looked_at > ABSENT

    async def _show_again(self, tx: Tx, now: datetime) -> None:
        """Write this server's row with its commit, if the others may have taken it for gone.

        In that case they expect no more notices from it, and it may end before it sends one. So the row counts one more
        notice than were sent, which the others will miss.
        """
        if self.may_be_missed:
            hub = self._engine.hub
            mine = stored.Peer(hub.stream, self._relay.sender.sent + 1, hub.wants_each_here)
            await stored.show(tx, mine, now)

    async def turn(self) -> float:
        """Check once. Raises `StoreUnavailable`."""
        inbox = self._relay.inbox
        peers = await self._look()
        self._relay.note_peers(are_there=bool(peers))
        if not peers:
            await self._engine.store.seek_exclusive()
        for server, (said, wants_each) in peers.items():
            if said >= inbox.received.get(server, 0):
                # Otherwise a newer notice has told what it wants.
                self._relay.want_each(server, wanted=wants_each)
            if server not in inbox.received:
                inbox.received[server] = said
                if said:
                    # They may have been sent before this server listened, when it seemed to be the only one.
                    inbox.lose()
            elif inbox.received[server] < (expected := self._said.get(server, 0)):
                log.info("%d notices of server %s were lost", expected - inbox.received[server], server)
                inbox.received[server] = expected
                inbox.lose()
        for server in (self._said.keys() | inbox.received.keys()) - peers.keys():
            # It may not have reported its last commits. A server that was taken for gone, and came back and left
            # between two checks, is known only from its notices.
            self._relay.want_each(server, wanted=False)
            inbox.received.pop(server, None)
            inbox.lose()
        if self._looked_at is not None and self.may_be_missed and peers:
            inbox.lose()
        self._looked_at = asyncio.get_running_loop().time()
        self._said = {server: said for server, (said, _) in peers.items()}
        return LOOK

    async def _look(self) -> dict[str, tuple[int, bool]]:
        """Write this server's row, and return the others seen lately, as (notices sent, wants every transition)."""
        hub, store = self._engine.hub, self._engine.store
        async with store.write() as tx:
            now = store.clock.now()
            mine = stored.Peer(hub.stream, self._relay.sender.sent, hub.wants_each_here)
            await stored.spare_sync(tx)
            await stored.show(tx, mine, now)
            found = await stored.seen(tx, now - timedelta(seconds=GONE))
            await stored.forget(tx, now - FORGOTTEN)
        return {peer.id: (peer.said, peer.wants_each) for peer in found if peer.id != hub.stream}
