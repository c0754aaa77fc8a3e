"""A session is recorded, and shown again without a server: with its own time, and from any moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tui.happenings import limits_are_full
from tests.tui.mock import NOON, FrozenClock, MockServer
from tests.tui.scene import BILLING, ROTATE
from tests.tui.stage import Stage, staged, typed
from tests.waiting import until
from treadle_tui.cli import watch
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.live.recorder import Recorder, RecordingLink
from treadle_tui.core.live.recording import open_recording
from treadle_tui.core.live.replay import Player, ReplayError, read_time
from treadle_tui.core.setup.connection import Connection
from treadle_tui.core.state.model import Model
from treadle_tui.launch import replayed


@pytest.fixture
async def recording(tmp_path: Path, server: MockServer, clock: FrozenClock) -> Path:
    """A minute in which the pending tasks grow from ten to sixty-nine, and the server is away from 40 to 50."""
    path = tmp_path / "session.ndjson"
    recorder = Recorder(path, server_name="queue.example", clock=clock)
    job = next(iter(server.jobs.values()))
    connection = Connection(
        link=RecordingLink(server, recorder), server_name="queue.example", clock=clock, recorder=recorder
    )
    async with staged(server, clock, connection=connection) as stage:
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


@pytest.fixture
def cut_short(recording: Path) -> Path:
    """Its beginning: the queues were asked for, and the dashboard was left before they came."""
    lines = recording.read_text().splitlines()
    end = next(number for number, line in enumerate(lines) if '"ask"' in line and '"topic":"jobs"' in line)
    recording.write_text("".join(f"{line}\n" for line in lines[: end + 1]))
    return recording


@asynccontextmanager
async def shown(path: Path, clock: FrozenClock) -> AsyncIterator[tuple[Player, Stage]]:
    """The dashboard on a recording."""
    player = Player(open_recording(path), clock=clock)
    connection = Connection(link=player, server_name="queue.example", read_only=True, clock=player, player=player)
    server = MockServer(clock)
    async with staged(server, clock, connection=connection) as stage:
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
            # TUI.md 7: no recording is said to be live.
            assert "○ recorded" in stage.lines()[1]
            assert "live" not in stage.lines()[1]


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
        assert "write a factor from 0.1 to 100" in stage.text()


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


async def test_what_stood_still_while_the_server_was_there_is_not_told_as_old(
    recording: Path, clock: FrozenClock
) -> None:
    async with shown(recording, clock) as (player, stage):
        await at(player, stage, 20)
        clock.advance(5)
        stage.app.tick()
        await stage.settle()
        assert "s old" not in stage.text()

        await at(player, stage, 45)
        stage.app.tick()
        await stage.settle()
        assert "s old" in stage.line_of("1 Queues")


async def test_a_silent_stretch_of_a_recording_is_no_silence_of_the_server(recording: Path, clock: FrozenClock) -> None:
    player = Player(open_recording(recording), clock=clock)
    model = Model(player)
    feed = asyncio.create_task(Feed(model, player, ping_seconds=0.001).run())
    await until(lambda: model.link.live, bool)
    player.seek(39)
    clock.advance(0.9)

    assert await until(model.data_age, lambda age: age == 0, pause=0.001) == 0
    feed.cancel()
    await asyncio.gather(feed, return_exceptions=True)


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

        assert "was not on screen when the recording was made" in stage.text()


async def test_a_list_is_not_known_to_be_empty_before_it_was_looked_at(
    tmp_path: Path, server: MockServer, clock: FrozenClock
) -> None:
    limits_are_full(server)
    recorder = Recorder(tmp_path / "r", server_name="p", clock=clock)
    connection = Connection(link=RecordingLink(server, recorder), server_name="p", clock=clock, recorder=recorder)
    async with staged(server, clock, connection=connection) as stage:
        await stage.pass_time(5)
        await stage.press("8")
        await stage.pass_time(5)

    async with shown(tmp_path / "r", clock) as (player, stage):
        await at(player, stage, 2)
        await stage.press("8")
        assert "was not on screen when the recording was made" in stage.text()
        assert "No limit" not in stage.text()

        clock.advance(4)
        player.run_at(1.0)
        await stage.settle()
        assert "openai" in stage.text()


@pytest.fixture(params=['"push":{"push":"sna', '"push":7}', '"opened":null}', '"ask":{}}', '"push":{"push":"delta"}}'])
def damaged_line(request: pytest.FixtureRequest, recording: Path) -> int:
    """The number of a line that can't be shown, 21 seconds from the recording's start."""
    lines = recording.read_text().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if line.startswith('{"t":21.'))
    recording.write_text("".join([*lines[:place], f'{{"t":21.000,{request.param}\n', *lines[place:]]))
    return place + 1


async def test_a_damaged_recording_is_shown_up_to_the_damage_which_is_told(
    damaged_line: int, recording: Path, clock: FrozenClock
) -> None:
    async with shown(recording, clock) as (player, stage):
        player.toggle()
        steady = player.steady()
        await at(player, stage, 30)
        await stage.pass_time(1)

        assert player.at_end
        assert player.steady() >= steady
        assert stage.app.model.counts.rows[ROTATE]["pending"] == 29
        assert f"the recording ends here, because its line {damaged_line} can't be read" in " ".join(
            stage.text().split()
        )

        await at(player, stage, 6.5)
        assert stage.app.model.counts.rows[ROTATE]["pending"] == 15


async def test_the_end_stays_in_sight_and_can_be_begun_again(recording: Path, clock: FrozenClock) -> None:
    async with shown(recording, clock) as (player, stage):
        clock.advance(1000)
        player._follow()
        await stage.pass_time(1)
        assert "REPLAY ended" in stage.lines()[0]
        assert "this is the end of the recording: K plays it again, J goes back" in stage.text()
        assert stage.app.model.counts.rows[ROTATE]["pending"] == 69

        await stage.press("K")
        assert player.position < 1
        await stage.pass_time(10)
        assert "this is the end of the recording" not in stage.text()
        await stage.pass_time(1000)
        assert "this is the end of the recording" in stage.text()


# The command.


@pytest.mark.parametrize("options", [["--replay", "a", "--record", "b"], ["--json", "--record", "b"], ["--port", "1"]])
def test_options_that_contradict_each_other_are_refused(options: list[str]) -> None:
    result = CliRunner().invoke(watch, options)

    assert result.exit_code == 2
    assert "remove one of them" in result.output or "needs --web" in result.output


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1m30", 90), ("1m30s", 90), ("1:30", 90), ("1h", 3600), ("+10", 110), ("-1m", 40), ("2.5", 2.5)],
)
def test_times_are_written_as_people_do(text: str, seconds: float) -> None:
    assert read_time(text, 100) == seconds


@pytest.mark.parametrize("text", ["", "soon", "+", "1x"])
def test_what_is_no_time_says_how_one_is_written(text: str) -> None:
    with pytest.raises(ReplayError, match="write 1m30 or 90"):
        read_time(text, 0)


def test_the_command_shows_a_recording_without_a_server(tmp_path: Path, clock: FrozenClock) -> None:
    Recorder(tmp_path / "r", server_name="prod", clock=clock).close()

    connection = replayed(tmp_path / "r", 4.0)

    assert (connection.server_name, connection.read_only, connection.player is connection.clock) == ("prod", True, True)
    assert connection.player is not None
    assert connection.player.speed == 4.0


async def test_a_recording_that_ends_before_anything_was_told_says_so(cut_short: Path, clock: FrozenClock) -> None:
    async with shown(cut_short, clock) as (player, stage):
        for _ in range(2):
            text = stage.text()
            assert "The recording has nothing about this so far." in text
            assert "Waiting for the server." not in text
            assert "No queues yet" not in text
            # Once more from its end, where the queues are known to have been asked for.
            player.seek(player.recording.seconds)
            await stage.settle()
