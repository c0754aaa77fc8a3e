"""A recording is read as far as it goes, and what is none says so."""

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tui.mock import FrozenClock
from treadle_tui.cli import watch
from treadle_tui.core.live.feed import Pushed
from treadle_tui.core.live.recorder import Recorder, RecordingError
from treadle_tui.core.live.recording import Past, open_recording


def note(recorder: Recorder, number: int) -> None:
    recorder.note(Pushed({"push": "events", "events": ["x" * 100], "seq": number}))


def test_a_compressed_recording_is_read_like_a_plain_one(tmp_path: Path, clock: FrozenClock) -> None:
    for name in ("plain.ndjson", "small.ndjson.gz"):
        recorder = Recorder(tmp_path / name, server_name="p", clock=clock)
        for number in range(100):
            clock.advance(0.5)
            note(recorder, number)
        recorder.close()

    plain, small = (open_recording(tmp_path / name) for name in ("plain.ndjson", "small.ndjson.gz"))

    assert [entry for _, entry in small.between(0, 99)] == [entry for _, entry in plain.between(0, 99)]
    assert small.seconds == plain.seconds == 50.0
    assert (tmp_path / "small.ndjson.gz").stat().st_size < (tmp_path / "plain.ndjson").stat().st_size / 10


def test_a_recording_of_a_dashboard_that_was_killed_is_read_as_far_as_it_goes(
    tmp_path: Path, clock: FrozenClock
) -> None:
    recorder = Recorder(tmp_path / "r.gz", server_name="p", clock=clock)
    for number in range(1000):
        clock.advance(0.01)
        note(recorder, number)
    recorder.close()
    whole = (tmp_path / "r.gz").read_bytes()
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "cut").write_bytes(gzip.decompress(whole)[:-50])

    assert 0 < open_recording(tmp_path / "cut.gz").seconds < 10
    assert open_recording(tmp_path / "cut").seconds == pytest.approx(10, abs=0.1)


def test_a_recording_ends_before_a_line_that_is_of_an_earlier_moment(tmp_path: Path, clock: FrozenClock) -> None:
    recorder = Recorder(tmp_path / "r", server_name="p", clock=clock)
    for number in range(10):
        clock.advance(1)
        note(recorder, number)
    recorder.close()
    header, *lines = (tmp_path / "r").read_text().splitlines(keepends=True)
    (tmp_path / "two").write_text("".join([header, *lines[5:], *lines[:5]]))

    read = open_recording(tmp_path / "two")

    assert read.seconds == 10.0
    assert read.damage == f"line {len(lines[5:]) + 2} is earlier than the line before it"


def test_a_recording_ends_before_a_line_that_is_not_of_one(tmp_path: Path, clock: FrozenClock) -> None:
    """As after a full disk, or in a file that something else has written to: all that came before was refused too."""
    recorder = Recorder(tmp_path / "r", server_name="p", clock=clock)
    for number in range(10):
        clock.advance(1)
        note(recorder, number)
    recorder.close()
    lines = (tmp_path / "r").read_text().splitlines(keepends=True)
    (tmp_path / "junk").write_text("".join([*lines[:6], "junk\n", *lines[6:]]))

    read = open_recording(tmp_path / "junk")

    assert read.seconds == 5.0
    assert read.damage == "line 7 is not a line of a recording: b'junk\\n'"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not a recording"),
        (b'{"seq":1}\n', "is not a recording"),
        (
            b'{"treadle":"recording","format":9,"at":"2026-11-21T12:00:00+00:00"}\n',
            "in format 9: this version reads format 1",
        ),
        (b'{"treadle":"recording","format":1,"at":"2026-11-21T12:00:00+00:00"}\nnonsense\n', "line 2: not a line"),
        (
            b'{"treadle":"recording","format":1,"at":"2026-11-21T12:00:00+00:00"}\n{"t":1.2.3,"end":""}\n',
            "line 2: not",
        ),
        (b'{"treadle":"recording","format":1,"at":"2026-11-21T12:00:00"}\n', "is not a recording"),
        # Each of these was a traceback: there is no such day.
        (b'{"treadle":"recording","format":1,"at":"9999-12-31T23:59:59+00:00"}\n', "is not a recording"),
        (b'{"treadle":"recording","format":1,"at":"0001-01-01T00:00:00+00:00"}\n', "is not a recording"),
        (
            b'{"treadle":"recording","format":1,"at":"2026-11-21T12:00:00+00:00"}\n{"t":999999999999,"end":""}\n',
            "line 2: not",
        ),
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


def test_logs_are_shown_again_to_who_asks_for_those_that_were_read_and_no_others() -> None:
    past = Past()
    watched = {"topic": "logs", "window": {"filter": {"job": "lab:tasks:a"}}}
    assert past.view(watched) is None
    past.take({"ask": {"op": "watch", "sub": "logs.1", **watched}})
    past.take({"push": {"push": "snapshot", "sub": "logs.1", "topic": "logs", "rows": [{"id": "x 0 1"}], "total": 1}})

    found = past.view(watched)

    assert found is not None
    assert list(found.rows) == ["x 0 1"]
    assert past.view({**watched, "window": {"filter": {"job": "lab:tasks:b"}}}) is None
