"""Feeds the model from a connection: subscribes to what the screens show, applies updates, and notices silence.

A `Link` connects, authenticates, numbers requests and reconnects. The real one is in link.py; tests use one without a
network.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from treadle.errors import NOT_NOW, ConnectionFailed, ProblemError
from treadle.transport.answers import UNREADABLE, wrong_in
from treadle.wire.frames import Topic
from treadle_tui.core.live.subscriptions import Step, Subscriptions, Want
from treadle_tui.core.state.model import Dirty, Model

PING_SECONDS = 0.8
"""How often a live connection is pinged. Together with the patience below, a dead one is noticed within two seconds."""

PATIENCE_SECONDS = 1.1
"""How long nothing may arrive while the answer to a ping is due, before the server counts as gone."""

PATIENCE_PARTS = 11
"""The number of parts that the patience is divided into.

Parts are counted instead of time: while this process is stalled, by a long list or on a busy machine, it hears nothing.
"""

GIVE_UP_FACTOR = 10
"""How many times the patience a silent connection is kept before it is reset; until then it may recover.

A server that is busy with what a screen asked for would get the same request again over a new connection, for ever.
"""


@dataclass(frozen=True, slots=True)
class Opened:
    """The connection is open; `hello` is the server's answer to ours."""

    hello: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pushed:
    """The server pushed a message."""

    push: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is lost. The link reconnects by itself, even after `refused`."""

    detail: str
    refused: bool = False
    """Whether the other side answered but opened no session."""
    is_final: bool = False
    """Whether a Treadle server refused, and will give the same answer next time."""
    denied: bool = False
    """Whether the token was refused: it was revoked, has expired, or was never valid."""


Event: TypeAlias = Opened | Pushed | Lost


class Link(Protocol):
    """A connection that reconnects by itself."""

    async def run(self, sink: Callable[[Event], None]) -> None:
        """Connect and stay connected, and report each event to `sink`, until cancelled."""

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return the answer. Raises `ProblemError` or `ConnectionFailed`."""

    @property
    def received(self) -> int:
        """The bytes received over the current connection: while this grows, the server is alive."""

    def reset(self) -> None:
        """Drop the current connection as dead and make a new one at once."""


