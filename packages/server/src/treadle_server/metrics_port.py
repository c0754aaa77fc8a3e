"""A separate port for `/metrics` without a token, for a Prometheus that can't send one."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from treadle_server.access.addresses import names_loopback
from treadle_server.errors import StoreUnavailable
from treadle_server.services.metrics import CONTENT_TYPE, Metrics
from treadle_server.serving.connection_limits import ConnectionLimits
from treadle_server.serving.connections import HttpConnection
from treadle_server.serving.server import listen, url_of
from treadle_server.serving.turns import Turns
from treadle_server.settings import LOOPBACK

log = logging.getLogger(__name__)

MOST_AT_ONCE = 20
"""The most connections; beyond that the oldest is closed, as all of them are strangers'."""


class _Inner(uvicorn.Server):
    """A server beside another one, which handles the signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the other server."""
        yield


@contextlib.asynccontextmanager
async def metrics_port(metrics: Metrics, host: str, port: int) -> AsyncIterator[str]:
    """Answer `/metrics` on this port during the block, which receives the URL. Raises `PortTaken`.

    On a loopback address the Host header must be one too, against DNS rebinding by web pages.
    """

    async def page(request: Request) -> Response:
        if host in LOOPBACK and not names_loopback(request.headers.get("host", "")):
            return Response("the Host header must name localhost, 127.0.0.1 or [::1]", 403, media_type="text/plain")
        try:
            return Response(await metrics.page(), headers={"Content-Type": CONTENT_TYPE})
        except StoreUnavailable as error:
            return Response(error.detail, 503, media_type="text/plain")

    named = ("TREADLE_METRICS_HOST", "TREADLE_METRICS_PORT")
    with contextlib.closing(listen(host, port, named=named)) as listener:
        limits = ConnectionLimits(MOST_AT_ONCE, 0, allowing="nothing")
        # uvicorn's type asks for a class, but it only calls it.
        bounded: Any = partial(HttpConnection, limits=limits, turns=Turns())
        config = uvicorn.Config(
            Starlette(routes=[Route("/metrics", page)]),
            lifespan="off",
            log_level="warning",
            log_config=None,
            access_log=False,
            server_header=False,
            http=bounded,
            ws="none",
            timeout_graceful_shutdown=1,
        )
        server = _Inner(config)
        async with asyncio.TaskGroup() as group:
            group.create_task(server.serve([listener]), name="metrics")
            log.info("metrics at %s/metrics", url_of(listener))
            try:
                yield url_of(listener)
            finally:
                server.should_exit = True
