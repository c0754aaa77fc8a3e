"""A command whose output nobody reads any more, as before `| head -1`: it ends at once and without a word."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import click
import pytest

from tests.worker.cli.conftest import Command, Shop
from treadle.cli.group import NOT_READ, OWN, treadle
from treadle.cli.group import Command as Named
from treadle.cli.show import say
from treadle_server.testing import Served


@pytest.fixture
def unread() -> Iterator[TextIO]:
    """An end of a pipe at whose other end is nobody; what is left in its buffer fails when it is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        yield stream


WAYS = (
    ["--help"], ["tasks", "--help"], ["--version"], ["tasks"], ["tasks", "--json"], ["jobs"], ["doctor"],
    ["bench", "--list"], ["watch", "--keys"], ["token", "list"],
)  # fmt: skip
"""Each way of printing: click's own, ours, JSON, rich's."""


@pytest.mark.parametrize("words", WAYS, ids=" ".join)
def test_a_command_that_is_not_read_ends_as_by_sigpipe_and_says_nothing(
    words: list[str], command: Command, shop: Shop, unread: TextIO, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shop.submit()
    for name, value in command.environment.items():
        monkeypatch.setenv(name, value)
    told = tmp_path / "stderr"

    with told.open("w") as stderr, monkeypatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr("sys.stdout", unread)
        patch.setattr("sys.stderr", stderr)
        treadle.main(args=words, prog_name="treadle")

    assert (ended.value.code, told.read_text()) == (NOT_READ, "")


@click.command()
def tells_of_each() -> None:
    """Print from two tasks, as `treadle demo` does of those that end."""

    async def tell() -> None:
        say("one has ended")

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(tell())
            group.create_task(tell())

    asyncio.run(both())


@pytest.mark.parametrize(("place", "code"), [(None, NOT_READ), ("/dev/full", 1)])
def test_what_tasks_of_a_group_print_may_not_be_read_either(
    unread: TextIO, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str | None, code: int
) -> None:
    monkeypatch.setitem(OWN, "told", Named("tests.worker.cli.test_group_not_read:tells_of_each", "Tells."))
    told = tmp_path / "stderr"

    with ExitStack() as stack, monkeypatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr("sys.stdout", unread if place is None else stack.enter_context(Path(place).open("w")))
        patch.setattr("sys.stderr", stack.enter_context(told.open("w")))
        treadle.main(args=["told"], prog_name="treadle")

    assert ended.value.code == code
    said = "" if place is None else "Error: the output can't be written: No space left on device\n"
    assert told.read_text() == said


@pytest.mark.parametrize("words", [["tasks"], ["tasks", "--json"], ["--help"], ["token", "list"]], ids=" ".join)
def test_a_full_disk_is_told_in_a_sentence(words: list[str], command: Command) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "treadle", *words],
            env={**os.environ, **command.environment}, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (1, "Error: the output can't be written: No space left on device\n")


@pytest.mark.parametrize("words", [["tasks"], ["tasks", "--json"]], ids=" ".join)
def test_a_command_without_any_output_does_what_it_does(words: list[str], command: Command) -> None:
    script = f"{sys.executable} -m treadle {' '.join(words)} >&-"

    done = subprocess.run(
        script, shell=True, env={**os.environ, **command.environment}, stderr=subprocess.PIPE, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_errors_that_are_not_read_end_it_quietly_too(unread: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr("sys.stderr", unread)
        treadle.main(args=["nothing"], prog_name="treadle")

    assert ended.value.code == NOT_READ


def test_a_stream_of_events_ends_with_its_reader(served: Served, shop: Shop) -> None:
    """The real process: nothing is said at its end by Python itself either."""
    environment = {**os.environ, "TREADLE_URL": served.url, "TREADLE_TOKEN": served.token}
    process = subprocess.Popen(
        [sys.executable, "-m", "treadle", "watch", "--json"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdout.close()
        while process.poll() is None:
            shop.submit()
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue

        assert (process.returncode, process.stderr.read()) == (NOT_READ, b"")
    finally:
        process.kill()
        process.stderr.close()
        process.wait()
