"""10. Whatever a payload, a name or a log holds: no crash, and nothing that a terminal would obey gets out."""

import unicodedata
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.tui.happenings import (
    FLOW,
    a_flow_is_under_way,
    limits_are_full,
    much_happens,
    schedules_tick,
    targets_are_held,
    tasks_have_failed,
)
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import job, scene, storied_task
from tests.tui.stage import Stage, staged, typed

EVIL = [
    "[bold red]x[/]", "[/nothing]", "[@click=app.quit]go[/]", "\x1b[2J", "\x1b]0;owned\x07", "\x1b]52;c;aGk=\x07",
    "\x9b2J", "\u202etxt.exe", "\u2066", "\x00", "\ud800", "日本語", "e\u0301\u0301", "\U0001f469\u200d\U0001f4bb",
    "\t\r\n", "",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(EVIL) | st.text(max_size=8), max_size=6).map("".join)
JSON: st.SearchStrategy[Any] = st.recursive(
    TEXTS | st.integers(-(2**70), 2**70) | st.floats() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)
WITHOUT_JOINERS = str.maketrans("", "", "\u200c\u200d")
"""Emoji and words of some scripts keep theirs; `tests/tui/core/draw/test_text.py` says where."""

SIZES = [(80, 24), (120, 36), (200, 50)]


def poison(server: MockServer, text: str, value: Any) -> None:
    """Put a text wherever a server's clients may put one."""
    key = storied_task(server)
    server.tasks = {key: server.tasks[key], **dict(list(server.tasks.items())[:40])}
    for row in server.tasks.values():
        row.update(payload={text: value}, target=text, error=text, tags={text: text}, submitter=text, unique_key=text)
    server.tasks[key].update(checkpoint=value, progress={"share": value, "message": text})
    for run in server.runs[key]:
        run.update(error=text, traceback=text * 3, worker_name=text)
    for event in server.histories[key]:
        event.update(error=text, worker_name=text, worker_id=text, status=text)
    for line in server.logs[key]:
        line.update(message=text, level=text)
    for row in server.jobs.values():
        row.update(name=text)
    for row in server.workers.values():
        row.update(name=text, pool=text, version=text, group=text)
        for run in row["running"]:
            run["job_name"] = text
    targets_are_held(server)
    for row in server.targets.values():
        row.update(name=text, room_id=text)
        for holder in row["holders"]:
            holder["job_name"] = text
    schedules_tick(server)
    for row in server.schedules.values():
        row.update(name=text, room_id=text, job_name=text, owner=text)
        row.update({"cron": text, "zone": text} if row["cron"] else {})
    limits_are_full(server)
    for row in server.limits.values():
        row.update(name=text, room_id=text, on_full=text)
        for one in row["busiest"]:
            one["key"] = one["key"] and text
    tasks_have_failed(server)
    for row in server.failures.values():
        row.update(kind=text, place=text, error=text, jobs=[text])
    a_flow_is_under_way(server)
    server.flows[FLOW]["name"] = text
    for of_flow in server.flows[FLOW]["tasks"]:
        server.tasks[of_flow].update(job_name=text, error=text)
    much_happens(server)
    for event in server.events:
        for part in ("task", "job", "worker"):
            event.get(part, {}).update(error=text, name=text)


@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(TEXTS, JSON, st.sampled_from(SIZES), st.booleans())
@example(text="\x9b2J日本", value=None, size=(120, 36), ascii_only=False)
@example(text="\x9b2J日本", value=None, size=(120, 36), ascii_only=True)
async def test_10_no_screen_breaks_and_nothing_that_a_terminal_obeys_is_drawn(
    text: str, value: Any, size: tuple[int, int], ascii_only: bool
) -> None:
    clock = FrozenClock()
    server = scene(clock)
    poison(server, text, value)

    async with staged(server, clock, size=size, ascii_only=ascii_only) as stage:
        for keys in (
            ("2",), ("enter",), ("tab", "w"), ("tab", "slash", "x", "enter"), ("tab", "enter"), ("tab", "tab", "F"),
            ("escape", "escape", "3"), ("4", "down"), ("5", "down"), ("8", "down"), ("6", "down"),
            ("7", "down"), ("exclamation_mark", "down"),
            # What is told of what was done, asked or offered.
            ("d",), ("y",), ("3", "D"), ("5", "p"), ("7", "r"),
        ):  # fmt: skip
            await stage.press(*keys)
            check_lines(stage, keys, ascii_only=ascii_only)
        await typed(stage, f"flow {FLOW}")
        assert "70%" in stage.text()
        check_lines(stage, ("flow",), ascii_only=ascii_only)


async def test_10_what_completes_a_command_is_ascii_too_where_nothing_else_is_drawn(
    server: MockServer, clock: FrozenClock
) -> None:
    server.jobs["wide"] = job("@global:tasks:日本", 77, counts={}, wave=0, oldest=None, workers=[])

    async with staged(server, clock, ascii_only=True) as stage:
        await stage.press("colon", *"pause-queue @global:tasks:")

        assert r"pause-queue @global:tasks:\u65e5\u672c" in stage.text()


def check_lines(stage: Stage, keys: tuple[str, ...], *, ascii_only: bool) -> None:
    """Nothing that a terminal obeys stands on the screen that the keys led to."""
    for line in stage.lines():
        written = line.translate(WITHOUT_JOINERS)
        obeyed = [char for char in written if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]
        assert not obeyed, (keys, line)
        assert line.isascii() or not ascii_only, (keys, line)
