"""Kept counts that are not what counting gives, and how they are counted anew."""

import re
from pathlib import Path

from tests.checkup.conftest import Examine, execute
from treadle_server.testing import serve_in_thread

_PAGE = (Path(__file__).parents[2] / "docs/operations.md").read_text()
[_STATEMENTS] = re.findall(r"```sql\n(.*?)```", _PAGE, re.DOTALL)
_ANEW = _STATEMENTS.strip().removesuffix(";").split(";\n")


def submit_three(url: str) -> None:
    import httpx

    with serve_in_thread(url) as served, httpx.Client(base_url=served.url, headers=served.headers) as http:
        http.put("/v1/rooms/@global/jobs", json={"category": "tasks", "name": "noop", "retain": True})
        for n in range(3):
            answer = http.post("/v1/rooms/@global/tasks/@global:tasks:noop", json={"payload": {}, "priority": n})
            assert answer.status_code == 202
        http.post(f"/v1/tasks/{answer.json()['id']}/cancel")


def test_counts_that_do_not_agree_are_found_and_mended_as_the_page_says_f8(examined: Examine, spoilt_url: str) -> None:
    submit_three(spoilt_url)
    assert "3 tasks" in examined()["counts"][0].detail
    execute(spoilt_url, "DELETE FROM tasks WHERE priority = 1")

    [finding] = examined()["counts"]

    assert finding.grade == "fail"
    assert "pending: 1, not 0" in finding.detail
    execute(spoilt_url, *_ANEW)
    assert [(one.grade, "2 tasks" in one.detail) for one in examined()["counts"]] == [("ok", True)]


def test_one_task_is_told_as_one(examined: Examine, spoilt_url: str) -> None:
    """It said of 1 tasks."""
    submit_three(spoilt_url)
    execute(spoilt_url, "DELETE FROM tasks WHERE priority > 0", *_ANEW)

    [finding] = examined()["counts"]

    assert finding.detail.endswith(": 1 task")


def test_tasks_that_lack_what_they_are_to_do_are_found(examined: Examine, spoilt_url: str) -> None:
    """As after a restore of some tables: the doctor called such a database well, and nothing showed or ran them."""
    submit_three(spoilt_url)
    execute(spoilt_url, "DELETE FROM task_specs WHERE seq = 1")

    [finding] = examined()["counts"]

    assert finding.grade == "fail"
    assert finding.detail.startswith("1 task without a row in task_specs")
