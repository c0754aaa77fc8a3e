"""The demo from start to end: the processes, the work, and the exit code."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from treadle import Client
from treadle.cli.show import writing
from treadle.loops import ended_by
from treadle.wire.amounts import in_seconds
from treadle_bench.children import Child, Children, without_treadle
from treadle_bench.demo.progress import progress_for
from treadle_bench.demo.report import print_summary
from treadle_bench.demo.summary import Summary
from treadle_bench.demo.work import Work

T = TypeVar("T")

START_SECONDS = 30.0
"""How long the server may take to start."""

LOOK_SECONDS = 0.05
"""How often the processes are checked."""


class DemoFailed(Exception):
    """The demo could not be carried out; the message says why."""


class DemoStopped(Exception):
    """The demo was stopped by a signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What the demo does. `files` are relative to `root`."""

    root: Path
    files: list[str]
    concurrency: int
    workers: int
    keep: Path | None
    is_plain: bool
    is_json: bool

    @property
    def opens_dashboard(self) -> bool:
        """Whether there is a terminal and a dashboard, and the options allow it."""
        has_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        return has_terminal and not self.is_plain and not self.is_json and find_spec("treadle_tui") is not None


def run_demo(options: DemoOptions) -> int:
    """Run the demo and print the summary; return the exit code: 0 if every task has ended and the totals add up.

    Raises `DemoFailed`, and `DemoStopped` or `KeyboardInterrupt` if it was stopped. Nothing is left running.
    """
    with _directory(options.keep) as directory, Children(directory, _environment(directory)) as children:
        summary = asyncio.run(_until_signalled(_demo(options, directory, children)))
    print_summary(summary, kept=options.keep, is_json=options.is_json)
    return 0 if summary.adds_up else 1


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        with writing(keep):
            keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="treadle-demo-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def _environment(directory: Path) -> dict[str, str]:
    """Return the children's environment, without settings for another server."""
    return {**without_treadle(), "TREADLE_DATA_DIR": str(directory), "PYTHONUNBUFFERED": "1"}


async def _until_signalled(demo: Coroutine[Any, Any, T]) -> T:
    """Make Ctrl-C and SIGTERM end the demo cleanly. Raises `DemoStopped`.

    Further signals are ignored: asyncio would raise `KeyboardInterrupt` in the middle of the loop, and what was being
    closed there would never finish.
    """
    running = asyncio.ensure_future(demo)

    def stop() -> None:
        if not running.cancelling():
            running.cancel()

    with ended_by(stop):
        try:
            return await running
        except asyncio.CancelledError:
            raise DemoStopped from None


async def _demo(options: DemoOptions, directory: Path, children: Children) -> Summary:
    url = await _address(children.start("server", "server", "--port", "0"))
    children.environment["TREADLE_URL"] = url
    for number in range(1, options.workers + 1):
        name = f"worker-{number}"
        limits = ("--concurrency", str(options.concurrency), "--drain-grace", "1")
        children.start(name, "worker", "treadle_bench.demo.tasks", "--name", name, *limits)
    token = (directory / "token").read_text().strip()
    async with Client(url, token, room="@global") as client:
        with progress_for(options.files, is_silent=options.opens_dashboard or options.is_json) as progress:
            work = Work(options.root, options.files, progress)
            await _carry_out(work.run(client), children, opens_dashboard=options.opens_dashboard)
    return work.summary()


async def _address(server: Child) -> str:
    """Return the URL that the server reports."""
    try:
        async with asyncio.timeout(START_SECONDS):
            while (url := server.served_url) is None:
                if not server.is_running:
                    raise DemoFailed(f"the server did not start:\n{server.output()}")
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise DemoFailed(f"the server was not ready in {in_seconds(START_SECONDS)}:\n{server.output()}") from None
    return url


async def _carry_out(work: Coroutine[Any, Any, None], children: Children, *, opens_dashboard: bool) -> None:
    """Wait for the dashboard to close, or without one for the work to end. Raises `DemoFailed` if a process dies."""
    working = asyncio.ensure_future(work)
    dashboard = children.open("dashboard", "watch") if opens_dashboard else None
    try:
        while dashboard.is_running if dashboard is not None else not working.done():
            if dashboard is None and (ended := children.first_ended()):
                raise DemoFailed(f"{ended.name} ended by itself:\n{ended.output()[-4000:]}")
            await asyncio.wait({working}, timeout=LOOK_SECONDS)
            if working.done() and dashboard is not None:
                await asyncio.sleep(LOOK_SECONDS)  # the work is done, so `wait` returns at once
        if working.done():
            await working
    finally:
        working.cancel()
