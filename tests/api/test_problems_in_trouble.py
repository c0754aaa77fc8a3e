"""What clients are told when the server, or its database, is in trouble."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from sqlalchemy.exc import OperationalError
from starlette.requests import Request

from tests.api.rooms import Room, make_room, problem, until
from treadle_server.api import meta
from treadle_server.api.problems import problem_response
from treadle_server.errors import DatabaseIsNewer, StoreUnavailable
from treadle_server.settings import Settings
from treadle_server.store.migrations import HEAD
from treadle_server.testing import Served, serve, serve_in_thread


@pytest.mark.parametrize("error", [StoreUnavailable("put it again"), DatabaseIsNewer("a newer one has migrated it")])
def test_whoever_is_told_that_it_is_not_now_is_told_when_to_try_again(error: StoreUnavailable):
    """T8: an upload that a stopping server broke off, and a write beside a newer server, had no word of it."""
    answer = problem_response(error, Request({"type": "http", "path": "/", "headers": []}))

    assert (answer.status_code, int(answer.headers["retry-after"]) >= 1) == (503, True)


async def test_a_database_that_does_not_answer_is_a_503_and_comes_back(
    served: Served, lab: Room, monkeypatch: pytest.MonkeyPatch
):
    """T8: with Retry-After, for reads and for writes, and nothing is changed."""
    store = served.engine.store
    with monkeypatch.context() as broken:

        def connect(*_: object, **__: object) -> object:
            raise OperationalError("connect", {}, OSError("gone"))

        for name in ("_reader", "_writer"):
            broken.setattr(store, name, SimpleNamespace(connect=connect, begin=connect, outdated=None))
        for method, path, given in (
            ("GET", "/v1/tasks", None),
            ("POST", f"/v1/rooms/lab/tasks/{lab.job}", {"payload": {"n": 1}}),
            ("POST", "/v1/tasks/claim", {"worker_id": lab.worker_id}),
        ):
            answer = await lab.client.request(method, path, json=given)
            assert (answer.status_code, problem(answer)) == (503, "store-unavailable"), path
            assert int(answer.headers["retry-after"]) >= 1
        ready = await lab.client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
        assert (await lab.client.get("/healthz")).status_code == 200

    assert (await lab.client.get("/v1/tasks")).json()["total"] == 0
    assert (await lab.submit())["queue_position"] == 1


async def test_who_asks_whether_it_is_ready_is_told_in_time_of_a_database_that_is_silent(
    served: Served, lab: Room, monkeypatch: pytest.MonkeyPatch
):
    """As one whose machine stands still: the answer came with the connection's end, half a minute later."""

    @asynccontextmanager
    async def silent() -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(meta, "PATIENCE", 0)
    monkeypatch.setattr(served.engine.store, "read", silent)

    ready = await lab.client.get("/readyz")

    assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
    assert "has not answered" in ready.json()["services"]["store"]


@pytest.mark.parametrize(("service", "status"), [("artifacts", 200), ("sweeper", 503)])
async def test_a_bucket_that_is_away_takes_no_server_out_of_a_balancer(
    lab: Room, monkeypatch: pytest.MonkeyPatch, service: str, status: int
):
    """A lone server was told to be not ready, though tasks went on; with several it was the one that led."""
    monkeypatch.setattr(meta.OperationContext, "states", lambda _: {"store": "ok", service: "it is away"})

    ready = await lab.client.get("/readyz")

    assert (ready.status_code, ready.json()["services"][service]) == (status, "it is away")


