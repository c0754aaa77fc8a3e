"""Everything that would differ from run to run is drawn from the seed: ids, secrets, jitter, and what time it is."""

import gc
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from types import ModuleType
from unittest import mock

from treadle_server.engine import hub as _hub
from treadle_server.live.events import EventListener
from treadle_server.live.feeds import Feed
from treadle_server.live.session import Session

BEGIN = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""What the database's clock shows when the loop's shows 0."""


class Fate:
    """Draws what is drawn by nobody in particular."""

    def __init__(self, seed: int, now: Callable[[], float]) -> None:
        self._now = now
        self._chance = random.Random(f"{seed} ids")
        self._last = 0

    def uuid7(self) -> uuid.UUID:
        """Return an id as `uuid_utils.uuid7` does: ascending in time."""
        millis = int((BEGIN + timedelta(seconds=self._now())).timestamp() * 1000)
        value = (millis << 80) | (0x7 << 76) | (self._chance.getrandbits(12) << 64) | (0b10 << 62)
        # Of two in one millisecond the later one is greater.
        self._last = max(value | self._chance.getrandbits(62), self._last + 1)
        return uuid.UUID(int=self._last)

    def token_bytes(self, size: int | None = None) -> bytes:
        """Return as many bytes."""
        return self._chance.randbytes(size or 32)

    def token_hex(self, size: int | None = None) -> str:
        """Return as many bytes in hexadecimal."""
        return self.token_bytes(size).hex()


_BY_ADDRESS: tuple[type, ...] = (Session, EventListener, Feed)
"""Kept in sets, where their places would hang on where they lie in memory."""


@contextmanager
def fated(fate: Fate, seed: int) -> Iterator[None]:
    """Have the packages draw from the seed during the block."""
    numbers: dict[int, int] = {}
    kept: list[object] = []
    counted = count()

    def number(self: object) -> int:
        if id(self) not in numbers:
            numbers[id(self)] = next(counted)
            kept.append(self)
        return numbers[id(self)]

    state = random.getstate()
    was_on = gc.isenabled()
    with ExitStack() as stack:
        for module in _modules():
            _patch(stack, module, "uuid7", fate.uuid7)
            _patch(stack, module, "monotonic", fate._now)
            _patch(stack, module, "perf_counter", fate._now)
        stack.enter_context(mock.patch.object(secrets, "token_bytes", fate.token_bytes))
        stack.enter_context(mock.patch.object(secrets, "token_hex", fate.token_hex))
        stack.enter_context(mock.patch.object(time, "monotonic", fate._now))
        for kind in _BY_ADDRESS:
            stack.enter_context(mock.patch.object(kind, "__hash__", number))
        random.seed(seed)
        # Collected now and then it would end what is forgotten at any moment.
        gc.disable()
        try:
            yield
        finally:
            random.setstate(state)
            if was_on:
                gc.enable()


def _modules() -> list[ModuleType]:
    assert _hub
    return [module for name, module in sorted(sys.modules.items()) if name.startswith("treadle_server.")]


def _patch(stack: ExitStack, module: ModuleType, name: str, value: object) -> None:
    if name in vars(module):
        stack.enter_context(mock.patch.object(module, name, value))
