"""The asynchronous client: submits tasks, waits for their results, and steers them."""

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from contextvars import ContextVar, Token
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from treadle.errors import (
    ConnectionLost,
    Forbidden,
    InvalidArguments,
    InvalidTaskTransition,
    JobNotFound,
    NoClient,
    SocketRefused,
    TaskConflict,
    TreadleError,
)
from treadle.gather import Gathered
from treadle.handle import TaskHandle
from treadle.ids import new_task_id
from treadle.options import Options
from treadle.queries import Queries
from treadle.results import Board, RawTask
from treadle.scheduling import Scheduling
from treadle.settings import Settings, split_urls
from treadle.tasks import Bound, Task
from treadle.upkeep import Upkeep
from treadle.wire.jobs import JobItem
from treadle.wire.names import GLOBAL, SHARED_ROOMS, InvalidJobName, JobName, parse_job_name
from treadle.wire.runs import LogItem
from treadle.wire.status import TERMINAL, Status
from treadle.wire.tasks import Action, BulkResult, RunItem, TaskItem

if TYPE_CHECKING:
    from treadle.http import HttpChannel, TokenSource
    from treadle.session import Session

R = TypeVar("R")

_current: ContextVar["Client"] = ContextVar("treadle_client")
_POLL = 60
"""Seconds that one request waits for a task's end, where there is no socket to push it."""

_MANY = 10_000
"""Tasks of one request at most."""

_AFTER: dict[Action, frozenset[Status]] = {
    "cancel": frozenset({Status.CANCELLED}),
    "pause": frozenset({Status.PAUSED}),
    "resume": frozenset({Status.PENDING, Status.SCHEDULED, Status.CLAIMED, Status.RUNNING}),
    "rerun": frozenset({Status.PENDING, Status.CLAIMED, Status.RUNNING}),
    "resolve": TERMINAL,
}
"""Where a verb leaves a task: how a verb whose answer was lost is known to have been carried out."""


def current_client() -> "Client":
    """Return the innermost open client of this coroutine; raise `NoClient` when there is none."""
    try:
        return _current.get()
    except LookupError:
        raise NoClient("no client is open here: submit inside `async with Client():`, or use client.submit()") from None


