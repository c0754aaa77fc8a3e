"""The `treadle` command in this process, against a server in a thread, and a worker that is played over plain HTTP."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from treadle.cli.group import treadle
from treadle_server.testing import Served, serve_in_thread


@pytest.fixture(scope="package")
def served() -> Iterator[Served]:
    """A server for this folder's tests; later ones put faults into the server's modules, which it would meet too."""
    with serve_in_thread() as served:
        yield served


@dataclass(frozen=True)
class Command:
    """Runs `treadle WORDS…`; `said` has its output when it went well, `refused` what it said when it did not."""

    environment: dict[str, str]

    def __call__(self, *words: str, **environment: str) -> Result:
        result = CliRunner().invoke(treadle, words, env=self.environment | environment)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def said(self, *words: str) -> str:
        result = self(*words)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    def read(self, *words: str) -> Any:
        return json.loads(self.said(*words, "--json"))

    def refused(self, *words: str, code: int = 1, **environment: str) -> str:
        result = self(*words, **environment)
        assert result.exit_code == code, result.output
        return result.stderr


@pytest.fixture
def command(served: Served) -> Command:
    return Command({"TREADLE_URL": served.url, "TREADLE_TOKEN": served.token, "COLUMNS": "200"})


class Shop:
    """A job of its own, and its worker."""

    def __init__(self, http: httpx.Client, name: str) -> None:
        self.http = http
        made = http.put("/v1/rooms/@global/jobs", json={"category": "tasks", "name": name}).json()
        self.job, self.worker_id = made["full_name"], made["worker_id"]

    def worker(self, **named: Any) -> None:
        """Have another worker serve the job."""
        worker_id = self.http.post("/v1/workers", json=named).json()["id"]
        name = self.job.rpartition(":")[2]
        body = {"category": "tasks", "name": name, "worker_id": worker_id}
        self.http.put("/v1/rooms/@global/jobs", json=body).raise_for_status()

    def submit(self, **options: Any) -> str:
        answer = self.http.post(f"/v1/rooms/@global/tasks/{self.job}", json=options)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def start(self, task_id: str) -> None:
        claimed = self.http.post("/v1/tasks/claim", json={"worker_id": self.worker_id}).json()["task"]
        assert claimed["id"] == task_id
        self.report(task_id, "started", run=claimed["run_id"])

    def report(self, task_id: str, kind: str, *, run: int = 0, **details: Any) -> None:
        answer = self.http.post(f"/v1/tasks/{task_id}/runs/{run}/{kind}", json=details or None)
        assert answer.status_code == 200, answer.text

    def status(self, task_id: str) -> str:
        return str(self.http.get(f"/v1/tasks/{task_id}").json()["status"])


@pytest.fixture
def shop(served: Served, request: pytest.FixtureRequest) -> Iterator[Shop]:
    with httpx.Client(base_url=served.url, headers=served.headers) as http:
        yield Shop(http, request.node.name[:200].replace("[", "-").replace("]", ""))
