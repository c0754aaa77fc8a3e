"""The page of metrics that Prometheus scrapes."""

from starlette.responses import Response

from treadle_server.api.call import Call
from treadle_server.services.metrics import CONTENT_TYPE


async def metrics(call: Call) -> Response:
    """Get the metrics in Prometheus' text format."""
    return Response(await call.ctx.metrics.page(), headers={"Content-Type": CONTENT_TYPE})
