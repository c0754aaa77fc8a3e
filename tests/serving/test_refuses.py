"""What is no request is refused as everything else is: with a problem, and never in another request's place."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chaos.processes import Process, ServerProcess, stopped_at_the_end
from tests.serving.test_connection_limits import Raw
from tests.waiting import until
from treadle_server.testing import Served, serve


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(None, data_dir=tmp_path / "data") as served:
        yield served


async def answer_to(served: Served, sent: bytes) -> bytes:
    raw = await Raw.open(served)
    raw.writer.write(sent)
    return await raw.rest()


ONE_HOST = "an HTTP/1.1 request must have exactly one Host header (RFC 9112, 3.2)"


WEBSOCKET = (
    b"GET /v1/session HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
NO_BODY = "a request for a websocket must have no body"


@pytest.mark.parametrize(
    ("sent", "status", "detail"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400, ONE_HOST),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, ONE_HOST),
        (b"GET /v1/session HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 400, ONE_HOST),
        (b"no request\r\n\r\n", 400, "Invalid HTTP request received."),
        (b"CONNECT example.org:443 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "Invalid HTTP request received."),
        (WEBSOCKET + b"Content-Length: 5\r\n\r\n", 400, NO_BODY),
        (WEBSOCKET + b"Content-Length: 5\r\n\r\nhello", 400, NO_BODY),
        (WEBSOCKET + b"a: b\r\n" * 200 + b"\r\n", 431, "a request for a websocket may have 128 headers at most"),
        (WEBSOCKET + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, NO_BODY),
        (
            b"GET /healthz HTTP/1.1\r\nHost: a\r\na: " + b"a" * 9000,
            431,
            "a request's header may have 8192 bytes at most",
        ),
    ],
)
async def test_what_is_no_request_is_told_why_in_a_problem(
    served: Served, sent: bytes, status: int, detail: str, caplog: pytest.LogCaptureFixture
) -> None:
    head, _, body = (await answer_to(served, sent)).partition(b"\r\n\r\n")

    problem = json.loads(body)
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\ncontent-type: application/problem+json\r\n" in head
    assert (problem["type"], problem["status"], problem["detail"]) == ("about:blank", status, detail)
    assert problem["title"].encode() in head
    assert f"refused what 127.0.0.1 sent: {detail}" in [record.message for record in caplog.records]


async def test_the_log_says_once_from_where_something_other_than_a_request_came(tmp_path: Path) -> None:
    """Uvicorn's line names no address."""
    process = ServerProcess(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}")
    Process.start(process)

    with stopped_at_the_end(process):
        await until(process.log.read_text, lambda said: "Press Ctrl-C" in said, seconds=60)
        reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
        writer.write(b"\x16\x03\x01\x02\x00\x01")  # how a client of TLS begins
        await reader.read()
        writer.close()
        lines = await until(lambda: [line for line in process.log.read_text().splitlines() if "Invalid" in line])

    assert len(lines) == 1
    assert lines[0].endswith("refused what 127.0.0.1 sent: Invalid HTTP request received.")


async def test_a_client_of_before_http_1_1_needs_no_host(served: Served) -> None:
    assert b" 200 OK\r\n" in await answer_to(served, b"GET /healthz HTTP/1.0\r\n\r\n")


async def test_nobody_s_answer_is_that_to_what_stands_behind_his_request(served: Served) -> None:
    """It was taken for the answer that was still to come."""
    token = f"Host: treadle\r\nAuthorization: Bearer {served.token}\r\n"
    body = b'{"category": "tasks", "name": "a", "retain": true}'
    registers = f"PUT /v1/rooms/lab/jobs HTTP/1.1\r\n{token}Content-Length: {len(body)}\r\n\r\n".encode() + body

    answers = await answer_to(served, registers + b"no request\r\n\r\n")

    assert b" 400 Bad Request" not in answers
