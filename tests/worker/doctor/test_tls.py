"""Addresses that are written for the other scheme, and certificates that end."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from tests.worker.doctor.test_there import examined
from treadle_server.testing import serve


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    return made


def certificate(authority: trustme.CA, tmp_path: Path, days: float = 90) -> Path:
    path = tmp_path / "certificate.pem"
    issued = authority.issue_cert("127.0.0.1", not_after=datetime.now(UTC) + timedelta(days=days))
    issued.private_key_and_cert_chain_pem.write_to_path(path)
    return path


@pytest.mark.parametrize(("days", "grade"), [(10.5, "warn"), (15, "ok")])
async def test_a_certificate_that_ends_soon_is_found(
    days: float, grade: str, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(data_dir=tmp_path / "data", tls_cert=certificate(authority, tmp_path, days)) as served:
        found = await examined(served.url, monkeypatch, served.token)

    assert (found["server"].grade, found["certificate"].grade) == ("ok", grade)
    assert ("UTC: in 10.5 days" in found["certificate"].detail) == (grade == "warn")


async def test_an_http_address_of_a_server_that_speaks_tls_is_told_as_one(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(data_dir=tmp_path / "data", tls_cert=certificate(authority, tmp_path)) as served:
        found = await examined(served.url.replace("https", "http"), monkeypatch, served.token)

    assert found["server"].grade == "fail"
    assert found["server"].detail.endswith(f": if it speaks TLS, set TREADLE_URL to {served.url}")
    assert not found["server"].advice


async def test_an_https_address_of_a_server_that_speaks_no_tls_is_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(data_dir=tmp_path / "data") as served:
        found = await examined(served.url.replace("http", "https"), monkeypatch, served.token)

    assert found["server"].grade == "fail"
    assert "does not speak TLS ([SSL: WRONG_VERSION_NUMBER]" in found["server"].detail
    assert f"set TREADLE_URL to {served.url}, or" in found["server"].detail
