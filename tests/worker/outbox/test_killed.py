"""Processes killed between commit and hand-over, and at every other point: each row becomes a task once (F6, G6)."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from tests import waiting
from tests.chaos.processes import Process, ServerProcess, running_server, stopped_at_the_end
from tests.seed import SEED
from tests.worker.outbox.conftest import async_url, orders, rows, submitted, write
from tests.worker.outbox.processes import POINTS
from treadle import Client

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("point", POINTS)
async def test_f6_g6_a_relay_killed_at_any_point_leaves_each_row_for_once(
    shop: AsyncEngine, server: Any, client: Client, point: str, empty_database_url: str
) -> None:
    await write(shop, range(10))
    command = [sys.executable, "-m", "tests.worker.outbox.processes", "relay", empty_database_url, point]
    environment = {"TREADLE_URL": server.url, "TREADLE_TOKEN": server.token}

    ended = await asyncio.to_thread(run, command, environment)
    left = len(await rows(shop))
    has = len(await submitted(client))
    finished = await asyncio.to_thread(
        run, [sys.executable, "-m", "treadle", "outbox", "--database", plain(empty_database_url), "--once"], environment
    )

    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert (left, has) == {"taken": (10, 0), "handed over": (10, 4), "noted": (10, 4), "committed": (6, 4)}[point]
    assert finished.stdout == f"{left} handed over, 0 refused, 0 left\n", finished.stderr
    assert await submitted(client) == list(range(10))
    assert await rows(shop) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "times"),
    [pytest.param(100, 2, marks=pytest.mark.crossed), pytest.param(10_000, 9, marks=pytest.mark.soak)],
)
async def test_f6_rows_of_programs_and_relays_that_are_killed_become_tasks_once_each(
    tmp_path: Path, shop: AsyncEngine, empty_database_url: str, count: int, times: int
) -> None:
    """A program that commits orders, two relays and the server are killed over and over, each when it has moved on."""
    chance = random.Random(SEED)
    with running_server(tmp_path, f"sqlite:///{tmp_path}/server.db") as server:
        writer = Writer(tmp_path, empty_database_url, count)
        relays = [relay_of(tmp_path, n, server, empty_database_url) for n in range(2)]
        async with Client(server.url, server.token) as client:
            with ExitStack() as stack:
                for process in (writer, *relays):
                    stack.enter_context(stopped_at_the_end(process))
                    process.start()
                kills = 0
                for turn in range(1, times + 1):
                    await until(lambda turn=turn: handed(client, at_least=count * turn // (times + 1)))
                    for doomed in (writer, chance.choice(relays)):
                        if not doomed.has_ended:
                            doomed.kill()
                            doomed.start()
                            kills += 1
                    if turn == 2:
                        server.kill()
                        server.start()
                await until(lambda: handed(client, at_least=count))
                await until(lambda: is_empty(shop))
                assert await writer.ended() == 0
            found = Counter(await submitted(client))

    async with shop.connect() as connection:
        committed = set((await connection.execute(sa.select(orders.c.n))).scalars())
    assert kills >= times
    assert committed == set(range(1, count + 1))
    assert set(found) == committed
    assert set(found.values()) == {1}


class Writer(Process):
    """The program that writes orders."""

    def __init__(self, directory: Path, url: str, count: int) -> None:
        super().__init__(
            ["shop", url, str(count)],
            directory / "shop.log",
            {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        )
        self.run_from("from tests.worker.outbox.processes import main; main()")


def relay_of(directory: Path, n: int, server: ServerProcess, url: str) -> Process:
    """`treadle outbox`."""
    reached = {"TREADLE_URL": server.url, "TREADLE_TOKEN": server.token, "TREADLE_OUTBOX_DATABASE_URL": plain(url)}
    return Process(["outbox", "--batch", "20", "--interval", "0.05"], directory / f"relay{n}.log", reached)


def plain(url: str) -> str:
    """The URL as the relay is given it: of SQLite without an async driver."""
    return url if url.startswith("sqlite") else async_url(url).render_as_string(hide_password=False)


def run(command: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


async def handed(client: Client, *, at_least: int) -> bool:
    return sum((await client.stats()).counts.values()) >= at_least


async def is_empty(shop: AsyncEngine) -> bool:
    return not await rows(shop)


async def until(question: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a number that grows by thousands: longer than for anything else."""
    await waiting.until(question, seconds=900)
