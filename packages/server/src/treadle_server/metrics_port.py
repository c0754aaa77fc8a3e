"""A port of its own for `/metrics`, where nobody is asked for a token: for a Prometheus that can show none."""

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
"""Connections; of more, the first that came is closed: all of them are strangers'."""


class _Inner(uvicorn.Server):
    """A server beside another one, which has the signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them to it."""
        yield


@contextlib.asynccontextmanager
async def metrics_port(metrics: Metrics, host: str, port: int) -> AsyncIterator[str]:
    """Answer `/metrics` there during the block, which is given its URL. Raises `PortTaken`.

    At a loopback address it is for this machine alone, and so for no web page whose name was rebound to it.
    """

    async def page(request: Request) -> Response:
        if host in LOOPBACK and not names_loopback(request.headers.get("host", "")):
            return Response("answered to localhost, 127.0.0.1 and [::1] only", 403, media_type="text/plain")
        try:
            return Response(await metrics.page(), headers={"Content-Type": CONTENT_TYPE})
        except StoreUnavailable as error:
            return Response(error.detail, 503, media_type="text/plain")

    named = ("TREADLE_METRICS_HOST", "TREADLE_METRICS_PORT")
    with contextlib.closing(listen(host, port, named=named)) as listener:
        limits = ConnectionLimits(MOST_AT_ONCE, 0, allowing="nothing")
        # uvicorn's type says a class, and all that it does is to call it.
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
