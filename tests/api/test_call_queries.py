"""What stands behind the question mark, and in the Prefer header: taken as documented, or refused."""

import httpx
import pytest

from tests.api.rooms import Room, problem
from tests.authorization.test_authorization import filled
from treadle.wire.filters import SEVERAL
from treadle_server.api.routes import ENDPOINTS
from treadle_server.api.tasks import wanted_wait


async def test_a_parameter_that_a_route_does_not_know_is_refused(root: httpx.AsyncClient):
    """G9: a misspelt filter never shows everything."""
    for endpoint in ENDPOINTS:
        if endpoint.method == "GET" and not endpoint.permission.is_open:
            answer = await root.get(filled(endpoint.path), params={"statsu": "failed"})
            assert (answer.status_code, problem(answer)) == (422, "validation-error"), endpoint.path
            assert "statsu" in answer.json()["detail"]


async def test_a_parameter_that_takes_one_value_is_refused_when_it_has_two(root: httpx.AsyncClient, lab: Room):
    """G9: the last one counted, and the list was another than the one that was asked for."""
    await lab.submit()

    for query in ("job=a&job=b", "room=lab&room=", "limit=1&limit=2", "text=a&text=a"):
        answer = await root.get(f"/v1/tasks?{query}")
        assert (answer.status_code, problem(answer)) == (422, "validation-error"), query
        assert f"{query.partition('=')[0]}: given more than once" in answer.json()["detail"]
    several = await root.get("/v1/tasks?status=pending&status=failed&not_room=a&not_room=b")

    assert (several.status_code, several.json()["total"]) == (200, 1)


async def test_an_empty_parameter_is_refused(root: httpx.AsyncClient):
    """G9: a room of nothing was every room. Of those that take several, one of nothing is what it says."""
    for endpoint in ENDPOINTS:
        for name in set() if endpoint.permission.is_open else set(endpoint.query) - SEVERAL - {"status"}:
            answer = await root.request(endpoint.method, filled(endpoint.path), params={name: ""})
            assert (answer.status_code, problem(answer)) == (422, "validation-error"), (endpoint.path, name)
            assert answer.json()["detail"] == f"{name}: is empty; give a value, or leave it out"


async def test_a_room_that_can_not_be_one_is_refused_wherever_it_narrows(root: httpx.AsyncClient):
    """G9: of the last transitions those of such a room were none."""
    for endpoint in ENDPOINTS:
        if "room" in endpoint.query and not endpoint.permission.is_open:
            answer = await root.request(endpoint.method, filled(endpoint.path), params={"room": "a:b"})
            assert answer.status_code in {400, 422}, endpoint.path
            assert "a:b" in answer.json()["detail"], endpoint.path


async def test_a_query_that_is_no_utf_8_is_refused(root: httpx.AsyncClient):
    """G9: what was not UTF-8 was replaced, and looked for so."""
    for query in ("text=%ff", "job=%ed%a0%80"):
        answer = await root.get(f"/v1/tasks?{query}")
        assert (answer.status_code, problem(answer)) == (422, "validation-error"), query


async def test_a_name_with_a_slash_is_told_why_no_route_has_it(root: httpx.AsyncClient):
    for path in ("/v1/rooms/lab/schedules/a%2Fb", "/v1/rooms/lab/webhooks/a%2fb"):
        answer = await root.get(path)
        assert (answer.status_code, problem(answer)) == (404, "not-found")
        assert "a name in a path can't contain '/'" in answer.json()["detail"]
    assert "holds no" not in (await root.get("/v1/nowhere")).json()["detail"]


@pytest.mark.parametrize("before", ["/v1", "/treadle"])
async def test_what_stands_before_a_route_is_named_with_where_it_may_come_from(root: httpx.AsyncClient, before: str):
    answer = await root.get(f"{before}/v1/rooms/v1/tasks")

    assert problem(answer) == "not-found"
    assert answer.json()["detail"] == (
        f"there is no route {before}/v1/rooms/v1/tasks: routes begin with /v1, but {before} comes before it, from a"
        " proxy or the server's address (TREADLE_URL)"
    )
    assert "stands before" not in (await root.get("/v1/rooms/v1/nowhere")).json()["detail"]


async def test_a_probe_may_be_asked_with_any_parameter(root: httpx.AsyncClient):
    assert (await root.get("/healthz?from=balancer")).status_code == 200


async def test_every_list_takes_a_limit_from_0_to_500(root: httpx.AsyncClient, lab: Room):
    """Z17."""
    task = await lab.submit()
    # The path of its deliveries names a webhook.
    await root.put(filled("/v1/rooms/{room}/webhooks/{name}"), json={"url": "https://example.com/hook"})
    paged = [endpoint.path for endpoint in ENDPOINTS if "limit" in endpoint.query]
    paths = [filled(path.replace("{task_id}", task["id"])) for path in paged]

    for path in paths:
        for bad in ("-1", "501", "x", "", "1.0"):
            answer = await root.get(path, params={"limit": bad})
            assert (answer.status_code, problem(answer)) == (422, "validation-error"), (path, bad)
        answer = await root.get(path, params={"limit": 0})
        assert (answer.status_code, answer.json()["items"], answer.json()["limit"]) == (200, [], 0), path
    assert len(paths) >= 9


async def test_every_list_takes_an_offset_as_far_as_the_database_counts(root: httpx.AsyncClient, lab: Room):
    """G9: behind the largest of them the steps of a task on PostgreSQL were 500."""
    task = await lab.submit()
    await root.put(filled("/v1/rooms/{room}/webhooks/{name}"), json={"url": "https://example.com/hook"})
    paged = [endpoint.path for endpoint in ENDPOINTS if "offset" in endpoint.query]

    for path in (filled(path.replace("{task_id}", task["id"])) for path in paged):
        for offset, status in ((2**31 - 1, 200), (2**31, 422)):
            answer = await root.get(path, params={"offset": offset})
            assert answer.status_code == status, (path, offset)
            assert status == 422 or answer.json()["items"] == [], path
    assert len(paged) >= 9


async def test_the_runs_of_a_task_are_a_list_with_pages(lab: Room):
    """E12, Z17."""
    url = f"/v1/rooms/lab/tasks/{lab.job}"
    task = (await lab.client.post(url, json={"payload": {"n": 1}, "max_requeues": 2, "priority": 1})).json()["id"]
    for run in range(2):
        await lab.claim()
        await lab.client.post(f"/v1/tasks/{task}/runs/{run}/exception", json={"reason": "returned"})
    await lab.claim()

    every = (await lab.client.get(f"/v1/tasks/{task}/runs")).json()
    middle = (await lab.client.get(f"/v1/tasks/{task}/runs?limit=1&offset=1")).json()

    assert [run["run_id"] for run in every["items"]] == [0, 1, 2]
    assert (every["total"], every["limit"], every["offset"]) == (3, 500, 0)
    assert [run["run_id"] for run in middle["items"]] == [1]
    assert (middle["total"], middle["limit"], middle["offset"]) == (3, 1, 1)


@pytest.mark.parametrize("digits", ["31", "0000000031", "9" * 10, "9" * 5000])
def test_a_wait_longer_than_the_cap_is_capped_however_long(digits: str):
    """Z15."""
    assert wanted_wait([f"wait={digits}"], 30.0) == 30
