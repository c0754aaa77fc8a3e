"""An executor's link to the server: requests about a run use its own credential and its own routes."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import httpx

from treadle.errors import NOT_NOW, ProblemError
from treadle.ids import RunKey
from treadle.transport.http import HttpChannel
from treadle.wire.amounts import amount
from treadle.wire.pages import MOST_OF_PAGE
from treadle.worker.reports import Answer, ReportData
from treadle.worker.uploads import Uploader

_NO_FIELDS = frozenset({"task_id", "run_id", "kind", "starts"})
_TAKEN: Answer = {"status": 200}
LOST = frozenset({401, 403, 404, 409})
"""Statuses which say that a run is no longer this executor's; its credential is invalid then."""


class Run:
    """A run that an executor holds."""

    __slots__ = ("before", "budget", "credentials", "path", "usage")

    def __init__(self, claim: dict[str, Any]) -> None:
        self.path: str = f"/v1/tasks/{claim['id']}/runs/{claim['run_id']}"
        self.credentials: str = claim["credentials"]
        self.budget: float | None = claim.get("budget")
        self.before: float = claim.get("usage") or 0.0
        self.usage: float | None = None
        """This run's usage; `before` is that of the task's earlier runs."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request about the run."""
        return {"Authorization": f"Bearer {self.credentials}"}

    @property
    def is_over_budget(self) -> bool:
        """Whether the task has exceeded its budget."""
        return self.budget is not None and self.usage is not None and self.before + self.usage > self.budget


class RunLink:
    """Sends reports and renewals of the runs that were added."""

    def __init__(self, channel: HttpChannel) -> None:
        self._channel = channel
        self._runs: dict[RunKey, Run] = {}

    def add(self, claim: dict[str, Any]) -> Run:
        """Add a run."""
        run = self._runs[claim["id"], claim["run_id"]] = Run(claim)
        return run

    def drop(self, key: RunKey) -> None:
        """Forget a run whose end is acknowledged."""
        self._runs.pop(key, None)

    async def close(self) -> None:
        """Close every connection."""
        await self._channel.close()

    async def ask(self, run: Run, method: str, path: str, body: Any = None) -> Any:
        """Send a request about a run, with its credential; all but a PATCH are repeated if the connection broke.

        Raises `ConnectionFailed` and `ProblemError`.
        """
        return await self._channel.request(method, path, body, headers=run.headers, resend=method != "PATCH")

    async def reports(self, reports: list[ReportData]) -> list[Answer]:
        """Send reports, those of a run one after another; return the answers in the same order.

        Raises `ConnectionFailed`, and the problems after which the same reports are to be sent again.
        """
        places: dict[RunKey, list[int]] = defaultdict(list)
        for i, report in enumerate(reports):
            places[report["task_id"], report["run_id"]].append(i)
        answers: list[Answer] = [_TAKEN] * len(reports)

        async def send(key: RunKey) -> None:
            for i in places[key]:
                answers[i] = await self._report(key, reports[i])

        # Wait for all, even if one fails: a repeated report must not overtake one that is still on its way.
        for failed in await asyncio.gather(*map(send, places), return_exceptions=True):
            if failed is not None:
                raise failed
        return answers

    async def _report(self, key: RunKey, report: ReportData) -> Answer:
        kind = report["kind"]
        run = self._runs.get(key)
        if kind == "started" or run is None:
            # The start was reported before the code began; for a run that was dropped, so was the end.
            return _TAKEN
        body = {name: value for name, value in report.items() if name not in _NO_FIELDS}
        if kind == "stopped" and run.is_over_budget:
            used = amount(run.before + (run.usage or 0.0))
            kind, body = "failed", {"error": f"used {used} of {amount(run.budget or 0.0)}", "usage": run.usage}
        try:
            await self.ask(run, "POST", f"{run.path}/{kind}", body or None)
        except NOT_NOW:
            raise
        except ProblemError as error:
            return {"status": error.problem.status, "type": error.problem.type, "detail": error.problem.detail}
        return _TAKEN

    async def beat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Ask for each run in a heartbeat's body whether it may go on. Raises `ConnectionFailed`."""
        answer: dict[str, Any] = {"taken_until": [], "cancel": [], "pause": []}
        await asyncio.gather(*(self._renew(ref, answer) for ref in body["tasks"]))
        return answer

    async def _renew(self, ref: dict[str, Any], answer: dict[str, Any]) -> None:
        run = self._runs.get((ref["task_id"], ref["run_id"]))
        if run is None:
            return
        run.usage = ref.get("usage", run.usage)
        if run.is_over_budget:
            answer["cancel"].append(ref)
            return
        try:
            renewed = await self._reclaim(run)
        except ProblemError as error:
            if error.problem.status in LOST:
                answer["cancel"].append(ref)
            return
        answer["taken_until"].append(renewed)
        if renewed.get("pause"):
            answer["pause"].append(ref)

    async def reclaim(self, ref: dict[str, Any]) -> dict[str, Any]:
        """Return fresh credentials for a run, and how long its lease lasts. Raises as `ask` does."""
        return await self._reclaim(self._runs[ref["task_id"], ref["run_id"]])

    async def _reclaim(self, run: Run) -> dict[str, Any]:
        renewed: dict[str, Any] = await self.ask(run, "POST", f"{run.path}/reclaim")
        run.credentials = renewed["credentials"] or run.credentials
        return renewed

    async def steps(self, ref: dict[str, Any], offset: int) -> dict[str, Any]:
        """Return a part of the steps that a run's task keeps. Raises as `ask` does."""
        run = self._runs[ref["task_id"], ref["run_id"]]
        path = f"/v1/tasks/{ref['task_id']}/steps?offset={offset}&limit={MOST_OF_PAGE}"
        answer: dict[str, Any] = await self.ask(run, "GET", path)
        return answer

    async def receive(self, body: dict[str, Any]) -> dict[str, Any]:
        """Receive a message by a step of a run. Raises as `ask` does."""
        run = self._runs[body["task_id"], body["run_id"]]
        left = {name: value for name, value in body.items() if name not in _NO_FIELDS}
        answer: dict[str, Any] = await self.ask(run, "POST", f"{run.path}/receive", left)
        return answer

    async def announce(self, key: RunKey, artifact: dict[str, Any]) -> Any:
        """Announce an artifact of a run, an `ArtifactCreate`; return an `ArtifactUpload`. Raises as `ask` does."""
        run = self._runs[key]
        return await self.ask(run, "POST", f"{run.path}/artifacts", artifact)


class RunUploader(Uploader):
    """Uploads for an executor: each is announced with the credential of its run."""

    def __init__(
        self, link: RunLink, urls: tuple[str, ...], mounts: Mapping[str, httpx.AsyncBaseTransport] | None
    ) -> None:
        super().__init__(urls, None, mounts=mounts)
        self._link = link

    async def _announce(self, key: RunKey, body: dict[str, Any]) -> Any:
        return await self._link.announce(key, body)
