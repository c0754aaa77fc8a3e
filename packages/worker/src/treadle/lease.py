"""The runs that a worker holds: their leases, by its own monotonic clock, and the heartbeats that renew them."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal

from treadle.errors import TreadleError

log = logging.getLogger("treadle.worker")

Key = tuple[str, int]
Stop = Literal["cancel", "pause", "gone", "timeout", "shutdown", "lease"]

BUSY_BEAT = 2.0
"""Seconds between the heartbeats of a worker that holds a run."""

IDLE_BEAT = 15.0
"""Seconds between those of an idle one."""


class Held:
    """A run in this worker's hands, from the claim until its end is acknowledged."""

    __slots__ = (
        "claim",
        "code_runs",
        "expires",
        "has_target",
        "is_reported",
        "key",
        "kill",
        "lease",
        "stop",
        "stop_code",
        "timer",
        "usage",
        "weight",
    )

    def __init__(self, claim: dict[str, Any], received: float) -> None:
        self.claim = claim
        self.key: Key = (claim["id"], claim["run_id"])
        self.weight: int = claim.get("weight") or 1
        self.has_target = claim.get("target") is not None
        self.lease: float = claim.get("seconds_left") or 0.0
        self.expires = received + self.lease
        self.usage: float | None = None
        self.stop: Stop | None = None
        """Why the code is to stop; None while it may go on."""
        self.stop_code: Callable[[], None] | None = None
        """Stops the code as well as its kind can be stopped; set while it runs."""
        self.kill: Callable[[], None] | None = None
        """Ends a child process at once, from any thread."""
        self.code_runs = False
        self.is_reported = False
        self.timer: asyncio.TimerHandle | None = None

    @property
    def ref(self) -> dict[str, Any]:
        """The fencing token, as it goes over the wire."""
        return {"task_id": self.key[0], "run_id": self.key[1]}


class Leases:
    """All runs that the worker holds. The event loop changes it; the watch only reads, which the GIL makes safe."""

    def __init__(self, beat: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
        self._beat = beat
        self.held: dict[Key, Held] = {}
        self.is_draining = False
        self.last_beat = time.monotonic()
        """When the last acknowledged heartbeat was sent."""
        self._now = asyncio.Event()

    def add(self, claim: dict[str, Any]) -> Held:
        """Take a claimed run."""
        held = Held(claim, time.monotonic())
        self.held[held.key] = held
        return held

    def drop(self, held: Held) -> None:
        """Forget a run: its end is acknowledged, or it was never begun."""
        if held.timer is not None:
            held.timer.cancel()
        self.held.pop(held.key, None)

    def refs(self) -> list[dict[str, Any]]:
        """Every run in hand, for an opening that says what the worker still holds."""
        return [held.ref for held in list(self.held.values())]

    def body(self) -> dict[str, Any]:
        """Return a heartbeat that renews every run in hand."""
        tasks = [
            held.ref if held.usage is None else held.ref | {"usage": held.usage} for held in list(self.held.values())
        ]
        return {"tasks": tasks, "draining": True} if self.is_draining else {"tasks": tasks}

    def beat_now(self) -> None:
        """Send a heartbeat at the next turn, not at the next interval."""
        self._now.set()

    async def run(self) -> None:
        """Beat for ever: every 2 s with a run, every 15 s without; ends by cancellation only."""
        while True:
            try:
                async with asyncio.timeout(BUSY_BEAT):
                    await self._now.wait()
            except TimeoutError:
                if not self.held and time.monotonic() - self.last_beat < IDLE_BEAT:
                    continue
            self._now.clear()
            await self.beat()

    async def beat(self) -> bool:
        """Send one heartbeat and do what its answer says; return whether it was acknowledged."""
        sent = time.monotonic()
        try:
            # A silent server must not keep the next heartbeat from being tried over another connection.
            async with asyncio.timeout(BUSY_BEAT * 5):
                answer = await self._beat(self.body())
        except (TreadleError, TimeoutError) as error:
            log.warning("no heartbeat: %s", error or "the server did not answer in time")
            return False
        self.apply(answer, sent)
        return True

    def apply(self, answer: dict[str, Any], sent: float) -> None:
        """Do what a heartbeat's answer says: renew from the moment it was `sent`, and stop what is to stop."""
        self.last_beat = max(self.last_beat, sent)
        self.renew(answer.get("taken_until") or (), sent)
        for why in ("gone", "cancel", "pause"):
            self.stop_runs(answer.get(why) or (), why)

    def renew(self, taken_until: Iterable[dict[str, Any]], sent: float) -> None:
        """Note how long leases last: seconds as the server counted them, from before it did."""
        for item in taken_until:
            held = self.held.get((item["task_id"], item["run_id"]))
            if held is not None:
                held.lease = item["seconds_left"]
                held.expires = sent + held.lease
                if held.timer is not None:
                    self.guard(held)

    def guard(self, held: Held) -> None:
        """Have the code of a run with a target stopped in good time before its lease ends."""
        if held.timer is not None:
            held.timer.cancel()
        left = held.expires - time.monotonic() - stop_margin(held.lease)
        held.timer = asyncio.get_running_loop().call_later(max(0.0, left), self.stop_run, held, "lease")

    def stop_runs(self, runs: Iterable[dict[str, Any]], why: Stop) -> None:
        """Stop the code of the runs that the server names."""
        for run in runs:
            held = self.held.get((run["task_id"], run["run_id"]))
            if held is not None:
                self.stop_run(held, why)

    def stop_run(self, held: Held, why: Stop) -> None:
        """Stop one run's code; a cancel or a loss outranks a pause, nothing else changes the first reason."""
        if held.stop is not None and (held.stop != "pause" or why == "pause"):
            return
        held.stop = why
        if held.stop_code is not None:
            held.stop_code()


def stop_margin(lease: float) -> float:
    """Seconds before its lease's end at which a target's code is told to stop."""
    return min(5.0, lease * 0.25)


def abort_margin(lease: float) -> float:
    """Seconds before its lease's end at which a target's code that didn't stop is ended by force."""
    return min(0.5, lease * 0.05)
