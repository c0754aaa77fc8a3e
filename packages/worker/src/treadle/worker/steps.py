"""Steps and checkpoints of the runs that a worker holds: read when the code asks for them, stored before it goes on."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from treadle.errors import NOT_NOW, BadValue, ConnectionFailed, EncryptionError, PayloadTooLarge, ValidationFailed
from treadle.transport.answers import reading
from treadle.transport.retries import QuietLog, delays
from treadle.wire.steps import StepItem
from treadle.worker.lease import Held
from treadle.worker.reports import Reporter, log
from treadle.worker.sealing import RunSealing

T = TypeVar("T")


class StepLink(Protocol):
    """The requests to the server that concern steps."""

    async def steps(self, ref: dict[str, Any], offset: int) -> dict[str, Any]:
        """Return the steps that a run's task keeps, from number `offset` on: `items`, and the `total`."""

    async def receive(self, body: dict[str, Any]) -> dict[str, Any]:
        """Receive a message by a step of a run, as the socket's `receive` does."""


class StepKeeper:
    """Reads and stores steps and checkpoints of a worker's runs; waits while the server or its database is away."""

    def __init__(self, link: StepLink, reporter: Reporter, sealing: RunSealing) -> None:
        self._link = link
        self._reporter = reporter
        self._sealing = sealing

    async def kept(self, held: Held) -> list[dict[str, Any]]:
        """Return every step that the task keeps, in order. Raises a `ProblemError`, and `EncryptionError`."""
        found: list[dict[str, Any]] = []
        total = math.inf
        while len(found) < total:
            items, total = await self._asked(partial(self._page, held, len(found)))
            if not items:
                break
            found += items
        return found

    async def _page(self, held: Held, offset: int) -> tuple[list[dict[str, Any]], int]:
        page = await self._link.steps(held.ref, offset)
        with reading():
            return [self._opened(held, item) for item in page["items"]], int(page["total"])

    async def keep(self, held: Held, step: dict[str, Any]) -> None:
        """Store a step. Raises `StaleRun` when the run is no longer ours, `BadValue` when it can't be kept."""
        await self._told(held, {"kind": "step", **step}, f"step {step['step']!r}")

    async def save(self, held: Held, checkpoint: Any) -> None:
        """Store a checkpoint. Raises as `keep` does."""
        await self._told(held, {"kind": "checkpoint", "checkpoint": checkpoint}, "checkpoint")

    async def _told(self, held: Held, said: dict[str, Any], name: str) -> None:
        try:
            await self._reporter.confirm({**held.ref, **said})
        except (PayloadTooLarge, ValidationFailed, EncryptionError) as error:
            raise BadValue(f"{name}: {error}") from None

    async def receive(self, held: Held, step: dict[str, Any]) -> dict[str, Any] | None:
        """Return the step that has received a message; None when no message waits. Raises as `kept` does."""

        async def ask() -> dict[str, Any] | None:
            answer = await self._link.receive({**held.ref, **step})
            with reading():
                return None if answer["item"] is None else self._opened(held, answer["item"])

        return await self._asked(ask)

    def _opened(self, held: Held, item: dict[str, Any]) -> dict[str, Any]:
        StepItem.model_validate(item)
        return self._sealing.opened_step(held, item)

    async def _asked(self, ask: Callable[[], Awaitable[T]]) -> T:
        quiet = QuietLog(log)
        for delay in delays():
            await self._reporter.online.wait()
            try:
                return await ask()
            except (ConnectionFailed, *NOT_NOW) as error:
                if self._reporter.online.is_set():
                    quiet.say(f"a step could not be sent yet: {error}", "trying again")
                # Otherwise the worker is opened again, and `online` set again, before the next attempt.
                await asyncio.sleep(delay)
        raise AssertionError("the delays never end")
