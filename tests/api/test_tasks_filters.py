"""Every part of a filter over HTTP: as parameters of a list, in a window, and refused with what to mend."""

from typing import Any

import httpx
import pytest

from tests.api.rooms import SCHEMA, Room, problem
from treadle.filters import KEYS, parse


async def listed(lab: Room, text: str) -> list[str]:
    """Return what both a list and a window show, which must be the same."""
    wanted = parse(text)
    params = wanted.model_dump(mode="json", exclude_none=True)
    by_list = await lab.client.get("/v1/tasks", params=params)
    by_window = await lab.client.post("/v1/tasks/window", json={"filter": params})
    assert (by_list.status_code, by_window.status_code) == (200, 200), by_list.text
    ids = [item["id"] for item in by_list.json()["items"]]
    assert ids == [item["id"] for item in by_window.json()["items"]], text
    return ids


FLOW = "019aa5c0-0000-7000-8000-000000000001"


async def test_each_key_narrows_a_list_over_http(lab: Room) -> None:
    worker = (await lab.client.post("/v1/workers", json={"name": "web-2"})).json()
    _, category, name = lab.job.split(":")
    linked = {"category": category, "name": name, "schema": SCHEMA, "worker_id": worker["id"]}
    assert (await lab.client.put(f"/v1/rooms/{lab.room}/jobs", json=linked)).status_code == 200
    lab.worker_id = worker["id"]
    task = await lab.submit(1, tags={"kind": "test", "user": "ann"})
    await lab.start()
    failed = await lab.client.post(f"/v1/tasks/{task['id']}/runs/0/failed", json={"error": "boom"})
    assert failed.status_code == 200, failed.text
    other = await lab.submit(2, tags={"kind": "real"}, flow_id=FLOW)
    found = {
        "status:failed": [task], "tries:1": [task], "tries:0": [other], "worker:web-2": [task],
        "-worker:web-2": [other], "-status:failed": [other],
        "tag:kind=test tag:user": [task], "tag:kind tag:user=bob": [], "-tag:kind=test": [other],
        "ended:<1h": [task], "ended:>1h": [], "created:<1h": [other, task], "created:<2020-01-01": [],
        "started:<1h": [task], "duration:<1h": [task], "duration:>1h": [], "-job:x:y:z": [other, task], "-room:lab": [],
        "-target:cam-1": [other, task], "target:cam-1": [], f"job:{lab.job}": [other, task],
        f"id:{task['id'][:30]}": [task],
        f"worker:{worker['id']}": [task], "room:lab": [other, task],
        "error:boom": [task], "-error:boom": [other], "failure:00ff00ff00ff00ff": [], f"flow:{FLOW}": [other],
        f"flow:{FLOW[:5].upper()}": [other], f"flow:{FLOW.replace('-', '')[:31]}": [other], "flow:ff": [],
    }  # fmt: skip

    for text, wanted in found.items():
        assert await listed(lab, text) == [one["id"] for one in wanted], text
    assert {text.lstrip("-").partition(":")[0] for text in found} == KEYS.keys()


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"created_from": "yesterday"}, "created_from"),
        ({"ended_until": "1700000000"}, "write the time as"),
        ({"least_tries": "-1"}, "least_tries"),
        ({"most_seconds": "soon"}, "most_seconds"),
        ({"tag": [f"k{n}" for n in range(21)]}, "tag"),
        ({"not_job": ["x", ""]}, "not_job"),
        ({"tag": ""}, "tag"),
        ({"status": ","}, "status"),
    ],
)
async def test_a_part_that_cannot_be_read_is_refused_by_its_name(
    root: httpx.AsyncClient, params: dict[str, Any], says: str
) -> None:
    answer = await root.get("/v1/tasks", params=params)

    assert (answer.status_code, problem(answer)) == (422, "validation-error")
    assert says in answer.json()["detail"]


@pytest.mark.parametrize(
    ("part", "all_of_them", "none"),
    [
        ("least_tries", 0, 2**63 - 1),
        ("most_tries", 2**63 - 1, None),
        *((f"{time}_from", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59") for time in ("created", "ended")),
        *((f"{time}_until", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59") for time in ("created", "ended")),
    ],
)
async def test_a_bound_beyond_what_a_database_keeps_is_beyond_all_tasks_g9(
    lab: Room, part: str, all_of_them: Any, none: Any
) -> None:
    task = await lab.submit()
    await lab.client.post(f"/v1/tasks/{task['id']}/cancel")

    for value, wanted in ((all_of_them, [task["id"]]), (none, [])):
        if value is not None:
            listed = await lab.client.get("/v1/tasks", params={part: value})
            frozen = await lab.client.post("/v1/tasks/freeze", json={"filter": {part: value}})
            assert [[one["id"] for one in answer.json()["items"]] for answer in (listed, frozen)] == [wanted, wanted]
