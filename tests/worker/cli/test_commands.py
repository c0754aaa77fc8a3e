"""The `treadle` command against a real server."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle_server.testing import Served, serve_in_thread

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve_in_thread() as served:
        yield served


class Command:
    def __init__(self, served: Served) -> None:
        self.environment = {
            **os.environ, "TREADLE_URL": served.url, "TREADLE_TOKEN": served.token, "COLUMNS": "200",
        }  # fmt: skip

    def __call__(self, *words: str, code: int = 0, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", "from treadle.cli import main; main()", *words],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=self.environment | environment,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    def worker(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", "from treadle.cli import main; main()", "worker", *words],
            cwd=ROOT,
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(scope="module")
def command(served: Served) -> Command:
    return Command(served)


@pytest.fixture(scope="module")
def worker(command: Command) -> Iterator[Any]:
    process = command.worker("examples.hello")
    assert process.stderr is not None
    while "is open" not in process.stderr.readline():
        assert process.poll() is None
    yield process
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 0


def test_hello_is_submitted_and_its_result_printed(command: Command, worker: Any) -> None:
    assert command("submit", "@global:tasks:hello", "name=World", "--wait") == "Hello, World!\n"


def test_values_are_json_when_they_parse_and_text_otherwise(command: Command, worker: Any) -> None:
    submitted = json.loads(command("submit", "@global:tasks:count", "to=0", "seconds=0.5", "--wait", "--json"))

    assert (submitted["payload"], submitted["result"]) == ({"to": 0, "seconds": 0.5}, 0)
    assert "is not of type" in command("submit", "@global:tasks:count", "to=many", code=1)


def test_a_task_is_paused_resumed_cancelled_and_shown(command: Command, worker: Any) -> None:
    task_id = command("submit", "@global:tasks:hello", "--delay", "3600", "--tag", "a=b", "--priority", "3").strip()

    assert command("pause", task_id) == f"{task_id} paused\n"
    assert command("resume", task_id) == f"{task_id} scheduled\n"
    assert command("cancel", task_id) == f"{task_id} cancelled\n"
    assert "Invalid task transition" in command("cancel", task_id, code=1)
    shown = json.loads(command("task", task_id, "--json"))
    assert (shown["task"]["status"], shown["task"]["priority"], shown["task"]["tags"]) == ("cancelled", 3, {"a": "b"})
    assert "\nstatus     cancelled\n" in command("task", task_id)
    assert json.loads(command("tasks", "status:cancelled", "tag:a=b", "--json"))["items"][0]["id"] == task_id
    assert task_id in command("tasks", "hello")


def test_jobs_workers_and_tokens_are_listed(command: Command, worker: Any) -> None:
    listed = command("jobs")
    assert "@global:tasks:hello" in listed
    assert listed.lower().split()[:5] == ["job", "pending", "running", "retrying", "failed"]
    assert "online" in command("workers")
    made = json.loads(command("token", "create", "bob", "--json"))
    assert made["token"] not in command("token", "list")
    command("token", "revoke", made["id"])
    assert "Unauthorized" in command("jobs", code=1, TREADLE_TOKEN=made["token"])


def test_the_doctor_finds_everything_well_or_says_what_is_not(command: Command, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    findings = json.loads(command("doctor", "--json", TREADLE_DATA_DIR=str(tmp_path)))

    checks = ["settings", "installed", "steps", "disk", "files", "descriptors", "database"]
    checks += ["server", "ready", "token", "socket", "clocks", "workers"]
    assert [finding["check"] for finding in findings] == checks
    # A busy machine is slow on the way, and its services take a while to turn.
    assert {finding["check"] for finding in findings if finding["grade"] != "ok"} <= {"ready", "socket"}
    assert findings[0].keys() == {"check", "grade", "detail", "advice"}
    assert "treadle server" in command("doctor", code=1, TREADLE_URL="http://127.0.0.1:1")
    assert "Unauthorized" in command("doctor", code=1, TREADLE_TOKEN="wrong")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["submit", "nonsense"], 1, "room:category:name"),
        (["submit", "@global:tasks:nothing"], 1, "Job not found"),
        (["submit", "@global:tasks:hello", "name"], 2, "KEY=VALUE"),
        (["submit", "@global:tasks:hello", "--payload", "[1]"], 2, "JSON object"),
        (["task", "0199aaaa-0000-7000-8000-000000000000"], 1, "Task not found"),
        (["tasks", "status:odd"], 2, "odd"),
        (["worker", "no.such.module"], 2, "no module"),
        (["worker", "json"], 2, "has no task"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_mistakes_are_said_in_a_sentence(command: Command, words: list[str], code: int, message: str) -> None:
    output = command(*words, code=code)

    assert message in output
    assert "Traceback" not in output


def test_a_setting_that_can_not_be_used_is_named(command: Command) -> None:
    output = command("jobs", code=1, TREADLE_URL="nowhere")

    assert "'nowhere' is no server's address" in output
    assert "Traceback" not in output
