"""The dashboard without a screen: prints every transition as a line of JSON."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from treadle.encryption.fields import opened_task
from treadle.encryption.sealer import Sealer
from treadle.errors import ConnectionFailed, ConnectionLost, ProblemError, TreadleError
from treadle.filters import matches
from treadle.transport.answers import reading
from treadle.wire.filters import TaskFilter
from treadle.wire.ids import is_uuid
from treadle_tui.core.live.feed import Event, Link, Lost, Opened, Pushed
from treadle_tui.core.state.tables import Table


class Stream:
    """Follows a server's events across reconnects. `write` gets each line, `complain` each message for the user.

    `wanted` returns the filter for tasks as of the moment it is called.

    A line `{"type": "reload", …}` marks where events were missed: a reader that keeps state must load it again.
    """

    def __init__(
        self,
        link: Link,
        *,
        write: Callable[[str], None],
        complain: Callable[[str], None],
        room: str | None = None,
        wanted: Callable[[], TaskFilter] | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        self._link = link
        self._write = write
        self._complain = complain
        self._room = room
        self._wanted = wanted
        self._sealer = sealer or Sealer(None)
        self._workers = Table[Mapping[str, Any]]("workers", key="id", read=lambda row: row)
        """The workers, for their names."""
        self._since: dict[str, Any] | None = None
        self.subscribed = asyncio.Event()
        """Set once no event is missed any more."""
        self._complained = ""
        self._opened = asyncio.Event()
        self._heard = asyncio.Event()
        """Set by whatever may bring the workers' names or require asking for them again."""
        self._ended: asyncio.Future[TreadleError | OSError | None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Stream until cancelled or until the reader of the lines is gone.

        Raises `TreadleError` if the server refuses, and `OSError` if a line can't be written.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._link.run(self._take)), group.create_task(self._ask())]
            error = await self._ended
            for task in tasks:
                task.cancel()
        if error is not None:
            raise error

    def _take(self, event: Event) -> None:
        match event:
            case Opened():
                self._complained = ""
                self._opened.set()
                self._heard.set()
            case Lost(detail, is_final=is_final):
                if is_final:
                    self._end(ConnectionFailed(detail))
                elif detail != self._complained:
                    # Every attempt fails with the same message; show it once.
                    self._complained = detail
                    self._complain(f"{detail}; trying again")
            case Pushed(push) if push["push"] == "events":
                for item in push["events"]:
                    self._pass_on(item)
                self._since = {"stream": push["stream"], "seq": push["seq"]}
            case Pushed(push) if push["push"] == "reload":
                self._since = {"stream": push["stream"], "seq": push["seq"]}
                self._line({"type": "reload", "stream": push["stream"], "seq": push["seq"]})
            case Pushed(push):
                self._workers.apply(push)
                self._heard.set()

    async def _ask(self) -> None:
        while True:
            await self._opened.wait()
            self._opened.clear()
            fields: dict[str, Any] = {"on": True}
            if self._room is not None:
                fields["room"] = self._room
            if self._since is not None:
                fields["since"] = self._since
            try:
                if not await self._learn_names():
                    continue
                answer = await self._link.request("every", **fields)
            except ConnectionFailed:
                continue  # The link reports why, and reconnects.
            except ProblemError as error:
                self._end(error)
                return
            self.subscribed.set()
            if self._since is None:
                try:
                    with reading():
                        self._since = {"stream": answer["stream"], "seq": answer["seq"]}
                except ConnectionLost as error:
                    self._end(error)
                    return

    async def _learn_names(self) -> bool:
        """Load the workers, if the filter names one. Return False if the connection was lost meanwhile."""
        if self._wanted is None or all(map(is_uuid, self._wanted().named_workers)):
            return True
        self._workers.expect("workers")
        await self._link.request("watch", sub="workers", topic="workers")
        while not self._workers.ready and not self._opened.is_set():
            self._heard.clear()
            await self._heard.wait()
        return self._workers.ready

    def _pass_on(self, item: Mapping[str, Any]) -> None:
        if self._wanted is None or ("task" in item and matches(self._wanted(), item["task"], workers=self._names())):
            self._line({**item, "task": opened_task(self._sealer, item["task"])} if "task" in item else item)

    def _names(self) -> dict[str, str | None]:
        return {worker_id: worker["name"] for worker_id, worker in self._workers.rows.items()}

    def _line(self, item: Mapping[str, Any]) -> None:
        try:
            self._write(json.dumps(item, separators=(",", ":")))
        except BrokenPipeError:
            self._end(None)
        except OSError as error:
            # Raised inside the session, it would count as a connection error: a reconnect, and the line lost.
            self._end(error)

    def _end(self, error: TreadleError | OSError | None) -> None:
        if not self._ended.done():
            self._ended.set_result(error)
