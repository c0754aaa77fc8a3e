"""The steps that a claim carries, over HTTP: all of a task, or none when they are many or large."""

import asyncio
from typing import Any

import pytest

from tests.api.rooms import Room
from treadle.wire.runs import Claim
from treadle_server.operations import carrying


async def tried(lab: Room, *keeps: list[Any]) -> list[str]:
    """Have new tasks keep a step for each of their results and fail; return their ids when all are pending again."""
    ids = [(await lab.submit(max_retries=1, retry_base=0.0))["id"] for _ in keeps]
    assert [one["id"] for one in (await lab.claim(tasks=len(ids)))["tasks"]] == ids
    reports = [{"task_id": task_id, "run_id": 0, "kind": "started"} for task_id in ids]
    for task_id, results in zip(ids, keeps, strict=True):
        for number, result in enumerate(results):
            step = {"step": "page", "occurrence": number, "function": "read", "result": result, "seconds": 0.5}
            reports.append({"task_id": task_id, "run_id": 0, "kind": "step", **step})
    reports += [{"task_id": task_id, "run_id": 0, "kind": "failed", "error": "x"} for task_id in ids]
    answer = await lab.client.post(f"/v1/workers/{lab.worker_id}/reports", json={"reports": reports})
    assert {one["status"] for one in answer.json()["answers"]} == {200}, answer.text
    async with asyncio.timeout(60):
        while {(await lab.get(task_id))["status"] for task_id in ids} != {"pending"}:
            pass
    return ids


async def claimed(lab: Room, count: int) -> dict[str, Any]:
    """Claim so many tasks at once, and return the claims by their ids."""
    found = {one["id"]: one for one in (await lab.claim(tasks=count))["tasks"]}
    assert len(found) == count
    return found


async def test_f4_a_claim_carries_the_steps_of_its_task_as_they_are_listed(lab: Room) -> None:
    first, second = await tried(lab, [1, {"a": "ü"}], [None])
    plain = (await lab.submit())["id"]

    found = await claimed(lab, 3)

    for task_id in (first, second):
        listed = (await lab.client.get(f"/v1/tasks/{task_id}/steps")).json()["items"]
        assert found[task_id]["kept_steps"] == listed
        assert found[task_id]["steps"] == len(listed)
    # What keeps none pays nothing.
    assert "kept_steps" not in found[plain]
    kept = Claim.model_validate(found[first]).kept_steps
    assert kept is not None
    assert [step.result for step in kept] == [1, {"a": "ü"}]


async def test_f4_steps_that_are_many_or_large_are_left_out_and_others_are_carried(
    lab: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying, "MOST_STEPS", 3)
    monkeypatch.setattr(carrying, "MOST_STEP_TEXT", 50)
    monkeypatch.setattr(carrying, "MOST_TEXT_AT_ONCE", 60)
    keeps = [[1, 2, 3, 4], ["x" * 30, "x" * 30], ["x" * 40], ["x" * 40], [1, 2, 3]]
    many, large, fitting, beyond, small = await tried(lab, *keeps)

    found = await claimed(lab, 5)

    assert [one for one in (many, large, beyond) if "kept_steps" in found[one]] == []
    assert [len(found[one]["kept_steps"]) for one in (fitting, small)] == [1, 3]
    assert [found[one]["steps"] for one in (many, large, beyond)] == [4, 2, 1]
