"""A recording is written as it is seen, to its end, and for its owner alone."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import NEVER, staged
from treadle_tui.core.live.feed import Feed, Pushed
from treadle_tui.core.live.recorder import Recorder, RecordingError, RecordingLink
from treadle_tui.core.setup.connection import Connection
from treadle_tui.core.state.model import Model


def note(recorder: Recorder, number: int) -> None:
    recorder.note(Pushed({"push": "events", "events": ["x" * 100], "seq": number}))


def test_a_recording_ends_when_it_is_full_and_says_so(tmp_path: Path, clock: FrozenClock) -> None:
    recorder = Recorder(tmp_path / "r", server_name="p", clock=clock, most_bytes=2_000)
    for number in range(100):
        note(recorder, number)

    assert recorder.ended is not None
    assert "reached the maximum" in recorder.ended
    assert (tmp_path / "r").stat().st_size < 2_200
    assert json.loads((tmp_path / "r").read_text().splitlines()[-1])["end"] == recorder.ended


def test_only_its_owner_can_read_a_recording_and_none_is_overwritten(tmp_path: Path) -> None:
    Recorder(tmp_path / "r", server_name="p").close()

    assert (tmp_path / "r").stat().st_mode & 0o077 == 0
    with pytest.raises(RecordingError, match="already exists"):
        Recorder(tmp_path / "r", server_name="p")


async def test_a_disk_that_is_full_ends_the_recording_and_not_the_dashboard(
    tmp_path: Path, server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "r", server_name="p", clock=clock)

    def full(_: bytes) -> int:
        raise OSError(28, "No space left on device")

    recorder._file.close()
    monkeypatch.setattr(recorder, "_file", type("Full", (), {"write": staticmethod(full), "close": lambda _: None})())
    model = Model(clock)
    feed = Feed(model, RecordingLink(server, recorder), ping_seconds=NEVER)
    running = asyncio.create_task(feed.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert model.link.live
    assert "No space left on device" in str(recorder.ended)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_end_of_what_is_recorded_is_announced_and_told_to_who_has_left(
    tmp_path: Path, server: MockServer, clock: FrozenClock
) -> None:
    recorder = Recorder(tmp_path / "r", server_name="p", clock=clock, most_bytes=1_000_000)
    connection = Connection(link=RecordingLink(server, recorder), server_name="p", clock=clock, recorder=recorder)

    async with staged(server, clock, connection=connection) as stage:
        clock.advance(20)
        for number in range(10_000):
            note(recorder, number)
        await stage.pass_time(1)
        assert "recording has stopped: it reached the maximum of 1 MB" in stage.text()
        await stage.pass_time(30)
        assert "recording has stopped" not in stage.text()

    why = "then it reached the maximum of 1 MB"
    assert recorder.summary() == f"Recorded 20 s, 1.0 MB; {why}. Replay it: treadle watch --replay {recorder.path}"


def test_a_recording_that_was_closed_says_where_it_is(tmp_path: Path, clock: FrozenClock) -> None:
    recorder = Recorder(tmp_path / "r", server_name="p", clock=clock)
    recorder.close()

    assert recorder.summary() == f"Recorded 0 s, 0.0 MB. Replay it: treadle watch --replay {recorder.path}"
