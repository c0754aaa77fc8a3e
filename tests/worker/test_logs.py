"""A worker's log: as lines or JSON, each with its task, run and worker, once; and others' logging as it was."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from treadle import Client, Worker, logs, task
from treadle_server.testing import Served

MODULE = """
import logging
from treadle import Context, task

log = logging.getLogger("shop")

def work(isolation):
    log.warning("in %s", isolation)
    print("printed")
    raise ValueError(f"no {isolation}")

@task(max_retries=0)
async def in_loop() -> None:
    work("loop")

@task(max_retries=0, isolation="thread")
def in_thread() -> None:
    work("thread")

@task(max_retries=0, isolation="process")
def in_process() -> None:
    work("process")
"""
PLACES = ("loop", "thread", "process")


@asynccontextmanager
async def worker_process(server: Served, directory: Path, *words: str, **environment: str) -> AsyncIterator[Path]:
    """Run a program during the block, and stop it; where its standard error goes."""
    (directory / "shop.py").write_text(MODULE)
    told = directory / "stderr"
    env = {**os.environ, "TREADLE_URL": server.url, "TREADLE_TOKEN": server.token, **environment}
    with told.open("w") as stderr:
        running = await asyncio.create_subprocess_exec(
            sys.executable, *words, cwd=directory, env=env, stderr=stderr, stdout=subprocess.DEVNULL
        )
        try:
            yield told
        finally:
            running.terminate()
            await running.wait()


COMMAND = ("-c", "from treadle.cli import main; main()", "worker", "shop")


async def run(client: Client, job: str) -> str:
    """Run a task of a job as soon as there is one; its id."""

    async def is_there() -> bool:
        return job in [one.full_name async for one in client.jobs()]

    await until(is_there)
    handle = await client.submit_raw(job, {})
    await handle.wait(timeout=60)
    return str(handle.id)


async def fail_everywhere(client: Client) -> dict[str, str]:
    """Run a task in each place, each of which fails; their ids by place."""
    ids: dict[str, str] = {}
    for place in PLACES:
        job = f"@global:tasks:in_{place}"
        ids[place] = await run(client, job)
    return ids


async def test_json_says_of_each_line_what_it_is_of_once_f5(server: Served, client: Client, tmp_path: Path) -> None:
    async with worker_process(server, tmp_path, *COMMAND, TREADLE_LOG_FORMAT="json") as told:
        ids = await fail_everywhere(client)

    lines: list[dict[str, Any]] = [json.loads(line) for line in told.read_text().splitlines()]
    for place in PLACES:
        of = [line for line in lines if line.get("task") == ids[place]]
        [said] = [line for line in of if line["logger"] == "shop"]
        assert (said["event"], said["level"], said["run"]) == (f"in {place}", "warning", 0)
        assert said["job"] == f"@global:tasks:in_{place}"
        [failed] = [line for line in of if line["level"] == "error"]
        assert failed["logger"] == "treadle.worker"
        assert "\n" not in failed["event"]
        assert failed["exception"].startswith("Traceback (most recent call last):")
        assert failed["exception"].endswith(f"ValueError: no {place}")
    [worker] = {line["worker"] for line in lines if line["logger"] in {"shop", "treadle.worker"}}
    assert f"worker {worker} is open for 3 jobs" in {line["event"] for line in lines}


async def test_the_console_has_the_same_behind_its_lines_f5(server: Served, client: Client, tmp_path: Path) -> None:
    async with worker_process(server, tmp_path, *COMMAND) as told:
        ids = await fail_everywhere(client)

    text = told.read_text()
    for place in PLACES:
        [said] = [line for line in text.splitlines() if f"shop: in {place}" in line]
        assert "[worker=" in said
        assert f"task={ids[place]} run=0" in said
        assert text.count(f"ValueError: no {place}") == 1


OWN_LOGGING = """
import logging, os
logging.basicConfig(level=logging.WARNING, format="mine: %(message)s")
before = [*logging.getLogger().handlers]
import shop
from treadle import Worker
try:
    Worker([shop.in_loop, shop.in_thread]).run()
finally:
    assert logging.getLogger().handlers == before, logging.getLogger().handlers
    logging.warning("as it was")
"""


async def test_a_program_that_has_configured_logging_keeps_that(server: Served, client: Client, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_LOGGING)
    async with worker_process(server, tmp_path, "own.py", TREADLE_LOG_FORMAT="json") as told:
        await run(client, "@global:tasks:in_thread")

    lines = told.read_text().splitlines()
    assert lines.count("mine: in thread") == 1
    assert lines[-1] == "mine: as it was"
    assert "ValueError: no thread" in lines


PLAIN = """
import shop
from treadle import Worker
Worker([shop.in_thread]).run()
"""


@pytest.mark.parametrize("wanted", ["json", None])
async def test_a_program_that_has_configured_nothing_gets_a_log_where_the_setting_asks_for_one(
    server: Served, client: Client, tmp_path: Path, wanted: str | None
) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    asked = {"TREADLE_LOG_FORMAT": wanted} if wanted else {}
    async with worker_process(server, tmp_path, "plain.py", **asked) as told:
        task_id = await run(client, "@global:tasks:in_thread")

    lines = told.read_text().splitlines()
    if wanted is None:
        # What matters, as Python writes it where nobody has said how.
        assert lines.count("in thread") == 1
        assert "is open" not in told.read_text()
    else:
        [said] = [one for one in map(json.loads, lines) if one["event"] == "in thread"]
        assert said["task"] == task_id


@contextmanager
def bare_root() -> Iterator[logging.Logger]:
    """The root logger without the handlers of the tests; afterwards as it was."""
    root = logging.getLogger()
    handlers, level, begun = root.handlers[:], root.level, logs.begun()
    root.handlers.clear()
    yield root
    root.handlers[:], logs._begun = handlers, begun
    root.setLevel(level)


def test_a_second_beginning_adds_nothing() -> None:
    with bare_root() as root:
        logs.begin()
        logs.begin("json", logging.DEBUG)

        assert len(root.handlers) == 1
        assert logs.begun() == {"style": "console", "level": logging.INFO}


def test_json_without_structlog_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "structlog", None)
    with bare_root() as root:
        with pytest.raises(logs.NoStructlog, match=r"pip install 'treadle\[logging\]'"):
            logs.begin("json")

        assert root.handlers == []


def test_making_a_worker_changes_no_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_LOG_FORMAT", "json")

    @task
    async def nothing() -> None:
        """Do nothing."""

    with bare_root() as root:
        Worker([nothing])

        assert root.handlers == []
