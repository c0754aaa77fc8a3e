import time
from collections.abc import Iterator
from typing import Any

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import scene


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    """Local times on the screen are those of one zone, wherever the tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(scope="session", autouse=True)
def shared_rules() -> Iterator[None]:
    """What Textual read out of each style sheet, for all apps with the same theme: each reads 40 anew."""
    read: dict[object, list[RuleSet]] = {}
    parse = Stylesheet._parse_rules

    def parse_rules(self: Stylesheet, css: str, **source: Any) -> list[RuleSet]:
        key = (css, *source.values(), frozenset(self._variables.items()))
        if key not in read:
            read[key] = parse(self, css, **source)
        return read[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_rules)
        yield


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
