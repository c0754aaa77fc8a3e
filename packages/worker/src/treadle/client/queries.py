"""What a client reads: lists of tasks, jobs, workers, targets and tokens, over HTTP."""

import builtins
import os
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import aclosing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from treadle.client.completed import as_they_end, checked_handles
from treadle.client.handle import TaskHandle
from treadle.client.requests import (
    Listing,
    Requester,
    conditions_of,
    job_path,
    path_part,
    path_parts,
    query_of,
    statuses_of,
    tasks_path,
)
from treadle.encryption.fields import opened_task, opened_texts
from treadle.errors import InvalidArguments
from treadle.ids import task_id_of
from treadle.transport.answers import read, reading
from treadle.values import brief
from treadle.wire.artifacts import ArtifactItem
from treadle.wire.failures import FailureGroups
from treadle.wire.filters import TaskFilter
from treadle.wire.ids import GivenId
from treadle.wire.jobs import JobItem
from treadle.wire.server import NewToken, SigningKeys, Stats, TokenItem, Whoami
from treadle.wire.status import AnyStatus, Status
from treadle.wire.targets import TargetItem
from treadle.wire.tasks import TaskItem
from treadle.wire.workers import WorkerItem

R = TypeVar("R")


class Queries(Requester):
    """The part of `Client` that reads. Every method may raise `ConnectionFailed` and a `ProblemError`.

    `await` a list for one page, of 50 items unless `limit` says otherwise, or iterate over all of it with `async for`,
    which reads pages of `limit`.
    """

    async def completed(
        self,
        handles: Iterable[TaskHandle[R]],
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 - as TaskHandle
    ) -> AsyncGenerator[TaskHandle[R]]:
        """Yield handles in the order in which their tasks end, whatever the outcome; `result` returns or raises it.

        Tasks that have ended already come first, in any order. Raises `WaitTimeout` when some have not ended within
        `timeout`, in seconds or a timedelta for all together (None: for ever; 0: the server is asked once);
        `InvalidArguments` for anything that is not a handle; and otherwise what `TaskHandle.wait` raises.
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
        status: "Status | AnyStatus | Collection[Status | AnyStatus] | None" = None,
        job: str | None = None,
        target: str | None = None,
        worker: GivenId | None = None,
        tag: "str | builtins.list[str] | None" = None,
        id: GivenId | None = None,  # noqa: A002 - the wire's name
        text: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> Listing[TaskItem]:
        """Return the tasks that meet all the given conditions, newest first.

        `where` is a filter in the language of docs/filters.md, such as `"status:failed ended:<1h"`; a keyword argument
        overrides the same condition in it. `worker` is an id or a name; `tag` is `key` or `key=value`, nested as
        `region.name=eu`; `id` is the beginning of the task's id; `text` is part of its id, job's name, payload or
        error. Raises `FilterError` for a filter that can't be parsed, and `InvalidArguments` for an unknown status, for
        none at all, and for what is not text.
        """
        from treadle.filters import parse

        wanted = parse(where) if isinstance(where, str) else where
        if not isinstance(wanted, TaskFilter):
            raise InvalidArguments(f"list takes a filter as a text, or conditions by name, not {brief(where)}")
        params = query_of(wanted) | conditions_of(
            {
                "status": None if status is None else ",".join(statuses_of(status)),
                "job": job,
                "target": target,
                "worker": worker,
                "tag": tag,
                "id": id,
                "text": text,
            }
        )
        path = tasks_path(params.pop("room", None) if room is None else room)
        return self._list(TaskItem, path, limit, offset, params=params, by_cursor=True, opened=opened_task)

    def jobs(self, room: str = "@global", *, limit: int | None = None, offset: int = 0) -> Listing[JobItem]:
        """Return the jobs that can be seen from a room, with the counts of their queues."""
        return self._list(JobItem, f"/v1/rooms/{path_part(room)}/jobs", limit, offset)

    async def job(self, full_name: str, *, room: str | None = None) -> JobItem:
        """Return one job, by its full name, as seen from `room` (by default its own); raises `JobNotFound`."""
        return read(JobItem, await self.request("GET", job_path(full_name, room)))

    def workers(self, *, room: str | None = None, limit: int | None = None, offset: int = 0) -> Listing[WorkerItem]:
        """Return the workers, newest first; with `room`, only those that serve a job which can be seen from it."""
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
        """Return a room's targets, newest first: all, or those `held` (or free), and with `text` in their name."""
        params = {"held": None if held is None else str(held).lower(), "text": text}
        return self._list(TargetItem, f"/v1/rooms/{path_part(room)}/targets", limit, offset, params=params)

    async def target(self, name: str, *, room: str = "@global") -> TargetItem:
        """Return one target: what holds it and why, and what waits for it; raises `TargetNotFound`."""
        path = f"/v1/rooms/{path_part(room)}/targets/{path_part(name)}"
        return read(TargetItem, await self.request("GET", path))

    async def artifacts(self, task_id: GivenId, *, run: int | None = None) -> "builtins.list[ArtifactItem]":
        """Return the artifacts of a task's runs, or of one run: the last run's first, each run's by name.

        Raises `TaskNotFound`.
        """
        path = f"/v1/tasks/{task_id_of(task_id)}/artifacts"
        return [item async for item in self._list(ArtifactItem, path, None, 0, params={"run": run})]

    async def download(
        self, task_id: GivenId, name: str, to: "str | os.PathLike[str]", *, run: int | None = None
    ) -> Path:
        """Save an artifact of `run`, or of the last run that has it, to a file or into an existing directory.

        Returns the path of the file, which appears only when it is complete and its digest is the stored one. Raises
        `TaskNotFound`, `ArtifactNotFound`, `OSError`, `ProtocolMismatch` if the digest differs, and what every method
        here raises.
        """
        path = Path(to)
        place = path / name.rsplit("/", 1)[-1] if path.is_dir() else path  # noqa: ASYNC240 - a single stat
        where = f"/v1/tasks/{task_id_of(task_id)}/artifacts/{path_parts(name)}"
        return await self.run(self._download(where, place, run))

    async def _download(self, where: str, place: Path, run: int | None) -> Path:
        from treadle.client.downloads import download

        return await download(self.http(), where, place, params={"run": run})

    async def failures(self, *, room: str | None = None, job: str | None = None) -> FailureGroups:
        """Return recent failures in the rooms that you may read, grouped by the error's type and where it was raised.

        `room` and `job` (its full name) narrow it down. A group's id selects its tasks in a filter: `failure:ID`.
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
        """Return the identity and scopes of the client's token."""
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
        """Create a token for a user; the answer is the only place where its secret is shown. Superusers only.

        `scopes` is what it may do (None: what a plain user may), `expires_at` an aware datetime (None: never).
        """
        body: dict[str, Any] = {"name": name, "superuser": superuser}
        if scopes is not None:
            body["scopes"] = scopes
        if expires_at is not None:
            body["expires_at"] = expires_at
        return read(NewToken, await self.request("POST", "/v1/tokens", body))

    async def revoke_token(self, token_id: GivenId) -> None:
        """Revoke a token, by its id; superusers only. Raises `RouteNotFound` when no token has this id."""
        await self.request("DELETE", f"/v1/tokens/{path_part(token_id)}")

    async def rotate_keys(self, *, revoke: bool = False) -> SigningKeys:
        """Sign temporary credentials with a new key; `revoke` also invalidates all earlier ones. Superusers only."""
        return read(SigningKeys, await self.request("POST", "/v1/signing-keys", {"revoke": revoke}))
