"""The wheels: what is in them, what they install, and the README's three terminals run from them."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import termios
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.wheels.built import ROOT, Environment, build, metadata, terminals
from tests.worker.cli.pseudo import read_terminal

NAMES = ("treadle", "treadle_bench", "treadle_server", "treadle_tui")

A_WORKER_NEEDS = {"click", "httpx", "pydantic", "pydantic-settings", "treadle", "uuid-utils", "websockets"} | {
    "annotated-types", "anyio", "certifi", "h11", "httpcore", "idna", "pydantic-core", "python-dotenv", "sniffio",
    "typing-extensions", "typing-inspection",
}  # fmt: skip
"""What the SDK imports, and what these need."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.mark.crossed
def test_each_wheel_and_sdist_brings_its_licence_and_tells_what_it_is(dist: Path) -> None:
    for name in NAMES:
        [wheel], [sdist] = dist.glob(f"{name}-[0-9]*.whl"), dist.glob(f"{name}-[0-9]*.tar.gz")
        told = metadata(wheel)

        with zipfile.ZipFile(wheel) as installed, tarfile.open(sdist) as source:
            assert any(file.endswith(".dist-info/licenses/LICENSE") for file in installed.namelist())
            assert {file.partition("/")[0] for file in installed.namelist()} == {name, f"{name}-0.1.0.dist-info"}
            assert f"{name}/py.typed" in installed.namelist()
            assert any(file.count("/") == 1 and file.endswith("/LICENSE") for file in source.getnames())
        assert "\nLicense-Expression: Apache-2.0\n" in told
        assert {"Framework :: AsyncIO", "Typing :: Typed"} <= set(re.findall(r"^Classifier: (.*)$", told, re.MULTILINE))
        assert f"\n# {name.replace('_', '-')}\n" in told
        # An index shows it where no file of the repository is.
        assert not re.findall(r"\]\((?!https://)[^)]*\)", told)


def test_an_index_would_take_them_and_show_their_readmes(dist: Path) -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(dist.glob("*-*")))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.count("PASSED") == 2 * len(NAMES)


def test_the_licence_is_the_same_everywhere() -> None:
    copies = {path.read_text() for path in (ROOT / "LICENSE", *ROOT.glob("packages/*/LICENSE"))}

    assert len(copies) == 1
    assert len([*ROOT.glob("packages/*/LICENSE")]) == len(NAMES)


class Site:
    """A user's machine: a home, a directory with the README's examples, and terminals in it."""

    def __init__(self, home: Path) -> None:
        self._here = home / "here"
        shutil.copytree(ROOT / "examples", self._here / "examples")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TREADLE_", "PYTHON", "XDG"))}
        self.environment = {**kept, "HOME": str(home), "TREADLE_PORT": "0", "TERM": "xterm-256color"}

    @contextmanager
    def terminal(self, installed: Environment, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command until the end of the block, and then stop it by Ctrl-C, which it obeys at once."""
        with subprocess.Popen(
            [installed.scripts / "treadle", *words], cwd=self._here, env={**self.environment, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as running:  # fmt: skip
            try:
                yield running
                running.send_signal(signal.SIGINT)
                assert running.stdout is not None
                rest = running.stdout.read()
                assert (running.wait(), "Aborted" in rest, "Traceback" in rest) == (0, False, False), rest
            finally:
                running.kill()

    def run(self, installed: Environment, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [installed.scripts / "treadle", *words],
            cwd=self._here, env=self.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def on_a_screen(self, installed: Environment, *words: str, until: bytes, then: bytes) -> int:
        """Run a command in a terminal until it shows something, press keys, and return its exit code."""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(ours, (30, 120))
        with subprocess.Popen(
            [installed.scripts / "treadle", *words],
            cwd=self._here, env=self.environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        ) as running:  # fmt: skip
            os.close(theirs)
            seen = b""
            while until not in seen:
                seen += os.read(ours, 65536)
            os.write(ours, then)
            while read_terminal(ours):
                pass
        os.close(ours)
        return running.returncode


def line_with(running: subprocess.Popen[str], words: str) -> str:
    """Read what a command prints until a line with these words, and return that."""
    assert running.stdout is not None
    seen = ""
    for line in running.stdout:
        if words in line:
            return line
        seen += line
    raise AssertionError(f"ended without {words!r}:\n{seen}")


@pytest.mark.soak
def test_the_readmes_three_terminals_run_from_wheels_in_empty_environments(dist: Path, tmp_path: Path) -> None:
    worker = Environment(tmp_path / "worker", dist, "treadle")
    server = Environment(tmp_path / "server", dist, "treadle", "treadle_server")
    dashboard = Environment(tmp_path / "dashboard", dist, "treadle", "treadle_tui")
    site = Site(tmp_path)
    first, second, submit, submit_more, watch = terminals()

    assert worker.installed() <= A_WORKER_NEEDS
    for words, package in ((first, "treadle-server"), (watch, "treadle-tui"), (["demo"], "treadle-bench")):
        refused = site.run(worker, *words)
        assert (refused.returncode, f"pip install {package}" in refused.stderr) == (2, True), refused.stderr

    with ExitStack() as stack:
        serving = stack.enter_context(site.terminal(server, *first))
        site.environment["TREADLE_URL"] = line_with(serving, "Treadle serves ").split()[-1]
        working = stack.enter_context(site.terminal(worker, *second))
        line_with(working, "is open for 2 jobs")
        greeted = site.run(dashboard, *submit)
        assert greeted.stdout == "Hello, World!\n", greeted.stderr
        assert site.run(dashboard, *submit_more).returncode == 0
        assert site.on_a_screen(dashboard, *watch, until=b"count", then=b"q") == 0


@pytest.mark.soak
def test_the_demo_runs_from_wheels_in_an_empty_environment(dist: Path, tmp_path: Path) -> None:
    bench = Environment(tmp_path / "bench", dist, "treadle", "treadle_server", "treadle_bench")
    site = Site(tmp_path)

    shown = site.run(bench, "demo", "examples", "--json")
    cases = site.run(bench, "bench", "--list")

    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["completed"] == len([*(ROOT / "examples").glob("*.py")])
    assert (cases.returncode, "drain" in cases.stdout) == (0, True), cases.stderr
