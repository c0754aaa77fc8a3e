"""A worker of a simulation: speaks docs/protocol.md, runs code that takes its time, and dies now and then."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.history.records import Mark
from tests.simulation.fate import Fate
from tests.simulation.journal import Journal
from tests.simulation.ledger import Key, Ledger, Presence
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.servers import Server
from tests.simulation.sockets import Talk, reading

LEASE = 4.0
JOBS = ("@global:tasks:labour", "@global:tasks:toil")
BEAT = 1.0
STEP = 0.15
"""Seconds between two looks of the code whether it is to stop."""

MARGIN = 0.05
"""Seconds before the end of its lease at which code with a target has stopped."""

OPTIONS = {
    "lease_seconds": LEASE,
    "start_timeout": LEASE,
    "max_requeues": 30,
    "max_retries": 2,
    "retry_base": 0.2,
    "on_failure": "release",
}


@dataclass(eq=False)
class Run:
    """A run that the worker has, with what it was told of it."""

    task: dict[str, Any]
    until: float
    """When its lease ends at the latest, as the worker knows it."""
    stop: str = ""
    """Why the code is to stop."""
    is_started: bool = False

    @property
    def key(self) -> Key:
        return self.task["id"], self.task["run_id"]

    @property
    def ref(self) -> dict[str, Any]:
        return {"task_id": self.task["id"], "run_id": self.task["run_id"]}


class Worker:
    """One worker, which comes back for ever."""

    def __init__(
        self,
        number: int,
        servers: Sequence[Server],
        fate: Fate,
        ledger: Ledger,
        journal: Journal,
        chance: random.Random,
    ) -> None:
        self.process = Process(f"worker-{number}")
        self._servers, self._fate, self.ledger, self._journal, self._chance = servers, fate, ledger, journal, chance
        self._loop: SimulatedLoop = asyncio.get_running_loop()  # type: ignore[assignment]
        self._id: str | None = None
        self._runs: dict[Key, Run] = {}
        self._stopped: dict[Key, Run] = {}
        """Code that has stopped, and of which that is to be told."""
        self._talk: Talk | None = None
        self._presence: Presence | None = None
        self._troubles = 0
        """Faults that befall it now."""
        self._is_open = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._living: asyncio.Task[None] | None = None
        self.is_shy = False
        """Whether it takes nothing more."""

    def start(self) -> None:
        """Begin to live, unless it does."""
        if self._living is not None:
            return
        self._living = self._loop.start(self.process, self._live(), self.process.name)

    async def die(self) -> None:
        """End in this moment, with all that it knows but, perhaps, its id."""
        self._journal.note("dies", who=self.process.name)
        self.trouble()
        if self._talk is not None:
            self._talk.wire.cut()
        if (living := self._living) is None:
            return
        self._living = None
        living.cancel()
        [ended] = await asyncio.gather(living, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended
        for key in self._runs:
            self.ledger.released.add(key)
        self._runs, self._stopped, self._talk = {}, {}, None
        self._is_open.clear()
        if self._chance.random() < 0.5:
            self._id = None

    def trouble(self) -> None:
        """Note that something happened to it: from now on nobody is there."""
        if self._presence is not None:
            self._presence.until, self._presence = self._loop.time(), None

    @contextmanager
    def troubled(self) -> Iterator[None]:
        """Note that something happens to it during the block, behind which it is there again if it is open."""
        self.trouble()
        self._troubles += 1
        try:
            yield
        finally:
            self._troubles -= 1
            self._appear()

    def _appear(self) -> None:
        """Note that it is there, unless something happens to it."""
        if self._talk is None or self._id is None or self._troubles or self._presence is not None:
            return
        server = self._talk.wire.server_name
        self._presence = Presence(self._id, self.process.name, server, since=self._loop.time())
        self.ledger.presences.append(self._presence)

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(self._beat_forever(), name="beats")
            while True:
                with suppress(OSError, TimeoutError):
                    await self._session()
                self._is_open.clear()
                self.trouble()
                await asyncio.sleep(self._chance.uniform(0.05, 0.4))

    async def _session(self) -> None:
        server = self._chance.choice(self._servers)
        talk = Talk(server.connect(self.process), self._pushed)
        async with reading(talk):
            try:
                await self._open(talk)
                await talk.over.wait()
            finally:
                self._talk = None

    async def _open(self, talk: Talk) -> None:
        if "ok" not in await talk.ask("hello", protocol=1):
            return
        sent = self._loop.time()
        worker = {"name": self.process.name, "concurrency": 3, **({"id": self._id} if self._id else {})}
        held = [run.ref for run in self._runs.values()]
        talk.push = self._pushed
        answer = await talk.ask("open", worker=worker, links=list(JOBS), held=held, prefetch=2)
        if "ok" not in answer:
            self._journal.note("may not open: {}", answer["problem"].get("detail"))
            talk.wire.cut()
            return
        self._id = answer["ok"]["worker"]["id"]
        self._talk = talk
        self._appear()
        self._journal.note("is open at {}", talk.wire.server_name)
        self._obey(answer["ok"], sent)
        self._is_open.set()

    # What it is told

    def _pushed(self, item: dict[str, Any], base: float) -> None:
        match item["push"]:
            case "claim":
                for task in item["tasks"]:
                    self._take(task, base)
            case "cancel" | "pause" | "gone" as kind:
                for ref in item["runs"]:
                    self._told(kind, (ref["task_id"], ref["run_id"]))

    def _take(self, task: dict[str, Any], base: float) -> None:
        run = Run(task, base + task["seconds_left"])
        self._journal.note("is given {} run {}", *run.key)
        self.ledger.received.add(run.key)
        if run.key in self._runs:
            return
        self._runs[run.key] = run
        self._promised(run.key, run.until)
        self._group.create_task(self._work(run), name="work")

    def _promised(self, key: Key, until: float) -> None:
        self.ledger.leases[key] = max(self.ledger.leases.get(key, 0.0), until)

    def _obey(self, told: dict[str, Any], sent: float) -> None:
        """Do what an answer to a beat or an opening wants."""
        for one in told.get("taken_until", ()):
            key = one["task_id"], one["run_id"]
            if (run := self._runs.get(key)) is not None:
                run.until = max(run.until, sent + one["seconds_left"])
                self._promised(key, run.until)
        for kind in ("cancel", "pause", "gone"):
            for ref in told.get(kind, ()):
                self._told(kind, (ref["task_id"], ref["run_id"]))

    def _told(self, kind: str, key: Key) -> None:
        self._journal.note("is told {} of {} run {}", kind, *key)
        run = self._runs.get(key)
        if run is not None and run.stop != "gone":
            run.stop = kind
        if kind == "gone":
            self._stopped.pop(key, None)
            self._beat_now.set()

    async def _beat_forever(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT * self._chance.uniform(0.7, 1.2)):
                    await self._beat_now.wait()
            self._beat_now.clear()
            talk = self._talk
            if talk is None:
                continue
            sent, stopped = self._loop.time(), list(self._stopped.values())
            with suppress(OSError, TimeoutError):
                tasks = [{"task_id": k[0], "run_id": k[1]} for k in self._runs]
                answer = await talk.ask("beat", tasks=tasks, stopped=[one.ref for one in stopped])
                if "ok" in answer:
                    for one in stopped:
                        self._stopped.pop(one.key, None)
                    self._obey(answer["ok"], sent)

    # Its code

    async def _work(self, run: Run) -> None:
        payload, target = run.task["payload"], run.task.get("target")
        if self._chance.random() < 0.05:
            if await self._report(run, "return"):
                self._done(run)
            return
        if target is not None and self._loop.time() > run.until - MARGIN:
            self._give_up(run)
            return
        self._mark("begin", run)
        starting = self._group.create_task(self._report(run, "started"), name="start")
        if self._chance.random() < 0.5:
            await asyncio.wait([starting], timeout=1)
        end = self._loop.time() + payload.get("seconds", 0.0)
        while not run.stop and self._loop.time() < end:
            left = min(STEP, end - self._loop.time())
            if target is not None:
                left = min(left, run.until - MARGIN - self._loop.time())
                if left <= 0:
                    self._give_up(run)
                    return
            await asyncio.sleep(left)
            if target is None or self._loop.time() <= run.until:
                self._mark("beat", run)
            if self._chance.random() < 0.05:
                self._group.create_task(self._report(run, "checkpoint", checkpoint={"at": 1}), name="checkpoint")
        await self._end(run)

    async def _end(self, run: Run) -> None:
        payload, target = run.task["payload"], run.task.get("target")
        if run.stop == "pause":
            await self._report(run, "paused", checkpoint={"n": payload["n"]})
        elif run.stop:
            self._stopped[run.key] = run
        elif target is not None and self._loop.time() > run.until:
            # It was frozen: by now the target may be another's.
            self._give_up(run)
            return
        elif run.task["run_id"] < payload.get("raises", 0):
            self._mark("raise", run)
            await self._report(run, "failed", starts=True, error="it raises")
        else:
            self._mark("end", run)
            await self._report(run, "completed", starts=True, result={"n": payload["n"]})
        self._done(run)

    def _give_up(self, run: Run) -> None:
        """Its lease may be over: the code stops."""
        self._journal.note("gives up {} run {}", *run.key)
        self._stopped[run.key] = run
        self._done(run)

    def _done(self, run: Run) -> None:
        self.ledger.released.add(run.key)
        self._runs.pop(run.key, None)

    async def _report(self, run: Run, kind: str, **fields: Any) -> bool:
        """Report until somebody answers; return whether it was taken."""
        while True:
            await self._is_open.wait()
            talk = self._talk
            try:
                if talk is None:
                    raise ConnectionResetError("it is closed")
                if kind == "return":
                    answer = await talk.ask("return", runs=[run.ref])
                else:
                    answer = await talk.ask("reports", reports=[{**run.ref, "kind": kind, **fields}])
            except (OSError, TimeoutError):
                await asyncio.sleep(self._chance.uniform(0.05, 0.2))
                continue
            if "ok" in answer:
                [told] = answer["ok"]["answers"]
                if told["status"] < 500:
                    self._journal.note("reported {} of {} run {}: {}", kind, *run.key, told["status"])
                    return bool(told["status"] == 200)
            await asyncio.sleep(self._chance.uniform(0.1, 0.4))

    def _mark(self, what: Any, run: Run) -> None:
        task, number = run.key
        n, target = run.task["payload"]["n"], run.task.get("target")
        self._journal.note("{}s {} run {}", what, task, number)
        self.ledger.marks.append(Mark(what, task, number, self._loop.time(), self.process.name, n, target))
