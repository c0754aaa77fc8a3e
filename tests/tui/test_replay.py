"""A session is recorded, and shown again without a server: with its own time, and from any moment."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from treadle_tui.cli import watch
from treadle_tui.core.commands import CommandError
from treadle_tui.core.feed import Feed, Pushed
from treadle_tui.core.model import Model
from treadle_tui.core.record import Recorder, RecordingError, RecordingLink
from treadle_tui.core.recording import open_recording
from treadle_tui.core.replay import Player, read_time
from treadle_tui.core.sitting import Sitting
from treadle_tui.launch import replayed

from .mock import NOON, FrozenClock, MockServer
from .scene import BILLING, ROTATE
from .stage import NEVER, Stage, staged
from .test_commands import typed


@pytest.fixture
async def recording(tmp_path: Path, server: MockServer, clock: FrozenClock) -> Path:
    """A minute in which the pending tasks grow from ten to sixty-nine, and the server is away from 40 to 50."""
    path = tmp_path / "session.ndjson"
    recorder = Recorder(path, place="queue.example", clock=clock)
    job = next(iter(server.jobs.values()))
    sitting = Sitting(link=RecordingLink(server, recorder), place="queue.example", clock=clock, recorder=recorder)
    async with staged(server, clock, sitting=sitting) as stage:
        assert "recording" in stage.text()
        for second in range(60):
            await advance(stage, server, job, second)
    return path


async def advance(stage: Stage, server: MockServer, job: dict[str, object], second: int) -> None:
    stage.clock.advance(1)
    if second == 40:
        server.drop("no server answers")
    elif second == 50:
        server.open()
        await stage.settle()
    elif not 40 < second < 50:
        job["counts"] = {**job["counts"], "pending": 10 + second}  # type: ignore[dict-item]
        server.push_topic("counts")


@asynccontextmanager
async def shown(path: Path, clock: FrozenClock) -> AsyncIterator[tuple[Player, Stage]]:
    """The dashboard on a recording."""
    player = Player(open_recording(path), clock=clock)
    sitting = Sitting(link=player, place="queue.example", read_only=True, clock=player, player=player)
    server = MockServer(clock)
    async with staged(server, clock, sitting=sitting) as stage:
        yield player, stage


async def at(player: Player, stage: Stage, seconds: float) -> None:
    player.seek(seconds)
    await stage.settle()


async def test_a_recording_shows_what_was_there_at_each_moment(recording: Path, clock: FrozenClock) -> None:
    async with shown(recording, clock) as (player, stage):
        for second in (5, 30, 12):
            await at(player, stage, second + 1.5)
            assert stage.app.model.counts.rows[ROTATE]["pending"] == 10 + second
            assert ROTATE in stage.text()
            assert "REPLAY" in stage.lines()[0]


async def test_a_recording_goes_on_by_itself_at_its_own_pace(recording: Path, clock: FrozenClock) -> None:
    async with shown(recording, clock) as (player, stage):
        await at(player, stage, 5.5)
        clock.advance(10)
        player._follow()
        assert stage.app.model.counts.rows[ROTATE]["pending"] == 24

        player.run_at(2)
        clock.advance(5)
        player._follow()
        assert stage.app.model.counts.rows[ROTATE]["pending"] == 34


async def test_the_keys_stop_and_step(recording: Path, clock: FrozenClock) -> None:
    async with shown(recording, clock) as (player, stage):
        await at(player, stage, 30)
        await stage.press("K")
        clock.advance(100)
        assert player.position == 30
        assert "REPLAY stopped 30s" in stage.lines()[0]

        await stage.press("J")
        assert player.position == 20
        await stage.press("L", "L")
        assert player.position == 40
        await typed(stage, "seek 12")
        assert player.position == 12
        await typed(stage, "speed 8")
        assert player.speed == 8
        assert "x8" in stage.lines()[0]
        await typed(stage, "speed 1000")
        assert "a recording plays 0.1 to 100 times as fast" in stage.text()


async def test_its_time_is_the_recorded_one(recording: Path, clock: FrozenClock) -> None:
    clock.advance(86_400)

    async with shown(recording, clock) as (player, stage):
        await at(player, stage, 15)

        assert (player.now() - NOON).total_seconds() == pytest.approx(15, abs=1)
        assert "12:00:15" in stage.text()


async def test_a_server_that_was_away_is_away_in_the_recording_too(recording: Path, clock: FrozenClock) -> None:
    async with shown(recording, clock) as (player, stage):
        await at(player, stage, 44)
        assert "No server" in stage.text()

        await at(player, stage, 58)
        assert "No server" not in stage.text()
        await at(player, stage, 45)
        assert "No server" in stage.text()


async def test_nothing_can_be_changed_in_a_recording(recording: Path, clock: FrozenClock) -> None:
    async with shown(recording, clock) as (player, stage):
        await at(player, stage, 10)
        assert "cancel" not in stage.lines()[-1]
        await stage.press("p")
        assert "this dashboard is read-only" in stage.text()
        await typed(stage, f"pause queue {BILLING}")
        assert "pause-queue is off" in stage.text()


async def test_another_queue_than_the_recorded_one_shows_what_came_by_of_it(
    recording: Path, clock: FrozenClock
) -> None:
    async with shown(recording, clock) as (player, stage):
        await at(player, stage, 10)
        whole = stage.app.model.tasks.total
        await typed(stage, "filter status:running")

        assert 0 < len(stage.app.model.tasks.rows) < whole
        assert {row.status for row in stage.app.model.tasks.rows.values()} == {"running"}


async def test_a_task_that_was_not_looked_at_says_so(recording: Path, clock: FrozenClock) -> None:
    async with shown(recording, clock) as (player, stage):
        await at(player, stage, 10)
        await stage.press("2", "enter")

        assert "was not looked at when the recording was made" in stage.text()


async def test_the_end_stays_in_sight_and_can_be_begun_again(recording: Path, clock: FrozenClock) -> None:
    async with shown(recording, clock) as (player, stage):
        clock.advance(1000)
        player._follow()
        await stage.pass_time(1)
        assert "REPLAY ended" in stage.lines()[0]
        assert stage.app.model.counts.rows[ROTATE]["pending"] == 69

        await stage.press("K")
        assert player.position < 1


# The file.


def note(recorder: Recorder, number: int) -> None:
    recorder.note(Pushed({"push": "events", "events": ["x" * 100], "seq": number}))


def test_a_compressed_recording_is_read_like_a_plain_one(tmp_path: Path, clock: FrozenClock) -> None:
    for name in ("plain.ndjson", "small.ndjson.gz"):
        recorder = Recorder(tmp_path / name, place="p", clock=clock)
        for number in range(100):
            clock.advance(0.5)
            note(recorder, number)
        recorder.close()

    plain, small = (open_recording(tmp_path / name) for name in ("plain.ndjson", "small.ndjson.gz"))

    assert [entry for _, entry in small.between(0, 99)] == [entry for _, entry in plain.between(0, 99)]
    assert small.seconds == plain.seconds == 50.0
    assert (tmp_path / "small.ndjson.gz").stat().st_size < (tmp_path / "plain.ndjson").stat().st_size / 10


def test_a_recording_ends_when_it_is_full_and_says_so(tmp_path: Path, clock: FrozenClock) -> None:
    recorder = Recorder(tmp_path / "r", place="p", clock=clock, most_bytes=2_000)
    for number in range(100):
        note(recorder, number)

    assert recorder.ended is not None
    assert "that is the most" in recorder.ended
    assert (tmp_path / "r").stat().st_size < 2_200
    assert json.loads((tmp_path / "r").read_text().splitlines()[-1])["end"] == recorder.ended


def test_only_its_owner_can_read_a_recording_and_none_is_overwritten(tmp_path: Path) -> None:
    Recorder(tmp_path / "r", place="p").close()

    assert (tmp_path / "r").stat().st_mode & 0o077 == 0
    with pytest.raises(RecordingError, match="is there already"):
        Recorder(tmp_path / "r", place="p")


def test_a_recording_of_a_dashboard_that_was_killed_is_read_as_far_as_it_goes(
    tmp_path: Path, clock: FrozenClock
) -> None:
    recorder = Recorder(tmp_path / "r.gz", place="p", clock=clock)
    for number in range(1000):
        clock.advance(0.01)
        note(recorder, number)
    recorder.close()
    whole = (tmp_path / "r.gz").read_bytes()
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "cut").write_bytes(gzip.decompress(whole)[:-50])

    assert 0 < open_recording(tmp_path / "cut.gz").seconds < 10
    assert open_recording(tmp_path / "cut").seconds == pytest.approx(10, abs=0.1)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is no recording"),
        (b'{"seq":1}\n', "is no recording"),
        (b'{"treadle":"recording","format":9,"at":"2026-11-21T12:00:00+00:00"}\n', "of another version (9)"),
        (b'{"treadle":"recording","format":1,"at":"2026-11-21T12:00:00+00:00"}\nnonsense\n', "line 2: this is no line"),
    ],
)
def test_what_is_no_recording_says_so(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(content)

    with pytest.raises(RecordingError) as caught:
        open_recording(tmp_path / "r")

    assert says in str(caught.value)


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    # As a page of `--web`, which needs no terminal.
    result = CliRunner().invoke(watch, ["--replay", str(tmp_path / "none")], env={"TEXTUAL_DRIVER": "of:a-page"})

    assert result.exit_code == 2
    assert "can't be read: No such file" in result.output


@pytest.mark.parametrize("options", [["--replay", "a", "--record", "b"], ["--json", "--record", "b"], ["--port", "1"]])
def test_options_that_contradict_each_other_are_refused(options: list[str]) -> None:
    result = CliRunner().invoke(watch, options)

    assert result.exit_code == 2
    assert "leave one of them out" in result.output or "goes with --web" in result.output


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1m30", 90), ("1m30s", 90), ("1:30", 90), ("1h", 3600), ("+10", 110), ("-1m", 40), ("2.5", 2.5)],
)
def test_times_are_written_as_people_do(text: str, seconds: float) -> None:
    assert read_time(text, 100) == seconds


@pytest.mark.parametrize("text", ["", "soon", "+", "1x"])
def test_what_is_no_time_says_how_one_is_written(text: str) -> None:
    with pytest.raises(CommandError, match="write 1m30 or 90"):
        read_time(text, 0)


def test_the_command_shows_a_recording_without_a_server(tmp_path: Path, clock: FrozenClock) -> None:
    Recorder(tmp_path / "r", place="prod", clock=clock).close()

    sitting = replayed(tmp_path / "r", 4.0)

    assert (sitting.place, sitting.read_only, sitting.player is sitting.clock) == ("prod", True, True)
    assert sitting.player is not None
    assert sitting.player.speed == 4.0


async def test_a_disk_that_is_full_ends_the_recording_and_not_the_dashboard(
    tmp_path: Path, server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "r", place="p", clock=clock)

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
