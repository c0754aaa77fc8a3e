"""What a client reads: lists of tasks, jobs, workers, targets and tokens, over HTTP."""

import builtins
import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from treadle.client.completed import as_they_end, checked_handles
from treadle.client.handle import TaskHandle
from treadle.client.requests import Listing, Requester, job_path, path_part, path_parts, query_of, tasks_path
from treadle.encryption.fields import opened_task, opened_texts
from treadle.ids import task_id_of
from treadle.transport.answers import read, reading
from treadle.wire.artifacts import ArtifactItem
from treadle.wire.failures import FailureGroups
from treadle.wire.filters import TaskFilter
from treadle.wire.ids import GivenId
from treadle.wire.jobs import JobItem
from treadle.wire.server import NewToken, SigningKeys, Stats, TokenItem, Whoami
from treadle.wire.status import Status
from treadle.wire.targets import TargetItem
from treadle.wire.tasks import TaskItem
from treadle.wire.workers import WorkerItem

R = TypeVar("R")


class Queries(Requester):
    """The reading half of `Client`. Every method raises `ConnectionFailed` and the server's `ProblemError`.

    Lists are awaited for one page, of 50 unless `limit` says otherwise, or gone through to their end by `async for`,
    in pages of `limit`.
    """

    async def completed(
        self,
        handles: Iterable[TaskHandle[R]],
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 - as TaskHandle
    ) -> AsyncGenerator[TaskHandle[R]]:
        """Go through handles as their tasks end, however they end: `result` gives or raises what each came to.

        Those that have ended already come first, in any order. Raises `WaitTimeout` when some have not ended within
        `timeout`, seconds or a timedelta for all together (None: for ever), `InvalidArguments` for what is no handle,
        and otherwise as `TaskHandle.wait`.
        """
        given = checked_handles(handles, TaskHandle)
        async with aclosing(as_they_end(given, timeout)) as ended:
            async for place in ended:
                yield given[place]

    def list(
        self,
        where: "str | TaskFilter" = "",
        *,
        room: str | None = None,
        status: "Status | str | Sequence[Status | str] | None" = None,
        job: str | None = None,
        target: str | None = None,
        worker: GivenId | None = None,
        tag: "str | builtins.list[str] | None" = None,
        id: GivenId | None = None,  # noqa: A002 - the wire's name
        text: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> Listing[TaskItem]:
        """Return tasks, newest first, for which all that is given holds.

        `where` is a filter in the language of docs/filters.md, as `"status:failed ended:<1h"`; what is given by its
        name outranks what it says of the same. `worker` is its id or name, `tag` is `key` or `key=value`, of a nested
        one `region.name=eu`, `id` the beginning of the task's id, `text` part of its id, job's name, payload or error.
        Raises `FilterError` for a filter that can't be read.
        """
        from treadle.filters import parse

        statuses = [status] if isinstance(status, str) else status
        wanted = parse(where) if isinstance(where, str) else where
        params = query_of(wanted)
        named = {
            "status": ",".join(statuses) if statuses else None,
            "job": job,
            "target": target,
            "worker": worker,
            "tag": tag,
            "id": id,
            "text": text,
        }
        params |= {name: value for name, value in named.items() if value is not None}
        path = tasks_path(room or params.pop("room", None))
        return self._list(TaskItem, path, limit, offset, params=params, by_cursor=True, opened=opened_task)

    def jobs(self, room: str = "@global", *, limit: int | None = None, offset: int = 0) -> Listing[JobItem]:
        """Return the jobs that are seen from a room, with the counts of their queues."""
        return self._list(JobItem, f"/v1/rooms/{path_part(room)}/jobs", limit, offset)

    async def job(self, full_name: str, *, room: str | None = None) -> JobItem:
        """Return one job, by its full name, as seen from `room` (its own when left out); raises `JobNotFound`."""
        return read(JobItem, await self.request("GET", job_path(full_name, room)))

    def workers(self, *, room: str | None = None, limit: int | None = None, offset: int = 0) -> Listing[WorkerItem]:
        """Return the workers, newest first; with `room` those alone that serve a job which is seen from it."""
        path = "/v1/workers" if room is None else f"/v1/rooms/{path_part(room)}/workers"
        return self._list(WorkerItem, path, limit, offset)

    async def worker(self, worker_id: GivenId) -> WorkerItem:
        """Return one worker; raises `WorkerNotFound`."""
        return read(WorkerItem, await self.request("GET", f"/v1/workers/{path_part(worker_id)}"))

    def targets(
        self,
        room: str = "@global",
        *,
        held: bool | None = None,
        text: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> Listing[TargetItem]:
        """Return a room's targets, newest first: the held ones, the free ones, those whose name has `text` in it."""
        params = {"held": None if held is None else str(held).lower(), "text": text}
        return self._list(TargetItem, f"/v1/rooms/{path_part(room)}/targets", limit, offset, params=params)

    async def target(self, name: str, *, room: str = "@global") -> TargetItem:
        """Return one target: what holds it and why, and who waits; raises `TargetNotFound`."""
        path = f"/v1/rooms/{path_part(room)}/targets/{path_part(name)}"
        return read(TargetItem, await self.request("GET", path))

    async def artifacts(self, task_id: GivenId, *, run: int | None = None) -> "builtins.list[ArtifactItem]":
        """Return all that the task's runs, or one of them, have stored: the last run's first, each run's by name.

        Raises `TaskNotFound`.
        """
        path = f"/v1/tasks/{task_id_of(task_id)}/artifacts"
        return [item async for item in self._list(ArtifactItem, path, None, 0, params={"run": run})]

    async def download(
        self, task_id: GivenId, name: str, to: "str | os.PathLike[str]", *, run: int | None = None
    ) -> Path:
        """Save an artifact of the last run that has it, or of `run`, as a file, or in a directory that there is.

        The file appears when it is whole and its digest is the one that was stored. Raises `TaskNotFound`,
        `ArtifactNotFound`, `OSError`, `ProtocolMismatch` for another digest, and as every method here.
        """
        path = Path(to)
        place = path / name.rsplit("/", 1)[-1] if path.is_dir() else path  # noqa: ASYNC240 - one look
        where = f"/v1/tasks/{task_id_of(task_id)}/artifacts/{path_parts(name)}"
        return await self.run(self._download(where, place, run))

    async def _download(self, where: str, place: Path, run: int | None) -> Path:
        from treadle.client.downloads import download

        return await download(self.http(), where, place, params={"run": run})

    async def failures(self, *, room: str | None = None, job: str | None = None) -> FailureGroups:
        """Return what failed last, in the rooms that are read, by the type of the error and where it was raised.

        `room` and `job` (its full name) narrow it. A group's id stands for its tasks in a filter: `failure:ID`.
        """
        answer = await self.request("GET", "/v1/failures", params={"room": room, "job": job})
        with reading():
            return FailureGroups.model_validate(
                {**answer, "items": [opened_texts(self.sealer, one) for one in answer["items"]]}
            )

    async def stats(self) -> Stats:
        """Return totals over all jobs."""
        return read(Stats, await self.request("GET", "/v1/stats"))

    async def whoami(self) -> Whoami:
        """Return whose token the client shows."""
        return read(Whoami, await self.request("GET", "/v1/whoami"))

    def tokens(self, *, limit: int | None = None, offset: int = 0) -> Listing[TokenItem]:
        """Return everybody's tokens, newest first, without their secrets; superusers only."""
        return self._list(TokenItem, "/v1/tokens", limit, offset)

    async def create_token(
        self,
        name: str,
        *,
        superuser: bool = False,
        scopes: "builtins.list[str] | None" = None,
        expires_at: datetime | None = None,
    ) -> NewToken:
        """Make a token for a user; its secret is in the answer and never shown again. Superusers only.

        `scopes` is what it may do (None: what a plain user may), `expires_at` an aware datetime (None: never).
        """
        body: dict[str, Any] = {"name": name, "superuser": superuser}
        if scopes is not None:
            body["scopes"] = scopes
        if expires_at is not None:
            body["expires_at"] = expires_at
        return read(NewToken, await self.request("POST", "/v1/tokens", body))

    async def revoke_token(self, token_id: GivenId) -> None:
        """Revoke a token, by its id; superusers only. Raises `RouteNotFound` when there is none of this id."""
        await self.request("DELETE", f"/v1/tokens/{path_part(token_id)}")

    async def rotate_keys(self, *, revoke: bool = False) -> SigningKeys:
        """Sign temporary credentials with a new key; `revoke` ends all that were signed before. Superusers only."""
        return read(SigningKeys, await self.request("POST", "/v1/signing-keys", {"revoke": revoke}))
