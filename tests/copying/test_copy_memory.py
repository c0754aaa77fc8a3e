"""A copy needs no memory to speak of, however many tasks there are (F8); `nox -s soak` copies a million."""

import asyncio
import subprocess
import sys

import pytest
import sqlalchemy as sa

from tests.copying.conftest import THERE_AND_BACK, Make
from tests.store.loaded import load_sqlite
from treadle_server.copying.copy import copy_database
from treadle_server.store.store import SqlStore

MOST_MEMORY = 250
"""MB of the process, after each batch: a few tasks take 110 to 130, a million no more."""

_COPY = """
import psutil
from treadle.cli import main
from treadle_server.copying.shown import Progress

most = 0

def look(progress, step):
    global most
    most = max(most, psutil.Process().memory_info().rss)

Progress.__call__ = look
try:
    main()
finally:
    print(most // 1_000_000)
"""


async def migrate(url: str) -> None:
    store = SqlStore(url)
    await store.open()
    await store.close()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "tasks", [pytest.param(20_000, marks=pytest.mark.crossed), pytest.param(1_000_000, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize(("one", "other"), THERE_AND_BACK[1:3])
def test_f8_tasks_are_copied_in_batches(make: Make, one: str, other: str, tasks: int) -> None:
    loaded = here = make("sqlite")
    asyncio.run(migrate(loaded))
    load_sqlite(sa.make_url(loaded).database, tasks)
    if one == "postgres":
        here = make("postgres")
        asyncio.run(copy_database(loaded, here, lambda _: None))

    command = [sys.executable, "-c", _COPY, "copy", here, make(other)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    *lines, memory = done.stdout.splitlines()
    assert f"{tasks:,}" in next(line for line in lines if line.startswith("tasks "))
    assert int(memory) < MOST_MEMORY
