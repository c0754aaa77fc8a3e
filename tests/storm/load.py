"""What clients ask for during a storm: tasks of every kind, edits and verbs, and reads, each of which is recorded."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from uuid_utils import uuid7

from tests.history.recorder import Heard, Recorded
from tests.storm.site import ROOM

LABOUR = "@global:tasks:labour"
TOIL = "@global:tasks:toil"
BATCH = 100
TARGETS = 12
PATIENCE = 20.0
"""Seconds after which a client gives a request up."""


class Load:
    """One client's wishes."""

    def __init__(self, client: Recorded, chance: random.Random, *, rate: float, backlog: Callable[[], int]) -> None:
        self._client = client
        self._chance = chance
        self._pause = BATCH / rate
        self._backlog = backlog
        self._steerable: deque[str] = deque(maxlen=200)
        self.is_over = False
        self.paused: set[str] = set()
        self.submitted = 0

    async def submit(self) -> None:
        """Put tasks in until it is over, at its rate, but never more than the workers are good for."""
        while not self.is_over:
            await asyncio.sleep(self._pause * self._chance.uniform(0.5, 1.5))
            if self._backlog() < 3_000:
                tasks = list(self._tasks())
                heard = await self._ask("submit", room=self._room(), tasks=tasks, wait=False, brief=True)
                if heard[0] == "acknowledged":
                    self.submitted += len(tasks)
                    self._steerable += [one["id"] for one in tasks if one["payload"].get("seconds") or "delay" in one]

    async def steer(self) -> None:
        """Do things to tasks until it is over."""
        while not self.is_over:
            await asyncio.sleep(self._chance.uniform(0.05, 0.3))
            if self._steerable:
                await self._steer(self._chance.choice(self._steerable))

    async def resume(self) -> None:
        """Let go on what was paused."""
        for name in list(self.paused):
            heard = await self._ask("action", id=name, action="resume")
            if heard[0] != "unknown":
                self.paused.discard(name)

    async def _steer(self, task: str) -> None:
        what = self._chance.choices(
            ("cancel", "pause", "resume", "rerun", "edit", "get", "runs"), (4, 3, 3, 1, 5, 6, 4)
        )[0]
        match what:
            case "edit":
                changes: dict[str, Any] = {"priority": self._chance.randrange(5)}
                if self._chance.random() < 0.5:
                    changes["payload"] = {"n": self._chance.randrange(1_000_000), "seconds": 0.1}
                await self._ask("edit", id=task, **changes)
            case "get" | "runs":
                await self._ask(what, id=task)
            case _:
                if what == "pause":
                    self.paused.add(task)
                await self._ask("action", id=task, action=what)

    async def _ask(self, op: str, **fields: Any) -> Heard:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                return await self._client.call(op, **fields)
        return "unknown", {}

    def _room(self) -> str:
        return ROOM if self._chance.random() < 0.05 else "lab"

    def _tasks(self) -> Iterator[dict[str, Any]]:
        for i in range(BATCH):
            task: dict[str, Any] = {"id": str(uuid7()), "job": LABOUR}
            payload: dict[str, Any] = {"n": self._chance.randrange(1_000_000)}
            match i:
                case 0 | 1 | 2:
                    payload["seconds"], task["target"] = 0.1, f"t{self._chance.randrange(TARGETS)}"
                case 3:
                    payload["raises"] = self._chance.randint(1, 2)
                case 4:
                    payload["raises"] = 1_000
                case 5:
                    payload["seconds"] = self._chance.uniform(1, 4)
                case 6:
                    payload["seconds"], task["delay"] = 0.1, self._chance.uniform(1, 5)
                case 7:
                    payload["seconds"], task["job"] = self._chance.uniform(0.1, 1), TOIL
                case 8 if self._chance.random() < 0.1:
                    payload["seconds"], task["job"] = self._chance.uniform(0.1, 1), TOIL
                    task["target"] = f"p{self._chance.randrange(2)}"
                case _:
                    pass
            yield {**task, "payload": payload}
