"""The `treadle` command against a real server: as a process of its own, and all that it does."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.worker.cli.conftest import Command
from treadle_server.testing import Served

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-c", "from treadle.cli import main; main()"]


@pytest.fixture(scope="module")
def environment(served: Served) -> dict[str, str]:
    return {**os.environ, "TREADLE_URL": served.url, "TREADLE_TOKEN": served.token, "COLUMNS": "200"}


@pytest.fixture(scope="module")
def worker(environment: dict[str, str]) -> Iterator[Any]:
    command = [*COMMAND, "worker", "examples.hello"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "is open" not in process.stderr.readline():
        assert process.poll() is None
    yield process
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 0


def run(environment: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60, check=False
    )


def test_hello_is_submitted_and_its_result_printed(environment: dict[str, str], worker: Any) -> None:
    done = run(environment, "submit", "@global:tasks:hello", "name=World", "--wait")

    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello, World!\n", "")


def _interrupted(http: httpx.Client, environment: dict[str, str], *more: str) -> tuple[str, int, str, str]:
    """Submit a task that nobody runs, interrupt who waits for it; return its id, the exit code and what was said."""
    before = http.get("/v1/rooms/lab/tasks").json()["total"]
    words = [*COMMAND, "submit", "lab:tasks:nobodys", "--wait", *more]
    with subprocess.Popen(
        words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while (listed := http.get("/v1/rooms/lab/tasks").json())["total"] == before:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    return listed["items"][0]["id"], process.returncode, out, err


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_ctrl_c_tells_which_task_goes_on_that_was_waited_for(
    served: Served, environment: dict[str, str], more: list[str]
) -> None:
    """It said "Aborted!", and not a word of the task."""
    err = ""
    with httpx.Client(base_url=served.url, headers=served.headers) as http:
        job = {"category": "tasks", "name": "nobodys", "retain": True}
        http.put("/v1/rooms/lab/jobs", json=job).raise_for_status()
        # Interrupted before it has heard that its task is in, it can't tell.
        while not err:
            task_id, code, out, err = _interrupted(http, environment, *more)
            assert (code, out) == (130, "")

    assert err == f"task {task_id} has not ended yet; it was left as it is\n"


@pytest.mark.parametrize(
    ("module", "name"), [("treadle.standard_files", "open_closed_streams"), ("treadle.variables", "untold")]
)
def test_a_command_that_is_interrupted_while_it_is_loaded_says_nothing(
    environment: dict[str, str], module: str, name: str
) -> None:
    """Behind the first of these click said "Aborted!", and the exit code was 1."""
    interrupted = (
        f"import os, signal, {module} as loaded;loaded.{name} = lambda *_: signal.raise_signal(signal.SIGINT);"
    )

    done = subprocess.run(
        [sys.executable, "-c", f"{interrupted} {COMMAND[-1]}", "jobs"],
        capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("words", "environ", "code", "message"),
    [
        (["task", "0199aaaa-0000-7000-8000-000000000000"], {}, 1, "Task not found"),
        (["worker", "no.such.module"], {}, 2, "no module"),
        (["worker", "json"], {}, 2, "has no task"),
        (["jobs"], {"TREADLE_URL": "nowhere"}, 2, "'nowhere' is not a server's address"),
        (
            ["jobs"],
            {"TREADLE_URL": "http://me:secret@127.0.0.1:1"},
            2,
            "without a user or password: set TREADLE_TOKEN",
        ),
        (["jobs"], {"TREADLE_TOKEN": "töken"}, 2, "TREADLE_TOKEN is not a token"),
        (["jobs"], {"TREADLE_TOKEN": "one\ntwo"}, 2, "TREADLE_TOKEN is not a token"),
    ],
)
def test_a_process_that_ends_badly_says_why_in_a_sentence(
    environment: dict[str, str], words: list[str], environ: dict[str, str], code: int, message: str
) -> None:
    done = run(environment | environ, *words)

    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "two" not in done.stderr, "a secret"
    assert "secret" not in done.stderr


def test_a_token_may_have_the_line_end_of_its_file(environment: dict[str, str], worker: Any) -> None:
    done = run(environment | {"TREADLE_TOKEN": f"{environment['TREADLE_TOKEN']}\n"}, "jobs")

    assert (done.returncode, done.stderr) == (0, "")


def test_an_argument_that_is_given_twice_is_refused(command: Command, worker: Any) -> None:
    """One of its values was lost."""
    assert "'name' is given twice" in command.refused("submit", "@global:tasks:hello", "name=a", "name=b", code=2)
    tags = ["--tag", "for=a", "--tag", "for=b"]
    assert "'for' is given twice" in command.refused("submit", "@global:tasks:hello", "name=a", *tags, code=2)


def test_values_are_json_when_they_parse_and_text_otherwise(command: Command, worker: Any) -> None:
    submitted = command.read("submit", "@global:tasks:count", "to=0", "seconds=0.5", "--wait")

    assert (submitted["payload"], submitted["result"]) == ({"to": 0, "seconds": 0.5}, 0)
    assert "is not of type" in (told := command.refused("submit", "@global:tasks:count", "to=many"))
    assert "written" not in told
    told = command.refused("submit", "@global:tasks:hello", "name=7")
    assert told.endswith("""payload.name: 7 is not of type "string"; as text it is written 'name="7"'\n""")
    assert "written" not in command.refused("submit", "@global:tasks:hello", "--payload", '{"name": 7}')
    assert command.read("submit", "@global:tasks:hello", 'name="7"', "--wait")["payload"] == {"name": "7"}


def test_a_task_is_paused_resumed_cancelled_and_shown(command: Command, worker: Any) -> None:
    words = ("--delay", "3600", "--tag", "a=b", "--priority", "3")
    task_id = command.said("submit", "@global:tasks:hello", *words).strip()

    assert command.said("pause", task_id) == f"{task_id} paused\n"
    assert command.said("resume", task_id) == f"{task_id} scheduled\n"
    assert command.said("cancel", task_id) == f"{task_id} cancelled\n"
    assert "Invalid task transition" in command.refused("cancel", task_id)
    shown = command.read("task", task_id)["task"]
    assert (shown["status"], shown["priority"], shown["tags"]) == ("cancelled", 3, {"a": "b"})
    assert "\nstatus     cancelled\n" in command.said("task", task_id)
    assert command.read("tasks", "status:cancelled", "tag:a=b")["items"][0]["id"] == task_id
    assert task_id in command.said("tasks", "hello")


def test_jobs_workers_and_tokens_are_listed(command: Command, worker: Any) -> None:
    listed = command.said("jobs")
    assert "@global:tasks:hello" in listed
    assert listed.lower().split()[:6] == ["job", "pending", "claimed", "running", "retrying", "failed"]
    assert "online" in command.said("workers")
    made = command.read("token", "create", "bob")
    assert made["token"] not in command.said("token", "list")
    command.said("token", "revoke", made["id"])
    assert "Unauthorized" in command.refused("jobs", TREADLE_TOKEN=made["token"])


def test_the_doctor_finds_everything_well_or_says_what_is_not(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("TREADLE_DATA_DIR", str(tmp_path))
    findings = command.read("doctor")

    checks = ["settings", "installed", "steps", "disk", "files", "descriptors", "database"]
    checks += ["server", "ready", "token", "socket", "clocks", "workers"]
    assert [finding["check"] for finding in findings] == checks
    # A busy machine is slow on the way, and its services take a while to turn.
    assert {finding["check"] for finding in findings if finding["grade"] != "ok"} <= {"ready", "socket"}
    assert findings[0].keys() == {"check", "grade", "detail", "advice"}
    for environment, said in (
        ({"TREADLE_URL": "http://127.0.0.1:1"}, "treadle server"),
        ({"TREADLE_TOKEN": "wrong"}, "Unauthorized"),
    ):
        refused = command("doctor", **environment)
        assert (refused.exit_code, said in refused.output) == (1, True), refused.output


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["submit", "nonsense"], 1, "room:category:name"),
        (["submit", "@global:tasks:nothing"], 1, "Job not found"),
        (["submit", "@global:tasks:hello", "name"], 2, "KEY=VALUE"),
        (["submit", "@global:tasks:hello", "--payload", "[1]"], 2, "JSON object"),
        (["submit", "@global:tasks:hello", "--payload", '{"a": [{"b": 1, "b": 2}]}'], 2, "the name 'b' is given twice"),
        (["submit", "@global:tasks:hello", 'name={"b": 1, "b": 2}'], 2, "the name 'b' is given twice"),
        (
            ["submit", "@global:tasks:hello", "--delay", "1", "--at", "2030-01-01T00:00:00Z"],
            2,
            "give either --delay or --at, not both",
        ),
        (
            ["submit", "@global:tasks:hello", "--timeout", "1"],
            2,
            "only allowed with --wait; a run's own timeout is --run-timeout",
        ),
        (["tasks", "status:odd"], 2, "odd"),
        (["nothing"], 2, "No such command"),
        *(
            (words, 1, "is empty: give one")
            for words in (
                ["schedules", "show", ""],
                ["schedules", "delete", "", ""],
                ["webhooks", "delete", ""],
                ["targets", ""],
                ["jobs", "--room", ""],
            )
        ),
        (["flows", "--room", ""], 1, "room: is empty"),
        *(
            ([*words, ""], 2, f"'{words[-1]}': must not be empty: give a value, or leave it out")
            for words in (
                ["submit", "@global:tasks:hello", "--room"],
                ["worker", "examples.hello", "--name"],
                ["worker", "examples.hello", "--group"],
                ["worker", "examples.hello", "--pool"],
                ["watch", "--json", "--room"],
                ["watch", "--replay"],
                ["artifacts", "0190", "--download"],
                ["bench", "--json"],
                ["bench", "--svg"],
                ["demo", "--keep"],
            )
        ),
        (["pause", "--queue", ""], 1, "Error: '': Validation error"),
    ],
)
def test_mistakes_are_said_in_a_sentence(
    command: Command, worker: Any, words: list[str], code: int, message: str
) -> None:
    assert message in command.refused(*words, code=code)


@pytest.mark.parametrize(
    "words",
    [
        ["submit", "@global:tasks:hello", "name=\udcff"],
        ["submit", "@global:tasks:hello", "--tag", "\udcff=1"],
        ["tasks", "\udcff"],
        ["cancel", "--where", "\udcff"],
        ["limits", "set", "\udcff", "--concurrency", "1"],
        ["watch", "\udcff"],
        ["server", "--host", "\udcff"],
    ],
)
def test_an_argument_that_is_no_utf_8_is_refused_and_said_to_be_none(command: Command, words: list[str]) -> None:
    assert "is not valid UTF-8" in command.refused(*words, code=2)


def test_an_argument_is_utf_8_where_the_locale_has_only_ascii(environment: dict[str, str], worker: Any) -> None:
    ascii_only = {**environment, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    done = run(ascii_only, "submit", "@global:tasks:hello", "name=ä", "--wait", "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == "Hello, ä!"


def test_a_file_may_be_called_as_no_text_is(environment: dict[str, str], tmp_path: Path) -> None:
    place = os.fsencode(tmp_path) + b"/\xff"

    done = subprocess.run(
        [*COMMAND, "migrate", "--data-dir", place], capture_output=True, env=environment, timeout=60, check=False
    )

    assert (done.returncode, done.stdout) == (0, b"The database is up to date.\n"), done.stderr
    assert (Path(os.fsdecode(place)) / "treadle.db").is_file()
