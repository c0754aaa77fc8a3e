"""Processes that are started without standard input, output and error, as by some that start daemons; cut writes."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.chaos.processes import free_port
from tests.waiting import look_until
from tests.worker.jobs import double, speaks_in_a_process, speaks_in_a_thread
from treadle import Client
from treadle.standard_files import close_unless_written
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
COMMAND = "from treadle.cli import main; main()"
PROGRAM = "from treadle import Worker; from tests.worker.jobs import double; Worker([double]).run()"


@contextmanager
def without_files(environment: dict[str, str], *words: str, files: str = "<&- >&- 2>&-") -> Iterator[None]:
    """Run Python with all three closed during the block; then it is told to end, and must end well."""
    command = ["sh", "-c", f'exec "$0" "$@" {files}', sys.executable, "-c", *words]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | environment)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("words", [[COMMAND, "worker", "tests.worker.jobs"], [PROGRAM]], ids=["command", "program"])
async def test_a_worker_without_standard_files_works_and_ends_well(
    server: Served, client: Client, words: list[str]
) -> None:
    """It was ended by an assertion of uvloop's, SIGABRT, for its own files had their numbers."""
    with without_files({"TREADLE_URL": server.url, "TREADLE_TOKEN": server.token or ""}, *words):
        assert await (await client.submit(double.bind(2))).result(timeout=60) == 4


@pytest.mark.parametrize(
    ("said", "files"),
    [
        ({}, ">/dev/full"),
        ({"TREADLE_LOG_FORMAT": "json"}, "2>/dev/full"),
        ({"TREADLE_NOTHING_READS_THIS": "1"}, "2>/dev/full"),
    ],
    ids=["tasks", "tasks-as-json", "a-warning"],
)
async def test_a_worker_that_can_not_write_what_it_says_at_its_start_works_and_ends_well(
    server: Served, client: Client, said: dict[str, str], files: str
) -> None:
    """The disk of its log is full: it ended with code 1, and came up at no restart."""
    environment = {"TREADLE_URL": server.url, "TREADLE_TOKEN": server.token or "", **said}
    with without_files(environment, COMMAND, "worker", "tests.worker.jobs", files=files):
        assert await (await client.submit(double.bind(2))).result(timeout=60) == 4


async def test_a_worker_whose_tasks_can_not_be_heard_runs_them_and_ends_well(server: Served, client: Client) -> None:
    """The disk of its log was full: each run that printed failed, and the worker ended with code 120."""
    environment = {"TREADLE_URL": server.url, "TREADLE_TOKEN": server.token or "", "TREADLE_LOG_FORMAT": "json"}
    with without_files(environment, COMMAND, "worker", "tests.worker.jobs", files=">/dev/full"):
        for speaks in (speaks_in_a_thread, speaks_in_a_process):
            await (await client.submit(speaks.bind(2))).result(timeout=60)


@pytest.fixture
def served(tmp_path: Path) -> dict[str, str]:
    """The environment of a server of its own."""
    return {"TREADLE_DATA_DIR": str(tmp_path), "TREADLE_PORT": str(free_port())}


def is_well(served: dict[str, str]) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{served['TREADLE_PORT']}/healthz").is_success
    except httpx.TransportError:
        return False


@pytest.mark.inside  # the server is of the environment that has the tests
def test_a_server_without_standard_files_serves_and_ends_well(served: dict[str, str]) -> None:
    with without_files(served, COMMAND, "server"):
        look_until(lambda: is_well(served))


@pytest.mark.inside
@pytest.mark.parametrize("output", ["/dev/full", "unread"])
def test_a_server_whose_output_can_not_be_written_serves_and_ends_well(
    served: dict[str, str], tmp_path: Path, output: str
) -> None:
    """Its log's disk is full, or nobody reads it: it ended with a traceback, and came up at no restart."""
    log, said = tmp_path / "log", tmp_path / output
    if output == "unread":
        os.mkfifo(said)
        reading = os.open(said, os.O_RDONLY | os.O_NONBLOCK)

    with without_files(served, COMMAND, "server", files=f'>"{said}" 2>"{log}"'):
        look_until(log.exists)
        if output == "unread":
            os.close(reading)
        look_until(lambda: "the output can't be written" in log.read_text())
        look_until(lambda: is_well(served))
    assert "Traceback" not in log.read_text()


@pytest.mark.inside
def test_a_server_that_can_not_write_its_warnings_serves_and_ends_well(served: dict[str, str]) -> None:
    """One with a variable that nothing reads came up at no restart while its log's disk was full."""
    with without_files(served | {"TREADLE_NOTHING_READS_THIS": "1"}, COMMAND, "server", files="2>/dev/full"):
        look_until(lambda: is_well(served))


@pytest.mark.inside  # the dashboard has the command that prints so much
@pytest.mark.parametrize("buffering", [[], ["-u"]], ids=["buffered", "unbuffered"])
def test_what_is_printed_is_printed_whole_when_a_signal_cuts_a_write_short(buffering: list[str]) -> None:
    """Unbuffered, as in our image, the rest of a line was lost: a reader of `treadle watch --json` had half of it."""
    from treadle_tui.core.verbs.key_table import key_table
    from treadle_tui.core.verbs.keymap import Keymap

    reading, writing = os.pipe()
    room = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    signalled = f"import signal; signal.signal(signal.SIGUSR1, lambda *_: None); {COMMAND}"

    command = [sys.executable, *buffering, "-c", signalled, "watch", "--keys", "--config", os.devnull]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}

    with subprocess.Popen(command, stdout=writing, env=environment) as process:
        os.close(writing)
        try:
            # It waits for more room in the midst of its one write.
            look_until(lambda: _waits_to_be_read(reading) == room)
            process.send_signal(signal.SIGUSR1)
            with os.fdopen(reading, encoding="utf-8") as pipe:
                printed = pipe.read()
            assert process.wait(60) == 0
        finally:
            process.kill()

    assert printed == key_table(Keymap())


def _waits_to_be_read(pipe: int) -> int:
    count = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_a_stream_that_the_code_has_closed_is_left_as_it_is(tmp_path: Path) -> None:
    """Each command ends so: what a task had closed made a traceback of its worker's end."""
    with (tmp_path / "closed").open("w") as stream:
        close_unless_written(stream)
    close_unless_written(stream)
