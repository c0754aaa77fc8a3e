"""The form of answers (Z17): lists, headers, and problem+json for whatever is refused."""

from typing import Any

import pytest

from tests.promises.problems import refused, told
from tests.promises.rig import Rig, over_http
from tests.promises.words import JOB

pytestmark = over_http

LISTS = (
    "/v1/tasks",
    "/v1/rooms/lab/tasks",
    "/v1/rooms/lab/jobs",
    f"/v1/rooms/lab/jobs/{JOB}/tasks",
    "/v1/workers",
    "/v1/rooms/lab/workers",
    "/v1/tokens",
)


async def filled(rig: Rig) -> None:
    """Make three of everything that is listed."""
    for n in range(3):
        await rig.user(f"user{n}")
        await rig.root.register_job(f"job{n}")
    await rig.root.register_job()
    for _ in range(3):
        await rig.root.submit()
        await rig.root.register_worker(JOB)
        rig.advance(1)


async def test_z17_every_list_has_the_same_form_and_goes_newest_first(rig: Rig):
    await filled(rig)
    for path in LISTS:
        page = told(await rig.root.http.get(path))
        assert {"items", "total", "limit", "offset"} <= set(page), path
        assert (page["limit"], page["offset"], page["total"]) == (50, 0, len(page["items"])), path
        created = [item["created_at"] for item in page["items"]]
        assert len(created) >= 3, path
        assert created == sorted(created, reverse=True), path


async def test_z17_a_page_is_cut_by_limit_and_offset(rig: Rig):
    await filled(rig)
    for path in LISTS:
        whole = told(await rig.root.http.get(path))
        part = told(await rig.root.http.get(path, params={"limit": 1, "offset": 1}))
        none = told(await rig.root.http.get(path, params={"limit": 0}))
        beyond = told(await rig.root.http.get(path, params={"offset": 1000}))
        assert (part["items"], part["total"]) == (whole["items"][1:2], whole["total"]), path
        assert (part["limit"], part["offset"]) == (1, 1), path
        assert (none["items"], none["total"], beyond["items"]) == ([], whole["total"], []), path


@pytest.mark.parametrize("query", [{"limit": 501}, {"limit": -1}, {"limit": "x"}, {"limit": ""}, {"offset": -1}])
async def test_z17_a_limit_beyond_its_bounds_is_refused(rig: Rig, query: dict[str, Any]):
    await rig.root.register_job()
    for path in LISTS:
        with refused("validation-error", 422):
            told(await rig.root.http.get(path, params=query))
        assert told(await rig.root.http.get(path, params={"limit": 500}))["limit"] == 500


async def test_z17_a_submit_is_accepted_with_a_location_and_when_to_come_back(rig: Rig):
    await rig.root.register_job()
    path = f"/v1/rooms/lab/tasks/{JOB}"
    given = {"id": "01a1fca0-0000-7000-8000-000000000001", "payload": {"n": 1}}

    first = await rig.root.http.post(path, json=given)
    again = await rig.root.http.post(path, json=given)
    many = await rig.root.http.post("/v1/rooms/lab/tasks", json={"tasks": [{"job": JOB}]})

    assert (first.status_code, again.status_code, many.status_code) == (202, 200, 202)
    assert first.headers["location"] == again.headers["location"] == f"/v1/tasks/{given['id']}"
    assert first.headers["retry-after"] == "1"
    assert told(await rig.root.http.get(first.headers["location"]))["id"] == given["id"]


async def test_z17_whatever_is_refused_is_a_problem_that_has_a_page(rig: Rig):
    await rig.root.register_job(schema={"type": "object", "required": ["n"]})
    task = await rig.root.submit(payload={"n": 1})
    alice = await rig.user("alice")
    one, none = f"/v1/tasks/{task['id']}", "/v1/tasks/00000000-0000-7000-8000-000000000000"
    path = f"/v1/rooms/lab/tasks/{JOB}"
    for kind, status, answer in (
        ("unauthorized", 401, await alice.http.get("/v1/tasks", headers={"Authorization": "Bearer x"})),
        ("unauthorized", 401, await alice.http.get("/v1/tasks", headers={"Authorization": "Basic eA=="})),
        ("forbidden", 403, await alice.http.post(f"{one}/cancel")),
        ("forbidden", 403, await alice.http.get("/v1/tokens")),
        ("not-found", 404, await alice.http.get("/v1/nothing")),
        ("method-not-allowed", 405, await alice.http.delete(one)),
        ("task-not-found", 404, await alice.http.get(none)),
        ("task-not-found", 404, await alice.http.get("/v1/tasks/x")),
        ("worker-not-found", 404, await alice.http.get("/v1/workers/x")),
        ("job-not-found", 404, await alice.http.get("/v1/rooms/lab/jobs/x")),
        ("invalid-room-id", 400, await alice.http.get("/v1/rooms/a:b/jobs")),
        ("invalid-payload", 422, await alice.http.post(path, json={"payload": {}})),
        ("validation-error", 422, await alice.http.post(path, json={"payload": 7})),
        ("validation-error", 422, await alice.http.post(path, content=b"{")),
        ("validation-error", 422, await alice.http.post(path, json={"payload": {"n": 1}, "priorty": 1})),
        ("task-conflict", 409, await rig.root.http.post(f"{one}/cancel", json={"if_version": 99})),
        ("invalid-task-transition", 409, await rig.root.http.post(f"{one}/resume")),
        ("stale-run", 409, await rig.root.http.post(f"{one}/runs/0/completed")),
    ):
        with refused(kind, status):
            told(answer)
        page = await alice.http.get(f"/v1/problems/{kind}")
        assert page.status_code == 200
        assert kind in page.text
    assert (await rig.root.get(task)) == {**task, "queue_position": 1}
