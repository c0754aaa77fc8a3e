"""Feeds the model from a connection: subscribes to what screens want, applies what comes, and notices silence.

What connects, authenticates, numbers requests and reconnects is a `Link`; the real one stands in link.py, tests have
one without a network.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from treadle.errors import NOT_NOW, ConnectionFailed, ProblemError
from treadle.wire.frames import Topic
from treadle_tui.core.live.subscriptions import Step, Subscriptions, Want
from treadle_tui.core.state.model import Dirty, Model

PING_SECONDS = 0.8
"""How often a live connection is asked for a sign of life; with the patience below, death shows within two seconds."""

PATIENCE_SECONDS = 1.1
"""How long nothing at all may come while an answer to that is due, before the server is said to be gone."""

TURNS = 11
"""In how many parts that is waited.

They are what is counted: while this process stands still, over a long list or on a busy machine, it hears nobody.
"""

_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading raises where a server's words are not as they are documented; a moment beyond the years is the first."""

GIVEN_UP = 10
"""How many times as long the connection is kept, on which it may go on.

A server that is busy with what a screen asked for would be asked for it again over the next one, and so for ever.
"""


@dataclass(frozen=True, slots=True)
class Opened:
    """The connection stands; `hello` is the server's answer to ours."""

    hello: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pushed:
    """The server sent something by itself."""

    push: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is gone; the link tries again by itself, also after `refused`."""

    detail: str
    refused: bool = False
    """Whether somebody answers, and opens no session."""
    is_final: bool = False
    """Whether that was a server of ours, whose answer will be the same the next time."""
    denied: bool = False
    """Whether what it refused was the token: it was revoked, has expired, or never was one."""


Event: TypeAlias = Opened | Pushed | Lost


class Link(Protocol):
    """A connection that comes back."""

    async def run(self, sink: Callable[[Event], None]) -> None:
        """Connect, stay connected, and tell `sink` what happens, until cancelled."""

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Return the answer to a request; raises `ProblemError` or `ConnectionFailed`."""

    @property
    def received(self) -> int:
        """How many bytes have come over the present connection: while they grow somebody is there."""

    def reset(self) -> None:
        """Give the present connection up, for it is dead; a new one is made at once."""


class Feed:
    """Keeps a model equal to what the server has of what the screens want to see."""

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
        """Whether something was refused that is to be asked for again."""
        self._is_silent = False
        """Whether the server was said to be gone because nothing came, on a connection that stands."""
        self.asks_access = False
        """Whether each connection is asked what the token may do; a recording is not."""

    def want(self, *wants: Want) -> None:
        """See these from now on, each instead of what its topic shows now."""
        for want in wants:
            if self._subscriptions.want(want):
                self._due.set()

    def drop(self, topic: Topic) -> None:
        """See nothing of a topic any more; its rows are forgotten."""
        if self._subscriptions.drop(topic):
            table = self._model.table(topic)
            if table is not None:
                table.expect(None)
                table.clear()
            self._due.set()

    def leave(self, want: Want) -> None:
        """Let go of what was wanted, unless something else of its topic is by now."""
        if self._subscriptions.wanted(want.topic) == want:
            self.drop(want.topic)

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask the server for something; raises `ProblemError` or `ConnectionFailed`."""
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
        """Let the model follow what happened to the connection or came over it."""
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
        except _UNREADABLE as error:
            self._give_up(error)
            return
        self._subscriptions.forget()
        self._due.set()

    def _give_up(self, error: Exception) -> None:
        self._model.lost(f"the server sent what this version can't read: {error!r:.200}", "refused")
        self._link.reset()

    def _apply(self, push: Mapping[str, Any]) -> None:
        try:
            self._model.apply(push)
        except _UNREADABLE as error:
            # Half a table is a lie: say so, and begin again with new snapshots.
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
            # Being offline is no loss: all of it is asked for again when the link is back.
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
            return  # A server that does not say; then it is not known.
        try:
            self._model.link.scopes = tuple(map(str, answer.get("scopes") or ()))
        except _UNREADABLE as error:
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
            pass  # The link says by itself why it is gone.
        except* ProblemError:
            self._goes_on()  # A server that refuses is there, if busy.
        except* TimeoutError:
            self._link.reset()
        if answer is None:
            return
        self._goes_on()
        latency = self._model.clock.steady() - begun
        try:
            self._model.time.correct(datetime.fromisoformat(answer["time"]), round_trip=latency)
            self._model.heard(latency, answer.get("behind") or {})
        except _UNREADABLE as error:
            self._give_up(error)

    async def _listen(self) -> None:
        """Say that the server is gone when nothing comes, and that it goes on; raises `TimeoutError` in the end."""
        silent = 0
        received = self._link.received
        while silent < TURNS * GIVEN_UP:
            await asyncio.sleep(self._patience / TURNS)
            if received != self._link.received:
                received, silent = self._link.received, 0
                self._goes_on()
                continue
            silent += 1
            if silent == TURNS:
                self._is_silent = True
                self._model.lost(f"no answer for {self._ping_seconds + self._patience:.0f} s")
        raise TimeoutError

    def _goes_on(self) -> None:
        """Go on with the connection that was silent; what was wanted meanwhile is asked for now."""
        if self._is_silent:
            self._is_silent = False
            self._model.goes_on()
            self._due.set()
