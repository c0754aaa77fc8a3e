"""Behaviour 7: after dropped, doubled and reordered frames the dashboard's state equals the server's."""

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tui.mock import FrozenClock
from tests.tui.scene import task, uuid
from treadle.wire.frames import Window
from treadle_tui.core.live.feed import Event, Feed, Opened, Pushed
from treadle_tui.core.live.subscriptions import Want
from treadle_tui.core.state.model import Model

CHANGES = st.tuples(st.sampled_from(["new", "change", "gone", "move"]), st.integers(1, 8), st.integers(0, 1_000))
FATES = st.sampled_from(["pass", "pass", "pass", "drop", "double", "late", "twice late"])


class LossyServer:
    """Holds the truth, numbers its pushes as the protocol says, and sends them over a line that loses them."""

    def __init__(self, clock: FrozenClock) -> None:
        self.clock = clock
        self.tasks: dict[str, dict[str, Any]] = {}
        self.seq = 1
        self._subs: dict[str, tuple[int, list[str]]] = {}
        self._late: list[dict[str, Any]] = []
        self._sink: Callable[[Event], None] = print
        self.fate: Callable[[], str] = lambda: "pass"

    async def run(self, sink: Callable[[Event], None]) -> None:
        self._sink = sink
        sink(Opened({"protocol": 1, "stream": "s", "seq": 1, "time": self.clock.now().isoformat()}))
        await asyncio.Event().wait()

    received = 0

    def reset(self) -> None:
        raise AssertionError("nothing that was sent can't be read")

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        if op == "watch":
            self._subs[fields["sub"]] = (0, list(self.tasks))
            self._send(self._body("snapshot", fields["sub"], rows=list(self.tasks.values()), frame=0))
        else:
            self._subs.pop(fields["sub"], None)
        return {}

    def change(self, kind: str, which: int, value: int) -> None:
        """Change the truth, and tell whoever watches it."""
        key = uuid(which)
        before = list(self.tasks)
        if kind == "gone":
            self.tasks.pop(key, None)
        elif kind == "move" and key in self.tasks:
            self.tasks = {key: self.tasks.pop(key), **self.tasks}
        elif kind == "new" or key in self.tasks:
            self.tasks[key] = task(which, priority=value)
        self.seq += 1
        self.tell([key] if kind in {"new", "change"} and key in self.tasks else [], before)

    def tell(self, changed: list[str], before: list[str]) -> None:
        """Push what changed to each subscription."""
        for sub, (last, _) in list(self._subs.items()):
            frame = last + 1
            self._subs[sub] = (frame, list(self.tasks))
            push = self._body("delta", sub, rows=[self.tasks[key] for key in changed], frame=frame)
            push |= {"prev": last, "gone": [key for key in before if key not in self.tasks]}
            if before != list(self.tasks):
                push["order"] = list(self.tasks)
            self._send(push)

    def _body(self, kind: str, sub: str, *, rows: list[dict[str, Any]], frame: int) -> dict[str, Any]:
        return {
            "push": kind, "sub": sub, "topic": "tasks", "seq": self.seq, "frame": frame, "rows": rows,
            "total": len(self.tasks), "total_is_capped": False,
        }  # fmt: skip

    def _send(self, push: dict[str, Any]) -> None:
        fate = self.fate()
        if fate in {"pass", "double"}:
            self._sink(Pushed(push))
        if fate == "double":
            self._sink(Pushed(push))
        self._late += [push] * {"late": 1, "twice late": 2}.get(fate, 0)
        if fate in {"pass", "double"}:
            late, self._late = self._late, []
            for old in late:
                self._sink(Pushed(old))


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(CHANGES, FATES, FATES), max_size=40))
def test_7_after_lost_doubled_and_reordered_frames_the_state_equals_the_servers(
    story: list[tuple[tuple[str, int, int], str, str]],
) -> None:
    async def play() -> None:
        clock = FrozenClock()
        server, model = LossyServer(clock), Model(clock)
        feed = Feed(model, server, ping_seconds=86_400)
        running = asyncio.create_task(feed.run())
        feed.want(Want("tasks", window=Window()))
        await _turn()
        for change, first, later in story:
            # The first fate is the delta's; the later ones are those of what is sent when it is asked for anew.
            fates = iter([first, later])
            server.fate = lambda fates=fates: next(fates, "pass")  # type: ignore[misc]
            server.change(*change)
            await _turn()
        # However bad the line was: once it is whole again, one more frame tells.
        server.fate = lambda: "pass"
        server.tell([], list(server.tasks))
        await _turn()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

        assert model.tasks.order == list(server.tasks)
        assert {key: row.priority for key, row in model.tasks.rows.items()} == {
            key: row["priority"] for key, row in server.tasks.items()
        }
        assert model.tasks.total == len(server.tasks)

    asyncio.run(play())


async def _turn() -> None:
    for _ in range(12):
        await asyncio.sleep(0)
