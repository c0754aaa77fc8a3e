"""N4: no process that is started takes modules from the current directory, but for the worker's own."""

import ast
import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.cli.worker import load
from treadle.isolation.processes import Child, Children
from treadle.isolation.threads import Lacking

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "packages"
NAMES = ("json", "token", "socket", "asyncio", "runpy", "treadle", "pydantic", "click", "sitecustomize", "textual")


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory whose modules have the names of others, and leave a mark when they are imported."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "sprung"


@pytest.mark.inside
def test_a_dashboard_in_the_browser_takes_nothing_from_the_current_directory(trap: Path) -> None:
    from treadle_tui.web import command_of

    subprocess.run(command_of(["--keys"]), check=True, stdout=subprocess.DEVNULL)

    assert not trap.exists()


@pytest.mark.inside
def test_what_the_demo_and_the_bench_start_takes_nothing_from_the_current_directory(trap: Path, tmp_path: Path) -> None:
    from treadle_bench.children import Children

    with Children(tmp_path, {"PATH": ""}) as children:
        child = children.start("help", "--help")
        child.process.wait(30)

        assert (child.process.returncode, trap.exists()) == (0, False), child.output()


OWN = """
from treadle import task

@task
def where() -> str:
    return __file__
"""


async def test_a_tasks_process_starts_without_the_current_directory_and_then_finds_the_workers_modules(
    trap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    claim = {"id": "t", "run_id": 0, "job_name": "@global:tasks:where", "payload": {}}
    child = await Child.start()
    try:
        ending = await child.run({"run": claim, "origin": {"module": "own"}, "urls": []}, lambda *_: None)
    finally:
        await child.close()

    assert ending.get("result") == str(own), ending
    assert not await asyncio.to_thread(trap.exists)


def test_every_start_of_a_python_in_the_packages_is_told_so() -> None:
    """-P stands behind the interpreter wherever one is started; what is added later is held to it too."""
    starts = []
    for path in PACKAGES.glob("*/src/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            words = getattr(node, "elts", None) or getattr(node, "args", None)
            told = [ast.unparse(word) for word in words] if isinstance(words, list) else []
            if "sys.executable" in told:
                starts.append((path.name, *told[told.index("sys.executable") + 1 :][:1]))

    assert len(starts) >= 4
    assert [start for start in starts if start[1:] not in {("'-P'",), ("'-I'",)}] == []


@pytest.fixture
def removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current directory that is there no more; this repository's modules are found all the same."""
    monkeypatch.syspath_prepend(str(ROOT))
    (tmp_path / "release").mkdir()
    monkeypatch.chdir(tmp_path / "release")
    (tmp_path / "release").rmdir()


@pytest.mark.usefixtures("removed")
async def test_a_tasks_process_starts_though_the_current_directory_was_removed() -> None:
    """As that of a release which the next one has replaced: the run told of limits that were to be raised."""
    claim = {"id": "t", "run_id": 0, "job_name": "@global:tasks:doubles", "payload": {"n": 2}}
    child = await Child.start()
    try:
        message = {"run": claim, "origin": {"module": "tests.worker.jobs"}, "urls": []}
        ending = await child.run(message, lambda *_: None)
    finally:
        await child.close()

    assert ending.get("result") == 4, ending


@pytest.mark.inside
@pytest.mark.usefixtures("removed")
def test_a_worker_of_installed_tasks_starts_where_the_current_directory_was_removed() -> None:
    assert "@global:tasks:hello" in {one.full_name for one in load(("examples.hello",))}


async def test_what_keeps_a_process_from_starting_and_is_no_limit_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    with pytest.raises(Lacking, match=r"could not start a process for the task \(.*No such file or directory.*\)$"):
        await Children().take()
