"""The asynchronous client: it submits tasks, waits for their results, and steers them."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar

from treadle import tracing
from treadle.client import open_clients
from treadle.client.admin import Admin
from treadle.client.bound import Bound, Submittable
from treadle.client.connection import Connection, how_to_open
from treadle.client.flows import Flows
from treadle.client.handle import TaskHandle
from treadle.client.items import check_bound, check_task, checked_bounds, common_room, item_of, job_named, over
from treadle.client.limiting import Limiting
from treadle.client.names import OTHER_VERSION, Names
from treadle.client.options import Options, length_of
from treadle.client.queries import Queries
from treadle.client.results import RawTask, receipts
from treadle.client.scheduling import Scheduling
from treadle.client.sealing import NamedJobs, sealed_item
from treadle.client.steering import Steering
from treadle.encryption.fields import opened_texts
from treadle.encryption.sealer import Sealer
from treadle.errors import Forbidden, InvalidPayload, JobNotFound, NoClient
from treadle.forks import process_number
from treadle.ids import task_id_of
from treadle.transport.answers import read, reading
from treadle.transport.bearer import Bearer, TokenSource, bearer_of
from treadle.values import plain_request
from treadle.wire.fields import MOST_OF_REQUEST
from treadle.wire.ids import GivenId
from treadle.wire.jobs import JobItem
from treadle.wire.names import GLOBAL
from treadle.wire.runs import LogItem
from treadle.wire.tasks import RunItem

if TYPE_CHECKING:
    from treadle.encryption.codec import Codec
    from treadle.settings import Settings
    from treadle.transport.http import HttpChannel

R = TypeVar("R")

_CHECKED = frozenset({"submit", "submit_each"})
"""Requests whose tasks were already checked, one by one, when they were built."""


class Client(Queries, Steering, Flows, Scheduling, Limiting, Admin):
    """Submit tasks, await their results and steer them: `async with Client() as client:`, or `open` and `close`.

    - `url`, `token`: by default `TREADLE_URL` and `TREADLE_TOKEN`, then a server on this machine, whose own token is
      sent to loopback addresses only. `token` may be a coroutine function that returns the current one; then everything
      goes over plain HTTP.
    - `room`: where tasks are submitted from; by default each task's own room.
    - `register_missing`: whether a submit registers a job that the server does not know.
    - `patience`: how many seconds to go on reconnecting, or asking a server that can't reach its database, before
      requests fail.
    - `default`: whether `current_client`, and so `task.submit(…)`, finds this client everywhere, or only in its own
      blocks.
    - `codec`: the keys for encrypted tasks; by default those of `TREADLE_ENCRYPTION_KEYS`, if any.

    The first request that needs a socket opens it; if that fails, plain HTTP is used instead. A client may be used from
    the event loops of other threads, its blocks may be nested, and it may be opened again after it was closed.

    Every request raises `NoClient` while the client is not open, and in a forked process; `ConnectionFailed` when no
    server was reached or no token found for `patience` (at once if no server has answered yet); a `ProblemError` when
    the server refuses; and `TaskNotFound`, before anything is sent, for an id that is not a UUID. The constructor
    raises `InvalidSetting` for an invalid URL, token, room or key, and `ValueError` for an invalid `patience`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: TokenSource | Bearer | None = None,
        *,
        room: str | None = None,
        register_missing: bool = True,
        patience: float | timedelta = 30.0,
        settings: "Settings | None" = None,
        default: bool = True,
        codec: "Codec | None" = None,
    ) -> None:
        from treadle.encryption.keys import codec_of
        from treadle.settings import Settings, room_in, split_urls

        self.settings: Settings = settings or Settings()
        self.sealer: Sealer = Sealer(codec or codec_of(self.settings))
        self._named_jobs = NamedJobs()
        self._urls = split_urls(url) if url else self.settings.urls
        self._bearer = bearer_of(token, self.settings)
        self.room: str | None = room_in(room) if room else self.settings.room if self.settings.room != GLOBAL else None
        self._register_missing = register_missing
        self._names = Names(self._urls)
        self._patience = length_of("patience", patience)
        self._is_default = default
        self._opening: Connection | None = None
        self._was_plain = self._bearer.fresh is not None

    def __repr__(self) -> str:
        return f"<Client of {', '.join(self._urls)}>"

    def __getstate__(self) -> Never:
        raise TypeError(
            "a client can't be sent to another process, because it has a connection: create one in each process"
        )

    async def __aenter__(self) -> Self:
        await self._opened()
        open_clients.enter(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        open_clients.leave(self)
        opening = self._opening
        if opening is None:
            return
        opening.holders -= 1
        if opening.holders <= 0 and not opening.is_kept:
            await self.close()

    async def open(self) -> Self:
        """Open the client until `close`, and return it; does nothing if it is already open."""
        opening = await self._opened()
        opening.is_kept = True
        opening.holders -= 1
        return self

    async def close(self) -> None:
        """Close the client, however it was opened; does nothing if it is already closed."""
        opening, self._opening = self._opening, None
        open_clients.hide(self)
        self._names.clear()
        self._named_jobs.forget()
        if opening is None:
            return
        if opening.pid != process_number() or opening.loop.is_closed():
            opening.abandon()
        else:
            self._was_plain = opening.is_plain
            await opening.run(opening.close())

    @property
    def is_open(self) -> bool:
        """Whether the client is open, so that requests can be made."""
        return self._opening is not None and self._opening.is_open

    @property
    def is_plain(self) -> bool:
        """Whether requests go over plain HTTP because no socket could be opened; after `close`, whether they did."""
        return self._was_plain if self._opening is None else self._opening.is_plain

    def opening(self) -> Connection:
        """Return the open connection; raise `NoClient` when the client is not open."""
        opening = self._opening
        if opening is not None and opening.is_open:
            return opening
        raise NoClient(f"{self!r} is not open: {how_to_open(opening)}")

    def http(self) -> "HttpChannel":
        """Return the client's HTTP connections, which lists and the HTTP fallback use; raise `NoClient`."""
        return self.opening().http()

    async def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in the event loop in which the client is open; raise `NoClient` when it is not open."""
        try:
            opening = self.opening()
        except NoClient:
            work.close()
            raise
        return await opening.run(work)

    async def call(self, op: str, fields: Mapping[str, Any] | None = None, *, resend: bool = True) -> Any:
        """Make one request of the protocol, over the socket or else over HTTP, and return the raw answer.

        With `resend=False` a request whose answer may be lost is not repeated: it raises `ConnectionLost`. Raises
        `InvalidArguments`, which names the place, for fields that can't be sent, and what every request raises.
        """
        opening = self.opening()
        body = fields if op in _CHECKED else plain_request(op, fields or {})
        return await opening.run(opening.call(op, body, resend=resend))

    async def request(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        """Send one request over HTTP and return the answer's JSON; like `HttpChannel.request`. May raise `NoClient`."""
        opening = self.opening()
        return await opening.run(opening.request(method, path, body, **how))

    async def submit(self, bound: Bound[R], *, options: Options | None = None, wait: bool = False) -> TaskHandle[R]:
        """Submit `task.bind(…)` and return its handle; `options` override the bound ones.

        With `wait` the server pushes the result unasked, which saves a request if you await it anyway. A missing job is
        registered if the token allows it. Raises `JobNotFound`, `InvalidPayload`, `TaskConflict`, `Forbidden` and
        `ConnectionFailed`; `DuplicateTask` when this process has already used a task of this name from another module
        with this server; and, for an encrypted task, `NoCodec`, and `InvalidArguments` for a value that can't be a
        limit's key.
        """
        check_bound(bound)
        self._names.check(bound.task)
        if self.opening().is_plain:
            return (await self.submit_many([bound], options=options, wait=wait))[0]
        task = bound.task
        item = self._item_of(bound, options)
        room = self.room or task.job.room
        with tracing.submitting([item]):
            return await self._registering({task}, lambda: self._batched(room, item, task, wait=wait))

    async def submit_many(
        self,
        bounds: Iterable[Bound[R]],
        *,
        options: Options | None = None,
        wait: bool = False,
        room: str | None = None,
    ) -> list[TaskHandle[R]]:
        """Submit many tasks in one request, all or none (of each 10,000); raises as `submit` does.

        They are submitted from `room`; by default from the client's room, or else from that of their jobs.
        """
        given = checked_bounds(bounds)
        for bound in given:
            self._names.check(bound.task)
        items = [self._item_of(bound, options) for bound in given]
        room = room or self.room or common_room(given)
        tasks = [bound.task for bound in given]
        return await self._send(room, items, tasks, wait=wait)

    async def submit_raw(
        self, job: str, payload: Mapping[str, Any], *, options: Options | None = None,
        arguments_from: Mapping[str, str] | None = None, wait: bool = False,
    ) -> TaskHandle[Any]:  # fmt: skip
        """Submit to a job by its full name, `room:category:name`, with a JSON payload; raises as `submit` does.

        `arguments_from` maps arguments to names in the task's `depends_on`: each of these arguments is the result of
        that task. A client with keys first reads the job, once, to learn whether its tasks are encrypted; if they are,
        it checks the payload itself and raises `InvalidArguments`.
        """
        name = job_named(job)
        room = self.room or name.room
        plain = plain_request(job, {"payload": payload, "arguments_from": arguments_from})
        item = item_of(str(name), plain["payload"], options, plain["arguments_from"])
        item["payload"] = await self._named_jobs.payload(
            self, str(name), room, item["payload"], of=item["id"], later=plain["arguments_from"] or {}
        )
        try:
            return (await self._send(room, [item], [None], wait=wait))[0]
        except InvalidPayload:
            # The job's tasks may have become encrypted since it was read, or be no longer.
            self._named_jobs.forget()
            raise

    def handle(self, task_id: GivenId) -> TaskHandle[Any]:
        """Return a handle of a task that was submitted before, without asking the server."""
        return TaskHandle(self, task_id)

    def expect(self, task_id: GivenId) -> TaskHandle[Any]:
        """Return a handle of a task that may be submitted later, for example one still in an outbox.

        Where a handle of `handle(task_id)` raises `TaskNotFound`, this one goes on waiting: give `result` and `wait` a
        timeout.
        """
        return TaskHandle(self, task_id, is_coming=True)

    async def register(self, task: Submittable, *, replace: bool = False) -> JobItem:
        """Register a task's job with its schema and defaults; raises `SchemaConflict`, `Forbidden`, `InvalidCategory`.

        Warns when a function of another module was registered as this job. Raises `DuplicateTask` as `submit` does, and
        `InvalidArguments` if `task` is not a task.
        """
        check_task(task)
        self._names.check(task)
        fields = task.registration(self.settings, replace=replace)
        item = read(JobItem, registered := await self.call("register", {"room": task.job.room, **fields}))
        self._names.compare([registered])
        return item

    async def runs(self, task_id: GivenId) -> list[RunItem]:
        """Return the attempts at a task, oldest first; raises `TaskNotFound`."""
        answer = await self.call("runs", {"id": task_id_of(task_id)})
        with reading():
            return [RunItem.model_validate(opened_texts(self.sealer, item)) for item in answer["items"]]

    async def logs(self, task_id: GivenId) -> list[LogItem]:
        """Return the last 1,000 lines that a task's code logged, oldest first; raises `TaskNotFound`."""
        answer = await self.call("logs", {"id": task_id_of(task_id)})
        with reading():
            return [LogItem.model_validate(opened_texts(self.sealer, item)) for item in answer["items"]]

    async def ping(self) -> dict[str, Any]:
        """Ask the server for its time, to check that it answers."""
        return dict(await self.call("ping"))

    def ending(self, task_id: GivenId, *, is_coming: bool = False) -> "asyncio.Future[RawTask]":
        """Return a future, in the client's loop, of a task's end, which is pushed. Raises `NoClient`, and as `get`."""
        return self.opening().waiters.wait(task_id_of(task_id), is_coming=is_coming)

    def _item_of(self, bound: Bound[Any], options: Options | None) -> dict[str, Any]:
        item = item_of(bound.task.full_name, bound.payload, over(options, bound.options), bound.arguments_from)
        return sealed_item(self.sealer, item, bound.task) if bound.task.encrypted else item

    async def _send(
        self, room: str, items: list[dict[str, Any]], tasks: Sequence[Submittable | None], *, wait: bool
    ) -> list[TaskHandle[Any]]:
        """Send tasks, all or none of each request, and return their handles."""
        of_tasks = {task for task in tasks if task is not None}
        with tracing.submitting(items):
            return await self._registering(of_tasks, lambda: self._send_all(room, items, tasks, wait=wait))

    async def _send_all(
        self, room: str, items: list[dict[str, Any]], tasks: Sequence[Submittable | None], *, wait: bool
    ) -> list[TaskHandle[Any]]:
        waiters = (opening := self.opening()).waiters
        # A result may be pushed before the answer to the submit has been read, so register the waiters first.
        endings = {item["id"]: waiters.expect(item["id"]) for item in items} if wait and not opening.is_plain else {}
        answers: list[RawTask] = []
        try:
            for start in range(0, len(items), MOST_OF_REQUEST):
                part = items[start : start + MOST_OF_REQUEST]
                # Safe to send again after a lost answer: the same ids with the same content are the same tasks.
                answer = await opening.call("submit", {"room": room, "tasks": part, "wait": wait, "brief": True})
                answers += receipts(answer, len(part))
        except BaseException:
            waiters.forget(endings)
            raise
        if opening.is_plain:
            waiters.forget(endings)
            endings = {}
        # A unique key may have led to an older task, whose end was not asked for.
        waiters.forget(endings.keys() - {answer["id"] for answer in answers})
        return [
            TaskHandle(
                self,
                answer["id"],
                returns=None if task is None else task.signature.returns,
                submitted=answer,
                ending=endings.get(answer["id"]),
                item=item,
            )
            for answer, task, item in zip(answers, tasks, items, strict=True)
        ]

    async def _batched(self, room: str, item: dict[str, Any], task: Submittable, *, wait: bool) -> TaskHandle[Any]:
        """Send one task, in one request with everything else submitted in this turn of the loop."""
        opening = self.opening()
        ending = opening.waiters.expect(item["id"]) if wait else None
        try:
            receipt = await opening.batcher.add(room, item, wait=wait)
        except BaseException:
            opening.waiters.forget([item["id"]])
            raise
        if receipt["id"] != item["id"]:
            # A unique key led to an older task, whose end was not asked for.
            opening.waiters.forget([item["id"]])
            ending = None
        return TaskHandle(
            self, receipt["id"], returns=task.signature.returns, submitted=receipt, ending=ending, item=item
        )

    async def _registering(self, tasks: set[Submittable], send: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Send; if a job was missing that these tasks' registrations may create, register them and send again."""
        try:
            return await self.opening().run(send())
        except JobNotFound as missing:
            if not (tasks and self._register_missing):
                raise
            for task in tasks:
                try:
                    await self.register(task)
                except Forbidden as forbidden:
                    raise missing from forbidden
            return await self.opening().run(send())
        except InvalidPayload as refused:
            if tasks:
                refused.add_note(OTHER_VERSION)
            raise

    async def _opened(self) -> Connection:
        """Return the connection, with one more holder; if cancelled meanwhile, leave none open behind."""
        opening = self._opening
        if opening is None or not opening.is_open:
            if opening is not None:
                opening.abandon()
            opening = self._opening = Connection(self._urls, self._bearer, patience=self._patience)
        opening.holders += 1
        try:
            await opening.start()
        except BaseException:
            opening.holders -= 1
            if opening.holders <= 0 and not opening.is_kept:
                opening.end()
            raise
        if self._is_default:
            open_clients.show(self)
        return opening
