"""The runs that a worker holds: their leases, by the local monotonic clock, and the heartbeats that renew them."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal

from treadle.clock import monotonic
from treadle.errors import TreadleError
from treadle.ids import RunKey
from treadle.transport.answers import reading
from treadle.transport.retries import QuietLog
from treadle.wire.amounts import in_seconds
from treadle.wire.runs import runs_without_cost
from treadle.wire.status import WorkerState
from treadle.wire.workers import BUSY_BEAT_SECONDS, IDLE_BEAT_SECONDS

log: logging.Logger = logging.getLogger("treadle.worker")

Stop = Literal["cancel", "pause", "gone", "timeout", "shutdown", "lease"]

QUICKEST_BEAT = 0.1
"""The least seconds between heartbeats, however short a lease is."""

LONGEST_UNNAMED = 10.0
"""The most seconds for which heartbeats leave a run out: should a push be missed, they are what tells of it."""

SHORT = 12.0
"""Seconds: every heartbeat names a shorter lease, which may be over when one that went unanswered is sent again."""

SILENCE = 10.0
"""Seconds after which an unanswered heartbeat means that its connection is dead."""


LOOKS = 1.0
"""The most seconds between two checks by the watchdog, which by itself notices leases that end later than that."""


STANDSTILL = 5.0
"""Seconds without a sign of life after which a worker stands still, and its processes end with their leases, or so much
later where a lease is as short. Else those without a target go on, even if it is disconnected."""


LATE = 10.0
"""Seconds after which code that was told to stop and goes on is logged."""


RETURNS = 2
"""After so many of a task's runs have cost it nothing, its start is reported and stored before its code begins."""


class Held:
    """A run that this worker holds, from the claim until its end is acknowledged."""

    __slots__ = (
        "claim",
        "code_runs",
        "credential",
        "expires",
        "goes_on",
        "has_target",
        "is_overdue",
        "is_reported",
        "key",
        "kill",
        "length",
        "renewed",
        "since",
        "spent",
        "stop",
        "stop_code",
        "timer",
        "usage",
        "weight",
    )

    def __init__(self, claim: dict[str, Any], since: float) -> None:
        self.claim: dict[str, Any] = claim
        self.key: RunKey = (claim["id"], claim["run_id"])
        self.weight: int = int(claim.get("weight") or 1)
        self.has_target: bool = claim.get("target") is not None
        self.length: float = _length(claim)
        """Seconds that a renewal lasts; for a lease that can't be renewed, how long it lasts in all."""
        self.since: float = since
        """When it was claimed or last renewed, by the local monotonic clock."""
        self.expires: float = since + (claim.get("seconds_left") or 0.0)
        """When the lease ends, by the local monotonic clock; never later than on the server (docs/decisions/0009)."""
        given = claim.get("credentials")
        self.credential: tuple[str, float] | None = given and (given, since + self.length / 2)
        """A temporary credential, and until when to use it, by the local monotonic clock."""
        self.usage: float | None = None
        self.spent: tuple[float, float] = (0.0, 0.0)
        """The usage of the code, and of the middleware around it."""
        self.stop: Stop | None = None
        """Why the code is to stop; None while it may go on."""
        self.stop_code: Callable[[], object] | None = None
        """Stops the code as well as its kind allows; set while it runs."""
        self.kill: Callable[[], None] | None = None
        """Kills the child process at once; may be called from any thread."""
        self.renewed: Callable[[], None] | None = None
        """Tells the child process that its lease was renewed; may be called from any thread."""
        self.goes_on: Callable[[], None] | None = None
        """Tells a child process without a target that this process does not stand still; called by the watchdog."""
        self.code_runs: bool = False
        self.is_reported: bool = False
        self.is_overdue: bool = False
        """Whether its code still runs though its failure was reported: until it stops it keeps its slot, and is
        held."""
        self.timer: asyncio.TimerHandle | None = None

    @property
    def last_moment(self) -> float:
        """When a target's code that is still running is ended by force: just before its lease ends."""
        return self.expires - abort_margin(self.length)

    @property
    def is_fresh(self) -> bool:
        """Whether enough of the lease is left for code to begin: half of what a renewal gives."""
        return self.expires - monotonic() >= self.length / 2

    @property
    def was_returned(self) -> bool:
        """Whether its code may have killed other workers: more runs have cost no budget than can be explained."""
        before = int(self.claim["run_id"])
        if before < RETURNS:  # as nearly always: the rest takes a twentieth of the time of a no-op
            return False
        spent = sum(self.claim.get(name) or 0 for name in ("retry_count", "requeue_count", "steps"))
        return runs_without_cost(before, spent=spent) >= RETURNS

    @property
    def ref(self) -> dict[str, Any]:
        """The fencing token, as it is sent."""
        return {"task_id": self.key[0], "run_id": self.key[1]}


