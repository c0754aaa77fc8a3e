"""A worker's link to the server: the session socket, or plain HTTP while no socket can be opened."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Container
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from treadle.clock import monotonic
from treadle.errors import ConnectionFailed, ConnectionLost, ProblemError
from treadle.ids import RunKey, new_id
from treadle.transport.answers import reading
from treadle.transport.retries import LEAST_HELD, HoldCut, QuietLog, delays
from treadle.transport.session import Session
from treadle.wire.amounts import counted
from treadle.wire.names import path_part
from treadle.wire.pages import MOST_OF_PAGE

if TYPE_CHECKING:
    from treadle.transport.http import HttpChannel
    from treadle.worker.runner import Runner

log: logging.Logger = logging.getLogger("treadle.worker")

CLAIM_WAIT = 10
"""Seconds that one request waits for tasks; a worker that returns to the socket waits for the last one to end."""

LOOKS = 5.0
"""Seconds between two searches for lost claims: for a while the server may still work on a request, or hold a socket,
without knowing that its other end is gone."""

SETTLING = 3.0
"""Seconds that requests under way have to end when the link is left."""

_TAKEN: dict[str, Any] = {"status": 200}


class Link(Protocol):
    """The requests that a worker makes over its link. Each may raise `ConnectionFailed` and `ProblemError`."""

    async def open(self, body: dict[str, Any]) -> dict[str, Any]:
        """Open the worker, as the socket's `open` does."""

    async def reports(self, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send reports; the answers come in the same order."""

    async def beat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send a heartbeat."""

    async def reclaim(self, ref: dict[str, Any]) -> dict[str, Any]:
        """Renew one run's lease; the answer has fresh credentials for its code."""

    async def steps(self, ref: dict[str, Any], offset: int) -> dict[str, Any]:
        """Return steps that a run's task keeps, from number `offset` on: `items`, as many as fit, and the `total`."""

    async def receive(self, body: dict[str, Any]) -> dict[str, Any]:
        """Receive a message by a step of a run."""

    async def give_back(self, refs: list[dict[str, Any]]) -> None:
        """Hand back claims that were not started."""

    async def close_worker(self) -> None:
        """Remove the worker."""

    def drop(self) -> None:
        """Break a connection that no longer answers, so that a new one is made."""


class SocketLink:
    """The link over a session, which pushes claims unasked.

    Every request is bound to its connection: on a new one the worker must be opened before anything else.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def open(self, body: dict[str, Any]) -> dict[str, Any]:
        """Open the worker on this connection."""
        return await self._ask("open", body)

    async def reports(self, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send reports in one request."""
        answer = await self._ask("reports", {"reports": reports, "brief": True})
        answers: list[dict[str, Any]] = [_TAKEN] * len(reports)
        with reading():
            for refused in answer["refused"]:
                answers[refused["index"]] = refused
        return answers

    async def beat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send a heartbeat."""
        return await self._ask("beat", body)

    async def reclaim(self, ref: dict[str, Any]) -> dict[str, Any]:
        """Renew one run's lease."""
        return await self._ask("reclaim", ref)

    async def steps(self, ref: dict[str, Any], offset: int) -> dict[str, Any]:
        """Return steps that the run's task keeps, from number `offset` on: `items` and the `total`."""
        return await self._ask("steps", {"id": ref["task_id"], "offset": offset})

    async def receive(self, body: dict[str, Any]) -> dict[str, Any]:
        """Receive a message."""
        return await self._ask("receive", body)

    async def give_back(self, refs: list[dict[str, Any]]) -> None:
        """Hand back claims."""
        await self._ask("return", {"runs": refs})

    async def close_worker(self) -> None:
        """Remove the worker."""
        await self._ask("close")

    def drop(self) -> None:
        """Break the socket; the session reconnects."""
        self._session.drop()

    async def _ask(self, op: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = await self._session.call(op, body, bound=True)
        return answer


class HttpLink:
    """The link over plain HTTP, with long polls for claims."""

    def __init__(self, http: "HttpChannel") -> None:
        self._http = http
        self._worker_id: str | None = None
        self._limits: set[asyncio.Timeout] = set()
        """The time limits of the requests under way."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._has_left = False

    async def open(self, body: dict[str, Any]) -> dict[str, Any]:
        """Register the worker and its jobs, and renew what it holds; safe to repeat if the worker has an id."""
        worker, held = body["worker"], body.get("held") or []
        registered = await self._ask("POST", "/v1/workers", worker, resend="id" in worker)
        self._worker_id = registered["id"]
        jobs = await asyncio.gather(*(self._register(job) for job in body["jobs"]))
        answer: dict[str, Any] = {"worker": registered, "jobs": jobs, "gone": [], "taken_until": []}
        if held or body.get("draining"):
            renewed = await self.beat({"tasks": held} | ({"draining": True} if body.get("draining") else {}))
            answer |= {name: renewed.get(name) or [] for name in ("gone", "taken_until", "cancel", "pause")}
        return answer

    async def _register(self, job: dict[str, Any]) -> Any:
        content = {name: value for name, value in job.items() if name != "room"} | {"worker_id": self._worker_id}
        return await self._ask("PUT", f"/v1/rooms/{path_part(job['room'])}/jobs", content)

    async def return_strange(self, held: Container[RunKey]) -> None:
        """Hand back claims made for the worker by requests whose answers were lost; `held` are the runs that it has."""
        worker = await self._ask("GET", f"/v1/workers/{self._worker_id}")
        with reading():
            strange = [
                {"task_id": run["task_id"], "run_id": run["run_id"]}
                for run in worker["running"]
                if (run["task_id"], run["run_id"]) not in held
            ]
        if strange:
            log.info("handed back %s whose answer was lost", counted(len(strange), "claim"))
            await self.give_back(strange)

    async def claim(self, count: int, *, wait: float = CLAIM_WAIT) -> list[dict[str, Any]]:
        """Wait up to `wait` seconds, 20 at most, for up to `count` tasks; a repeated request gets the same ones.

        Raises `HoldCut` if so long a wait is cut off.
        """
        body = {"worker_id": self._worker_id, "tasks": min(count, 100), "wait": wait}
        headers = {"Idempotency-Key": new_id()}
        answer = await self._ask("POST", "/v1/tasks/claim", body, headers=headers, held=wait, resend=True)
        tasks: list[dict[str, Any]] = answer["tasks"]
        return tasks

    async def reports(self, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send reports in one request; sending the same report twice does no harm."""
        path = f"/v1/workers/{self._worker_id}/reports"
        answer = await self._ask("POST", path, {"reports": reports}, resend=True)
        answers: list[dict[str, Any]] = answer["answers"]
        return answers

    async def report_one(self, report: dict[str, Any]) -> None:
        """Send a report to the run's own route; raises the `ProblemError` with which it is refused."""
        said = {name: value for name, value in report.items() if name not in {"task_id", "run_id", "kind"}}
        await self._ask("POST", f"/v1/tasks/{report['task_id']}/runs/{report['run_id']}/{report['kind']}", said)

    async def beat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send a heartbeat."""
        answer: dict[str, Any] = await self._ask("PATCH", f"/v1/workers/{self._worker_id}", body, resend=True)
        return answer

    async def reclaim(self, ref: dict[str, Any]) -> dict[str, Any]:
        """Renew one run's lease."""
        path = f"/v1/tasks/{ref['task_id']}/runs/{ref['run_id']}/reclaim"
        answer: dict[str, Any] = await self._ask("POST", path, resend=True)
        return answer

    async def steps(self, ref: dict[str, Any], offset: int) -> dict[str, Any]:
        """Return up to 500 steps that the run's task keeps, from number `offset` on: `items` and the `total`."""
        path = f"/v1/tasks/{ref['task_id']}/steps"
        answer: dict[str, Any] = await self._ask("GET", path, params={"offset": offset, "limit": MOST_OF_PAGE})
        return answer

    async def receive(self, body: dict[str, Any]) -> dict[str, Any]:
        """Receive a message; repeated for the same step, it receives only once."""
        left = {name: value for name, value in body.items() if name not in {"task_id", "run_id"}}
        path = f"/v1/tasks/{body['task_id']}/runs/{body['run_id']}/receive"
        answer: dict[str, Any] = await self._ask("POST", path, left, resend=True)
        return answer

    async def give_back(self, refs: list[dict[str, Any]]) -> None:
        """Hand back claims, by an exception `returned` for each, which costs nothing for a run that was not started."""
        await self.reports([{**ref, "kind": "exception", "reason": "returned"} for ref in refs])

    async def close_worker(self) -> None:
        """Remove the worker."""
        await self._ask("DELETE", f"/v1/workers/{self._worker_id}")

    def drop(self) -> None:
        """Do nothing: each request has a time limit, and a connection that exceeds it is not used again."""

    async def leave(self) -> None:
        """Refuse further requests and wait for those under way, which end within seconds or raise `ConnectionLost`."""
        self._has_left = True
        end = asyncio.get_running_loop().time() + SETTLING
        for limit in self._limits:
            limit.reschedule(end)
        await self._idle.wait()

    async def _ask(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        async with self._under_way():
            return await self._http.request(method, path, body, **how)

    @asynccontextmanager
    async def _under_way(self) -> AsyncIterator[None]:
        if self._has_left:
            raise ConnectionFailed("the worker has stopped using plain HTTP")
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._limits.add(limit)
                self._idle.clear()
                yield
        except TimeoutError:
            raise ConnectionLost("the worker stopped using plain HTTP before the answer came") from None
        finally:
            self._limits.discard(limit)
            if not self._limits:
                self._idle.set()


class Poll:
    """Claims over plain HTTP whatever the runner has room for, until `leaves` says to stop.

    `held` are the runs that the worker has: any other claim is one whose answer was lost, and is handed back.
    """

    def __init__(
        self, link: HttpLink, runner: "Runner", held: Container[RunKey], *, leaves: Callable[[], bool]
    ) -> None:
        self._link = link
        self._runner = runner
        self._held = held
        self._leaves = leaves
        self._wait: float = CLAIM_WAIT
        self._looks_at = monotonic()
        """When next to search for lost claims, by the local monotonic clock."""

    async def run(self) -> None:
        """Claim until `leaves` says to stop and the runner is freed. Raises the server's `ProblemError`."""
        waits, quiet = delays(), QuietLog(log)
        while not self._leaves():
            await self._runner.freed.wait()
            self._runner.freed.clear()
            while not self._leaves() and (count := self._runner.free) > 0:
                try:
                    is_well = await self._turn(count)
                except HoldCut as cut:
                    # The request may have claimed something all the same: search for it before the next one.
                    self._wait, self._looks_at = cut.shorter, monotonic()
                    continue
                except ConnectionFailed as error:
                    # The server may have answered, and then nobody has its tasks.
                    self._looks_at = monotonic()
                    quiet.say(f"no claim: {error}", "trying again")
                except ProblemError as error:
                    if error.problem.status not in {429, 500, 503}:
                        raise
                    quiet.say(f"no claim: {error}", "trying again")
                else:
                    if is_well:
                        waits = delays()
                        continue
                await asyncio.sleep(next(waits))

    async def _turn(self, count: int) -> bool:
        """Claim; return whether the next claim needs no pause: tasks were claimed, or the server held the request."""
        asked = monotonic()
        if asked >= self._looks_at:
            await self._link.return_strange(self._held)
            asked = monotonic()
            self._looks_at = asked + LOOKS
        claims = await self._link.claim(count, wait=self._wait)
        with reading():
            self._runner.take(claims, asked)
        return bool(claims) or monotonic() - asked >= LEAST_HELD
