"""What the pages show runs: every block compiles, and whole programs among them do what they do, at a real server.

A block is a whole program when it uses no name that it has not been given. The others are fragments: what they lack is
a name of Treadle's, one that a block before them has given, or one that is listed here. There may be fewer of them than
of programs.
"""

import ast
import asyncio
import importlib.util
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import treadle
from tests.docs.blocks import COROUTINES, ROOT, Block, blocks, compiles, defined, unknown
from treadle.tasks.registry import collect

PYTHON = list(blocks("python"))
OURS = [block for block in PYTHON if block.title is None]
THEIRS = [block for block in PYTHON if block.title is not None]
PARTS = [block for block in PYTHON if block.lines]
READ = [block for block in OURS if block.lines is None and compiles(block.code)]
PROGRAMS = [block for block in READ if block.file is None and not unknown(block.code)]
MODULES = [block for block in PROGRAMS if "def test_" not in block.code and "await Client().open()" not in block.code]
TESTS = [block for block in PROGRAMS if "def test_" in block.code]
CELLS = [block for block in PROGRAMS if block not in MODULES + TESTS]

OTHERS = {
    "docs/artifacts.md": {"pieces", "handle"},
    "docs/filters.md": {"client"},
    "docs/frameworks.md": {"FastAPI", "AsyncIterator", "asynccontextmanager", "app"},
    "docs/guides/scripts.md": set[str](),
    "docs/internal.md": set[str](),
    "docs/tasks.md": {"open_database", "report"},
}
"""The pages that have fragments, and what these lack that is neither Treadle's nor defined before."""


STANDING_IN = {"links", "read", "convert", "keep"}
"""What the page says in words that code of other systems takes from elsewhere."""


def named(several: list[Block]) -> dict[str, Any]:
    return {"argvalues": several, "ids": [block.name for block in several]}


@pytest.mark.parametrize("block", **named(PYTHON))
def test_every_block_of_python_compiles(block: Block) -> None:
    compile(block.code, block.name, "exec", flags=COROUTINES)


def test_fragments_lack_only_what_their_page_has_told() -> None:
    lacking: dict[str, set[str]] = {}
    told: dict[str, set[str]] = {}
    for block in READ:
        before = told.setdefault(block.page, {*treadle.__all__})
        if missing := unknown(block.code):
            lacking.setdefault(block.page, set()).update(missing - before)
        before |= defined(block.code)

    assert lacking == OTHERS, "a program that lacks a name is no fragment: give it the name"


def test_there_are_more_programs_than_fragments() -> None:
    fragments = [block for block in READ if unknown(block.code)]

    assert len(fragments) < len(OURS) / 2


@pytest.mark.parametrize("block", **named([block for block in PYTHON if block.file]))
def test_files_that_pages_show_are_examples_with_tests_of_their_own(block: Block) -> None:
    assert (ROOT / str(block.file)).is_file()
    assert str(block.file).startswith("examples/")


@pytest.mark.parametrize("block", **named(PARTS))
def test_lines_that_pages_show_are_whole_statements_of_their_file(block: Block) -> None:
    """So an edit of the example that moves them is noticed."""
    assert block.lines is not None
    wanted = range(block.lines[0], block.lines[1] + 1)
    tree = ast.parse((ROOT / str(block.file)).read_text()).body
    starts = {min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))]) for node in tree}

    assert wanted[0] in starts
    assert wanted[-1] in {node.end_lineno for node in tree}


@pytest.mark.parametrize("block", **named(THEIRS))
def test_code_for_other_systems_lacks_only_what_is_told_beside_it(block: Block) -> None:
    """It has a title, names the system's package, and takes the rest from the example that stands before it."""
    before = [other for other in PARTS if other.page == block.page and other.line < block.line][-1]
    example = defined((ROOT / str(before.file)).read_text())

    assert str(block.title).lower() in block.code
    assert unknown(block.code) <= example | STANDING_IN


@pytest.mark.parametrize("block", **named(MODULES))
def test_a_whole_program_runs(block: Block, at_a_server: Any, tmp_path: Path) -> None:
    """Its `main` is run beside a worker for its tasks; one without is imported."""
    with imported(block, tmp_path) as module:
        main = getattr(module, "main", None)
        if main is None:
            return
        with at_work(module, at_a_server):
            asyncio.run(main()) if inspect.iscoroutinefunction(main) else main()


def test_programs_that_a_reader_tries_one_after_the_other_do_not_take_each_other_s_names(tmp_path: Path) -> None:
    """At one server a job has one schema: a second one is refused, with words about a program tried long before."""
    examples = [(path, path.read_text()) for path in (ROOT / "examples").glob("*.py")]
    programs = [Block(path.name, n, "python", code) for n, (path, code) in enumerate(examples) if "@task" in code]
    schemas: dict[str, dict[str, Any]] = {}
    for block in programs + MODULES:
        with imported(block, tmp_path) as module:
            for job in collect([module]):
                assert schemas.setdefault(job.full_name, job.signature.schema) == job.signature.schema, block.name


def test_tests_that_pages_show_pass(tmp_path: Path) -> None:
    for n, block in enumerate(TESTS):
        (tmp_path / f"test_{n}.py").write_text(f"# {block.name}\n{block.code}")

    asked = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(TESTS) >= 4
    assert f"{sum(block.code.count('def test_') for block in TESTS)} passed" in done.stdout


@pytest.mark.parametrize("block", **named(CELLS))
def test_a_notebook_s_first_cell_opens_a_client_for_those_that_follow(block: Block, at_a_server: Any) -> None:
    page = [other for other in PYTHON if other.page == block.page]
    following = page[page.index(block) + 1]
    cells = [compile(cell.code, cell.name, "exec", flags=COROUTINES) for cell in (block, following)]
    names: dict[str, Any] = {"__name__": "notebook"}

    async def kernel() -> None:
        await eval(cells[0], names)
        with at_work(names["survey"], at_a_server):
            await eval(cells[1], names)
            await names["client"].close()

    asyncio.run(kernel())


@pytest.fixture
def at_a_server(treadle_server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server that programs find as they find one of theirs."""
    monkeypatch.setenv("TREADLE_URL", treadle_server.url)
    monkeypatch.setenv("TREADLE_TOKEN", treadle_server.token)
    return treadle_server


@contextmanager
def imported(block: Block, directory: Path) -> Iterator[ModuleType]:
    """Import a block as the file that its page has its reader write."""
    name = f"block_{block.line}"
    file = directory / f"{name}.py"
    file.write_text(block.code)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[name]


@contextmanager
def at_work(tasks: Any, server: Any) -> Iterator[None]:
    """Have the tasks of a module, or one task, run in a thread during the block."""
    from treadle.testing.inline import InlineWorker

    found = collect([tasks]) if isinstance(tasks, ModuleType) else [tasks]
    if not found:
        yield
        return
    over = threading.Event()

    def work() -> None:
        with InlineWorker(found, url=server.url, token=server.token) as worker:
            while not over.is_set():
                worker.run_all()
                over.wait(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
