"""The bar on top and its boxes: what is not known is said to be, names are cut, and nothing that a terminal obeys."""

import pytest

from tests.tui.mock import FrozenClock
from tests.tui.scene import scene
from treadle_tui.core.draw.glyphs import ASCII, UNICODE, Glyphs
from treadle_tui.core.draw.text import fit, plain
from treadle_tui.core.state import tables
from treadle_tui.core.state.attention import Alert
from treadle_tui.core.state.model import Model
from treadle_tui.core.views.status_bar import attention_lines, now_lines, tiny_line, top_line

CELLS = 36
"""What the box has inside its frame, but on broad screens."""


def written(monkeypatch: pytest.MonkeyPatch, subject: str, text: str, glyphs: Glyphs = UNICODE) -> str:
    """The box's line as it stands on the screen."""
    model = Model(FrozenClock())
    monkeypatch.setattr(model, "alerts", lambda: [Alert("bad", subject, text, "queue", "1")])
    return plain(fit(attention_lines(model, CELLS, 1, glyphs)[0], CELLS, ellipsis=glyphs.ellipsis)).rstrip()


@pytest.mark.parametrize(
    ("subject", "text", "line"),
    [
        ("billing", "no live worker, 2m10", "✗ billing  no live worker, 2m10"),
        ("a_very_long_name", "no live worker, 14m11", "✗ a_very_lon…  no live worker, 14m11"),
        ("a_very_long_name", "lost, 9s", "✗ a_very_long_name  lost, 9s"),
        ("RuntimeError", "12 failed, screens/jobs.py in render", "✗ RuntimeError  12 failed, screens/…"),
    ],
)
def test_a_name_gives_way_to_what_is_wrong_with_it(
    monkeypatch: pytest.MonkeyPatch, subject: str, text: str, line: str
) -> None:
    assert written(monkeypatch, subject, text) == line


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_10_where_something_failed_is_told_without_what_a_terminal_obeys(
    monkeypatch: pytest.MonkeyPatch, glyphs: Glyphs
) -> None:
    line = written(monkeypatch, "E", "1 failed, \x1b]0;mine\x07 in \u202ef", glyphs)

    assert "1 failed, " in line
    assert not {"\x1b", "\x07", "\u202e"} & set(line)
    assert line.isascii() or glyphs is UNICODE


def test_the_servers_name_gives_way_before_what_may_be_changed() -> None:
    model = Model(FrozenClock())

    lines = [
        plain(top_line(model, cells, UNICODE, server_name="queue.example", read_only=True, folded=True))
        for cells in (90, 72, 60)
    ]

    assert ["queue.example" in line for line in lines] == [True, False, False]
    assert ["  ro  " in line for line in lines] == [True, True, False]


def test_7_what_no_server_has_told_of_yet_is_not_known_and_not_0() -> None:
    model = Model(FrozenClock())

    whole, folded = (
        plain(top_line(model, 100, UNICODE, server_name="local", read_only=False, folded=folded))
        for folded in (False, True)
    )
    tiny, now = plain(tiny_line(model, UNICODE)), "\n".join(map(plain, now_lines(model)))

    assert "? queues  ? workers" in whole
    assert "? pending  ?/? run  ? wkr" in folded
    assert "? pend ?/? run ? wkr" in tiny
    assert not [line for line in (whole.rpartition(" ? ")[0], tiny, now) if "0" in line]


def test_7_queues_and_workers_that_the_server_left_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 10,000 queues that are shown stood there as all that there are."""
    monkeypatch.setattr(tables, "MOST_SHOWN", 6)
    model, server = Model(FrozenClock()), scene(FrozenClock())
    for table, rows in ((model.jobs, server.jobs), (model.workers, server.workers)):
        table.expect("1")
        table.apply({"push": "snapshot", "sub": "1", "rows": list(rows.values()), "total": 20_028})

    told = plain(top_line(model, 120, UNICODE, server_name="local", read_only=False, folded=False))

    assert f"{len(server.jobs)} of 20,028 queues" in told
    assert f"/{len(server.workers)} of 20,028 workers" in told
