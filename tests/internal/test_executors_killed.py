"""Servers with executors in their own process, killed without warning: nothing is stranded (Z12, E8)."""

from pathlib import Path

import httpx

from tests.chaos.processes import ServerProcess, running_server
from tests.waiting import look_until


def submit(server: ServerProcess, name: str, payload: dict, **options: int) -> str:
    path = f"{server.url}/v1/rooms/lab/tasks/@internal:tasks:{name}"
    answer = httpx.post(path, headers=server.headers, json={"payload": payload, **options}, timeout=30)
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]  # type: ignore[no-any-return]


def over(server: ServerProcess, task_id: str) -> dict:
    headers = {**server.headers, "Prefer": "wait=30"}
    return httpx.get(f"{server.url}/v1/tasks/{task_id}", headers=headers, timeout=40).json()  # type: ignore[no-any-return]


def await_file(path: Path, server: ServerProcess) -> None:
    try:
        look_until(path.exists, seconds=30)
    except TimeoutError as error:
        raise AssertionError(server.log.read_text()[-2000:]) from error


def test_z12_e8_kill_9_with_the_memory_broker_strands_nothing(tmp_path: Path, database_url: str):
    """What ran runs again while requeues last, what had none left fails, and the queue goes on."""
    again, spent = tmp_path / "again", tmp_path / "spent"
    with running_server(tmp_path, database_url, TREADLE_INTERNAL="tests.internal.jobs:registry") as server:
        tasks = [
            submit(server, "gated", {"gate": str(again)}, max_requeues=1),
            submit(server, "gated", {"gate": str(spent)}, max_requeues=0),
        ]
        for gate in (again, spent):
            await_file(gate.with_name(f"{gate.name}.0"), server)

        server.kill()
        again.touch()
        server.start()
        found = [over(server, task_id) for task_id in tasks]
        fresh = over(server, submit(server, "add", {"a": 1}))

    assert [(task["status"], task["result"], task["error"]) for task in found] == [
        ("completed", "run 1", None),
        ("failed", None, "Worker disconnected"),
    ]
    assert (fresh["status"], fresh["result"]) == ("completed", 2)
    assert not spent.with_name("spent.1").exists()
