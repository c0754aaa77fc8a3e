"""One storm from its begin to its verdict."""

import asyncio
import os
import pickle
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from tests.chaos.processes import traceback_in
from tests.clients import PLAIN
from tests.history.checker import check
from tests.history.recorder import of_client
from tests.history.records import TERMINAL, History, marks_in
from tests.history.tables import read_steps, read_tables
from tests.storm.faults import Weather, set_clocks_forward
from tests.storm.journeys import prepare
from tests.storm.labour import LEASE
from tests.storm.load import Load
from tests.storm.observers import Follower, Windowed
from tests.storm.recovery import SLOW, Probes, quantile
from tests.storm.site import ROOM, Site, site
from tests.storm.stall import Stalls, stalls_in, watch_here, watched
from tests.storm.verdict import ANSWERED, MOST_LOG, Verdict, answering, at_rest
from tests.storm.wishes import CAPS, LIMITS_OF_JOBS
from treadle import Client

CLIENTS = 3
DRAIN = 180.0
"""Seconds within which all that was put in has ended after a storm."""


class Storm:
    """A site, what is asked of it, and what befalls it."""

    def __init__(self, here: Site, seconds: float, seed: int, rate: float, pause: float) -> None:
        self.site = here
        self.seconds = seconds
        self._rate, self._pause = rate, pause
        self._chance = random.Random(seed)
        self.verdict = Verdict()
        self.weather = Weather(here, random.Random(seed + 1))
        self.history = History(faults=self.weather.faults)
        self.loads: list[Load] = []
        self.probes = Probes(here)
        urls = [server.url for server in here.servers.values()]
        self.follower = Follower([wire.url for wire in here.wires.values()][: len(urls)], here.headers)
        self.window = Windowed(urls, here.headers)
        self._ended = 0
        self._late: list[tuple[float, float]] = []
        """When this process stood still, and for how long."""

    async def run(self) -> Verdict:
        """Go through all of it."""
        async with AsyncExitStack() as stack:
            await self._connect(stack)
            async with asyncio.TaskGroup() as group:
                watching = [group.create_task(one.run()) for one in (self.follower, self.window)]
                watching += [group.create_task(self.weather.guard()), group.create_task(self._count())]
                watching.append(group.create_task(watch_here(self._late)))
                await self._rage(group)
                await self._calm()
                for one in watching:
                    one.cancel()
        await self._judge()
        return self.verdict

    async def _connect(self, stack: AsyncExitStack) -> None:
        said = self.history.said
        for n in range(CLIENTS):
            urls = await self.site.wired(stack, f"client-{n}")
            client = await stack.enter_async_context(Client(urls, self.site.token, patience=15))
            if n == 0:
                await prepare(client)
            chance = random.Random(self._chance.random())
            recorded = of_client(f"client-{n}", client, said)
            self.loads.append(Load(recorded, chance, rate=self._rate / CLIENTS, backlog=self._open))

    def _open(self) -> int:
        return sum(load.submitted for load in self.loads) - self._ended

    async def _count(self) -> None:
        """Know about how many tasks have ended, for those that put more in."""
        where, ended = 0, set[str]()
        while True:
            await asyncio.sleep(0.5)
            if self.site.journal.exists():
                with self.site.journal.open("rb") as file:
                    file.seek(where)
                    text = file.read()
                whole = text[: text.rfind(b"\n") + 1]
                where += len(whole)
                ended |= {line[8:44].decode() for line in whole.split(b"\n") if line.startswith(b'["end"')}
                self._ended = len(ended)

    async def _rage(self, group: asyncio.TaskGroup) -> None:
        asking = [group.create_task(work()) for load in self.loads for work in (load.submit, load.steer)]
        written = self._written()
        began = time.monotonic()
        await self.weather.rage(began + self.seconds, self._pause, self.probes.send)
        for load in self.loads:
            load.is_over = True
        over = time.monotonic()
        times = await answering(self.site, max(fault.ended for fault in self.weather.faults))
        for name, took in times.items():
            self.verdict.say(f"server {name} answers {took:.1f} s after the last fault")
            self.verdict.need(took <= ANSWERED, f"server {name} does not answer {ANSWERED:.0f} s after the last fault")
        for name, size in self._written().items():
            rate = (size - written[name]) / (over - began)
            self.verdict.need(rate <= MOST_LOG, f"{name} wrote {rate:.0f} bytes of log a second")
        fastest = max((size - written[name]) / (over - began) for name, size in self._written().items())
        self.verdict.say(f"at most {fastest:.0f} bytes of log a second in the storm")
        await asyncio.wait(asking)

    def _written(self) -> dict[str, int]:
        # What a watcher writes is what it is for.
        several = {**self.site.servers, **self.site.workers}
        return {name: process.log.stat().st_size for name, process in several.items()}

    async def _calm(self) -> None:
        """Wait until all has ended: clocks go on, what is paused is resumed."""
        began = time.monotonic()
        await set_clocks_forward(self.site)
        await self.probes.over()
        server = next(iter(self.site.servers.values()))
        async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=30, verify=PLAIN) as http:
            while (left := await self._unended(http)) and time.monotonic() < began + DRAIN:
                await asyncio.sleep(0.5)
                for load in self.loads:
                    await load.resume()
        self.verdict.say(f"all had ended {time.monotonic() - began:.1f} s after the storm, but for {left or 'nothing'}")
        await at_rest(self.site, self.verdict)

    async def _unended(self, http: httpx.AsyncClient) -> dict[str, int]:
        try:
            counts = (await http.get("/v1/stats")).raise_for_status().json()["counts"]
        except httpx.HTTPError as error:
            return {f"unknown: {error!r}": 1}
        open_ = {status: n for status, n in counts.items() if n and status not in TERMINAL}
        if open_.get("paused"):
            page = (await http.get("/v1/tasks", params={"status": "paused", "limit": 500})).json()["items"]
            self.loads[0].paused |= {task["id"] for task in page}
        if open_.get("blocked"):
            page = (await http.get("/v1/tasks", params={"status": "blocked", "limit": 500})).json()["items"]
            for load in self.loads:
                load.blocked |= {task["id"] for task in page}
        return open_

    async def _judge(self) -> None:
        verdict, history = self.verdict, self.history
        history.marks = list(marks_in(self.site.journal))
        rows, history.runs = await read_tables(self.site.database_url)
        history.steps = await read_steps(self.site.database_url)
        history.caps, history.limits_of_jobs, history.eras = CAPS, LIMITS_OF_JOBS, self.site.eras
        history.tasks = [row for row in rows if row.room != "probes"]
        probes = {row.id for row in rows if row.room == "probes"}
        history.marks = [mark for mark in history.marks if mark.task not in probes]
        seen = {name: state for name, state in self.window.states.items() if name not in probes}
        history.observed = {"follower": self.follower.states, "window": seen}
        newest = sorted(rows, key=lambda row: -row.seq)[: Windowed.LIMIT]
        history.scopes = {
            "follower": {row.id for row in rows if row.room == ROOM},
            "window": {row.id for row in newest} - probes,
        }
        verdict.row["tasks"] = str(len(history.tasks))
        verdict.say(f"{len(history.tasks)} tasks, {len(history.runs)} runs, {len(history.said)} requests recorded")
        verdict.count(history.faults)
        self._judge_recovery()
        verdict.failures += self.weather.troubles
        verdict.failures += list(_said_in_logs(self.site))
        violations = check(history)
        if any(one.rule == "observer" for one in violations):
            verdict.say("the window's observer: " + "; ".join(self.window.told))
        verdict.judge(violations)
        # Whoever looks for the cause wants more than what is said of it.
        kept = self.site.directory / "history.pickle"
        await asyncio.to_thread(kept.write_bytes, pickle.dumps(history))

    def _judge_recovery(self) -> None:
        verdict, faults = self.verdict, self.history.faults
        found = self.probes.recoveries(faults)
        machine, here = stalls_in(self.site.directory / "stalls"), Stalls(tuple(self._late))
        times = [one.took for one in found]
        median, late, worst = quantile(times, 0.5), quantile(times, 0.99), max(times, default=0.0)
        verdict.say(
            f"recovery: p50 {median:.2f} s, p99 {late:.2f} s, worst {worst:.2f} s, of {len(times)};"
            f" {self.follower.reloads} reloads"
        )
        for one in sorted(found, key=lambda one: -one.took):
            if one.took > SLOW:
                verdict.say("  slow: " + one.story(faults, machine, here))
        stood, late_here = (one.worst(0, float("inf")) for one in (machine, here))
        verdict.say(
            f"the machine: load {os.getloadavg()[0]:.1f}, it stood still for {stood:.2f} s at most, the storm's own"
            f" process for {late_here:.2f} s"
        )
        verdict.row |= {"p50 s": f"{median:.2f}", "p99 s": f"{late:.2f}", "worst s": f"{worst:.2f}"}
        verdict.row |= {"machine's stall s": f"{stood:.2f}", "load": f"{os.getloadavg()[0]:.1f}"}
        verdict.need(late <= LEASE + 5, f"after 1 % of the faults it took over {late:.1f} s until a task was done")


def _said_in_logs(here: Site) -> Iterator[str]:
    for name, process in here.processes.items():
        if found := traceback_in(process.log):
            yield f"{name} wrote a traceback: …{found}"


async def storm(
    directory: Path, here: dict[str, object], *, seconds: float, seed: int, rate: float, pause: float
) -> Verdict:
    """Bring one storm upon a site of its own, and return the verdict."""
    verdict: Verdict | None = None
    with watched(directory / "stalls"):
        try:
            async with site(directory, **here) as running:  # type: ignore[arg-type]
                verdict = await Storm(running, seconds, seed, rate, pause).run()
        except subprocess.TimeoutExpired as error:
            if verdict is None:
                raise
            verdict.need(False, f"a process did not end when all was over: {error}")
    assert verdict is not None
    return verdict
