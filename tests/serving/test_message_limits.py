"""What is under way on all connections together is bounded: half-sent bodies, and half-sent messages of the socket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from tests.clients import PLAIN
from tests.live.sockets import connected
from tests.serving.test_connection_limits import PATIENCE, Raw
from treadle_server.operations import arriving
from treadle_server.testing import Served, serve

LARGEST = 1024 * 1024
HALF_SENT = 600 * 1024


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(None, data_dir=tmp_path / "data", max_body_bytes=LARGEST) as served:
        yield served


async def half_a_body(served: Served) -> Raw:
    raw = await Raw.open(served)
    head = ["POST /v1/workers HTTP/1.1", "Host: treadle", f"Content-Length: {LARGEST}"]
    head += [f"{name}: {value}" for name, value in served.headers.items()]
    raw.writer.write("\r\n".join([*head, "", ""]).encode() + b" " * HALF_SENT)
    return raw


async def half_a_message(served: Served) -> Raw:
    raw = await Raw.open(served)
    await raw.upgrade(*(f"{name}: {value}" for name, value in served.headers.items()))
    hello = b'{"items":[{"op":"hello","n":0,"protocol":1}]}'
    raw.writer.write(bytes([0x81, 0x80 | len(hello)]) + bytes(4) + hello)
    async with asyncio.timeout(PATIENCE):
        await raw.reader.readuntil(b"}}]}")
    raw.frame(LARGEST)
    raw.writer.write(b" " * HALF_SENT)
    return raw


@pytest.mark.parametrize(
    ("half", "told"),
    [(half_a_body, b"HTTP/1.1 429 "), (half_a_message, (1013).to_bytes(2, "big"))],
    ids=["bodies", "messages"],
)
async def test_half_sent_large_ones_are_kept_up_to_a_bound_and_the_one_too_many_is_told_to_come_again(
    served: Served, half: Callable[[Served], Awaitable[Raw]], told: bytes
) -> None:
    fit = arriving.WHOLE * LARGEST // HALF_SENT
    sent = [await half(served) for _ in range(fit + 1)]
    answers = [asyncio.ensure_future(raw.reader.read(1000)) for raw in sent]
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers, verify=PLAIN) as client:
        refused, kept = await asyncio.wait(answers, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)

        small = await client.post("/v1/workers", json={"name": "small"})
        for raw in sent:
            raw.writer.close()
        await asyncio.wait(kept, timeout=PATIENCE)
        large = await client.post("/v1/workers", content=b" " * HALF_SENT + b'{"name": "large"}')

    [answer] = [answer.result() for answer in refused]
    assert told in answer
    assert len(kept) == fit
    assert (small.status_code, large.status_code) == (201, 201)


async def test_a_large_message_counts_for_nothing_once_the_session_is_done_with_it(served: Served) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(2 * arriving.WHOLE):
            socket = await stack.enter_async_context(connected(served))
            assert await socket.refused("ping", data=" " * HALF_SENT) == "validation-error"