class Feed:
    """Keeps the model in step with the server, for the topics that the screens want."""

    def __init__(
        self, model: Model, link: Link, *, ping_seconds: float = PING_SECONDS, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._model = model
        self._link = link
        self._subscriptions = Subscriptions()
        self._due = asyncio.Event()
        self._ping_seconds = ping_seconds
        self._patience = patience
        self._is_put_off = False
        """Whether a subscription was refused for now and has to be asked for again."""
        self._is_silent = False
        """Whether the server was reported as gone because nothing came over a connection that is still open."""
        self.asks_access = False
        """Whether to ask on each connection what the token may do; not done for a recording."""

    def want(self, *wants: Want) -> None:
        """Subscribe to these, each in place of the current subscription of its topic."""
        for want in wants:
            if self._subscriptions.want(want):
                self._due.set()

    def drop(self, topic: Topic) -> None:
        """Unsubscribe from a topic and clear its rows."""
        if self._subscriptions.drop(topic):
            table = self._model.table(topic)
            if table is not None:
                table.expect(None)
                table.clear()
            self._due.set()

    def leave(self, want: Want) -> None:
        """Drop this subscription, unless its topic has a different one by now."""
        if self._subscriptions.wanted(want.topic) == want:
            self.drop(want.topic)

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Send a request to the server. Raises `ProblemError` or `ConnectionFailed`."""
        if not self._model.link.live:
            raise ConnectionFailed(self._model.link.detail or "not connected")
        return await self._link.request(op, **fields)

    async def run(self) -> None:
        """Feed the model until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._link.run(self.take))
            group.create_task(self._subscribe())
            group.create_task(self._watch_over())

    def take(self, event: Event) -> None:
        """Apply an event of the link to the model."""
        match event:
            case Opened(hello):
                self._is_silent = False
                self._open(hello)
            case Pushed(push):
                self._apply(push)
            case Lost(detail, refused, denied=denied):
                self._is_silent = False
                self._model.lost(detail, "denied" if denied else "refused" if refused else "gone")

    def _open(self, hello: Mapping[str, Any]) -> None:
        try:
            self._model.time.correct(datetime.fromisoformat(hello["time"]))
            self._model.opened(hello)
        except UNREADABLE as error:
            self._give_up(error)
            return
        self._subscriptions.forget()
        self._due.set()

    def _give_up(self, error: Exception) -> None:
        self._model.lost(f"the server sent something that this version can't read: {wrong_in(error):.200}", "refused")
        self._link.reset()

    def _apply(self, push: Mapping[str, Any]) -> None:
        try:
            self._model.apply(push)
        except UNREADABLE as error:
            # A half-applied table would show false data: report it, and start over with new snapshots.
            self._give_up(error)
            return
        table = self._model.table(str(push.get("topic")))
        if table is not None and table.torn:
            table.torn = False
            self._subscriptions.renew(table.topic)
            self._due.set()

    async def _subscribe(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            if not self._model.link.live:
                continue
            # Nothing is lost when offline: everything is requested again once the link is back.
            with suppress(ConnectionFailed):
                await self._ask_access()
                for step in self._subscriptions.steps():
                    await self._ask(step)

    async def _ask_access(self) -> None:
        if not self.asks_access or self._model.link.may_write is not None:
            return
        try:
            answer = await self._link.request("whoami")
        except ProblemError:
            return  # The server can't tell, so the access stays unknown.
        try:
            self._model.link.scopes = tuple(map(str, answer.get("scopes") or ()))
        except UNREADABLE as error:
            self._give_up(error)
            return
        self._model.link.may_write = bool(answer.get("may_write", True))
        self._model.changed(Dirty.LINK)

    async def _ask(self, step: Step) -> None:
        table = self._model.table(step.topic)
        if step.op == "watch" and table is not None:
            table.expect(step.sub)
        try:
            await self._link.request(step.op, sub=step.sub, **step.fields)
        except ProblemError as refused:
            if step.op == "watch" and table is not None:
                table.refusal = str(refused)
                self._model.changed(Dirty.ALL)
            if isinstance(refused, NOT_NOW):
                self._subscriptions.renew(step.topic)
                self._is_put_off = True

    async def _watch_over(self) -> None:
        while True:
            await asyncio.sleep(self._ping_seconds)
            if self._model.link.live:
                await self._ping()
            if self._is_put_off:
                self._is_put_off = False
                self._due.set()

    async def _ping(self) -> None:
        begun = self._model.clock.steady()
        answer: Mapping[str, Any] | None = None
        try:
            async with asyncio.TaskGroup() as group:
                listening = group.create_task(self._listen())
                answer = await self._link.request("ping")
                listening.cancel()
        except* ConnectionFailed:
            pass  # The link itself reports why it is lost.
        except* ProblemError:
            self._recover()  # A refusal, as of a busy server, shows that it is alive.
        except* TimeoutError:
            self._link.reset()
        if answer is None:
            return
        self._recover()
        latency = self._model.clock.steady() - begun
        try:
            self._model.time.correct(datetime.fromisoformat(answer["time"]), round_trip=latency)
            self._model.heard(latency, answer.get("behind") or {})
        except UNREADABLE as error:
            self._give_up(error)

    async def _listen(self) -> None:
        """Mark the server as gone when nothing comes, and as back when it does. Raises `TimeoutError` in the end."""
        silent = 0
        received = self._link.received
        while silent < PATIENCE_PARTS * GIVE_UP_FACTOR:
            await asyncio.sleep(self._patience / PATIENCE_PARTS)
            if received != self._link.received:
                received, silent = self._link.received, 0
                self._recover()
                continue
            silent += 1
            if silent == PATIENCE_PARTS:
                self._is_silent = True
                self._model.lost(f"no answer for {self._ping_seconds + self._patience:.0f} s")
        raise TimeoutError

    def _recover(self) -> None:
        """Resume a connection that had gone silent, and request what was wanted meanwhile."""
        if self._is_silent:
            self._is_silent = False
            self._model.recovered()
            self._due.set()
