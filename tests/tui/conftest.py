import time

import pytest

from .mock import FrozenClock, MockServer
from .scene import scene


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local times on the screen are those of one zone, wherever the tests run."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def server(clock: FrozenClock) -> MockServer:
    return scene(clock)