class Leases:
    """All runs that the worker holds.

    The event loop changes it. Threads read it, and `note` what they learn of leases, which the GIL makes safe.
    `on_silence` is called when a heartbeat was not answered at all, and `on_drain` when the server, in an answer to a
    heartbeat or an opening, says that the worker is to drain.
    """

    def __init__(
        self,
        beat: Callable[[dict[str, Any]], Awaitable[Any]],
        on_silence: Callable[[], object] = lambda: None,
        on_drain: Callable[[], object] = lambda: None,
    ) -> None:
        self._beat = beat
        self._on_silence = on_silence
        self._on_drain = on_drain
        self.held: dict[RunKey, Held] = {}
        self.is_draining = False
        self.last_beat: float = monotonic()
        """When the last acknowledged heartbeat was sent."""
        self.idle_beat: float = IDLE_BEAT_SECONDS
        """Seconds between the heartbeats of an idle worker, as the server last said."""
        self.gets_pushes: bool = False
        """Whether the server pushes what has to stop; otherwise only the answers to heartbeats say it."""
        self._now = asyncio.Event()
        self._waits = QuietLog(log)
        self.guarded: threading.Event = threading.Event()
        """Set when a run is guarded whose lease ends before the watchdog's next check, or begins in a process."""

    def add(self, claim: dict[str, Any], since: float) -> Held:
        """Add a claimed run; its `seconds_left` count from `since`, before which the server did not write them."""
        held = Held(claim, since)
        self.held[held.key] = held
        return held

    def drop(self, held: Held) -> None:
        """Forget a run, because its end is acknowledged or it was never begun."""
        if held.timer is not None:
            held.timer.cancel()
        self.held.pop(held.key, None)

    def refs(self) -> list[dict[str, Any]]:
        """Every run that is held, for an opening, which says what the worker still has."""
        return [held.ref for held in list(self.held.values())]

    def body(self, *only: Held) -> dict[str, Any]:
        """Return a heartbeat that renews the leases that are due for it, or `only` some.

        A short lease always is, and so is that of a target, with which its code must end. Another is due half a pace
        after it began or, where the server pushes what has to stop, after a sixth of its length, 10 s at most. So it is
        still renewed twice before it can end, and runs that end within milliseconds are never named: hundreds of them
        took the server 50 ms in every 2 s of a drain on PostgreSQL. 4,000 running tasks take it and its database half
        of the processor time that they took when each heartbeat named all.
        """
        now, settled = monotonic(), self.pace / 2
        named = only or [held for held in list(self.held.values()) if self._is_due(held, now, settled)]
        tasks = [held.ref if held.usage is None else held.ref | {"usage": held.usage} for held in named]
        return {"tasks": tasks, "draining": True} if self.is_draining else {"tasks": tasks}

    def _is_due(self, held: Held, now: float, settled: float) -> bool:
        if held.usage is not None or held.has_target or held.length < SHORT:
            return True
        unnamed = min(held.length / 6, LONGEST_UNNAMED) if self.gets_pushes else settled
        return now - held.since >= unnamed

    @property
    def pace(self) -> float:
        """Seconds between heartbeats while a run is held: each lease is renewed twice before it can end.

        They are never further apart than those of an idle worker, as some servers want to notice lost workers sooner.
        """
        shortest = min((held.length for held in list(self.held.values())), default=BUSY_BEAT_SECONDS * 3)
        return max(QUICKEST_BEAT, min(BUSY_BEAT_SECONDS, self.idle_beat, shortest / 3))

    def beat_now(self) -> None:
        """Send a heartbeat for all runs at the next turn of the event loop, not at the next interval."""
        self._now.set()

    async def run(self, online: asyncio.Event) -> None:
        """Send heartbeats until cancelled: at the pace while a run is held, else as often as the server says.

        While the worker is not `online` it waits; the reason is logged elsewhere.
        """
        while True:
            left = self.last_beat + self.idle_beat - monotonic()
            # An unanswered heartbeat is repeated at the pace.
            wait = self.pace if self.held or left <= 0 else min(self.pace, left)
            try:
                async with asyncio.timeout(wait):
                    await self._now.wait()
            except TimeoutError:
                if not self.held and monotonic() - self.last_beat < self.idle_beat:
                    continue
            await online.wait()
            is_asked = self._now.is_set()
            self._now.clear()
            await self.beat(*(self.held.values() if is_asked else ()))

    async def beat(self, *only: Held) -> bool:
        """Send one heartbeat, as `body` has it, and apply its answer; return whether one came."""
        sent = monotonic()
        try:
            async with asyncio.timeout(SILENCE):
                answer = await self._beat(self.body(*only))
            with reading():
                self.apply(answer, sent)
        except TimeoutError:
            self._waits.say(f"no heartbeat: the server did not answer within {in_seconds(SILENCE)}", "trying again")
            self._on_silence()
            return False
        except TreadleError as error:
            self._waits.say(f"no heartbeat: {error}", "trying again")
            return False
        self._waits.over()
        return True

    def apply(self, answer: dict[str, Any], sent: float) -> None:
        """Apply a heartbeat's answer: renew leases from the moment it was `sent`, and stop the runs that it names."""
        self.note(answer, sent)
        if _worker_in(answer).get("state") == WorkerState.DRAINING:
            self.drain()
        for item in answer.get("taken_until") or ():
            held = self.held.get((item["task_id"], item["run_id"]))
            if held is not None and held.timer is not None:
                self.guard(held)
        for why in ("gone", "cancel", "pause"):
            self.stop_runs(answer.get(why) or (), why)

    def drain(self) -> None:
        """Have the worker end, as the server asks: it takes no more, and its runs get their grace."""
        if not self.is_draining:
            log.info("the server asked the worker to drain")
            self._on_drain()

    def note(self, answer: dict[str, Any], sent: float) -> None:
        """Record when leases end, as the server counts from when the heartbeat was `sent`; safe from any thread."""
        self.last_beat = max(self.last_beat, sent)
        told = _worker_in(answer).get("idle_beat_seconds")
        self.idle_beat = max(QUICKEST_BEAT, told or self.idle_beat)
        for item in answer.get("taken_until") or ():
            held = self.held.get((item["task_id"], item["run_id"]))
            if held is not None:
                held.since = sent
                held.expires = sent + item["seconds_left"]
                if (renewed := held.renewed) is not None:
                    renewed()

    def guard(self, held: Held) -> None:
        """Have the code of a run with a target stopped early enough before its lease ends."""
        if held.timer is not None:
            held.timer.cancel()
        elif held.last_moment - monotonic() < LOOKS:
            self.guarded.set()
        left = held.expires - monotonic() - stop_margin(held.length)
        if left > 0:
            held.timer = asyncio.get_running_loop().call_later(left, self.guard, held)
        else:
            self.stop_run(held, "lease")

    def stop_runs(self, runs: Iterable[dict[str, Any]], why: Stop) -> None:
        """Stop the code of those of the given runs (each a `RunRef`) that are held here, for the reason `why`."""
        for run in runs:
            held = self.held.get((run["task_id"], run["run_id"]))
            if held is not None:
                self.stop_run(held, why)

    def stop_run(self, held: Held, why: Stop) -> None:
        """Stop one run's code; the first reason is kept, except that any other reason replaces a pause."""
        if held.stop is not None and (held.stop != "pause" or why == "pause"):
            return
        held.stop = why
        if held.stop_code is not None:
            held.stop_code()
            asyncio.get_running_loop().call_later(LATE, _tell_of_late, held)


def _tell_of_late(held: Held) -> None:
    if held.code_runs:
        log.warning(
            "task %s, run %s, of %s was told to stop %s ago (%s), but its code is still running: it keeps its place"
            " in this worker until it ends, so let it raise CancelledError, or check ctx.cancelled",
            *held.key, held.claim["job_name"], in_seconds(LATE), held.stop,
        )  # fmt: skip


def _worker_in(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the worker in an answer: an opening's answer contains it, a heartbeat's is the worker itself."""
    worker: dict[str, Any] = answer.get("worker") or answer
    return worker


def _length(claim: dict[str, Any]) -> float:
    lease: float = claim.get("seconds_left") or 0.0
    return min(lease, claim.get("heartbeat_increment") or lease)


def stop_margin(lease: float) -> float:
    """Return how many seconds before its lease ends a target's code is told to stop."""
    return min(5.0, lease * 0.25)


def abort_margin(lease: float) -> float:
    """Return how many seconds before its lease ends a target's code that didn't stop is ended by force."""
    return min(0.5, lease * 0.05)
