"""Servers in processes of their own, with what tests of the SDK ask of `treadle_server.testing`."""

import asyncio
import contextlib
import json
import os
import tempfile
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = os.environ["TREADLE_TEST_SERVER"]
"""The `treadle` command of the environment that has the server."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs."""

    url: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class MovableClock:
    """The clock of a server in another process, which can't be moved from here."""


async def run(*arguments: str) -> None:
    """Run a command of the server's environment to its end."""
    process = await _start(*arguments, env={})
    said, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"treadle {' '.join(arguments)} ended with {process.returncode}: {said.decode()}")


@contextlib.asynccontextmanager
async def serve(database_url: str | None = None, **settings: Any) -> AsyncIterator[Served]:
    """Serve during the block; `settings` are the server's."""
    with tempfile.TemporaryDirectory(prefix="treadle-", ignore_cleanup_errors=True) as directory:
        chosen = {"host": "127.0.0.1", "port": 0, "data_dir": directory, "database_url": database_url, **settings}
        env = {f"TREADLE_{name.upper()}": _text(value) for name, value in chosen.items() if value is not None}
        process = await _start("server", env=env)
        assert process.stdout is not None
        draining: asyncio.Future[bytes] | None = None
        try:
            url = await _url_of(process)
            # What else it says is dropped, so that its pipe never fills up.
            draining = asyncio.ensure_future(process.stdout.read())
            yield Served(url, "" if settings.get("auth") == "none" else _token_in(chosen["data_dir"]))
        finally:
            if process.returncode is None:
                process.terminate()
            await (draining or process.stdout.read())
            await process.wait()


@contextlib.contextmanager
def serve_in_thread(
    database_url: str | None = None, *, clock: MovableClock | None = None, **settings: Any
) -> Iterator[Served]:
    """Serve during the block, for tests that are not asynchronous."""
    with asyncio.Runner() as runner:
        serving = serve(database_url, **settings)
        served = runner.run(serving.__aenter__())
        try:
            yield served
        finally:
            runner.run(serving.__aexit__(None, None, None))


async def _start(*arguments: str, env: dict[str, str]) -> Process:
    ours = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    return await asyncio.create_subprocess_exec(COMMAND, *arguments, stdout=PIPE, stderr=STDOUT, env={**ours, **env})


async def _url_of(process: Process) -> str:
    assert process.stdout is not None
    said = []
    async with asyncio.timeout(60):
        async for line in process.stdout:
            said.append(line.decode())
            if said[-1].startswith("Treadle serves "):
                return said[-1].removeprefix("Treadle serves ").strip()
    raise RuntimeError(f"the server did not start: {''.join(said)}")


def _token_in(directory: str | Path) -> str:
    return Path(directory, "token").read_text().strip()


def _text(value: Any) -> str:
    return json.dumps(value, default=str) if isinstance(value, list | tuple) else str(value)
