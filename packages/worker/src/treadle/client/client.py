"""The asynchronous client: submits tasks, waits for their results, and steers them."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar

from treadle import tracing
from treadle.client import open_clients
from treadle.client.admin import Admin
from treadle.client.bound import Bound, Submittable
from treadle.client.connection import Connection
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
"""Requests whose tasks were checked one by one when they were made."""


class Client(Queries, Steering, Flows, Scheduling, Limiting, Admin):
    """Submits, awaits and steers tasks: `async with Client() as client:`, or from `open` to `close`.

    - `url`, `token`: by default `TREADLE_URL` and `TREADLE_TOKEN`, then a server on this machine, whose own token is
      sent to loopback addresses only. `token` may be a coroutine function that returns the current one; then
      everything goes over plain HTTP.
    - `room`: where tasks are submitted from; by default each task's own room.
    - `register_missing`: whether a submit registers a job that the server does not know.
    - `patience`: seconds for which a broken connection is mended, or a server without its database asked again,
      before requests fail.
    - `default`: whether `current_client`, and so `task.submit(…)`, finds it everywhere, or only in its own blocks.
    - `codec`: the keys of encrypted tasks; by default those of `TREADLE_ENCRYPTION_KEYS`, if any.

    The first request that wants a socket opens it; where that fails, plain HTTP does the same. A client may be used
    from the event loops of other threads, its blocks may be nested, and it may be opened again after it was closed.

    Requests raise `NoClient` while it is not open, and in a forked process; `ConnectionFailed` when no server was
    reached or no token found for `patience`, at once if no server has answered yet; the `ProblemError` of a server
    that refuses; and `TaskNotFound`, before anything is sent, for what can't be a task's id. The constructor raises
    `InvalidSetting` for an invalid URL, token, room or key, and `ValueError` for an invalid `patience`.
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
        raise TypeError("a client has a connection, which no other process can have: make one in each")

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
        """Open the client until `close`, and return it; nothing happens when it is open already."""
        opening = await self._opened()
        opening.is_kept = True
        opening.holders -= 1
        return self

    async def close(self) -> None:
        """Close the client, whoever has opened it; nothing happens when it is closed."""
        opening, self._opening = self._opening, None
        open_clients.hide(self)
        self._names.clear()
        self._named_jobs.forget()
        if opening is None:
            return
        if opening.pid != process_number() or opening.loop.is_closed():
            opening.forsake()
        else:
            self._was_plain = opening.is_plain
            await opening.run(opening.close())

    @property
    def is_open(self) -> bool:
        """Whether requests can be made."""
        return self._opening is not None and self._opening.is_open

    @property
    def is_plain(self) -> bool:
        """Whether everything goes, or went until it was closed, over plain HTTP, because no socket could be opened."""
        return self._was_plain if self._opening is None else self._opening.is_plain

    def opening(self) -> Connection:
        """Return what the client has while it is open; raise `NoClient` when it is not."""
        opening = self._opening
        if opening is not None and opening.is_open:
            return opening
        how = "use it inside `async with client:`, of a SyncClient `with client:`, or between its open() and close()"
        if opening is not None and opening.pid != process_number():
            how = f"it was opened in process {opening.pid}, which this one was forked from: open it here too"
        raise NoClient(f"{self!r} is not open: {how}")

    def http(self) -> "HttpChannel":
        """Return the client's HTTP connections, which lists and the fall-back use; raise `NoClient`."""
        return self.opening().http()

    async def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in the event loop that the client is open in; raises `NoClient` when it is not open."""
        try:
            opening = self.opening()
        except NoClient:
            work.close()
            raise
        return await opening.run(work)

    async def call(self, op: str, fields: Mapping[str, Any] | None = None, *, resend: bool = True) -> Any:
        """Make one request of the protocol, over the socket or else over HTTP, and return its answer as it is.

        With `resend=False` a request whose answer may be lost is not made again: it raises `ConnectionLost`. Raises
        `InvalidArguments` for fields that can't be sent, and names the place; otherwise as every request.
        """
        opening = self.opening()
        body = fields if op in _CHECKED else plain_request(op, fields or {})
        return await opening.run(opening.call(op, body, resend=resend))

    async def request(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        """Send one request over HTTP and return the answer's JSON; as `HttpChannel.request`, and raises `NoClient`."""
        opening = self.opening()
        return await opening.run(opening.request(method, path, body, **how))

    async def submit(self, bound: Bound[R], *, options: Options | None = None, wait: bool = False) -> TaskHandle[R]:
        """Submit `task.bind(…)` and return its handle; `options` go over the bound ones.

        `wait` has the result pushed without being asked for, which saves a request when it is awaited anyway. A job
        that is missing is registered when the token may. Raises `JobNotFound`, `InvalidPayload`, `TaskConflict`,
        `Forbidden` and `ConnectionFailed`, `DuplicateTask` when this process has another module's task of this name at
        the server, and for an encrypted task `NoCodec`, and `InvalidArguments` for what can be no limit's key.
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
        """Submit many tasks, all or none (of each 10,000), in one request; raises as `submit`.

        They are submitted from `room`; left out, from the client's, or the one that their jobs stand in.
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
        """Submit to a job by its full name, `room:category:name`, with a JSON payload; raises as `submit`.

        `arguments_from` tells which arguments are results of what it `depends_on`, each with the name from there.
        A client with keys first reads the job, once, to learn whether its tasks are encrypted. Then it checks the
        payload itself, and raises `InvalidArguments`.
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
            # It may have become an encrypted one, or none any more.
            self._named_jobs.forget()
            raise

    def handle(self, task_id: GivenId) -> TaskHandle[Any]:
        """Return a handle of a task that was submitted before; nothing is asked of the server."""
        return TaskHandle(self, task_id)

    def expect(self, task_id: GivenId) -> TaskHandle[Any]:
        """Return a handle of a task that may be submitted later, as one that an outbox still has.

        Where `handle(task_id)` says `TaskNotFound`, its end is waited for: give `result` and `wait` a timeout.
        """
        return TaskHandle(self, task_id, is_coming=True)

    async def register(self, task: Submittable, *, replace: bool = False) -> JobItem:
        """Register a task's job, its schema and defaults; raises `SchemaConflict`, `Forbidden`, `InvalidCategory`.

        Warns when another module's function was registered as this job, and raises `DuplicateTask` as `submit`, and
        `InvalidArguments` for what is no task.
        """
        check_task(task)
        self._names.check(task)
        body = {"room": task.job.room, **task.registration(self.settings, replace=replace)}
        registered = await self.call("register", body)
        item = read(JobItem, registered)
        self._names.compare([registered])
        return item

    async def runs(self, task_id: GivenId) -> list[RunItem]:
        """Return the attempts at a task, first to last; raises `TaskNotFound`."""
        answer = await self.call("runs", {"id": task_id_of(task_id)})
        with reading():
            return [RunItem.model_validate(opened_texts(self.sealer, item)) for item in answer["items"]]

    async def logs(self, task_id: GivenId) -> list[LogItem]:
        """Return the last 1,000 lines that a task's code logged, first to last; raises `TaskNotFound`."""
        answer = await self.call("logs", {"id": task_id_of(task_id)})
        with reading():
            return [LogItem.model_validate(opened_texts(self.sealer, item)) for item in answer["items"]]

    async def ping(self) -> dict[str, Any]:
        """Ask for the server's time, to see that it answers."""
        answer: dict[str, Any] = await self.call("ping")
        return answer

    def ending(self, task_id: GivenId, *, is_coming: bool = False) -> "asyncio.Future[RawTask]":
        """Return the future of a task's end, in the client's loop, which is pushed. Raises `NoClient`, and as `get`."""
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
        opening = self.opening()
        waiters = opening.waiters
        # A result may be pushed before the submit's answer is read: its place is made first.
        endings = {item["id"]: waiters.expect(item["id"]) for item in items} if wait and not opening.is_plain else {}
        answers: list[RawTask] = []
        try:
            for start in range(0, len(items), MOST_OF_REQUEST):
                part = items[start : start + MOST_OF_REQUEST]
                body = {"room": room, "tasks": part, "wait": wait, "brief": True}
                # Sent again after a lost answer: the same ids with the same content are the same tasks.
                answers += receipts(await opening.call("submit", body), len(part))
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
        """Send one task, in one request with all that this turn of the loop submits."""
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
        """Send, and send once more when a job was missing that these tasks' registrations may have made."""
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
        """Return the connection, with one more holder; who is cancelled meanwhile leaves none open behind."""
        opening = self._opening
        if opening is None or not opening.is_open:
            if opening is not None:
                opening.forsake()
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
