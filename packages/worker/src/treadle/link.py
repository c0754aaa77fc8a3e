"""A worker's line to the server: the session socket, or plain HTTP where no socket can be opened."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from treadle.clock import monotonic
from treadle.errors import ConnectionFailed, ProblemError
from treadle.http import HttpChannel
from treadle.reaching import delays
from treadle.session import Session

log = logging.getLogger("treadle.worker")

Claims = Callable[[list[dict[str, Any]], float], None]
"""Takes claims, and a moment of our monotonic clock before which the server did not write them."""

CLAIM_WAIT = 20
"""Seconds that one request waits for tasks."""


_TAKEN: dict[str, Any] = {"status": 200}


class Link(Protocol):
    """What a worker asks of its line. Every call raises `ConnectionFailed` and `ProblemError`."""

    async def open(self, body: dict[str, Any]) -> dict[str, Any]:
        """Open the worker, as the socket's `open`."""

    async def reports(self, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send reports; the answers come in their order."""

    async def beat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send a heartbeat."""

    async def reclaim(self, ref: dict[str, Any]) -> dict[str, Any]:
        """Renew one run's lease; the answer has fresh credentials for its code."""

    async def give_back(self, refs: list[dict[str, Any]]) -> None:
        """Hand back claims that were not started."""

    async def close_worker(self) -> None:
        """Remove the worker."""

    def drop(self) -> None:
        """Break a connection that answers no more, so that the next one is made."""


class SocketLink:
    """The line over a session, which pushes claims by itself.

    Every request is bound to its connection: on a new one the worker must be opened before anything else.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def open(self, body: dict[str, Any]) -> dict[str, Any]:
        """Open the worker on this connection."""
        answer: dict[str, Any] = await self._session.call("open", body, bound=True)
        return answer

    async def reports(self, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send reports in one request."""
        answer = await self._session.call("reports", {"reports": reports, "brief": True}, bound=True)
        answers: list[dict[str, Any]] = [_TAKEN] * len(reports)
        for refused in answer["refused"]:
            answers[refused["index"]] = refused
        return answers

    async def beat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send a heartbeat."""
        answer: dict[str, Any] = await self._session.call("beat", body, bound=True)
        return answer

    async def reclaim(self, ref: dict[str, Any]) -> dict[str, Any]:
        """Renew one run's lease."""
        answer: dict[str, Any] = await self._session.call("reclaim", ref, bound=True)
        return answer

    async def give_back(self, refs: list[dict[str, Any]]) -> None:
        """Hand back claims."""
        await self._session.call("return", {"runs": refs}, bound=True)

    async def close_worker(self) -> None:
        """Remove the worker."""
        await self._session.call("close", bound=True)

    def drop(self) -> None:
        """Break the socket; the session connects anew."""
        self._session.drop()


class HttpLink:
    """The line over plain HTTP: claims are long-polled for."""

    def __init__(self, http: HttpChannel) -> None:
        self._http = http
        self._worker_id: str | None = None

    async def open(self, body: dict[str, Any]) -> dict[str, Any]:
        """Register the worker and its jobs, or renew what it holds."""
        worker = {name: value for name, value in body["worker"].items() if name != "id"}
        registered = await self._http.request("POST", "/v1/workers", worker)
        self._worker_id = registered["id"]
        jobs = []
        for job in body["jobs"]:
            content = {name: value for name, value in job.items() if name != "room"} | {"worker_id": self._worker_id}
            jobs.append(await self._http.request("PUT", f"/v1/rooms/{job['room']}/jobs", content))
        return {"worker": registered, "jobs": jobs, "gone": [], "taken_until": []}

    async def claim(self, count: int, *, wait: float = CLAIM_WAIT) -> list[dict[str, Any]]:
        """Wait up to `wait` seconds, 20 at most, for up to `count` tasks."""
        body = {"worker_id": self._worker_id, "tasks": min(count, 100), "wait": wait}
        answer = await self._http.request("POST", "/v1/tasks/claim", body, timeout=wait + 15)
        tasks: list[dict[str, Any]] = answer["tasks"]
        return tasks

    async def reports(self, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send reports in one request; the same report twice does no harm."""
        path = f"/v1/workers/{self._worker_id}/reports"
        answer = await self._http.request("POST", path, {"reports": reports}, resend=True)
        answers: list[dict[str, Any]] = answer["answers"]
        return answers

    async def beat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send a heartbeat."""
        answer: dict[str, Any] = await self._http.request("PATCH", f"/v1/workers/{self._worker_id}", body, resend=True)
        return answer

    async def reclaim(self, ref: dict[str, Any]) -> dict[str, Any]:
        """Renew one run's lease."""
        path = f"/v1/tasks/{ref['task_id']}/runs/{ref['run_id']}/reclaim"
        answer: dict[str, Any] = await self._http.request("POST", path, resend=True)
        return answer

    async def give_back(self, refs: list[dict[str, Any]]) -> None:
        """Hand back claims: an exception `returned` of a run that was not started costs nothing."""
        await self.reports([{**ref, "kind": "exception", "reason": "returned"} for ref in refs])

    async def close_worker(self) -> None:
        """Remove the worker."""
        await self._http.request("DELETE", f"/v1/workers/{self._worker_id}")

    def drop(self) -> None:
        """Do nothing: each request has a time limit, and a connection that passed it is not used again."""


async def poll(link: HttpLink, take: Claims, free: Callable[[], int], room: asyncio.Event) -> None:
    """Claim for ever, as many as there is room for; ends by cancellation, or by a refusal."""
    waits = delays()
    while True:
        await room.wait()
        room.clear()
        while (count := free()) > 0:
            asked = monotonic()
            try:
                take(await link.claim(count), asked)
            except ConnectionFailed as error:
                log.warning("no claim: %s", error)
                await asyncio.sleep(next(waits))
            except ProblemError as error:
                if error.problem.status not in {429, 500, 503}:
                    raise
                log.warning("no claim: %s", error)
                await asyncio.sleep(next(waits))
            else:
                waits = delays()