async def test_a_defect_is_a_500_problem_and_is_logged(
    lab: Room, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def broken(*_: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(meta.read_stats, "totals", broken)

    answer = await lab.client.get("/v1/stats")

    assert (answer.status_code, problem(answer)) == (500, "internal-server-error")
    assert "secret" not in answer.text
    assert "a secret detail" in caplog.text


async def test_who_waits_is_let_go_when_the_server_stops():
    async with httpx.AsyncClient(timeout=30) as client:
        async with serve() as served:
            client.base_url = httpx.URL(served.url)
            client.headers.update(served.headers)
            lab, idle = await make_room(client), await make_room(client, "den")
            task = await lab.submit()
            poll = asyncio.create_task(client.get(f"/v1/tasks/{task['id']}", headers={"Prefer": "wait=20"}))
            claim = asyncio.create_task(client.post("/v1/tasks/claim", json={"worker_id": idle.worker_id, "wait": 20}))
            await until(lambda: served.app.state.ctx.waits._events and served.engine.dispatcher._waiting)
            began = time.monotonic()
        assert (await poll).json()["status"] == "pending"
        assert (await claim).status_code == 503
        assert time.monotonic() - began < 15


def test_a_server_runs_in_a_thread_for_what_is_not_asynchronous():
    with serve_in_thread() as served:
        assert httpx.get(f"{served.url}/v1/whoami", headers=served.headers).json()["superuser"] is True


def test_a_server_that_can_not_start_in_a_thread_says_why(tmp_path: Path):
    with pytest.raises(Exception, match="unsupported"), serve_in_thread("mysql://localhost/x", data_dir=tmp_path):
        pass


def test_every_setting_is_documented_and_read_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name, field in Settings.model_fields.items():
        assert field.description, f"{name} has no docstring"
    monkeypatch.setenv("TREADLE_ALLOWED_CATEGORIES", "a, b ,")
    monkeypatch.setenv("TREADLE_PORT", "1234")
    monkeypatch.setenv("TREADLE_DATA_DIR", str(tmp_path))

    settings = Settings()

    assert (settings.allowed_categories, settings.port) == (("a", "b"), 1234)
    assert settings.database_url == f"sqlite:///{tmp_path}/treadle.db"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `treadle` with these arguments to its end; warnings of Python count as output."""
    return subprocess.run(
        [sys.executable, "-m", "treadle", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.crossed)], ids=lambda sent: sent.name
)
def test_the_command_says_where_it_serves_and_a_signal_ends_it_well(sent: signal.Signals, tmp_path: Path):
    # What it logs comes when it comes, between any of these lines: it goes elsewhere.
    log = (tmp_path / "log").open("w+")
    command = [sys.executable, "-m", "treadle", "server", "--port", "0", "--data-dir", str(tmp_path)]
    with log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().removeprefix("Treadle serves ").strip()
            assert str(tmp_path / "treadle.db") in server.stdout.readline()
            assert str(tmp_path / "token") in server.stdout.readline()
            assert httpx.get(f"{url}/healthz").status_code == 200
            second = run("server", "--port", url.rsplit(":", 1)[1], "--data-dir", str(tmp_path))
        finally:
            server.send_signal(sent)
        rest = server.stdout.read() + (tmp_path / "log").read_text()

    assert second.returncode == 1
    assert "Is another server running there?" in second.stdout
    assert "Traceback" not in second.stdout + rest
    assert (server.returncode, "Aborted" in rest) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("server", "--auth", "none", "--host", "0.0.0.0"), "loopback"),
        (("server", "--database-url", "mysql://localhost/x", "--port", "0"), "use sqlite or postgresql"),
        (("server", "--port", "99999"), "Error: --port: "),
        (("migrate", "--database-url", "postgresql://127.0.0.1:1/x"), "does not answer"),
        (("server", "--database-url", "postgresql://127.0.0.1:1/x", "--port", "0"), "does not answer"),
    ],
)
def test_the_command_refuses_what_can_not_be_served(tmp_path: Path, arguments: tuple[str, ...], word: str):
    refused = run(*arguments, "--data-dir", str(tmp_path))

    assert refused.returncode in {1, 2}
    assert word in refused.stdout
    assert "Traceback" not in refused.stdout


_INTERRUPTED = """
import signal
import alembic.command

def interrupted(*given, upgrade=alembic.command.upgrade):
    upgrade(*given)
    signal.raise_signal(signal.SIGINT)

alembic.command.upgrade = interrupted
from treadle.cli import main
main()
"""


def test_ctrl_c_ends_migrate_at_once_and_leaves_sqlites_file_as_it_was(tmp_path: Path):
    """It went on to its end, committed what there is no way back from, and ended as if it had been stopped."""
    words = [sys.executable, "-c", _INTERRUPTED, "migrate", "--data-dir", str(tmp_path)]

    done = subprocess.run(words, capture_output=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (-signal.SIGINT, b"")
    with closing(sqlite3.connect(tmp_path / "treadle.db")) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_migrate_brings_a_database_up_to_date(tmp_path: Path):
    migrated = run("migrate", "--data-dir", str(tmp_path))

    assert (migrated.returncode, migrated.stdout) == (0, "The database is up to date.\n")
    assert (tmp_path / "treadle.db").exists()
    again = json.loads(run("migrate", "--data-dir", str(tmp_path), "--json").stdout)
    assert again == {"database": f"sqlite:///{tmp_path}/treadle.db", "revision": HEAD}
