"""What is left when a server goes."""

from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.server import ServerProtocol

from treadle_server.serving.connections import SocketConnection
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio


UPGRADE = (
    b"GET /v1/session HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def test_who_asks_for_a_socket_of_a_server_that_goes_is_told_to_come_later_n4(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(data_dir=tmp_path) as served:
        served.app.state.live.is_closing = True

        async with connect(f"ws{served.url.removeprefix('http')}/v1/session") as socket:
            await socket.wait_closed()

        assert (socket.close_code, socket.close_reason) == (1013, "this server is shutting down")
        assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    ("path", "origin", "status"), [("/v1/elsewhere", None, 404), ("/v1/session", "https://evil.example", 403)]
)
async def test_a_socket_that_is_refused_is_no_error_of_the_servers_n3(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, origin: str | None, status: int
) -> None:
    """Whoever asked for one filled the log with errors, without a token."""
    async with serve(data_dir=tmp_path) as served:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws{served.url.removeprefix('http')}{path}", origin=origin)  # type: ignore[arg-type]

    assert refused.value.response.status_code == status
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False


def test_a_request_for_a_socket_is_answered_but_once_though_the_server_goes_meanwhile() -> None:
    """Going it answers what is not answered; that the request's own code then gives up is no second answer."""
    connection = SocketConnection.__new__(SocketConnection)
    transport = connection.transport = Transport()  # type: ignore[assignment]
    connection.conn, connection.initial_response, connection.handshake_complete = ServerProtocol(), None, False
    connection.conn.receive_data(UPGRADE)

    connection.send_500_response()
    connection.send_500_response()

    assert transport.written.count(b"HTTP/1.1 500 ") == 1
