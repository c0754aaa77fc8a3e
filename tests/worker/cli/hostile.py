"""A server that is filled, by its API alone, with whatever would do harm on a terminal and is admitted."""

import secrets
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

JOINED = "👩‍👩‍👧 می‌خواهم क्‍ष"
"""Writing that needs its joiners."""

NAME = f"{JOINED}\u202e\u2066\u200f\u200b\U000e0041\x9b2J\x9d0;c1\x9c\u2028"
"""What a room and a job may be called: no C0, but C1, bidi overrides and what can't be seen."""

VALUE = f"{NAME}\x1b]52;c;aGVs\x07\x1b]8;;//x\x1b\\\x1b[2J\x08\x7f\r"
"""What any other text may hold besides: the clipboard, a link, a cleared screen, backspace, DEL, a carriage return."""

LINES = f"{VALUE}\nFORGED \x1b[31m\n\r\nFORGED"
"""The same with further lines, that must not pass for ours."""


class Filled:
    """What is there, and more of it for the commands that change it."""

    def __init__(self, http: httpx.Client, place: Path) -> None:
        self._http = http
        self.place = place
        self._submitted: dict[str, list[str]] = {}
        self.room = f"{NAME}{secrets.token_hex(4)}"
        self._rooms = f"/v1/rooms/{quote(self.room)}"
        self.worker = self._sent("POST", "/v1/workers", name=VALUE, group=VALUE, pool=VALUE, version=VALUE)["id"]
        made = self._sent("PUT", f"{self._rooms}/jobs", category="tasks", name=NAME, worker_id=self.worker)
        self.job = made["full_name"]
        self.target = f"{VALUE}{secrets.token_hex(4)}"
        # Nothing is sent to the server's own machine: what failed is to be delivered again and again.
        hook = {"url": "http://localhost:1/", "jobs": [self.job], "statuses": ["failed"]}
        self._sent("PUT", f"{self._rooms}/webhooks/hook", **hook)
        self.failed = self._failed()
        self.waiting = self.open(target=self.target)
        self.done = self._done()
        self.schedule = self.put_schedule("hourly")

    def _sent(self, method: str, path: str, **body: Any) -> Any:
        answer = self._http.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def open(self, **options: Any) -> str:
        """Submit a task that nobody claims, and return its id."""
        key = f"{VALUE}{secrets.token_hex(8)}"
        content = {"payload": {"n": VALUE}, "tags": {VALUE: VALUE}, "unique_key": key, **options}
        task_id = str(self._sent("POST", f"{self._rooms}/tasks/{quote(self.job)}", **content)["id"])
        self._submitted[task_id] = [f"n={VALUE}", "--tag", f"{VALUE}={VALUE}", "--unique-key", key]
        for name, value in options.items():
            self._submitted[task_id] += [f"--{name.replace('_', '-')}", str(value)]
        return task_id

    def flow(self) -> str:
        """Submit a task that is a flow, cancel it with what a failure says, and return the flow's id."""
        task_id = self.open(flow_name=f"{VALUE}{secrets.token_hex(4)}")
        self._sent("POST", f"/v1/tasks/{task_id}/pause")
        self._sent("POST", f"/v1/tasks/{task_id}/resolve", status="failed", error=LINES)
        return str(self._sent("GET", f"/v1/tasks/{task_id}")["flow_id"])

    def cancelled(self) -> str:
        """Return the id of a task that is cancelled."""
        task_id = self.open()
        self._sent("POST", f"/v1/tasks/{task_id}/cancel")
        return task_id

    def paused(self) -> str:
        """Return the id of a task that is paused."""
        task_id = self.open()
        self._sent("POST", f"/v1/tasks/{task_id}/pause")
        return task_id

    def put_schedule(self, name: str) -> str:
        """Make a schedule, and return its name."""
        content = {"job": self.job, "interval": 3600, "payload": {"n": LINES}}
        self._sent("PUT", f"{self._rooms}/schedules/{quote(name)}", **content)
        return name

    def put_limit(self, name: str) -> str:
        """Make a limit, and return its name."""
        self._sent("PUT", f"{self._rooms}/limits/{quote(name)}", concurrency=1)
        return name

    def as_submitted(self, task_id: str) -> list[str]:
        """Return the words that submit a task that is there: the same id with the same content is the same task."""
        return [self.job, "--id", task_id, "--room", self.room, *self._submitted[task_id]]

    def _run(self, task_id: str) -> None:
        claimed = self._sent("POST", "/v1/tasks/claim", worker_id=self.worker)["task"]
        assert claimed["id"] == task_id
        self._report(task_id, "started")
        self._report(task_id, "progress", share=0.5, message=LINES[:1000])
        self._report(task_id, "logs", lines=[{"message": LINES}])
        self._report(task_id, "checkpoint", checkpoint={VALUE: LINES})

    def _report(self, task_id: str, kind: str, **details: Any) -> None:
        self._sent("POST", f"/v1/tasks/{task_id}/runs/0/{kind}", **details)

    def _failed(self) -> str:
        task_id = self.open(target=self.target, max_retries=0)
        self._run(task_id)
        self._report(task_id, "failed", error=LINES, traceback=f"FORGED\n{LINES}")
        return task_id

    def _done(self) -> str:
        task_id = self.open()
        self._run(task_id)
        wanted = {"name": "plain.txt", "content_type": "text/plain", "content_length": 5}
        upload = self._sent("POST", f"/v1/tasks/{task_id}/runs/0/artifacts", **wanted)
        assert self._http.put(upload["put_url"], content=b"hello", headers=upload["headers"]).is_success
        self._report(task_id, "completed", result=LINES)
        return task_id