class Client(Queries, Scheduling, Upkeep):
    """A connection to the server for submitting, awaiting and steering tasks; an async context manager.

    `url` and `token` default to `TREADLE_URL` and `TREADLE_TOKEN`, then to a local server's. `room` is the room that
    tasks are submitted from; left out, it is each task's own. A `token` may be a coroutine function that gives the one
    to show at the moment; then all goes over plain HTTP. A broken connection is mended for `patience` seconds
    before requests fail. The socket is opened by the first request that wants it; where none can be opened, plain
    HTTP does the same.
    """

    def __init__(
        self,
        url: str | None = None,
        token: "TokenSource | None" = None,
        *,
        room: str | None = None,
        register_missing: bool = True,
        patience: float | timedelta = 30.0,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self._urls = split_urls(url) if url else self.settings.urls
        self._token: TokenSource | None = token or self.settings.read_token()
        self.room = room or (self.settings.room if self.settings.room != GLOBAL else None)
        self._register_missing = register_missing
        self._patience = patience.total_seconds() if isinstance(patience, timedelta) else patience
        self._group = asyncio.TaskGroup()
        self._background: set[asyncio.Task[None]] = set()
        self._session: Session | None = None
        self._http: HttpChannel | None = None
        # A socket is opened once, with one token: those that change go with each request.
        self._is_plain = callable(token)
        self._board = Board(self._ask, self._spawn)
        self._gathered = Gathered(lambda fields: self.call("submit_each", fields), self._spawn)
        # Thirty-two long polls at once, where there is no socket; a further one waits for its turn.
        self._polls = asyncio.Semaphore(32)
        self._entered: Token[Client] | None = None

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._entered = _current.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered is not None:
            # A generator-based fixture may leave in another context than it entered in.
            with contextlib.suppress(ValueError):
                _current.reset(self._entered)
        self._board.close()
        if self._session is not None:
            await self._session.close()
        for task in self._background:
            task.cancel()
        # The body's own error must come out as it is, not wrapped in the group's.
        await self._group.__aexit__(None, None, None)
        if self._http is not None:
            await self._http.close()

    @property
    def is_plain(self) -> bool:
        """Whether everything goes over plain HTTP, because no socket could be opened."""
        return self._is_plain

    def http(self) -> "HttpChannel":
        """Return the client's HTTP connections, which lists and the fall-back use."""
        if self._http is None:
            from treadle.http import HttpChannel

            self._http = HttpChannel(self._urls, self._token)
        return self._http

    async def call(self, op: str, fields: Mapping[str, Any] | None = None, *, resend: bool = True) -> Any:
        """Make one request of the protocol, over the socket or else over HTTP, and return its answer as it is."""
        body = dict(fields or {})
        if not self._is_plain:
            try:
                return await self._socket().call(op, body, resend=resend)
            except SocketRefused:
                self._is_plain = True
        return await self.http().call(op, body, resend=resend)

    async def submit(self, bound: Bound[R], *, options: Options | None = None, wait: bool = False) -> TaskHandle[R]:
        """Submit `task.bind(…)` and return its handle; `options` go over the bound ones.

        `wait` has the result pushed without being asked for, which saves a request when it is awaited anyway. A job
        that is missing is registered when the token may. Raises `JobNotFound`, `InvalidPayload`, `TaskConflict`,
        `Forbidden` and `ConnectionFailed`.
        """
        _check_bound(bound)
        if self._is_plain:
            return (await self.submit_many([bound], options=options, wait=wait))[0]
        task = bound.task
        item = _item(task.full_name, bound.payload, _over(options, bound.options))
        room = self.room or task.job.room
        try:
            return await self._send_one(room, item, task, wait=wait)
        except JobNotFound as missing:
            if not self._register_missing:
                raise
            await self._register_all({task}, missing)
            return await self._send_one(room, item, task, wait=wait)

    async def submit_many(
        self, bounds: Sequence[Bound[R]], *, options: Options | None = None, wait: bool = False
    ) -> list[TaskHandle[R]]:
        """Submit many tasks, all or none (of each 10,000), in one request; raises as `submit`."""
        for bound in bounds:
            _check_bound(bound)
        items = [_item(bound.task.full_name, bound.payload, _over(options, bound.options)) for bound in bounds]
        room = self.room or _common_room({bound.task.job.room for bound in bounds})
        tasks = [bound.task for bound in bounds]
        try:
            return await self._send(room, items, tasks, wait=wait)
        except JobNotFound as missing:
            if not self._register_missing:
                raise
            await self._register_all(set(tasks), missing)
            return await self._send(room, items, tasks, wait=wait)

    async def submit_raw(
        self, job: str, payload: Mapping[str, Any], *, options: Options | None = None, wait: bool = False
    ) -> TaskHandle[Any]:
        """Submit to a job by its full name, `room:category:name`, with a JSON payload; raises as `submit`."""
        name = _parsed(job)
        item = _item(str(name), dict(payload), options)
        return (await self._send(self.room or name.room, [item], [None], wait=wait))[0]

    def handle(self, task_id: str) -> TaskHandle[Any]:
        """Return a handle of a task that was submitted before."""
        return TaskHandle(self, task_id)

    async def register(self, task: Task[..., Any], *, replace: bool = False) -> JobItem:
        """Register a task's job, its schema and defaults; raises `SchemaConflict`, `Forbidden`, `InvalidCategory`."""
        body = {"room": task.job.room, **task.registration(self.settings, replace=replace)}
        return JobItem.model_validate(await self.call("register", body))

    async def get(self, task_id: str) -> TaskItem:
        """Return a task as it is now; raises `TaskNotFound`."""
        return TaskItem.model_validate(await self.call("get", {"id": task_id}))

    async def runs(self, task_id: str) -> list[RunItem]:
        """Return the attempts at a task, first to last."""
        answer = await self.call("runs", {"id": task_id})
        return [RunItem.model_validate(item) for item in answer["items"]]

    async def logs(self, task_id: str) -> list[LogItem]:
        """Return the last 1,000 lines that a task's code logged, first to last."""
        answer = await self.call("logs", {"id": task_id})
        return [LogItem.model_validate(item) for item in answer["items"]]

    async def cancel(self, task_id: str, *, if_version: int | None = None) -> TaskItem:
        """Cancel a task, at once; raises `InvalidTaskTransition` when it has ended, `TaskConflict` by `if_version`."""
        return await self._act(task_id, "cancel", if_version=if_version)

    async def pause(self, task_id: str, *, if_version: int | None = None) -> TaskItem:
        """Pause a task; a running one stops when its worker has stopped the code."""
        return await self._act(task_id, "pause", if_version=if_version)

    async def resume(self, task_id: str, *, if_version: int | None = None) -> TaskItem:
        """Let a paused or failed task go on from its checkpoint."""
        return await self._act(task_id, "resume", if_version=if_version)

    async def rerun(self, task_id: str, *, if_version: int | None = None) -> TaskItem:
        """Run an ended task again from its start."""
        return await self._act(task_id, "rerun", if_version=if_version)

    async def resolve(
        self,
        task_id: str,
        *,
        status: str = "completed",
        result: Any = None,
        error: str | None = None,
        if_version: int | None = None,
    ) -> TaskItem:
        """Settle a paused or failed task by hand: `completed`, `failed` or `cancelled`."""
        return await self._act(task_id, "resolve", status=status, result=result, error=error, if_version=if_version)

    async def edit(self, /, task_id: str, *, if_version: int | None = None, **changes: Any) -> TaskItem:
        """Change priority, scheduled_at, payload, tags, target or weight of a task that doesn't run yet."""
        body = {"id": task_id, **changes, **({} if if_version is None else {"if_version": if_version})}
        return TaskItem.model_validate(await self.call("edit", body, resend=if_version is None))

    async def act(self, /, action: Action, **which: Any) -> BulkResult:
        """One verb for many tasks, as `BulkAction` says: `ids=[…]` or `filter={…}`."""
        return BulkResult.model_validate(await self.call("actions", {"action": action, **which}, resend=False))

    async def pause_queue(self, full_name: str) -> JobItem:
        """Pause a queue: nothing is claimed from it."""
        return JobItem.model_validate(await self.call("job", {"job": full_name, "paused": True}))

    async def resume_queue(self, full_name: str) -> JobItem:
        """Let a paused queue go on."""
        return JobItem.model_validate(await self.call("job", {"job": full_name, "paused": False}))

    async def ping(self) -> dict[str, Any]:
        """Ask for the server's time, to see that it answers."""
        answer: dict[str, Any] = await self.call("ping")
        return answer

    def ending(self, task_id: str) -> "asyncio.Future[RawTask]":
        """Return the future of a task's end; the server is asked to push it."""
        return self._board.wait(task_id)

    async def _act(self, task_id: str, action: Action, **fields: Any) -> TaskItem:
        body = {"id": task_id, "action": action, **{name: value for name, value in fields.items() if value is not None}}
        try:
            return TaskItem.model_validate(await self.call("action", body, resend=False))
        except ConnectionLost:
            return await self._act_again(task_id, action, body)

    async def _act_again(self, task_id: str, action: Action, body: dict[str, Any]) -> TaskItem:
        """Repeat a verb whose answer was lost; a refusal that the first try explains is no refusal."""
        try:
            return TaskItem.model_validate(await self.call("action", body, resend=False))
        except (InvalidTaskTransition, TaskConflict):
            item = await self.get(task_id)
            if item.status in _AFTER[action]:
                return item
            raise

    async def _send(
        self, room: str, items: list[dict[str, Any]], tasks: Sequence[Task[..., Any] | None], *, wait: bool
    ) -> list[TaskHandle[Any]]:
        # A result may be pushed before the submit's answer is read: its place is made first.
        endings = {item["id"]: self._board.expect(item["id"]) for item in items} if wait and not self._is_plain else {}
        answers: list[RawTask] = []
        try:
            for start in range(0, len(items), _MANY):
                body = {"room": room, "tasks": items[start : start + _MANY], "wait": wait, "brief": True}
                # Sent again after a lost answer: the same ids with the same content are the same tasks.
                answers += (await self.call("submit", body))["tasks"]
        except BaseException:
            self._board.forget(endings)
            raise
        if self._is_plain:
            self._board.forget(endings)
            endings = {}
        # A unique key may have led to an older task, whose end was not asked for.
        self._board.forget(endings.keys() - {answer["id"] for answer in answers})
        return [
            TaskHandle(
                self,
                answer["id"],
                returns=None if task is None else task.signature.returns,
                submitted=answer,
                ending=endings.get(answer["id"]),
            )
            for answer, task in zip(answers, tasks, strict=True)
        ]

    async def _send_one(self, room: str, item: dict[str, Any], task: Task[..., Any], *, wait: bool) -> TaskHandle[Any]:
        """Send one task, in one request with all that this turn of the loop submits."""
        ending = self._board.expect(item["id"]) if wait else None
        try:
            receipt = await self._gathered.add(room, item, wait=wait)
        except BaseException:
            self._board.forget([item["id"]])
            raise
        if receipt["id"] != item["id"]:
            # A unique key led to an older task, whose end was not asked for.
            self._board.forget([item["id"]])
            ending = None
        return TaskHandle(self, receipt["id"], returns=task.signature.returns, submitted=receipt, ending=ending)

    async def _register_all(self, tasks: set[Task[..., Any]], missing: JobNotFound) -> None:
        for task in tasks:
            try:
                await self.register(task)
            except Forbidden as forbidden:
                raise missing from forbidden

    def _socket(self) -> "Session":
        if self._session is None:
            from treadle.session import Session

            assert not callable(self._token)
            self._session = Session(
                self._urls,
                self._token,
                on_push=self._on_push,
                on_connect=self._board.ask_again,
                on_down=self._on_down,
                patience=self._patience,
            )
            self._spawn(self._session.run())
        return self._session

    def _on_push(self, item: dict[str, Any]) -> None:
        if item["push"] == "result":
            self._board.arrive(item["tasks"])

    def _on_down(self, error: TreadleError) -> None:
        if isinstance(error, SocketRefused):
            self._is_plain = True
        else:
            self._board.fail(error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._group.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _ask(self, ids: list[str]) -> None:
        if not self._is_plain:
            try:
                await self._socket().call("await", {"ids": ids})
            except SocketRefused:
                self._is_plain = True
            else:
                return
        for task_id in ids:
            self._spawn(self._poll(task_id))

    async def _poll(self, task_id: str) -> None:
        prefer = {"Prefer": f"wait={_POLL}"}
        path = f"/v1/tasks/{task_id}"
        try:
            async with self._polls:
                while True:
                    task = await self.http().request("GET", path, headers=prefer, timeout=_POLL + 15)
                    if task["status"] in TERMINAL:
                        self._board.arrive([task])
                        return
        except TreadleError as error:
            self._board.refuse(task_id, error)


def _item(job: str, payload: dict[str, Any], options: Options | None) -> dict[str, Any]:
    # The id is the submitter's, so that a submit whose answer was lost can be repeated.
    item: dict[str, Any] = {"id": new_task_id(), "job": job, "payload": payload}
    return item if options is None else item | options.wire()


def _check_bound(bound: object) -> None:
    if isinstance(bound, Task):
        raise InvalidArguments(f"{bound!r} has no arguments yet: submit {bound.job.name}.bind(…)")
    if not isinstance(bound, Bound):
        raise InvalidArguments(f"submit task.bind(…), not {bound!r}: a plain call runs the function here and now")


def _over(options: Options | None, base: Options | None) -> Options | None:
    return base if options is None else options.over(base)


def _parsed(job: str) -> JobName:
    try:
        return parse_job_name(job)
    except InvalidJobName as error:
        raise InvalidArguments(str(error)) from None


def _common_room(rooms: set[str]) -> str:
    own = rooms - SHARED_ROOMS
    if len(own) > 1:
        raise InvalidArguments(
            f"the tasks are of several rooms ({', '.join(sorted(own))}): submit each room's by itself"
        )
    return next(iter(own or rooms), GLOBAL)
