"""`treadle worker --reload`: real processes, whose code is changed while they serve it."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tests.waiting import look_until, until
from treadle import Client
from treadle.cli.reloading import ENDING, Reloader
from treadle.cli.worker import worker
from treadle.errors import JobNotFound
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio

MODULE = """
import asyncio
from pathlib import Path

from treadle import task

@task
def changing_word() -> str:
    return "WORD"

@task
async def changing_wait(path: str) -> str:
    while not Path(path).exists():
        await asyncio.sleep(0.2)  # what stops it comes first
    return "WORD"
"""


class Site:
    """A directory with a module of tasks, and what is begun in it; `options` are of `subprocess.Popen`."""

    def __init__(self, place: Path, served: Served) -> None:
        self.place = place
        self.log = place / "log"
        token = served.token or ""
        self._environment = os.environ | {"TREADLE_URL": served.url, "TREADLE_TOKEN": token, "PYTHONUNBUFFERED": "1"}
        self.write("one")

    def write(self, word: str) -> None:
        """Have the module say another word, by a file that takes the other's place, as editors write.

        The word is to be of another length than the one before: what Python compiled it takes for current as long as
        the module has its size and was changed within the same second.
        """
        self.put(MODULE.replace("WORD", word))

    def put(self, code: str) -> None:
        (self.place / "new").write_text(code)
        (self.place / "new").replace(self.place / "changing_tasks.py")

    @contextmanager
    def begun(self, *words: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "treadle", "worker", "--reload", *words, "changing_tasks"]
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                command,
                **({"stdin": subprocess.DEVNULL, "stderr": log} | options),
                stdout=log,
                cwd=self.place,
                env=self._environment,
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(90)


@pytest.fixture
def site(tmp_path: Path, served: Served) -> Site:
    return Site(tmp_path, served)


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    async with Client(served.url, served.token) as client:
        yield client


async def ran(client: Client) -> str:
    """Run the task that says a word; its job is gone while no worker has it."""

    async def submitted() -> Any:
        try:
            return await client.submit_raw("@global:tasks:changing_word", {})
        except JobNotFound:
            return None

    handle = await until(submitted)
    result: str = await handle.result(timeout=90)
    return result


async def states(client: Client) -> dict[str, str]:
    """What the workers of this module are doing, by their names."""
    return {one.name: one.state for one in await client.workers() if "@global:tasks:changing_word" in one.jobs}


def watches(process: subprocess.Popen[bytes]) -> bool:
    """Whether it still looks for changes: it has handled no signal that ends it then."""
    return any(_kind(opened) == "anon_inode:inotify" for opened in Path(f"/proc/{process.pid}/fd").iterdir())


def _kind(opened: Path) -> str:
    try:
        return str(opened.readlink())
    except FileNotFoundError:
        return "closed meanwhile"


async def test_a_change_of_code_lets_what_runs_end_and_is_what_runs_from_then_on(
    site: Site, client: Client, tmp_path: Path
) -> None:
    with site.begun("--name", "dev", "-c", "3", "--drain-grace", "60") as process:
        assert await ran(client) == "one"
        running = await client.submit_raw("@global:tasks:changing_wait", {"path": str(tmp_path / "there")})
        await until(running.status, lambda status: status == "running")
        site.write("second")
        assert await until(partial(states, client), lambda found: found == {"dev": "draining"})
        (tmp_path / "there").touch()
        assert await running.result(timeout=90) == "one"
        assert await ran(client) == "second"

        site.put("def (")
        look_until(lambda: "it restarts when code changes" in site.log.read_text())
        site.write("three")
        assert await ran(client) == "three"

        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 0
    log = site.log.read_text()
    assert log.count("changing_tasks.py has changed: the worker finishes its running tasks and restarts") == 3
    assert ("SyntaxError" in log, await states(client)) == (True, {})


async def test_a_worker_that_ends_by_itself_is_not_begun_anew(site: Site, client: Client) -> None:
    with site.begun("--name", "asked") as process:
        assert await ran(client) == "one"
        [asked] = [one for one in await client.workers() if one.name == "asked"]
        await client.drain_worker(asked.id)
        assert process.wait(90) == 0


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGHUP])
async def test_a_signal_that_it_alone_gets_is_handed_on(site: Site, client: Client, told: signal.Signals) -> None:
    with site.begun() as process:
        assert await ran(client) == "one"
        process.send_signal(told)
        assert process.wait(90) == 0


@pytest.fixture(params=["stdin"])
def typed(request: pytest.FixtureRequest, site: Site) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The process as one begins it in a terminal that is one of its streams, and what is typed there."""
    keys, terminal = os.openpty()
    with ExitStack() as opened:
        opened.callback(os.close, keys)
        opened.callback(os.close, terminal)
        is_its_own = partial(fcntl.ioctl, terminal, termios.TIOCSCTTY, 0)
        streams = {request.param: terminal}
        begun = site.begun("--name", "typed", **streams, start_new_session=True, preexec_fn=is_its_own)
        yield opened.enter_context(begun), keys


@pytest.mark.parametrize("typed", ["stdin", "stderr"], indirect=True)
async def test_a_key_that_all_get_leaves_the_worker_its_grace(
    typed: tuple[subprocess.Popen[bytes], int], client: Client, tmp_path: Path
) -> None:
    """A second signal would end it, and hand back what runs."""
    process, keys = typed
    assert await ran(client) == "one"
    running = await client.submit_raw("@global:tasks:changing_wait", {"path": str(tmp_path / "there")})
    await until(running.status, lambda status: status == "running")
    os.write(keys, b"\x03")
    await until(partial(states, client), lambda found: found == {"typed": "draining"})
    look_until(lambda: not watches(process))
    (tmp_path / "there").touch()
    assert process.wait(90) == 0
    assert await running.result(timeout=90) == "one"
    assert len(await running.runs()) == 1


async def test_a_signal_that_is_no_key_ends_the_worker_when_it_comes_again(
    typed: tuple[subprocess.Popen[bytes], int], client: Client
) -> None:
    process, _ = typed
    assert await ran(client) == "one"
    process.send_signal(signal.SIGINT)
    look_until(lambda: not watches(process))
    assert await states(client) == {"typed": "online"}
    process.send_signal(signal.SIGINT)
    assert process.wait(90) == 0


def test_without_what_watches_files_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)

    done = CliRunner().invoke(worker, ["changing_tasks", "--reload"])

    assert (done.exit_code, done.output.splitlines()[-1]) == (
        2,
        "Error: --reload needs watchfiles, which is not installed: pip install 'treadle[reload]'",
    )


def test_directories_alone_change_nothing_and_are_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(worker, ["changing_tasks", "--reload-dir", str(tmp_path)])

    assert (done.exit_code, "--reload-dir: only with --reload" in done.output) == (2, True)


@pytest.fixture
def handlers() -> Iterator[None]:
    """The handlers of signals that a command leaves behind, as it ends its process, are not those of other tests."""
    before = {one: signal.getsignal(one) for one in ENDING}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.usefixtures("handlers")
def test_what_can_not_be_watched_is_told_alone_and_leaves_no_worker(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reloader = Reloader(["--help"], [tmp_path / "gone"])
    with pytest.raises(click.ClickException, match="can't be watched for changes"):
        reloader.run()
    for thread in threading.enumerate():
        if thread.name == "treadle-reload":
            thread.join()

    assert capfd.readouterr() == ("", "")
