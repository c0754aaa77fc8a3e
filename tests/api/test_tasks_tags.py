"""Tags take any JSON, and a filter reaches into them (T3, T9); on both databases."""

from typing import Any

import pytest

from tests.api.rooms import Room, problem
from treadle.filters import matches, parse

TAGS: dict[str, Any] = {
    "region": {"name": "eu", "zones": ["a", "b"], "racks": [{"row": 4}, {"row": 7, "warm": True}]},
    "who": "mia",
    "n": 3,
    "ratio": 0.5,
    "big": 10**25,
    "version": "1.10",
    "dry": False,
    "none": None,
    "empty": {},
    "ü": "ß=1",
}
FOUND = [
    "tag:who", "tag:who=mia", "tag.who:mia", "tag.region.name:eu", "tag:region.name=eu", "tag:region",
    "tag:region.racks",
    "tag.region.zones:b", "tag.region.racks.row:7", "tag.region.racks.warm:true", "tag.n:3", "tag.n:3.0", "tag.n:3e0",
    "tag.ratio:0.5", "tag.big:10000000000000000000000000", "tag.version:1.10", "tag.dry:false", "tag.none:null",
    "tag:empty", 'tag:"ü=ß=1"', 'tag."ü":ß=1', "status:pending tag.region.name:eu",
]  # fmt: skip
NOT_FOUND = [
    "tag:wh", "tag:who=mi", "tag.region.name:us", "tag.region:eu", "tag:name=eu", "tag.region.zones:c", "tag.n:4",
    'tag.n:"3 "', "tag.version:1.1", "tag.dry:0", "tag.none:None", "tag:region.name.eu", "tag.racks.row:4",
    "status:failed tag.region.name:eu", "tag.region.racks.row:07",
]  # fmt: skip


async def listed(lab: Room, text: str) -> list[str]:
    params = parse(text).model_dump(mode="json", exclude_none=True)
    if "status" in params:
        params["status"] = ",".join(params["status"])
    answer = await lab.client.get("/v1/tasks", params=params)
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


async def test_a_filter_reaches_into_nested_tags_of_every_kind_and_the_dashboard_agrees(lab: Room) -> None:
    task = await lab.submit(1, tags=TAGS)
    await lab.submit(2, tags={"author": "max"})
    await lab.submit(3)
    shown = await lab.get(task["id"])

    assert shown["tags"] == TAGS
    for text in FOUND:
        assert await listed(lab, text) == [task["id"]], text
        assert matches(parse(text), shown), text
    for text in NOT_FOUND:
        assert await listed(lab, text) == [], text
        assert not matches(parse(text), shown), text


async def test_edited_tags_are_found_and_the_former_ones_are_not(lab: Room) -> None:
    task = await lab.submit(1, tags={"region": {"name": "eu"}})
    url = f"/v1/tasks/{task['id']}"

    await lab.client.patch(url, json={"tags": {"region": {"name": "us"}}})
    moved = [await listed(lab, f"tag.region.name:{name}") for name in ("eu", "us")]
    await lab.client.patch(url, json={"tags": None})

    assert moved == [[], [task["id"]]]
    assert await listed(lab, "tag:region") == []


async def test_lists_windows_counts_freezes_and_actions_go_by_a_nested_tag(lab: Room) -> None:
    meant = [(await lab.submit(n, tags={"region": {"name": "eu"}}, priority=n % 2))["id"] for n in range(4)]
    for n in range(3):
        await lab.submit(n, tags={"region": {"name": "us"}})
    await lab.client.post(f"/v1/tasks/{meant[0]}/pause")
    where = {"tag": "region.name=eu"}

    page = (await lab.client.get("/v1/tasks", params={**where, "limit": 2})).json()
    rest = (await lab.client.get("/v1/tasks", params={**where, "cursor": page["next_cursor"]})).json()
    window = {"filter": where, "order": "position", "limit": 2}
    head = (await lab.client.post("/v1/tasks/window", json=window)).json()
    behind = (await lab.client.post("/v1/tasks/window", json={**window, "after": head["items"][-1]["id"]})).json()
    frozen = (await lab.client.post("/v1/tasks/freeze", json={"filter": where})).json()
    done = (await lab.client.post("/v1/tasks/actions", json={"action": "cancel", "filter": where})).json()

    assert [item["id"] for item in page["items"] + rest["items"]] == meant[::-1]
    assert (page["total"], page["total_is_capped"]) == (4, False)
    order = [meant[1], meant[3], meant[2], meant[0]]
    assert [item["id"] for item in head["items"] + behind["items"]] == order
    assert (head["total"], behind["ahead"]) == (4, 2)
    assert [item["id"] for item in frozen["items"]] == order
    assert (done["matched"], done["changed"]) == (4, 4)


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "tags",
    [
        {"": "x"},
        {"a" * 256: "x"},
        {"a": {"b" * 256: 1}},
        {"a": {"": 1}},
        {"a": "x" * 1001},
        {"a": {"b": ["x" * 1001]}},
        {"a": 10**1001},
        {"a": list(range(256))},
        {f"n{n}": "x" for n in range(65)},
        {"a": deep(65)},
        {"a": {"b": "\0"}},
        {"a": {"\0": 1}},
        ["a"],
        "a",
    ],
    ids=lambda tags: str(tags)[:30],
)
async def test_tags_are_bounded_in_number_size_and_depth_g9(lab: Room, tags: Any) -> None:
    answer = await lab.client.post(f"/v1/rooms/lab/tasks/{lab.job}", json={"payload": {"n": 1}, "tags": tags})

    assert (answer.status_code, problem(answer)) == (422, "validation-error")


async def test_tags_at_their_bounds_are_kept_and_found(lab: Room) -> None:
    tags = {"a": deep(60), "b": "x" * 1000, "c": list(range(150)), "d" * 255: 10**999}
    task = await lab.submit(1, tags=tags)

    assert (await lab.get(task["id"]))["tags"] == tags
    assert await listed(lab, f"tag.a{'.a' * 60}:x") == [task["id"]]
    assert await listed(lab, "tag.c:149") == [task["id"]]
