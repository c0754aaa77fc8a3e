"""A worker that is started before its server can be reached: no TLS yet, or no name (N4)."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme

from tests.chaos.wires import wire_to
from tests.waiting import until
from tests.worker.conftest import settings_in
from tests.worker.jobs import double
from treadle import Client, Worker
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio


class Certificate(NamedTuple):
    """Of an authority of its own, in files."""

    authority: Path
    chain: Path
    key: Path


def certificate_in(directory: Path) -> Certificate:
    directory.mkdir()
    made = Certificate(*(directory / name for name in ("authority.pem", "chain.pem", "key.pem")))
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(made.authority)
    issued.cert_chain_pems[0].write_to_path(made.chain)
    issued.private_key_pem.write_to_path(made.key)
    return made


@asynccontextmanager
async def stranger(certificate: Certificate | None) -> AsyncIterator[str]:
    """Another program, that says something in plain text, or with a certificate of its own; gives its URL."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 somebody else\r\n")
        writer.close()

    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate.chain, certificate.key)
    async with await asyncio.start_server(say, "127.0.0.1", 0, ssl=context) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def started(url: str, **how: Any) -> AsyncIterator[Worker]:
    """A worker that may not be open yet; one that ends by itself fails the test."""
    worker = Worker([double], url=url, drain_grace=0.5, **how)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(worker.run_async())
        yield worker
        assert not running.done()
        worker.stop()


async def _comes_up(worker: Worker, client: Client) -> None:
    async with asyncio.timeout(20):
        await worker.ready.wait()
    assert await (await client.submit(double.bind(3))).result(timeout=20) == 6


async def test_a_worker_waits_for_tls_that_is_not_ready_n4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """First its connections are reset, then they are answered in plain text, then with a certificate of a stranger."""
    ours, strange = certificate_in(tmp_path / "ours"), certificate_in(tmp_path / "strange")
    monkeypatch.setenv("SSL_CERT_FILE", str(ours.authority))
    async with AsyncExitStack() as stack:
        plain = await stack.enter_async_context(stranger(None))
        untrusted = await stack.enter_async_context(stranger(strange))
        files = {"tls_cert": ours.chain, "tls_key": ours.key}
        server = await stack.enter_async_context(serve(data_dir=tmp_path / "data", **files))
        wire = await stack.enter_async_context(wire_to(plain))
        await wire.begin("reset")
        url = wire.url.replace("http:", "https:")
        worker = await stack.enter_async_context(started(url, token=server.token))
        client = await stack.enter_async_context(Client(server.url, server.token))

        await until(lambda: wire.met >= 3)
        await wire.restore()
        await until(lambda: "WRONG_VERSION_NUMBER" in caplog.text or "record layer failure" in caplog.text)
        wire.lead_to(untrusted)
        await until(lambda: "is not trusted here" in caplog.text)
        wire.lead_to(server.url)

        await _comes_up(worker, client)
    assert "SSL_CERT_FILE" in caplog.text
    assert "a defect" not in caplog.text


@pytest.mark.parametrize("token", ["given", "found"])
async def test_a_worker_waits_for_a_name_that_does_not_resolve_yet_n4(
    token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With a token that is shown wherever the name leads, and with this machine's, for which it is looked up before."""
    monkeypatch.delenv("TREADLE_TOKEN", raising=False)
    loop = asyncio.get_running_loop()
    look_up, is_known, asked = loop.getaddrinfo, False, 0

    async def getaddrinfo(host: Any, port: Any, **how: Any) -> Any:
        nonlocal asked
        if host != "treadle.test":
            return await look_up(host, port, **how)
        asked += 1
        if is_known:
            return await look_up("127.0.0.1", port, **how)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(data_dir=tmp_path / "data"))
        named = server.url.replace("127.0.0.1", "treadle.test")
        how = {"token": server.token} if token == "given" else {"settings": settings_in(tmp_path / "data")}
        worker = await stack.enter_async_context(started(named, **how))
        client = await stack.enter_async_context(Client(server.url, server.token))

        await until(lambda: asked >= 3)
        assert not worker.ready.is_set()
        is_known = True

        await _comes_up(worker, client)
    assert "Name or service not known" in caplog.text
    assert "treadle.test" in caplog.text
