"""Connections before their TLS handshake are counted and bounded as all strangers' are."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import trustme

from tests.serving.test_connection_limits import PATIENCE, Raw
from treadle_server.serving import server
from treadle_server.testing import Served, serve

PLACES = 20


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


@pytest.fixture
async def served(authority: trustme.CA, tmp_path: Path) -> AsyncIterator[Served]:
    path = tmp_path / "certificate.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    options = {"max_connections": PLACES, "max_connections_per_address": 0}
    async with serve(None, data_dir=tmp_path / "data", tls_cert=path, **options) as served:
        yield served


async def test_handshakes_that_are_not_gone_on_with_keep_nobody_out_n3(
    served: Served, trusting: ssl.SSLContext
) -> None:
    """They were known to nobody for a minute, and took every file descriptor."""
    begun = [await Raw.open(served) for _ in range(2 * PLACES)]
    for raw in begun:
        raw.writer.write(b"\x16\x03\x01\x02\x00\x01")
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers, verify=trusting) as client:
        # Who comes has the place of the longest known stranger.
        ended = [await raw.rest() for raw in begun[: PLACES + 1]]

        assert (await client.get("/v1/tasks")).status_code == 200
    assert set(ended) == {b""}
    for raw in begun:
        raw.writer.close()


async def test_a_handshake_has_as_long_as_a_header_n3(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.2)
    path = tmp_path / "certificate.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    async with serve(None, data_dir=tmp_path / "data", tls_cert=path) as served:
        assert await (await Raw.open(served)).rest() == b""


async def test_what_comes_right_behind_a_handshake_is_read(served: Served, trusting: ssl.SSLContext) -> None:
    raw = await Raw.open(served)
    came, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(came, sent, server_hostname="127.0.0.1")
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                raw.writer.write(sent.read())
                came.write(await raw.reader.read(65_536))
            else:
                break
        # The end of the handshake is still to be sent: with the request.
        client.write(b"GET /healthz HTTP/1.1\r\nHost: treadle\r\nConnection: close\r\n\r\n")
        raw.writer.write(sent.read())
        answer = b""
        while b" 200 OK\r\n" not in answer:
            came.write(await raw.reader.read(65_536))
            while came.pending:
                try:
                    answer += client.read()
                except ssl.SSLWantReadError:
                    break
    raw.writer.close()
