"""The process behind a page of `treadle watch --web`: it ends with its page, and its page with it."""

import asyncio
import sys
from contextlib import suppress
from typing import Any

from textual_serve.app_service import AppService

from treadle.wire.shown import clean_lines
from treadle_tui.typed import Typed

GRACE_SECONDS = 5.0
"""How long a dashboard may take to exit when its page is gone, before it is killed."""


class PageProcess(AppService):
    """textual-serve's process, which neither outlives its page nor leaves it standing."""

    def __init__(self, command: str, **options: Any) -> None:
        """Take the same arguments as textual-serve's."""
        super().__init__(command, **options)
        self._typed = Typed()

    async def send_bytes(self, data: bytes) -> bool:
        """Pass on what was typed or pasted, as a terminal's driver takes it: escapes in a pasted text are no keys."""
        text = self._typed.read(data)
        # The dashboard's parser takes an empty text for the end of input.
        return await super().send_bytes(text.encode()) if text else True

    async def run(self) -> None:
        """Show what the dashboard draws until it ends, tell what it complained of, and close the page then.

        A dashboard that was killed, or could not start, doesn't say goodbye: its last screen would look live.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        _, complaint = await asyncio.gather(self._show(self._process.stdout), self._process.stderr.read())
        sys.stderr.write(clean_lines(complaint.decode(errors="replace"), indent=""))
        await self.remote_close()

    async def _show(self, drawn: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await drawn.readuntil(b"__GANGLION__\n")
            while True:
                kind, size = await drawn.readexactly(1), int.from_bytes(await drawn.readexactly(4), "big")
                payload = await drawn.readexactly(size)
                match kind:
                    case b"D":
                        await self.on_data(payload)
                    case b"M":
                        await self.on_meta(payload)
                    case b"P":
                        await self.on_packed(payload)

    async def on_data(self, payload: bytes) -> None:
        """Show what was drawn. What a lost page misses is read as well: a dashboard can't exit while it writes."""
        with suppress(ConnectionError):
            await super().on_data(payload)

    async def stop(self) -> None:
        """Tell the dashboard to exit and wait until it has. One that is stuck is killed."""
        killing = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._kill)
        try:
            await super().stop()
            if self._process is not None:
                await self._process.wait()
        finally:
            killing.cancel()

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
