"""The process behind a page of `treadle watch --web`: it ends with its page, and its page with it."""

import asyncio
from contextlib import suppress

from textual_serve.app_service import AppService

GRACE_SECONDS = 5.0
"""How long a dashboard may take to exit when its page is gone, before it is killed."""


class PageProcess(AppService):
    """textual-serve's process, which neither outlives its page nor leaves it standing."""

    async def run(self) -> None:
        """Show what the dashboard draws until it ends, and close the page then.

        A dashboard that was killed, or could not start, doesn't say goodbye: its last screen would look live.
        """
        await super().run()
        await self.remote_close()

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
