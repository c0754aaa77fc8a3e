"""A task's artifacts beneath its runs."""

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import at, storied_task, task
from tests.tui.stage import Stage, staged
from treadle.wire.artifacts import ARTIFACTS_AT_ONCE
from treadle_tui.core.draw.glyphs import UNICODE
from treadle_tui.core.draw.text import plain
from treadle_tui.core.state.detail import TaskDetail
from treadle_tui.core.views.artifacts import artifact_lines


async def opened(stage: Stage) -> None:
    await stage.press("2", "enter")


def only(server: MockServer, key: str) -> str:
    server.tasks = {key: server.tasks[key]}
    return key


def an_artifact(name: str, size: int, run: int = 0) -> dict[str, object]:
    return {"name": name, "run_id": run, "content_type": "text/plain", "size": size, "created_at": at(5)}


async def test_c10_a_tasks_artifacts_stand_beneath_its_runs(server: MockServer, clock: FrozenClock) -> None:
    key = only(server, storied_task(server))
    server.artifacts[key] = [an_artifact("report/index.html", 812, 2), an_artifact("frames.npz", 204_800_000, 1)]

    async with staged(server, clock) as stage:
        await opened(stage)
        told = stage.text()

    assert "Artifacts  2" in told
    assert "   812 B report/index.html" in told
    assert "  205 MB frames.npz" in told


def test_where_the_server_tells_no_more_artifacts_it_is_said_what_lists_all() -> None:
    row = task(1)
    items = [an_artifact(f"frame-{number}.png", 812) for number in range(ARTIFACTS_AT_ONCE)]

    def written(count: int) -> list[str]:
        told = {"id": row["id"], "task": row, "artifacts": items[:count]}
        return [plain(line) for line in artifact_lines(TaskDetail.model_validate(told), UNICODE, 46)]

    few, all_told = written(ARTIFACTS_AT_ONCE - 1), written(ARTIFACTS_AT_ONCE)

    assert (few[1], len(few)) == ("Artifacts  99", 101)
    assert (all_told[1], all_told[-1]) == ("Artifacts  100+", " `treadle artifacts ID` lists all of them")


def test_a_hostile_or_long_name_of_an_artifact_keeps_to_its_line() -> None:
    items = [an_artifact("a\x1b[31m\n" + "x" * 300 + "/end.txt", 0), an_artifact("b", 10**13, 1)]
    row = task(1)
    detail = TaskDetail.model_validate({"id": row["id"], "task": row, "artifacts": items})

    lines = [plain(line) for line in artifact_lines(detail, UNICODE, 40)]

    assert lines[1] == "Artifacts  2"
    assert all(len(line) <= 40 and line.isprintable() for line in lines)
    assert lines[2].startswith("     0 B …")
    assert "end.txt" in lines[2]
    assert lines[3].startswith("   10 TB b")
    assert artifact_lines(TaskDetail.model_validate({"id": row["id"], "task": row}), UNICODE, 40) == []
