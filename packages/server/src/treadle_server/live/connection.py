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
from treadle_server.live.outbox import FRAME_BYTES, Outbox
from treadle_server.operations.encode import dumps
from treadle_server.operations.encode_claims import run_names
from treadle_server.operations.portions import filled
from treadle_server.operations.problems import sendable

BAD_FRAME = 4400
UNAUTHORIZED = 4401
TOO_SLOW = 4408
GOING_AWAY = 1001
TOO_LARGE = 1009
LATER = 1013
"""Try again later: the same hello may succeed in a moment."""

MOST_REASON = 123
"""Most bytes of a close frame's reason (RFC 6455, 5.5)."""

GOODBYE_SECONDS = 2.0
"""How long a client may take to read what was sent before its session's close frame."""

_numbers = itertools.count(1)


@dataclass(slots=True, eq=False)
class Connection:
    """A session as the pushing side sees it: it may be a worker, a client and an observer at once."""

    socket: WebSocket
    principal: Principal
    token: str | None
    outbox: Outbox
    visibility: Visibility | None = None
    """The rooms that it can read; None means all."""
    number: int = field(default_factory=lambda: next(_numbers))
    worker_id: WorkerId | None = None
    slot: WorkerSlot | None = None
    drains: bool = False
    """Whether its worker knows that it should drain."""
    awaited: set[TaskId] = field(default_factory=set)
    feeds: dict[str, Feed] = field(default_factory=dict)
    opening: Counter[str] = field(default_factory=Counter)
    """The names of subscriptions that are being opened, with how many requests for each."""
    listener: EventListener | None = None
    laden: dict[RunKey, list[Push]] = field(default_factory=dict)
    """Claims that wait until their results and steps have been read, each with the instructions to push after it."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def push(self, kind: Push, **members: Any) -> None:
        """Push a message."""
        self.outbox.put(dumps({"push": kind, **members}))

    def push_of_runs(self, kind: Push, runs: Iterable[RunKey]) -> None:
        """Push an instruction about runs to a worker, for each run after its claim."""
        known: list[RunKey] = []
        for run in runs:
            if run in self.laden:
                self.laden[run].append(kind)
            else:
                known.append(run)
        if known:
            self.push(kind, runs=run_names(known))

    def claimed(self, runs: Iterable[RunKey]) -> None:
        """Push the instructions that waited for these runs' claims, which have been pushed or never will be."""
        for run in runs:
            for kind in self.laden.pop(run, ()):
                self.push(kind, runs=run_names([run]))

    def push_tasks(self, kind: Push, tasks: Iterable[dict[str, Any]]) -> None:
        """Push tasks, in as many messages as keep each frame small."""
        for portion in filled(map(dumps, tasks), FRAME_BYTES, len):
            self.outbox.put(_push_of(kind, portion))

    async def push_as_read(self, kind: Push, tasks: Iterable[dict[str, Any]]) -> None:
        """Push tasks like `push_tasks`, each message when the client has read enough of the previous ones."""
        for portion in filled(map(dumps, tasks), FRAME_BYTES, len):
            await self.outbox.room()
            self.outbox.put(_push_of(kind, portion))

    async def close(self, code: int, reason: str = "") -> None:
        """Close the socket, once, with a code of RFC 6455 and as much of the reason as fits.

        A client that does not read, for example because its network died, is disconnected without waiting any longer.
        """
        if not self.closed.is_set():
            self.closed.set()
            with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self.socket.close(code, fitting(reason))
                return
            drop(self.socket.scope)


def fitting(reason: str) -> str:
    """Return as much of a text as fits into a close frame, in bytes; a longer one could not be sent at all."""
    return sendable(reason).encode()[:MOST_REASON].decode(errors="ignore")


def _push_of(kind: Push, encoded: Iterable[bytes]) -> bytes:
    return dumps({"push": kind})[:-1] + b',"tasks":[' + b",".join(encoded) + b"]}"
