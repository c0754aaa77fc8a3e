"""Downloads are compared with what was stored, whatever a proxy has made of the tag that says so."""

import asyncio
import threading
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from treadle.client import downloads
from treadle.client.downloads import download
from treadle.errors import ProtocolMismatch
from treadle.transport.http import HttpChannel

pytestmark = pytest.mark.anyio

DIGEST = sha256(b"hello").hexdigest()


def left(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@pytest.mark.parametrize("tag", [f'"{DIGEST}"', f'W/"{DIGEST}"'])
async def test_a_download_is_compared_by_a_tag_that_a_proxy_has_made_a_weak_one(tag: str, tmp_path: Path) -> None:
    body = b"hello"
    network = httpx.MockTransport(lambda _: httpx.Response(200, content=body, headers={"ETag": tag}))
    channel = HttpChannel(("http://server.invalid",), None, transport=network)

    saved = await download(channel, "/v1/artifact", tmp_path / "saved")
    body = b"HELLO"
    with pytest.raises(ProtocolMismatch, match="was stored"):
        await download(channel, "/v1/artifact", tmp_path / "other")
    await channel.close()

    assert saved.read_bytes() == b"hello"


async def test_a_download_that_is_cancelled_while_its_file_is_opened_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread opened it after that, and it stayed: open, and on the disk."""
    begun, goes_on = threading.Event(), threading.Event()
    opened: list[IO[bytes]] = []
    begin = downloads._begin

    def slow(*given: Any) -> IO[bytes]:
        begun.set()
        goes_on.wait()
        opened.append(begin(*given))
        return opened[0]

    monkeypatch.setattr(downloads, "_begin", slow)
    channel = HttpChannel(
        ("http://server.invalid",), None, transport=httpx.MockTransport(lambda _: httpx.Response(500))
    )
    saving = asyncio.create_task(download(channel, "/v1/artifact", tmp_path / "saved"))
    await asyncio.to_thread(begun.wait)

    saving.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await saving
    await channel.close()

    assert opened[0].closed
    assert left(tmp_path) == []
