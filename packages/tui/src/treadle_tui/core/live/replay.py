"""Plays a recording: a link without a server, and a clock that shows the recorded time."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from treadle.errors import error_for, problem_named
from treadle.wire.amounts import amount
from treadle_tui.core.live.feed import Event, Lost, Opened, Pushed
from treadle_tui.core.live.recording import Past, Recording, View
from treadle_tui.core.state.clock import Clock, SystemClock

STEP_SECONDS = 10.0
"""How far the keys jump forward and back."""

TURN_SECONDS = 0.1
"""How often the screen follows the recording: several changes of a topic within this time are shown as one."""

SPEEDS = (0.1, 100.0)

_TIME = re.compile(r"([+-]?)(?:(\d+)h)?(?:(\d+)(?:m|:))?(?:(\d+(?:\.\d+)?)s?)?")


class ReplayError(ValueError):
    """An invalid time or speed for a replay: what is wrong, and what to write."""


class Player:
    """The link and the clock of a replay: its position, its speed, and the server's state at that moment."""

    def __init__(self, recording: Recording, *, speed: float = 1.0, clock: Clock | None = None) -> None:
        self.recording = recording
        self.playing = True
        self.speed = speed
        self._clock = clock or SystemClock()
        self._at = recording.time_of(0) or 0.0
        self._since = self._clock.steady()
        self._steady = 0.0
        self._past = Past()
        self._next = 0
        self._watched: dict[str, tuple[Mapping[str, Any], View | None]] = {}
        self._sink: Callable[[Event], None] | None = None
        self._moved = asyncio.Event()

    # The clock.

    @property
    def position(self) -> float:
        """The position in the recording, in seconds from its start."""
        if not self.playing:
            return self._at
        return min(self.recording.seconds, self._at + (self._clock.steady() - self._since) * self.speed)

    @property
    def at_end(self) -> bool:
        """Whether the whole recording has been shown."""
        return self.position >= self.recording.seconds

    def now(self) -> datetime:
        """Return the recorded time of the current position."""
        return self.recording.begun_at + timedelta(seconds=self.position)

    def steady(self) -> float:
        """Return how many seconds of the recording were shown so far; this never runs backwards."""
        return self._steady + self.position - self._at

    def _stand_at(self, at: float) -> None:
        self._steady += self.position - self._at
        self._at, self._since = at, self._clock.steady()

    # Controls.

    def toggle(self) -> None:
        """Pause or resume; at the end, start again."""
        at_end = self.at_end
        self._stand_at(self.position)
        self.playing = not self.playing
        if at_end:
            self.playing = True
            self.seek(0.0)
        self._moved.set()

    def run_at(self, speed: float) -> None:
        """Change the speed. Raises `ReplayError` if it is out of bounds."""
        if not SPEEDS[0] <= speed <= SPEEDS[1]:
            raise ReplayError(f"invalid speed {amount(speed)}: write a factor from {SPEEDS[0]} to {SPEEDS[1]:.0f}")
        self._stand_at(self.position)
        self.speed = speed
        self._moved.set()

    def seek(self, seconds: float) -> None:
        """Jump to another position and continue from there."""
        back = seconds < self.position
        self._stand_at(max(0.0, min(self.recording.seconds, seconds)))
        if back:
            self._past, self._next = Past(), 0
        for _ in self._taken(self._at):
            pass
        self._announce()
        self._moved.set()

    def step(self, seconds: float) -> None:
        """Jump forward by this many seconds, or back if negative."""
        self.seek(self.position + seconds)

    # The link.

    async def run(self, sink: Callable[[Event], None]) -> None:
        """Play until cancelled; the last state stays on screen at the end."""
        self._sink = sink
        self._stand_at(self._at)
        while True:
            self._follow()
            self._moved.clear()
            due = self.recording.time_of(self._next)
            wait = None
            if self.playing and due is not None:
                wait = max(TURN_SECONDS, (due - self.position) / self.speed)
            try:
                async with asyncio.timeout(wait):
                    await self._moved.wait()
            except TimeoutError:
                continue

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Answer a request from the recording.

        Raises `ProblemError` for anything that was not recorded, and for everything that would change something.
        """
        if op == "ping":
            # The server was alive at this moment: otherwise the recording would have a `lost` entry.
            return {"time": self.now().isoformat()}
        if op == "unwatch":
            self._watched.pop(fields["sub"], None)
            return {}
        if op == "watch":
            return self._watch(fields)
        raise error_for(
            problem_named("forbidden", "this is a recording: nothing can be requested from it or changed in it")
        )

    @property
    def received(self) -> int:
        """Always 0: nothing comes over a network."""
        return 0

    def reset(self) -> None:
        """Do nothing: a recording has no connection to drop."""

    def _watch(self, fields: dict[str, Any]) -> dict[str, Any]:
        sub = fields["sub"]
        view = self._past.view(fields)
        # What has not been recorded yet is shown when its time comes.
        self._watched[sub] = (fields, view)
        if view is not None:
            self._tell(Pushed(view.snapshot(sub)))
        elif not self._past.awaits(fields["topic"]):
            raise error_for(problem_named("forbidden", "this was not on screen when the recording was made"))
        return {}

    def _follow(self) -> None:
        """Take all entries that are due, and push each changed topic once."""
        changed: dict[str, None] = {}
        for entry, topic in self._taken(self.position):
            push = entry.get("push")
            if push is not None and push.get("push") in {"events", "reload"}:
                self._tell(Pushed(push))
            if topic == "link":
                self._announce()
            elif topic is not None:
                changed[topic] = None
        for sub, (fields, before) in list(self._watched.items()):
            view = self._past.view(fields) if fields["topic"] in changed else None
            if view is not None:
                self._watched[sub] = (fields, view)
                self._tell(Pushed(view.snapshot(sub) if before is None else view.delta(sub, before)))

    def _taken(self, until: float) -> Iterator[tuple[Mapping[str, Any], str | None]]:
        """Take the entries up to a time, yielding each with the topic it changed. A damaged one ends the recording."""
        try:
            for number, entry in self.recording.between(self._next, until):
                topic = self._past.take(entry)
                self._next = number
                yield entry, topic
        except (KeyError, TypeError, ValueError) as error:
            self._stand_at(self.position)
            self.recording.cut(self._next, f"{error!r:.200}")
            self._at = self.recording.seconds

    def _announce(self) -> None:
        past = self._past
        if past.lost is not None:
            how = {name: bool(past.lost.get(name)) for name in ("refused", "denied")}
            self._tell(Lost(str(past.lost["detail"]), **how))
        elif past.hello is not None:
            # The feed then subscribes to everything again, and is answered with the state of this moment.
            self._watched.clear()
            self._tell(Opened({**past.hello, "time": self.now().isoformat()}))

    def _tell(self, event: Event) -> None:
        if self._sink is not None:
            self._sink(event)


def read_time(text: str, position: float) -> float:
    """Return the position that `1m30`, `90`, `1:30`, `+10` or `-1m` means, in seconds. Raises `ReplayError`."""
    match = _TIME.fullmatch(text.strip().replace(" ", ""))
    if match is None or not any(match.groups()[1:]):
        raise ReplayError(f'invalid time "{text}": write 1m30 or 90 from the start, or +10 or -1m from here')
    sign, hours, minutes, seconds = match.groups()
    amount = int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)
    return position + amount if sign == "+" else position - amount if sign == "-" else amount
