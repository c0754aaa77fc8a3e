"""`treadle submit` of a task that waits for others, takes their results as arguments, or is of a flow (F1, F2)."""

from typing import Any

import pytest

from tests.worker.cli.conftest import Command, Shop
from treadle.ids import new_task_id

SCHEMA = {"type": "object", "properties": {"n": {}, "all": {}}, "required": ["n"], "additionalProperties": False}


def submitted(command: Command, job: str, *words: str) -> dict[str, Any]:
    """Return what there is of a task that was submitted so."""
    task_id = command.said("submit", job, *words).strip()
    found: dict[str, Any] = command.read("task", task_id)["task"]
    return found


def test_a_task_waits_for_others_by_name_and_without_f1(command: Command, shop: Shop) -> None:
    first, second, third = (shop.submit() for _ in range(3))

    named = submitted(command, shop.job, "--depends-on", f"page={first}", "--on-dependency-failure", "run")
    many = submitted(command, shop.job, "--depends-on", f"{first},{second}", "--depends-on", third)
    one = submitted(command, shop.job, "--depends-on", f"pages={first},")

    assert (named["status"], named["on_dependency_failure"], named["depends_on"]) == ("blocked", "run", {"page": first})
    assert many["depends_on"] == {"after": [first, second, third]}
    assert one["depends_on"] == {"pages": [first]}


def test_the_beginning_of_an_id_will_do(command: Command, shop: Shop) -> None:
    first = shop.submit()

    made = submitted(command, shop.job, "--depends-on", f"page={first[:-1]}")

    assert made["depends_on"] == {"page": first}


def test_an_argument_is_the_result_of_a_task_or_the_list_of_several_f1(command: Command, shop: Shop) -> None:
    shop.http.put(
        "/v1/rooms/@global/jobs",
        json={"category": "tasks", "name": shop.job.rpartition(":")[2], "schema": SCHEMA, "replace": True},
    ).raise_for_status()
    first, second = (command.said("submit", shop.job, "n=1").strip() for _ in range(2))
    words = ["--argument-from", f"n={first}", "--argument-from", f"all={first}", "--argument-from", f"all={second}"]

    made = submitted(command, shop.job, *words)

    assert made["depends_on"] == {"n": first, "all": [first, second]}
    assert (made["payload"], made["arguments_from"]) == ({}, {"n": "n", "all": "all"})
    assert "n" in command.refused("submit", shop.job)
    assert "no such argument" in command.refused("submit", shop.job, "n=1", "--argument-from", f"else={first}")


def test_a_flow_is_begun_and_added_to_f2(command: Command, shop: Shop) -> None:
    first = submitted(command, shop.job, "--flow-name", "by hand")

    second = submitted(command, shop.job, "--flow", first["flow_id"][:-1], "--depends-on", first["id"])

    flow = command.read("flow", first["flow_id"])
    assert (flow["name"], flow["total"]) == ("by hand", 2)
    assert second["flow_id"] == first["flow_id"]


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["--depends-on", "page="], "is not of the form NAME=ID: the id of a task is missing", 2),
        (["--depends-on", "=0199"], "is not of the form NAME=ID", 2),
        (["--depends-on", "page=what"], "'what' is not a task's id", 2),
        (["--argument-from", "0199"], "is not of the form KEY=ID", 2),
        (
            ["--depends-on", "n=0199", "--argument-from", "n=0199"],
            "'n' is given in both --depends-on and --argument-from",
            2,
        ),
        (["--flow", "etl"], "'etl' is not a flow's id", 2),
        (["--depends-on", "page=00000000"], "no task's id begins with 00000000", 1),
        (["--depends-on", new_task_id()], "there is no task", 1),
        (["--flow", "00000000"], "no flow's id begins with 00000000", 1),
        (["--flow-name", ""], "--flow-name: ", 2),
    ],
)
def test_what_is_no_dependency_is_refused_and_nothing_is_put_in(
    command: Command, shop: Shop, words: list[str], said: str, code: int
) -> None:
    assert said in command.refused("submit", shop.job, *words, code=code)
    assert command.read("tasks", f"job:{shop.job}")["items"] == []
