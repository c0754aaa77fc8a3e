"""A client's connection: its identity, its subscriptions, and what it is sent."""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from treadle.wire.frames import Push
from treadle.wire.ids import TaskId, WorkerId
from treadle_server.access.principal import Principal
from treadle_server.access.trust import drop
from treadle_server.domain.tasks import RunKey
from treadle_server.domain.visibility import Visibility
from treadle_server.engine.dispatch.slots import WorkerSlot
from treadle_server.live.events import EventListener
from treadle_server.live.feeds import Feed
from treadle_server.live.outbox import Outbox, portions
from treadle_server.operations.encode import dumps
from treadle_server.operations.encode_claims import run_names
from treadle_server.operations.problems import sendable

BAD_FRAME = 4400
UNAUTHORIZED = 4401
TOO_SLOW = 4408
GOING_AWAY = 1001
TOO_LARGE = 1009
LATER = 1013
"""Nothing is refused: the same opening may do in a moment."""

MOST_REASON = 123
"""Bytes of why a socket is closed (RFC 6455, 5.5)."""

GOODBYE_SECONDS = 2.0
"""How long a client may take to read what was sent before it is told that its session ends."""

_numbers = itertools.count(1)


@dataclass(slots=True, eq=False)
class Connection:
    """What sessions are to those who push to them: a worker, a client and an observer, as far as it is each."""

    socket: WebSocket
    principal: Principal
    token: str | None
    outbox: Outbox
    visibility: Visibility | None = None
    """Which rooms are read; None: all."""
    number: int = field(default_factory=lambda: next(_numbers))
    worker_id: WorkerId | None = None
    slot: WorkerSlot | None = None
    drains: bool = False
    """Whether its worker knows that it is to take no more."""
    awaited: set[TaskId] = field(default_factory=set)
    feeds: dict[str, Feed] = field(default_factory=dict)
    opening: Counter[str] = field(default_factory=Counter)
    """The names of subscriptions that are asked for and not there yet, each as often as it is."""
    listener: EventListener | None = None
    laden: dict[RunKey, list[Push]] = field(default_factory=dict)
    """Claims that are not pushed yet, for what they carry is being read, each with what is to be told behind it."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def push(self, kind: Push, **members: Any) -> None:
        """Send something by itself."""
        self.outbox.put(dumps({"push": kind, **members}))

    def push_of_runs(self, kind: Push, runs: Iterable[RunKey]) -> None:
        """Tell a worker something of its runs, of each of them behind its claim."""
        known: list[RunKey] = []
        for run in runs:
            if run in self.laden:
                self.laden[run].append(kind)
            else:
                known.append(run)
        if known:
            self.push(kind, runs=run_names(known))

    def claimed(self, runs: Iterable[RunKey]) -> None:
        """Tell what waited for the claims of these runs: they were pushed, or are not going to be."""
        for run in runs:
            for kind in self.laden.pop(run, ()):
                self.push(kind, runs=run_names([run]))

    def push_tasks(self, kind: Push, tasks: Iterable[dict[str, Any]]) -> None:
        """Send tasks by itself, in as many pushes as keep each frame small."""
        for portion in portions(dumps(task) for task in tasks):
            self.outbox.put(_push_of(kind, portion))

    async def push_as_read(self, kind: Push, tasks: Iterable[dict[str, Any]]) -> None:
        """Send tasks like `push_tasks`, each when the reader has read enough of what was put in before it."""
        for portion in portions(dumps(task) for task in tasks):
            await self.outbox.room()
            self.outbox.put(_push_of(kind, portion))

    async def close(self, code: int, reason: str = "") -> None:
        """Close the socket, once, with a code of RFC 6455 and as much of why as fits.

        A client that does not read, as one whose network died, can't be told, and keeps nobody waiting.
        """
        if not self.closed.is_set():
            self.closed.set()
            with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self.socket.close(code, fitting(reason))
                return
            drop(self.socket.scope)


def fitting(reason: str) -> str:
    """Return as much of a text as fits into a close frame: its bytes count, and a longer one is not sent at all."""
    return sendable(reason).encode()[:MOST_REASON].decode(errors="ignore")


def _push_of(kind: Push, encoded: Iterable[bytes]) -> bytes:
    return dumps({"push": kind})[:-1] + b',"tasks":[' + b",".join(encoded) + b"]}"
