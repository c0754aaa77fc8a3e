"""The server over TLS, with a certificate of one's own, and the SDK that trusts it."""

import asyncio
import ssl
import stat
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from pathlib import Path

import httpx
import pytest
import trustme
from click.testing import CliRunner
from pydantic import ValidationError

from tests.chaos.processes import Process, ServerProcess, stopped_at_the_end
from tests.waiting import until
from tests.worker.conftest import working_at
from treadle import Client, Context, task
from treadle.cli.group import treadle
from treadle.errors import ConnectionFailed, SocketRefused
from treadle.transport.bearer import Way
from treadle.transport.dialing import dial
from treadle_server.serving import server
from treadle_server.settings import Settings
from treadle_server.testing import Served, serve

EARLIER = datetime(2026, 1, 1, tzinfo=UTC)


class Certificates:
    """An authority, and a certificate of it for this machine."""

    def __init__(self, directory: Path) -> None:
        self.authority = directory / "authority.pem"
        self.cert, self.key = directory / "cert.pem", directory / "key.pem"
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1", "localhost")
        authority.cert_pem.write_to_path(self.authority)
        issued.cert_chain_pems[0].write_to_path(self.cert)
        issued.private_key_pem.write_to_path(self.key)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
async def secure(certificates: Certificates, tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(data_dir=tmp_path / "data", tls_cert=certificates.cert, tls_key=certificates.key) as served:
        yield served


async def test_the_sdk_trusts_the_authority_in_ssl_cert_file_on_its_socket_and_over_http_g10(
    secure: Served, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    assert secure.url.startswith("https://127.0.0.1:")

    async with Client(secure.url, token=secure.token, patience=0) as client:
        made = await client.create_token("someone")
        assert (await client.tokens()).total == 2
        assert "time" in await client.ping()

    assert made.user == "someone"
    assert stat.S_IMODE(secure.settings.token_file.stat().st_mode) == 0o600


@pytest.mark.crossed
async def test_each_of_many_handshakes_that_begin_at_once_is_done_on_the_loop_that_servers_have_g10(
    certificates: Certificates, tmp_path: Path
) -> None:
    """What a client says first comes with its connection, and uvloop reads it before anything else has its turn."""
    files = {"TREADLE_TLS_CERT": str(certificates.cert), "TREADLE_TLS_KEY": str(certificates.key)}
    process = ServerProcess(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}", **files)
    Process.start(process)
    context = ssl.create_default_context(cafile=certificates.authority)

    def ask(_: int) -> int:
        with closing(HTTPSConnection("127.0.0.1", process.port, timeout=60, context=context)) as connection:
            connection.request("GET", "/healthz")
            return connection.getresponse().status

    with stopped_at_the_end(process):
        await until(process.log.read_text, lambda said: "Press Ctrl-C" in said, seconds=60)
        with ThreadPoolExecutor(16) as threads:
            answers = await asyncio.to_thread(lambda: list(threads.map(ask, range(400))))

    assert set(answers) == {200}


async def test_a_handshake_has_as_long_as_a_header_n3(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had a minute, in which half-begun ones kept everybody out who came."""
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.2)
    async with serve(data_dir=tmp_path / "data", tls_cert=certificates.cert, tls_key=certificates.key) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
        writer.write(b"\x16\x03\x01\x02\x00\x01")

        async with asyncio.timeout(30):
            assert await reader.read() == b""
        writer.close()


async def test_a_file_is_uploaded_and_downloaded_by_the_authority_in_ssl_cert_file_g10(
    secure: Served, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uploads go to where the server says, by connections of their own, which knew the public authorities alone."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))

    @task(max_retries=0)
    async def save(ctx: Context) -> None:
        await ctx.upload(b"pixels", name="picture")

    async with working_at(secure.url, secure.token, save), Client(secure.url, token=secure.token) as client:
        handle = await client.submit(save.bind())
        await handle.result(timeout=60)
        saved = await handle.download("picture", tmp_path)

    assert saved.read_bytes() == b"pixels"


async def test_a_certificate_of_an_unknown_authority_is_refused_and_the_error_says_what_to_do_g9(
    secure: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)

    async with Client(secure.url, token=secure.token, patience=0) as client:
        for call in (client.ping, client.tokens):
            with pytest.raises(ConnectionFailed, match=r"not trusted here .*SSL_CERT_FILE"):
                await call()


@pytest.mark.parametrize(
    ("name", "days", "advice"),
    [
        ("queue.example", 1, r"another name .*: set TREADLE_URL to a name that it covers"),
        ("127.0.0.1", -1, r"is not valid now .*: renew it"),
    ],
)
async def test_a_certificate_of_a_trusted_authority_that_does_not_hold_is_refused_with_what_to_do_g9(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, days: int, advice: str
) -> None:
    """It was told to be of an authority that is to be named."""
    authority = trustme.CA()
    issued = authority.issue_cert(name, not_before=EARLIER, not_after=datetime.now(UTC) + timedelta(days=days))
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))

    async with (
        serve(data_dir=tmp_path / "data", tls_cert=tmp_path / "cert.pem") as served,
        Client(served.url, token=served.token, patience=0) as client,
    ):
        for call in (client.ping, client.tokens):
            with pytest.raises(ConnectionFailed, match=advice):
                await call()


async def test_plain_http_at_a_port_for_tls_is_told_with_the_address_that_it_is_g9(secure: Served) -> None:
    """It was told as a connection that broke."""
    plain = f"http{secure.url.removeprefix('https')}"

    with pytest.raises(SocketRefused, match=f"if it speaks TLS, set TREADLE_URL to {secure.url}$"):
        await dial(Way(plain), None)
    async with Client(plain, token=secure.token, patience=0) as client:
        for call in (client.ping, client.tokens):
            with pytest.raises(ConnectionFailed, match=f"if it speaks TLS, set TREADLE_URL to {secure.url}$"):
                await call()


async def test_a_handshake_that_is_refused_is_not_told_as_a_server_that_is_away_g9() -> None:
    """It was advised to start one."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"\x15\x03\x03\x00\x02\x02\x28")  # the alert handshake_failure (RFC 8446, 6)
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client(url, token="any", patience=0) as client:
            for call in (client.ping, client.tokens):
                with pytest.raises(ConnectionFailed, match=rf"^{url} speaks TLS, but not with this client .*HANDSHAKE"):
                    await call()


@pytest.mark.parametrize("text", [None, "no certificate"])
async def test_authorities_that_can_not_be_read_are_told_and_read_as_soon_as_they_can_g9(
    secure: Served, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """It was a traceback of the file's, and a defect to a worker."""
    named = tmp_path / "authority.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(named))
    if text is not None:
        named.write_text(text)

    async with Client(secure.url, token=secure.token, patience=0) as client:
        with pytest.raises(ConnectionFailed, match=rf"SSL_CERT_DIR \({named}\) can't be read"):
            await client.tokens()
        named.write_bytes(certificates.authority.read_bytes())
        assert (await client.tokens()).total == 1


async def shown_by(url: str) -> bytes:
    """Return the certificate that a server shows to who connects now."""
    at = httpx.URL(url)
    return ssl.PEM_cert_to_DER_cert(await asyncio.to_thread(ssl.get_server_certificate, (at.host, at.port or 0)))


def written(certificate: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.read_text())


async def test_a_certificate_that_is_renewed_is_shown_by_the_server_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was shown until the next start, long after its time."""
    caplog.set_level("INFO", "treadle_server")
    monkeypatch.setattr(server, "_RENEWAL_TICKS", 1)
    first = Certificates(tmp_path)
    async with serve(data_dir=tmp_path / "data", tls_cert=first.cert, tls_key=first.key) as served:
        before = await shown_by(served.url)
        assert before == written(first.cert)
        (tmp_path / "renewed").mkdir()
        renewed = Certificates(tmp_path / "renewed")

        renewed.cert.replace(first.cert)  # its key is still to come
        await until(lambda: "stays in use until this is fixed" in caplog.text)
        half = await shown_by(served.url)
        renewed.key.replace(first.key)
        await until(lambda: "is used from now on" in caplog.text)

        assert half == before
        assert await shown_by(served.url) == written(first.cert) != before


@pytest.mark.parametrize(("begins", "ends", "why"), [(-2, -1, "has expired"), (1, 2, "is not yet valid")])
async def test_a_server_says_that_its_certificate_does_not_hold_now_until_it_is_renewed_g9(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, begins: int, ends: int, why: str
) -> None:
    """It said nothing, and every client was refused by its own TLS."""
    caplog.set_level("INFO", "treadle_server")
    monkeypatch.setattr(server, "_RENEWAL_TICKS", 1)
    now = datetime.now(UTC)
    issued = trustme.CA().issue_cert(
        "127.0.0.1", not_before=now + timedelta(days=begins), not_after=now + timedelta(days=ends)
    )
    cert = tmp_path / "cert.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(cert)

    async with serve(data_dir=tmp_path / "data", tls_cert=cert):
        told = [record.message for record in caplog.records if "refuse" in record.message]
        assert len(told) == 1
        assert told[0].startswith(f"clients refuse the certificate {cert} (certificate {why}): renew it")

        trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(cert)
        await until(lambda: "is used from now on" in caplog.text)

    assert caplog.text.count("refuse") == 1


async def test_a_certificate_that_expires_under_a_running_server_is_logged_once_g9(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "_RENEWAL_TICKS", 1)
    ends = datetime.now(UTC) + timedelta(seconds=2)
    cert = tmp_path / "cert.pem"
    trustme.CA().issue_cert("127.0.0.1", not_after=ends).private_key_and_cert_chain_pem.write_to_path(cert)

    async with serve(data_dir=tmp_path / "data", tls_cert=cert) as served:
        await until(lambda: "certificate has expired" in caplog.text)
        for _ in range(3):
            await shown_by(served.url)

    assert caplog.text.count("refuse") == 1


async def test_plain_http_gets_no_answer_from_a_server_with_tls(secure: Served) -> None:
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.TransportError):
            await client.get(secure.url.replace("https", "http") + "/healthz")


def test_a_certificate_that_is_none_stops_the_server_with_a_word_on_what_to_do_g9(
    tmp_path: Path, certificates: Certificates
) -> None:
    words = ["server", "--port", "0", "--data-dir", str(tmp_path)]
    other = Certificates(tmp_path)
    for files in (
        ["--tls-cert", str(tmp_path / "none.pem")],
        ["--tls-cert", str(certificates.cert)],  # its key stands in another file
        ["--tls-cert", str(certificates.cert), "--tls-key", str(other.key)],
    ):
        result = CliRunner().invoke(treadle, [*words, *files])
        assert result.exit_code == 2, result.output
        assert f"can't use the certificate {files[1]}" in result.stderr
        assert ("holds the key too" in result.stderr) == ("--tls-key" not in files)
        assert not (tmp_path / "treadle.db").exists()
    with pytest.raises(ValidationError, match="without tls_cert"):
        Settings(tls_key=certificates.key, data_dir=tmp_path)
