"""Each transition as a line of JSON, over broken connections too."""

import asyncio
import json
from errno import ENOSPC
from typing import Any

import pytest

from tests.chaos.wires import Wire
from tests.tui.scene import task, uuid
from treadle.errors import TreadleError
from treadle.filters import parse
from treadle.transport.bearer import Bearer
from treadle_tui.core.live.feed import Lost, Opened, Pushed
from treadle_tui.core.live.link import SessionLink
from treadle_tui.core.live.ndjson import Stream


class Events:
    """A link that plays events."""

    def __init__(self, *events: Any) -> None:
        self.events = events
        self.asked: list[dict[str, Any]] = []

    async def run(self, sink: Any) -> None:
        for event in self.events:
            sink(event)
            for _ in range(5):
                await asyncio.sleep(0)
        await asyncio.Event().wait()

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        self.asked.append({"op": op, **fields})
        return {"stream": "s", "seq": 7}

    received = 0

    def reset(self) -> None:
        raise AssertionError("a stream gives nothing up")


def events(*items: dict[str, Any], seq: int = 9) -> Pushed:
    return Pushed({"push": "events", "stream": "s", "seq": seq, "events": list(items)})


LAST = Lost("the end of the test", refused=True, is_final=True)


async def played(*happens: Any, **options: Any) -> tuple[list[Any], list[str], Events]:
    link = Events(*happens, LAST)
    lines: list[str] = []
    complaints: list[str] = []
    with pytest.raises(TreadleError, match="the end of the test"):
        await Stream(link, write=lines.append, complain=complaints.append, **options).run()
    return [json.loads(line) for line in lines], complaints, link


async def test_each_event_is_a_line() -> None:
    first, second = {"seq": 8, "type": "task.available"}, {"seq": 9, "type": "job.updated"}

    lines, _, link = await played(Opened({}), events(first, second), room="room_42")

    assert lines == [first, second]
    assert link.asked == [{"op": "every", "on": True, "room": "room_42"}]


async def test_after_a_break_it_goes_on_behind_the_last_event() -> None:
    _, complaints, link = await played(Opened({}), events({"seq": 9}), Lost("no server"), Opened({}))

    assert link.asked[1]["since"] == {"stream": "s", "seq": 9}
    assert complaints == ["no server; trying again"]


async def test_somebody_else_who_answers_in_the_servers_place_ends_nothing_n4() -> None:
    """A proxy that opens no websocket, or a server that stands still: it waits for the one that does."""
    wire = Wire("http://127.0.0.1:9")
    await wire.listen()
    await wire.begin("stranger")
    complaints: list[str] = []
    stream = Stream(SessionLink((wire.url,), Bearer(lambda: "t")), write=print, complain=complaints.append)
    running = asyncio.create_task(stream.run())
    try:
        async with asyncio.timeout(20):
            while not complaints and not running.done():
                await wire.is_met.wait()
                await asyncio.sleep(0)
        assert not running.done()
        assert complaints == [f"{wire.url} opens no websocket: Log in first; trying again"]
    finally:
        running.cancel()
        await asyncio.wait([running])
        wire.close()


async def test_missed_events_are_said() -> None:
    lines, _, _ = await played(Opened({}), Pushed({"push": "reload", "stream": "t", "seq": 3}))

    assert lines == [{"type": "reload", "stream": "t", "seq": 3}]


async def test_the_filter_language_narrows_the_lines_too() -> None:
    wanted = {"seq": 8, "type": "task.updated", "task": task(1, status="failed")}
    other = {"seq": 9, "type": "task.updated", "task": task(2)}

    lines, _, _ = await played(
        Opened({}), events(wanted, other, {"seq": 10, "type": "job.updated"}), wanted=lambda: parse("status:failed")
    )

    assert [line["task"]["id"] for line in lines] == [uuid(1)]


async def test_a_worker_is_meant_by_its_name() -> None:
    workers = [{"id": uuid(20_001), "name": "web-2"}, {"id": uuid(20_002), "name": None}]
    told = Pushed({"push": "snapshot", "topic": "workers", "sub": "workers", "rows": workers})
    mine = {"seq": 8, "type": "task.updated", "task": task(1, status="running", worker_id=uuid(20_001))}
    other = {"seq": 9, "type": "task.updated", "task": task(2, status="running", worker_id=uuid(20_002))}

    lines, _, link = await played(
        Opened({}), told, events(mine, other), Lost("a break"), Opened({}), told, events(other, mine),
        wanted=lambda: parse("worker:web-2"),
    )  # fmt: skip

    assert [line["task"]["id"] for line in lines] == [uuid(1), uuid(1)]
    assert [asked["op"] for asked in link.asked] == ["watch", "every", "watch", "every"]


async def test_a_reader_that_went_away_ends_it_quietly() -> None:
    def gone(line: str) -> None:
        raise BrokenPipeError

    await Stream(Events(Opened({}), events({"seq": 8})), write=gone, complain=print).run()


async def test_a_line_that_cannot_be_written_ends_it_and_is_told() -> None:
    def full(line: str) -> None:
        raise OSError(ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left on device"):
        await Stream(Events(Opened({}), events({"seq": 8}), LAST), write=full, complain=print).run()
