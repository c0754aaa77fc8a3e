"""The dashboard without a screen: every transition as one JSON object a line."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from treadle.errors import ConnectionFailed, ProblemError, TreadleError
from treadle.filters import matches
from treadle.wire.tasks import TaskFilter
from treadle_tui.core.live.feed import Event, Link, Lost, Opened, Pushed


class Stream:
    """Follows a server's events over broken connections; `write` gets each line, `complain` what people should know.

    Where events were missed a line `{"type": "reload", …}` says so: whoever keeps state must read it anew.
    """

    def __init__(
        self,
        link: Link,
        *,
        write: Callable[[str], None],
        complain: Callable[[str], None],
        room: str | None = None,
        wanted: TaskFilter | None = None,
    ) -> None:
        self._link = link
        self._write = write
        self._complain = complain
        self._room = room
        self._wanted = wanted
        self._since: dict[str, Any] | None = None
        self.subscribed = asyncio.Event()
        """Set once nothing that happens is missed any more."""
        self._complained = ""
        self._opened = asyncio.Event()
        self._ended: asyncio.Future[TreadleError | None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Stream until cancelled or the reader of the lines is gone; raises `TreadleError` when the server refuses."""
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
            case Lost(detail, is_final=is_final):
                if is_final:
                    self._end(ConnectionFailed(detail))
                elif detail != self._complained:
                    # Every attempt fails with the same words; people need them once.
                    self._complained = detail
                    self._complain(f"{detail}; trying again")
            case Pushed(push) if push["push"] == "events":
                for item in push["events"]:
                    self._pass_on(item)
                self._since = {"stream": push["stream"], "seq": push["seq"]}
            case Pushed(push) if push["push"] == "reload":
                self._since = {"stream": push["stream"], "seq": push["seq"]}
                self._line({"type": "reload", "stream": push["stream"], "seq": push["seq"]})
            case Pushed():
                pass

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
                answer = await self._link.request("every", **fields)
            except ConnectionFailed:
                continue  # The link says by itself why, and opens again.
            except ProblemError as error:
                self._end(error)
                return
            self.subscribed.set()
            if self._since is None:
                self._since = {"stream": answer["stream"], "seq": answer["seq"]}

    def _pass_on(self, item: Mapping[str, Any]) -> None:
        if self._wanted is None or ("task" in item and matches(self._wanted, item["task"])):
            self._line(item)

    def _line(self, item: Mapping[str, Any]) -> None:
        try:
            self._write(json.dumps(item, separators=(",", ":")))
        except BrokenPipeError:
            self._end(None)

    def _end(self, error: TreadleError | None) -> None:
        if not self._ended.done():
            self._ended.set_result(error)
