"""A worker for tests: it runs what is queued in the calling thread, one task after another, and then stops."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from treadle.encryption.codec import Codec
from treadle.encryption.fields import opened_claim, opened_task, sealed_report
from treadle.encryption.keys import codec_of
from treadle.encryption.sealer import Sealer
from treadle.errors import InvalidArguments, PayloadTooLarge, ValidationFailed, WouldBlock
from treadle.loops import has_loop
from treadle.settings import Settings, split_urls
from treadle.tasks import endings
from treadle.tasks.awaitables import Credential, Done
from treadle.tasks.content import Content, Uploading
from treadle.tasks.context import Context, check_end
from treadle.tasks.definition import Task
from treadle.tasks.dependencies import payload_of
from treadle.tasks.endings import Ending
from treadle.tasks.outcomes import Suspend
from treadle.tasks.registry import by_name
from treadle.tasks.verdicts import legible
from treadle.testing.inline_steps import InlineSteps
from treadle.transport.http import HttpChannel
from treadle.wire.artifacts import ArtifactItem
from treadle.wire.fields import MOST_WEIGHT
from treadle.wire.runs import Level
from treadle.wire.tasks import TaskItem
from treadle.worker.link import HttpLink
from treadle.worker.middleware import Middleware, chained, checked
from treadle.worker.reports import ENDS, is_untaken, refused
from treadle.worker.results import with_results
from treadle.worker.sealing import opened_results
from treadle.worker.uploads import Uploader

R = TypeVar("R")

MOST_REPORTS = 1000
"""How many reports one request carries; a run may make far more."""


class InlineWorker:
    """Claim the tasks of `tasks` over HTTP and run them here and now: breakpoints, mocks and coverage just work.

    Timeouts, cancels, budgets and isolation have no effect. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        tasks: Iterable[Task[..., Any]],
        *,
        url: str,
        token: str | None,
        resources: Any = None,
        middleware: Iterable[Middleware] = (),
        codec: Codec | None = None,
    ) -> None:
        self._tasks = by_name(tasks)
        self._urls = split_urls(url)
        self._token = token
        self._resources = resources
        self._middleware = checked(middleware)
        self._sealer = Sealer(codec or codec_of(Settings()))
        self._runner = asyncio.Runner()
        self._http: HttpChannel | None = None
        self._link: HttpLink | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run_all(self, limit: int = 1000) -> list[TaskItem]:
        """Run what is due until nothing is left or `limit` tasks were run; return each as it was after its run.

        Raises a `ProblemError` when the server refuses the worker or its jobs; `NoCodec` or `CantDecrypt` for an
        encrypted task; and `WouldBlock` in a coroutine, where you can use a thread:
        `await asyncio.to_thread(worker.run_all)`.
        """
        _check_thread("run_all")
        link = self._run(self._opened_link())
        ended: list[TaskItem] = []
        while len(ended) < limit and (claims := self._run(link.claim(1, wait=0))):
            ended += [self._ended(link, claim) for claim in claims]
        return ended

    def close(self) -> None:
        """Remove the worker from the server. Raises `WouldBlock` in a coroutine, as `run_all` does."""
        if self._http is not None:
            _check_thread("close")
            self._runner.run(self._close())
        self._runner.close()

    async def _opened_link(self) -> HttpLink:
        if self._link is None:
            self._http = HttpChannel(self._urls, self._token)
            self._link = HttpLink(self._http)
            settings = Settings()
            jobs = [{"room": task.job.room, **task.registration(settings)} for task in self._tasks.values()]
            await self._link.open({"worker": {"name": "inline", "concurrency": MOST_WEIGHT}, "jobs": jobs})
        return self._link

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        # In a copy of the caller's current context; by default the runner keeps the context of its first use.
        return self._runner.run(work, context=copy_context())

    def _ended(self, link: HttpLink, given: dict[str, Any]) -> TaskItem:
        """Run a claimed task, report it, and return its state afterwards."""
        is_encrypted = bool(given.get("encrypted"))
        whole = self._run(with_results(given, self._urls, given["credentials"]))
        claim = opened_results(self._sealer, opened_claim(self._sealer, whole) if is_encrypted else whole)
        ref = {"task_id": claim["id"], "run_id": claim["run_id"]}
        port = _InlinePort(claim, partial(self._upload, claim), partial(self._step_call, claim))
        ending = self._ending(self._tasks[claim["job_name"]], claim, port)
        said = [{**ref, "kind": "started"}, *({**ref, **report} for report in port.reports), {**ref, **ending}]
        return self._run(self._told(link, claim, said))

    def _ending(self, task: Task[..., Any], claim: dict[str, Any], port: "_InlinePort") -> Ending:
        """Run the code of a claimed task, within the middleware, and return its ending.

        Whatever the code raises is an ending, and so are arguments that don't fit; but `KeyboardInterrupt`, and the
        exceptions with which pytest ends a test, pass through. Raises `CantDecrypt` when an argument is another task's
        result that no key opens.
        """
        try:
            arguments = task.signature.arguments(payload_of(claim))
        except InvalidArguments as error:
            return endings.malformed(str(error))
        context = Context(
            claim, port, self._resources, urls=self._urls, codec=self._sealer.codec, is_async=task.is_async
        )
        first = (context,) if task.signature.wants_context else ()
        code = partial(task.function, *first, **arguments)
        try:
            if task.is_async or self._middleware:
                result = self._run(_within(self._middleware, task, claim, context, code))
            else:
                # Not in an event loop, as in a worker's thread: the code may start one, and Django's models refuse to
                # be used where one runs.
                result = _checked(task, claim, context, code())
            ending = endings.completed(result)
        except (Exception, Suspend, BaseExceptionGroup, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001 - its end
            ending = endings.raised(legible(error), task.verdicts)
        return ending if port.usage is None else ending | {"usage": port.usage}

    async def _told(self, link: HttpLink, claim: dict[str, Any], said: list[dict[str, Any]]) -> TaskItem:
        assert self._http is not None
        for first in range(0, len(said), MOST_REPORTS):
            await self._tell(link, claim, said[first : first + MOST_REPORTS])
        end = await self._http.request("GET", f"/v1/tasks/{claim['id']}")
        return TaskItem.model_validate(opened_task(self._sealer, end))

    async def _tell(self, link: HttpLink, claim: dict[str, Any], said: list[dict[str, Any]]) -> None:
        """Send reports, in halves if they are too large together; replace an ending that the server refuses."""
        sealed = [sealed_report(self._sealer, report) for report in said] if claim.get("encrypted") else said
        try:
            answers = await link.reports([report for report in sealed if report is not None])
        except (PayloadTooLarge, ValidationFailed) as error:
            if half := len(said) // 2:
                await self._tell(link, claim, said[:half])
                await self._tell(link, claim, said[half:])
                return
            answers = [refused(said[0], error)]
        if said[-1]["kind"] in ENDS and is_untaken(said[-1], answers[-1]):
            ref = {name: said[-1][name] for name in ("task_id", "run_id")}
            instead = endings.refused(said[-1]["kind"], answers[-1].get("detail"))
            await self._tell(link, claim, [{**ref, **instead}])

    def _step_call(self, claim: dict[str, Any], method: str, *args: Any) -> Any:
        """Keep or read steps at once, so that a step is stored before the code goes on."""

        async def work() -> Any:
            http = HttpChannel(self._urls, self._token)
            try:
                return await getattr(InlineSteps(HttpLink(http), self._sealer, claim), method)(*args)
            finally:
                await http.close()

        return _aside(work())

    def _upload(self, claim: dict[str, Any], content: Content) -> ArtifactItem:
        async def work() -> ArtifactItem:
            uploader = Uploader(self._urls, self._token)
            try:
                return await uploader.upload((claim["id"], claim["run_id"]), content)
            finally:
                await uploader.close()

        return _aside(work())

    async def _close(self) -> None:
        assert self._http is not None
        assert self._link is not None
        try:
            await self._link.close_worker()
        finally:
            await self._http.close()


def _check_thread(method: str) -> None:
    """Raise `WouldBlock` in a thread that runs an event loop."""
    if has_loop():
        raise WouldBlock(
            "an event loop is already running in this thread, as in an async test: use"
            f" `await asyncio.to_thread(worker.{method})`"
        )


def _aside(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in a loop of its own in another thread, as a function that is not async blocks this one."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()


class _InlinePort:
    """Collect what the code reports, in order, until it has ended."""

    def __init__(
        self, claim: dict[str, Any], upload: Callable[[Content], ArtifactItem], of_steps: Callable[..., Any]
    ) -> None:
        self._step_call = of_steps
        self._credential = Credential(claim["credentials"])
        self._upload = upload
        self.reports: list[dict[str, Any]] = []
        self.usage: float | None = None

    def progress(self, share: float | None, message: str | None) -> None:
        said = {"share": share, "message": message}
        self.reports.append({"kind": "progress", **{name: value for name, value in said.items() if value is not None}})

    def log(self, message: str, level: Level) -> None:
        self.reports.append({"kind": "logs", "lines": [{"level": level, "message": message}]})

    def spend(self, total: float) -> None:
        self.usage = total

    def save(self, checkpoint: Any) -> Awaitable[None]:
        return Done(self._step_call("save", checkpoint))

    def upload(self, content: Content) -> Uploading:
        return Uploading(self._upload(content))

    def credentials(self) -> Awaitable[str]:
        return self._credential

    def kept_steps(self) -> Awaitable[list[dict[str, Any]]]:
        return Done(self._step_call("kept"))

    def keep_step(self, step: dict[str, Any]) -> Awaitable[None]:
        return Done(self._step_call("keep", step))

    def receive(self, step: dict[str, Any]) -> Awaitable[dict[str, Any] | None]:
        return Done(self._step_call("receive", step))


async def _within(
    middleware: tuple[Middleware, ...],
    task: Task[..., Any],
    claim: dict[str, Any],
    context: Context,
    code: Callable[[], Any],
) -> Any:
    async def innermost() -> Any:
        result = code()
        return _checked(task, claim, context, await result if task.is_async else result)

    return await chained(middleware, context, innermost)()


def _checked(task: Task[..., Any], claim: dict[str, Any], context: Context, result: Any) -> Any:
    returned = task.signature.returns.write(result, "result")
    check_end(claim, context)
    return returned
