"""What the package shows: its names, what importing them costs, its errors and settings."""

import asyncio
import os
import re
import subprocess
import sys
from asyncio.subprocess import PIPE
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import treadle
from treadle import Worker, errors, task
from treadle.cli.group import OWN
from treadle.client.sync import SyncClient, SyncHandle
from treadle.filters import FilterError
from treadle.logs import NoStructlog
from treadle.settings import InvalidSetting, Settings
from treadle.testing.inline import InlineWorker
from treadle.transport.bearer import Way, bearer_of
from treadle.wire.problems import PROBLEMS
from treadle_server.testing import serve


def test_every_public_name_is_listed_in_order_and_can_be_loaded() -> None:
    assert treadle.__all__ == sorted(treadle.__all__)
    assert set(treadle._HOMES) | {"__version__", "errors"} == set(treadle.__all__)
    for name in treadle.__all__:
        assert getattr(treadle, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        treadle.nothing  # noqa: B018


@pytest.mark.parametrize("name", ["open", "opened"])
def test_of_a_method_that_a_worker_has_not_no_private_one_is_suggested(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client is opened, and a worker is not: Python, up to 3.12, asked whether `_open` was meant."""

    @task
    def nothing() -> None: ...

    place = {"url": "http://127.0.0.1:1", "token": "none"}
    with InlineWorker([nothing], **place) as inline:
        for worker in (Worker([nothing], **place), inline):
            with pytest.raises(AttributeError) as raised:
                getattr(worker, name)
            sys.__excepthook__(raised.type, raised.value, None)

    assert "Did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["treadle", "treadle.wire", "treadle.testing", "treadle.cli"])
def test_importing_loads_neither_httpx_nor_websockets(name: str) -> None:
    script = f"import sys, {name}; print({{'httpx', 'websockets', 'sqlalchemy', 'textual'}} & set(sys.modules))"

    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "set()"


def test_importing_the_client_the_worker_and_the_decorator_loads_no_transport_and_no_settings() -> None:
    """An application that submits a task now and then starts as fast as without; what needs these loads them."""
    later = {"httpx", "websockets", "http.client", "urllib.request", "pydantic_settings", "uuid_utils", "click", "rich"}
    script = f"import sys; from treadle import Client, Worker, task; print({later} & set(sys.modules))"

    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "set()"


def test_importing_the_sdk_builds_no_model_of_what_crosses_the_wire() -> None:
    """Each is built when it is used first: together they were a third of the time that the import took."""
    script = """
from treadle import Client, Worker, task
from treadle.wire.jobs import JobItem
from treadle.wire.tasks import TaskItem, TaskSubmit

print([model.__name__ for model in (JobItem, TaskItem, TaskSubmit) if model.__pydantic_complete__])
"""

    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout == "[]\n"


_ROUND_TRIP = """
import asyncio, sys
from treadle import Client, Context, Worker, task

@task
async def double(ctx: Context, number: int) -> int:
    await ctx.save({"number": number})
    return 2 * number

@task
def triple(number: int) -> int:
    return 3 * number

async def main():
    worker = Worker([double, triple])
    async with Client() as client, asyncio.TaskGroup() as group:
        group.create_task(worker.run_async())
        handles = [await client.submit(one.bind(7)) for one in (double, triple)]
        print([await handle.result(20) for handle in handles], client.is_plain)
        print((await client.get(handles[0].id)).status)
        worker.stop()

asyncio.run(main())
print({"httpx", "httpcore", "click", "rich"} & set(sys.modules))
"""


async def test_a_round_trip_over_the_socket_loads_no_http_library(tmp_path: Path) -> None:
    async with serve(f"sqlite:///{tmp_path / 'treadle.db'}") as served:
        env = {**os.environ, "TREADLE_URL": served.url, "TREADLE_TOKEN": served.token}
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", _ROUND_TRIP, stdout=PIPE, env=env)
        said, _ = await process.communicate()

    assert said.decode().splitlines() == ["[14, 21] False", "completed", "set()"]


def others_loaded(code: str) -> set[str]:
    """Which installed packages beside Treadle's own a program loads."""
    told = "; print(*{name.partition('.')[0] for name in __import__('sys').modules}, file=__import__('sys').stderr)"
    ended = subprocess.run([sys.executable, "-c", f"{code}{told}"], capture_output=True, text=True, check=True)
    return {name for name in ended.stderr.split() if name in installed() and not name.startswith("treadle")}


@cache
def installed() -> frozenset[str]:
    """The names that installed packages are imported by: to find them takes a second."""
    return frozenset(packages_distributions())


def test_importing_the_package_loads_no_other_at_all() -> None:
    """Of what is on its way, by name: how long it takes says how busy the machine is. The bar is 0.25 s."""
    assert others_loaded("import treadle") == set()


def test_help_loads_click_alone() -> None:
    """The bar is 0.3 s."""
    shown = "from treadle.cli.group import treadle; treadle.main(['--help'], standalone_mode=False)"

    assert others_loaded(shown) == {"click"}


def test_the_help_of_a_command_loads_no_transport_and_no_server() -> None:
    """Of all commands, one after the other in the same process: what one of them loads, stays."""
    shown = "from treadle.cli.group import treadle"
    shown += "".join(f"; treadle.main([{name!r}, '--help'], standalone_mode=False)" for name in sorted(OWN))

    heavy = {"httpx", "opentelemetry", "rich", "sqlalchemy", "starlette", "structlog", "textual", "websockets"}
    assert others_loaded(shown) & heavy == set()


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; sys.argv = ['treadle', '--help']\n"
        "from treadle.cli import main\n"
        "try: main()\n"
        "except SystemExit: print({'httpx', 'websockets', 'pydantic', 'sqlalchemy', 'textual'} & set(sys.modules))"
    )

    lines = subprocess.check_output([sys.executable, "-c", script], text=True).splitlines()

    assert lines[-1] == "set()"


def test_each_problem_type_has_its_exception() -> None:
    assert set(errors.BY_NAME) == set(PROBLEMS)
    for name in PROBLEMS:
        error = errors.error_for(errors.problem_named(name, "so it is"))
        assert type(error).name == name
        assert "so it is" in str(error)


def test_the_error_tree_in_the_docstring_names_every_class_but_the_problems() -> None:
    tree = errors.__doc__ or ""
    kinds = [
        value
        for value in vars(errors).values()
        if isinstance(value, type)
        and issubclass(value, errors.TreadleError)
        and value.__base__ is not errors.ProblemError
    ]

    elsewhere = (FilterError, InvalidSetting, NoStructlog)
    assert all(kind.__name__ in tree for kind in (*kinds, *elsewhere))
    assert all(issubclass(kind, errors.TreadleError) for kind in elsewhere)


async def test_the_token_is_the_one_in_the_environment_or_the_local_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TREADLE_TOKEN", raising=False)
    monkeypatch.delenv("TREADLE_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    local = bearer_of(None, Settings())

    assert [way.token for way in await local.ways("http://127.0.0.1:1")] == [None]
    (tmp_path / "treadle").mkdir()
    (tmp_path / "treadle" / "token").write_text("from-file\n")
    assert await local.ways("http://127.0.0.1:1") == [Way("http://127.0.0.1:1", "from-file", "127.0.0.1")]
    monkeypatch.setenv("TREADLE_TOKEN", "from-environment")
    assert await bearer_of(None, Settings()).ways("http://a:1") == [Way("http://a:1", "from-environment")]
    assert "from-environment" not in repr(Settings())


def test_several_urls_are_split_and_a_wrong_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_URL", "http://a:1/, https://b/treadle")

    assert Settings().urls == ("http://a:1", "https://b/treadle")
    assert Settings(url="HTTPS://B/Treadle").urls == ("https://B/Treadle",)
    for wrong in ("ftp://c", "http://c?x=1", "http://c#x", "https://c/a b"):
        with pytest.raises(ValueError, match=f"'{re.escape(wrong)}' is not a server's address"):
            Settings(url=wrong)
    for secret in ("http://me:cret@c", "http://me:cret@c:port", "me:cret@c:1", "postgresql://me:cret@c/tasks"):
        with pytest.raises(ValueError, match="is http://host:port or https://host, without a user") as refused:
            Settings(url=secret)
        assert "cret" not in str(refused.value).partition("[type=")[0]
    with pytest.raises(InvalidSetting, match="no server address was given"):
        treadle.Client(" , ")
    with pytest.raises(InvalidSetting, match="url=5 is not a str: write http://host:port"):
        treadle.Client(5)  # type: ignore[arg-type]


def test_every_setting_is_documented() -> None:
    source = Path(treadle.__file__).with_name("settings.py").read_text()

    for name in Settings.model_fields:
        after = source.split(f"    {name}: ", 1)[1].split("\n", 2)[1]
        assert after.strip().startswith('"""'), f"{name} has no docstring"


def test_the_blocking_client_has_every_method_of_the_asynchronous_one() -> None:
    import inspect

    for theirs, ours in ((treadle.Client, SyncClient), (treadle.TaskHandle, SyncHandle)):
        names = {name for name, value in inspect.getmembers(theirs, inspect.isfunction) if not name.startswith("_")}
        # What is of the event loop alone.
        names -= {"ending", "http", "opening", "request"}
        assert names
        assert names <= set(dir(ours))
