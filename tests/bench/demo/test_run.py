"""`treadle demo`, as a process of its own: its counts, its failures, and that it leaves nothing running."""

import ast
import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import SECONDS
from treadle_bench.children import without_treadle
from treadle_bench.demo.sources import python_files, standard_library

BROKEN = {
    "broken/brackets.py": b"f = (1,\n",
    "broken/indent.py": b"def f():\nreturn 1\n",
    "broken/coding.py": b"# -*- coding: no-such-thing -*-\n",
}
SOUND = {
    "package/__init__.py": b'"""A docstring\nof two lines."""\n',
    "package/a.py": b"import os\nfrom sys import path\n\n\nclass A:\n    def f(self):\n        # why\n        pass\n",
    "top.py": b"async def g():\n    def inner():\n        pass\n",
    "empty.py": b"",
    "token.py": b"raise RuntimeError('not the one from the standard library')\n",
}
ELSEWHERE = {
    "TREADLE_URL": "http://127.0.0.1:9",
    "TREADLE_TOKEN": "wrong",
    "TREADLE_DATABASE_URL": "sqlite:////no/x.db",
}
COMMAND = (sys.executable, "-c", "from treadle.cli import main; main()", "demo")
NO_TREADLE = without_treadle()


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("demo") / "sources"
    for name, content in {**BROKEN, **SOUND, "site-packages/other.py": b"x = 1\n"}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def run_demo(*arguments: str | Path, **where: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", *COMMAND[1:], *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, **{"env": NO_TREADLE, **where}
    )


@pytest.fixture(scope="module")
def done(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """A demo that ran where settings are for another server, and a file has the name of a module that it needs."""
    return run_demo(".", "--json", "--keep", sources.parent / "kept", cwd=sources, env={**NO_TREADLE, **ELSEWHERE})


def files_that_do_not_parse(root: Path) -> set[str]:
    broken = set()
    for name in python_files(root):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ast.parse((root / name).read_bytes())
            except (SyntaxError, ValueError):
                broken.add(name)
    return broken


def test_the_counts_add_up_and_the_failures_are_the_files_that_do_not_parse(
    done: subprocess.CompletedProcess[str], sources: Path
) -> None:
    [line] = done.stdout.splitlines()  # a line for programs, as of every command
    summary = json.loads(line)
    assert (done.returncode, done.stderr) == (0, "")
    assert summary["files"] == len(BROKEN) + len(SOUND)
    assert set(summary["failures"]) == set(BROKEN) == files_that_do_not_parse(sources)
    assert (summary["completed"], summary["failed"], summary["open"]) == (len(SOUND), len(BROKEN), 0)
    assert sum(summary["errors"].values()) == len(BROKEN)
    assert (sources.parent / "kept" / "treadle.db").stat().st_size > 0


def test_the_last_task_adds_up_what_the_others_found(done: subprocess.CompletedProcess[str]) -> None:
    assert json.loads(done.stdout)["totals"] == {
        "files": 5,
        "size": sum(map(len, SOUND.values())),
        "lines": 2 + 8 + 3 + 1,
        "code_lines": 2 + 5 + 3 + 1,
        "functions": 1 + 2,
        "classes": 1,
        "imports": 2,
    }


def test_without_a_terminal_it_prints_lines_and_tables_and_no_escape_sequence(sources: Path) -> None:
    done = run_demo(sources)

    assert done.returncode == 0
    assert re.search(r"^ *8 of 8 tasks have ended$", done.stdout, re.MULTILINE)
    assert re.search(r"completed\W+5\b", done.stdout)
    assert re.search(r"failed\W+3\b", done.stdout)
    assert "\x1b" not in done.stdout


def test_what_is_kept_is_said_to_be_where_the_server_and_who_asks_it_find_it(sources: Path, tmp_path: Path) -> None:
    done = run_demo(sources / "empty.py", "--keep", "a place", cwd=tmp_path)

    *_, last = done.stdout.splitlines()
    where = f"TREADLE_DATA_DIR='{tmp_path}/a place'"
    assert last == f"Kept. To look at it again: {where} treadle server, and in another terminal {where} treadle watch"
    assert (tmp_path / "a place/token").is_file()
    assert "1 file " in done.stdout


def test_settings_for_another_server_and_files_of_the_current_directory_do_not_disturb_it(
    done: subprocess.CompletedProcess[str], sources: Path
) -> None:
    assert (sources / "token.py").read_bytes().startswith(b"raise RuntimeError")
    assert done.returncode == 0, done.stderr


def test_a_directory_without_python_files_is_refused(tmp_path: Path) -> None:
    done = run_demo(tmp_path)

    assert done.returncode == 2
    assert "there are no Python files under" in done.stderr


def test_too_few_open_files_are_a_sentence(sources: Path) -> None:
    few = (10, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    refused = run_demo(sources, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, few))

    assert refused.returncode == 1
    assert refused.stderr == (
        "Error: Too many open files: the system allows fewer than this command needs; raise `ulimit -n`\n"
    )


def test_the_standard_library_is_found_without_installed_packages() -> None:
    files = python_files(standard_library())

    assert "ast.py" in files
    assert not [name for name in files if "site-packages" in name or "dist-packages" in name]


@contextmanager
def demo_at_work(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A demo of the standard library whose first tasks have ended, with the processes that it started."""
    with tempfile.TemporaryDirectory() as directory:
        yield from _demo_at_work(directory, arguments)


def _demo_at_work(
    directory: str, arguments: tuple[str, ...]
) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    # What a demo that was killed can't clean up goes with the directory.
    env = {**NO_TREADLE, "TMPDIR": directory}
    demo = subprocess.Popen([*COMMAND, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert demo.stdout is not None
        assert "tasks have ended" in demo.stdout.readline()
        yield demo, psutil.Process(demo.pid).children(recursive=True)
    finally:
        demo.kill()
        demo.communicate()


def assert_all_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=SECONDS)
    assert alive == []


@pytest.mark.crossed
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_and_leaves_nothing_running(sent: signal.Signals) -> None:
    with demo_at_work() as (demo, processes):
        assert len(processes) == 3

        demo.send_signal(sent)

        assert demo.wait(SECONDS) == 130
        assert_all_gone(processes)
        assert demo.stderr is not None
        assert "nothing is left running" in demo.stderr.read()


@pytest.mark.crossed
@pytest.mark.parametrize("between", [0.005, 0.1])
def test_a_second_ctrl_c_leaves_no_processes_and_no_traceback_behind(between: float) -> None:
    """Whatever it is about to close when the second one comes."""
    with demo_at_work() as (demo, processes):
        demo.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            demo.wait(between)
        demo.send_signal(signal.SIGINT)

        assert demo.wait(SECONDS) == 130
        assert_all_gone(processes)
        assert demo.stderr is not None
        assert "Traceback" not in demo.stderr.read()


def test_kill_9_takes_its_processes_along() -> None:
    with demo_at_work() as (demo, processes):
        demo.kill()

        assert_all_gone(processes)


@pytest.mark.crossed
def test_a_lost_server_ends_the_demo_and_says_so() -> None:
    with demo_at_work() as (demo, processes):
        server = next(process for process in processes if "server" in process.cmdline())

        server.kill()

        assert demo.wait(SECONDS) == 1
        assert_all_gone(processes)
        assert demo.stderr is not None
        assert "server ended by itself" in demo.stderr.read()
