"""N3: before a token was accepted a connection may send little, in little time, and there are not endlessly many."""

import asyncio
import base64
import json
import os
import resource
import struct
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.live.sockets import connected
from tests.operations.heavy import watched
from tests.waiting import until
from treadle_server.serving import connection_limits, connections, server
from treadle_server.testing import Served, serve

PATIENCE = 20


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(None, data_dir=tmp_path / "data", max_connections=40, max_connections_per_address=0) as served:
        yield served


class Raw:
    """A connection by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, served: Served) -> "Raw":
        url = httpx.URL(served.url)
        return cls(*await asyncio.open_connection(url.host, url.port))

    async def upgrade(self, *more: str) -> bytes:
        """Ask for the session socket and return the answer's header."""
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            "GET /v1/session HTTP/1.1",
            "Host: treadle",
            "Connection: Upgrade",
            "Upgrade: websocket",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
            *more,
        ]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())
        async with asyncio.timeout(PATIENCE):
            return await self.reader.readuntil(b"\r\n\r\n")

    def frame(self, size: int, first: int = 0x81) -> None:
        """Begin a masked frame of so many bytes."""
        head = bytes([first, 0x80 | 127]) + struct.pack("!Q", size) if size > 65_535 else b""
        self.writer.write((head or bytes([first, 0x80 | 126]) + struct.pack("!H", size)) + bytes(4))

    async def rest(self) -> bytes:
        """Return what comes until the server closes the connection."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""
            finally:
                self.writer.close()


async def well(served: Served) -> None:
    """Fail unless the server, and its database, serve somebody who has just come."""
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers, timeout=PATIENCE) as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/v1/tasks")).status_code == 200


async def test_silent_connections_make_place_for_those_who_come(served: Served):
    silent = [await Raw.open(served) for _ in range(120)]

    await well(served)

    ended = await asyncio.gather(*(one.rest() for one in silent[:79]))
    assert set(ended) == {b""}
    for one in silent:
        one.writer.close()


@pytest.mark.parametrize("pieces", [[b"\xff"], [b'{"items', b'":\xc3']], ids=["one frame", "two frames"])
async def test_a_text_that_is_no_utf8_ends_its_connection_and_is_logged_nowhere(
    served: Served, caplog: pytest.LogCaptureFixture, pieces: list[bytes]
):
    raw = await Raw.open(served)
    await raw.upgrade()

    for n, piece in enumerate(pieces):
        is_last = n == len(pieces) - 1
        first = (0x80 if is_last else 0) | (1 if n == 0 else 0)
        raw.writer.write(bytes([first, 0x80 | len(piece)]) + bytes(4) + piece)

    # A close frame with code 1007, as RFC 6455 has it for data of the wrong kind.
    assert (await raw.rest())[:4] == b"\x88\x02\x03\xef"
    assert [record for record in caplog.records if record.levelno >= 30] == []
    await well(served)


async def test_those_with_a_token_stay_and_only_strangers_make_place(served: Served):
    async with connected(served) as socket:
        for _ in range(100):
            (await Raw.open(served)).writer.close()
        silent = [await Raw.open(served) for _ in range(60)]

        await socket.call("ping")

    for one in silent:
        one.writer.close()


async def test_an_upload_by_a_signed_url_makes_place_for_no_stranger(served: Served):
    async with httpx.AsyncClient(base_url=f"{served.url}/v1", headers=served.headers) as client:
        worker = (await client.post("/workers")).json()["id"]
        job = {"category": "tasks", "name": "render", "schema": {}, "worker_id": worker}
        name = (await client.put("/rooms/lab/jobs", json=job)).json()["full_name"]
        await client.post(f"/rooms/lab/tasks/{name}")
        task = (await client.post("/tasks/claim", json={"worker_id": worker})).json()["task"]["id"]
        wanted = {"name": "a.txt", "content_type": "text/plain", "content_length": 10}
        url = httpx.URL((await client.post(f"/tasks/{task}/runs/0/artifacts", json=wanted)).json()["put_url"])
    raw = await Raw.open(served)
    head = f"PUT {url.raw_path.decode()} HTTP/1.1", "Host: treadle", "Content-Type: text/plain", "Content-Length: 10"
    raw.writer.write("\r\n".join([*head, "Connection: close", "", "hello"]).encode())
    await until(lambda: served.app.state.ctx.artifacts.objects._coming)
    silent = [await Raw.open(served) for _ in range(60)]
    await well(served)

    raw.writer.write(b"hello")

    assert (await raw.rest()).startswith(b"HTTP/1.1 201 ")
    for one in silent:
        one.writer.close()


async def test_where_all_have_a_token_the_next_is_told_to_come_again(tmp_path: Path):
    async with serve(None, data_dir=tmp_path / "data", max_connections_per_address=2) as served:
        async with connected(served), connected(served), httpx.AsyncClient(base_url=served.url) as client:
            answer = await client.get("/healthz")
        async with connected(served) as again:
            await again.call("ping")

    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"


async def test_descriptors_are_kept_for_the_database(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))

    assert connection_limits._descriptors() == 128


async def test_a_header_that_comes_slowly_ends_in_time(served: Served, monkeypatch: pytest.MonkeyPatch):
    later = await Raw.open(served)
    later.writer.write(b"GET /healthz HTTP/1.1\r\nHost: treadle\r\n\r\n")
    assert b"200 OK" in await later.reader.readuntil(b"\r\n\r\n")

    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    silent, slow = [await Raw.open(served) for _ in range(2)]
    slow.writer.write(b"GET /healthz HTTP/1.1\r\nX-A: ")
    later.writer.write(b"\r\n")

    answers = await asyncio.gather(*(one.rest() for one in (silent, slow, later)))

    assert all(b"408 Request Timeout" in answer for answer in answers)
    await well(served)


async def test_what_is_left_of_a_refused_body_is_not_waited_for(served: Served, monkeypatch: pytest.MonkeyPatch):
    raw = await Raw.open(served)
    await well(served)
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    raw.writer.write(b"POST /v1/tasks/claim HTTP/1.1\r\nHost: treadle\r\nContent-Length: 1000\r\n\r\n{")

    assert b"401 Unauthorized" in await raw.rest()


async def test_an_idle_connection_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert connections.IDLE_SECONDS == 75
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.1)
    async with serve(None, data_dir=tmp_path / "data") as served:
        raw = await Raw.open(served)
        raw.writer.write(b"GET /healthz HTTP/1.1\r\nHost: treadle\r\n\r\n")

        answer = await raw.rest()

    assert answer.startswith(b"HTTP/1.1 200 OK")


LONG = {
    "one long header": b"X-A: " + b"a" * 9000 + b"\r\n",
    "many headers": b"".join(b"X-%d: %s\r\n" % (i, b"a" * 50) for i in range(200)),
    "a header without an end": b"X-A: " + b"a" * 200_000,
}


@pytest.mark.parametrize("kind", LONG)
async def test_a_long_header_is_refused(served: Served, kind: str):
    raw = await Raw.open(served)

    async with watched():
        raw.writer.write(b"GET /healthz HTTP/1.1\r\nHost: treadle\r\n" + LONG[kind] + b"\r\n")
        answer = await raw.rest()

    # What was not read when the server closes may reset the connection before its answer is.
    assert answer == b"" or b"431 Request Header Fields Too Large" in answer
    await well(served)


CHUNKED = b"POST /v1/tokens HTTP/1.1\r\nHost: treadle\r\nTransfer-Encoding: chunked\r\n"

BESIDE = {
    "a long trailer": b"2\r\n{}\r\n0\r\nX-A: " + b"a" * 20_000,
    "a long trailer in many fields": b"2\r\n{}\r\n0\r\n" + b"X-A: a\r\n" * 3000,
    "a long extension of a chunk": b"2;" + b"a" * 20_000,
}


@pytest.mark.parametrize("kind", BESIDE)
@pytest.mark.parametrize("is_stranger", [True, False])
async def test_what_a_body_in_chunks_has_beside_its_bytes_is_bounded(served: Served, kind: str, is_stranger: bool):
    """The parser keeps a trailer: of ten seconds of one a server kept 600 MB, for whoever had no token."""
    raw = await Raw.open(served)
    token = b"" if is_stranger else b"Authorization: Bearer %s\r\n" % served.token.encode()

    raw.writer.write(CHUNKED + token + b"\r\n")
    if is_stranger:
        async with asyncio.timeout(PATIENCE):
            assert b"401 Unauthorized" in await raw.reader.readuntil(b"\r\n\r\n")
    raw.writer.write(BESIDE[kind])
    async with asyncio.timeout(connections.HEADER_SECONDS / 2):
        answer = await raw.rest()

    assert b"HTTP/1.1" not in answer if is_stranger else answer == b"" or b"431 Request Header Fields" in answer
    await well(served)


async def test_a_long_body_in_chunks_is_none_of_what_stands_beside_it(served: Served):
    raw = await Raw.open(served)
    token = b"Authorization: Bearer %s\r\nConnection: close\r\n\r\n" % served.token.encode()
    body = json.dumps({"name": "a", "scopes": ["queue:read:lab"] * 90}).encode()

    raw.writer.write(CHUNKED + token + b"".join(b"1;why=that\r\n%c\r\n" % one for one in body) + b"0\r\n\r\n")

    assert (await raw.rest()).startswith(b"HTTP/1.1 201 Created")


async def test_a_trailer_is_no_header(served: Served):
    """Its token would be heard behind a proxy that lets only its own through."""
    raw = await Raw.open(served)
    trailer = b"Authorization: Bearer %s\r\n\r\n" % served.token.encode()

    raw.writer.write(CHUNKED + b"Connection: close\r\n\r\n2\r\n{}\r\n0\r\n" + trailer)

    assert (await raw.rest()).startswith(b"HTTP/1.1 401 Unauthorized")


async def test_requests_with_bodies_in_one_piece_are_none_with_long_headers(served: Served):
    body = json.dumps({"name": "a" * 20_000}).encode()
    head = b"POST /v1/tokens HTTP/1.1\r\nHost: treadle\r\nContent-Length: %d\r\n\r\n" % len(body)
    raw = await Raw.open(served)

    raw.writer.write((head + body) * 2 + b"GET /healthz HTTP/1.1\r\nHost: treadle\r\nConnection: close\r\n\r\n")
    answers = await raw.rest()

    assert (answers.count(b"401 Unauthorized"), answers.count(b"200 OK")) == (2, 1)


@pytest.mark.parametrize("size", [64 * 1024 + 1, 16 * 1024 * 1024])
async def test_a_large_first_frame_is_refused_by_its_header_alone(served: Served, size: int):
    raw = await Raw.open(served)
    assert b"101 Switching Protocols" in await raw.upgrade()

    async with watched():
        raw.frame(size)
        answer = await raw.rest()

    # A close frame with code 1009: the message is too big.
    assert answer[:1] == b"\x88"
    assert answer[2:4] == struct.pack("!H", 1009)
    await well(served)


async def test_a_first_message_in_many_small_frames_is_refused_as_well(served: Served):
    raw = await Raw.open(served)
    await raw.upgrade()

    for first in (0x01, *[0x00] * 19):
        raw.frame(60_000, first)
        raw.writer.write(bytes(60_000))
    answer = await raw.rest()

    assert answer == b"" or answer[2:4] == struct.pack("!H", 1009)


async def test_nothing_compressed_is_taken(served: Served):
    raw = await Raw.open(served)
    accepted = await raw.upgrade("Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits")
    assert b"permessage-deflate" not in accepted
    squeezed = zlib.compressobj(wbits=-15)
    bomb = squeezed.compress(b" " * 16 * 1024 * 1024) + squeezed.flush(zlib.Z_SYNC_FLUSH)

    async with watched():
        raw.frame(len(bomb), 0xC1)
        raw.writer.write(bomb)
        answer = await raw.rest()

    assert answer == b"" or answer[2:4] == struct.pack("!H", 1002)
    await well(served)


async def test_after_the_hello_a_frame_may_be_as_large_as_the_settings_allow(served: Served):
    url = served.url.replace("http", "ws") + "/v1/session"
    async with connect(url, compression="deflate") as socket:
        hello = {"op": "hello", "n": 0, "protocol": 1, "token": served.token}
        await socket.send(json.dumps({"items": [hello]}))
        assert "ok" in json.loads(await socket.recv())["items"][0]

        await socket.send(json.dumps({"items": [{"op": "ping", "n": 1, "much": "a" * 1_000_000}]}))
        answer = json.loads(await socket.recv())

    assert answer["items"][0]["re"] == 1


async def test_a_hello_without_a_token_that_is_valid_stays_a_strangers(served: Served):
    raw = await Raw.open(served)
    await raw.upgrade()
    hello = json.dumps({"items": [{"op": "hello", "n": 0, "protocol": 1, "token": "wrong"}]}).encode()

    raw.frame(len(hello))
    raw.writer.write(hello)
    answer = await raw.reader.readexactly(4)

    raw.writer.close()
    assert answer[2:4] == struct.pack("!H", 4401)


class Fake:
    """A connection that only the limits know."""

    def __init__(self, connection_limits: connection_limits.ConnectionLimits, address: str) -> None:
        self.address = address
        self.is_dropped = False
        self._limits = connection_limits

    def drop(self) -> None:
        self.is_dropped = True
        self._limits.leave(self)


def test_each_address_has_a_bound_of_its_own_but_for_proxies_that_are_trusted():
    entry = connection_limits.ConnectionLimits(100, 2, ("10.0.0.0/8",))
    mine = [Fake(entry, "192.0.2.1") for _ in range(3)]
    others = [Fake(entry, address) for address in ("192.0.2.2", "10.0.0.7", "10.0.0.7", "10.0.0.7")]

    assert all(entry.enter(one) for one in (*others, *mine))

    assert [one.is_dropped for one in mine] == [True, False, False]
    assert not any(one.is_dropped for one in others)


def test_places_are_counted_down_again():
    entry = connection_limits.ConnectionLimits(2, 2)
    for _ in range(10):
        one, other = Fake(entry, "192.0.2.1"), Fake(entry, "192.0.2.1")
        assert entry.enter(one)
        entry.trust(one)
        assert entry.enter(other)
        entry.trust(other)
        assert not entry.enter(Fake(entry, "192.0.2.1"))
        assert not entry.enter(Fake(entry, "192.0.2.3"))
        entry.leave(one)
        entry.leave(other)

    assert (dict(entry._of_address), dict(entry._strangers), dict(entry._strangers_of)) == ({}, {}, {})


def test_connections_that_are_all_taken_are_told_with_what_bounds_them(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """Workers were told to come again, and whoever runs the server nothing."""

    def told_by(entry: connection_limits.ConnectionLimits, *addresses: str) -> list[str]:
        caplog.clear()
        for address in addresses:
            entry.enter(Fake(entry, address))
        return [line.getMessage() for line in caplog.records]

    of_address = told_by(connection_limits.ConnectionLimits(9, 1), "192.0.2.1", "192.0.2.1")
    of_all = told_by(connection_limits.ConnectionLimits(1, 1), "192.0.2.1", "192.0.2.2")
    monkeypatch.setattr(connection_limits, "_descriptors", lambda: 1)
    of_files = told_by(connection_limits.ConnectionLimits(9, 1), "192.0.2.1", "192.0.2.2")

    [[one], [other], [another]] = of_address, of_all, of_files
    assert "all 1 connections of 192.0.2.1 are taken" in one
    assert "raise TREADLE_MAX_CONNECTIONS_PER_ADDRESS to allow more" in one
    assert "all 1 connections are taken" in other
    assert "raise TREADLE_MAX_CONNECTIONS to allow more" in other
    assert "LimitNOFILE" in another


async def test_a_session_outlives_the_time_that_a_header_has(served: Served, monkeypatch: pytest.MonkeyPatch):
    """The connection became a socket: nothing of HTTP is waited for on it any more."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 1.0)
    loop = asyncio.get_running_loop()

    async with connected(served) as socket:
        end = loop.time() + 1.2 * connections.HEADER_SECONDS
        await until(lambda: socket.call("ping"), lambda _: loop.time() > end, pause=0.05)

        assert (await socket.call("ping"))["time"]
