"""A server with something of everything in it; in cases `$running`, `$worker` and others stand for the ids."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from treadle.ids import new_task_id
from treadle_server.testing import Served, serve_in_thread

PATIENCE = 5.0
"""Seconds within which everything is answered on a machine of its own."""

SLOW = 6
"""How often as long it may take before it is a hang: other programs share the processor."""

JOB = "lab:tasks:add"
RUNS = ("running", "claimed", "failed", "completed", "paused")
UNREAD = (400, 431)
"""What is told, by a problem of no type of its own, to whom sends what is no request, or too long a header."""

REFRESH = 100
"""Cases after which everything is made anew: they end tasks, remove workers and revoke tokens."""


@dataclass
class House:
    """The server, a client of the superuser's, and what there is."""

    served: Served
    http: httpx.Client
    ids: dict[str, str] = field(default_factory=dict)
    cases: int = 0
    answered: dict[int, int] = field(default_factory=dict)
    """How many answers had which status."""

    def named(self, text: str) -> str:
        """Return a case with the ids of what is there; now and then all of it is made anew."""
        if self.cases % REFRESH == 0 or not self.ids:
            self.furnish()
        self.cases += 1
        for name, value in self.ids.items():
            text = text.replace(f"${name}", value)
        return text

    def furnish(self) -> None:
        """Put in a job with a worker, a task in each state, and one of everything else."""
        worker = self._sent("POST", "/v1/workers", name="w", concurrency=100)["id"]
        self._sent("PUT", "/v1/rooms/lab/jobs", category="tasks", name="add", worker_id=worker, replace=True)
        self._sent("PATCH", f"/v1/rooms/lab/jobs/{JOB}", paused=False)
        self.ids = {"worker": worker, "token_id": self._sent("POST", "/v1/tokens", name="alice")["id"]}
        for state in RUNS:
            self.ids[state] = self._in_state(state, worker)
        self.ids["pending"] = self._submitted(target="busy")
        self.ids["scheduled"] = self._submitted(delay=3600)
        self.ids["flow"] = str(new_task_id())
        self.ids["blocked"] = self._submitted(depends_on={"first": self.ids["scheduled"]}, flow_id=self.ids["flow"])
        self._sent("PUT", "/v1/rooms/lab/schedules/hourly", job=JOB, cron="0 * * * *")
        hook = {"url": "http://localhost:1/", "jobs": [JOB], "statuses": ["cancelled"]}
        self._sent("PUT", "/v1/rooms/lab/webhooks/hook", **hook)
        announced = {"name": "out/a.txt", "content_type": "text/plain", "content_length": 3}
        upload = self._sent("POST", f"/v1/tasks/{self.ids['running']}/runs/0/artifacts", **announced)
        url = urlsplit(upload["put_url"])
        self.ids |= {"upload": url.path.rsplit("/", 1)[-1], "signed": url.query}

    def _submitted(self, **options: Any) -> str:
        # Before everything that a case has put in.
        body = {"payload": {"n": 1}, "priority": 1_000_000, **options}
        return str(self._sent("POST", f"/v1/rooms/lab/tasks/{JOB}", **body)["id"])

    def _in_state(self, state: str, worker: str) -> str:
        task = self._submitted()
        claim = self._sent("POST", "/v1/tasks/claim", worker_id=worker, tasks=100)
        assert task in {one["id"] for one in claim["tasks"]}
        run = f"/v1/tasks/{task}/runs/0"
        if state != "claimed":
            self._sent("POST", f"{run}/started")
        if state == "completed":
            self._sent("POST", f"{run}/completed", result={"a": 1})
        elif state == "failed":
            self._sent("POST", f"{run}/failed", error="no")
        elif state == "paused":
            self._sent("POST", f"/v1/tasks/{task}/pause")
            self._sent("POST", f"{run}/paused", checkpoint={"k": 1})
        return task

    def _sent(self, method: str, path: str, **body: Any) -> Any:
        answer = self.http.request(method, quote(path), json=body)
        assert answer.is_success, (path, answer.text)
        return answer.json() if answer.content else None

    def works(self) -> None:
        """Fail unless a task is still done from its submit to its end."""
        self.furnish()
        task = self.http.get(f"/v1/tasks/{self.ids['completed']}").json()
        assert (task["status"], task["result"]) == ("completed", {"a": 1})

    def told(self, status: int, content_type: str, content: bytes) -> None:
        """Fail for an answer that is the server's own failure, or that does not say what to mend."""
        self.answered[status] = self.answered.get(status, 0) + 1
        if status < 400:
            return
        problem = json.loads(content)
        assert content_type.startswith("application/problem+json"), (status, content_type)
        if status not in UNREAD or problem["type"] != "about:blank":
            check_problem(problem)
        assert problem["status"] == status


def check_problem(problem: dict[str, Any]) -> None:
    """Fail for a problem that is the server's own failure, or that does not say what to mend."""
    # An @internal job without an executor is what it says.
    is_told = problem["status"] < 500 or problem["type"].endswith("internal-job-not-configured")
    assert is_told, problem
    assert problem["type"].startswith("/v1/problems/"), problem
    assert problem["title"], problem
    assert problem["detail"], problem


@contextmanager
def house(directory: Path) -> Iterator[House]:
    """Serve during the block; at its end the server still works."""
    options = {"long_poll_max_wait_seconds": 0.05, "max_body_bytes": 1_000_000, "webhook_attempts": 1}
    with (
        serve_in_thread(data_dir=directory, sweeper_interval_seconds=3600, **options) as served,
        httpx.Client(base_url=served.url, headers=served.headers, timeout=PATIENCE * SLOW) as http,
    ):
        here = House(served, http)
        yield here
        here.works()
