"""F2: `treadle flows` and `treadle flow`."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from tests.worker.cli.conftest import Command, Shop
from treadle.cli.flow import DEEPEST, tree
from treadle.ids import new_task_id
from treadle.wire.flows import FlowEdge, FlowTask, FlowView
from treadle.wire.status import Status


def put(shop: Shop, *items: dict[str, Any]) -> list[str]:
    """Submit tasks of one flow, and return their ids and the flow's."""
    given = [{"id": new_task_id(), "job": shop.job, "payload": {}, **item} for item in items]
    answer = shop.http.post("/v1/rooms/@global/tasks", json={"tasks": given}).raise_for_status().json()
    tasks = answer["tasks"]
    return [*(one["id"] for one in tasks), tasks[0]["flow_id"]]


def test_f2_a_flow_is_a_tree_in_which_each_task_stands_above_those_that_it_waits_for(
    command: Command, shop: Shop
) -> None:
    first, left, right, last, flow_id = put(
        shop,
        {"ref": "a", "flow_name": "fork"},
        {"ref": "l", "depends_on": {"x": "a"}},
        {"ref": "r", "depends_on": {"x": "a"}},
        {"depends_on": {"x": ["l", "r"]}},
    )

    lines = command.said("flow", flow_id).splitlines()

    assert lines == [
        "fork 4 tasks, 0% ended: 3 blocked, 1 pending",
        f"blocked   {shop.job} {last} waits for 2",
        f"  blocked   {shop.job} {left} waits for 1",
        f"    pending   {shop.job} {first}",
        f"  blocked   {shop.job} {right} waits for 1",
        f"    pending   {shop.job} {first} (above)",
    ]
    assert command.read("flow", flow_id)["total"] == 4
    listed = command.said("flows").splitlines()
    assert any(line.startswith(f"{flow_id}  fork") and "0%" in line for line in listed)
    assert flow_id in {item["id"] for item in command.read("flows", "--room", "@global")["items"]}


def test_f2_a_flow_of_one_task_is_one_task(command: Command, shop: Shop) -> None:
    _, flow_id = put(shop, {"flow_name": "alone"})

    assert command.said("flow", flow_id).startswith("alone 1 task, 0% ended: 1 pending\n")


def test_f2_a_task_tells_what_it_waits_for_and_what_becomes_of_it_when_one_fails(command: Command, shop: Shop) -> None:
    first, other, last, flow_id = put(
        shop, {"ref": "a"}, {}, {"depends_on": {"x": "a", "y": ["a"] * 12}, "on_dependency_failure": "hold"}
    )

    lines = command.said("task", last).splitlines()
    told = dict(line.split(maxsplit=1) for line in lines)

    assert f"flow       {flow_id}" in lines
    assert "waits for  1 task" in lines
    assert f"depends on x: {first}; y: {', '.join([first] * 10)} and 2 more" in lines
    assert "if it fails hold" in lines
    assert told["status"] == "blocked"
    assert command.read("task", last)["task"]["on_dependency_failure"] == "hold"
    [line] = [line for line in command.said("flow", flow_id).splitlines() if last in line]
    assert line.endswith("waits for 1 (hold)")
    policies = {one["id"]: one["on_dependency_failure"] for one in command.read("flow", flow_id)["tasks"]}
    assert policies == {first: None, other: None, last: "hold"}
    assert not {"waits for", "depends on", "if it fails"} & {
        line[:10].strip() for line in command.said("task", first).splitlines()
    }


def test_f2_a_task_that_has_ended_waits_for_nothing(command: Command, shop: Shop) -> None:
    first, last, flow_id = put(shop, {"ref": "a"}, {"depends_on": {"x": "a"}})

    command.said("cancel", first)
    # What waited for it follows it a moment later.
    shop.http.get(f"/v1/tasks/{last}", headers={"Prefer": "wait=20"}).raise_for_status()

    lines = command.said("flow", flow_id).splitlines()
    assert lines[1].startswith(f"cancelled {shop.job} {last} (dependency-failed) - ")


def test_f2_all_tasks_of_a_flow_are_steered(command: Command, shop: Shop) -> None:
    *_, flow_id = put(shop, {"ref": "a"}, {"depends_on": {"x": "a"}})

    assert command.said("flow", flow_id, "pause") == "pause: 2 of 2 tasks\n"
    assert command.said("flow", flow_id, "resume") == "resume: 2 of 2 tasks\n"
    assert command.read("flow", flow_id, "cancel")["changed"] == 2
    assert command.said("flow", flow_id, "rerun-failed").startswith("rerun-failed: ")
    assert "100% ended" in command.said("flow", flow_id).splitlines()[0]


def test_a_flow_of_which_one_task_has_not_ended_is_not_told_as_all_ended(command: Command, shop: Shop) -> None:
    *ids, _, flow_id = put(shop, *({"flow_name": "wide"} for _ in range(300)))

    command.said("cancel", *ids)

    assert "300 tasks, 99% ended: " in command.said("flow", flow_id).splitlines()[0]
    assert " 99% " in command.said("flows")


def test_a_flow_is_meant_by_the_beginning_of_its_id_when_it_is_one_flows_alone(command: Command, shop: Shop) -> None:
    ids = [f"0{digit}5e0000-0000-7000-8000-0000000000{end}" for digit, end in (("a", "01"), ("a", "02"), ("B", "03"))]
    for one in ids:
        put(shop, {"flow_id": one})

    assert command.read("flow", "0B5e")["id"] == ids[2].lower()
    assert command.said("flow", "0b5e0000-0000", "cancel") == "cancel: 1 of 1 tasks\n"
    assert command.read("flow", ids[0].replace("-", ""))["id"] == ids[0]
    assert f"such as {ids[1]} and {ids[0]}" in command.refused("flow", "0a5e", "cancel")
    assert {command.read("flow", one)["counts"]["pending"] for one in ids[:2]} == {1}
    assert "no flow's id begins with 0c5e" in command.refused("flow", "0c5e")


def test_f2_a_flow_that_is_not_there_is_told(command: Command) -> None:
    assert "there is no flow" in command.refused("flow", new_task_id())
    assert "is not a flow's id" in command.refused("flow", "x", code=2)
    assert "there is no flow" in command.refused("flow", new_task_id(), "cancel")


def test_f2_a_long_line_of_tasks_is_not_indented_without_end() -> None:
    ids = [str(n) for n in range(DEEPEST + 3)]
    tasks = [FlowTask(id=one, job_name="j", status=Status.PENDING, created_at=datetime.now(UTC)) for one in ids]
    edges = [FlowEdge(task_id=after, needs_id=one, names=["x"]) for one, after in pairwise(ids)]
    view = FlowView(id="f", room_id="r", created_at=datetime.now(UTC), tasks=tasks, edges=edges)

    lines = list(tree(view))

    assert len(lines) == len(ids)
    assert lines[-1].startswith(f"{'  ' * DEEPEST}{DEEPEST + 2}: pending")
