"""`treadle worker`: what it does for the process, which is the worker's own."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from treadle.cli.worker import MOST_NAMED, MOST_NEW, worker
from treadle.worker.worker import Worker

MODULE = "from treadle import task\n\n@task\ndef hello() -> None: ...\n"


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int, bool]]]:
    """What holds for the collector of cycles when the worker starts: two thresholds, and whether anything is frozen."""
    thresholds, path, modules = gc.get_threshold(), list(sys.path), set(sys.modules)
    found: list[tuple[int, int, bool]] = []
    monkeypatch.setattr(Worker, "run", lambda _: found.append((*gc.get_threshold()[:2], gc.get_freeze_count() > 0)))
    monkeypatch.chdir(tmp_path)
    yield found
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    sys.path[:] = path
    for name in {"calm_tasks", "calm_tasks.jobs", "calm_tasks.__init__", "own_tasks"} & (set(sys.modules) - modules):
        del sys.modules[name]


def test_the_collector_looks_seldom_and_not_at_what_was_imported(
    started: list[tuple[int, int, bool]], tmp_path: Path
) -> None:
    (tmp_path / "calm_tasks.py").write_text(MODULE)

    done = CliRunner().invoke(worker, ["calm_tasks"], catch_exceptions=False)

    assert (done.exit_code, started) == (0, [(MOST_NEW, 20, True)])


def test_what_the_module_sets_for_the_collector_stands(started: list[tuple[int, int, bool]], tmp_path: Path) -> None:
    (tmp_path / "own_tasks.py").write_text(f"import gc\ngc.set_threshold(500, 5, 5)\n{MODULE}")

    done = CliRunner().invoke(worker, ["own_tasks"], catch_exceptions=False)

    assert (done.exit_code, started) == (0, [(500, 5, True)])


def test_of_many_tasks_the_first_are_named_and_the_others_counted(
    started: list[tuple[int, int, bool]], tmp_path: Path
) -> None:
    some = "\n".join(f"@task\ndef hello_{n}() -> None: ...\n" for n in range(MOST_NAMED + 1_000))
    (tmp_path / "calm_tasks.py").write_text(f"from treadle import task\n\n{some}")

    done = CliRunner().invoke(worker, ["calm_tasks"], catch_exceptions=False)

    assert len(started) == 1
    assert f"@global:tasks:hello_{MOST_NAMED - 1} and 1,000 more" in done.output
    assert f"hello_{MOST_NAMED}" not in done.output


@pytest.mark.parametrize(
    "words", ["calm_tasks/jobs.py", "./calm_tasks/jobs.py", "calm_tasks/__init__.py", "calm_tasks"]
)
def test_a_module_may_be_named_by_its_file(started: list[tuple[int, int, bool]], tmp_path: Path, words: str) -> None:
    (tmp_path / "calm_tasks").mkdir()
    (tmp_path / "calm_tasks" / "jobs.py").write_text(MODULE)
    (tmp_path / "calm_tasks" / "__init__.py").write_text("from .jobs import hello")

    done = CliRunner().invoke(worker, [words], catch_exceptions=False)

    assert (done.exit_code, len(started)) == (0, 1)
    assert "calm_tasks.__init__" not in sys.modules


@pytest.mark.parametrize(
    ("call", "said"),
    [("sys.exit()", "SystemExit: None"), ("sys.exit('bye')", "SystemExit: bye")],
)
def test_a_module_that_ends_its_process_does_not_end_the_worker_without_a_word(
    started: list[tuple[int, int, bool]], tmp_path: Path, call: str, said: str
) -> None:
    """It went with exit code 0, which a supervisor takes for an end that was meant."""
    (tmp_path / "own_tasks.py").write_text(f"import sys\n{MODULE}\n{call}\n")

    done = CliRunner().invoke(worker, ["own_tasks"])

    assert (done.exit_code, started) == (1, [])
    assert f"own_tasks called sys.exit when it was imported ({said})" in done.output


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("hello.submit_sync()", "no client is open"),
        ("task(5)", "@task decorates functions"),
        ("SyncClient('here:1')", "'here:1' is not a server's address"),
    ],
)
def test_what_goes_wrong_in_a_module_that_is_imported_is_told_with_its_line(
    tmp_path: Path, call: str, said: str
) -> None:
    """Of code that a module ran when it was imported it told the error alone, as if it were the worker's own."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from .jobs import hello")
    (tmp_path / "package" / "jobs.py").write_text(f"from treadle import SyncClient\n{MODULE}{call}\n")
    command = [sys.executable, "-c", "from treadle.cli import main; main()", "worker", "package"]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert f"Error: {tmp_path / 'package' / 'jobs.py'}, line 6: {said}" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--concurrency", "2", "--min-concurrency", "3"],
            "min_concurrency must be from 0 to the concurrency of 2, not 3",
        ),
        (["--drain-grace", "nan"], "Invalid value for '--drain-grace': 'nan' is not a duration"),
    ],
)
@pytest.mark.usefixtures("started")
def test_numbers_that_do_not_fit_are_told_in_a_sentence(tmp_path: Path, options: list[str], message: str) -> None:
    """It ended with a traceback."""
    (tmp_path / "calm_tasks.py").write_text(MODULE)

    done = CliRunner().invoke(worker, ["calm_tasks", *options], catch_exceptions=False)

    assert (done.exit_code, f"Error: {message}" in done.output) == (2, True)
