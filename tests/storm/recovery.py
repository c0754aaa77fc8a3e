"""How quickly all is well again: after the end of each fault a task of the highest priority, until it is done."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx
from uuid_utils import uuid7

from tests.clients import PLAIN
from tests.history.records import TERMINAL, Fault
from tests.storm.site import Site
from tests.storm.stall import Stalls
from tests.storm.wishes import LABOUR

SLOW = 6.0
"""Seconds from which on it is told what happened meanwhile."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What it took after one fault."""

    fault: Fault
    since: float
    """When the last fault was over that left the task nobody to turn to."""
    done: float
    task: str

    @property
    def took(self) -> float:
        """Return the seconds."""
        return self.done - self.since

    def story(self, faults: Sequence[Fault], machine: Stalls, storm: Stalls) -> str:
        """Tell what else happened, and how long the machine, and the storm's own process, stood still."""
        meanwhile = [
            one for one in faults if one is not self.fault and one.began < self.done and one.ended > self.since
        ]
        told = ", ".join(
            f"{one.kind} {one.on} {one.began - self.since:+.1f}…{one.ended - self.since:+.1f}" for one in meanwhile
        )
        stalled, late = (one.worst(self.since, self.done) for one in (machine, storm))
        return (
            f"{self.took:.1f} s after {self.fault.kind} of {self.fault.on} (task {self.task}, from {self.since:.1f};"
            f" the machine stood still for {stalled:.2f} s at most, the storm's process for {late:.2f} s);"
            f" meanwhile: {told or 'nothing'}"
        )


@dataclass
class Probes:
    """The tasks that are on their way, and what they found."""

    site: Site
    _found: list[tuple[Fault, float, str]] = field(default_factory=list)
    """After which fault, when it was done, and which task."""
    _group: set[asyncio.Task[None]] = field(default_factory=set)

    def send(self, fault: Fault) -> None:
        """Begin one; it ends by itself."""
        probe = asyncio.create_task(self._probe(fault))
        self._group.add(probe)
        probe.add_done_callback(self._group.discard)

    def recoveries(self, faults: Sequence[Fault]) -> list[Recovery]:
        """Return what each took, from the last fault on that left it nobody to turn to."""
        grave = [one for one in faults if one.on in self.site.servers or one.on.startswith(("database", "disk"))]
        found = []
        for fault, done, task in self._found:
            later = [one.ended for one in grave if fault.ended < one.ended < done]
            found.append(Recovery(fault, max([fault.ended, *later]), done, task))
        return found

    async def over(self) -> None:
        """Wait for those that are still on their way."""
        if self._group:
            await asyncio.wait(self._group, timeout=120)

    async def _probe(self, fault: Fault) -> None:
        task = {"id": str(uuid7()), "payload": {"n": 0}, "priority": 1_000}
        turn, put_in = 0, False
        while True:
            url = list(self.site.servers.values())[turn % len(self.site.servers)].url
            try:
                async with httpx.AsyncClient(base_url=url, headers=self.site.headers, timeout=3, verify=PLAIN) as http:
                    if not put_in:
                        answer = await http.post(f"/v1/rooms/probes/tasks/{LABOUR}", json=task)
                        put_in = answer.is_success
                    while put_in:
                        found = (await http.get(f"/v1/tasks/{task['id']}", headers={"Prefer": "wait=2"})).json()
                        if found.get("status") in TERMINAL:
                            self._found.append((fault, time.monotonic(), str(task["id"])))
                            return
                        if "status" not in found or not isinstance(found["status"], str):
                            break
            except (httpx.HTTPError, ValueError):
                pass
            turn += 1
            # Dozens that wait for a server to start must not keep it from starting.
            await asyncio.sleep(min(0.5, 0.05 * turn))


def quantile(times: Sequence[float], share: float) -> float:
    """Return the value below which this share of them lies."""
    several = sorted(times)
    return several[min(len(several) - 1, int(share * len(several)))] if several else 0.0
