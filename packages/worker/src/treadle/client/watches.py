"""Tasks that are watched over the socket: the server pushes each change of theirs to whoever follows them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any

from treadle.client.results import RawTask
from treadle.errors import ConnectionFailed, TreadleError

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


class Watched:
    """What was pushed about a task and not read yet; of several states only the last is kept."""

    def __init__(self, sub: str, task_id: str) -> None:
        self.sub = sub
        self.task_id = task_id
        self.frame: int | None = None
        """The number of the last push; None until a snapshot has arrived."""
        self._states: list[RawTask | None] = []
        self._error: TreadleError | None = None
        self._told = asyncio.Event()

    def tell(self, state: RawTask | None) -> None:
        """Accept a state that was pushed, None for a task that is not visible."""
        self._states = [state]
        self._error = None
        self._told.set()

    def fail(self, error: TreadleError) -> None:
        """Make the waiting reader raise `error`, once."""
        self._error = error
        self._told.set()

    async def state(self) -> RawTask | None:
        """Wait for the next state and return it, None for a task that is not visible. Raises the error of `fail`."""
        await self._told.wait()
        error, self._error = self._error, None
        if error is None or not self._states:
            self._told.clear()
        if error is not None:
            raise error
        return self._states.pop()


class Watches:
    """The watched tasks of one client, one subscription each, which is made again on every new connection."""

    def __init__(self, call: Call, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._call = call
        self._spawn = spawn
        self._watched: dict[str, Watched] = {}
        self._numbers = count(1)

    async def begin(self, task_id: str) -> Watched:
        """Watch a task until `end`; raises `TooManyRequests`, `SocketRefused` and `ConnectionFailed`."""
        watched = Watched(f"task {next(self._numbers)}", task_id)
        self._watched[watched.sub] = watched
        try:
            await self._ask(watched)
        except BaseException:
            self.end(watched)
            raise
        return watched

    def end(self, watched: Watched) -> None:
        """Stop watching a task."""
        if self._watched.pop(watched.sub, None) is not None:
            self._spawn(self._leave(watched))

    def push(self, item: dict[str, Any]) -> None:
        """Accept a snapshot or delta that the server pushed; after a gap, request a new snapshot."""
        watched = self._watched.get(item["sub"])
        if watched is None:
            return
        if item["push"] == "delta" and item["prev"] != watched.frame:
            self._spawn(self._ask_again(watched))
            return
        watched.frame = item["frame"]
        if item["rows"]:
            watched.tell(item["rows"][0])
        elif item["push"] == "snapshot" or item["gone"]:
            watched.tell(None)

    async def again(self) -> None:
        """Subscribe to all watched tasks again, over a new connection."""
        await asyncio.gather(*(self._ask_again(watched) for watched in self._watched.values()))

    def fail(self, error: TreadleError) -> None:
        """Tell everyone who waits that nothing will be pushed."""
        for watched in self._watched.values():
            watched.fail(error)

    def close(self) -> None:
        """End all watches, because the client was closed and nothing will be pushed any more."""
        self.fail(ConnectionFailed("the client was closed before the task ended"))
        self._watched.clear()

    async def _ask(self, watched: Watched) -> None:
        window = {"filter": {"id": watched.task_id}, "limit": 1}
        await self._call("watch", {"sub": watched.sub, "topic": "tasks", "window": window})

    async def _ask_again(self, watched: Watched) -> None:
        try:
            await self._ask(watched)
        except TreadleError as error:
            watched.fail(error)

    async def _leave(self, watched: Watched) -> None:
        try:
            await self._call("unwatch", {"sub": watched.sub})
        except TreadleError:
            return  # The subscription ended with its connection.
