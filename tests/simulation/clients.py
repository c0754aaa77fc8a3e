"""Clients of a simulation: they put tasks in, steer and read them; and an observer who follows each transition."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.history.recorder import Heard, Recorded
from tests.history.records import Said
from tests.live.sockets import updated_in
from tests.simulation.fate import Fate
from tests.simulation.journal import Journal
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.servers import Server
from tests.simulation.sockets import Talk, reading
from tests.simulation.workers import JOBS, OPTIONS

TARGETS = 3


def _ignore(item: dict[str, Any], base: float) -> None:
    """Nothing is pushed to who asks for nothing."""


class Caller:
    """Has a connection whenever it asks."""

    def __init__(self, name: str, servers: Sequence[Server], journal: Journal, chance: random.Random) -> None:
        self.process = Process(name)
        self.journal, self.chance = journal, chance
        self._servers = servers
        self.loop: SimulatedLoop = asyncio.get_running_loop()  # type: ignore[assignment]
        self._talk: Talk | None = None
        self._group: asyncio.TaskGroup

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Keep the tasks that read during the block."""
        async with asyncio.TaskGroup() as self._group:
            try:
                yield
            finally:
                if self._talk is not None:
                    self._talk.wire.cut()

    async def talk(self) -> Talk:
        """Return a connection. Raises `OSError` and `TimeoutError`."""
        if self._talk is None or self._talk.is_over or self._talk.wire.is_cut:
            talk = Talk(self.chance.choice(self._servers).connect(self.process), _ignore)
            self._group.create_task(talk.read(), name="reads")
            try:
                await talk.greet()
            except BaseException:
                talk.wire.cut()
                raise
            self._talk = talk
        return self._talk

    async def ask(self, op: str, fields: dict[str, Any]) -> Heard:
        """Ask, and return what was heard."""
        self.journal.note("asks {} {}", op, fields)
        try:
            talk = await self.talk()
            answer = await talk.ask(op, **fields)
        except (OSError, TimeoutError) as error:
            self.journal.note("knows nothing of {}: {}", op, str(error))
            return "unknown", {"detail": str(error)}
        if "ok" in answer:
            self.journal.note("is answered {}", op)
            return "acknowledged", answer["ok"]
        problem = answer["problem"]
        self.journal.note("is refused {}: {}", op, problem.get("detail"))
        return ("refused" if problem["status"] < 500 else "unknown"), problem

    async def insist(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask until it is done."""
        while True:
            answer, told = await self.ask(op, fields)
            if answer == "acknowledged":
                return told
            await asyncio.sleep(0.1)


class Client(Caller):
    """Puts tasks in, and steers what it has put in."""

    def __init__(
        self,
        number: int,
        servers: Sequence[Server],
        fate: Fate,
        journal: Journal,
        chance: random.Random,
        said: list[Said],
    ) -> None:
        super().__init__(f"client-{number}", servers, journal, chance)
        self._fate = fate
        self._recorded = Recorded(self.process.name, said, self.ask, now=self.loop.time)
        self.known: list[str] = []
        self.paused: set[str] = set()
        self.is_over = False
        self.submitted = 0

    async def register(self) -> None:
        """Register the jobs."""
        for name in JOBS:
            room, category, short = name.split(":")
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
            job = {"category": category, "name": short, "retain": True, "schema": schema, **OPTIONS}
            await self.insist("register", room=room, **job)

    async def run(self, most: int) -> None:
        """Ask for this and that until it is over; `most` tasks in all."""
        async with self.connected():
            while not self.is_over:
                await asyncio.sleep(self.chance.expovariate(8))
                if self.submitted < most and self.chance.random() < 0.4:
                    await self._submit()
                elif self.known:
                    await self._steer(self.chance.choice(self.known[-12:]))

    async def _submit(self) -> None:
        tasks = [self._task() for _ in range(self.chance.choice((1, 1, 1, 2, 4)))]
        self.submitted += len(tasks)
        op = self.chance.choice(("submit", "submit_each"))
        for attempt in range(4):
            answer, told = await self._recorded.call(op, room="lab", tasks=tasks, wait=False)
            if answer != "unknown":
                break
            await asyncio.sleep(0.1 * (attempt + 1))
        if answer == "acknowledged" and not any("problem" in one for one in told["tasks"]):
            self.known += [one["id"] for one in tasks]
            if self.chance.random() < 0.1:
                await self._again(op, tasks, told)

    async def _again(self, op: str, tasks: list[dict[str, Any]], told: dict[str, Any]) -> None:
        """The same ids again: the same content is the first task, another one is refused (G6)."""
        await self.ask(op, {"room": "lab", "tasks": tasks, "wait": False})
        other = {**tasks[0], "payload": {"n": -1}}
        answer, _ = await self.ask("submit", {"room": "lab", "tasks": [other], "wait": False})
        if answer == "acknowledged":
            self.journal.defect(f"another content of {other['id']} was taken (G6)")

    def _task(self) -> dict[str, Any]:
        chance = self.chance
        task: dict[str, Any] = {"id": str(self._fate.uuid7()), "job": chance.choice(JOBS)}
        payload: dict[str, Any] = {"n": chance.randrange(1_000_000)}
        if chance.random() < 0.7:
            payload["seconds"] = chance.choice((0.1, 0.3, 1.0, 2.5))
        match chance.randrange(10):
            case 0 | 1 | 2 | 3:
                task["target"] = f"t{chance.randrange(TARGETS)}"
            case 4:
                payload["raises"] = chance.randint(1, 4)
            case 5:
                task["delay"] = chance.uniform(0.2, 4)
            case 6:
                task["priority"] = chance.randint(1, 3)
            case 7:
                task["weight"] = 2
        return {**task, "payload": payload}

    async def _steer(self, task: str) -> None:
        what = self.chance.choices(
            ("cancel", "pause", "resume", "rerun", "edit", "get", "runs"), (3, 3, 3, 1, 3, 4, 3)
        )[0]
        match what:
            case "edit":
                changes: dict[str, Any] = {"priority": self.chance.randrange(4)}
                if self.chance.random() < 0.4:
                    changes["payload"] = {"n": self.chance.randrange(1_000_000), "seconds": 0.2}
                await self._recorded.call("edit", id=task, **changes)
            case "get" | "runs":
                await self._recorded.call(what, id=task)
            case _:
                if what == "pause":
                    self.paused.add(task)
                await self._recorded.call("action", id=task, action=what)

    async def resume(self, tasks: Sequence[str]) -> None:
        """Let go on what is paused."""
        for task in tasks:
            await self._recorded.call("action", id=task, action="resume")


class Observer:
    """Folds each transition into the state of every task, and reads all anew when it is told to."""

    def __init__(self, number: int, servers: Sequence[Server], journal: Journal, chance: random.Random) -> None:
        self.process = Process(f"observer-{number}")
        self._servers, self._journal, self._chance = servers, journal, chance
        self._since: dict[str, Any] | None = None
        self.states: dict[str, tuple[str, int]] = {}
        self.reloads = 0
        self._wants = asyncio.Event()
        self._after: dict[str, Any] = {}
        self._held: list[dict[str, Any]] = []
        self._is_reading = False

    async def run(self) -> None:
        """Follow for ever, at one server or another."""
        while True:
            with suppress(OSError, TimeoutError):
                await self._follow(self._chance.choice(self._servers))
            await asyncio.sleep(self._chance.uniform(0.05, 0.3))

    async def _follow(self, server: Server) -> None:
        talk = Talk(server.connect(self.process), self._pushed)
        self._held, self._is_reading = [], True
        self._wants.clear()
        async with reading(talk):
            if "ok" not in await talk.ask("hello", protocol=1):
                return
            answer = await talk.ask("every", on=True, **({"since": self._since} if self._since else {}))
            if "ok" not in answer:
                return
            if self._since is None:
                await self._read(talk)
                self._since = answer["ok"]
            if not self._wants.is_set():
                self._go_on()
            while not talk.is_over:
                await self._until_wanted(talk)
                if self._wants.is_set():
                    await self._reload(talk)

    async def _reload(self, talk: Talk) -> None:
        self._wants.clear()
        after = self._after
        await self._read(talk)
        if not self._wants.is_set():
            self._since = after
            self._go_on()

    async def _until_wanted(self, talk: Talk) -> None:
        both = [asyncio.ensure_future(one.wait()) for one in (self._wants, talk.over)]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in both:
                one.cancel()

    def _pushed(self, item: dict[str, Any], base: float) -> None:
        if item["push"] == "reload":
            self.reloads += 1
            self._journal.note("is to reload")
            self._since, self._after = None, {"stream": item["stream"], "seq": item["seq"]}
            self._held, self._is_reading = [], True
            self._wants.set()
        elif item["push"] == "events":
            self._held.append(item)
            if not self._is_reading:
                self._go_on()

    def _go_on(self) -> None:
        """Take what has come meanwhile."""
        self._is_reading = False
        held, self._held = self._held, []
        for item in held:
            self._since = {"stream": item["stream"], "seq": item["seq"]}
            for task in updated_in(item["events"]):
                self._note(task)

    def _note(self, task: dict[str, Any]) -> None:
        before = self.states.get(task["id"])
        self._journal.note("sees {} {} {}", task["id"], task["status"], task["version"])
        # What was just read may be newer than what is told of the time before it.
        if before is None or before[1] <= task["version"]:
            self.states[task["id"]] = (task["status"], task["version"])

    async def _read(self, talk: Talk) -> None:
        answer = await talk.ask("freeze", filter={}, limit=10_000)
        if "ok" not in answer:
            raise ConnectionRefusedError("not now")
        self.states = {one["id"]: (one["status"], one["version"]) for one in answer["ok"]["items"]}
        self._journal.note("reads {} tasks", len(self.states))
