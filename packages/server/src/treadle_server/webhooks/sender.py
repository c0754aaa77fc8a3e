"""Sends the deliveries in the outbox, each at least once and by one server at a time.

In one transaction, a turn records the outcomes of ended attempts and claims due deliveries; attempts run concurrently.
A claim lasts a little longer than an attempt can take. If the server dies meanwhile, its claims end, and the same
delivery is attempted again, with the same `webhook-id`.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from math import inf
from typing import Protocol

from treadle.wire.amounts import counted
from treadle_server.domain.webhooks import Answer, delay_after, reason_of, signature
from treadle_server.engine.engine import Engine
from treadle_server.errors import StoreUnavailable
from treadle_server.services.base import EngineService
from treadle_server.store.base import Tx
from treadle_server.store.transaction import webhooks
from treadle_server.store.transaction.webhooks import Claimed, Tried
from treadle_server.webhooks.room import SOON, Flight, Room

log = logging.getLogger(__name__)

EVERY = 2.0
"""Seconds between checks for webhooks and deliveries that another server added."""

SURELY = 60.0
"""Seconds between reads of all webhooks, whether any seems to have changed or not: the clock may have been set back."""

MARGIN = 5.0
"""A claim outlasts the longest attempt by the length of another one and these seconds: time to record the outcome."""

MOST_QUICK = 20_000
"""Of how many webhooks it is remembered that their receivers answer soon."""


class Sends(Protocol):
    """The interface of `Post`, which sends the requests."""

    async def send(self, url: str, body: bytes, headers: dict[str, str]) -> Answer:
        """POST the body to the URL with these headers, and return the outcome; never raises for a failed request."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


