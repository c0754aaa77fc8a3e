"""The composition root: settings -> store -> engine -> services -> Starlette, and the lifespan that runs them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route, WebSocketRoute

from treadle.wire.options import OF_JOB
from treadle_server.access.directory_use import in_use
from treadle_server.access.tokens import Access
from treadle_server.api.problems import (
    SESSION,
    no_socket_there,
    no_upgrade,
    on_http_exception,
    on_refused_upgrade,
)
from treadle_server.api.routes import ENDPOINTS
from treadle_server.api.routing import routes
from treadle_server.artifacts.artifacts import Artifacts
from treadle_server.clock import Clock, SystemClock
from treadle_server.engine.engine import Engine
from treadle_server.engine.rules import Rules, defaults_with
from treadle_server.errors import StoreUnavailable, TreadleError
from treadle_server.internal import executors as executing
from treadle_server.internal.bridge import Bridge
from treadle_server.internal.executors import Executors
from treadle_server.live.live import Live
from treadle_server.live.route import serve_session
from treadle_server.metrics_port import metrics_port
from treadle_server.operations.catalog import Catalog
from treadle_server.operations.context import OperationContext
from treadle_server.operations.waits import Waits
from treadle_server.private import make_directory
from treadle_server.services.leader import Leader
from treadle_server.services.metrics import Metrics
from treadle_server.services.rates import Rates
from treadle_server.services.recent import Recent
from treadle_server.services.relay.relay import Relay
from treadle_server.services.retention import Retention
from treadle_server.services.run import run_services
from treadle_server.services.traces import tell_waits
from treadle_server.settings import DATA_DIR, Settings
from treadle_server.store.read import failures as read_failures
from treadle_server.store.sqlite.lock import hold_lock
from treadle_server.store.store import SqlStore
from treadle_server.store.urls import parse_url, shown
from treadle_server.webhooks.addresses import networks
from treadle_server.webhooks.sender import Sender, Sends


def rules_of(settings: Settings, internal: Executors | None = None) -> Rules:
    """Return what the engine needs to know of the settings, and of the executors of `@internal` jobs."""
    return Rules(
        allowed_categories=frozenset(settings.allowed_categories),
        worker_timeout=settings.worker_timeout_seconds,
        defaults=defaults_with(**settings.model_dump(include=set(OF_JOB))),
        internal_jobs=frozenset() if internal is None else frozenset(internal.jobs()),
        internal_timeout=settings.internal_task_timeout_seconds,
        on_restart=settings.on_restart,
        needs_tokens=settings.auth == "token",
    )


def sender_of(engine: Engine, settings: Settings) -> Sender:
    """Return the sender of webhooks; it imports httpx when the first delivery is due."""
    timeout = settings.webhook_timeout_seconds

    def post() -> Sends:
        from treadle_server.webhooks.post import Post

        return Post(timeout=timeout, allowed=networks(settings.webhook_allowed_networks))

    return Sender(engine, post, attempts=settings.webhook_attempts, timeout=timeout)


class _Parts:
    """The parts of one server; they are made without the store, which `start` opens."""

    def __init__(self, settings: Settings, clock: Clock | None, internal: Executors | None) -> None:
        self.settings = settings
        self.store = store = SqlStore(settings.database_url, is_pooled=bool(settings.database_direct_url))
        self.engine = engine = Engine(
            store, rules_of(settings, internal), clock=clock, most_rows=settings.writer_max_rows
        )
        rates = Rates(engine.clock)
        self.ctx = ctx = OperationContext(
            settings=settings,
            engine=engine,
            access=Access(store, settings, engine.clock),
            catalog=Catalog(store),
            waits=Waits(),
            rates=rates,
            recent=Recent(),
            metrics=Metrics(engine, rates, most_jobs=settings.metrics_max_jobs),
            artifacts=Artifacts(settings.artifacts, settings.artifacts_directory),
            started_at=(clock or SystemClock()).now(),
        )
        self.live = live = Live(ctx)
        ctx.metrics.sessions = live.kinds
        ctx.metrics.states = ctx.states
        self.relay: Relay | None = None
        self.leader: Leader | None = None
        self.bridge: Bridge | None = None
        """Hands tasks to the executors of `@internal` jobs; set once there is an application, which they need."""
        if store.is_shared:
            direct_url = settings.database_direct_url or settings.database_url
            self.relay = relay = Relay(engine, direct_url)
            self.leader = Leader(direct_url)
            ctx.metrics.notices = relay.notices
            relay.exchange_absences(ctx.absences)
            relay.inbox.receiver.interests += [ctx.waits.awaits, live.results.awaits]

    async def start(self, stack: AsyncExitStack) -> None:
        """Open the store and run everything until the stack is closed, which ends all parts in reverse order."""
        self.engine.hub.begin()
        stack.enter_context(hold_lock(self.store.url))
        if self.leader is not None:
            stack.push_async_callback(self.leader.close)
            await self.leader.check()
        stack.push_async_callback(self.store.close)
        await self.store.open()
        if self.leader is not None and self.settings.database_direct_url:
            await self.leader.check_place(self.store)
        await self.ctx.access.prepare()
        stack.enter_context(in_use(self.settings.data_dir))
        await self.ctx.artifacts.prepare(self.store)
        stack.push_async_callback(self.ctx.artifacts.objects.close)
        stack.push_async_callback(self.ctx.catalog.checker.close)
        await stack.enter_async_context(self.engine.running())
        await self._start_services(stack)
        await stack.enter_async_context(self.live.running())
        if self.settings.metrics_port is not None:
            at = metrics_port(self.ctx.metrics, self.settings.metrics_host, self.settings.metrics_port)
            await stack.enter_async_context(at)
        if self.bridge is not None:
            await stack.enter_async_context(self.bridge.running())

    async def _start_services(self, stack: AsyncExitStack) -> None:
        ctx, engine, settings = self.ctx, self.engine, self.settings
        async with self.store.read() as connection:
            ctx.rates.recall(await read_failures.of_last_hour(connection, engine.clock.now()))
        for part in (ctx.catalog, ctx.waits, ctx.rates, ctx.recent):
            stack.callback(engine.hub.listen(part.on_commit))
        stack.callback(engine.hub.listen(tell_waits))
        sender = sender_of(engine, settings)
        await stack.enter_async_context(sender.running())
        ctx.services = await stack.enter_async_context(
            run_services(
                engine,
                sweeper_interval=settings.sweeper_interval_seconds,
                worker_timeout=settings.worker_timeout_seconds,
                relay=self.relay,
                leader=self.leader,
                objects=ctx.artifacts.objects,
                others=[Retention(engine, settings.retention, ctx.artifacts.objects), sender],
            )
        )


def create_app(
    settings: Settings | None = None, *, clock: Clock | None = None, internal: Executors | None = None
) -> Starlette:
    """Return the application; its lifespan opens the store and runs the engine and the services.

    `internal` runs the tasks of `@internal` jobs: a `treadle.internal.InternalRegistry`; by default the one that the
    settings name. The application's parts are `app.state.ctx` and `app.state.live`, and `app.state.failure` is the
    reason why it could not start.

    Raises `ValidationFailed` for a data directory that can't be written, an unknown kind of database, an artifact
    store that can't be used, or invalid executors, and `InvalidCategory` for executors of jobs in a category that is
    not allowed.
    """
    settings = settings or Settings()
    if internal is not None:
        executing.check(internal)
    elif settings.internal:
        internal = executing.load(settings.internal)
    # Before the store creates it: nobody else may read the tasks.
    make_directory(settings.data_dir, name="the data directory", setting=DATA_DIR)
    parts = _Parts(settings, clock, internal)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await parts.start(stack)
            except StoreUnavailable as error:
                urls = filter(None, (settings.database_url, settings.database_direct_url))
                app.state.failure = f"{' or '.join(shown(parse_url(url)) for url in urls)}: {error.detail}"
                raise
            except TreadleError as error:
                app.state.failure = error.detail
                raise
            except OSError as error:  # of a file, such as the token or an artifact
                app.state.failure = f"the server can't start: {error}"
                raise
            yield

    app = Starlette(
        routes=[
            *routes(ENDPOINTS, parts.ctx),
            WebSocketRoute(SESSION, partial(serve_session, parts.live)),
            Route(SESSION, no_upgrade),
            WebSocketRoute("/{path:path}", no_socket_there),
        ],
        exception_handlers={HTTPException: on_http_exception, TreadleError: on_refused_upgrade},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    parts.bridge = parts.ctx.internal = None if internal is None else Bridge(parts.ctx, internal, app)
    app.state.ctx = parts.ctx
    app.state.live = parts.live
    app.state.failure = None
    return app
