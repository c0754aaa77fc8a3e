"""Examples as their users run them: imported by name, led to a server by the environment."""

import importlib
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.worker.conftest import until, working_at
from treadle import Worker
from treadle.tasks.registry import collect

__all__ = ["until"]


@pytest.fixture
def example(treadle_server: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import an example anew, where the settings lead to the test's server."""
    monkeypatch.setenv("TREADLE_URL", treadle_server.url)
    monkeypatch.setenv("TREADLE_TOKEN", treadle_server.token)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))

    def load(name: str) -> ModuleType:
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return load


@pytest.fixture
def worker(treadle_server: Any) -> Callable[..., AbstractAsyncContextManager[Worker]]:
    """Run a worker with all tasks of an example during an `async with` block, as `treadle worker` does."""

    def start(module: ModuleType, **options: Any) -> AbstractAsyncContextManager[Worker]:
        return working_at(treadle_server.url, treadle_server.token, *collect([module]), **options)

    return start
