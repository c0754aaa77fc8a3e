"""What a storm has left: how quickly all was well again, what the site costs at rest, and what the checker says."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import httpx
import psutil

from tests.clients import PLAIN
from tests.history.records import Fault, Violation
from tests.storm.site import Site
from tests.storm.wishes import LABOUR

ANSWERED = 10.0
"""Seconds after the last fault within which every server does what it is asked."""

REST = 5.0
"""Seconds over which what the site costs at rest is measured."""

MOST_CPU = 0.25
"""Share of a core that a process may take at rest."""

MOST_LOG = 4_000
"""Bytes a second that a process may write to its log. A server that spun wrote 2.7 MB."""

MOST_MEMORY = 700
"""Megabytes of a process at rest."""

MOST_FILES = 250
"""Descriptors of a process at rest."""


@dataclass
class Verdict:
    """Figures, and everything that is not as it must be."""

    figures: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    row: dict[str, str] = field(default_factory=dict)
    """What a table of several storms tells of this one, by column."""

    def say(self, text: str) -> None:
        """Note a figure."""
        self.figures.append(text)
        print(text, flush=True)

    def need(self, holds: bool, text: str) -> None:
        """Note a failure unless it holds."""
        if not holds:
            self.failures.append(text)

    def count(self, faults: Iterable[Fault]) -> None:
        """Say how many faults of which kind there were."""
        kinds = Counter(fault.kind for fault in faults)
        self.row["faults"] = str(kinds.total())
        self.say(f"{kinds.total()} faults: " + ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items())))

    def judge(self, violations: list[Violation], most: int = 5) -> None:
        """Note what the checker found."""
        for rule, n in Counter(violation.rule for violation in violations).items():
            these = [str(one) for one in violations if one.rule == rule][:most]
            self.failures.append(f"{n} of {rule}:\n  " + "\n  ".join(these))


async def answering(site: Site, since: float) -> dict[str, float]:
    """Return after how many seconds each server did what it was asked; infinity after a minute."""
    times = await asyncio.gather(*(_answers(site, name, since) for name in site.servers))
    return dict(zip(site.servers, times, strict=True))


async def _answers(site: Site, name: str, since: float) -> float:
    server = site.servers[name]
    while time.monotonic() < since + 60:
        try:
            async with httpx.AsyncClient(base_url=server.url, headers=site.headers, timeout=5, verify=PLAIN) as http:
                put_in = await http.post(f"/v1/rooms/probes/tasks/{LABOUR}", json={"payload": {"n": 0}})
                ready = await http.get("/readyz")
                if put_in.is_success and ready.is_success:
                    return time.monotonic() - since
        except httpx.HTTPError:
            pass
        await asyncio.sleep(0.05)
    return float("inf")


async def at_rest(site: Site, verdict: Verdict) -> None:
    """Measure what each process takes when there is nothing to do."""
    alive = {name: psutil.Process(one.pid) for name, one in site.processes.items() if not one.has_ended}
    before = {name: sum(process.cpu_times()[:2]) for name, process in alive.items()}
    logs = {name: one.log.stat().st_size for name, one in site.processes.items()}
    await asyncio.sleep(REST)
    for name, process in alive.items():
        share = (sum(process.cpu_times()[:2]) - before[name]) / REST
        memory, files = process.memory_info().rss / 2**20, process.num_fds()
        log = (site.processes[name].log.stat().st_size - logs[name]) / REST
        verdict.say(
            f"{name} at rest: {share:.1%} of a core, {memory:.0f} MB, {files} descriptors, {log:.0f} B/s of log"
        )
        verdict.need(share <= MOST_CPU, f"{name} takes {share:.0%} of a core at rest")
        verdict.need(memory <= MOST_MEMORY, f"{name} has {memory:.0f} MB at rest")
        verdict.need(files <= MOST_FILES, f"{name} has {files} descriptors at rest")
        verdict.need(log <= MOST_LOG, f"{name} writes {log:.0f} bytes of log a second at rest")
