"""The socket's one route, `/v1/session`: runs each session from its hello to its end, with all its operations."""

from starlette.websockets import WebSocket

from treadle_server.live import client_ops, observer_ops, worker_ops
from treadle_server.live.live import Live
from treadle_server.live.session import accept, converse

OPS = {**worker_ops.OPS, **client_ops.OPS, **observer_ops.OPS}


async def serve_session(live: Live, socket: WebSocket) -> None:
    """Serve one connection from its hello to its end. Raises `Forbidden`, which is the answer to its upgrade."""
    accepted = await accept(live, socket)
    if accepted is None:
        return
    session, first = accepted
    with live.pushing_to(session):
        await converse(session, first, OPS)