class Sender(EngineService):
    """The service that sends; its attempts run in `running`."""

    name = "webhooks"
    everywhere = True
    """Each of several servers sends; their claims in the outbox keep them from sending the same deliveries."""

    def __init__(self, engine: Engine, open_post: Callable[[], Sends], *, attempts: int, timeout: float) -> None:
        super().__init__(engine)
        self._open_post = open_post
        self._post: Sends | None = None
        self._attempts = attempts
        self._lease = timedelta(seconds=2 * timeout + MARGIN)
        self._refreshed_at = self._read_at = -inf
        self._flying: dict[str, Flight] = {}
        self._slow: set[str] = set()
        """Webhooks whose last attempt was not answered soon."""
        self._quick: dict[str, None] = {}
        """Webhooks whose last attempt was answered soon, the latest last."""
        self._ended: dict[str, tuple[Claimed, Answer]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._tries: set[asyncio.Task[None]] = set()
        engine.hooks.on_owed = self.wake

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run attempts during the block; at its end those in progress are released to other servers at once."""
        async with asyncio.TaskGroup() as self._group:
            try:
                yield
            finally:
                for trying in self._tries:
                    trying.cancel()
        if self._post is not None:
            await self._post.close()
        await self._leave()

    async def turn(self) -> float:
        """Record ended attempts, claim due deliveries, and return for how long nothing else is due."""
        await self._refresh()
        due, room, pause = await self._look()
        if not (due or self._ended):
            return pause
        ended = dict(self._ended)
        async with self._engine.store.write() as tx:
            await self._write_answers(tx, ended)
            claimed = await self._claim(tx, due, room)
        for delivery_id in ended:
            del self._ended[delivery_id]
        for one in claimed:
            self._launch(one)
        # There may be more due deliveries than were claimed.
        return 0.0 if claimed else pause

    async def _refresh(self) -> None:
        """Read the webhooks again if any has changed, but don't look in each turn: 10,000 take 0.1 s."""
        now = self._engine.clock.monotonic()
        if now >= self._refreshed_at + EVERY:
            if_changed = now < self._read_at + SURELY
            await self._engine.hooks.refresh(self._engine.store, if_changed=if_changed)
            self._refreshed_at = now
            self._read_at = self._read_at if if_changed else now

    async def _look(self) -> tuple[list[str], Room, float]:
        """Return the webhooks with due deliveries that have room, the room, and the seconds until the next check."""
        # An attempt in progress makes room when it ends, which wakes this service, and also when it has become slow.
        most = SOON if self._flying else EVERY
        first: dict[str, datetime] = {}
        if self._engine.hooks:
            async with self._engine.store.read() as connection:
                first = await webhooks.waiting(connection, tokens_at=self._engine.tokens_at())
            self._slow &= first.keys()
        now = self._engine.clock.now()
        due = [hook for hook, at in first.items() if at <= now]
        monotonic = self._engine.clock.monotonic()
        room = Room(self._flying.values(), monotonic, slow=self._slow, quick=self._quick, due=due)
        until = min((at - now for hook, at in first.items() if at > now and room.of(hook)), default=timedelta.max)
        return [hook for hook in due if room.of(hook)], room, min(most, until.total_seconds())

    async def _claim(self, tx: Tx, due: list[str], room: Room) -> list[Claimed]:
        """Claim due deliveries, as many for each webhook as there is room for."""
        now = self._engine.clock.now()
        claimed: list[Claimed] = []
        random.shuffle(due)
        for hook in due:
            if most := room.of(hook):
                found = await webhooks.claim(tx, hook, now=now, until=now + self._lease, most=most)
                room.take(hook, len(found))
                claimed += found
        return claimed

    async def _write_answers(self, tx: Tx, ended: dict[str, tuple[Claimed, Answer]]) -> None:
        now = self._engine.clock.now()
        await webhooks.delivered(tx, [one.id for one, answer in ended.values() if answer.error is None])
        tried = [(one, self._tried(one, answer, now)) for one, answer in ended.values() if answer.error is not None]
        await webhooks.put_off(tx, [result for _, result in tried])
        for one, result in tried:
            if result.next_at is None:
                _log_dead(one, result)

    def _tried(self, one: Claimed, answer: Answer, now: datetime) -> Tried:
        assert answer.error is not None
        is_dead = answer.is_final or one.attempts >= self._attempts
        next_at = None if is_dead else now + delay_after(one.attempts, random.random, answer.retry_after)
        return Tried(one.id, one.attempts, next_at, now, answer.status, answer.error)

    def _launch(self, one: Claimed) -> None:
        assert self._group is not None
        if one.id in self._flying:
            # The machine slept for longer than the claim: let the first attempt end; the delivery is claimed again.
            return
        flight = self._flying[one.id] = Flight(one, self._engine.clock.monotonic())
        trying = self._group.create_task(self._try(flight), name=f"webhook {one.id}")
        self._tries.add(trying)
        trying.add_done_callback(self._tries.discard)

    async def _try(self, flight: Flight) -> None:
        one = flight.claimed
        try:
            post = self._post = self._post or self._open_post()
            timestamp = int(self._engine.clock.now().timestamp())
            body = one.body.encode()
            headers = {
                "webhook-id": one.id,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": signature(one.secret, one.id, timestamp, body),
            }
            answer = await post.send(one.url, body, headers)
        except Exception as error:
            # A bug, or a secret that was edited by hand, must end neither other attempts nor the server, whose task
            # group they share; it counts as a failed attempt.
            log.exception("delivery %s could not be attempted", one.id)
            answer = Answer(None, reason_of(error))
        self._note_speed(one.webhook_id, is_slow=self._engine.clock.monotonic() - flight.since >= SOON)
        self._ended[one.id] = (one, answer)
        del self._flying[one.id]
        self.wake()

    def _note_speed(self, webhook_id: str, *, is_slow: bool) -> None:
        self._quick.pop(webhook_id, None)
        if is_slow:
            self._slow.add(webhook_id)
            return
        self._slow.discard(webhook_id)
        self._quick[webhook_id] = None
        if len(self._quick) > MOST_QUICK:
            del self._quick[next(iter(self._quick))]

    async def _leave(self) -> None:
        """Record the ended attempts, and release the others so that another server can attempt them at once."""
        if not (self._ended or self._flying):
            return
        try:
            async with self._engine.store.write() as tx:
                await self._write_answers(tx, self._ended)
                await webhooks.give_back(tx, [one.claimed for one in self._flying.values()], self._engine.clock.now())
        except StoreUnavailable as error:
            log.warning("%d deliveries will be retried when their claims end: %s", len(self._flying), error.detail)


def _log_dead(one: Claimed, result: Tried) -> None:
    # Without the text of an answer, which may repeat the body.
    why = result.error if result.answered is None else f"answered {result.answered}"
    log.warning(
        "a delivery of the webhook %s of %s is dead after %s: %s; see `treadle webhooks deliveries %s --room %s`",
        one.name, one.room, counted(one.attempts, "attempt"), why, one.name, one.room,
    )  # fmt: skip
