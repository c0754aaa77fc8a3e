"""What clients ask for during a storm: tasks, messages, edits and verbs, and reads, each of which is recorded."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.history.recorder import Heard, Recorded
from tests.storm import wishes
from tests.storm.site import ROOM

BATCH = 100
PATIENCE = 20.0
"""Seconds after which a client gives a request up."""

VERBS = {"cancel": 4, "pause": 3, "resume": 3, "rerun": 1, "edit": 5, "get": 6, "runs": 4}
"""What is done to tasks, and how often beside the rest."""


class Load:
    """One client's wishes; `is_plain`: none of those that older versions don't know."""

    def __init__(
        self,
        client: Recorded,
        chance: random.Random,
        *,
        rate: float,
        backlog: Callable[[], int],
        is_plain: bool = False,
    ) -> None:
        self._client = client
        self._chance = chance
        self._pause = BATCH / rate
        self._backlog = backlog
        self._is_plain = is_plain
        self._steerable: deque[dict[str, Any]] = deque(maxlen=200)
        self._letters: deque[tuple[str, str]] = deque()
        """Messages that were not surely sent: to which task, and what they say."""
        self._needs: dict[str, list[str]] = {}
        """What tasks wait for: they stay blocked when that fails and they are to be held, or have been run again."""
        self.is_over = False
        self.paused: set[str] = set()
        self.blocked: set[str] = set()
        self.submitted = 0

    async def submit(self) -> None:
        """Put tasks in until it is over, at its rate, but never more than the workers are good for."""
        while not self.is_over:
            await asyncio.sleep(self._pause * self._chance.uniform(0.5, 1.5))
            if self._backlog() < 3_000:
                tasks = list(wishes.plain(self._chance, BATCH))
                if not self._is_plain:
                    tasks += wishes.limited(self._chance)
                await self._put_in(tasks)
                if not self._is_plain:
                    await self._put_in(wishes.flow(self._chance))
                    await self._put_in(wishes.journeys(self._chance))

    async def _put_in(self, tasks: list[dict[str, Any]]) -> None:
        heard = await self._ask("submit", room=self._room(), tasks=tasks, wait=False, brief=True)
        # A stranger between the two may refuse anything, with a 401.
        assert heard[0] != "refused" or heard[1]["status"] not in {404, 409, 422}, heard[1]
        refs = {one["ref"]: one["id"] for one in tasks if "ref" in one}
        for one in tasks:
            for told in one.get("depends_on", {}).values():
                self._needs[one["id"]] = [refs[ref] for ref in ([told] if isinstance(told, str) else told)]
            self._letters += [(one["id"], f"{i} of {one['id']}") for i in range(one["payload"].get("messages", 0))]
        if heard[0] == "acknowledged":
            self.submitted += len(tasks)
            self._steerable += [one for one in tasks if one["payload"].keys() & {"seconds", "steps"}]

    async def steer(self) -> None:
        """Do things to tasks until it is over."""
        while not self.is_over:
            await asyncio.sleep(self._chance.uniform(0.05, 0.3))
            if self._letters and self._chance.random() < 0.5:
                await self._send(*self._letters.popleft())
            if self._steerable:
                await self._steer(self._chance.choice(self._steerable))

    async def resume(self) -> None:
        """Let go on what was paused, what waits for messages, and what waits for tasks that have failed."""
        for name in list(self.paused):
            heard = await self._ask("action", id=name, action="resume")
            if heard[0] != "unknown":
                self.paused.discard(name)
        for _ in range(len(self._letters)):
            await self._send(*self._letters.popleft())
        for one in [need for name in list(self.blocked) for need in self._needs.get(name, ())]:
            told = (await self._ask("get", id=one))[1]
            if told.get("status") in {"failed", "cancelled"}:
                await self._ask("action", id=one, action="rerun")
        self.blocked.clear()

    async def _send(self, task: str, text: str) -> None:
        """Send a message, and now and then once more; one of which nobody knows whether it came is sent again."""
        heard = await self._ask("send", task_id=task, name="go", id=text, data=text)
        is_there = heard[0] == "acknowledged" or heard[1].get("status") == 409
        if not is_there or (not self.is_over and self._chance.random() < 0.1):
            self._letters.append((task, text))

    async def _steer(self, task: dict[str, Any]) -> None:
        what = self._chance.choices(list(VERBS), list(VERBS.values()))[0]
        name, has_steps = task["id"], task["job"] in wishes.JOURNEYS
        match what:
            case "edit":
                changes: dict[str, Any] = {"priority": self._chance.randrange(5)}
                if self._chance.random() < 0.5 and task["job"] in {wishes.LABOUR, wishes.TOIL}:
                    changes["payload"] = {"n": self._chance.randrange(1_000_000), "seconds": 0.1}
                await self._ask("edit", id=name, **changes)
            case "get" | "runs":
                await self._ask(what, id=name)
            case "rerun" if has_steps:
                # It would clear the steps that the history is about.
                pass
            case _:
                if what == "pause":
                    self.paused.add(name)
                await self._ask("action", id=name, action=what)

    async def _ask(self, op: str, **fields: Any) -> Heard:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                return await self._client.call(op, **fields)
        return "unknown", {}

    def _room(self) -> str:
        return ROOM if self._chance.random() < 0.05 else wishes.LAB
