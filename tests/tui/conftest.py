import time

import pytest

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import scene


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local times on the screen are those of one zone, wherever the tests run."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture(autouse=True)
def quick_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pilot takes 5 ms without work for rest, not 20: nothing here waits for longer, and it rests 20,000 times."""
    monkeypatch.setattr("textual._wait.SLEEP_GRANULARITY", 0.005)
    monkeypatch.setattr("textual._wait.SLEEP_IDLE", 0.00025)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def server(clock: FrozenClock) -> MockServer:
    return scene(clock)
